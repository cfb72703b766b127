package sandbox

import (
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// Spec is what one child is allowed. It crosses a process boundary as JSON.
type Spec struct {
	UID    int // also the group; never 0
	Limits Limits
	Layers []Layer // see Flags for what they need

	// The rest is of the layer Mounts, and but for Home and From only of it.
	// Paths are absolute; those of Home, Temp and Data have no link in them.

	Home   string   // the program's directory, at the path it has on the host; may be empty
	From   string   // the directory that is shown there; Home itself when empty
	Temp   string   // of a build: its TMPDIR, shown at its path and as /tmp
	Data   string   // the data directory, of which nothing else is shown
	Alias  string   // the name the owner calls it by, when that is another
	Paths  []string // of the host that are shown, read-only; what is not there is passed over
	Name   string   // of the host, as the program sees it
	RAM    int64    // bytes; /tmp and /dev/shm may have half each
	Groups []Bind   // directories of control groups, and where they are shown
}

// Has reports whether the layer is wanted.
func (s *Spec) Has(l Layer) bool { return slices.Contains(s.Layers, l) }

// Flags returns the namespaces (CLONE_NEW...) that a child MUST be born in to
// Enter with the Spec.
func (s *Spec) Flags() uintptr {
	switch {
	case s.Has(Mounts):
		return unix.CLONE_NEWNS | unix.CLONE_NEWIPC | unix.CLONE_NEWUTS
	case s.From != "":
		return unix.CLONE_NEWNS
	}
	return 0
}

// Bind shows the directory From at the place To.
type Bind struct {
	From string
	To   string
}

// Enter confines the calling process: its view of the host, limits,
// capabilities, user, no_new_privs, umask, descriptors, landlock, system calls.
// It MUST be called as root on a locked thread that then calls execve, for
// several of these belong to the thread, and in its last control group. It
// blocks no longer than its system calls. Where a wall cannot be had the error is a
// Missing.
func Enter(s Spec) error {
	if s.UID <= 0 {
		return fmt.Errorf("cannot run a program as user %d", s.UID)
	}
	if err := view(&s); err != nil {
		err = fmt.Errorf("cannot %w", err)
		if s.Has(Mounts) || s.Has(Cgroup) {
			err = refusal(err)
		}
		return err
	}
	steps := []struct {
		what string
		do   func() error
	}{
		{"leave the host's keys", leaveKeys},
		{"limit its resources", func() error { return limit(s.Limits) }},
		{"drop its capabilities", dropBounding},
		{"drop its groups", func() error { return syscall.Setgroups([]int{}) }},
		{"set its group", func() error { return syscall.Setresgid(s.UID, s.UID, s.UID) }},
		{"set its user", func() error { return syscall.Setresuid(s.UID, s.UID, s.UID) }},
		{"set no_new_privs", func() error { return unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) }},
		{"close its descriptors", closeDescriptors},
		{"scope its sockets", s.only(Landlock, scope)},
		{"filter its system calls", s.only(Seccomp, filter)}, // the last: it forbids what came before
	}
	for _, step := range steps {
		if err := step.do(); err != nil {
			return fmt.Errorf("cannot %s: %w", step.what, err)
		}
	}
	syscall.Umask(0o027)
	return nil
}

// only returns do, which puts up the layer, when that is wanted.
func (s *Spec) only(l Layer, do func() error) func() error {
	if s.Has(l) {
		return func() error { return refusal(do()) }
	}
	return func() error { return nil }
}

// view makes the mounts, visible to this process and its children alone. Its
// errors complete "cannot ...".
func view(s *Spec) error {
	if s.Has(Cgroup) {
		// Here and not at birth: on a hybrid host the child has joined the v1
		// groups only now, and the groups it is in become its roots.
		if err := unix.Unshare(unix.CLONE_NEWCGROUP); err != nil {
			return fmt.Errorf("hide other control groups: %w", err)
		}
	}
	if s.Has(Mounts) {
		if err := unix.Sethostname([]byte(s.Name)); err != nil {
			return fmt.Errorf("name its host: %w", err)
		}
		return enterRoot(s)
	}
	if s.From == "" {
		return nil
	}
	// Without this a shared root would carry the mounts out to the host.
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("keep the mounts to itself: %w", err)
	}
	if err := unix.Mount(s.From, s.Home, "", unix.MS_BIND, ""); err != nil {
		return fmt.Errorf("show the program its directory: %w", err)
	}
	return nil
}

// leaveKeys joins a new, empty session keyring (keyctl(2)): else the program
// would possess what the daemon's session has. Where nobody may, or there are
// no keys, the program cannot reach them either.
func leaveKeys() error {
	_, _, errno := unix.Syscall(unix.SYS_KEYCTL, unix.KEYCTL_JOIN_SESSION_KEYRING, 0, 0)
	if errno == 0 || errno == unix.ENOSYS || errno == unix.EPERM {
		return nil
	}
	return errno
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
