package daemon

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"berth/daemon/settings"
	"berth/test/hosted"
)

// testSettings are the defaults over a data directory that programs can reach.
func testSettings(t *testing.T) settings.Settings {
	t.Helper()
	dir := hosted.Path(t)
	s, err := settings.Load(func(name string) string {
		return map[string]string{"BERTH_CONFIG": os.DevNull, "BERTH_DATA_DIR": dir, "BERTH_LISTEN": "127.0.0.1:0", "BERTH_RUNTIME_DIR": dir + "-run"}[name]
	})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// openDaemon opens everything and leaves nothing open when it fails, nor when the
// daemon is closed.
func openDaemon(ctx context.Context, s settings.Settings, log *slog.Logger) (*daemon, error) {
	h := newHandover()
	d := &daemon{settings: s, log: log, handover: h, undo: closers{h.close}}
	if err := d.open(ctx); err != nil {
		return nil, err
	}
	return d, nil
}

func TestDaemonOpensAndCloses(t *testing.T) {
	s := testSettings(t)
	d, err := openDaemon(t.Context(), s, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := openDaemon(t.Context(), s, slog.New(slog.DiscardHandler)); err == nil || !strings.Contains(err.Error(), fmt.Sprintf("another berth is serving from it (pid %d)", os.Getpid())) {
		t.Errorf("a second daemon on the directory: %v", err)
	}
	root := d.groups.Root()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", s.Listen)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() { served <- d.serve(ctx, context.Background(), l, &upgrader{}) }()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+l.Addr().String()+"/v2/user", nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil || resp.StatusCode != http.StatusUnauthorized {
		t.Fatalf("GET /v2/user = %v, %v; want 401", resp, err)
	}
	_ = resp.Body.Close()
	showsRefusal(t, s)
	cancel()
	if err := <-served; err != nil {
		t.Errorf("serve() = %v", err)
	}
	if err := d.undo.close(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(root); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the control groups are still there: %v", err)
	}
	keepsRefusal(t, s)
}

func TestDaemonRefuses(t *testing.T) {
	tests := []struct {
		name string
		edit func(*settings.Settings)
		says string
	}{
		{"unreachable", func(s *settings.Settings) {
			dir := filepath.Join(filepath.Dir(s.DataDir), "closed")
			if err := os.Mkdir(dir, 0o700); err != nil {
				panic(err)
			}
			s.DataDir = filepath.Join(dir, "data")
		}, "chmod o+x"},
		{"no directory", func(s *settings.Settings) { s.DataDir = "/proc/nowhere/data" }, "cannot make the data directory"},
		{"a file", func(s *settings.Settings) { s.DataDir = os.DevNull }, "not a directory"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := testSettings(t)
			tt.edit(&s)
			if _, err := openDaemon(t.Context(), s, slog.New(slog.DiscardHandler)); err == nil || !strings.Contains(err.Error(), tt.says) {
				t.Errorf("got %v, want %q", err, tt.says)
			}
		})
	}
}
