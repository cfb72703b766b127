package files

import (
	"context"
	"errors"
	"os"
	"slices"

	"golang.org/x/sys/unix"

	"berth/app"
)

// Rollback makes a stage that takes commits back, once it is applied: those of
// journals, kept ones, newest first, without a gap. The journals stay as they
// are, and Apply writes one that takes the rollback itself back. Nothing may
// run as uid from here until Apply.
//
// What the program made or changed since a commit brought it stays as it is,
// also where the commit had replaced something; so does what never was in a
// commit. A file is taken for changed when its size or its time of modification
// is another. Those that the commits had to do with are returned, in the order
// they were met.
//
// app.NotFound when a journal is not there any more.
func (s *Store) Rollback(ctx context.Context, id app.ID, uid int, journals []string) (app.Stage, []string, error) {
	live, err := s.live(id)
	if err != nil {
		return "", nil, err
	}
	defer live.close()
	if err := s.Room("prepare the rollback"); err != nil {
		return "", nil, err
	}
	name := randName()
	r, err := s.reverse(ctx, live, name, id, uid, journals)
	if err != nil {
		// The context may have ended, and the stage must go all the same.
		return "", nil, errors.Join(s.cannotRollBack(err), removeTree(context.WithoutCancel(ctx), s.staging, name))
	}
	stage := app.Stage(name)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.manifests[stage] = r.manifest()
	return stage, r.stays, nil
}

// cannotRollBack leaves what the user should read alone.
func (s *Store) cannotRollBack(err error) error {
	if app.KindOf(err) != app.Internal {
		return err
	}
	return s.cannot("prepare the rollback", err)
}

// reverse makes the stage.
func (s *Store) reverse(ctx context.Context, live dir, name string, id app.ID, uid int, journals []string) (*reverser, error) {
	top, err := s.staging.mkdir(name, 0o711, os.Geteuid())
	if err != nil {
		return nil, err
	}
	defer top.close()
	scratch, err := top.mkdir("scratch", 0o700, os.Geteuid())
	if err != nil {
		return nil, err
	}
	defer scratch.close()
	src, err := top.mkdir(buildName, 0o700, uid)
	if err != nil {
		return nil, err
	}
	defer src.close()
	if err := errors.Join(s.mark(scratch, uid), s.mark(src, uid)); err != nil {
		return nil, err
	}
	all, err := s.journals(id)
	if err != nil && !errors.Is(err, unix.ENOENT) {
		return nil, err
	}
	defer all.close()
	r := &reverser{
		live: live, src: src, scratch: scratch, uid: uid, copier: copier{
			owner: uint32(uid), uid: uid, ration: newRation(s.lim), room: func() error { return s.Room("prepare the rollback") },
		},
		own: map[string]print{}, kids: map[string]int{}, del: map[string]bool{},
		dirs: map[string]bool{}, modes: map[string]modes{}, told: map[string]bool{},
	}
	for _, journal := range journals {
		if err := r.journal(ctx, all, journal); err != nil {
			return nil, err
		}
	}
	return r, r.chmod()
}

// reverser works out what the live tree is to be, without touching it. What it
// is so far is the live tree, less del, with own over it; what is in own is in
// src as well.
type reverser struct {
	live, src, scratch dir
	uid                int
	copier             copier

	own   map[string]print // by path: what comes back
	kids  map[string]int   // how many of own lie right in a directory
	del   map[string]bool  // of the live tree, by path
	dirs  map[string]bool  // which of del are directories
	modes map[string]modes // of directories of the live tree
	stays []string
	told  map[string]bool // of stays
}

// print tells one state of an entry from another. It holds no inode: journals
// are restored on other machines.
type print struct {
	kind uint32 // S_IFMT
	mode uint32
	size int64
	time int64 // of files
}

// modes are the mode that a directory has, and the one it is to get.
type modes struct{ is, to uint32 }

func printOf(st *unix.Stat_t) print {
	p := print{kind: st.Mode & unix.S_IFMT, mode: st.Mode & permBits}
	if p.kind != unix.S_IFDIR {
		p.size = st.Size
	}
	if p.kind == unix.S_IFREG {
		p.time = st.Mtim.Nano()
	}
	return p
}

func (p print) isDir() bool { return p.kind == unix.S_IFDIR }

// put reports whether the entry is still what a commit put there.
func (p print) put(l leaf) bool {
	switch p.kind {
	case unix.S_IFDIR:
		return l.Dir
	case unix.S_IFREG:
		return !l.Dir && p.size == l.Size && p.time == l.Time
	case unix.S_IFLNK: // whose times copies do not keep
		return !l.Dir && p.size == l.Size
	}
	return false
}

// journal takes one commit back.
func (r *reverser) journal(ctx context.Context, all dir, name string) error {
	if !isRandName(name) || all == noDir {
		return app.Errorf(app.NotFound, "the way back to this deploy is not kept any more")
	}
	j, ops, err := openJournal(all, name)
	if gone(err) {
		return app.Errorf(app.NotFound, "the way back to this deploy is not kept any more")
	}
	if err != nil {
		return err
	}
	defer j.close()
	for _, o := range slices.Backward(ops) {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := r.op(ctx, j, o); err != nil {
			return err
		}
	}
	return nil
}

// op takes one step back.
func (r *reverser) op(ctx context.Context, j journal, o op) error {
	path := string(o.Path)
	now, there, err := r.look(path)
	if err != nil {
		return err
	}
	switch o.Do {
	case doPut:
		return r.undoPut(ctx, j, o, now, there)
	case doDel:
		if there {
			r.stay(path)
			return nil
		}
		return r.bringBack(ctx, j, o)
	case doRmdir:
		if there {
			return nil
		}
		return r.makeDir(path, o.Was)
	case doMkdir:
		if there && now.isDir() {
			_, err = r.removeEmpty(path)
		}
		return err
	case doMode:
		if there && now.isDir() && now.mode == o.Mode {
			r.setMode(path, now.mode, o.Was)
		}
		return nil
	}
	return errors.New("unknown step " + string(o.Do))
}

// undoPut takes back what a commit put somewhere, and brings back what was
// there before.
func (r *reverser) undoPut(ctx context.Context, j journal, o op, now print, there bool) error {
	path := string(o.Path)
	if there {
		free, err := r.takeBack(path, now, o)
		if err != nil {
			return err
		}
		if !free {
			r.stay(path)
			return nil
		}
	}
	return r.bringBack(ctx, j, o)
}

// takeBack removes what a commit put at path if it is still that, and reports
// whether nothing is there now.
func (r *reverser) takeBack(path string, now print, o op) (bool, error) {
	if !now.put(leaf{Dir: o.Dir, Size: o.Size, Time: o.Time}) {
		return false, nil
	}
	if !o.Dir {
		return true, r.remove(path)
	}
	for _, l := range slices.Backward(o.Tree) {
		at := join(path, string(l.Path))
		is, there, err := r.look(at)
		if err != nil {
			return false, err
		}
		switch {
		case !there:
		case !is.put(l):
			r.stay(at)
		case l.Dir:
			_, err = r.removeEmpty(at)
		default:
			err = r.remove(at)
		}
		if err != nil {
			return false, err
		}
	}
	return r.removeEmpty(path)
}

// bringBack copies the original of a step, if it had one, to its place.
func (r *reverser) bringBack(ctx context.Context, j journal, o op) error {
	st, err := j.old.stat(o.old())
	if errors.Is(err, unix.ENOENT) || err == nil && st.Uid != r.copier.owner {
		return nil
	}
	if err != nil {
		return err
	}
	path := string(o.Path)
	parent, name := split(path)
	free, err := r.makeParents(parent)
	if err != nil {
		return err
	}
	if !free { // the program made something else of a directory above
		r.stay(path)
		return nil
	}
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFDIR:
		err = r.copier.dir(ctx, j.old, r.scratch, o.old(), path, 1)
	case unix.S_IFREG:
		err = r.copier.file(ctx, j.old, r.scratch, o.old(), path)
	case unix.S_IFLNK:
		err = r.copier.link(ctx, j.old, r.scratch, o.old(), path)
	default:
		return nil // a pipe or a socket: the program makes it again
	}
	if err != nil {
		return err
	}
	to, err := r.src.sub(parent)
	if err != nil {
		return err
	}
	defer to.close()
	if err := move(r.scratch, o.old(), to, name); err != nil {
		return err
	}
	return r.adopt(ctx, to, path)
}
