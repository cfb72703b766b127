package proxy

import (
	"bufio"
	"context"
	"log/slog"
	"net"
	"net/http"
	"net/http/httputil"
	"net/netip"
	"strings"
	"time"

	"berth/web"
)

// State is how a site is.
type State int

// The states of a site.
const (
	Up          State = iota
	Starting          // or started again: soon there
	Deploying         // its code is being prepared, and no program runs meanwhile
	Offline           // it has not run since it was made, or nobody knows how it ended
	Stopped           // berth ended it because somebody asked
	Ended             // its program ended by itself, without an error
	Crashed           // its program ended by itself, with an error
	OutOfMemory       // its program was ended for its RAM
	Silent            // its program runs and has opened no port for long
	Suspended         // its account is: it does not run
)

// Site is one site at one moment.
type Site struct {
	ID    string
	State State
	At    netip.AddrPort // of its program
	Dial  bool           // by Config.Dial
	Retry time.Duration  // until it is started again; 0: it is not
	// Static are the files of a site without a program; nil when it has one.
	Static *Static
}

// Config is what a Proxy is made of.
type Config struct {
	Domain string // sites are at <ID>.<Domain>; empty: at domains of their own only
	Names  *Names
	// Look tells how a site is. It is called for each request and MUST be safe
	// for concurrent use.
	Look func(id string) (Site, bool)
	// Dial connects to the program of a site that is to be reached so: the port may
	// become another program's. It MUST be safe for concurrent use, and fail with a
	// *net.OpError of "dial". It returns a *net.TCPConn.
	Dial func(ctx context.Context, id string, at netip.AddrPort) (net.Conn, error)
	// Trusted are the proxies whose X-Forwarded-For and -Proto are believed.
	Trusted web.Networks
	// PerSite is how many requests of one site are brought at once, WebSockets
	// and streams included: beyond, one site would take the connections of all
	// others. 0: no bound.
	PerSite int
	// Access takes one line of a site's access log, without its end; nil: there
	// is none. It MUST be safe for concurrent use.
	Access func(id, line string)
	// Traffic counts the answers; nil: nobody does.
	Traffic *Traffic
	Log     *slog.Logger
}

// Proxy is the handler of everything that sites are asked. It is safe for
// concurrent use.
type Proxy struct {
	Config
	upstream *upstream
	forward  *httputil.ReverseProxy

	perSite      counter[string]      // requests, by site
	waiting      counter[string]      // of those, what waits for a site that is starting
	underway     counter[destination] // and what has gone to a program
	startTimeout time.Duration
	released     context.Context // ended when nobody is to wait any more
	release      context.CancelFunc
}

// New returns a proxy; Close ends it.
func New(c Config) *Proxy {
	p := &Proxy{Config: c, startTimeout: startTimeout}
	p.upstream = newUpstream(p.dial)
	p.released, p.release = context.WithCancel(context.Background())
	p.forward = &httputil.ReverseProxy{
		Transport: p.upstream, Rewrite: p.rewrite, ModifyResponse: p.modify, ErrorHandler: p.failed,
		BufferPool: newBuffers(), ErrorLog: slog.NewLogLogger(c.Log.Handler(), slog.LevelDebug),
	}
	return p
}

// Close gives back the connections to programs that nobody uses.
func (p *Proxy) Close() { p.upstream.close() }

// inbound is what is known of a request.
type inbound struct {
	site      Site
	host      string // as the program gets it: name and port
	below     bool   // the name is below Config.Domain
	client    netip.Addr
	forwarded string // X-Forwarded-For, with the connection's other end
	proto     string
	body      *timedBody // nil when there is none
}

type inboundKey struct{}

// inboundOf returns what is known of a request that ServeHTTP has seen.
func inboundOf(r *http.Request) *inbound { return r.Context().Value(inboundKey{}).(*inbound) }

// ServeHTTP brings a request to its site.
func (p *Proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	site, name, port, ok := p.route(r.Host)
	if !ok {
		show(w, r, pageNone, 0)
		return
	}
	in := &inbound{site: site, host: name + port, below: strings.HasSuffix(name, "."+p.Domain)}
	in.trace(p.Trusted, r)
	r = r.WithContext(context.WithValue(r.Context(), inboundKey{}, in)) // the server's own stays as it is
	if in.body = timeBody(w, r); in.body != nil {
		defer in.body.over()
		r.Body = in.body
	}
	if p.Access != nil || p.Traffic != nil {
		rec := &recorder{ResponseWriter: w, began: time.Now()}
		defer func() { p.over(rec, in, r) }()
		w = rec
	}
	if !p.perSite.add(site.ID, p.PerSite, 0) {
		show(w, r, pageBusy, 0)
		return
	}
	defer p.perSite.remove(site.ID)
	defer p.admit(r.Context(), in, len(r.Header["Upgrade"]) > 0)()
	p.answer(w, r, in)
}

// over counts an answer, and writes its line into the access log.
func (p *Proxy) over(rec *recorder, in *inbound, r *http.Request) {
	if p.Traffic != nil {
		p.Traffic.count(in.site.ID, rec.status, time.Since(rec.began))
	}
	if p.Access != nil {
		p.Access(in.site.ID, rec.line(in, r))
	}
}

// route finds the site that the host of a request leads to, and takes that apart.
func (p *Proxy) route(host string) (s Site, name, port string, ok bool) {
	if name, port, ok = hostOf(host); !ok {
		return Site{}, "", "", false
	}
	id, known := strings.CutSuffix(name, "."+p.Domain)
	if p.Domain == "" || !known {
		id, known = p.Names.find(name)
	}
	if known {
		s, known = p.Look(id)
	}
	return s, name, port, known
}

func (p *Proxy) answer(w http.ResponseWriter, r *http.Request, in *inbound) {
	switch {
	case r.Method == http.MethodConnect || r.Method == http.MethodTrace:
		http.Error(w, "This method is not served.", http.StatusMethodNotAllowed)
	case r.URL.Path != "" && r.URL.Path[0] != '/': // OPTIONS *
		http.Error(w, "The request asks for no path.", http.StatusBadRequest)
	case in.site.State == Up && in.site.Static != nil:
		if err := in.site.Static.serve(w, r); err != nil {
			p.Log.Error("cannot serve the files of a site", "app", in.site.ID, "error", err)
			show(w, r, pageBroken, 0)
		}
	case in.site.State == Up || in.site.State == Starting && in.site.At.IsValid():
		dropUpgrade(r)
		if len(r.Header["Upgrade"]) > 0 {
			w = tunnelWriter{w}
		}
		p.forward.ServeHTTP(w, r)
	default:
		show(w, r, pageOf[in.site.State], in.site.Retry)
	}
}

// tunnelWriter hijacks connections that cannot be closed half: with the program ends its
// WebSocket, also one whose visitor is silent and would hold it for ever.
type tunnelWriter struct{ http.ResponseWriter }

// Unwrap lets http.ResponseController flush and set deadlines.
func (w tunnelWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// Hijack implements http.Hijacker.
func (w tunnelWriter) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	c, rw, err := http.NewResponseController(w.ResponseWriter).Hijack()
	return struct{ net.Conn }{c}, rw, err
}

// dropUpgrade removes an upgrade to anything but a WebSocket: behind another one, such as
// h2c, requests would pass that nobody has looked at.
func dropUpgrade(r *http.Request) {
	if up := r.Header["Upgrade"]; len(up) > 1 || len(up) == 1 && !strings.EqualFold(up[0], "websocket") {
		r.Header = r.Header.Clone()
		r.Header.Del("Upgrade")
	}
}

// Redirect answers requests for sites over HTTP with their address in HTTPS.
// port is what follows the name, "" for 443.
func (p *Proxy) Redirect(port string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, name, _, ok := p.route(r.Host)
		if !ok || r.URL.Path != "" && r.URL.Path[0] != '/' {
			show(w, r, pageNone, 0)
			return
		}
		to := *r.URL
		to.Scheme, to.Host, to.User = "https", name+port, nil
		w.Header().Set("Location", to.String())
		w.Header().Set("Connection", "close") // the next one goes elsewhere
		w.WriteHeader(http.StatusPermanentRedirect)
	})
}
