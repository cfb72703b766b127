package proxy

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/http/httputil"
	"net/netip"
	"net/url"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"berth/app"
)

const (
	dialTimeout   = 5 * time.Second
	answerTimeout = time.Minute     // between the request's end and the answer's headers
	healthTimeout = 5 * time.Second // of one question for a program's health
	// idleUpstream is shorter than what servers keep a connection for (Node 5 s,
	// Gunicorn 2 s): one that they close at the moment it is used costs a
	// request that cannot be sent twice.
	idleUpstream = 1500 * time.Millisecond
	idlePerSite  = 64
	idleOfAll    = 1024
	maxHeaders   = 128 << 10 // of an answer
	bufferSize   = 32 << 10
)

// address is what requests for a site are sent to, for dial. Connections of one address are
// kept, and shared. A port that is not the program's own may become another's: so the
// address names the site.
func (s Site) address() string {
	if s.Dial {
		return s.ID + ":" + strconv.Itoa(int(s.At.Port()))
	}
	return s.At.String()
}

// dial reaches the program of an address.
func (p *Proxy) dial(ctx context.Context, network, address string) (net.Conn, error) {
	var c net.Conn
	_, err := netip.ParseAddrPort(address)
	if err == nil {
		d := net.Dialer{Timeout: dialTimeout, KeepAlive: -1}
		c, err = d.DialContext(ctx, network, address)
	} else {
		c, err = p.dialSite(ctx, network, address)
	}
	if err != nil {
		return nil, err
	}
	return &programConn{TCPConn: c.(*net.TCPConn)}, nil
}

// dialSite reaches the program of an address that names its site, if that is there still.
func (p *Proxy) dialSite(ctx context.Context, network, address string) (net.Conn, error) {
	id, _, _ := strings.Cut(address, ":")
	if s := p.current(id); s.Dial && s.address() == address {
		return p.Dial(ctx, id, s.At)
	}
	return nil, &net.OpError{Op: "dial", Net: network, Err: errors.New("the site has moved")}
}

// programConn is a connection to a program. It knows whether http.Transport reads from it.
type programConn struct {
	*net.TCPConn
	reading, closed atomic.Bool
}

// Read implements io.Reader.
func (c *programConn) Read(p []byte) (int, error) {
	c.reading.Store(true)
	defer c.reading.Store(false)
	return c.TCPConn.Read(p)
}

// Close implements io.Closer.
func (c *programConn) Close() error {
	c.closed.Store(true)
	return c.TCPConn.Close()
}

// settle blocks until http.Transport has dealt with what came on a connection before. A
// moment after it offers a connection again, the Transport looks whether the program has
// sent more than an answer, and closes it then. To a request that is faster those bytes
// would be the answer, and they may be somebody else's. The Transport reads on only when it
// has nothing left.
func settle(info httptrace.GotConnInfo) {
	for c := info.Conn.(*programConn); !c.reading.Load() && !c.closed.Load(); {
		runtime.Gosched() // to the Transport's goroutine, which is about to
	}
}

func newTransport(dial dialer) *http.Transport {
	return &http.Transport{
		DialContext: dial, DisableCompression: true, ForceAttemptHTTP2: false,
		MaxIdleConns: idleOfAll, MaxIdleConnsPerHost: idlePerSite, IdleConnTimeout: idleUpstream,
		ResponseHeaderTimeout: answerTimeout, ExpectContinueTimeout: time.Second,
		MaxResponseHeaderBytes: maxHeaders,
	}
}

// buffers are what bodies are copied through.
type buffers struct{ pool sync.Pool }

func newBuffers() *buffers {
	return &buffers{sync.Pool{New: func() any { return new([bufferSize]byte) }}}
}

// Get implements httputil.BufferPool.
func (b *buffers) Get() []byte { return b.pool.Get().(*[bufferSize]byte)[:] }

// Put implements httputil.BufferPool.
func (b *buffers) Put(p []byte) { b.pool.Put((*[bufferSize]byte)(p)) }

// rewrite makes the program's request of a stranger's. Hop headers are gone
// already.
func (p *Proxy) rewrite(pr *httputil.ProxyRequest) {
	in := inboundOf(pr.In)
	out := pr.Out
	out.URL.Scheme, out.URL.Host, out.URL.User = "http", in.site.address(), nil
	if out.URL.Path == "" {
		out.URL = &url.URL{Scheme: out.URL.Scheme, Host: out.URL.Host, Path: "/"}
	}
	out.URL.RawQuery = pr.In.URL.RawQuery // as it came: what it means is the program's business
	out.Host, out.Trailer = in.host, nil
	clean(out.Header)
	if _, told := out.Header["User-Agent"]; !told {
		out.Header["User-Agent"] = nil // Go would send its own
	}
	out.Header["X-Forwarded-For"] = []string{in.forwarded}
	out.Header["X-Forwarded-Host"] = []string{in.host}
	out.Header["X-Forwarded-Proto"] = []string{in.proto}
	out.Header["X-Real-Ip"] = []string{in.client.String()}
}

// errStatus is an answer below 100: http.ResponseWriter panics for it.
var errStatus = errors.New("the program has answered with a status that is none")

// errUpgrade is what a program gets no tunnel for.
var errUpgrade = errors.New("the program has switched to a protocol that nobody asked for")

// modify looks at a program's answer. One that is no answer to the upgrade that
// was asked for ends here, where its connection is closed: ReverseProxy would keep
// it open until the collector comes.
func (p *Proxy) modify(r *http.Response) error {
	if r.StatusCode < http.StatusContinue {
		return errStatus
	}
	if r.StatusCode == http.StatusSwitchingProtocols {
		if to := r.Request.Header.Get("Upgrade"); to == "" || !strings.EqualFold(to, r.Header.Get("Upgrade")) {
			return errUpgrade
		}
	}
	domain := ""
	if inboundOf(r.Request).below {
		domain = p.Domain
	}
	cleanAnswer(r.Header, domain)
	return nil
}

// failed answers when the program did not.
func (p *Proxy) failed(w http.ResponseWriter, r *http.Request, err error) {
	in := inboundOf(r)
	p.Log.Debug("a site did not answer", "app", in.site.ID, "error", err)
	var op *net.OpError
	var slow net.Error
	switch {
	case r.Context().Err() != nil: // the client has gone
		panic(http.ErrAbortHandler)
	case in.body != nil && in.body.late.Load():
		w.Header().Set("Connection", "close")
		show(w, r, pageLate, 0)
	case errors.As(err, &op) && op.Op == "dial" && in.site.State == Starting:
		show(w, r, pageStarting, 0)
	case errors.As(err, &op) && op.Op == "dial":
		show(w, r, pageSilent, 0)
	case errors.As(err, &slow) && slow.Timeout():
		show(w, r, pageSlow, 0)
	default:
		show(w, r, pageBroken, 0)
	}
}

// Healthy asks the program of a site for a path as a visitor would. It is well when the answer is 2xx or 3xx, which is not
// followed; else the error says why not.
func (p *Proxy) Healthy(ctx context.Context, id app.ID, program netip.AddrPort, path string) error {
	ctx, cancel := context.WithTimeout(ctx, healthTimeout)
	defer cancel()
	at, err := url.ParseRequestURI(path)
	if err != nil {
		return fmt.Errorf("cannot ask for %.200q: it is no path", path)
	}
	at.Scheme, at.Host = "http", program.String()
	if s := p.current(string(id)); s.Dial && s.At == program {
		at.Host = s.address()
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, at.String(), nil)
	if err != nil {
		return fmt.Errorf("cannot ask for %.200q: it is no path", path)
	}
	r.Host = strings.TrimSuffix(string(id)+"."+p.Domain, ".")
	r.Header.Set("User-Agent", "berth-health")
	r.Header.Set("X-Forwarded-Proto", "https")
	r.Header.Set("X-Forwarded-Host", r.Host)
	r.Close = true
	answer, err := p.upstream.full.RoundTrip(r)
	switch {
	case errors.Is(err, context.DeadlineExceeded) && ctx.Err() != nil:
		return fmt.Errorf("GET %s gave no answer within %s", path, healthTimeout)
	case err != nil:
		return fmt.Errorf("GET %s gave no answer", path)
	}
	_, _ = io.CopyN(io.Discard, answer.Body, 64<<10) // what it says is of no interest
	_ = answer.Body.Close()
	if answer.StatusCode < 200 || answer.StatusCode > 399 {
		return fmt.Errorf("GET %s answered %d", path, answer.StatusCode)
	}
	return nil
}
