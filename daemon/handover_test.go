package daemon

import (
	"log/slog"
	"net"
	"strings"
	"testing"
)

func TestNetwork(t *testing.T) {
	for listen, want := range map[string]string{"0.0.0.0:80": "tcp4", "127.0.0.1:0": "tcp4", "[::]:80": "tcp", "localhost:80": "tcp", ":80": "tcp"} {
		if got := NetworkOf(listen); got != want {
			t.Errorf("network(%q) = %s, want %s", listen, got, want)
		}
	}
}

func TestSameAddress(t *testing.T) {
	for _, tt := range []struct {
		is, wanted string
		want       bool
	}{
		{"127.0.0.1:8400", "127.0.0.1:8400", true},
		{"127.0.0.1:8400", "127.0.0.1:8401", false},
		{"127.0.0.1:8400", "0.0.0.0:8400", false},
		{"[::]:8400", ":8400", true},
		{"0.0.0.0:8400", ":8400", true},
		{"[::1]:8400", "127.0.0.1:8400", false},
		{"@x", "127.0.0.1:8400", false},
	} {
		if got := sameAddress(tt.is, tt.wanted); got != tt.want {
			t.Errorf("%s and %s: %t", tt.is, tt.wanted, got)
		}
	}
}

// The socket that systemd listens on is used, whatever the setting says, and is
// told to be another.
func TestListenOnASocketOfSystemd(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	var log strings.Builder
	h := newHandover()
	defer func() {
		if err := h.close(); err != nil {
			t.Error(err)
		}
	}()
	socket, err := l.(*net.TCPListener).File()
	if err != nil {
		t.Fatal(err)
	}
	h.useSocket("127.0.0.1:1", socket, slog.New(slog.NewTextHandler(&log, nil)))
	got, err := h.listener(t.Context(), "127.0.0.1:1")
	if err != nil {
		t.Fatal(err)
	}
	defer got.Close()
	if got.Addr().String() != l.Addr().String() || !strings.Contains(log.String(), "the socket unit listens elsewhere than the setting says") {
		t.Errorf("it listens on %s and says %s", got.Addr(), &log)
	}
	taken := got.Addr().String()
	if other, err := h.listener(t.Context(), taken); err == nil || !strings.HasPrefix(err.Error(), "cannot listen on "+taken+": ") {
		t.Errorf("on a port that is taken: %v, %v", other, err)
	}
}
