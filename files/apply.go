package files

import (
	"context"
	"errors"

	"golang.org/x/sys/unix"

	"berth/app"
)

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
func (s *Store) Apply(ctx context.Context, stage app.Stage, id app.ID, uid int) (app.Applied, error) {
	live, err := s.live(id)
	if err != nil {
		return app.Applied{}, err
	}
	defer live.close()
	src, was, err := s.source(ctx, stage, uid)
	if err != nil {
		return app.Applied{}, err
	}
	defer src.close()
	if s.isWhole(stage) {
		if err := surplus(ctx, src, live, was, newRation(s.lim)); err != nil {
			return app.Applied{}, cannot("compare the backup with the application", err)
		}
	}
	j, err := s.newJournal(ctx, id)
	if err != nil {
		return app.Applied{}, err
	}
	defer j.close()
	if err := s.lay(ctx, j, src, live, was, uid); err != nil {
		return app.Applied{}, err
	}
	bytes, err := weigh(ctx, j.top)
	if err != nil {
		return app.Applied{}, cannot("measure the journal", err)
	}
	return app.Applied{Journal: j.name, Bytes: bytes}, nil
}

// lay plans and makes the changes of a commit.
func (s *Store) lay(ctx context.Context, j journal, src, live dir, was manifest, uid int) error {
	ops, err := plan(ctx, src, live, was, newRation(s.lim))
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
	a := applier{store: s, src: src, live: live, old: j.old, uid: uid}
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

// source opens the tree to take from and what it was.
func (s *Store) source(ctx context.Context, stage app.Stage, uid int) (dir, manifest, error) {
	top, err := s.openStage(stage)
	if err != nil {
		return noDir, nil, err
	}
	defer top.close()
	s.mu.Lock()
	was, prepared := s.manifests[stage]
	s.mu.Unlock()
	name := buildName
	if !prepared {
		name = newName
		if err := s.chownNew(ctx, top, uid); err != nil {
			return noDir, nil, err
		}
	}
	src, err := top.sub(name)
	if err != nil {
		return noDir, nil, cannot("open the stage", err)
	}
	return src, was, nil
}

// applier carries out ops.
type applier struct {
	store          *Store
	src, live, old dir
	uid            int
}

// do carries out one op.
func (a applier) do(o op) error {
	path, name := split(string(o.Path))
	parent, err := a.live.sub(path)
	if err != nil {
		return err
	}
	defer parent.close()
	switch o.Do {
	case doPut:
		return a.put(o, parent, path, name)
	case doDel:
		if err := a.store.at("save " + string(o.Path)); err != nil {
			return err
		}
		return ignoreMissing(move(parent, name, a.old, o.old()))
	case doRmdir:
		if err := a.store.at("rmdir " + string(o.Path)); err != nil {
			return err
		}
		err := unix.Unlinkat(int(parent), name, unix.AT_REMOVEDIR)
		if errors.Is(err, unix.ENOTEMPTY) {
			return nil // the program keeps files of its own there
		}
		return ignoreMissing(err)
	case doMkdir:
		if err := a.store.at("mkdir " + string(o.Path)); err != nil {
			return err
		}
		d, err := parent.mkdir(name, o.Mode, a.uid)
		d.close()
		return err
	case doMode:
		if err := a.store.at("mode " + string(o.Path)); err != nil {
			return err
		}
		return chmodDir(parent, name, o.Mode)
	}
	return errors.New("unknown step " + string(o.Do))
}

// put moves the original aside and the new entry into place.
func (a applier) put(o op, parent dir, path, name string) error {
	from, err := a.src.sub(path)
	if err != nil {
		return err
	}
	defer from.close()
	if o.Old {
		if err := a.store.at("save " + string(o.Path)); err != nil {
			return err
		}
		if err := ignoreMissing(move(parent, name, a.old, o.old())); err != nil {
			return err
		}
	}
	if err := a.store.at("put " + string(o.Path)); err != nil {
		return err
	}
	return move(from, name, parent, name)
}

// chmodDir changes the mode of a directory, never through a link.
func chmodDir(parent dir, name string, mode uint32) error {
	d, err := parent.sub(name)
	if err != nil {
		return err
	}
	defer d.close()
	return unix.Fchmod(int(d), mode)
}
