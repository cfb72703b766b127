package files

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// reserveName is a file of the data directory that holds blocks of its disk for the
// next start: the database's files, logs and records need some, and a daemon that
// ends on a full disk is to come back. What its own end gives back depends on how
// the database ended.
const (
	reserveName = "room"
	reserveSize = 256 << 10
)

// TakeReserve gives the start what KeepReserve has kept for it.
func TakeReserve(dir string) error {
	if err := os.Remove(filepath.Join(dir, reserveName)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("cannot take the room for a start: %w", err)
	}
	return nil
}

// KeepReserve keeps it for the next one, if it does not yet. File systems that
// allocate nothing ahead (ZFS) have none.
func KeepReserve(dir string) error {
	name := filepath.Join(dir, reserveName)
	if info, err := os.Lstat(name); err == nil && info.Size() == reserveSize {
		return nil
	}
	f, err := os.OpenFile(name, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err == nil {
		err = errors.Join(unix.Fallocate(int(f.Fd()), 0, 0, reserveSize), f.Close())
	}
	if err == nil {
		return nil
	}
	_ = os.Remove(name) // a part of it
	if errors.Is(err, unix.EOPNOTSUPP) {
		return nil
	}
	return fmt.Errorf("cannot keep room for the next start: %w", err)
}
