package sandbox

import (
	"errors"
	"fmt"
	"syscall"

	"golang.org/x/sys/unix"
)

// Limits are the resource limits of one child that differ between children.
type Limits struct {
	Files     uint64 // open files, soft and hard
	FileSize  uint64 // bytes of one file; 0 leaves it as it is
	Processes uint64 // of the user, over all its groups, threads included; 0 leaves it as it is
}

// The limits that are the same for all. Each is the kernel's default or less,
// whatever the daemon was started with.
const (
	lockedMemory  = 8 << 20 // bytes; since Linux 5.16 the default, and it counts as the program's memory all the same
	queuedSignals = 4096    // of the user; each takes kernel memory
	messageQueues = 819200  // bytes of POSIX queues, of the user
)

// A program never gets more than berth itself has, but for open files, which it
// is promised. Left alone are the stack, which runtimes and threads take as they
// find it, and what the control group bounds better: memory, processor time.
func limit(l Limits) error {
	// syscall's function also stops the runtime from putting its own former
	// limit back at execve.
	err := errors.Join(
		files(l.Files),
		lower("core", unix.RLIMIT_CORE, 0),
		lower("memlock", unix.RLIMIT_MEMLOCK, lockedMemory),
		lower("msgqueue", unix.RLIMIT_MSGQUEUE, messageQueues),
		lower("sigpending", unix.RLIMIT_SIGPENDING, queuedSignals),
		lower("nice", unix.RLIMIT_NICE, 0),
		lower("rtprio", unix.RLIMIT_RTPRIO, 0),
	)
	if l.FileSize > 0 {
		err = errors.Join(err, lower("fsize", unix.RLIMIT_FSIZE, l.FileSize))
	}
	if l.Processes > 0 {
		err = errors.Join(err, lower("nproc", unix.RLIMIT_NPROC, l.Processes))
	}
	return err
}

// files sets both limits of open files, also above the hard one, which takes
// CAP_SYS_RESOURCE.
func files(most uint64) error {
	if err := syscall.Setrlimit(unix.RLIMIT_NOFILE, &syscall.Rlimit{Cur: most, Max: most}); err != nil {
		return fmt.Errorf("%d open files: %w", most, err)
	}
	return nil
}

// lower sets both limits of a resource to most, or to the hard one where that
// is less.
func lower(name string, resource int, most uint64) error {
	var now unix.Rlimit
	err := unix.Getrlimit(resource, &now)
	if err == nil {
		most = min(most, now.Max)
		err = unix.Setrlimit(resource, &unix.Rlimit{Cur: most, Max: most})
	}
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}
