package systemd

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"
)

func TestWatchdog(t *testing.T) {
	self := fmt.Sprint(os.Getpid())
	for _, tt := range []struct {
		socket, usec, pid string
		want              time.Duration
	}{
		{"/run/x", "60000000", self, time.Minute},
		{"/run/x", "60000000", "", time.Minute},
		{"/run/x", "60000000", "1", 0},
		{"", "60000000", self, 0},
		{"/run/x", "", self, 0},
		{"/run/x", "0", self, 0},
		{"/run/x", "-5", self, 0},
		{"/run/x", "soon", self, 0},
		{"/run/x", "9223372036854775807", self, 0},
	} {
		t.Setenv(socketEnv, tt.socket)
		t.Setenv("WATCHDOG_USEC", tt.usec)
		t.Setenv("WATCHDOG_PID", tt.pid)
		if got := Watchdog(); got != tt.want {
			t.Errorf("%+v: got %v", tt, got)
		}
	}
}

func TestTelling(t *testing.T) {
	received := listen(t, filepath.Join(t.TempDir(), "notify"))
	for want, say := range map[string]func() error{
		"WATCHDOG=1":                   Alive,
		"STATUS=3 apps online":         func() error { return Status("3 apps online") },
		"EXTEND_TIMEOUT_USEC=90000000": func() error { return Extend(90 * time.Second) },
	} {
		if err := say(); err != nil {
			t.Fatal(err)
		}
		if got := received(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
