package files

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
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
			who := ""
			if pid := LockedBy(dir); pid > 0 {
				who = fmt.Sprintf(" (pid %d)", pid)
			}
			return nil, fmt.Errorf("cannot use %s: another berth is serving from it%s", dir, who)
		}
		return nil, fmt.Errorf("cannot lock the data directory: %w", err)
	}
	return f, nil
}

// LockedBy returns the process that has the lock of a data directory, or 0 when none does, or
// it cannot be seen (proc(5), /proc/locks). Unlike Lock it keeps nobody from the lock.
func LockedBy(dir string) int {
	file, err := os.Stat(filepath.Join(dir, LockName))
	if err != nil {
		return 0
	}
	held, _ := os.ReadFile("/proc/locks")
	for line := range strings.Lines(string(held)) {
		f := strings.Fields(line) // 1: FLOCK ADVISORY WRITE PID MAJOR:MINOR:INODE START END; a process that waits has -> behind 1:
		if len(f) < 6 || f[1] != "FLOCK" {
			continue
		}
		open, _ := filepath.Glob("/proc/" + f[4] + "/fd/*")
		for _, name := range open {
			if is, err := os.Stat(name); err == nil && os.SameFile(is, file) {
				pid, _ := strconv.Atoi(f[4])
				return pid
			}
		}
	}
	return 0
}

// reserveName is a file of the data directory that holds blocks of its disk for the
// next start: the database's files, logs and records need some, and a daemon that
// ends on a full disk is to come back. What its own end gives back depends on how
// the database ended.
const (
	reserveName = "room"
	reserveSize = 256 << 10
)

// ReleaseReserve gives the start what KeepReserve has kept for it.
func ReleaseReserve(dir string) error {
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

// Reachable reports the first parent of dataDir that other users cannot enter:
// programs run as users of their own and start inside the data directory. The
// error names it and the remedy. Parents that do not exist yet are fine.
func Reachable(dataDir string) error {
	abs, err := filepath.Abs(dataDir)
	if err != nil {
		return fmt.Errorf("cannot use %s as the data directory: %w", dataDir, err)
	}
	parents := parentsOf(abs)
	if real, err := filepath.EvalSymlinks(abs); err == nil {
		parents = append(parents, parentsOf(real)...)
	}
	for _, p := range parents {
		info, err := os.Stat(p)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return fmt.Errorf("cannot use %s as the data directory: %w", abs, err)
		}
		if info.Mode().Perm()&0o001 == 0 {
			return fmt.Errorf("cannot use %s as the data directory: programs run as their own users and cannot enter %s; "+
				"chmod o+x %s, or choose another directory with --data-dir", abs, p, p)
		}
	}
	return nil
}

// parentsOf returns the directories above path, the root first.
func parentsOf(path string) []string {
	var parents []string
	for p := filepath.Dir(path); ; p = filepath.Dir(p) {
		parents = append(parents, p)
		if p == filepath.Dir(p) {
			break
		}
	}
	slices.Reverse(parents)
	return parents
}

// Prober finds out whether a disk answers at all. It has one goroutine at a time,
// which may hang as the disk does. It is safe for concurrent use.
type Prober struct {
	try  func() // writes something
	mu   sync.Mutex
	done chan struct{} // of the try under way, nil for none
	work sync.WaitGroup
}

// NewProber returns a prober of a disk; try writes to it.
func NewProber(try func()) *Prober {
	return &Prober{try: try}
}

// Wait blocks until no try is under way.
func (p *Prober) Wait() error {
	p.work.Wait()
	return nil
}

// Hangs reports whether a file cannot be written within a time. An error is an
// answer.
func (p *Prober) Hangs(within time.Duration) bool {
	p.mu.Lock()
	if p.done == nil {
		p.done = make(chan struct{})
		p.work.Go(func() {
			p.try()
			p.mu.Lock()
			defer p.mu.Unlock()
			close(p.done)
			p.done = nil
		})
	}
	done := p.done
	p.mu.Unlock()
	timer := time.NewTimer(within)
	defer timer.Stop()
	select {
	case <-done:
		return false
	case <-timer.C:
		return true
	}
}

// Touch writes a file without a name to the disk of dir.
func Touch(dir string) error {
	fd, err := unix.Open(dir, unix.O_TMPFILE|unix.O_WRONLY|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return err
	}
	_, err = unix.Write(fd, []byte{0})
	return errors.Join(err, unix.Fsync(fd), unix.Close(fd))
}
