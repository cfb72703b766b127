package mover

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// What there is of a move in the data directory of the new host.
const (
	// Unfinished is where everything arrives. The next move begins with an empty one.
	Unfinished = "move.unfinished"
	// Ready is the same place when everything is in it, and on the disk.
	Ready = "move.ready"
	// Before ends the name of the database that was there before.
	Before = ".before-move"

	markName = "moved.json" // in a place, and in the data directory afterwards
	lockName = "move.lock"

	lockPause = 50 * time.Millisecond
)

// Database is the name of the database in a data directory, and in a place.
const Database = "berth.db"

// mark is what a new host remembers of a move.
type mark struct {
	Move string `json:"move"`
	From string `json:"from"`
}

func readMark(dir string) (m mark, err error) {
	text, err := os.ReadFile(filepath.Join(dir, markName))
	if errors.Is(err, fs.ErrNotExist) {
		return m, nil
	}
	if err == nil {
		err = json.Unmarshal(text, &m)
	}
	return m, err
}

// Lock makes sure that one move is under way from a data directory, and that nobody ends the
// hold of its programs meanwhile. It waits for the lock as long as patience. The lock goes with
// the process, however it ends.
func Lock(dir string, patience time.Duration) (end func(), err error) {
	f, err := os.OpenFile(filepath.Join(dir, lockName), os.O_CREATE|os.O_RDWR|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return nil, err
	}
	err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	for until := time.Now().Add(patience); errors.Is(err, unix.EWOULDBLOCK) && time.Now().Before(until); {
		time.Sleep(lockPause)
		err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	}
	if err == nil {
		return func() { _ = f.Close() }, nil // nothing was written
	}
	_ = f.Close()
	if errors.Is(err, unix.EWOULDBLOCK) {
		return nil, errors.New("a move of this host's programs is under way")
	}
	return nil, os.NewSyscallError("flock", err)
}

// Settle puts what a move has brought into place, if there is something: the database last,
// and with the database that was there beside it. Nothing else MUST use the data directory.
// A Settle that was cut short is finished by the next one.
func Settle(dir string, log *slog.Logger) error {
	ready := filepath.Join(dir, Ready)
	entries, err := os.ReadDir(ready)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		log.Info("putting into place what was moved to this host")
		err = settling{dir, ready, func() error { return nil }}.settle(entries)
	}
	if err != nil {
		return fmt.Errorf("cannot put into place what was moved to this host: %w", err)
	}
	return nil
}

// settling is one Settle. at is called before each change: a test makes it fail.
type settling struct {
	dir, ready string
	at         func() error
}

func (s settling) settle(entries []os.DirEntry) error {
	dir, ready := s.dir, s.ready
	last, marked := false, false
	for _, e := range entries {
		switch {
		case e.Name() == markName: // after the database: it says that everything is in place
			marked = true
		case strings.HasPrefix(e.Name(), Database+"-"): // of a database that is closed they are empty
		case e.Name() == Database:
			last = true
		case e.Name() == "apps" || e.Name() == "rollback":
			if err := s.merge(filepath.Join(ready, e.Name()), filepath.Join(dir, e.Name())); err != nil {
				return err
			}
		default:
			if err := errors.Join(s.at(), os.RemoveAll(filepath.Join(dir, e.Name()))); err != nil { // such as the settings of an earlier restore
				return err
			}
			if err := s.rename(filepath.Join(ready, e.Name()), filepath.Join(dir, e.Name())); err != nil {
				return err
			}
		}
	}
	if err := syncDir(dir); err != nil {
		return err
	}
	if last {
		if err := s.replaceDatabase(); err != nil {
			return err
		}
	}
	if marked {
		if err := s.rename(filepath.Join(ready, markName), filepath.Join(dir, markName)); err != nil {
			return err
		}
		if err := syncDir(dir); err != nil {
			return err
		}
	}
	if err := errors.Join(s.at(), os.RemoveAll(ready)); err != nil {
		return err
	}
	return syncDir(dir)
}

func (s settling) rename(from, to string) error {
	if err := s.at(); err != nil {
		return err
	}
	return os.Rename(from, to)
}

// merge moves what is in a directory into another one.
func (s settling) merge(from, to string) error {
	if err := s.rename(from, to); err == nil { // there is none, or an empty one
		return syncDir(to)
	}
	entries, err := os.ReadDir(from)
	if err != nil {
		return err
	}
	for _, e := range entries {
		at := filepath.Join(to, e.Name())
		err := s.rename(filepath.Join(from, e.Name()), at)
		if errors.Is(err, unix.ENOTEMPTY) || errors.Is(err, unix.EEXIST) { // of what came to be here meanwhile
			if err = s.rename(at, to+"."+e.Name()+Before); err == nil {
				err = s.rename(filepath.Join(from, e.Name()), at)
			}
		}
		if err != nil {
			return err
		}
	}
	return syncDir(to)
}

// replaceDatabase takes the place's database. The log of the one before goes first: it would
// be taken for that of the new one.
func (s settling) replaceDatabase() error {
	at := filepath.Join(s.dir, Database)
	for _, log := range []string{at + "-wal", at + "-shm"} {
		if err := s.at(); err != nil {
			return err
		}
		if err := os.Remove(log); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	if err := s.rename(at, at+Before); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := s.rename(filepath.Join(s.ready, Database), at); err != nil {
		return err
	}
	return syncDir(s.dir)
}

func syncDir(path string) error {
	d, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
