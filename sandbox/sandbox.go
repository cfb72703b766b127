package sandbox

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// Spec is what one child is allowed. It crosses a process boundary as JSON.
type Spec struct {
	UID   int    // also the group; never 0
	Files uint64 // open files, soft and hard
	Binds []Bind // need a mount namespace of the child's own (CLONE_NEWNS)
}

// Bind shows the directory From at the place To.
type Bind struct {
	From string
	To   string
}

// Enter confines the calling process: mounts, limits, capabilities, user,
// no_new_privs, umask, descriptors. It MUST be called as root on a locked
// thread that then calls execve, for several of these belong to the thread.
// It blocks no longer than its system calls.
func Enter(s Spec) error {
	if s.UID <= 0 {
		return fmt.Errorf("cannot run a program as user %d", s.UID)
	}
	steps := []struct {
		what string
		do   func() error
	}{
		{"bind its directories", func() error { return bind(s.Binds) }},
		{"limit its resources", func() error { return limit(s.Files) }},
		{"drop its capabilities", dropBounding},
		{"drop its groups", func() error { return syscall.Setgroups([]int{}) }},
		{"set its group", func() error { return syscall.Setresgid(s.UID, s.UID, s.UID) }},
		{"set its user", func() error { return syscall.Setresuid(s.UID, s.UID, s.UID) }},
		{"set no_new_privs", func() error { return unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) }},
		{"close its descriptors", closeDescriptors},
	}
	for _, step := range steps {
		if err := step.do(); err != nil {
			return fmt.Errorf("cannot %s: %w", step.what, err)
		}
	}
	syscall.Umask(0o027)
	return nil
}

// bind makes the mounts, visible to this process and its children alone.
func bind(binds []Bind) error {
	if len(binds) == 0 {
		return nil
	}
	// Without this a shared root would carry the mounts out to the host.
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return err
	}
	for _, b := range binds {
		if err := unix.Mount(b.From, b.To, "", unix.MS_BIND, ""); err != nil {
			return fmt.Errorf("%s: %w", filepath.Base(b.To), err)
		}
	}
	return nil
}

func limit(files uint64) error {
	// syscall's function also stops the runtime from putting its own former
	// limit back at execve.
	return errors.Join(
		syscall.Setrlimit(unix.RLIMIT_NOFILE, &syscall.Rlimit{Cur: files, Max: files}),
		syscall.Setrlimit(unix.RLIMIT_CORE, &syscall.Rlimit{}),
	)
}

// dropBounding empties the bounding set, so that not even a file with
// capabilities could give one back.
func dropBounding() error {
	last := 40 // CAP_CHECKPOINT_RESTORE
	if b, err := os.ReadFile("/proc/sys/kernel/cap_last_cap"); err == nil {
		if n, err := strconv.Atoi(strings.TrimSpace(string(b))); err == nil {
			last = n
		}
	}
	for c := range last + 1 {
		if err := unix.Prctl(unix.PR_CAPBSET_DROP, uintptr(c), 0, 0, 0); err != nil && !errors.Is(err, unix.EINVAL) {
			return err
		}
	}
	return nil
}

// closeDescriptors marks everything above stderr to be closed at execve:
// what the daemon itself inherited without the flag would else reach the
// program.
func closeDescriptors() error {
	return unix.CloseRange(3, math.MaxInt32, unix.CLOSE_RANGE_CLOEXEC)
}
