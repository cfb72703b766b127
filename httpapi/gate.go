package httpapi

import (
	"context"
	"crypto/rand"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"berth/app"
	"berth/app/text"
	"berth/web"
)

const (
	addressShare = 16 // one address gets a sixteenth of the connections: a few must not have all
	spareConns   = 32 // beyond the bound, open only to say why nothing is done
)

// Gate is a listener that bounds how many connections there are at once, in all
// and from one address (a /64 of IPv6). Connections of this machine and of trusted
// proxies have no bound of their own. A new connection takes the place of the one
// that has been without a request for longest, since its first moment perhaps, if
// there is one; otherwise it is answered with 503, and closed when there are many of those too.
//
// It is safe for concurrent use. Guard MUST be called before Serve.
type Gate struct {
	net.Listener
	all, each int
	trusted   []netip.Prefix

	mu    sync.Mutex
	conns map[*gated]struct{}
	from  map[string]int // those that are served, by address
	total int
	spare int // those that are refused
}

// NewGate returns a gate before l with places for all connections.
func NewGate(l net.Listener, all int, trusted ...netip.Prefix) *Gate {
	return &Gate{Listener: l, all: all, each: max(1, all/addressShare), trusted: trusted, conns: map[*gated]struct{}{}, from: map[string]int{}}
}

// gated is a connection that went through a gate.
type gated struct {
	net.Conn
	gate    *Gate
	key     string   // of the address, "" for one without a bound
	refusal app.Text // none when it is served
	handled atomic.Bool
	idle    bool      // it has had a request, and waits for another. The gate's mu guards it
	since   time.Time // when it came, or became idle last; so is this guarded
	closed  sync.Once
}

type gatedKey struct{}

// Guard makes a server know its connections: it sets ConnState and ConnContext,
// and wraps Handler.
func (g *Gate) Guard(s *http.Server) {
	inner := s.Handler
	s.ConnState = func(c net.Conn, state http.ConnState) {
		if c, is := c.(*gated); is {
			g.changed(c, state)
		}
	}
	s.ConnContext = func(ctx context.Context, c net.Conn) context.Context { return context.WithValue(ctx, gatedKey{}, c) }
	s.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c, is := r.Context().Value(gatedKey{}).(*gated)
		if is {
			c.handled.Store(true)
		}
		if is && !c.refusal.IsZero() {
			h := w.Header()
			head(h)
			h.Set("Connection", "close")
			h.Set("Retry-After", strconv.Itoa(retryUnavailable))
			_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(web.Patience)) // see send
			w.WriteHeader(http.StatusServiceUnavailable)
			_, _ = w.Write(outright(http.StatusServiceUnavailable, text.Accept(r.Header.Get("Accept-Language")).SayPhrase(c.refusal), h.Get("X-Request-Id")))
			return
		}
		inner.ServeHTTP(w, r)
	})
}

// head sets what an answer has that no server has made.
func head(h http.Header) {
	h.Set("X-Request-Id", rand.Text())
	h.Set("Content-Type", "application/json; charset=utf-8")
	secure(h)
}

// outright is the body of an answer that no server has made.
func outright(status int, message, requestID string) []byte {
	return encode(errorBody{Status: statusError, StatusCode: status, Code: status, Message: message, RequestID: requestID})
}

// Accept returns the next connection that is let in.
func (g *Gate) Accept() (net.Conn, error) {
	for {
		conn, err := g.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if c := g.admit(conn); c != nil {
			return c, nil
		}
		_ = conn.Close() // nobody reads the answer of so many
	}
}

// admit returns the connection as it is served, or nil.
func (g *Gate) admit(conn net.Conn) *gated {
	c := &gated{Conn: conn, gate: g, key: g.keyOf(conn.RemoteAddr()), since: time.Now()}
	g.mu.Lock()
	defer g.mu.Unlock()
	full := func(mine bool) bool { return !g.evict(c.key, mine) }
	switch {
	case c.key != "" && g.from[c.key] >= g.each && full(true):
		c.refusal = app.Textf("Your address has %d connections open, as many as one gets. Close some.", g.each)
	case g.total >= g.all && full(false):
		c.refusal = app.Textf("The server has as many connections as it takes. Try again in a few seconds.")
	}
	switch {
	case c.refusal.IsZero():
		g.total++
		if c.key != "" {
			g.from[c.key]++
		}
	case g.spare < spareConns:
		g.spare++
	default:
		return nil
	}
	g.conns[c] = struct{}{}
	return c
}

// keyOf names where a connection comes from, "" for this machine and trusted
// proxies.
func (g *Gate) keyOf(a net.Addr) string {
	if addr, err := netip.ParseAddr(addressOf(a.String())); err == nil {
		addr = addr.Unmap().WithZone("")
		if addr.IsLoopback() || slices.ContainsFunc(g.trusted, func(n netip.Prefix) bool { return n.Contains(addr) }) {
			return ""
		}
	}
	return addressKey(a.String())
}

// evict closes the connection that no handler has seen for longest, of those from
// key when mine is set, and reports whether there was one. The caller holds mu.
func (g *Gate) evict(key string, mine bool) bool {
	var oldest *gated
	for c := range g.conns {
		if c.handled.Load() || !c.refusal.IsZero() || mine && c.key != key {
			continue
		}
		if oldest == nil || c.since.Before(oldest.since) {
			oldest = c
		}
	}
	if oldest == nil {
		return false
	}
	g.forget(oldest)
	_ = oldest.Conn.Close() // the server finds out, and closes it again
	return true
}

// Busy returns how many connections there are that are not between two requests.
// It includes those that have not sent their first.
func (g *Gate) Busy() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	busy := 0
	for c := range g.conns {
		if !c.idle {
			busy++
		}
	}
	return busy
}

// forget gives the place of a connection back, once. The caller holds mu.
func (g *Gate) forget(c *gated) {
	if _, known := g.conns[c]; !known {
		return
	}
	delete(g.conns, c)
	if !c.refusal.IsZero() {
		g.spare--
		return
	}
	g.total--
	if c.key == "" {
		return
	}
	if g.from[c.key]--; g.from[c.key] == 0 {
		delete(g.from, c.key)
	}
}

// changed takes what the server says of a connection.
func (g *Gate) changed(c *gated, state http.ConnState) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if c.idle = state == http.StateIdle; c.idle {
		c.since = time.Now()
		c.handled.Store(false)
	}
}

// Close gives the place back.
func (c *gated) Close() error {
	c.closed.Do(func() {
		c.gate.mu.Lock()
		defer c.gate.mu.Unlock()
		c.gate.forget(c)
	})
	return c.Conn.Close()
}

// CloseWrite ends the answer while net/http still takes what the client sends: a
// connection that is closed with bytes unread is reset, and the answer may be lost.
func (c *gated) CloseWrite() error {
	if half, is := c.Conn.(interface{ CloseWrite() error }); is {
		return half.CloseWrite()
	}
	return nil
}
