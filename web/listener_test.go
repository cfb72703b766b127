package web

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"syscall"
	"testing"
	"time"
)

func listen(t *testing.T) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// limited is a listener for so many connections, and a way to make one of them.
func limited(t *testing.T, all int) (l *LimitedListener, next func() (client net.Conn, in *Conn)) {
	t.Helper()
	l = LimitListener(listen(t), Limits{All: all})
	t.Cleanup(func() { _ = l.Close() })
	return l, func() (net.Conn, *Conn) {
		t.Helper()
		c, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		in, err := l.Listener.Accept()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = in.Close() })
		return c, l.admit(in)
	}
}

// A new connection takes the place of the one that was idle for longest, and of
// none that something is done for.
func TestIdleConnectionsMakeRoom(t *testing.T) {
	l, next := limited(t, 3)
	var held []*Conn
	var clients []net.Conn
	for range 3 {
		c, in := next()
		in.count(1, 0)
		held, clients = append(held, in), append(clients, c)
	}
	if _, in := next(); in != nil {
		t.Error("a fourth connection is served, though three are busy")
	}
	held[1].Wait(true)   // for a body
	held[2].count(-1, 0) // it has its answer
	for i, want := range []int{1, 2} {
		_, in := next()
		if in == nil {
			t.Fatalf("number %d is not served", i)
		}
		in.count(1, 0)
		_ = clients[want].SetReadDeadline(time.Now().Add(time.Minute))
		if _, err := clients[want].Read(make([]byte, 1)); !errors.Is(err, io.EOF) && !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("the one that was idle for longest is not closed: %v", err)
		}
	}
	_ = held[0].Close()
	_ = held[0].Close() // its place counts once
	if l.Stats().Served != 2 {
		t.Errorf("%+v, want 2 served", l.Stats())
	}
	for address, want := range map[string]string{
		"192.0.2.1:1": "192.0.2.1", "[2001:db8::1:2]:1": "2001:db8::/64", "[::ffff:192.0.2.1]:1": "192.0.2.1", "127.0.0.1:1": "", "[::1]:1": "",
	} {
		if got := l.keyOf(named(address)); got != want {
			t.Errorf("%s counts as %s, want %s", address, got, want)
		}
	}
}

// One address gets a sixteenth of the connections: when those are idle, its own.
func TestOneAddressGetsItsShare(t *testing.T) {
	l := LimitListener(listen(t), Limits{All: 2 * AddressShare, Trusted: Networks{netip.MustParsePrefix("198.51.100.0/24")}})
	defer l.Close()
	from := func(address string) *Conn {
		ours, theirs := net.Pipe()
		t.Cleanup(func() { _ = ours.Close(); _ = theirs.Close() })
		return l.admit(cameFrom{ours, named(address)})
	}
	for i := range 4 {
		if in := from("203.0.113.1:1"); in == nil {
			t.Fatalf("number %d of an address whose others are idle is not served", i)
		}
	}
	if n := l.from["203.0.113.1"]; n != 2 {
		t.Errorf("an address has %d connections, want 2", n)
	}
	for i, want := range []bool{true, true, false} {
		in := from("203.0.113.2:1")
		if (in != nil) != want {
			t.Errorf("number %d of an address whose others are busy is served: %v", i, in != nil)
		}
		if in != nil {
			in.count(1, 0)
		}
	}
	for i := range 2*AddressShare - 2 { // the last ones in the place of the two that are idle
		in := from("198.51.100.7:1")
		if in == nil {
			t.Fatalf("number %d of a trusted proxy is not served", i)
		}
		in.count(1, 0)
	}
	if from("198.51.100.7:1") != nil {
		t.Error("there are more connections than there may be")
	}
}

// cameFrom is a connection from anywhere.
type cameFrom struct {
	net.Conn
	from net.Addr
}

func (c cameFrom) RemoteAddr() net.Addr { return c.from }

type named string

func (named) Network() string  { return "tcp" }
func (n named) String() string { return string(n) }

// net/http answers headers that are too long before it has read them. A connection that is
// closed then is reset, unless the answer ends first: the client could lose the answer.
func TestAnswersToWhatIsNotReadArrive(t *testing.T) {
	server := &http.Server{MaxHeaderBytes: 1 << 10, Handler: http.NotFoundHandler()}
	l := LimitListener(listen(t), Limits{All: 10})
	l.Guard(server)
	served := make(chan error)
	go func() { served <- server.Serve(l) }()
	defer func() { _ = server.Close(); <-served }()
	c, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(time.Minute))
	_, _ = io.WriteString(c, "GET / HTTP/1.1\r\nHost: a\r\nX: "+strings.Repeat("x", 64<<10))
	text, err := io.ReadAll(c)
	if err != nil || !strings.HasPrefix(string(text), "HTTP/1.1 431 ") {
		t.Errorf("%q, %v", text, err)
	}
}

// Wait waits for requests and for connections that have not sent one, and for hijacked
// connections if it is to.
func TestWait(t *testing.T) {
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/hijack" {
			return
		}
		c, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		_, _ = io.WriteString(c, "hijacked\n")
		_, _ = io.Copy(io.Discard, c)
		_ = c.Close()
	})}
	l := LimitListener(listen(t), Limits{All: 10})
	l.Guard(server)
	served := make(chan error)
	go func() { served <- server.Serve(l) }()
	defer func() { _ = server.Close(); <-served }()
	waits := func(hijacked bool) bool {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		defer cancel()
		return l.Wait(ctx, hijacked) != nil
	}
	c, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_ = Poll(t.Context(), time.Millisecond, func() bool { return l.Stats().Active == 1 })
	if !waits(false) {
		t.Error("it does not wait for a connection that has sent nothing yet")
	}
	_, _ = io.WriteString(c, "GET / HTTP/1.1\r\nHost: a\r\n\r\n")
	if err := l.Wait(t.Context(), true); err != nil {
		t.Error(err)
	}
	_, _ = io.WriteString(c, "GET /hijack HTTP/1.1\r\nHost: a\r\n\r\n")
	_ = Poll(t.Context(), time.Millisecond, func() bool { return l.Stats().Hijacked == 1 })
	if waits(false) || !waits(true) {
		t.Error("a hijacked connection counts, or does not")
	}
	_ = c.Close()
	if err := l.Wait(t.Context(), true); err != nil {
		t.Error(err)
	}
}
