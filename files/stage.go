package files

import (
	"context"
	"errors"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"berth/app"
	"berth/files/bundle"
)

// Unpack checks the ZIP in file, shows its config to judge, and unpacks it into
// a new stage unless judge refuses; over is as in bundle.Open. Errors are those
// of bundle and of judge, and app.NoSpace when the disk is full. The ZIP stays;
// of the stage nothing is left behind on an error.
func (s *Store) Unpack(ctx context.Context, file string, over *app.Code, judge func(app.Config) error) (app.Unpacked, error) {
	a, err := bundle.Open(file, s.lim, over)
	if err != nil {
		return app.Unpacked{}, err
	}
	defer func() { _ = a.Close() }() // was only read
	cfg, found := a.Config()
	if err := errors.Join(judge(cfg), s.Room("unpack the upload")); err != nil {
		return app.Unpacked{}, err
	}
	name := randName()
	if err := s.extract(ctx, a, name); err != nil {
		// The context may have ended, and the stage must go all the same.
		rerr := removeTree(context.WithoutCancel(ctx), s.staging, name)
		if rerr != nil {
			err = errors.Join(err, rerr)
		}
		return app.Unpacked{}, err
	}
	return app.Unpacked{
		Stage: app.Stage(name), Config: cfg, Found: found, Hint: a.Hint(), Left: a.Left(),
		Bytes: a.Size(), Variables: a.Variables(), Single: a.Single(),
	}, nil
}

// extract makes the directories of a stage and fills them.
func (s *Store) extract(ctx context.Context, a *bundle.Archive, name string) error {
	top, err := s.staging.mkdir(name, 0o711, os.Geteuid())
	if err != nil {
		return cannot("unpack the upload", err)
	}
	defer top.close()
	inner, err := top.mkdir(newName, 0o700, os.Geteuid())
	if err != nil {
		return cannot("unpack the upload", err)
	}
	inner.close()
	root, err := os.OpenRoot(filepath.Join(s.root, stagingName, name, newName))
	if err != nil {
		return cannot("unpack the upload", err)
	}
	defer func() { _ = root.Close() }()
	err = a.Extract(ctx, root)
	if refused := Refused("unpack the upload", err); refused != nil {
		return refused
	}
	return err
}

// Publish makes the stage the live tree of a new application: it gives
// everything to uid and renames it into place, durably. app.Conflict when id
// has a tree already; the stage is gone afterwards unless there was an error.
func (s *Store) Publish(ctx context.Context, stage app.Stage, id app.ID, uid int) error {
	if err := checkID(id); err != nil {
		return err
	}
	top, err := s.openStage(stage)
	if err != nil {
		return err
	}
	defer top.close()
	if _, err := s.apps.stat(string(id)); err == nil {
		return app.Errorf(app.Conflict, "an application named %s exists already", id)
	}
	if err := s.chownNew(ctx, top, uid); err != nil {
		return err
	}
	// The data before the name: a tree that is there is a whole tree.
	if err := unix.Syncfs(int(s.staging)); err != nil {
		return cannot("write the application to disk", err)
	}
	err = move(top, newName, s.apps, string(id))
	if errors.Is(err, unix.EEXIST) || errors.Is(err, unix.ENOTEMPTY) {
		return app.Errorf(app.Conflict, "an application named %s exists already", id)
	}
	if err != nil {
		return cannot("put the application in place", err)
	}
	if err := s.apps.sync(); err != nil {
		return cannot("write the application to disk", err)
	}
	return s.Discard(stage)
}

// Renew makes the live tree of an application anew, empty, where it is gone and
// may be made, and reports whether it was gone: there is no such directory, or
// nothing in it. Journals of the tree before are the caller's to forget.
func (s *Store) Renew(_ context.Context, id app.ID, uid int, may bool) (gone bool, err error) {
	live, err := s.live(id)
	if err == nil {
		defer live.close()
		err = live.each(func(string) error { return errEntry })
		if errors.Is(err, errEntry) {
			return false, nil
		}
		return err == nil, err
	}
	if app.KindOf(err) != app.NotFound || !may {
		return app.KindOf(err) == app.NotFound, ignoreNotFound(err)
	}
	name := randName()
	made, err := s.staging.mkdir(name, 0o700, uid)
	if err != nil {
		return true, cannot("make the application's directory anew", err)
	}
	err = s.mark(made, uid)
	made.close()
	if err == nil {
		err = move(s.staging, name, s.apps, string(id))
	}
	if err == nil {
		err = s.apps.sync()
	}
	if err != nil { // what is left in staging goes with the next boot
		return true, s.cannot("make the application's directory anew", err)
	}
	return true, nil
}

// errEntry says that there is an entry.
var errEntry = errors.New("an entry")

// ignoreNotFound is err unless that is app.NotFound.
func ignoreNotFound(err error) error {
	if app.KindOf(err) == app.NotFound {
		return nil
	}
	return err
}

// Discard removes the stage and all it holds. It is idempotent. Nothing may
// run in the stage's build directory any more.
func (s *Store) Discard(stage app.Stage) error {
	if err := checkStage(stage); err != nil {
		return err
	}
	s.mu.Lock()
	delete(s.manifests, stage)
	delete(s.whole, stage)
	s.mu.Unlock()
	return removeTree(context.Background(), s.staging, string(stage))
}

// openStage opens the directory of a stage.
func (s *Store) openStage(stage app.Stage) (dir, error) {
	if err := checkStage(stage); err != nil {
		return noDir, err
	}
	top, err := s.staging.sub(string(stage))
	if err != nil {
		return noDir, cannot("open the stage", err)
	}
	return top, nil
}

// chownNew gives the ZIP's tree, which nobody but root can reach yet, to uid
// and its project.
func (s *Store) chownNew(ctx context.Context, top dir, uid int) error {
	tree, err := top.sub(newName)
	if err != nil {
		return cannot("open the stage", err)
	}
	defer tree.close()
	err = walk(ctx, tree, func(v visit) error {
		return unix.Fchownat(int(v.parent), v.name, uid, uid, unix.AT_SYMLINK_NOFOLLOW)
	})
	if err == nil {
		err = s.markTree(ctx, tree, uid)
	}
	if err == nil {
		err = tree.own(uid, 0o700)
	}
	if err != nil {
		return s.cannot("give the files to their user", err)
	}
	return nil
}
