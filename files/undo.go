package files

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"slices"

	"golang.org/x/sys/unix"

	"berth/app"
)

// undo takes an open journal back and drops it.
func (s *Store) undo(ctx context.Context, id app.ID, uid int, all dir, name string) error {
	j, ops, err := openJournal(all, name)
	if errors.Is(err, fs.ErrNotExist) {
		return s.discard(ctx, all, name) // no plan: nothing was begun
	}
	if err != nil {
		return cannot("read the journal", err)
	}
	defer j.close()
	live, err := s.live(id)
	if app.KindOf(err) == app.NotFound {
		return s.discard(ctx, all, name)
	}
	if err != nil {
		return err
	}
	defer live.close()
	u := undoer{store: s, journal: j, live: live, uid: uid}
	for _, o := range slices.Backward(ops) {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := u.undo(ctx, o); err != nil {
			return s.cannot("undo the commit", err)
		}
	}
	if err := s.syncAll(); err != nil {
		return s.cannot("undo the commit", err)
	}
	if err := s.at("drop-journal"); err != nil {
		return err
	}
	return s.discard(ctx, all, name)
}

// undoer takes ops back.
type undoer struct {
	store *Store
	journal
	live dir
	uid  int
}

// undo takes one op back if it was done.
func (u undoer) undo(ctx context.Context, o op) error {
	switch o.Do {
	case doPut, doDel:
		_, err := u.old.stat(o.old())
		if err == nil {
			return u.restore(o)
		}
		if !errors.Is(err, unix.ENOENT) {
			return err
		}
		if o.Do == doDel {
			return nil
		}
		return u.takeBack(ctx, u.live, leaf{Path: o.Path, Ino: o.Ino, Dir: o.Dir}, o.Tree)
	case doRmdir:
		return u.remake(o)
	case doMkdir, doMode:
		return u.undoDir(o)
	}
	return errors.New("unknown step " + string(o.Do))
}

// undoDir takes back what was done to a directory itself.
func (u undoer) undoDir(o op) error {
	path, name := split(string(o.Path))
	parent, err := u.live.sub(path)
	if gone(err) {
		return nil
	}
	if err != nil {
		return err
	}
	defer parent.close()
	if o.Do == doMkdir {
		return u.rmdir(parent, name)
	}
	if st, err := parent.stat(name); err != nil || !isDir(&st) || st.Mode&permBits != o.Mode {
		return nil // not done, or the program has chosen another mode
	}
	if err := u.store.at("undo-mode " + string(o.Path)); err != nil {
		return err
	}
	return chmodDir(parent, name, o.Was)
}

// restore puts an original back in its place.
func (u undoer) restore(o op) error {
	path, name := split(string(o.Path))
	parent, err := u.ensure(path)
	if err != nil {
		return err
	}
	defer parent.close()
	if err := u.clear(parent, name); err != nil {
		return err
	}
	if err := u.store.at("restore " + string(o.Path)); err != nil {
		return err
	}
	return move(u.old, o.old(), parent, name)
}

// takeBack removes an entry that Apply put below d where nothing was, and the
// entries of tree in it first. Entries are known by their inode: another one
// under the same name is the program's own.
func (u undoer) takeBack(ctx context.Context, d dir, l leaf, tree []leaf) error {
	path, name := split(string(l.Path))
	parent, err := d.sub(path)
	if gone(err) {
		return nil
	}
	if err != nil {
		return err
	}
	defer parent.close()
	st, err := parent.stat(name)
	if gone(err) || (err == nil && (st.Ino != l.Ino || isDir(&st) != l.Dir)) {
		return nil
	}
	if err != nil {
		return err
	}
	if !l.Dir {
		return u.unlink(parent, name)
	}
	if len(tree) > 0 {
		if err := u.empty(ctx, parent, name, tree); err != nil {
			return err
		}
	}
	return u.rmdir(parent, name)
}

// empty removes what a directory that was put as a whole held, children first.
func (u undoer) empty(ctx context.Context, parent dir, name string, tree []leaf) error {
	d, err := parent.sub(name)
	if err != nil {
		return err
	}
	defer d.close()
	for _, l := range slices.Backward(tree) {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := u.takeBack(ctx, d, l, nil); err != nil {
			return err
		}
	}
	return nil
}

// remake makes a directory again that Apply removed because it was empty.
func (u undoer) remake(o op) error {
	path, name := split(string(o.Path))
	parent, err := u.ensure(path)
	if err != nil {
		return err
	}
	defer parent.close()
	if st, err := parent.stat(name); err == nil && isDir(&st) {
		return nil
	}
	if err := u.clear(parent, name); err != nil {
		return err
	}
	// Made elsewhere and renamed: a crash leaves it with its mode and owner or
	// not at all.
	made := randName()
	d, err := u.top.mkdir(made, o.Was, u.uid)
	if err != nil {
		return err
	}
	d.close()
	if err := u.store.at("remake " + string(o.Path)); err != nil {
		return err
	}
	return move(u.top, made, parent, name)
}

// ensure opens the directory at path of the live tree. The program may have
// removed it, or put something in its place, since the commit.
func (u undoer) ensure(path string) (dir, error) {
	at, err := u.live.sub(".")
	if err != nil || path == "." {
		return at, err
	}
	for rest, more := path, true; more; {
		var name string
		name, rest, more = cut(rest)
		below, err := at.sub(name)
		if gone(err) {
			if err = u.clear(at, name); err == nil {
				below, err = at.mkdir(name, 0o755, u.uid)
			}
		}
		at.close()
		if err != nil {
			return noDir, err
		}
		at = below
	}
	return at, nil
}

// clear moves what is at name to the journal's trash, which goes with it.
func (u undoer) clear(parent dir, name string) error {
	if _, err := parent.stat(name); errors.Is(err, unix.ENOENT) {
		return nil
	}
	if err := u.store.at("clear " + name); err != nil {
		return err
	}
	trash, err := u.top.sub(trashName)
	if errors.Is(err, unix.ENOENT) {
		trash, err = u.top.mkdir(trashName, 0o700, os.Geteuid())
	}
	if err != nil {
		return err
	}
	defer trash.close()
	return ignoreMissing(move(parent, name, trash, randName()))
}

func (u undoer) unlink(parent dir, name string) error {
	if err := u.store.at("unlink " + name); err != nil {
		return err
	}
	return ignoreMissing(unix.Unlinkat(int(parent), name, 0))
}

// rmdir removes a directory unless the program keeps something in it.
func (u undoer) rmdir(parent dir, name string) error {
	if err := u.store.at("remove " + name); err != nil {
		return err
	}
	err := unix.Unlinkat(int(parent), name, unix.AT_REMOVEDIR)
	if errors.Is(err, unix.ENOTEMPTY) || errors.Is(err, unix.ENOTDIR) {
		return nil
	}
	return ignoreMissing(err)
}
