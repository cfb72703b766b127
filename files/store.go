package files

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
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

// Store is the data directory, by topic. Its methods are safe for concurrent use on
// different applications and stages; what concerns one application is called
// by the one goroutine that owns it.
type Store struct {
	*disk
	*stages
	*commits
	zips
	browser
	*temps
	opened time.Time
}

// disk is the open data directory: its areas, and what of its file system is free
// and charged to whom.
type disk struct {
	root     string
	lim      bundle.Limits
	apps     dir
	staging  dir
	backups  dir
	rollback dir
	tmp      dir

	quota Quota
	floor int64 // of free disk, in bytes; negative for the default

	databases databases

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
	base, err := openPath(root)
	if err != nil {
		return nil, fmt.Errorf("cannot open the data directory %s: %w", root, err)
	}
	defer base.close()
	d := &disk{root: root, lim: lim, apps: noDir, staging: noDir, backups: noDir, rollback: noDir, tmp: noDir, floor: -1}
	st := &stages{disk: d, prepared: make(map[app.Stage]preparation), over: make(map[app.Stage]over)}
	s := &Store{
		disk: d, stages: st, commits: &commits{d, st}, zips: zips{d}, browser: browser{d}, temps: &temps{disk: d},
		opened: time.Now(),
	}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	for _, area := range []struct {
		name string
		mode uint32
		to   *dir
	}{
		{appsName, 0o711, &d.apps},
		{stagingName, 0o711, &d.staging},
		{tmpName, 0o711, &d.tmp},
		{backupsName, 0o700, &d.backups},
		{rollbackName, 0o700, &d.rollback},
	} {
		if *area.to, err = openArea(base, area.name, area.mode); err != nil {
			return nil, errors.Join(fmt.Errorf("cannot open %s: %w", filepath.Join(root, area.name), err), s.Close())
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
func (s *disk) Dir(id app.ID) string { return AppDir(s.root, id) }

// AppDir is Dir below a data directory that nobody has opened.
func AppDir(dataDir string, id app.ID) string { return filepath.Join(dataDir, appsName, string(id)) }

// live opens the live tree of id.
func (s *disk) live(id app.ID) (dir, error) {
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

// discard moves an entry of one of the areas to staging, which frees its name
// durably, and removes it there.
func (s *disk) discard(ctx context.Context, d dir, name string) error {
	trash := randName()
	err := move(d, name, s.staging, trash)
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	if err == nil {
		err = d.sync()
	}
	if err != nil {
		return cannot("remove what is not needed", fmt.Errorf("%s: %w", name, err))
	}
	return removeTree(ctx, s.staging, trash)
}

// syncAll makes everything written so far durable, contents and names.
func (s *disk) syncAll() error { return unix.Syncfs(int(s.staging)) }

// A host with a full disk fails in ways nobody expects, so what comes from
// strangers stops before: at a twentieth of the disk, or a gigabyte where that
// is less.
const (
	floorShare = 20
	floorMax   = 1 << 30
	// inodeFloor is the most inodes that must be free; where a twentieth of them
	// is less, that is enough.
	inodeFloor = 20_000
)

// SetFloor sets how many bytes must be free for Room not to refuse; a negative
// number is the default, a twentieth of the disk or a gigabyte where that is
// less. It MUST come before the Store is used.
func (s *disk) SetFloor(bytes int64) { s.floor = bytes }

// CheckFree refuses with app.NoSpace when the data directory's disk is nearly
// full or has hardly an inode left for another file, or the quota of its project
// is nearly used up: statfs(2) tells both alike. what completes "cannot ...".
func (s *disk) CheckFree(what string) error {
	var st unix.Statfs_t
	if err := unix.Fstatfs(int(s.staging), &st); err != nil {
		return cannot("look at the disk", err)
	}
	free, total := st.Bavail*uint64(st.Bsize), st.Blocks*uint64(st.Bsize)
	floor := min(total/floorShare, floorMax)
	if s.floor >= 0 {
		floor = uint64(s.floor)
	}
	if free < floor {
		return app.Errorf(app.NoSpace, "cannot %s: the host's disk is nearly full (%d MB are free); its owner must make room", app.Words(what), free>>20)
	}
	if FewInodes(st.Ffree, st.Files) {
		return app.Errorf(app.NoSpace, "cannot %s: the host's disk has room for %d more files only; its owner must remove some", app.Words(what), st.Ffree)
	}
	return nil
}

// FewInodes reports whether a file system with so many inodes has too few free
// ones. Those that make inodes as they need them (Btrfs, ZFS) have 0 of 0, or as
// many as there is room for.
func FewInodes(free, total uint64) bool {
	return total > 0 && free < min(total/floorShare, inodeFloor)
}

// freeCheck looks at the disk again after each checkEvery bytes that were written,
// before too little is free: others write too.
type freeCheck struct {
	check func() error // nil is never
	since int64        // bytes
}

// checkEvery is how many bytes are written between two looks at the disk.
const checkEvery = 32 << 20

// wrote counts what was written.
func (c *freeCheck) wrote(bytes int64) error {
	if c.since += bytes; c.check == nil || c.since < checkEvery {
		return nil
	}
	c.since = 0
	return c.check()
}

// Points are the places where a crash leaves something between the old state
// and the new one: each is passed right before the change that it is named
// after. The tests crash at each of them, and fail when one is passed that is
// not here or one that is here is never passed.
var Points = []string{
	// Apply
	"list",  // what deploys have brought is written; it counts once the records name it
	"plan",  // the plan gets its name: from here on there is something to undo
	"save",  // an original moves aside
	"put",   // a new entry moves into place
	"mkdir", // a directory is made
	"rmdir", // an empty directory goes
	"mode",  // a directory gets another mode
	"applied",
	// Settle, of a commit that the records do not name
	"restore",   // an original moves back
	"clear",     // what is in the way of one moves to the trash
	"unlink",    // a file of the commit goes
	"remove",    // a directory of the commit goes
	"remake",    // a directory is there again
	"undo-mode", // a directory gets its mode back
	"drop-journal",
	// Settle, of one that they name
	"keep-journal",
}

// Hook makes every point call f first, with the name of the point, and the
// operation fail when f does. It is for tests, and to be called before the
// Store is used.
func (s *disk) Hook(f func(point string) error) { s.step = f }

// at passes a point.
func (s *disk) at(point string) error {
	if s.step == nil {
		return nil
	}
	return s.step(point)
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
func isRandName(s string) bool { return len(s) == 32 && strings.Trim(s, "0123456789abcdef") == "" }
