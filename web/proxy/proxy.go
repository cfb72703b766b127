package proxy

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httputil"
	"net/netip"
	"strings"
	"time"
)

// State is how a site is.
type State int

// The states of a site.
const (
	Up          State = iota
	Starting          // or deployed, or started again: soon there
	Stopped           // nobody wants it online
	Crashed           // its program ended by itself
	OutOfMemory       // its program was ended for its RAM
	Silent            // its program runs and has opened no port for long
)

// Site is one site at one moment.
type Site struct {
	ID    string
	State State
	Port  int           // of its program on loopback
	Retry time.Duration // until it is started again; 0: it is not
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
	// Trusted are the proxies whose X-Forwarded-For and -Proto are believed.
	Trusted []netip.Prefix
	// PerSite is how many requests of one site are brought at once, WebSockets
	// and streams included: beyond, one site would take the connections of all
	// others. 0: no bound.
	PerSite int
	// Access takes one line of a site's access log, without its end; nil: there
	// is none. It MUST be safe for concurrent use.
	Access func(id, line string)
	Log    *slog.Logger
}

// Proxy is the handler of everything that sites are asked. It is safe for
// concurrent use.
type Proxy struct {
	Config
	upstream *upstream
	forward  *httputil.ReverseProxy
	places   places
	holds    holds
	flights  flights
}

// New returns a proxy; Close ends it.
func New(c Config) *Proxy {
	p := &Proxy{Config: c, upstream: newUpstream()}
	p.holds.patience, p.holds.released, p.holds.of = holdFor, make(chan struct{}), map[string]int{}
	p.forward = &httputil.ReverseProxy{
		Transport: p.upstream, Rewrite: p.rewrite, ModifyResponse: p.modify, ErrorHandler: p.failed,
		BufferPool: newBuffers(), ErrorLog: slog.NewLogLogger(c.Log.Handler(), slog.LevelDebug),
	}
	return p
}

// Close gives back the connections to programs that nobody uses.
func (p *Proxy) Close() { p.upstream.close() }

// asked is what is known of a request.
type asked struct {
	site   Site
	host   string // as it is told to the program: name and port
	below  bool   // the name is below Config.Domain
	client netip.Addr
	peer   string // the address of the connection's other end
	via    string // what goes before peer in X-Forwarded-For, "" for nothing
	proto  string
	body   *paced // nil when there is none
}

type askedKey struct{}

// ServeHTTP brings a request to its site.
func (p *Proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	name, port, ok := hostOf(r.Host)
	a := &asked{host: name + port, below: strings.HasSuffix(name, "."+p.Domain)}
	if ok {
		a.site, ok = p.route(name)
	}
	if !ok {
		show(w, r, pageNone, 0)
		return
	}
	p.trace(a, r)
	if a.body = pace(w, r); a.body != nil {
		defer a.body.over()
		paced := *r // of others, who end it
		paced.Body = a.body
		r = &paced
	}
	if p.Access != nil {
		rec := &recorder{ResponseWriter: w, began: time.Now()}
		defer func() { p.Access(a.site.ID, rec.line(a, r)) }()
		w = rec
	}
	if !p.places.take(a.site.ID, p.PerSite) {
		show(w, r, pageBusy, 0)
		return
	}
	defer p.places.give(a.site.ID)
	defer p.admit(r.Context(), a, len(r.Header["Upgrade"]) > 0)()
	p.answer(w, r, a)
}

func (p *Proxy) answer(w http.ResponseWriter, r *http.Request, a *asked) {
	switch {
	case r.Method == http.MethodConnect || r.Method == http.MethodTrace:
		http.Error(w, "This method is not served.", http.StatusMethodNotAllowed)
	case r.URL.Path != "" && r.URL.Path[0] != '/': // OPTIONS *
		http.Error(w, "The request asks for no path.", http.StatusBadRequest)
	case a.site.State == Up && a.site.Static != nil:
		if err := a.site.Static.serve(w, r); err != nil {
			p.Log.Error("cannot serve the files of a site", "app", a.site.ID, "error", err)
			show(w, r, pageBroken, 0)
		}
	case a.site.State == Up || a.site.State == Starting && a.site.Port > 0:
		p.forward.ServeHTTP(w, plain(r).WithContext(context.WithValue(r.Context(), askedKey{}, a)))
	default:
		show(w, r, pageOf[a.site.State], a.site.Retry)
	}
}

// plain returns the request without an upgrade to anything but a WebSocket:
// behind another one, such as h2c, requests would pass that nobody has looked
// at.
func plain(r *http.Request) *http.Request {
	up := r.Header["Upgrade"]
	if len(up) == 0 || len(up) == 1 && strings.EqualFold(up[0], "websocket") {
		return r
	}
	c := *r
	c.Header = r.Header.Clone()
	c.Header.Del("Upgrade")
	return &c
}

// Redirect answers requests for sites over HTTP with their address in HTTPS.
// port is what follows the name, "" for 443.
func (p *Proxy) Redirect(port string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name, _, ok := hostOf(r.Host)
		if ok {
			_, ok = p.route(name)
		}
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
