//go:build amd64 || arm64

package sandbox

import (
	"encoding/binary"
	"errors"
	"slices"
	"sync"

	"golang.org/x/sys/unix"
)

// The filter is a tree of comparisons, as classic BPF. The kernel tries it for
// every number of a system call when it is put up, and lets those pass without
// running it that it always allows (Linux 5.11, seccomp_cache_prepare in
// kernel/seccomp.c). So what is fast here makes the start fast; afterwards only
// the few calls pay whose arguments are looked at.

// Answers of the filter.
const (
	allow   = unix.SECCOMP_RET_ALLOW
	refuse  = unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM)
	unknown = unix.SECCOMP_RET_ERRNO | uint32(unix.ENOSYS)
	kill    = unix.SECCOMP_RET_KILL_PROCESS
)

// Where the filter finds what it judges (struct seccomp_data, seccomp(2)).
const (
	dataNr   = 0
	dataArch = 4
	dataArg0 = 16 // the lower half of each, which is what the kernel takes of an int
	dataArg1 = 24
	dataArg2 = 32
)

// Instructions of classic BPF.
const (
	load  = unix.BPF_LD | unix.BPF_W | unix.BPF_ABS
	ifEq  = unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K
	ifGE  = unix.BPF_JMP | unix.BPF_JGE | unix.BPF_K
	ifAny = unix.BPF_JMP | unix.BPF_JSET | unix.BPF_K
	and   = unix.BPF_ALU | unix.BPF_AND | unix.BPF_K
	ret   = unix.BPF_RET | unix.BPF_K
)

type code = []unix.SockFilter

func op(code uint16, k uint32) unix.SockFilter { return unix.SockFilter{Code: code, K: k} }

// namespaces are the flags of clone(2) that make one. CLONE_NEWTIME is not
// among them: there its bit is part of the signal.
const namespaces = unix.CLONE_NEWNS | unix.CLONE_NEWCGROUP | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC |
	unix.CLONE_NEWUSER | unix.CLONE_NEWPID | unix.CLONE_NEWNET

// refused are the system calls that no program of an application needs: they
// change or show the machine, reach into other processes, or have been the way
// of attacks on the kernel. Those of one processor alone are in refusedHere.
var refused = []uint32{
	// Mounts and roots.
	unix.SYS_MOUNT, unix.SYS_UMOUNT2, unix.SYS_PIVOT_ROOT, unix.SYS_CHROOT, unix.SYS_OPEN_TREE, unix.SYS_OPEN_TREE_ATTR,
	unix.SYS_MOVE_MOUNT, unix.SYS_FSOPEN, unix.SYS_FSCONFIG, unix.SYS_FSMOUNT, unix.SYS_FSPICK, unix.SYS_MOUNT_SETATTR,
	unix.SYS_LISTMOUNT, unix.SYS_STATMOUNT, unix.SYS_SWAPON, unix.SYS_SWAPOFF, unix.SYS_NFSSERVCTL,
	// Namespaces.
	unix.SYS_UNSHARE, unix.SYS_SETNS, unix.SYS_SETHOSTNAME, unix.SYS_SETDOMAINNAME,
	// Other processes.
	unix.SYS_PTRACE, unix.SYS_PROCESS_VM_READV, unix.SYS_PROCESS_VM_WRITEV, unix.SYS_PROCESS_MADVISE, unix.SYS_PROCESS_MRELEASE,
	unix.SYS_PIDFD_GETFD, unix.SYS_KCMP, unix.SYS_MOVE_PAGES, unix.SYS_MIGRATE_PAGES, unix.SYS_PERF_EVENT_OPEN,
	// The kernel's own parts.
	unix.SYS_BPF, unix.SYS_INIT_MODULE, unix.SYS_FINIT_MODULE, unix.SYS_DELETE_MODULE, unix.SYS_KEXEC_LOAD, unix.SYS_KEXEC_FILE_LOAD,
	unix.SYS_REBOOT, unix.SYS_SYSLOG, unix.SYS_ACCT, unix.SYS_LOOKUP_DCOOKIE, unix.SYS_VHANGUP,
	unix.SYS_KEYCTL, unix.SYS_ADD_KEY, unix.SYS_REQUEST_KEY,
	// Known for their weaknesses, and programs that are refused do without.
	unix.SYS_IO_URING_SETUP, unix.SYS_IO_URING_ENTER, unix.SYS_IO_URING_REGISTER, unix.SYS_USERFAULTFD,
	// Files by handle are reached past every directory on the way; quotas and
	// attributes that quotas go by are not the program's.
	unix.SYS_OPEN_BY_HANDLE_AT, unix.SYS_NAME_TO_HANDLE_AT, unix.SYS_FANOTIFY_INIT, unix.SYS_FANOTIFY_MARK,
	unix.SYS_QUOTACTL, unix.SYS_QUOTACTL_FD, unix.SYS_FILE_SETATTR,
	// The clock.
	unix.SYS_SETTIMEOFDAY, unix.SYS_CLOCK_SETTIME, unix.SYS_CLOCK_ADJTIME, unix.SYS_ADJTIMEX,
}

// ioctls that are refused. With the first two an owner of files could take
// them out of a project, and so out of its quota (ioctl_iflags(2),
// FS_XFLAG_PROJINHERIT). TIOCSTI and TIOCLINUX type into another user's terminal. The others change how the kernel
// treats a terminal (ioctl_tty(2)): TIOCSETD gives it one of some thirty line disciplines, and loads the module of
// that discipline.
var ioctls = []uint32{
	unix.FS_IOC_SETFLAGS, 0x401c5820 /* FS_IOC_FSSETXATTR */, unix.TIOCSTI, unix.TIOCLINUX,
	unix.TIOCSETD, unix.TIOCCONS, unix.TIOCSSERIAL, unix.TIOCVHANGUP, 0x5457, /* TIOCSLCKTRMIOS */
}

// UDP, TCP and pings; not MPTCP, SCTP, DCCP or UDP-Lite, which a policy for the
// first two would not see.
var protocols = []uint32{0, unix.IPPROTO_TCP, unix.IPPROTO_UDP, unix.IPPROTO_ICMP, unix.IPPROTO_ICMPV6}

// verdicts are the calls that are not simply allowed, each with code that
// judges it and ends with an answer on every way.
func verdicts() map[uint32]code {
	all := map[uint32]code{
		unix.SYS_CLONE: {
			op(load, dataArg0),
			{Code: ifAny, K: namespaces, Jf: 1},
			op(ret, refuse),
			op(ret, allow),
		},
		// Its flags are behind a pointer, where no filter sees them. Whoever is
		// told that there is none uses clone.
		unix.SYS_CLONE3:     {op(ret, unknown)},
		unix.SYS_IOCTL:      append(append(code{op(load, dataArg1)}, among(ioctls, refuse)...), op(ret, allow)),
		unix.SYS_SOCKET:     sockets(),
		unix.SYS_SOCKETPAIR: sockets(),
	}
	for _, nr := range slices.Concat(refused, refusedHere) {
		all[nr] = code{op(ret, refuse)}
	}
	return all
}

// among answers when the loaded word is one of values, and falls through when
// it is none.
func among(values []uint32, answer uint32) code {
	var c code
	for i, v := range values {
		last := i == len(values)-1
		c = append(c, unix.SockFilter{Code: ifEq, K: v, Jt: uint8(len(values) - 1 - i), Jf: skip(last)})
	}
	return append(c, op(ret, answer))
}

// skip is 1, to pass over the answer, for the last comparison of several.
func skip(last bool) uint8 {
	if last {
		return 1
	}
	return 0
}

// sockets judges socket(2) by its family, type and protocol: local sockets, UDP
// and TCP, and the routing tables, which C libraries ask for the host's
// addresses.
func sockets() code {
	no := func(errno unix.Errno) uint32 { return unix.SECCOMP_RET_ERRNO | uint32(errno) }
	internet := slices.Concat(
		code{op(load, dataArg1), op(and, 0xf)}, // the flags are above
		among([]uint32{unix.SOCK_RAW, unix.SOCK_PACKET}, refuse),
		code{
			{Code: ifEq, K: unix.SOCK_STREAM, Jt: 2},
			{Code: ifEq, K: unix.SOCK_DGRAM, Jt: 1},
			op(ret, no(unix.EPROTONOSUPPORT)),
			op(load, dataArg2),
		},
		among(protocols, allow),
		code{op(ret, no(unix.EPROTONOSUPPORT))},
	)
	netlink := slices.Concat(code{op(load, dataArg2)}, among([]uint32{unix.NETLINK_ROUTE}, allow), code{op(ret, no(unix.EPROTONOSUPPORT))})
	return slices.Concat(
		code{op(load, dataArg0)},
		among([]uint32{unix.AF_UNIX}, allow),
		code{
			{Code: ifEq, K: unix.AF_NETLINK, Jf: uint8(len(netlink))},
		},
		netlink,
		code{
			{Code: ifEq, K: unix.AF_INET, Jt: 2},
			{Code: ifEq, K: unix.AF_INET6, Jt: 1},
			op(ret, no(unix.EAFNOSUPPORT)),
		},
		internet,
	)
}

// span is a row of numbers of system calls with one verdict.
type span struct {
	from uint32
	do   code
}

// spans divides all numbers into rows, in order.
func spans(verdicts map[uint32]code) []span {
	var numbers []uint32
	for nr := range verdicts {
		numbers = append(numbers, nr)
	}
	slices.Sort(numbers)
	pass := code{op(ret, allow)}
	rows := []span{{0, pass}}
	for _, nr := range numbers {
		if last := &rows[len(rows)-1]; last.from == nr {
			rows = rows[:len(rows)-1] // the row of what is allowed has none in it
		}
		if n := len(rows); n > 0 && len(verdicts[nr]) == 1 && len(rows[n-1].do) == 1 && rows[n-1].do[0] == verdicts[nr][0] {
			rows = append(rows, span{nr + 1, pass}) // the same as its neighbour
			continue
		}
		rows = append(rows, span{nr, verdicts[nr]}, span{nr + 1, pass})
	}
	return rows
}

// search is code that finds the row of the loaded number by halves. It fails
// when a jump is too far for classic BPF.
func search(rows []span) (code, error) {
	if len(rows) == 1 {
		return rows[0].do, nil
	}
	half := len(rows) / 2
	low, err := search(rows[:half])
	if err != nil {
		return nil, err
	}
	high, err := search(rows[half:])
	if err != nil {
		return nil, err
	}
	if len(low) > 255 {
		return nil, errors.New("the filter is too long")
	}
	jump := unix.SockFilter{Code: ifGE, K: rows[half].from, Jt: uint8(len(low))}
	return slices.Concat(code{jump}, low, high), nil
}

// program is the whole filter. A program for another architecture numbers its
// calls in another way and is killed; so is a program that tries it to get around
// the filter.
func program() (code, error) {
	tree, err := search(spans(verdicts()))
	if err != nil {
		return nil, err
	}
	head := code{op(load, dataArch), {Code: ifEq, K: arch, Jt: 1}, op(ret, kill), op(load, dataNr)}
	if foreign != 0 {
		head = append(head, unix.SockFilter{Code: ifGE, K: foreign, Jf: 1}, op(ret, unknown))
	}
	return slices.Concat(head, tree), nil
}

// compiled is the filter as the kernel takes it.
var compiled = sync.OnceValues(func() ([]byte, error) {
	c, err := program()
	var b []byte
	for _, in := range c {
		b = binary.NativeEndian.AppendUint16(b, in.Code)
		b = append(b, in.Jt, in.Jf)
		b = binary.NativeEndian.AppendUint32(b, in.K)
	}
	return b, err
})
