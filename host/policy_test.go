package host

import (
	"testing"
	"time"

	"berth/app"
)

func TestBackoff(t *testing.T) {
	for attempt, want := range map[int]time.Duration{
		0: 0, 1: 0, 2: time.Second, 3: 2 * time.Second, 5: 8 * time.Second, 10: 256 * time.Second,
		11: 5 * time.Minute, 12: 5 * time.Minute, 1 << 40: 5 * time.Minute,
	} {
		if got := backoff(attempt); got != want {
			t.Errorf("backoff(%d) = %s, want %s", attempt, got, want)
		}
	}
}

func TestSentence(t *testing.T) {
	tests := []struct {
		e    app.Exit
		want string
	}{
		{app.Exit{OOM: true, Code: 137, Signal: 9, LimitMB: 512}, "killed: needed more than 512 MB of RAM (exit code 137)"},
		{app.Exit{HostOOM: true, Code: 137, Signal: 9, LimitMB: 512}, "killed: this host ran short of memory; the program's own limit of 512 MB was not the reason (exit code 137)"},
		{app.Exit{Code: 139, Signal: 11, Ran: 3 * time.Second}, "ended by signal 11 (segmentation fault), exit code 139, after 3s"},
		{app.Exit{Code: 153, Signal: 25, Ran: 3 * time.Second}, "ended by signal 25 (a file grew larger than one may), exit code 153, after 3s"},
		{app.Exit{Code: 3, Ran: 90*time.Minute + 400*time.Millisecond}, "exited with code 3 after 1h30m0s"},
		{app.Exit{Ran: 140 * time.Millisecond}, "ended by itself (exit code 0) after 100ms"},
	}
	for _, tt := range tests {
		if got := sentence(tt.e); got.String() != tt.want {
			t.Errorf("sentence(%+v) = %q, want %q", tt.e, got, tt.want)
		}
	}
}

func TestCommand(t *testing.T) {
	for want, step := range map[string]app.Step{
		"npm ci":   {Argv: []string{"/usr/bin/npm", "ci"}},
		"make all": {Argv: []string{"/bin/sh", "-c", "PATH=bin; make all"}, Text: "make all"},
		"":         {},
	} {
		if got := command(step); got != want {
			t.Errorf("command(%v) = %q, want %q", step.Argv, got, want)
		}
	}
}

func TestStopped(t *testing.T) {
	for _, tt := range []struct {
		e    app.Exit
		want string
	}{
		{app.Exit{Code: 143, Signal: 15, Ran: time.Minute}, "stopped"},
		{app.Exit{Code: 137, Signal: 9, Ran: time.Minute}, "stopped: it did not end within 10s and was killed"},
		{app.Exit{Code: 137, Signal: 9, Ran: time.Second}, "stopped"}, // in a hurry
	} {
		if got := stopped(tt.e, 10*time.Second); got != tt.want {
			t.Errorf("stopped(%+v) = %q, want %q", tt.e, got, tt.want)
		}
	}
}

func TestSocketBounds(t *testing.T) {
	for ports, want := range map[int][3]int{
		28232: {2048, 2048, 21174}, 64511: {2048, 4031, 48384}, 1000: {2048, 2048, 4096}, 0: {2048, 2048, 4096},
	} {
		program, account, all := SocketBounds(ports)
		if got := [3]int{program, account, all}; got != want {
			t.Errorf("SocketBounds(%d) = %v, want %v", ports, got, want)
		}
	}
}
