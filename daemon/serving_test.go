package daemon

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"berth/app"
	"berth/daemon/settings"
	"berth/web"
)

// oneConn is a listener of one connection, which follows the clock of a bubble.
type oneConn struct {
	conn chan net.Conn
	done chan struct{}
}

func (l *oneConn) Accept() (net.Conn, error) {
	select {
	case c := <-l.conn:
		return c, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}

func (l *oneConn) Close() error { close(l.done); return nil }

func (l *oneConn) Addr() net.Addr { return &net.IPAddr{} }

// A client that is slow, or says nothing, holds its connection for a bounded
// time, whatever it has sent.
func TestSlowClientsAreCutOff(t *testing.T) {
	const get = "GET / HTTP/1.1\r\nHost: a\r\n\r\n"
	for name, tt := range map[string]struct {
		first string
		rest  string // a byte a second
		after time.Duration
	}{
		"nothing":               {"", "", 10 * time.Second},
		"half a line":           {"GET / HT", "", 10 * time.Second},
		"slow headers":          {"", get[:17] + strings.Repeat("X: y\r\n", 100), 10 * time.Second},
		"idle after a request":  {get, "", 2 * time.Minute},
		"slow after a request":  {get, get[:17] + strings.Repeat("X: y\r\n", 100), 13 * time.Second},
		"half behind a request": {get + "GET / HT", "", 10 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := newServer(t.Context(), http.NotFoundHandler(), slog.New(slog.DiscardHandler))
				l := &oneConn{make(chan net.Conn), make(chan struct{})}
				gate := web.LimitListener(l, web.Limits{All: 16})
				gate.Guard(server)
				ended := make(chan error)
				go func() { ended <- server.Serve(gate) }()
				client, conn := net.Pipe()
				l.conn <- conn
				began, closed, done := time.Now(), make(chan struct{}), make(chan struct{})
				go func() {
					defer close(closed)
					_, _ = io.Copy(io.Discard, client)
				}()
				go func() {
					defer close(done)
					_, _ = io.WriteString(client, tt.first)
					for i := range len(tt.rest) {
						if _, err := io.WriteString(client, tt.rest[i:i+1]); err != nil {
							return
						}
						<-time.After(time.Second)
					}
				}()
				<-closed
				if took := time.Since(began); took < tt.after-time.Second || took > tt.after+time.Second {
					t.Errorf("cut off after %v, want %v", took, tt.after)
				}
				<-done
				_ = client.Close()
				if err := server.Shutdown(context.Background()); err != nil {
					t.Error(err)
				}
				if err := <-ended; !errors.Is(err, http.ErrServerClosed) {
					t.Error(err)
				}
			})
		})
	}
}

// showsRefusal waits until another process can read a refused request in the
// audit log, beside the daemon.
func showsRefusal(t *testing.T, s settings.Settings) {
	t.Helper()
	beside, err := OpenDatabase(t.Context(), s.DataDir)
	if err != nil {
		t.Fatal(err)
	}
	defer beside.Close()
	for deadline := time.Now().Add(time.Minute); ; {
		acts, err := beside.Audit.Records(t.Context(), app.AuditQuery{Limit: 9})
		switch {
		case err != nil:
			t.Fatal(err)
		case len(acts) > 0 && acts[0].Operation == "auth.failed" && acts[0].From == "127.0.0.1":
			return
		case time.Now().After(deadline):
			t.Fatalf("the audit log does not have the refused request: %+v", acts)
		}
	}
}

// keepsRefusal fails unless the audit log has that request after a stop.
func keepsRefusal(t *testing.T, s settings.Settings) {
	t.Helper()
	remembered, err := OpenDatabase(t.Context(), s.DataDir)
	if err != nil {
		t.Fatal(err)
	}
	defer remembered.Close()
	acts, err := remembered.Audit.Records(t.Context(), app.AuditQuery{Limit: 9})
	if err != nil || len(acts) != 1 || acts[0].Operation != "auth.failed" || acts[0].From != "127.0.0.1" || acts[0].Status != http.StatusUnauthorized {
		t.Errorf("the audit log has %+v, %v; want the refused request", acts, err)
	}
}
