package daemon

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sync/errgroup"

	"berth/app"
	"berth/daemon/settings"
	"berth/web"
	"berth/web/proxy"
)

// oneConn is a listener of one connection, which follows the clock of a bubble.
type oneConn struct {
	conn chan net.Conn
	done chan struct{}
	once sync.Once
}

func (l *oneConn) Accept() (net.Conn, error) {
	select {
	case c := <-l.conn:
		return c, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}

func (l *oneConn) Close() error {
	l.once.Do(func() { close(l.done) })
	return nil
}

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
				l := &oneConn{conn: make(chan net.Conn), done: make(chan struct{})}
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

// lateConn is a listener whose Accept has taken its connection, and returns it when leave is
// closed: as late as the kernel lets a process that is not scheduled.
type lateConn struct {
	oneConn
	taken, leave chan struct{}
}

func (l *lateConn) Accept() (net.Conn, error) {
	c, err := l.oneConn.Accept()
	if err == nil {
		close(l.taken)
		<-l.leave
	}
	return c, err
}

// A client who is accepted in the moment in which a daemon stops listening gets an answer
// before the daemon ends.
func TestAcceptedAtTheEnd(t *testing.T) {
	hello := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "hello") })
	log := slog.New(slog.DiscardHandler)
	for name, serve := range map[string]func(t *testing.T, l net.Listener) (shutdown func()){
		"API and local socket": func(t *testing.T, l net.Listener) func() {
			v := &serving{handlers: web.NewInflight(func() {})}
			v.serve(newServer(t.Context(), hello, log), web.LimitListener(l, web.Limits{All: 16}), func(err error) error { return err })
			return func() {
				if err := errors.Join(v.shutdown(context.Background()), v.work.Wait()); err != nil {
					t.Error(err)
				}
				v.handlers.Close()
			}
		},
		"sites": func(t *testing.T, l net.Listener) func() {
			e := &sites{log: log, handled: web.NewInflight(func() {}), proxy: proxy.New(proxy.Config{Log: log})}
			e.life, e.end = context.WithCancel(context.Background())
			e.settings.Connections = 16
			e.serveOn(l, hello, nil)
			var work errgroup.Group
			e.serve(&work, func() { t.Error("it cannot serve") })
			return func() {
				e.shutdown(context.Background())
				if err := work.Wait(); err != nil {
					t.Error(err)
				}
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := &lateConn{
					oneConn: oneConn{conn: make(chan net.Conn), done: make(chan struct{})},
					taken:   make(chan struct{}), leave: make(chan struct{}),
				}
				shutdown := serve(t, l)
				client, conn := net.Pipe()
				l.conn <- conn
				<-l.taken
				ended := make(chan struct{})
				go func() { defer close(ended); shutdown() }()
				synctest.Wait()
				select {
				case <-ended:
					t.Fatal("it has ended, and somebody has been accepted")
				default:
				}
				close(l.leave)
				go func() { _, _ = io.WriteString(client, "GET / HTTP/1.0\r\n\r\n") }()
				if answer, err := io.ReadAll(client); err != nil || !strings.HasSuffix(string(answer), "hello") {
					t.Errorf("it got %q, %v", answer, err)
				}
				<-ended
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
