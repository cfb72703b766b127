package cgroup

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// KillBelow ends what runs in the children of the group and removes them; what
// runs in the group itself goes on.
func (g *Group) KillBelow() error {
	list, err := os.ReadDir(g.path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("cannot list the groups below: %w", err)
	}
	var errs []error
	for _, e := range list {
		if !e.IsDir() {
			continue
		}
		c := &Group{path: filepath.Join(g.path, e.Name())}
		errs = append(errs, c.Kill(), c.WaitEmpty(belowTimeout), rmdir(c.path))
	}
	return errors.Join(errs...)
}

// killRounds bounds how often Kill looks for processes that were born meanwhile.
const killRounds = 100

// Kill ends every process of the group and of its children with SIGKILL, forks
// under way included (cgroup.kill, Linux 5.14). It does not wait: see WaitEmpty.
//
// cgroup.kill signals the first thread of each process alone, and one that has
// ended while others go on takes no signal for them (send_sig in
// __cgroup_kill, seen on Linux 6.18). So each process is sent it by its pid too,
// until a look finds no new one: such a process may fork as well. Where nothing is left,
// as after most ends, nothing is listed.
func (g *Group) Kill() error {
	signalled := map[int]bool{}
	for range killRounds {
		err := os.WriteFile(filepath.Join(g.path, "cgroup.kill"), []byte("1"), 0)
		if err != nil && !ended(err) {
			return fmt.Errorf("cannot kill the group: %w", err)
		}
		if b, err := os.ReadFile(filepath.Join(g.path, "cgroup.events")); err == nil && strings.Contains(string(b), "populated 0") {
			return nil
		}
		n, err := signal(g.All, unix.SIGKILL, signalled)
		if err != nil && !ended(err) {
			return err
		}
		if n == 0 {
			break
		}
	}
	return nil
}

// ended reports whether err says that a group was removed.
func ended(err error) bool { return errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENODEV) }

// The kernel tells of changes at most every 10 ms (CGROUP_FILE_NOTIFY_MIN_INTV
// in kernel/cgroup/cgroup.c), and a process that was waited for may be counted
// a moment longer: so the first looks do not wait to be signalled.
const (
	firstLook = 50 * time.Microsecond
	lastLook  = 10 * time.Millisecond
)

// WaitEmpty blocks until the group and its children have no process, at most
// for timeout.
func (g *Group) WaitEmpty(timeout time.Duration) error {
	f, err := os.Open(filepath.Join(g.path, "cgroup.events"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	} else if err != nil {
		return fmt.Errorf("cannot watch the group: %w", err)
	}
	defer f.Close()
	deadline := time.Now().Add(timeout)
	var buf [256]byte
	for pause := firstLook; ; pause *= 2 {
		n, err := f.ReadAt(buf[:], 0)
		if n == 0 && err != nil {
			return nil // removed meanwhile
		}
		if strings.Contains(string(buf[:n]), "populated 0") {
			return nil
		}
		left := time.Until(deadline)
		if left <= 0 {
			return fmt.Errorf("cannot end the group: processes are left after %s", timeout)
		}
		if pause < lastLook {
			time.Sleep(pause)
			continue
		}
		// A change of cgroup.events shows as POLLPRI until it is read.
		fds := []unix.PollFd{{Fd: int32(f.Fd()), Events: unix.POLLPRI}}
		if _, err := unix.Poll(fds, int(left.Milliseconds())+1); err != nil && !errors.Is(err, unix.EINTR) {
			return fmt.Errorf("cannot watch the group: %w", err)
		}
	}
}

// Signal sends sig to every process in the group, but not to those of its
// children: a wrapper such as "npm start" does not pass SIGTERM on, so the
// program behind it gets it too.
func (g *Group) Signal(sig syscall.Signal) error {
	_, err := signal(g.Procs, sig, map[int]bool{})
	return err
}

// signal sends sig to the processes of a list that were not signalled yet, and returns
// how many there were.
//
// A pid read from a group could be somebody else's by the time it is signalled.
// So descriptors are opened first, and only a pid that is still in the group
// afterwards is signalled, through its descriptor.
func signal(list func() ([]int, error), sig syscall.Signal, signalled map[int]bool) (n int, err error) {
	before, err := list()
	if err != nil {
		return 0, err
	}
	fds := make(map[int]int, len(before))
	defer func() {
		for _, fd := range fds {
			_ = unix.Close(fd)
		}
	}()
	for _, pid := range before {
		if signalled[pid] {
			continue
		}
		if fd, err := unix.PidfdOpen(pid, 0); err == nil {
			fds[pid] = fd
		}
	}
	if len(fds) == 0 {
		return 0, nil
	}
	after, err := list()
	if err != nil {
		return 0, err
	}
	var errs []error
	for pid, fd := range fds {
		if !slices.Contains(after, pid) {
			continue
		}
		signalled[pid] = true
		n++
		if err := unix.PidfdSendSignal(fd, sig, nil, 0); err != nil && !errors.Is(err, unix.ESRCH) {
			errs = append(errs, fmt.Errorf("cannot signal process %d: %w", pid, err))
		}
	}
	return n, errors.Join(errs...)
}
