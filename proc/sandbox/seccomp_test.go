//go:build amd64 || arm64

package sandbox

import (
	"maps"
	"slices"
	"testing"

	"golang.org/x/sys/unix"
)

// run is the part of the kernel's interpreter that filters use.
func run(t *testing.T, c code, data map[uint32]uint32) uint32 {
	t.Helper()
	var a uint32
	for pc := 0; pc < len(c); pc++ {
		in := c[pc]
		jump := false
		switch in.Code {
		case load:
			a = data[in.K]
			continue
		case and:
			a &= in.K
			continue
		case ret:
			return in.K
		case ifEq:
			jump = a == in.K
		case ifGE:
			jump = a >= in.K
		case ifAny:
			jump = a&in.K != 0
		default:
			t.Fatalf("instruction %#x", in.Code)
		}
		if jump {
			pc += int(in.Jt)
		} else {
			pc += int(in.Jf)
		}
	}
	t.Fatal("the filter ends without an answer")
	return 0
}

func callOf(nr, arg0, arg1, arg2 uint32) map[uint32]uint32 {
	return map[uint32]uint32{dataArch: arch, dataNr: nr, dataArg0: arg0, dataArg1: arg1, dataArg2: arg2}
}

// Every number has the answer it is to have, and those that are not named pass.
func TestFilterNumbers(t *testing.T) {
	c, err := program()
	if err != nil {
		t.Fatal(err)
	}
	list := slices.Concat(refused, refusedHere)
	judged := []uint32{unix.SYS_CLONE, unix.SYS_CLONE3, unix.SYS_SOCKET, unix.SYS_SOCKETPAIR, unix.SYS_IOCTL}
	for nr := range uint32(1000) {
		if slices.Contains(judged, nr) {
			continue
		}
		want := uint32(allow)
		if slices.Contains(list, nr) {
			want = refuse
		}
		if got := run(t, c, callOf(nr, ^uint32(0), ^uint32(0), ^uint32(0))); got != want {
			t.Errorf("call %d: %#x, want %#x", nr, got, want)
		}
	}
	if len(slices.Compact(slices.Sorted(slices.Values(list)))) != len(list) {
		t.Error("a call is listed twice")
	}
	other := callOf(unix.SYS_READ, 0, 0, 0)
	other[dataArch] = unix.AUDIT_ARCH_I386
	if got := run(t, c, other); got != kill {
		t.Errorf("another architecture: %#x", got)
	}
	if foreign != 0 {
		if got := run(t, c, callOf(foreign|unix.SYS_READ, 0, 0, 0)); got != unknown {
			t.Errorf("a call of another table: %#x", got)
		}
	}
}

func TestFilterArguments(t *testing.T) {
	c, err := program()
	if err != nil {
		t.Fatal(err)
	}
	errno := func(e unix.Errno) uint32 { return unix.SECCOMP_RET_ERRNO | uint32(e) }
	const flags = unix.SOCK_NONBLOCK | unix.SOCK_CLOEXEC
	for _, tt := range []struct {
		name             string
		nr               uint32
		arg0, arg1, arg2 uint32
		want             uint32
	}{
		{"a process", unix.SYS_CLONE, uint32(unix.SIGCHLD), 0, 0, allow},
		{"a thread", unix.SYS_CLONE, 0x3d0f00, 0, 0, allow},
		{"a user namespace", unix.SYS_CLONE, unix.CLONE_NEWUSER, 0, 0, refuse},
		{"a network namespace among others", unix.SYS_CLONE, unix.CLONE_VM | unix.CLONE_NEWNET, 0, 0, refuse},
		{"a cgroup namespace", unix.SYS_CLONE, unix.CLONE_NEWCGROUP, 0, 0, refuse},
		{"clone3", unix.SYS_CLONE3, 0, 0, 0, unknown},
		{"tcp", unix.SYS_SOCKET, unix.AF_INET, unix.SOCK_STREAM | flags, 0, allow},
		{"udp by number", unix.SYS_SOCKET, unix.AF_INET6, unix.SOCK_DGRAM, unix.IPPROTO_UDP, allow},
		{"ping", unix.SYS_SOCKET, unix.AF_INET6, unix.SOCK_DGRAM, unix.IPPROTO_ICMPV6, allow},
		{"mptcp", unix.SYS_SOCKET, unix.AF_INET, unix.SOCK_STREAM, unix.IPPROTO_MPTCP, errno(unix.EPROTONOSUPPORT)},
		{"raw", unix.SYS_SOCKET, unix.AF_INET, unix.SOCK_RAW | flags, 0, refuse},
		{"local", unix.SYS_SOCKET, unix.AF_UNIX, unix.SOCK_SEQPACKET, 0, allow},
		{"a local pair", unix.SYS_SOCKETPAIR, unix.AF_UNIX, unix.SOCK_STREAM, 0, allow},
		{"routes", unix.SYS_SOCKET, unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_ROUTE, allow},
		{"another netlink", unix.SYS_SOCKET, unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_NETFILTER, errno(unix.EPROTONOSUPPORT)},
		{"vsock", unix.SYS_SOCKET, unix.AF_VSOCK, unix.SOCK_STREAM, 0, errno(unix.EAFNOSUPPORT)},
		{"packets", unix.SYS_SOCKET, unix.AF_PACKET, unix.SOCK_RAW, 0, errno(unix.EAFNOSUPPORT)},
		{"asking a terminal", unix.SYS_IOCTL, 0, unix.TCGETS, 0, allow},
		{"its size", unix.SYS_IOCTL, 0, unix.TIOCSWINSZ, 0, allow},
		{"asking its line discipline", unix.SYS_IOCTL, 0, unix.TIOCGETD, 0, allow},
		{"typing into one", unix.SYS_IOCTL, 0, unix.TIOCSTI, 0, refuse},
		{"another line discipline", unix.SYS_IOCTL, 0, unix.TIOCSETD, 0, refuse},
		{"the console's output", unix.SYS_IOCTL, 0, unix.TIOCCONS, 0, refuse},
		{"a file's flags", unix.SYS_IOCTL, 0, unix.FS_IOC_GETFLAGS, 0, allow},
		{"another project", unix.SYS_IOCTL, 0, 0x401c5820, 0, refuse},
	} {
		if got := run(t, c, callOf(tt.nr, tt.arg0, tt.arg1, tt.arg2)); got != tt.want {
			t.Errorf("%s: %#x, want %#x", tt.name, got, tt.want)
		}
	}
}

// The way to an answer is short: the kernel goes it for every number when the
// filter is put up.
func TestFilterIsShort(t *testing.T) {
	c, err := program()
	if err != nil || len(c) > 400 {
		t.Fatalf("%d instructions, %v", len(c), err)
	}
	rows := spans(verdicts())
	for i := 1; i < len(rows); i++ {
		if rows[i].from <= rows[i-1].from {
			t.Errorf("row %d begins at %d, behind one at %d", i, rows[i].from, rows[i-1].from)
		}
	}
}

// A tree whose jumps do not fit is refused, not cut.
func TestFilterTooLong(t *testing.T) {
	long := map[uint32]code{}
	for nr := range uint32(2000) {
		long[nr*2] = code{op(ret, refuse)}
	}
	if _, err := search(spans(long)); err == nil {
		t.Error("a filter of 2000 rows was made")
	}
	maps.DeleteFunc(long, func(nr uint32, _ code) bool { return nr > 100 })
	if _, err := search(spans(long)); err != nil {
		t.Error(err)
	}
}
