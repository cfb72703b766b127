package files

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"berth/app"
)

// commits are laid over live trees, undone, and taken back.
type commits struct {
	*disk
	stages *stages
}

// Apply makes a commit live: after Prepare what the ZIP and the build changed,
// otherwise the ZIP's files. A program that runs as uid meanwhile finds each file
// old or new, or for a moment not at all; one that renames what the commit is
// about can make Apply fail, and reaches nothing outside of its tree. Under a stage
// of Rollback or PrepareRestore nothing may run. Files that neither touched
// stay as the program left them, unless the stage is a whole one
// (PrepareRestore); whatever is in the way of a new entry, links
// included, is replaced. The plan and the originals are kept in the journal
// that is returned. Once the commit is good the caller records its name; then,
// or after any error, the caller MUST call Settle. The caller discards the
// stage, of which little is left. app.Conflict while an earlier journal is
// pending, app.NoSpace when the disk is full.
//
// Of a stage that Over was called for it also says what was removed, and writes the
// list of what deploys have brought, which the caller records with the journal.
func (s *commits) Apply(ctx context.Context, stage app.Stage, id app.ID, uid int) (app.Applied, error) {
	live, err := s.live(id)
	if err != nil {
		return app.Applied{}, err
	}
	defer live.close()
	p, prepared := s.stages.preparation(stage)
	src, err := s.stages.tree(stage, prepared)
	if err != nil {
		return app.Applied{}, err
	}
	defer src.close()
	if !prepared {
		if err := s.chown(ctx, src, uid); err != nil {
			return app.Applied{}, err
		}
	}
	if p.extent != some {
		if err := addSurplus(ctx, src, live, p, newBudget(s.lim)); err != nil {
			return app.Applied{}, cannot("compare the backup with the application", err)
		}
	}
	j, err := s.newJournal(ctx, id)
	if err != nil {
		return app.Applied{}, err
	}
	defer j.close()
	was, done, err := s.remember(ctx, stage, id, uid, src, live, p.was)
	if err != nil {
		return app.Applied{}, err
	}
	a := applier{disk: s.disk, src: src, live: live, old: j.old, uid: uid}
	if err := a.lay(ctx, j, was); err != nil {
		return app.Applied{}, err
	}
	size, err := sizeBelow(ctx, j.top)
	if err != nil {
		return app.Applied{}, cannot("measure the journal", err)
	}
	done.Journal, done.Removed, done.Stays = j.name, a.removed, append(done.Stays, a.stays...)
	done.Bytes += size.Bytes
	return done, nil
}

// remember writes the list of what deploys have brought once a stage is laid, if
// there is to be one, and adds to its manifest what an exact commit removes.
func (s *commits) remember(
	ctx context.Context, stage app.Stage, id app.ID, uid int, src, live dir, was manifest,
) (_ manifest, done app.Applied, err error) {
	o, said := s.stages.overOf(stage)
	if !said {
		return was, done, nil
	}
	zip, err := s.stages.tree(stage, false)
	if err != nil {
		return was, done, err
	}
	defer zip.close()
	brings, err := s.bringsOf(ctx, zip)
	if err != nil {
		return was, done, err
	}
	before := s.readList(id, o.before)
	switch err := live.each(func(string) error { return errEntry }); {
	case err == nil: // somebody removed the files, and the commit is whole
		before = brought{whole: true}
	case !errors.Is(err, errEntry):
		return was, done, cannot("look at the application's files", err)
	}
	if o.exact {
		if was == nil {
			was = manifest{}
		}
		done.Unknown = !before.whole
		if done.Stays, err = brings.surplus(ctx, before, uid, src, live, was); err != nil {
			return was, done, cannot("compare the commit with the deploys before", err)
		}
	}
	if _, prepared := s.stages.preparation(stage); !prepared {
		src = noDir // it is the ZIP's own tree
	}
	next, err := s.listOf(ctx, brings, before, src, live, o.exact)
	if err != nil {
		return was, done, unlessSaid(cannot, "list what the deploy brings", err)
	}
	done.Brought, done.Bytes, err = s.writeList(id, next)
	return was, done, err
}

// lay plans and makes the changes of a commit.
func (a *applier) lay(ctx context.Context, j journal, was manifest) error {
	s, src, live := a.disk, a.src, a.live
	ops, err := plan(ctx, src, live, was, newBudget(s.lim))
	if err != nil {
		return cannot("compare the commit with the application", err)
	}
	// New contents reach the disk before their names replace the old ones.
	if err := s.syncAll(); err != nil {
		return cannot("write the commit to disk", err)
	}
	if err := j.write(s, ops); err != nil {
		return cannot("write the journal", err)
	}
	for _, o := range ops {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := a.do(o); err != nil {
			return s.cannot("apply the commit", err)
		}
	}
	if err := s.at("applied"); err != nil {
		return err
	}
	if err := s.syncAll(); err != nil {
		return cannot("write the commit to disk", err)
	}
	return nil
}

// applier carries out ops.
type applier struct {
	*disk
	src, live, old dir
	uid            int

	removed int      // files that an earlier deploy had brought
	stays   []string // those that have changed since they were planned to go
}

// do carries out one op.
func (a *applier) do(o op) error {
	return a.live.in(string(o.Path), func(parent dir, name string) error {
		point := string(o.Do)
		if o.Do == doDel {
			point = "save"
		}
		if o.Do != doPut { // which passes points of its own
			if err := a.at(point); err != nil {
				return err
			}
		}
		switch o.Do {
		case doPut:
			return a.put(o, parent, name)
		case doDel:
			return a.del(o, parent, name)
		case doRmdir:
			return removeEmptied(parent, name) // unless the program keeps files of its own there
		case doMkdir:
			d, err := parent.mkdir(name, o.Mode, a.uid)
			d.close()
			return err
		case doMode:
			return chmodDir(parent, name, o.Mode)
		}
		return errors.New("unknown step " + string(o.Do))
	})
}

// del moves an entry aside. What is to go because a deploy brought it is looked at
// where no program reaches it, and moved back if it is another by now; if the
// program has made a new one meanwhile, the other stays with the originals.
func (a *applier) del(o op, parent dir, name string) error {
	err := move(parent, name, a.old, o.old())
	if err != nil || !o.Is {
		return ignoreMissing(err)
	}
	st, err := a.old.stat(o.old())
	if err != nil {
		return err
	}
	if (thing{size: o.Size, time: o.Time}).is(&st) {
		a.removed++
		return nil
	}
	a.stays = append(a.stays, string(o.Path))
	if err := move(a.old, o.old(), parent, name); !errors.Is(err, unix.EEXIST) {
		return err
	}
	return nil
}

// put moves the original aside and the new entry into place.
func (a *applier) put(o op, parent dir, name string) error {
	return a.src.in(string(o.Path), func(from dir, _ string) error {
		if o.Old {
			if err := a.at("save"); err != nil {
				return err
			}
			if err := ignoreMissing(move(parent, name, a.old, o.old())); err != nil {
				return err
			}
		}
		if err := a.at("put"); err != nil {
			return err
		}
		return move(from, name, parent, name)
	})
}

// chmodDir changes the mode of a directory, never through a link.
func chmodDir(parent dir, name string, mode uint32) error {
	return parent.with(name, func(d dir) error { return unix.Fchmod(int(d), mode) })
}

// removeEmptied removes a directory if nothing is left in it.
func removeEmptied(parent dir, name string) error {
	err := unix.Unlinkat(int(parent), name, unix.AT_REMOVEDIR)
	if errors.Is(err, unix.ENOTEMPTY) {
		return nil
	}
	return ignoreMissing(err)
}

// undo takes an open journal back and drops it.
func (s *commits) undo(ctx context.Context, id app.ID, uid int, all dir, name string) error {
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
	u := undoer{disk: s.disk, journal: j, live: live, uid: uid}
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
	*disk
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
	return ignoreGone(u.live.in(string(o.Path), func(parent dir, name string) error {
		if o.Do == doMkdir {
			return u.rmdir(parent, name)
		}
		if st, err := parent.stat(name); err != nil || !isDir(&st) || st.Mode&permBits != o.Mode {
			return nil // not done, or the program has chosen another mode
		}
		if err := u.at("undo-mode"); err != nil {
			return err
		}
		return chmodDir(parent, name, o.Was)
	}))
}

// takeBack removes an entry that Apply put below d where nothing was, and the
// entries of tree in it first. Entries are known by their inode: another one
// under the same name is the program's own.
func (u undoer) takeBack(ctx context.Context, d dir, l leaf, tree []leaf) error {
	return ignoreGone(d.in(string(l.Path), func(parent dir, name string) error {
		st, err := parent.stat(name)
		if err != nil || st.Ino != l.Ino || isDir(&st) != l.Dir {
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
	}))
}

// empty removes what a directory that was put as a whole held, children first.
func (u undoer) empty(ctx context.Context, parent dir, name string, tree []leaf) error {
	return parent.with(name, func(d dir) error {
		for _, l := range slices.Backward(tree) {
			if err := ctx.Err(); err != nil {
				return err
			}
			if err := u.takeBack(ctx, d, l, nil); err != nil {
				return err
			}
		}
		return nil
	})
}

// restore puts an original back in its place.
func (u undoer) restore(o op) error {
	parent, name, err := u.ensureParent(o)
	if err != nil {
		return err
	}
	defer parent.close()
	if err := u.clear(parent, name); err != nil {
		return err
	}
	if err := u.at("restore"); err != nil {
		return err
	}
	return move(u.old, o.old(), parent, name)
}

// remake makes a directory again that Apply removed because it was empty.
func (u undoer) remake(o op) error {
	parent, name, err := u.ensureParent(o)
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
	if err := u.at("remake"); err != nil {
		return err
	}
	return move(u.top, made, parent, name)
}

// ensureParent opens the directory of the live tree that an op's entry is in. The
// program may have removed it, or put something in its place, since the commit.
func (u undoer) ensureParent(o op) (at dir, name string, err error) {
	path, name := split(string(o.Path))
	at, err = u.live.sub(".")
	if err != nil || path == "." {
		return at, name, err
	}
	for part := range strings.SplitSeq(path, "/") {
		below, err := at.sub(part)
		if gone(err) {
			if err = u.clear(at, part); err == nil {
				below, err = at.mkdir(part, 0o755, u.uid)
			}
		}
		at.close()
		if err != nil {
			return noDir, "", err
		}
		at = below
	}
	return at, name, nil
}

// clear moves what is at name to the journal's trash, which goes with it.
func (u undoer) clear(parent dir, name string) error {
	if _, err := parent.stat(name); errors.Is(err, unix.ENOENT) {
		return nil
	}
	if err := u.at("clear"); err != nil {
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
	if err := u.at("unlink"); err != nil {
		return err
	}
	return ignoreMissing(unix.Unlinkat(int(parent), name, 0))
}

// rmdir removes a directory unless the program keeps something in it, or has put
// something else in its place.
func (u undoer) rmdir(parent dir, name string) error {
	if err := u.at("remove"); err != nil {
		return err
	}
	if err := removeEmptied(parent, name); !errors.Is(err, unix.ENOTDIR) {
		return err
	}
	return nil
}
