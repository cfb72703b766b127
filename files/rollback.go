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
func (s *commits) Rollback(ctx context.Context, id app.ID, uid int, journals []string) (app.Stage, []string, error) {
	live, err := s.live(id)
	if err != nil {
		return "", nil, err
	}
	defer live.close()
	if err := s.CheckFree("prepare the rollback"); err != nil {
		return "", nil, err
	}
	name := randName()
	r, err := s.reverse(ctx, live, name, id, uid, journals)
	if err != nil {
		// The context may have ended, and the stage must go all the same.
		return "", nil, errors.Join(unlessSaid(s.cannot, "prepare the rollback", err), removeTree(context.WithoutCancel(ctx), s.staging, name))
	}
	stage := app.Stage(name)
	s.stages.setPrepared(stage, preparation{was: r.manifest()})
	return stage, r.stays, nil
}

// reverse makes the stage.
func (s *commits) reverse(ctx context.Context, live dir, name string, id app.ID, uid int, journals []string) (*reverser, error) {
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
			owner: uint32(uid), uid: uid, budget: newBudget(s.lim),
			free: freeCheck{check: func() error { return s.CheckFree("prepare the rollback") }},
		},
		own: map[string]state{}, kids: map[string]int{}, del: map[string]uint32{},
		modes: map[string]modes{}, reported: map[string]bool{},
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

	own      map[string]state  // by path: what comes back
	kids     map[string]int    // how many of own lie right in a directory
	del      map[string]uint32 // of the live tree, by path: what it was (S_IFMT)
	modes    map[string]modes  // of directories of the live tree
	stays    []string
	reported map[string]bool // of stays
}

// state tells one state of an entry from another. It holds no inode: journals
// are restored on other machines.
type state struct {
	kind uint32 // S_IFMT
	mode uint32
	size int64
	time int64 // of files
}

// modes are the mode that a directory has, and the one it is to get.
type modes struct{ is, to uint32 }

func stateOf(st *unix.Stat_t) state {
	p := state{kind: st.Mode & unix.S_IFMT, mode: st.Mode & permBits}
	if p.kind != unix.S_IFDIR {
		p.size = st.Size
	}
	if p.kind == unix.S_IFREG {
		p.time = st.Mtim.Nano()
	}
	return p
}

func (p state) isDir() bool { return p.kind == unix.S_IFDIR }

// put reports whether the entry is still what a commit put there.
func (p state) put(l leaf) bool {
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
	now, there, err := r.lookup(path)
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
func (r *reverser) undoPut(ctx context.Context, j journal, o op, now state, there bool) error {
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
func (r *reverser) takeBack(path string, now state, o op) (bool, error) {
	if !now.put(leaf{Dir: o.Dir, Size: o.Size, Time: o.Time}) {
		return false, nil
	}
	if !o.Dir {
		return true, r.remove(path)
	}
	for _, l := range slices.Backward(o.Tree) {
		at := join(path, string(l.Path))
		is, there, err := r.lookup(at)
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
	free, err := r.makeParents(path)
	if err != nil {
		return err
	}
	if !free { // the program made something else of a directory above
		r.stay(path)
		return nil
	}
	if !isDir(&st) && !isFile(&st) && !isLink(&st) {
		return nil // a pipe or a socket: the program makes it again
	}
	if err := r.copier.entry(ctx, j.old, r.scratch, o.old(), path, st.Mode, 1); err != nil {
		return err
	}
	return r.src.in(path, func(to dir, name string) error {
		if err := move(r.scratch, o.old(), to, name); err != nil {
			return err
		}
		return r.adopt(ctx, to, path)
	})
}

// What a reverser knows and changes of the tree to be.

// lookup returns what is at path.
func (r *reverser) lookup(path string) (state, bool, error) {
	if p, ok := r.own[path]; ok {
		return p, true, nil
	}
	if r.del[path] != 0 {
		return state{}, false, nil
	}
	st, err := r.live.at(path)
	if gone(err) {
		return state{}, false, nil
	}
	p := stateOf(&st)
	if m, ok := r.modes[path]; ok {
		p.mode = m.to
	}
	return p, err == nil, err
}

// stay notes that what is at path stays.
func (r *reverser) stay(path string) {
	if !r.reported[path] {
		r.reported[path] = true
		r.stays = append(r.stays, path)
	}
}

// remove takes away what is at path: a directory MUST be empty.
func (r *reverser) remove(path string) error {
	parent, name := split(path)
	if _, ok := r.own[path]; ok {
		delete(r.own, path)
		r.kids[parent]--
	}
	delete(r.modes, path)
	// Of what never was in own, src may have it as a directory on the way.
	if d, err := r.src.sub(parent); err == nil {
		err = removeTree(context.Background(), d, name)
		d.close()
		if err != nil {
			return err
		}
	}
	st, err := r.live.at(path)
	if err == nil {
		r.del[path] = st.Mode & unix.S_IFMT
	}
	return ignoreGone(err)
}

// removeEmpty removes a directory if nothing is in it, and reports whether.
func (r *reverser) removeEmpty(path string) (bool, error) {
	if r.kids[path] > 0 {
		return false, nil
	}
	err := r.live.with(path, func(d dir) error {
		return d.each(func(name string) error {
			if r.del[join(path, name)] != 0 {
				return nil
			}
			return unix.ENOTEMPTY
		})
	})
	if errors.Is(err, unix.ENOTEMPTY) {
		return false, nil
	}
	if err != nil && !gone(err) {
		return false, err
	}
	return true, r.remove(path)
}

// makeParents makes the directories above path where they are missing, also on the
// way in src. It reports false when something else is in the way.
func (r *reverser) makeParents(path string) (bool, error) {
	for i, c := range path {
		if c != '/' {
			continue
		}
		at := path[:i]
		now, there, err := r.lookup(at)
		switch {
		case err != nil:
			return false, err
		case there && !now.isDir():
			return false, nil
		case !there:
			err = r.makeDir(at, 0o755)
		default:
			err = r.onTheWay(at, now.mode)
		}
		if err != nil {
			return false, err
		}
	}
	return true, nil
}

// makeDir makes an empty directory at path, and those above it.
func (r *reverser) makeDir(path string, mode uint32) error {
	if free, err := r.makeParents(path); err != nil || !free {
		return err
	}
	if err := r.onTheWay(path, mode); err != nil {
		return err
	}
	r.have(path, state{kind: unix.S_IFDIR, mode: mode})
	return nil
}

// onTheWay makes the directory at path in src if it is not there; the one above
// it is.
func (r *reverser) onTheWay(path string, mode uint32) error {
	return r.src.in(path, func(d dir, name string) error {
		if _, err := d.stat(name); err == nil {
			return nil
		}
		made, err := d.mkdir(name, mode, r.uid)
		made.close()
		return err
	})
}

// have notes that path is in src.
func (r *reverser) have(path string, p state) {
	if _, ok := r.own[path]; !ok {
		parent, _ := split(path)
		r.kids[parent]++
	}
	r.own[path] = p
	delete(r.del, path)
	delete(r.modes, path)
}

// adopt notes what was brought back to path of src, whose directory is d.
func (r *reverser) adopt(ctx context.Context, d dir, path string) error {
	_, name := split(path)
	st, err := d.stat(name)
	if err != nil {
		return err
	}
	r.have(path, stateOf(&st))
	if !isDir(&st) {
		return nil
	}
	return d.with(name, func(below dir) error {
		return walk(ctx, below, func(v visit) error {
			r.have(join(path, v.path), stateOf(&v.st))
			return nil
		})
	})
}

// setMode gives a directory another mode.
func (r *reverser) setMode(path string, is, to uint32) {
	if p, ok := r.own[path]; ok {
		p.mode = to
		r.own[path] = p
		return
	}
	if m, ok := r.modes[path]; ok {
		is = m.is
	}
	r.modes[path] = modes{is, to}
}

// chmod gives the directories of src their modes.
func (r *reverser) chmod() error {
	set := func(path string, mode uint32) error {
		return r.src.in(path, func(d dir, name string) error { return chmodDir(d, name, mode) })
	}
	for path, p := range r.own {
		if p.isDir() {
			if err := set(path, p.mode); err != nil {
				return err
			}
		}
	}
	for path, m := range r.modes {
		if free, err := r.makeParents(path); err != nil || !free {
			return err
		}
		if err := errors.Join(r.onTheWay(path, m.to), set(path, m.to)); err != nil {
			return err
		}
	}
	return nil
}

// manifest is what src is compared with: what it lacks of that is deleted, the
// rest of it is put into place.
func (r *reverser) manifest() manifest {
	m := make(manifest)
	for path, kind := range r.del {
		if _, back := r.own[path]; !back {
			m[path] = meta{mode: kind}
		}
	}
	for path, is := range r.modes {
		m[path] = meta{mode: unix.S_IFDIR | is.is}
	}
	return m
}
