package daemon

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"berth/daemon/settings"
	"berth/db"
	"berth/files"
)

// DatabaseName is the file in the data directory that the daemon and the
// commands share.
const DatabaseName = "berth.db"

// OpenDatabase opens the database in dir for a command of the host. It makes neither:
// who names the wrong directory is to hear of it, and what was there and is gone must
// not be taken for what never was.
func OpenDatabase(ctx context.Context, dir string) (*db.DB, error) {
	if err := refuseUnfinished(dir); err != nil {
		return nil, err
	}
	if anew, err := db.New(ctx, filepath.Join(dir, DatabaseName)); err != nil {
		return nil, openProblem(dir, err)
	} else if anew {
		return nil, cmp.Or(goneProblem(dir), noDatabase(dir))
	}
	return openDatabase(ctx, dir)
}

// MakeDatabase opens the database in dir. In an empty directory, or where there is
// none, it makes what is missing: anybody may pass through the directory, to files
// that are their own, and nobody may list it. It refuses to make a database beside
// what berth left of another one, which would belong to nobody.
func MakeDatabase(ctx context.Context, dir string) (*db.DB, error) {
	if err := refuseUnfinished(dir); err != nil {
		return nil, err
	}
	if err := MakeDataDir(dir); err != nil {
		return nil, openProblem(dir, err)
	}
	anew, err := db.New(ctx, filepath.Join(dir, DatabaseName))
	if err != nil {
		return nil, openProblem(dir, err)
	}
	if anew {
		if err := goneProblem(dir); err != nil {
			return nil, err
		}
	}
	return openDatabase(ctx, dir)
}

func openDatabase(ctx context.Context, dir string) (*db.DB, error) {
	d, err := db.Open(ctx, filepath.Join(dir, DatabaseName), time.Now)
	if err != nil {
		return nil, openProblem(dir, err)
	}
	return d, nil
}

// openProblem says what is to be done when a database cannot be opened.
func openProblem(dir string, err error) error {
	if refused := cmp.Or(DiskProblem(dir, err), newerProblem(err), databaseProblem(dir, err)); refused != nil {
		return refused
	}
	if errors.Is(err, fs.ErrPermission) {
		return settings.NewProblem(settings.ExitPermission, fmt.Errorf("cannot use the data directory %s: permission denied", dir),
			"Hint: run the command as root, or name another directory with --data-dir.")
	}
	return err
}

// noDatabase is the error of a command where berth has never served.
func noDatabase(dir string) error {
	return settings.NewProblem(settings.ExitNotFound, fmt.Errorf("cannot find a database in %s: berth has not been started there yet", dir),
		"Hint: start berth first (berth install --now, or berth serve), or name its directory with --data-dir.")
}

// goneProblem refuses a directory that has lost its database: with a new one, all
// that is in it would belong to nobody. It returns nil for one that berth has left
// nothing in.
func goneProblem(dir string) error {
	found := remains(dir)
	if found == "" {
		return nil
	}
	return settings.NewProblem(settings.ExitConfig, fmt.Errorf("cannot use the data directory %s: its database %s is gone, and %s is there", dir, DatabaseName, found),
		"Hint: programs that run go on; put "+DatabaseName+" back with its own files -wal and -shm, or a copy ("+DatabaseName+".saved-*, "+DatabaseName+".schema-*) without these two, or restore a backup into a new directory (berth backup restore). To begin anew, empty the directory.")
}

// remains names something in dir that only a berth with a database has made there,
// "" for nothing.
func remains(dir string) string {
	file := filepath.Join(dir, DatabaseName)
	names := append(files.Areas(), "logs", "metrics")
	if _, err := os.Lstat(file); err != nil { // else they are those of a start that was cut short
		names = append(names, DatabaseName+"-wal", DatabaseName+"-shm")
	}
	for _, name := range names {
		if _, err := os.Lstat(filepath.Join(dir, name)); err == nil {
			return name
		}
	}
	list, err := os.ReadDir(dir)
	if err != nil {
		return ""
	}
	for _, e := range list {
		if strings.HasPrefix(e.Name(), DatabaseName+".schema-") || strings.HasPrefix(e.Name(), DatabaseName+savedWord) {
			return e.Name()
		}
	}
	return ""
}

// MakeDataDir makes the data directory, if there is none: anybody may pass through
// it, to files that are their own, and nobody may list it.
func MakeDataDir(dir string) error {
	const mode = 0o711
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		return fmt.Errorf("cannot make the data directory: %w", err)
	}
	err := os.Mkdir(dir, mode)
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	if err == nil {
		err = os.Chmod(dir, mode) // the umask may have taken more
	}
	if err != nil {
		return fmt.Errorf("cannot make the data directory: %w", err)
	}
	return nil
}

// UnfinishedName is there while a backup is restored into a data directory: all
// it holds is in there until everything is whole.
const UnfinishedName = "restore.unfinished"

// refuseUnfinished refuses a data directory that a restore was cut short in.
func refuseUnfinished(dir string) error {
	if _, err := os.Lstat(filepath.Join(dir, UnfinishedName)); err != nil {
		return nil
	}
	return settings.NewProblem(settings.ExitConfig, fmt.Errorf("cannot use the data directory %s: a restore into it was cut short", dir),
		"Hint: empty the directory and restore again.")
}

// newerProblem says what is to be done about a database of a newer berth, and
// returns nil when that is not the error.
func newerProblem(err error) error {
	if !errors.Is(err, db.ErrNewer) {
		return nil
	}
	return settings.NewProblem(settings.ExitConfig, err,
		"Hint: install that berth again, or stop the daemon and put the copy from before its migration ("+DatabaseName+".schema-N) in the place of "+DatabaseName+".")
}

// DiskProblem says what is to be done when a data directory cannot be opened
// for its disk, and returns nil when that is not why. Room may be made while the service
// is started again and again; a read-only disk waits for a person.
func DiskProblem(dir string, err error) error {
	code, why, hint := settings.ExitFailure, "", "Hint: make room on it, or name another directory with --data-dir."
	switch {
	case err == nil:
		return nil
	case errors.Is(err, unix.ENOSPC):
		why = "its disk is full, and a start needs about 100 KB"
	case errors.Is(err, unix.EDQUOT):
		why = "its disk quota is used up, and a start needs about 100 KB"
	case errors.Is(err, unix.EROFS), errors.Is(unix.Access(dir, unix.W_OK), unix.EROFS):
		code, why = settings.ExitConfig, "its disk is read-only"
		hint = "Hint: look in dmesg for what happened to the disk, then mount -o remount,rw its file system, or name another directory with --data-dir."
	default:
		return nil
	}
	return settings.NewProblem(code, fmt.Errorf("cannot use the data directory %s: %s", dir, why), hint)
}

// startOf is where a data directory begins in the ranges of uids and ports.
func startOf(dataDir string) int {
	n, err := strconv.ParseUint(pathGroupName(dataDir), 16, 32)
	if err != nil {
		return 0
	}
	return int(n >> 1) // also on 32 bits
}

// openRecords opens the database and reads from it, before anything that runs is
// touched: whoever cannot read what is to run must not end it.
func (d *daemon) openRecords(ctx context.Context) (err error) {
	dir := d.settings.DataDir
	if d.db, err = MakeDatabase(ctx, dir); err != nil {
		return err
	}
	d.undo = append(d.undo, d.db.Close)
	d.disk = files.NewProber(func() { _ = files.Touch(dir) })
	d.undo = append(d.undo, func() error { return d.disk.Wait() })
	_, err = d.db.Apps(ctx)
	return cmp.Or(databaseProblem(dir, err), err)
}

// databaseProblem says what is to be done when the database cannot be used, and
// returns nil when err is none of that. Programs run on in every case. A disk may
// come back while the service is started again and again; a file that is damaged
// waits for a person.
func databaseProblem(dir string, err error) error {
	file := filepath.Join(dir, DatabaseName)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, db.ErrMoved):
		return settings.NewProblem(settings.ExitConfig, fmt.Errorf("cannot use the database %s: a berth serves whose database files were removed or replaced: %w", file, err),
			"Hint: stop that berth (systemctl stop berth): it writes what it holds into the file that it has open; then start it again.")
	case errors.Is(err, db.ErrOtherLog), db.Damaged(err) && db.LeftLog(file):
		return settings.NewProblem(settings.ExitConfig, fmt.Errorf("cannot use the database %s with the file %s-wal beside it: %w", file, DatabaseName, err),
			"Hint: programs that run go on. If "+DatabaseName+" is a copy that somebody put there, move "+DatabaseName+"-wal and "+DatabaseName+"-shm, which are of another database, away, and start berth again. Else restore a backup into a new directory (berth backup restore).")
	case db.Damaged(err):
		return settings.NewProblem(settings.ExitConfig, fmt.Errorf("cannot use the database %s: it is damaged: %w", file, err),
			"Hint: programs that run go on; restore a backup into a new directory (berth backup restore), or put a copy in its place ("+DatabaseName+".schema-*), without the files -wal and -shm; then start berth again.")
	case db.Failed(err):
		return settings.NewProblem(settings.ExitFailure, fmt.Errorf("cannot use the database %s: its disk reports errors: %w", file, err),
			"Hint: programs that run go on; look in dmesg for what happened to the disk. As a service berth tries again until it works.")
	case db.Unopened(err):
		if errors.Is(err, os.ErrPermission) && os.Geteuid() != 0 {
			return nil // it is who asks, not the file
		}
		return settings.NewProblem(settings.ExitFailure, fmt.Errorf("cannot use the database %s: it cannot be opened: %w", file, err),
			"Hint: programs that run go on; look at the file and its directory. As a service berth tries again until it works.")
	}
	return nil
}
