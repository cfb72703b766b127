package files

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// lockPatience bounds the wait for the lock of a daemon that was killed: a
// child that it was just starting has it for a moment longer.
const lockPatience = 2 * time.Second

// LockName is the file that a daemon locks its data directory by.
const LockName = "lock"

// Lock makes sure that one daemon uses a data directory. The lock goes
// with the process, however it ends.
func Lock(dir string) (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(dir, LockName), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("cannot lock the data directory: %w", err)
	}
	err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	for until := time.Now().Add(lockPatience); errors.Is(err, unix.EWOULDBLOCK) && time.Now().Before(until); {
		time.Sleep(lockPatience / 100)
		err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	}
	if err != nil {
		_ = f.Close()
		if errors.Is(err, unix.EWOULDBLOCK) {
			return nil, fmt.Errorf("cannot use %s: another berth is serving from it", dir)
		}
		return nil, fmt.Errorf("cannot lock the data directory: %w", err)
	}
	return f, nil
}
