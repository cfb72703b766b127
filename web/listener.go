package web

import (
	"context"
	"net"
	"net/http"
	"sync"
	"time"
)

const (
	// AddressShare is the part of the connections that one address gets: browsers
	// need six, and a few addresses must not have all.
	AddressShare = 16
	// MaxRefused is how many connections beyond the limit are open to be told so.
	MaxRefused = 32
)

// Limits are those of a LimitedListener.
type Limits struct {
	All     int      // connections at once; one address gets a sixteenth
	Trusted Networks // proxies, whose connections have no limit of their own
	// Refuse answers the first request of a connection beyond the limit: each is how
	// many one address gets, if that is why, and 0 otherwise. Optional: without it such
	// a connection is closed without a word.
	Refuse func(w http.ResponseWriter, r *http.Request, each int)
}

// LimitedListener is a listener that limits how many connections there are at once, in
// all and from one address (a /64 of IPv6). Connections of this machine and of trusted
// proxies have no limit of their own. A new connection takes the place of the one that
// was idle for longest: that waits for a request, its first perhaps, or for a body that
// does not come. If none is idle, the new one is refused.
//
// It is safe for concurrent use. Guard MUST be called before Serve.
type LimitedListener struct {
	net.Listener
	Limits
	each int

	mu      sync.Mutex
	conns   map[*Conn]struct{}
	from    map[string]int // those that are served, by address
	refused int
}

// LimitListener returns a listener that keeps to limits.
func LimitListener(l net.Listener, limits Limits) *LimitedListener {
	return &LimitedListener{
		Listener: l, Limits: limits, each: max(1, limits.All/AddressShare), conns: map[*Conn]struct{}{}, from: map[string]int{},
	}
}

// Guard makes a server know the connections of l: it sets ConnState and ConnContext, and
// wraps Handler.
func (l *LimitedListener) Guard(s *http.Server) {
	inner := s.Handler
	s.ConnState = func(c net.Conn, state http.ConnState) {
		if c := connOf(c); c != nil {
			l.mu.Lock()
			defer l.mu.Unlock()
			c.state = state
		}
	}
	s.ConnContext = func(ctx context.Context, c net.Conn) context.Context {
		return context.WithValue(ctx, connKey{}, connOf(c))
	}
	s.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c := ConnOf(r.Context())
		if c == nil {
			inner.ServeHTTP(w, r)
			return
		}
		c.count(1, 0)
		defer c.count(-1, 0)
		if c.refused {
			l.Refuse(w, r, c.each)
			return
		}
		inner.ServeHTTP(w, r)
	})
}

// Accept returns the next connection that is let in.
func (l *LimitedListener) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if c := l.admit(conn); c != nil {
			return c, nil
		}
		_ = conn.Close() // nobody reads the answer of so many
	}
}

// admit returns the connection as it is served, or nil.
func (l *LimitedListener) admit(conn net.Conn) *Conn {
	c := &Conn{Conn: conn, listener: l, key: l.keyOf(conn.RemoteAddr()), since: time.Now()}
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case c.key != "" && l.from[c.key] >= l.each && !l.evict(c.key):
		c.refused, c.each = true, l.each
	case len(l.conns)-l.refused >= l.All && !l.evict(""):
		c.refused = true
	}
	switch {
	case c.refused && (l.Refuse == nil || l.refused >= MaxRefused):
		return nil
	case c.refused:
		l.refused++
	case c.key != "":
		l.from[c.key]++
	}
	l.conns[c] = struct{}{}
	return c
}

// keyOf names where a connection comes from, "" for one without a limit of its own.
func (l *LimitedListener) keyOf(from net.Addr) string {
	a := AddressOf(from.String())
	if !a.IsValid() || a.IsLoopback() || l.Trusted.Contains(a) {
		return ""
	}
	return KeyOf(a)
}

// evict closes the connection that was idle for longest, of those from key unless that
// is "", and reports whether there was one. The caller holds mu.
func (l *LimitedListener) evict(key string) bool {
	var oldest *Conn
	for c := range l.conns {
		if c.busy() || c.refused || key != "" && c.key != key {
			continue
		}
		if oldest == nil || c.since.Before(oldest.since) {
			oldest = c
		}
	}
	if oldest == nil {
		return false
	}
	l.forget(oldest)
	_ = oldest.Conn.Close() // the server finds out, and closes it again
	return true
}

// forget gives the place of a connection back, once. The caller holds mu.
func (l *LimitedListener) forget(c *Conn) {
	if _, known := l.conns[c]; !known {
		return
	}
	delete(l.conns, c)
	switch {
	case c.refused:
		l.refused--
	case c.key == "":
	case l.from[c.key] == 1:
		delete(l.from, c.key)
	default:
		l.from[c.key]--
	}
}

// Stats are how many connections there are at a moment.
type Stats struct {
	Served, Refused, Addresses int

	Idle     int // of those that are served: nothing is done for them
	Active   int // that are not between two requests, or have not sent their first
	Hijacked int
}

// Stats counts the connections.
func (l *LimitedListener) Stats() Stats {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := Stats{Served: len(l.conns) - l.refused, Refused: l.refused, Addresses: len(l.from)}
	for c := range l.conns {
		if !c.busy() && !c.refused {
			n.Idle++
		}
		switch c.state {
		case http.StateNew, http.StateActive:
			n.Active++
		case http.StateHijacked:
			n.Hijacked++
		case http.StateIdle, http.StateClosed:
		}
	}
	return n
}

// Wait blocks until all connections are between two requests, or ctx ends; with hijacked,
// until there are no hijacked ones either.
func (l *LimitedListener) Wait(ctx context.Context, hijacked bool) error {
	return Poll(ctx, time.Millisecond, func() bool {
		n := l.Stats()
		return n.Active == 0 && (!hijacked || n.Hijacked == 0)
	})
}

// Conn is a connection of a LimitedListener, whose mu guards what changes in it.
type Conn struct {
	net.Conn
	listener *LimitedListener
	key      string // of its address
	refused  bool
	each     int // what it is told when it is refused

	handlers int       // that run for it
	waiting  int       // of those, how many wait for a body
	since    time.Time // when it came, or was busy last
	state    http.ConnState
}

// busy reports whether something is done for the connection.
func (c *Conn) busy() bool { return c.handlers > c.waiting }

// count counts handlers that began or ended, and of them those that wait.
func (c *Conn) count(handlers, waiting int) {
	c.listener.mu.Lock()
	defer c.listener.mu.Unlock()
	c.handlers += handlers
	c.waiting += waiting
	c.since = time.Now()
}

// Wait notes that a handler begins to wait for the body of its request, or that it waits
// no longer. While all do, the connection is idle.
func (c *Conn) Wait(on bool) {
	n := -1
	if on {
		n = 1
	}
	c.count(0, n)
}

type connKey struct{}

// ConnOf returns the connection of a request, nil if it came through no LimitedListener.
func ConnOf(ctx context.Context) *Conn {
	c, _ := ctx.Value(connKey{}).(*Conn)
	return c
}

// connOf returns what a server's connection is, below TLS perhaps.
func connOf(c net.Conn) *Conn {
	for {
		switch over := c.(type) {
		case *Conn:
			return over
		case interface{ NetConn() net.Conn }:
			c = over.NetConn()
		default:
			return nil
		}
	}
}

// Close gives the place back.
func (c *Conn) Close() error {
	c.listener.mu.Lock()
	c.listener.forget(c)
	c.listener.mu.Unlock()
	return c.Conn.Close()
}

// CloseWrite ends the answer while net/http still takes what the client sends: a
// connection that is closed with bytes unread is reset, and the answer may be lost.
func (c *Conn) CloseWrite() error {
	if half, is := c.Conn.(interface{ CloseWrite() error }); is {
		return half.CloseWrite()
	}
	return nil
}
