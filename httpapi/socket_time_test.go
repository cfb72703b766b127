package httpapi

import (
	"context"
	"errors"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coder/websocket"

	"berth/app"
	"berth/web"
)

// overPipe is talk within a bubble of synctest. life is what the server's
// BaseContext is.
func overPipe(t *testing.T, w *world, life context.Context) *talker { //nolint:revive // t goes first
	t.Helper()
	return overPipeTo(t, w, life, "/v2/ws/upload")
}

func overPipeTo(t *testing.T, w *world, life context.Context, path string) *talker { //nolint:revive // t goes first
	t.Helper()
	p := &pipes{conns: make(chan net.Conn), done: make(chan struct{})}
	server := &http.Server{Handler: w.handler(), BaseContext: func(net.Listener) context.Context { return life }}
	ended := make(chan error)
	go func() { ended <- server.Serve(p) }()
	client, conn := net.Pipe()
	p.conns <- conn
	t.Cleanup(func() {
		_ = server.Close()
		if err := <-ended; !errors.Is(err, http.ErrServerClosed) {
			t.Error(err)
		}
		_ = client.Close()
	})
	web := &http.Client{Transport: &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) { return client, nil }}}
	return dial(t, web, "http://example.com"+path, nil)
}

func TestSocketThatSendsNothingIsGivenUp(t *testing.T) {
	for name, begun := range map[string]bool{"nothing": false, "half a frame": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				c := overPipe(t, w, t.Context())
				began := time.Now()
				if begun {
					go half(c)
				}
				h := c.listen()
				if last := h.last(); last.StatusCode != 400 || !strings.Contains(*last.Message, "No data came for 1m") || h.code != 1008 {
					t.Errorf("%+v", h)
				}
				if waited := time.Since(began); waited < web.Patience || waited > web.Patience+time.Second {
					t.Errorf("waited %v", waited)
				}
				w.checkSpools(t)
			})
		})
	}
}

func TestSocketIsPingedDuringALongBuild(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.deployed.Snapshot = bot("bot-one")
		w.before = func(context.Context, string) { <-time.After(15 * time.Minute) }
		c := overPipe(t, w, t.Context())
		c.send(framesOf([]byte("PK"), 2)...)
		began := time.Now()
		h := c.listen() // answers the pings
		if h.last().StatusCode != 200 || time.Since(began) < 15*time.Minute {
			t.Errorf("after %v: %+v", time.Since(began), h)
		}
	})
}

func TestSocketOfAClientThatIsGoneIsClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.deployed.Snapshot = bot("bot-one")
		ended := make(chan struct{})
		w.before = func(context.Context, string) { <-time.After(15 * time.Minute); close(ended) }
		c := overPipe(t, w, t.Context())
		c.send(framesOf([]byte("PK"), 2)...)
		<-time.After(2*pingPace + web.Patience) // nobody reads, and so nobody answers a ping
		if err := c.conn.Write(t.Context(), websocket.MessageText, []byte("x")); err == nil {
			t.Error("the connection is still open")
		}
		<-ended
	})
}

func TestSocketIsToldOfAShutdown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		life, end := context.WithCancel(t.Context())
		c := overPipe(t, w, life)
		c.send(framesOf([]byte("PK content"), 5)[0])
		synctest.Wait()
		end()
		h := c.listen()
		if last := h.last(); last.StatusCode != 503 || h.code != 1013 || !strings.Contains(*last.Message, "shutting down") {
			t.Errorf("%+v", h)
		}
		w.checkSpools(t)
	})
}

// A deployment that a shutdown has called off is answered although the
// server's context has ended.
func TestSocketIsAnsweredInAShutdown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		life, end := context.WithCancel(t.Context())
		w.before = func(ctx context.Context, _ string) {
			end()
			if ctx.Err() != nil {
				t.Error("the context of the work ended")
			}
		}
		w.fail["Upload"] = app.Errorf(app.Unavailable, "the server is shutting down; upload it again in a minute")
		c := overPipe(t, w, life)
		c.send(framesOf([]byte("PK"), 2)...)
		if h := c.listen(); h.last().StatusCode != 503 || h.code != 1000 {
			t.Errorf("%+v", h)
		}
	})
}

// A build that floods a client that reads nothing waits for nobody.
func TestSocketThatTakesNothingHoldsNoBuildUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.deployed.Snapshot = bot("bot-one")
		b := &build{ready: make(chan struct{}, 1), text: make(chan string, 1), closed: make(chan struct{})}
		w.config.Logs = b
		ended := make(chan time.Duration, 1)
		w.before = func(ctx context.Context, _ string) {
			began := time.Now()
			app.ProgressOf(ctx)(app.Progress{Phase: app.Building, App: "bot-one"})
			for range 100 {
				select {
				case b.text <- strings.Repeat("x", 60<<10) + "\n":
				default:
				}
				select {
				case b.ready <- struct{}{}:
				default:
				}
			}
			app.ProgressOf(ctx)(app.Progress{Phase: app.Launching, App: "bot-one"})
			ended <- time.Since(began)
		}
		c := overPipe(t, w, t.Context())
		c.send(framesOf([]byte("PK"), 2)...)
		if took := <-ended; took > 0 {
			t.Errorf("the build waited %v", took)
		}
		<-b.closed
		if len(w.handed) != 1 {
			t.Errorf("handed over %v", w.handed)
		}
	})
}

func TestSocketTellsThatABuildMovesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.deployed.Snapshot = bot("bot-one")
		w.apps[0].Position = 1
		w.before = func(ctx context.Context, _ string) {
			app.ProgressOf(ctx)(app.Progress{Phase: app.Queued, App: "bot-one", Position: 2})
			<-time.After(time.Minute)
		}
		c := overPipe(t, w, t.Context())
		c.send(framesOf([]byte("PK"), 2)...)
		if h := c.listen(); h.log != "Waiting to be built: number 2 in the queue.\nWaiting to be built: number 1 in the queue.\n" {
			t.Errorf("the log is %q", h.log)
		}
	})
}
