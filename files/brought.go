package files

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"berth/app"
	"berth/files/bundle"
)

// What deploys brought to an application is in a list beside its journals,
// rollback/<id>/<name>.list. The records name the list of each deploy that the
// application has or can go back to, and Settle removes the others: a crash
// leaves the list of the deploy that the records say. A list never changes.
const (
	listExt  = ".list"
	listHead = "berth-brought-1"
)

// brought is what the ZIPs of deploys brought to a live tree and may still be
// there, by path. What builds and the program made is not in it.
type brought struct {
	all   map[string]thing
	whole bool // no deploy brought more; false while some deploys have no list
}

// thing is an entry as a deploy left it. A file that has another size or time of
// modification is the program's, or an editor's. As in journals there is no
// inode: a restored host has others.
type thing struct {
	dir        bool
	size, time int64 // of a file
}

func thingOf(st *unix.Stat_t) thing {
	if isDir(st) {
		return thing{dir: true}
	}
	return thing{size: st.Size, time: st.Mtim.Nano()}
}

// is reports whether an entry is still what a deploy brought.
func (b thing) is(st *unix.Stat_t) bool {
	return (isDir(st) || isFile(st)) && thingOf(st) == b
}

// over is what a stage is to be laid over.
type over struct {
	before string // names the list of the deploy before, "" for none
	exact  bool
}

// Over says that a stage is a commit to id whose earlier deploys brought what the
// list named before says, "" for a list that nobody kept. Apply then writes the
// list of this deploy. With exact Prepare and Apply also remove what earlier
// deploys brought and this stage does not, unless it has changed since. Over
// returns what the tree will hold before anything is built. It MUST come before
// Prepare.
func (s *stages) Over(ctx context.Context, stage app.Stage, id app.ID, before string, exact bool) (app.Files, error) {
	if err := checkStage(stage); err != nil {
		return nil, err
	}
	s.mu.Lock()
	s.over[stage] = over{before, exact}
	s.mu.Unlock()
	shown := files{disk: s.disk, stage: stage, id: id}
	if !exact {
		return shown, nil
	}
	zip, err := s.tree(stage, false)
	if err != nil {
		return nil, err
	}
	defer zip.close()
	live, err := s.live(id)
	if err != nil {
		return nil, err
	}
	defer live.close()
	brings, err := s.bringsOf(ctx, zip)
	if err != nil {
		return nil, err
	}
	shown.without = map[string]bool{}
	self, err := live.self()
	if err != nil {
		return nil, err
	}
	_, err = brings.missing(ctx, s.readList(id, before), live, int(self.Uid), func(path string, is thing, _ *unix.Stat_t) error {
		shown.without[path] = !is.dir
		return nil
	})
	return shown, err
}

// overOf returns what a stage is to be laid over, and whether anybody said.
func (s *stages) overOf(stage app.Stage) (o over, said bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	o, said = s.over[stage]
	return o, said
}

// bringsOf lists the tree of a ZIP.
func (s *disk) bringsOf(ctx context.Context, zip dir) (brought, error) {
	b := brought{all: map[string]thing{}, whole: true}
	err := walk(ctx, zip, func(v visit) error {
		b.all[v.path] = thingOf(&v.st)
		return nil
	})
	if err != nil {
		return b, cannot("list what the upload brings", err)
	}
	return b, nil
}

// missing calls drop for each entry of before that is in a tree, is owner's, and is
// not brought by the ZIP, whose list is b: files first, then directories from below,
// which may not be empty. It returns the files that stay because they have changed since. The
// configuration stays too: it holds until a ZIP brings another.
func (b brought) missing(
	ctx context.Context, before brought, tree dir, owner int, drop func(path string, is thing, st *unix.Stat_t) error,
) (stays []string, err error) {
	others := func(st *unix.Stat_t) bool { return int(st.Uid) != owner }
	var dirs []string
	for _, path := range slices.Sorted(maps.Keys(before.all)) {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		is := before.all[path]
		if now, there := b.all[path]; path == bundle.ConfigName || there && now.dir == is.dir {
			continue
		}
		if is.dir {
			dirs = append(dirs, path)
			continue
		}
		st, err := tree.at(path)
		switch {
		case gone(err) || err == nil && (others(&st) || isDir(&st)):
		case err != nil:
			return nil, err
		case !is.is(&st):
			stays = append(stays, path)
		default:
			if err := drop(path, is, &st); err != nil {
				return nil, err
			}
		}
	}
	for _, path := range slices.Backward(dirs) {
		st, err := tree.at(path)
		if gone(err) || err == nil && (others(&st) || !isDir(&st)) {
			continue
		}
		if err == nil {
			err = drop(path, before.all[path], &st)
		}
		if err != nil {
			return nil, err
		}
	}
	return stays, nil
}

// omit removes from the copy that an exact commit is built in what Apply will
// remove from the live tree, so that no build sees it. The manifest forgets it:
// Apply looks again, since the program may change it until then.
func (s *stages) omit(ctx context.Context, id app.ID, uid int, zip, build dir, o over, was manifest) error {
	brings, err := s.bringsOf(ctx, zip)
	if err != nil {
		return err
	}
	_, err = brings.missing(ctx, s.readList(id, o.before), build, uid, func(path string, is thing, _ *unix.Stat_t) error {
		flags := 0
		if is.dir {
			flags = unix.AT_REMOVEDIR
		}
		err := build.in(path, func(parent dir, name string) error { return unix.Unlinkat(int(parent), name, flags) })
		if errors.Is(err, unix.ENOTEMPTY) {
			return nil
		}
		delete(was, path)
		return err
	})
	return err
}

// surplus adds to the manifest of an exact commit what is to be removed from the
// live tree, and returns what stays because it has changed. What the build made
// anew is the build's.
func (b brought) surplus(ctx context.Context, before brought, uid int, src, live dir, was manifest) (stays []string, err error) {
	return b.missing(ctx, before, live, uid, func(path string, is thing, st *unix.Stat_t) error {
		_, err := src.at(path)
		if gone(err) {
			was[path] = meta{mode: st.Mode, size: is.size, time: st.Mtim, brought: true}
			return nil
		}
		return err
	})
}

// listOf makes the list of a deploy: what its ZIP brings, as its build left it in src
// (noDir without one), and unless it is exact what came before. A directory that the program made is not the
// deploy's. A list with more entries than a tree may have forgets what came before.
func (s *commits) listOf(ctx context.Context, brings, before brought, src, live dir, exact bool) (brought, error) {
	next := brought{all: map[string]thing{}, whole: before.whole || exact}
	b := newBudget(s.lim)
	for path, is := range brings.all {
		if err := ctx.Err(); err != nil {
			return next, err
		}
		if err := b.spend(path); err != nil {
			return next, err
		}
		if is.dir {
			st, err := live.at(path)
			if err != nil && !gone(err) {
				return next, err
			}
			if was, known := before.all[path]; err == nil && isDir(&st) && (!known || !was.dir) {
				continue
			}
			next.all[path] = is
			continue
		}
		if src == noDir {
			next.all[path] = is
			continue
		}
		st, err := src.at(path)
		if err == nil && isFile(&st) {
			next.all[path] = thingOf(&st)
		}
		if ignoreGone(err) != nil {
			return next, err
		}
	}
	if exact {
		if config, known := before.all[bundle.ConfigName]; known && next.all[bundle.ConfigName] == (thing{}) {
			next.all[bundle.ConfigName] = config
		}
		return next, nil
	}
	added := maps.Clone(next.all)
	for path, is := range before.all {
		if _, there := brings.all[path]; there {
			continue
		}
		if b.spend(path) != nil {
			return brought{all: added}, nil
		}
		next.all[path] = is
	}
	return next, nil
}

// writeList writes a list of id under a new name, and returns that and its bytes.
// The caller makes it durable before the records name it.
func (s *disk) writeList(id app.ID, b brought) (name string, size int64, err error) {
	defer func() {
		if err != nil {
			err = cannot("write what the deploy brings", err)
		}
	}()
	if err := unix.Mkdirat(int(s.rollback), string(id), 0o700); err != nil && !errors.Is(err, unix.EEXIST) {
		return "", 0, err
	}
	all, err := s.rollback.sub(string(id))
	if err != nil {
		return "", 0, err
	}
	defer all.close()
	if err := s.at("list"); err != nil {
		return "", 0, err
	}
	name = randName()
	f, err := all.create(name + listExt)
	if err != nil {
		return "", 0, err
	}
	w := bufio.NewWriter(f)
	fmt.Fprintf(w, "%s %t %d\n", listHead, b.whole, len(b.all))
	for path, is := range b.all {
		line := make([]byte, 0, len(path)+48)
		line = strconv.AppendBool(line, is.dir)
		line = strconv.AppendInt(append(line, ' '), is.size, 10)
		line = strconv.AppendInt(append(line, ' '), is.time, 10)
		line = strconv.AppendQuote(append(line, ' '), path)
		_, _ = w.Write(append(line, '\n')) // Flush tells
	}
	err = w.Flush()
	if st, serr := f.Stat(); err == nil {
		if err = serr; err == nil {
			size = st.Size()
		}
	}
	return name, size, errors.Join(err, f.Close())
}

// readList reads a list of id. One that is missing or damaged is as if nobody had
// kept it: less is removed then, and no commit fails for it.
func (s *disk) readList(id app.ID, name string) brought {
	none := brought{}
	if !isRandName(name) {
		return none
	}
	all, err := s.rollback.sub(string(id))
	if err != nil {
		return none
	}
	defer all.close()
	f, _, err := all.file(name + listExt)
	if err != nil {
		return none
	}
	defer f.Close()
	b, err := parseList(f)
	if err != nil {
		return none
	}
	return b
}

// parseList reads what writeList wrote.
func parseList(r io.Reader) (brought, error) {
	damaged := errors.New("the list is damaged")
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 8*unix.PathMax) // a quoted path may be four times as long
	if !lines.Scan() {
		return brought{}, damaged
	}
	var head string
	var n int
	b := brought{all: map[string]thing{}}
	if _, err := fmt.Sscan(lines.Text(), &head, &b.whole, &n); err != nil || head != listHead {
		return brought{}, damaged
	}
	for lines.Scan() {
		fields := strings.SplitN(lines.Text(), " ", 4)
		if len(fields) != 4 {
			return brought{}, damaged
		}
		var is thing
		var path string
		var errs [4]error
		is.dir, errs[0] = strconv.ParseBool(fields[0])
		is.size, errs[1] = strconv.ParseInt(fields[1], 10, 64)
		is.time, errs[2] = strconv.ParseInt(fields[2], 10, 64)
		path, errs[3] = strconv.Unquote(fields[3])
		if errors.Join(errs[:]...) != nil || !filepath.IsLocal(path) {
			return brought{}, damaged
		}
		b.all[path] = is
	}
	if lines.Err() != nil || len(b.all) != n {
		return brought{}, damaged
	}
	return b, nil
}

// listPublished writes the list of a first deploy, whose ZIP is the whole tree.
func (s *stages) listPublished(ctx context.Context, id app.ID, tree dir) (string, error) {
	b, err := s.bringsOf(ctx, tree)
	if err != nil {
		return "", err
	}
	name, _, err := s.writeList(id, b)
	return name, err
}

// Relist returns the list of a first deploy after its build, which may have changed
// what the ZIP brought, in place of the one that Publish returned.
func (s *stages) Relist(ctx context.Context, id app.ID, list string) (string, error) {
	live, err := s.live(id)
	if err != nil {
		return "", err
	}
	defer live.close()
	b := s.readList(id, list)
	for path, is := range b.all {
		if err := ctx.Err(); err != nil {
			return "", err
		}
		st, err := live.at(path)
		switch {
		case gone(err) || err == nil && (isDir(&st) != is.dir || !is.dir && !isFile(&st)):
			delete(b.all, path)
		case err != nil:
			return "", cannot("list what the upload brings", err)
		default:
			b.all[path] = thingOf(&st)
		}
	}
	name, _, err := s.writeList(id, b)
	if err != nil {
		return "", err
	}
	if err := s.syncAll(); err != nil {
		return "", cannot("write what the upload brings to disk", err)
	}
	return name, s.rollback.with(string(id), func(all dir) error {
		return ignoreMissing(unix.Unlinkat(int(all), list+listExt, 0))
	})
}
