package systemd

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// listen stands for the manager and returns what it received last.
func listen(t *testing.T, name string) func() string {
	t.Helper()
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: name, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	t.Setenv(socketEnv, name)
	return func() string {
		t.Helper()
		if err := conn.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
			t.Fatal(err)
		}
		b := make([]byte, 4096)
		n, err := conn.Read(b)
		if err != nil {
			t.Fatal(err)
		}
		return string(b[:n])
	}
}

func TestNotify(t *testing.T) {
	for kind, name := range map[string]string{
		"path":     filepath.Join(t.TempDir(), "notify"),
		"abstract": fmt.Sprintf("@berth-notify-test-%d", os.Getpid()),
	} {
		t.Run(kind, func(t *testing.T) {
			received := listen(t, name)
			for _, tc := range []struct {
				send func() error
				want string
			}{
				{Ready, "READY=1"},
				{Stopping, "STOPPING=1"},
				{func() error { return Serving("x") }, "READY=1\nSTATUS=x"},
			} {
				if err := tc.send(); err != nil {
					t.Fatal(err)
				}
				if got := received(); got != tc.want {
					t.Errorf("got %q, want %q", got, tc.want)
				}
			}
		})
	}
}

func TestNotifyWithoutAManager(t *testing.T) {
	t.Setenv(socketEnv, "")
	if err := Ready(); err != nil {
		t.Errorf("got %v, want nothing to happen", err)
	}
}

func TestNotifyAManagerThatIsGone(t *testing.T) {
	t.Setenv(socketEnv, filepath.Join(t.TempDir(), "nobody"))
	if err := Ready(); err == nil {
		t.Error("no error although nobody listens")
	}
}

// Settle returns when the manager has closed the descriptor that came with the message.
func TestSettle(t *testing.T) {
	t.Setenv(socketEnv, "")
	if err := Settle(); err != nil {
		t.Errorf("without a manager: %v", err)
	}
	name := filepath.Join(t.TempDir(), "notify")
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: name, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	t.Setenv(socketEnv, name)
	settled := make(chan error, 1)
	go func() { settled <- Settle() }()
	b, oob := make([]byte, 100), make([]byte, 100)
	n, on, _, _, err := conn.ReadMsgUnix(b, oob)
	if err != nil || string(b[:n]) != "BARRIER=1" {
		t.Fatalf("got %q, %v", b[:n], err)
	}
	list, err := unix.ParseSocketControlMessage(oob[:on])
	if err != nil || len(list) != 1 {
		t.Fatal(list, err)
	}
	fds, err := unix.ParseUnixRights(&list[0])
	if err != nil || len(fds) != 1 {
		t.Fatal(fds, err)
	}
	select {
	case err := <-settled:
		t.Error("before the manager was ready: ", err)
	default:
	}
	if err := unix.Close(fds[0]); err != nil {
		t.Fatal(err)
	}
	if err := <-settled; err != nil {
		t.Error(err)
	}
}

// The manager ignores a RELOADING=1 without the time of its clock.
func TestReloading(t *testing.T) {
	received := listen(t, filepath.Join(t.TempDir(), "notify"))
	var before unix.Timespec
	if err := errors.Join(unix.ClockGettime(unix.CLOCK_MONOTONIC, &before), Reloading("look")); err != nil {
		t.Fatal(err)
	}
	var at int64
	if n, err := fmt.Sscanf(received(), "RELOADING=1\nMONOTONIC_USEC=%d\nSTATUS=look", &at); n != 1 || err != nil {
		t.Fatal(n, err)
	}
	if late := at - before.Nano()/1000; late < 0 || late > 60_000_000 {
		t.Errorf("the time is %d microseconds late", late)
	}
}
