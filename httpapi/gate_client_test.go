package httpapi

import (
	"bufio"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"sync"
	"testing"
	"time"

	"berth/web"
)

// from is a listener whose connections say they come from somewhere else.
type from struct {
	net.Listener
	mu   sync.Mutex
	addr string // "" for where they come from
}

type fromConn struct {
	net.Conn
	addr net.Addr
}

func (c fromConn) RemoteAddr() net.Addr { return c.addr }

func (l *from) set(addr string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.addr = addr
}

func (l *from) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	l.mu.Lock()
	defer l.mu.Unlock()
	if err != nil || l.addr == "" {
		return conn, err
	}
	return fromConn{conn, &net.TCPAddr{IP: net.ParseIP(l.addr), Port: 4000}}, nil
}

// behind serves w behind a gate with all places, on a real listener.
func behind(t *testing.T, w *world, all int) (*from, *web.LimitedListener) {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	f := &from{Listener: l}
	g := web.LimitListener(f, web.Limits{All: all, Refuse: RefuseConnection})
	server := &http.Server{Handler: w.handler(), MaxHeaderBytes: 64 << 10, DisableGeneralOptionsHandler: true}
	g.Guard(server)
	ended := make(chan error)
	go func() { ended <- server.Serve(g) }()
	t.Cleanup(func() {
		_ = server.Close()
		if err := <-ended; !errors.Is(err, http.ErrServerClosed) {
			t.Error(err)
		}
	})
	return f, g
}

// client is one connection to a server.
type client struct {
	t *testing.T
	net.Conn
	r *bufio.Reader
}

func call1(t *testing.T, l net.Listener) *client {
	t.Helper()
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(time.Minute))
	return &client{t, conn, bufio.NewReader(conn)}
}

func (c *client) say(text string) {
	_, _ = io.WriteString(c, text) // a server that hangs up is found out by answer
}

// read reads one answer and its whole text.
func (c *client) read() (*http.Response, []byte) {
	c.t.Helper()
	resp, err := http.ReadResponse(c.r, nil)
	if err != nil {
		c.t.Fatal(err)
	}
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		c.t.Fatal(err)
	}
	return resp, text
}

// answer reads one answer in JSON.
func (c *client) answer() (*http.Response, errorBody) {
	c.t.Helper()
	resp, text := c.read()
	var body errorBody
	if err := json.Unmarshal(text, &body); err != nil {
		c.t.Fatalf("%v: %s", err, text)
	}
	return resp, body
}

// wantClosed reads to the end of the connection.
func (c *client) wantClosed() {
	c.t.Helper()
	var refused net.Error
	if rest, err := io.ReadAll(c.r); errors.As(err, &refused) && refused.Timeout() {
		c.t.Errorf("it is open still, after %q", rest)
	}
}
