package daemon

import (
	"log/slog"
	"net"
	"os"
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

// The sites' sockets that systemd has kept are used. One at another address, or that is none,
// is given up before anything is opened.
func TestSocketsOfSitesThatWereKept(t *testing.T) {
	m := newServiceManager(t)
	t.Setenv("FDSTORE", "100")
	listening := func() (string, *os.File) {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		f, err := l.(*net.TCPListener).File()
		if err != nil {
			t.Fatal(err)
		}
		return l.Addr().String(), f
	}
	none, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	wanted, f := listening()
	gone, old := listening()
	_, other := listening()
	elsewhere := "127.0.0.1:1" // which the socket is not
	h := newHandover()
	defer func() {
		if err := h.close(); err != nil {
			t.Error(err)
		}
	}()
	h.useSites([]string{wanted, elsewhere}, map[string]*os.File{wanted: f, gone: old, elsewhere: other, ":9": none}, slog.New(slog.DiscardHandler))
	if len(h.files) != 1 || h.files[listenPrefix+wanted] != f {
		t.Errorf("it has %v", h.files)
	}
	eventually(t, "systemd gives up three", func() bool { // its barrier ends with the read, before the text is kept
		const removed = "FDSTOREREMOVE=1\nFDNAME=sites/"
		return m.heard(removed+"127.0.0.1/") == 2 && m.heard(removed+"/9") == 1 && m.heard("BARRIER=1") == 1
	})
	if err := h.open(t.Context(), gone); err != nil { // it is free
		t.Error(err)
	}
	l, err := h.listener(t.Context(), wanted)
	if err != nil || l.Addr().String() != wanted {
		t.Fatal(l, err)
	}
	_ = l.Close()
	h.lend([]string{wanted, elsewhere}, slog.New(slog.DiscardHandler))
	h.only(gone)
	name := "sites/" + strings.ReplaceAll(wanted, ":", "/")
	eventually(t, "systemd has it, and gives it up", func() bool {
		return m.heard("FDSTORE=1\nFDNAME="+name+"\nFDPOLL=0") == 1 && m.heard("FDSTORE=1") == 1 && m.heard("FDSTOREREMOVE=1\nFDNAME="+name) == 2
	})
	if address, is := keptAddress(name); !is || address != wanted {
		t.Errorf("%s is the name of %q", name, address)
	}
	for _, other := range []string{"api", "local", "log-run-x", "sites"} {
		if _, is := keptAddress(other); is {
			t.Errorf("%s is a name of one", other)
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
