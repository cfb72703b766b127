package proxy

import (
	"context"
	"io"
	"math"
	"net"
	"net/netip"
	"os"
	"sync"
	"time"
)

// addressShare is the part of the connections that one address gets: browsers
// need six, and a few addresses must not have all.
const addressShare = 16

// Bounded is a listener with at most all connections at once, of which one
// address (a /64 of IPv6) has a sixteenth at most. Trusted proxies and this
// machine have no bound of their own. A new connection takes the place of the
// one that was idle for longest: that waits for a request, or for a body that does
// not come. Where none is idle it is closed without a word. It is safe for
// concurrent use.
type Bounded struct {
	net.Listener
	all, each int
	trusted   []netip.Prefix
	patience  time.Duration // takePatience

	mu    sync.Mutex
	conns map[*bounded]struct{}
	from  map[netip.Prefix]int
}

// takePatience is how long a visitor may take nothing of an answer, and
// filePart how much of a file is sent in that time at least.
const (
	takePatience = time.Minute
	filePart     = 256 << 10
)

// Bound returns such a listener, whose connections end when the visitor takes
// next to nothing of an answer for a minute. Server knows its connections.
func Bound(l net.Listener, all int, trusted []netip.Prefix) *Bounded {
	return &Bounded{
		Listener: l, all: all, each: max(1, all/addressShare), trusted: trusted, patience: takePatience,
		conns: map[*bounded]struct{}{}, from: map[netip.Prefix]int{},
	}
}

// Accept returns the next connection that is let in.
func (b *Bounded) Accept() (net.Conn, error) {
	for {
		c, err := b.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if in := b.admit(c); in != nil {
			return in, nil
		}
		_ = c.Close()
	}
}

// admit returns the connection as it is served, or nil.
func (b *Bounded) admit(conn net.Conn) *bounded {
	c := &bounded{Conn: conn, of: b, key: b.key(conn.RemoteAddr()), since: time.Now()}
	b.mu.Lock()
	defer b.mu.Unlock()
	if c.key.IsValid() && b.from[c.key] >= b.each && !b.evict(c.key, true) || len(b.conns) >= b.all && !b.evict(c.key, false) {
		return nil
	}
	b.conns[c] = struct{}{}
	if c.key.IsValid() {
		b.from[c.key]++
	}
	return c
}

// evict closes the connection that was idle for longest, of those under key when
// mine is set, and reports whether there was one. The caller holds mu.
func (b *Bounded) evict(key netip.Prefix, mine bool) bool {
	var oldest *bounded
	for c := range b.conns {
		if c.busy() || mine && c.key != key {
			continue
		}
		if oldest == nil || c.since.Before(oldest.since) {
			oldest = c
		}
	}
	if oldest == nil {
		return false
	}
	b.forget(oldest)
	_ = oldest.Conn.Close() // the server finds out, and closes it again
	return true
}

// key is what connections from an address are counted under; not valid for
// those that are not counted.
func (b *Bounded) key(from net.Addr) netip.Prefix {
	ap, err := netip.ParseAddrPort(from.String())
	a := ap.Addr().Unmap().WithZone("")
	if err != nil || a.IsLoopback() {
		return netip.Prefix{}
	}
	for _, n := range b.trusted {
		if n.Contains(a) {
			return netip.Prefix{}
		}
	}
	bits := 64
	if a.Is4() {
		bits = 32
	}
	p, _ := a.Prefix(bits)
	return p
}

// forget gives the place of a connection back, once. The caller holds mu.
func (b *Bounded) forget(c *bounded) {
	if _, known := b.conns[c]; !known {
		return
	}
	delete(b.conns, c)
	if !c.key.IsValid() {
		return
	}
	if b.from[c.key]--; b.from[c.key] == 0 {
		delete(b.from, c.key)
	}
}

// bounded is a connection that has a place. The listener's mu guards what
// changes in it.
type bounded struct {
	net.Conn
	of  *Bounded
	key netip.Prefix

	handlers int       // that run for it
	waiting  int       // of those, how many wait for a body
	since    time.Time // when it was busy last, or begun
}

// busy reports whether something is done for the connection.
func (c *bounded) busy() bool { return c.handlers > c.waiting }

// change counts handlers that began or ended, and of them those that wait. The
// caller holds mu.
func (c *bounded) change(handlers, waiting int) {
	c.handlers += handlers
	c.waiting += waiting
	c.since = time.Now()
}

func (c *bounded) enter() { c.handled(1) }
func (c *bounded) leave() { c.handled(-1) }

func (c *bounded) handled(n int) {
	c.of.mu.Lock()
	defer c.of.mu.Unlock()
	c.change(n, 0)
}

type boundedKey struct{}

// knowing is an http.Server.ConnContext: it keeps a connection of a Bounded
// listener, below TLS perhaps.
func knowing(ctx context.Context, c net.Conn) context.Context {
	if over, is := c.(interface{ NetConn() net.Conn }); is {
		c = over.NetConn()
	}
	if b, is := c.(*bounded); is {
		return context.WithValue(ctx, boundedKey{}, b)
	}
	return ctx
}

// Write gives a visitor so long to take p, and no longer: who takes nothing would
// hold a place for ever.
func (c *bounded) Write(p []byte) (int, error) {
	if err := c.SetWriteDeadline(time.Now().Add(c.of.patience)); err != nil {
		return 0, err
	}
	return c.Conn.Write(p)
}

// ReadFrom lets the kernel send files (sendfile(2)): http.Server asks for it. What
// else there is goes through Write, for it may be silent between two parts.
func (c *bounded) ReadFrom(r io.Reader) (sent int64, err error) {
	direct, ok := c.Conn.(io.ReaderFrom)
	limit, limited := r.(*io.LimitedReader)
	if !limited {
		limit = &io.LimitedReader{R: r, N: math.MaxInt64}
	}
	file, isFile := limit.R.(*os.File)
	if !ok || !isFile {
		return io.CopyBuffer(struct{ io.Writer }{c}, struct{ io.Reader }{r}, make([]byte, 8<<10))
	}
	for limit.N > 0 {
		if err := c.SetWriteDeadline(time.Now().Add(c.of.patience)); err != nil {
			return sent, err
		}
		part := min(limit.N, filePart)
		n, err := direct.ReadFrom(&io.LimitedReader{R: file, N: part})
		sent += n
		limit.N -= n
		if err != nil || n < part {
			return sent, err
		}
	}
	return sent, nil
}

// Close gives the place back.
func (c *bounded) Close() error {
	c.of.mu.Lock()
	c.of.forget(c)
	c.of.mu.Unlock()
	return c.Conn.Close()
}
