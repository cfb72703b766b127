package files

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// verb is what an op does.
type verb string

// The verbs. Each is undone by looking at what is there:
//
//	put    move what is in the way to old/<n>, then the new entry into place
//	del    move the entry to old/<n>, perhaps only if it is what a deploy brought
//	rmdir  remove a directory if nothing is left in it
//	mkdir  make a directory
//	mode   change the mode of a directory
const (
	doPut   verb = "put"
	doDel   verb = "del"
	doRmdir verb = "rmdir"
	doMkdir verb = "mkdir"
	doMode  verb = "mode"
)

// op is one step of a commit, one line of the journal.
type op struct {
	N    int     `json:"n"`
	Do   verb    `json:"do"`
	Path pathStr `json:"path"`
	Ino  uint64  `json:"ino,omitempty"`  // put: of the new entry
	Dir  bool    `json:"dir,omitempty"`  // put: the new entry is a directory
	Old  bool    `json:"old,omitempty"`  // put: something is in the way
	Tree []leaf  `json:"tree,omitempty"` // put: what the directory holds, parents first
	Mode uint32  `json:"mode,omitempty"` // mkdir, mode: the new one
	Was  uint32  `json:"was,omitempty"`  // rmdir, mode: the old one
	Size int64   `json:"size,omitempty"` // put: of the new entry, in bytes
	Time int64   `json:"time,omitempty"` // put: when it was changed last, in nanoseconds
	Is   bool    `json:"is,omitempty"`   // del: only a file that has Size and Time still
}

// leaf is one entry of a directory that is put as a whole.
type leaf struct {
	Path pathStr `json:"p"`
	Ino  uint64  `json:"i"`
	Dir  bool    `json:"d,omitempty"`
	Size int64   `json:"s,omitempty"`
	Time int64   `json:"t,omitempty"`
}

// old is the name an op's original is kept under.
func (o op) old() string { return strconv.Itoa(o.N) }

// pathStr is a path in JSON. File names are bytes, and JSON would turn those
// that are not UTF-8 into something else.
type pathStr string

// MarshalText implements encoding.TextMarshaler.
func (p pathStr) MarshalText() ([]byte, error) {
	q := strconv.Quote(string(p))
	return []byte(q[1 : len(q)-1]), nil
}

// UnmarshalText implements encoding.TextUnmarshaler.
func (p *pathStr) UnmarshalText(text []byte) error {
	s, err := strconv.Unquote(`"` + string(text) + `"`)
	*p = pathStr(s)
	return err
}

// manifest is what the copy of a live tree was before the ZIP and the build
// touched it, by path.
type manifest map[string]meta

// meta identifies one state of one entry. The kernel sets the change time on
// every write, chmod and rename, and nobody can set it back. That of a file with
// several names is set too when another name of it comes or goes, which changes
// nothing here: of those the time of modification counts.
type meta struct {
	ino   uint64
	time  unix.Timespec
	size  int64
	mode  uint32
	links bool // it had several names

	brought bool // by an earlier deploy, and this one has it not: time is that of modification
}

func metaOf(st *unix.Stat_t, links bool) meta {
	m := meta{ino: st.Ino, time: st.Ctim, size: st.Size, mode: st.Mode, links: links}
	if links {
		m.time = st.Mtim
	}
	return m
}

// isDir reports whether the entry was a directory.
func (m meta) isDir() bool { return m.mode&unix.S_IFMT == unix.S_IFDIR }

// changed reports whether the entry at path is another than it was.
func (m manifest) changed(path string, st *unix.Stat_t) bool {
	was, ok := m[path]
	return !ok || was != metaOf(st, was.links)
}

// touch marks path as changed whatever its metadata say: the inode number of a
// replaced file may be used again at once, within one tick of the clock.
func (m manifest) touch(path string) {
	if was, ok := m[path]; ok {
		was.ino = 0
		m[path] = was
	}
}

// record makes the manifest of a tree.
func record(ctx context.Context, d dir) (manifest, error) {
	m := make(manifest)
	err := walk(ctx, d, func(v visit) error {
		m[v.path] = metaOf(&v.st, isFile(&v.st) && v.st.Nlink > 1)
		return nil
	})
	return m, err
}

// passTick returns when a change made in d gets a later change time than
// anything made before. The kernel stamps files with the time of its last
// timer tick, up to 10 ms old, so a build that is quick enough could otherwise
// change a file that then looks as if it had not.
func passTick(ctx context.Context, d dir) error {
	name := randName()
	f, err := d.create(name)
	if err != nil {
		return err
	}
	defer func() { _ = unix.Unlinkat(int(d), name, 0) }()
	defer f.Close()
	var first, now unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &first); err != nil {
		return err
	}
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
		err := errors.Join(unix.Fchmod(int(f.Fd()), 0o600), unix.Fstat(int(f.Fd()), &now))
		if err != nil || now.Ctim != first.Ctim {
			return err
		}
	}
}

// planner finds the ops that bring the difference between a source tree and
// its manifest into the live tree.
type planner struct {
	live  dir // the root, for what the build deleted
	was   manifest
	ops   []op
	seen  map[string]bool // paths the source has
	taken map[string]bool // paths of live directories that a put moves away

	budget *budget
}

// plan compares src with what it was and returns the ops in their order. A nil
// manifest makes everything in src new, which is the commit of a ZIP alone.
func plan(ctx context.Context, src, live dir, was manifest, b *budget) ([]op, error) {
	p := &planner{live: live, was: was, budget: b, seen: make(map[string]bool), taken: make(map[string]bool)}
	if err := p.compare(ctx, src, live, ".", 1); err != nil {
		return nil, err
	}
	if err := p.deletions(ctx); err != nil {
		return nil, err
	}
	for i := range p.ops {
		p.ops[i].N = i
	}
	return p.ops, nil
}

// compare plans the entries of one directory; live may be noDir.
func (p *planner) compare(ctx context.Context, src, live dir, path string, depth int) error {
	if depth > maxDepth {
		return errDeep
	}
	return src.each(func(name string) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		st, err := src.stat(name)
		if err != nil {
			return err
		}
		rel := join(path, name)
		if err := p.budget.spend(rel); err != nil {
			return err
		}
		switch {
		case isDir(&st):
			p.seen[rel] = true
			return p.directory(ctx, src, live, name, rel, &st, depth)
		case isFile(&st) || isLink(&st):
			p.seen[rel] = true
			if p.was.changed(rel, &st) {
				return p.put(live, name, op{Do: doPut, Path: pathStr(rel), Ino: st.Ino, Size: st.Size, Time: st.Mtim.Nano()})
			}
		}
		return nil // pipes, sockets and devices of a build stay behind
	})
}

// directory plans one directory of the source.
func (p *planner) directory(ctx context.Context, src, live dir, name, rel string, st *unix.Stat_t, depth int) error {
	was, known := p.was[rel]
	known = known && was.isDir()
	there, err := live.stat(name)
	if err != nil && !errors.Is(err, unix.ENOENT) {
		return err
	}
	missing := err != nil
	if !missing && isDir(&there) {
		if known && was.mode != st.Mode {
			p.add(op{Do: doMode, Path: pathStr(rel), Mode: st.Mode & permBits, Was: there.Mode & permBits})
		}
		return p.descend(ctx, src, live, name, rel, depth)
	}
	if !known {
		return p.putDir(ctx, src, live, name, rel, st)
	}
	// The program removed or replaced the directory since it was copied. What
	// it removed stays removed, but what the commit changed needs a place.
	mark := len(p.ops)
	if err := p.descend(ctx, src, noDir, name, rel, depth); err != nil || len(p.ops) == mark {
		return err
	}
	if !missing {
		p.ops = p.ops[:mark]
		return p.putDir(ctx, src, live, name, rel, st)
	}
	p.ops = slices.Insert(p.ops, mark, op{Do: doMkdir, Path: pathStr(rel), Mode: st.Mode & permBits})
	return nil
}

// descend plans what a directory holds.
func (p *planner) descend(ctx context.Context, src, live dir, name, rel string, depth int) error {
	below, err := src.sub(name)
	if err != nil {
		return err
	}
	defer below.close()
	there := noDir
	if live != noDir {
		if there, err = live.sub(name); err != nil {
			return err
		}
		defer there.close()
	}
	return p.compare(ctx, below, there, rel, depth+1)
}

// putDir plans to move a whole directory. What it holds is listed, so that
// undoing it can tell its files from those the program makes in it later.
func (p *planner) putDir(ctx context.Context, src, live dir, name, rel string, st *unix.Stat_t) error {
	o := op{Do: doPut, Path: pathStr(rel), Ino: st.Ino, Dir: true}
	err := src.with(name, func(below dir) error {
		return walk(ctx, below, func(v visit) error {
			if err := p.budget.spend(join(rel, v.path)); err != nil {
				return err
			}
			p.seen[join(rel, v.path)] = true
			o.Tree = append(o.Tree, leaf{Path: pathStr(v.path), Ino: v.st.Ino, Dir: isDir(&v.st), Size: v.st.Size, Time: v.st.Mtim.Nano()})
			return nil
		})
	})
	if err != nil {
		return err
	}
	return p.put(live, name, o)
}

// put adds a put, which has to know whether something is in the way.
func (p *planner) put(live dir, name string, o op) error {
	there, err := live.stat(name)
	switch {
	case err == nil:
		o.Old = true
		if isDir(&there) {
			p.taken[string(o.Path)] = true
		}
	case !errors.Is(err, unix.ENOENT):
		return err
	}
	p.add(o)
	return nil
}

func (p *planner) add(o op) { p.ops = append(p.ops, o) }

// deletions plans what the source no longer has, children before parents.
func (p *planner) deletions(ctx context.Context) error {
	var missing []string
	for path := range p.was {
		if !p.seen[path] && !p.within(path) {
			missing = append(missing, path)
		}
	}
	slices.SortFunc(missing, func(a, b string) int { return strings.Compare(b, a) })
	for _, path := range missing {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := p.deletion(path); err != nil && !gone(err) {
			return err
		}
	}
	return nil
}

// deletion plans one of them, unless the program has made something of another
// kind in its place.
func (p *planner) deletion(path string) error {
	st, err := p.live.at(path)
	if err != nil || p.was[path].isDir() != isDir(&st) {
		return err
	}
	if isDir(&st) {
		p.add(op{Do: doRmdir, Path: pathStr(path), Was: st.Mode & permBits})
	} else {
		o := op{Do: doDel, Path: pathStr(path)}
		if was := p.was[path]; was.brought {
			o.Is, o.Size, o.Time = true, was.size, was.time.Nano()
		}
		p.add(o)
	}
	return nil
}

// within reports whether path lies below a directory that is moved away whole.
func (p *planner) within(path string) bool {
	for path, _ = split(path); path != "."; path, _ = split(path) {
		if p.taken[path] {
			return true
		}
	}
	return false
}
