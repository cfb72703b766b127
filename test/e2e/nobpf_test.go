package e2e

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"berth/test/harness"

	"golang.org/x/sys/unix"
)

// withoutBPF is the argument with which this test binary executes a command
// that may load no eBPF programs, as in most containers.
const withoutBPF = "without-bpf"

// forbidBPF executes a command for which bpf(2) is EPERM; it returns only when
// it cannot.
func forbidBPF(line []string) error {
	runtime.LockOSThread() // a filter is its thread's
	filter := []unix.SockFilter{
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: 0}, // seccomp_data.nr
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: unix.SYS_BPF, Jf: 1},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM)},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW},
	}
	prog := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	if err := unix.Prctl(unix.PR_SET_SECCOMP, unix.SECCOMP_MODE_FILTER, uintptr(unsafe.Pointer(&prog)), 0, 0); err != nil {
		return fmt.Errorf("cannot forbid bpf(2): %w", err)
	}
	return syscall.Exec(line[0], line, os.Environ())
}

// TestSitesWithoutBPF: where programs share the host's ports, a site is found
// where it listens, and told what it should do.
func TestSitesWithoutBPF(t *testing.T) {
	t.Parallel()
	d := prepare(t, "--proxy-mode", "behind", "--proxy-listen", "127.0.0.1:0", "--proxy-domain", "apps.example.org")
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	d.Under = []string{self, withoutBPF}
	d.Serve()
	if !strings.Contains(d.Out.String(), "only PORT is theirs") {
		t.Fatalf("the daemon has a network policy: %s", d.Out)
	}
	v, ana := d.visitor(), d.account("ana", 400)
	ana.Upload(version("one", 200, listens))
	l := v.load()
	l.until("one")
	ana.Commit("shop", version("two", 200, listens)).Want(200)
	l.until("two")
	l.end()

	port := harness.Ports(t, 1)
	fixed := func(id string) harness.Files {
		return harness.Files{
			"discloud.config": harness.Config("TYPE=site", "ID="+id, "MAIN=index.js", "RAM=64"),
			"index.js":        fmt.Sprintf("require('http').createServer((q, s) => s.end('%s')).listen(%d)", id, port),
		}
	}
	ana.Upload(fixed("first"))
	v.until("first.apps.example.org", 200, "first")
	ana.UntilLog("first", "it listens on port "+strconv.Itoa(port)+", where its visitors are brought")
	ana.Upload(fixed("second"))
	ana.UntilLog("second", "if it does, somebody else on this host has that port")
	v.until("second.apps.example.org", 502, "has ended with an error")
	ana.Commit("first", fixed("first")).Want(200) // two cannot have one port
	ana.UntilLog("first", "two cannot have one port")
	v.until("first.apps.example.org", 200, "first")
}
