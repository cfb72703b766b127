package proc

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// ended blocks until a child has ended, and leaves it to be reaped. It sleeps
// in the runtime's poller: wait4 would hold a thread for each program
// (pidfd_open(2); PIDFD_NONBLOCK is of Linux 5.10).
func ended(pid int) error {
	fd, err := unix.PidfdOpen(pid, unix.PIDFD_NONBLOCK)
	if err != nil {
		return fmt.Errorf("cannot open a pidfd: %w", err)
	}
	file := os.NewFile(uintptr(fd), "pidfd")
	defer file.Close()
	conn, err := file.SyscallConn()
	if err != nil {
		return fmt.Errorf("cannot wait on a pidfd: %w", err)
	}
	var failed error
	err = conn.Read(func(fd uintptr) bool {
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 0)
		if err != nil && !errors.Is(err, unix.EINTR) {
			failed = err
		}
		return n > 0 || failed != nil
	})
	return errors.Join(err, failed)
}
