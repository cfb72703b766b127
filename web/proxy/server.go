package proxy

import (
	"context"
	"io"
	"log/slog"
	"math"
	"net"
	"net/http"
	"os"
	"time"

	"berth/web"
)

const (
	writeTimeout = time.Minute // of a Listener
	// filePart is how much of a file is sent in that time at least.
	filePart = 256 << 10
)

// Server returns a server for h: 10 seconds for the headers of a request, 32 KB
// of them, a minute between requests, and no bound for the size of bodies, which
// may be uploads and streams, but half a minute until the first of one; the rate of
// the rest is the Proxy's business. life ends what has become of a request after
// its answer: WebSockets.
func Server(life context.Context, h http.Handler, log *slog.Logger) *http.Server {
	return &http.Server{
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.ContentLength != 0 {
				// Also of one that nobody reads: net/http itself reads a little of what is left.
				_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(bodyTimeout)) // every connection of ours has deadlines
			}
			h.ServeHTTP(w, r)
		}),
		ReadHeaderTimeout: 10 * time.Second, IdleTimeout: time.Minute, MaxHeaderBytes: 32 << 10,
		BaseContext:                  func(net.Listener) context.Context { return life },
		DisableGeneralOptionsHandler: true, ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelDebug),
		// Each connection keeps the memory of the largest frame that came: 16 KB, as browsers send, in
		// place of the megabyte that Go allows.
		HTTP2: &http.HTTP2Config{MaxConcurrentStreams: 100, MaxReadFrameSize: 16 << 10, SendPingTimeout: time.Minute, PingTimeout: 15 * time.Second},
	}
}

// Listener is a web.LimitedListener for sites. Its connections end when the visitor takes
// next to nothing of an answer for a minute: each would hold a place for ever.
type Listener struct {
	*web.LimitedListener
	timeout time.Duration
}

// Listen returns a Listener for the connections of l.
func Listen(l net.Listener, limits web.Limits) *Listener {
	return &Listener{web.LimitListener(l, limits), writeTimeout}
}

// Accept returns the next connection that is let in.
func (l *Listener) Accept() (net.Conn, error) {
	c, err := l.LimitedListener.Accept()
	if err != nil {
		return nil, err
	}
	return &timedConn{c.(*web.Conn), l.timeout}, nil
}

// timedConn is a connection of a Listener.
type timedConn struct {
	*web.Conn
	timeout time.Duration
}

// NetConn returns the connection below, as that of TLS does.
func (c *timedConn) NetConn() net.Conn { return c.Conn }

func (c *timedConn) extend() error { return c.SetWriteDeadline(time.Now().Add(c.timeout)) }

// Write implements io.Writer.
func (c *timedConn) Write(p []byte) (int, error) {
	if err := c.extend(); err != nil {
		return 0, err
	}
	return c.Conn.Write(p)
}

// ReadFrom lets the kernel send files (sendfile(2)): http.Server asks for it. What
// else there is goes through Write, for it may be silent between two parts.
func (c *timedConn) ReadFrom(r io.Reader) (sent int64, err error) {
	direct, ok := c.Conn.Conn.(io.ReaderFrom)
	limit, limited := r.(*io.LimitedReader)
	if !limited {
		limit = &io.LimitedReader{R: r, N: math.MaxInt64}
	}
	file, isFile := limit.R.(*os.File)
	if !ok || !isFile {
		return io.CopyBuffer(struct{ io.Writer }{c}, struct{ io.Reader }{r}, make([]byte, 8<<10))
	}
	for limit.N > 0 {
		if err := c.extend(); err != nil {
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
