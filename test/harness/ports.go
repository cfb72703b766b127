package harness

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"testing"

	"golang.org/x/sys/unix"
)

// PortCount is how many ports a daemon has for its programs.
const PortCount = 100

// The ports of all tests lie below those that the kernel gives to connections (from
// 32768 on, /proc/sys/net/ipv4/ip_local_port_range), and below those that berth takes
// by default: who listens on a port ends at once when somebody else has it, be it a
// connection of another test that was closed within the last minute.
const (
	firstPort = 10000
	allPorts  = 10000
)

// Ports sets n ports aside, one after the other, until the test ends, and returns the
// first. No other test of this machine gets them, of whatever package or checkout. It
// waits while there are none.
func Ports(t testing.TB, n int) int {
	t.Helper()
	f, err := lockFile("ports")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() }) // which ends the lock
	at := 0
	Eventually(t, fmt.Sprintf("there are %d ports that no other test has", n), func() bool {
		at = rand.IntN(allPorts - n + 1)
		mine := unix.Flock_t{Type: unix.F_WRLCK, Whence: io.SeekStart, Start: int64(at), Len: int64(n)}
		err := unix.FcntlFlock(f.Fd(), unix.F_OFD_SETLK, &mine)
		if err != nil && !errors.Is(err, unix.EAGAIN) {
			t.Fatal(err)
		}
		return err == nil
	})
	return firstPort + at
}

// Address is an address on loopback that is this test's alone, with a port of Ports.
func Address(t testing.TB) string {
	t.Helper()
	return fmt.Sprintf("127.0.0.1:%d", Ports(t, 1))
}
