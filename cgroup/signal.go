package cgroup

import (
	"errors"
	"fmt"
	"slices"
	"syscall"

	"golang.org/x/sys/unix"
)

// Signal sends sig to every process in the group, but not to those of its
// children: a wrapper such as "npm start" does not pass SIGTERM on, so the
// program behind it is told too.
func (g *Group) Signal(sig syscall.Signal) error {
	_, err := signal(g.Procs, sig, map[int]bool{})
	return err
}

// signal sends sig to the processes of a list that were not told yet, and returns
// how many there were.
//
// A pid read from a group could be somebody else's by the time it is signalled.
// So descriptors are opened first, and only a pid that is still in the group
// afterwards is signalled, through its descriptor.
func signal(list func() ([]int, error), sig syscall.Signal, told map[int]bool) (n int, err error) {
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
		if told[pid] {
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
		told[pid] = true
		n++
		if err := unix.PidfdSendSignal(fd, sig, nil, 0); err != nil && !errors.Is(err, unix.ESRCH) {
			errs = append(errs, fmt.Errorf("cannot signal process %d: %w", pid, err))
		}
	}
	return n, errors.Join(errs...)
}
