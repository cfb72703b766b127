package proxy

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

const (
	dialPatience   = 5 * time.Second
	answerPatience = time.Minute // between the request's end and the answer's headers
	// idleUpstream is shorter than what servers keep a connection for (Node 5 s,
	// Gunicorn 2 s): one that they close at the moment it is used costs a
	// request that cannot be sent twice.
	idleUpstream = 1500 * time.Millisecond
	idlePerSite  = 64
	bufferSize   = 32 << 10
)

// dial reaches a program: one that serves IPv6 alone is at ::1, all others at
// 127.0.0.1.
func dial(ctx context.Context, _, address string) (net.Conn, error) {
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	d := net.Dialer{Timeout: dialPatience, KeepAlive: -1}
	c, err := d.DialContext(ctx, "tcp4", net.JoinHostPort("127.0.0.1", port))
	if errors.Is(err, syscall.ECONNREFUSED) {
		if six, _ := d.DialContext(ctx, "tcp6", net.JoinHostPort("::1", port)); six != nil {
			return six, nil
		}
	}
	return c, err
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
	a := pr.In.Context().Value(askedKey{}).(*asked)
	out := pr.Out
	out.URL.Scheme, out.URL.Host, out.URL.User = "http", "127.0.0.1:"+strconv.Itoa(a.site.Port), nil
	if out.URL.Path == "" {
		out.URL = &url.URL{Scheme: out.URL.Scheme, Host: out.URL.Host, Path: "/"}
	}
	out.URL.RawQuery = pr.In.URL.RawQuery // as it came: what it means is the program's business
	out.Host, out.Trailer = a.host, nil
	clean(out.Header)
	if _, told := out.Header["User-Agent"]; !told {
		out.Header["User-Agent"] = nil // Go would send its own
	}
	out.Header["X-Forwarded-For"] = []string{a.via + a.peer}
	out.Header["X-Forwarded-Host"] = []string{a.host}
	out.Header["X-Forwarded-Proto"] = []string{a.proto}
	out.Header["X-Real-Ip"] = []string{a.client.String()}
}

// errStatus is an answer below 100: http.ResponseWriter panics for it.
var errStatus = errors.New("the program has answered with a status that is none")

// errUpgrade is what a program gets no tunnel for.
var errUpgrade = errors.New("the program has switched to a protocol that nobody asked for")

// modify looks at a program's answer. One that is no answer to the upgrade that
// was asked for ends here, where its connection is closed: ReverseProxy would keep
// it open until the collector comes. And a site's cookies are its own. One for a
// parent of all sites would be sent to the others, and take the place of theirs; and
// nobody clears theirs.
func (p *Proxy) modify(r *http.Response) error {
	if r.StatusCode < http.StatusContinue {
		return errStatus
	}
	a := r.Request.Context().Value(askedKey{}).(*asked)
	if r.StatusCode == http.StatusSwitchingProtocols {
		if to := r.Request.Header.Get("Upgrade"); to == "" || !strings.EqualFold(to, r.Header.Get("Upgrade")) {
			return errUpgrade
		}
	}
	keep(r.Header, "Set-Cookie", r.Header["Set-Cookie"], func(text string) bool {
		return !isPanels(text) && (!a.below || !p.reachesOthers(text))
	})
	if a.below { // a domain of its own is its owner's whole
		keep(r.Header, "Clear-Site-Data", strings.Split(strings.Join(r.Header["Clear-Site-Data"], ","), ","), isOwn)
	}
	return nil
}

// keep leaves those values of a header that are fine, in lines of their own.
func keep(h http.Header, name string, values []string, fine func(string) bool) {
	if len(h[name]) == 0 {
		return
	}
	kept := slices.DeleteFunc(slices.Clone(values), func(text string) bool { return !fine(text) })
	if h[name] = kept; len(kept) == 0 {
		delete(h, name)
	}
}

// isOwn reports whether one of the things that Clear-Site-Data names is the site's
// alone. Cookies are cleared of the whole domain that the site is below: those of the
// other sites and of the panel too (Clear Site Data, 4.2.3). What it will name one day
// is not known.
func isOwn(what string) bool {
	switch strings.TrimSpace(what) {
	case `"cache"`, `"storage"`, `"executionContexts"`, `"clientHints"`, `"prefetchCache"`, `"prerenderCache"`:
		return true
	}
	return false
}

// reachesOthers reports whether a cookie would be sent to every site below the
// host's domain.
func (p *Proxy) reachesOthers(cookie string) bool {
	attributes := strings.Split(cookie, ";")[1:]
	for _, part := range slices.Backward(attributes) { // the last one counts (RFC 6265, 5.3)
		name, value, _ := strings.Cut(part, "=")
		if !strings.EqualFold(strings.TrimSpace(name), "domain") {
			continue
		}
		value = strings.ToLower(strings.Trim(strings.TrimSpace(value), "."))
		return value != "" && (value == p.Domain || strings.HasSuffix(p.Domain, "."+value))
	}
	return false
}

// failed answers when the program did not.
func (p *Proxy) failed(w http.ResponseWriter, r *http.Request, err error) {
	a := r.Context().Value(askedKey{}).(*asked)
	p.Log.Debug("a site did not answer", "app", a.site.ID, "error", err)
	var op *net.OpError
	var slow net.Error
	switch {
	case r.Context().Err() != nil: // the client has gone
		panic(http.ErrAbortHandler)
	case a.body != nil && a.body.late.Load():
		w.Header().Set("Connection", "close")
		show(w, r, pageLate, 0)
	case errors.As(err, &op) && op.Op == "dial" && a.site.State == Starting:
		show(w, r, pageStarting, 0)
	case errors.As(err, &op) && op.Op == "dial":
		show(w, r, pageSilent, 0)
	case errors.As(err, &slow) && slow.Timeout():
		show(w, r, pageSlow, 0)
	default:
		show(w, r, pageBroken, 0)
	}
}
