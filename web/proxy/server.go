package proxy

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"
)

// Server returns a server for h: 10 seconds for the headers of a request, 32 KB
// of them, a minute between requests, and no bound for the size of bodies, which
// may be uploads and streams, but half a minute until the first of one; the pace of
// the rest is the Proxy's business. life ends what has become of a request after
// its answer: WebSockets. Connections of a Bounded listener tell it when they are
// idle.
func Server(life context.Context, h http.Handler, log *slog.Logger) *http.Server {
	return &http.Server{
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if c, is := r.Context().Value(boundedKey{}).(*bounded); is {
				c.enter()
				defer c.leave()
			}
			if r.ContentLength != 0 {
				// Also of one that nobody reads: net/http itself reads a little of what is left.
				_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(bodyPatience)) // every connection of ours has deadlines
			}
			h.ServeHTTP(w, r)
		}),
		ReadHeaderTimeout: 10 * time.Second, IdleTimeout: time.Minute, MaxHeaderBytes: 32 << 10,
		ConnContext: knowing, BaseContext: func(net.Listener) context.Context { return life },
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
