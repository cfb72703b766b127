package proxy

import (
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"time"
)

// Server returns a server for h: 10 seconds for the headers of a request, 32 KB
// of them, a minute between requests, and no bound for bodies, which may be
// uploads and streams. life ends what has become of a request after its answer:
// WebSockets.
func Server(life context.Context, h http.Handler, log *slog.Logger) *http.Server {
	return &http.Server{
		Handler: h, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: time.Minute, MaxHeaderBytes: 32 << 10,
		BaseContext:                  func(net.Listener) context.Context { return life },
		DisableGeneralOptionsHandler: true, ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelDebug),
		HTTP2: &http.HTTP2Config{MaxConcurrentStreams: 100, SendPingTimeout: time.Minute, PingTimeout: 15 * time.Second},
	}
}

// Busy is the connections of servers that are not between two requests, those
// that have not sent their first included. Set its Changed as the ConnState of
// each server. It is safe for concurrent use; the zero value is ready.
type Busy struct {
	mu    sync.Mutex
	conns map[net.Conn]struct{}
}

// Changed is an http.Server.ConnState.
func (b *Busy) Changed(c net.Conn, state http.ConnState) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch state {
	case http.StateNew, http.StateActive:
		if b.conns == nil {
			b.conns = map[net.Conn]struct{}{}
		}
		b.conns[c] = struct{}{}
	case http.StateIdle, http.StateHijacked, http.StateClosed:
		delete(b.conns, c)
	}
}

// Wait blocks until there are none, or ctx ends.
func (b *Busy) Wait(ctx context.Context) {
	ticker := time.NewTicker(time.Millisecond)
	defer ticker.Stop()
	for {
		b.mu.Lock()
		none := len(b.conns) == 0
		b.mu.Unlock()
		if none {
			return
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
	}
}

// Bounded is a listener with at most all connections at once, of which one
// address (a /64 of IPv6) has a quarter at most. Trusted proxies and this
// machine have no bound of their own. A connection beyond is closed without a
// word. It is safe for concurrent use.
type Bounded struct {
	net.Listener
	all, each int
	trusted   []netip.Prefix

	mu    sync.Mutex
	total int
	from  map[netip.Prefix]int
}

// Bound returns such a listener.
func Bound(l net.Listener, all int, trusted []netip.Prefix) *Bounded {
	return &Bounded{Listener: l, all: all, each: max(1, all/4), trusted: trusted, from: map[netip.Prefix]int{}}
}

// Accept returns the next connection that is let in.
func (b *Bounded) Accept() (net.Conn, error) {
	for {
		c, err := b.Listener.Accept()
		if err != nil {
			return nil, err
		}
		key := b.key(c.RemoteAddr())
		b.mu.Lock()
		full := b.total >= b.all || key.IsValid() && b.from[key] >= b.each
		if !full {
			b.total++
			if key.IsValid() {
				b.from[key]++
			}
		}
		b.mu.Unlock()
		if !full {
			return &bounded{Conn: c, give: sync.OnceFunc(func() { b.leave(key) })}, nil
		}
		_ = c.Close()
	}
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

func (b *Bounded) leave(key netip.Prefix) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.total--
	if !key.IsValid() {
		return
	}
	if b.from[key]--; b.from[key] == 0 {
		delete(b.from, key)
	}
}

// bounded is a connection that has a place.
type bounded struct {
	net.Conn
	give func()
}

// ReadFrom lets the kernel send files (sendfile(2)): http.Server asks for it.
func (c *bounded) ReadFrom(r io.Reader) (int64, error) {
	if direct, ok := c.Conn.(io.ReaderFrom); ok {
		return direct.ReadFrom(r)
	}
	return io.Copy(struct{ io.Writer }{c.Conn}, r)
}

// Close gives the place back.
func (c *bounded) Close() error {
	c.give()
	return c.Conn.Close()
}
