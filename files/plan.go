package files

import (
	"context"
	"errors"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// planner finds the ops that bring the difference between a source tree and
// its manifest into the live tree.
type planner struct {
	live  dir // the root, for what the build deleted
	was   manifest
	ops   []op
	seen  map[string]bool // paths the source has
	taken map[string]bool // paths of live directories that a put moves away

	ration *ration
}

// plan compares src with what it was and returns the ops in their order. A nil
// manifest makes everything in src new, which is the commit of a ZIP alone.
func plan(ctx context.Context, src, live dir, was manifest, r *ration) ([]op, error) {
	p := &planner{live: live, was: was, ration: r, seen: make(map[string]bool), taken: make(map[string]bool)}
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
		if err := p.ration.take(rel); err != nil {
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
	below, err := src.sub(name)
	if err != nil {
		return err
	}
	defer below.close()
	err = walk(ctx, below, func(v visit) error {
		if err := p.ration.take(join(rel, v.path)); err != nil {
			return err
		}
		p.seen[join(rel, v.path)] = true
		o.Tree = append(o.Tree, leaf{Path: pathStr(v.path), Ino: v.st.Ino, Dir: isDir(&v.st), Size: v.st.Size, Time: v.st.Mtim.Nano()})
		return nil
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
	parent, name := split(path)
	d, err := p.live.sub(parent)
	if err != nil {
		return err
	}
	defer d.close()
	st, err := d.stat(name)
	if err != nil || p.was[path].isDir() != isDir(&st) {
		return err
	}
	if isDir(&st) {
		p.add(op{Do: doRmdir, Path: pathStr(path), Was: st.Mode & permBits})
	} else {
		p.add(op{Do: doDel, Path: pathStr(path)})
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
