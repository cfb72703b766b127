package files

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"berth/app"
	"berth/files/bundle"
)

// stages are uploads in flight: received, unpacked, prepared for a commit.
type stages struct {
	*disk
	mu       sync.Mutex
	prepared map[app.Stage]preparation
	over     map[app.Stage]over // of commits
}

// preparation is what is known of a stage that was prepared.
type preparation struct {
	was    manifest // what is to be compared with
	extent extent
}

// extent is what of the files that there are to be a stage stands for.
type extent int

const (
	some extent = iota // a commit: the others stay
	most               // a restore from a ZIP: all but what preparations make
	all                // a restore from a snapshot
)

func (s *stages) preparation(stage app.Stage) (p preparation, prepared bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p, prepared = s.prepared[stage]
	return p, prepared
}

func (s *stages) setPrepared(stage app.Stage, p preparation) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.prepared[stage] = p
}

// spoolExt ends the name of an upload in staging.
const spoolExt = ".zip"

// Spool streams r into a fresh file of staging and returns its path. More than
// max bytes is app.TooLarge, a full disk app.NoSpace; an error of r itself is
// wrapped. Nothing is left behind on an error. It blocks as long as r does and
// looks at ctx between reads.
func (s *stages) Spool(ctx context.Context, r io.Reader, max int64) (file string, err error) {
	free := freeCheck{check: func() error { return s.CheckFree("keep the upload") }}
	if err := free.check(); err != nil {
		return "", err
	}
	name := randName() + spoolExt
	f, err := s.staging.create(name)
	if err != nil {
		return "", cannot("keep the upload", err)
	}
	defer func() {
		if cerr := f.Close(); err == nil && cerr != nil {
			err = cannot("keep the upload", cerr)
		}
		if err != nil {
			_ = unix.Unlinkat(int(s.staging), name, 0)
			file = ""
		}
	}()
	buf := make([]byte, 256<<10)
	for total := int64(0); ; {
		if err := ctx.Err(); err != nil {
			return "", err
		}
		n, rerr := r.Read(buf)
		if total += int64(n); total > max {
			return "", app.Errorf(app.TooLarge, "the upload is larger than %s", bundle.SizeText(max))
		}
		if _, err := f.Write(buf[:n]); err != nil {
			return "", cannot("keep the upload", err)
		}
		if errors.Is(rerr, io.EOF) {
			return filepath.Join(s.root, stagingName, name), nil
		}
		if rerr != nil {
			return "", fmt.Errorf("cannot read the upload: %w", rerr)
		}
		if err := free.wrote(int64(n)); err != nil {
			return "", err
		}
	}
}

// DropSpool removes a file Spool made. It is idempotent.
func (s *stages) DropSpool(file string) error {
	name := filepath.Base(file)
	if filepath.Join(s.root, stagingName, name) != filepath.Clean(file) || !isRandName(strings.TrimSuffix(name, spoolExt)) {
		return fmt.Errorf("cannot remove %s: not an upload", file)
	}
	if err := unix.Unlinkat(int(s.staging), name, 0); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("cannot remove the upload: %w", err)
	}
	return nil
}

// Unpack checks the ZIP in file, shows its config to judge, and unpacks it into
// a new stage unless judge refuses; over is as in bundle.Open. Errors are those
// of bundle and of judge, and app.NoSpace when the disk is full. The ZIP stays;
// of the stage nothing is left behind on an error.
func (s *stages) Unpack(ctx context.Context, file string, over *app.Code, judge func(app.Config) error) (app.Unpacked, error) {
	a, err := bundle.Open(file, s.lim, over)
	if err != nil {
		return app.Unpacked{}, err
	}
	return s.unpack(ctx, a, judge)
}

// UnpackAs is Unpack for a new application with config in the place of the discloud.config that
// the ZIP may hold.
func (s *stages) UnpackAs(ctx context.Context, file, config string, judge func(app.Config) error) (app.Unpacked, error) {
	a, err := bundle.OpenAs(file, s.lim, config)
	if err != nil {
		return app.Unpacked{}, err
	}
	return s.unpack(ctx, a, judge)
}

// Look opens the ZIP in file as bundle.OpenDraft does, and shows judge its config and its files.
// The ZIP stays.
func (s *stages) Look(file string, fields app.ConfigField, judge func(*app.Draft, app.Config, app.Files) error) (app.Draft, error) {
	a, d, err := bundle.OpenDraft(file, s.lim, fields)
	if err != nil {
		return app.Draft{}, err
	}
	defer func() { _ = a.Close() }() // was only read
	err = judge(&d, a.Config, a)
	return d, err
}

// unpack unpacks an archive, and closes it.
func (s *stages) unpack(ctx context.Context, a *bundle.Archive, judge func(app.Config) error) (app.Unpacked, error) {
	defer func() { _ = a.Close() }() // was only read
	if err := errors.Join(judge(a.Config), s.CheckFree("unpack the upload")); err != nil {
		return app.Unpacked{}, err
	}
	name := randName()
	if err := s.extract(ctx, a, name, func(dir) error { return nil }); err != nil {
		// The context may have ended, and the stage must go all the same.
		return app.Unpacked{}, errors.Join(err, removeTree(context.WithoutCancel(ctx), s.staging, name))
	}
	a.Stage = app.Stage(name)
	return a.Unpacked, nil
}

// begin makes the directory of a stage, which the caller closes.
func (s *stages) begin(name string) (dir, error) { return s.staging.mkdir(name, 0o711, os.Geteuid()) }

// extract makes the directories of a stage and fills them; mark gets the inner one before.
func (s *stages) extract(ctx context.Context, a *bundle.Archive, name string, mark func(dir) error) error {
	top, err := s.begin(name)
	if err == nil {
		var inner dir
		if inner, err = top.mkdir(newName, 0o700, os.Geteuid()); err == nil {
			err = mark(inner)
		}
		inner.close()
		top.close()
	}
	var root *os.Root
	if err == nil {
		root, err = os.OpenRoot(filepath.Join(s.root, stagingName, name, newName))
	}
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
// has a tree already; the stage is gone afterwards unless there was an error. It
// returns the name of the list of what it brought (Relist), to be recorded with
// the deploy.
func (s *stages) Publish(ctx context.Context, stage app.Stage, id app.ID, uid int) (list string, err error) {
	if err := checkID(id); err != nil {
		return "", err
	}
	tree, err := s.tree(stage, false)
	if err != nil {
		return "", err
	}
	defer tree.close()
	taken := app.Errorf(app.Conflict, "an application named %s exists already", id)
	if _, err := s.apps.stat(string(id)); err == nil {
		return "", taken
	}
	if err := s.chown(ctx, tree, uid); err != nil {
		return "", err
	}
	if list, err = s.listPublished(ctx, id, tree); err != nil {
		return "", err
	}
	// The data before the name: a tree that is there is a whole tree.
	if err := unix.Syncfs(int(s.staging)); err != nil {
		return "", cannot("write the application to disk", err)
	}
	err = move(s.staging, string(stage)+"/"+newName, s.apps, string(id))
	if errors.Is(err, unix.EEXIST) || errors.Is(err, unix.ENOTEMPTY) {
		return "", taken
	}
	if err != nil {
		return "", cannot("put the application in place", err)
	}
	if err := errors.Join(s.apps.sync(), s.rollback.sync()); err != nil {
		return "", cannot("write the application to disk", err)
	}
	return list, s.Discard(stage)
}

// Renew makes the live tree of an application anew, empty, where it is gone and
// may be made, and reports whether it was gone: there is no such directory, or
// nothing in it. Journals of the tree before are the caller's to forget.
func (s *stages) Renew(_ context.Context, id app.ID, uid int, may bool) (gone bool, err error) {
	live, err := s.live(id)
	if err == nil {
		defer live.close()
		err = live.each(func(string) error { return errEntry })
		if errors.Is(err, errEntry) {
			return false, nil
		}
		return err == nil, err
	}
	if app.KindOf(err) != app.NotFound {
		return false, err
	}
	if !may {
		return true, nil
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

// Discard removes the stage and all it holds. It is idempotent. Nothing may
// run in the stage's build directory any more.
func (s *stages) Discard(stage app.Stage) error {
	if err := checkStage(stage); err != nil {
		return err
	}
	s.mu.Lock()
	delete(s.prepared, stage)
	delete(s.over, stage)
	s.mu.Unlock()
	return removeTree(context.Background(), s.staging, string(stage))
}

// openStage opens the directory of a stage.
func (s *disk) openStage(stage app.Stage) (dir, error) {
	if err := checkStage(stage); err != nil {
		return noDir, err
	}
	top, err := s.staging.sub(string(stage))
	if err != nil {
		return noDir, cannot("open the stage", err)
	}
	return top, nil
}

// tree opens what is to be laid over a live tree: the copy of a stage that was
// prepared, or else the ZIP's files.
func (s *stages) tree(stage app.Stage, prepared bool) (dir, error) {
	top, err := s.openStage(stage)
	if err != nil {
		return noDir, err
	}
	defer top.close()
	name := newName
	if prepared {
		name = buildName
	}
	src, err := top.sub(name)
	if err != nil {
		return noDir, cannot("open the stage", err)
	}
	return src, nil
}
