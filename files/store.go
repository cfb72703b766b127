package files

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"berth/app"
	"berth/files/bundle"
)

// The directories below the data directory.
const (
	appsName     = "apps"
	stagingName  = "staging"
	backupsName  = "backups"
	rollbackName = "rollback"
	tmpName      = "tmp"
)

// The names in a stage's directory.
const (
	newName   = "new"   // the ZIP's tree
	buildName = "build" // the copy a commit is built in
)

// Store is the data directory. Its methods are safe for concurrent use on
// different applications and stages; what concerns one application is called
// by the one goroutine that owns it.
type Store struct {
	root     string
	opened   time.Time
	lim      bundle.Limits
	apps     dir
	staging  dir
	backups  dir
	rollback dir
	tmp      dir

	quota Quota
	floor int64 // of free disk, in bytes; negative for the default

	mu        sync.Mutex
	manifests map[app.Stage]manifest // of the stages that were prepared
	whole     map[app.Stage]bool     // those that stand for all the files there are to be

	// What takes long to remove goes in the background; Close ends that.
	removing sync.WaitGroup
	ctx      context.Context
	cancel   context.CancelFunc

	// step is called before each change Apply and Settle make: see Points. A
	// test makes it fail to see what a crash there leaves behind. It is nil
	// otherwise.
	step func(name string) error
}

// Open makes the directories below dataDir that are missing, sets their modes
// and opens them. They MUST be on one file system: everything here is done by
// rename. The caller closes the Store when nothing uses it any more.
func Open(dataDir string, lim bundle.Limits) (*Store, error) {
	root, err := filepath.Abs(dataDir)
	if err != nil {
		return nil, fmt.Errorf("cannot open the data directory: %w", err)
	}
	if err := os.MkdirAll(root, 0o711); err != nil {
		return nil, fmt.Errorf("cannot make the data directory: %w", err)
	}
	if err := os.Chmod(root, 0o711); err != nil {
		return nil, fmt.Errorf("cannot open the data directory: %w", err)
	}
	fd, err := unix.Open(root, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("cannot open the data directory %s: %w", root, err)
	}
	base := dir(fd)
	defer base.close()
	s := &Store{
		root: root, opened: time.Now(), lim: lim, manifests: make(map[app.Stage]manifest), whole: make(map[app.Stage]bool),
		apps: noDir, staging: noDir, backups: noDir, rollback: noDir, tmp: noDir, floor: -1,
	}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	for _, d := range []struct {
		name string
		mode uint32
		to   *dir
	}{
		{appsName, 0o711, &s.apps},
		{stagingName, 0o711, &s.staging},
		{tmpName, 0o711, &s.tmp},
		{backupsName, 0o700, &s.backups},
		{rollbackName, 0o700, &s.rollback},
	} {
		if *d.to, err = openArea(base, d.name, d.mode); err != nil {
			return nil, errors.Join(fmt.Errorf("cannot open %s: %w", filepath.Join(root, d.name), err), s.Close())
		}
	}
	return s, nil
}

// openArea opens one of the directories, made if need be.
func openArea(base dir, name string, mode uint32) (dir, error) {
	if err := unix.Mkdirat(int(base), name, 0o700); err != nil && !errors.Is(err, unix.EEXIST) {
		return noDir, err
	}
	d, err := base.sub(name)
	if errors.Is(err, unix.EXDEV) {
		return noDir, errors.New("it is on another file system than the data directory, and must be on the same")
	}
	if err != nil {
		return noDir, err
	}
	if err := d.own(os.Geteuid(), mode); err != nil {
		d.close()
		return noDir, err
	}
	return d, nil
}

// Close releases the directories. It never fails today; the error is for the
// callers that join it with others.
func (s *Store) Close() error {
	s.cancel()
	s.removing.Wait()
	for _, d := range []*dir{&s.apps, &s.staging, &s.backups, &s.rollback, &s.tmp} {
		d.close()
		*d = noDir
	}
	return nil
}

// Dir returns the absolute path of the live tree of id, whether it exists or
// not. It is for the program's working directory, not for reading from.
func (s *Store) Dir(id app.ID) string { return filepath.Join(s.root, appsName, string(id)) }

// live opens the live tree of id.
func (s *Store) live(id app.ID) (dir, error) {
	if err := checkID(id); err != nil {
		return noDir, err
	}
	d, err := s.apps.sub(string(id))
	if errors.Is(err, unix.ENOENT) {
		return noDir, app.Errorf(app.NotFound, "the application %s has no files", id)
	}
	if err != nil {
		return noDir, cannot("open the application's directory", err)
	}
	return d, nil
}

// checkID keeps anything that is not an ID from becoming a file name.
func checkID(id app.ID) error {
	if !app.ValidID(string(id)) {
		return fmt.Errorf("cannot use %q as the name of a directory: not an application's ID", string(id))
	}
	return nil
}

// checkStage does the same for a stage.
func checkStage(stage app.Stage) error {
	if !isRandName(string(stage)) {
		return fmt.Errorf("cannot use %q as a stage: not one", string(stage))
	}
	return nil
}

// randName returns 32 hexadecimal digits nobody can guess.
func randName() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails, by its contract
	return hex.EncodeToString(b[:])
}

// isRandName reports whether s can come from randName.
func isRandName(s string) bool {
	if len(s) != 32 {
		return false
	}
	for i := range len(s) {
		if (s[i] < '0' || s[i] > '9') && (s[i] < 'a' || s[i] > 'f') {
			return false
		}
	}
	return true
}
