package daemon

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"berth/host"
)

// serviceManager stands for systemd and collects what it is told.
type serviceManager struct {
	mu   sync.Mutex
	said []string
}

func newServiceManager(t *testing.T) *serviceManager {
	t.Helper()
	name := filepath.Join(t.TempDir(), "notify")
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: name, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("NOTIFY_SOCKET", name)
	m, done := &serviceManager{}, make(chan struct{})
	go func() {
		defer close(done)
		b := make([]byte, 4096)
		for {
			n, err := conn.Read(b)
			if err != nil {
				return
			}
			m.mu.Lock()
			m.said = append(m.said, string(b[:n]))
			m.mu.Unlock()
		}
	}()
	t.Cleanup(func() { conn.Close(); <-done })
	return m
}

// heard counts the messages that begin with text.
func (m *serviceManager) heard(text string) (n int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, s := range m.said {
		if strings.HasPrefix(s, text) {
			n++
		}
	}
	return n
}

// String is all that it heard.
func (m *serviceManager) String() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return strings.Join(m.said, "; ")
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("waited too long until %s", what)
		}
	}
}

// The manager hears that the daemon lives only while every part answers.
func TestPulse(t *testing.T) {
	s := testSettings(t)
	m := newServiceManager(t)
	t.Setenv("WATCHDOG_USEC", "2000000")
	t.Setenv("WATCHDOG_PID", "")
	d, err := openDaemon(t.Context(), s, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := d.undo.close(); err != nil {
			t.Error(err)
		}
	}()
	l, err := d.handover.listener(t.Context(), s.Listen)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() { served <- d.serve(ctx, context.Background(), l, &upgrader{}) }()
	eventually(t, "it says that it lives", func() bool { return m.heard("WATCHDOG=1") >= 2 })
	if m.heard("READY=1") != 1 || m.heard("STATUS=0 apps online; 0 of ") != 1 {
		t.Errorf("it said %s", m)
	}
	cancel()
	if err := <-served; err != nil {
		t.Error(err)
	}
	eventually(t, "it says that it ends", func() bool {
		return m.heard("STOPPING=1") == 1 && m.heard("EXTEND_TIMEOUT_USEC=45000000") == 1
	})
}

// Each part that hangs, and no other, keeps the daemon from saying that it lives.
func TestAnswers(t *testing.T) {
	s := testSettings(t)
	var log strings.Builder
	d, err := openDaemon(t.Context(), s, slog.New(slog.NewTextHandler(&log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	defer d.undo.close()
	lively := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }))
	defer lively.Close()
	hangs, err := net.Listen("tcp", "127.0.0.1:0") // takes connections and says nothing
	if err != nil {
		t.Fatal(err)
	}
	defer hangs.Close()
	cuts := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }))
	defer cuts.Close()
	for _, tt := range []struct {
		name, address string
		within        time.Duration
		want          bool
	}{
		{"all", lively.Listener.Addr().String(), 20 * time.Second, true},
		{"a connection that is cut for there are too many", cuts.Listener.Addr().String(), 20 * time.Second, true},
		{"an API that hangs", hangs.Addr().String(), 200 * time.Millisecond, false},
	} {
		if got := d.pulse.answers(t.Context(), tt.address, tt.within); got != tt.want {
			t.Errorf("%s: %t; %s", tt.name, got, &log)
		}
	}
	if !strings.Contains(log.String(), `part="the API: `) || strings.Contains(log.String(), "the database") {
		t.Errorf("it logged %s", &log)
	}
}

func TestStatusText(t *testing.T) {
	for want, tally := range map[string]host.Tally{
		"0 apps online; 0 of 0 MB in use":                                                              {},
		"1 app online; 100 of 2048 MB in use":                                                          {Online: 1, RAM: 100, Total: 2048},
		"1 app online; 100 of 2048 MB in use; the disk does not answer":                                {Online: 1, RAM: 100, Total: 2048, Behind: 1},
		"1 app online; 100 of 2048 MB in use; the host is short of memory, builds and starts wait":     {Online: 1, RAM: 100, Total: 2048, Short: true},
		"12 apps online, 1 waiting for a restart, 2 being prepared, 3 offline; 1404 of 2048 MB in use": {Online: 12, Waiting: 1, Busy: 2, Offline: 3, RAM: 1404, Total: 2048},
	} {
		if got := statusText(tally); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
