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
//
// A pid read from the group could be somebody else's by the time it is
// signalled. So descriptors are opened first, and only a pid that is still in
// the group afterwards is signalled, through its descriptor.
func (g *Group) Signal(sig syscall.Signal) error {
	before, err := g.Procs()
	if err != nil {
		return err
	}
	fds := make(map[int]int, len(before))
	defer func() {
		for _, fd := range fds {
			_ = unix.Close(fd)
		}
	}()
	for _, pid := range before {
		if fd, err := unix.PidfdOpen(pid, 0); err == nil {
			fds[pid] = fd
		}
	}
	after, err := g.Procs()
	if err != nil {
		return err
	}
	var errs []error
	for pid, fd := range fds {
		if !slices.Contains(after, pid) {
			continue
		}
		if err := unix.PidfdSendSignal(fd, sig, nil, 0); err != nil && !errors.Is(err, unix.ESRCH) {
			errs = append(errs, fmt.Errorf("cannot signal process %d: %w", pid, err))
		}
	}
	return errors.Join(errs...)
}
