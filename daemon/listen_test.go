package daemon

import (
	"log/slog"
	"net"
	"strings"
	"testing"

	"berth/daemon/settings"
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
	d := &daemon{log: slog.New(slog.NewTextHandler(&log, nil)), settings: settings.Settings{Listen: "127.0.0.1:1"}, baton: newBaton()}
	defer func() {
		if err := d.baton.close(); err != nil {
			t.Error(err)
		}
	}()
	if d.socket, err = l.(*net.TCPListener).File(); err != nil {
		t.Fatal(err)
	}
	got, err := d.listen(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer got.Close()
	if got.Addr().String() != l.Addr().String() || !strings.Contains(log.String(), "the socket unit listens elsewhere than the setting says") {
		t.Errorf("it listens on %s and says %s", got.Addr(), &log)
	}
	if err := d.closeSocket(); err != nil {
		t.Error(err)
	}
	d.settings.Listen = got.Addr().String()
	if other, err := d.listen(t.Context()); err == nil || !strings.HasPrefix(err.Error(), "cannot listen on "+d.settings.Listen+": ") {
		t.Errorf("on a port that is taken: %v, %v", other, err)
	}
}
