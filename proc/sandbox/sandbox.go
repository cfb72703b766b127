package sandbox

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// Spec is what one child is allowed.
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
	Shown  string   // a directory below Data that is shown, read-only; may be empty
	Alias  string   // the name the owner calls it by, when that is another
	Paths  []string // of the host that are shown, read-only; what is not there is passed over
	Name   string   // of the host, as the program sees it
	RAM    int64    // bytes; /tmp and /dev/shm may have half each
	Groups []Bind   // directories of control groups, and where they are shown
}

// Bind shows the directory From at the place To.
type Bind struct {
	From string
	To   string
}

// Has reports whether the layer is wanted.
func (s *Spec) Has(l Layer) bool { return slices.Contains(s.Layers, l) }

// Flags returns the namespaces (CLONE_NEW...) that a child MUST be born in for a
// plan that confines it with the Spec.
func (s *Spec) Flags() uintptr {
	switch {
	case s.Has(Mounts):
		return unix.CLONE_NEWNS | unix.CLONE_NEWIPC | unix.CLONE_NEWUTS
	case s.From != "":
		return unix.CLONE_NEWNS
	}
	return 0
}

// Confine adds what confines the child: its view of the host, limits, capabilities,
// user, no_new_privs, umask, landlock, system calls. The child MUST be root, and in its
// last control group. It reads the host's directories and changes nothing. Where a wall
// cannot be had, the error is a Missing, of Confine or of the child.
func (p *Plan) Confine(s *Spec) error {
	if s.UID <= 0 {
		return fmt.Errorf("cannot run a program as user %d", s.UID)
	}
	p.wall = s.Has(Mounts) || s.Has(Cgroup)
	err := p.view(s)
	if err != nil {
		err = fmt.Errorf("cannot %w", err)
		if p.wall {
			err = refusal(err)
		}
		return err
	}
	p.wall = false
	p.To("leave the host's keys")
	p.leaveKeys()
	if err := p.limit(s.Limits); err != nil {
		return fmt.Errorf("cannot limit its resources: %w", err)
	}
	p.To("drop its capabilities")
	p.dropBounding()
	p.To("drop its groups")
	p.call(unix.SYS_SETGROUPS, 0, 0)
	p.To("set its group")
	p.call(unix.SYS_SETRESGID, s.UID, s.UID, s.UID)
	p.To("set its user")
	p.call(unix.SYS_SETRESUID, s.UID, s.UID, s.UID)
	p.To("set no_new_privs")
	p.call(unix.SYS_PRCTL, unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
	p.call(unix.SYS_UMASK, 0o027)
	p.wall = true
	defer func() { p.wall = false }()
	if s.Has(Landlock) {
		if err := p.scope(); err != nil {
			return refusal(fmt.Errorf("cannot scope its sockets: %w", err))
		}
	}
	if s.Has(Seccomp) { // the last: it forbids what came before
		if err := p.filter(); err != nil {
			return refusal(fmt.Errorf("cannot filter its system calls: %w", err))
		}
	}
	return nil
}

// view makes the mounts, visible to the child and its children alone.
func (p *Plan) view(s *Spec) error {
	if s.Has(Cgroup) {
		// Here and not at birth: on a hybrid host the child has joined the v1
		// groups only now, and the groups it is in become its roots.
		p.To("hide other control groups")
		p.call(unix.SYS_UNSHARE, unix.CLONE_NEWCGROUP)
	}
	if s.Has(Mounts) {
		p.To("name its host")
		p.call(unix.SYS_SETHOSTNAME, s.Name, len(s.Name))
		return newRoot(p, s)
	}
	if s.From != "" {
		p.keepMounts()
		p.To("show the program its directory")
		p.mount(s.From, s.Home, "", unix.MS_BIND, "")
	}
	return nil
}

// keepMounts keeps the child's mounts to itself: a shared root would carry them out to
// the host.
func (p *Plan) keepMounts() {
	p.To("keep the mounts to itself")
	p.mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, "")
}

// leaveKeys joins a new, empty session keyring (keyctl(2)): else the program
// would possess what the daemon's session has. Where nobody may, or there are
// no keys, the program cannot reach them either.
func (p *Plan) leaveKeys() {
	p.call(unix.SYS_KEYCTL, unix.KEYCTL_JOIN_SESSION_KEYRING, 0).passes(unix.ENOSYS, unix.EPERM)
}

// dropBounding empties the bounding set, so that not even a file with
// capabilities could give one back.
func (p *Plan) dropBounding() {
	for c := range lastCapability() + 1 {
		p.call(unix.SYS_PRCTL, unix.PR_CAPBSET_DROP, c, 0, 0, 0).passes(unix.EINVAL)
	}
}

// lastCapability is the kernel's.
var lastCapability = sync.OnceValue(func() int {
	b, _ := os.ReadFile("/proc/sys/kernel/cap_last_cap")
	if n, err := strconv.Atoi(strings.TrimSpace(string(b))); err == nil {
		return n
	}
	return 63 // there are no more bits, and what the kernel does not have it refuses
})

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

// limit gives a program no more than berth itself has, but for open files, which it
// is promised, also above the hard limit, which takes CAP_SYS_RESOURCE. Left alone are
// the stack, which runtimes and threads take as they find it, and what the control group
// bounds better: memory, processor time.
func (p *Plan) limit(l Limits) error {
	p.To("limit its resources: %d open files", l.Files)
	p.setLimit(unix.RLIMIT_NOFILE, l.Files)
	for _, r := range []struct {
		name     string
		resource int
		most     uint64
		leave    bool
	}{
		{"core", unix.RLIMIT_CORE, 0, false},
		{"memlock", unix.RLIMIT_MEMLOCK, lockedMemory, false},
		{"msgqueue", unix.RLIMIT_MSGQUEUE, messageQueues, false},
		{"sigpending", unix.RLIMIT_SIGPENDING, queuedSignals, false},
		{"nice", unix.RLIMIT_NICE, 0, false},
		{"rtprio", unix.RLIMIT_RTPRIO, 0, false},
		{"fsize", unix.RLIMIT_FSIZE, l.FileSize, l.FileSize == 0},
		{"nproc", unix.RLIMIT_NPROC, l.Processes, l.Processes == 0},
	} {
		if r.leave {
			continue
		}
		var own unix.Rlimit // which the child inherits
		if err := unix.Getrlimit(r.resource, &own); err != nil {
			return fmt.Errorf("%s: %w", r.name, err)
		}
		p.To("limit its resources: %s", r.name)
		p.setLimit(r.resource, min(r.most, own.Max))
	}
	return nil
}

// setLimit adds that both limits of a resource are set.
func (p *Plan) setLimit(resource int, most uint64) {
	p.call(unix.SYS_PRLIMIT64, 0, resource, words(most, most), 0)
}

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

// scope keeps the child, and what it becomes, from the abstract sockets of
// all others (landlock(7), LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET): those have no
// file whose permissions could tell who may connect. Signals are not scoped, for
// a console command may signal its own program; the uids part the rest.
func (p *Plan) scope() error {
	if abi := landlockABI(); abi < scopesABI {
		return fmt.Errorf("the kernel's landlock is of version %d, and %d is needed", abi, scopesABI)
	}
	p.To("scope its sockets: make a ruleset")
	rules := words(0, 0, unix.LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET) // struct landlock_ruleset_attr, of that version
	p.call(unix.SYS_LANDLOCK_CREATE_RULESET, rules, len(rules), 0)
	p.To("scope its sockets: enforce a ruleset")
	p.call(unix.SYS_LANDLOCK_RESTRICT_SELF, nextFD, 0)
	p.call(unix.SYS_CLOSE, nextFD)
	return nil
}

// filter puts the filter up for the child's thread, which is the only one that is left
// after execve, and so needs no TSYNC. It needs no_new_privs or root.
func (p *Plan) filter() error {
	filter, err := compiled()
	if err != nil {
		return err
	}
	p.To("filter its system calls: put up the filter")
	program := words(uint64(len(filter)/unix.SizeofSockFilter), p.keep(filter)) // struct sock_fprog, little-endian
	p.call(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, 0, program)
	return nil
}
