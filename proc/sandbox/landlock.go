package sandbox

import (
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

// scopesABI is the version of landlock that has scopes (Linux 6.12).
const scopesABI = 6

// landlockABI returns the kernel's version of landlock, 0 when it has none.
func landlockABI() int {
	abi, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	if errno != 0 {
		return 0
	}
	return int(abi)
}

// scope keeps this thread, and what it becomes, from the abstract sockets of
// all others (landlock(7), LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET): those have no
// file whose permissions could tell who may connect. Signals are not scoped, for
// a console command may signal its own program; the uids part the rest.
func scope() error {
	if abi := landlockABI(); abi < scopesABI {
		return fmt.Errorf("the kernel's landlock is of version %d, and %d is needed", abi, scopesABI)
	}
	rules := unix.LandlockRulesetAttr{Scoped: unix.LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET}
	size := unsafe.Offsetof(rules.Scoped) + unsafe.Sizeof(rules.Scoped) // what a kernel of that version knows
	fd, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, uintptr(unsafe.Pointer(&rules)), size, 0)
	if errno != 0 {
		return fmt.Errorf("make a ruleset: %w", errno)
	}
	_, _, errno = unix.Syscall(unix.SYS_LANDLOCK_RESTRICT_SELF, fd, 0, 0)
	_ = unix.Close(int(fd))
	if errno != 0 {
		return fmt.Errorf("enforce a ruleset: %w", errno)
	}
	return nil
}
