package daemon

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"berth/app"
	"berth/daemon/settings"
	"berth/db"
	"berth/host"
	"berth/host/domain"
	"berth/web"
	"berth/web/certs"
	"berth/web/proxy"
	"berth/web/visit"
)

// sites brings the web to applications; nil when proxy.mode is off, which every method
// that others call permits.
type sites struct {
	settings  settings.Settings
	log       *slog.Logger
	data      *data
	find      func(app.ID) (app.Snapshot, bool)
	proxy     *proxy.Proxy
	names     proxy.Names
	manager   *certs.Manager // nil where certificates come from files alone
	reading   sync.Mutex     // an older table must not take the place of a newer
	servers   []*http.Server
	listen    []*proxy.Listener
	handled   *web.Inflight
	closing   atomic.Bool        // they end because they are to
	accepting sync.WaitGroup     // servers that take connections
	end       context.CancelFunc // of what outlives its request
	life      context.Context    // until end
}

// dialer is proxy.Config.Dial.
type dialer = func(ctx context.Context, id string, at netip.AddrPort) (net.Conn, error)

// newSites makes them; find finds an application as it is now, and dial is proxy.Config.Dial.
func newSites(
	s settings.Settings, d *data, find func(app.ID) (app.Snapshot, bool), dial dialer, traffic *proxy.Traffic, undo *closers, log *slog.Logger,
) *sites {
	if s.Proxy.Mode == settings.ProxyOff {
		return nil
	}
	e := &sites{settings: s, log: log, data: d, find: find, handled: web.NewInflight(release)}
	e.life, e.end = context.WithCancel(context.Background())
	c := proxy.Config{
		Domain: s.SitesDomain(), Names: &e.names, Look: e.site, Dial: dial, Trusted: s.TrustedProxies(), PerSite: s.Proxy.PerSite,
		Traffic: traffic, Log: log,
	}
	if s.Proxy.AccessLog {
		c.Access = func(id, line string) { d.accesses.Add(app.ID(id), line) }
	}
	e.proxy = proxy.New(c)
	undo.add(func() error { e.close(); return nil })
	return e
}

// open listens, so that a port that is taken is told at the start. own answers for the
// API and the panel.
func (e *sites) open(ctx context.Context, h *handover, own http.Handler) error {
	if e == nil {
		return nil
	}
	s := e.settings
	if s.Proxy.Mode == settings.ProxyBehind {
		if err := e.refresh(ctx); err != nil {
			return err
		}
		return e.add(ctx, h, s.Proxy.Listen, e.proxy, nil)
	}
	secure, err := e.openTLS(ctx)
	if err == nil {
		err = e.refresh(ctx)
	}
	if err == nil {
		err = e.add(ctx, h, s.Proxy.HTTPS, serveBaseURL(s, own, e.proxy), secure)
	}
	if err != nil {
		return err
	}
	_, port, _ := net.SplitHostPort(e.listen[0].Addr().String())
	if port = ":" + port; port == ":443" {
		port = ""
	}
	secret, err := e.data.db.LinkKey(ctx)
	if err != nil {
		return err
	}
	plain := visit.Answer(secret, serveBaseURL(s, redirectToBaseURL(s), e.proxy.Redirect(port)))
	return e.add(ctx, h, s.Proxy.HTTP, e.answering(plain), nil)
}

// add listens at an address, for serve.
func (e *sites) add(ctx context.Context, h *handover, address string, handler http.Handler, secure *tls.Config) error {
	listen := h.listener                  // in which visitors wait during an upgrade
	if strings.HasSuffix(address, ":0") { // no two of these are the same
		listen = func(ctx context.Context, address string) (net.Listener, error) {
			return (&net.ListenConfig{}).Listen(ctx, NetworkOf(address), address)
		}
	}
	l, err := listen(ctx, address)
	if err != nil {
		return fmt.Errorf("cannot serve the sites: %w", err)
	}
	e.serveOn(l, handler, secure)
	return nil
}

// serveOn makes a server of a listener.
func (e *sites) serveOn(l net.Listener, handler http.Handler, secure *tls.Config) {
	server := proxy.Server(e.life, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		leave, ok := e.handled.Enter(false)
		if !ok {
			return // its connection is cut already
		}
		defer leave()
		handler.ServeHTTP(w, r)
	}), e.log)
	server.TLSConfig = secure
	limited := proxy.Listen(l, web.Limits{All: e.settings.Connections, Trusted: e.settings.TrustedProxies()})
	limited.Guard(server)
	e.servers = append(e.servers, server)
	e.listen = append(e.listen, limited)
}

// serve answers until shutdown; failed is called when one cannot.
func (e *sites) serve(g *errgroup.Group, failed func()) {
	if e == nil {
		return
	}
	e.keep(g)
	for i, server := range e.servers {
		l := e.listen[i]
		e.log.Info("sites are served", "mode", e.settings.Proxy.Mode, "listen", l.Addr().String(), "domain", e.settings.SitesDomain())
		e.accepting.Add(1)
		g.Go(func() error {
			defer e.accepting.Done()
			serve := func() error { return server.Serve(l) }
			if server.TLSConfig != nil {
				serve = func() error { return server.ServeTLS(l, "", "") }
			}
			if err := serve(); !errors.Is(err, http.ErrServerClosed) && !e.closing.Load() {
				failed()
				return fmt.Errorf("cannot serve the sites: %w", err)
			}
			return nil
		})
	}
}

// shutdown ends all connections, within lastAnswers, and at once when ctx ends. That time is
// the visitors' own, whatever clients of the API did with theirs.
func (e *sites) shutdown(ctx context.Context) {
	if e == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, lastAnswers)
	defer cancel()
	// A server that is shut down drops a request that comes on a connection which
	// it has taken before. So first no more are taken, and those are answered.
	e.closing.Store(true)
	e.proxy.Release() // no site starts any more
	for _, l := range e.listen {
		_ = l.Close() // again by Shutdown
	}
	e.accepting.Wait() // one may just have taken a connection, which then counts
	for _, l := range e.listen {
		_ = l.Wait(ctx, false)
	}
	for _, server := range e.servers {
		if err := server.Shutdown(ctx); err != nil {
			_ = server.Close()
		}
	}
	e.close()
}

// close ends what shutdown has left, or what was never served.
func (e *sites) close() {
	e.end()
	for _, l := range e.listen {
		_ = l.Close()
	}
	e.handled.Close()
	e.proxy.Close()
}

// addresses are those at which sites are served.
func (e *sites) addresses() []string {
	all := []string{} // in JSON no null
	if e == nil {
		return all
	}
	for _, l := range e.listen {
		all = append(all, l.Addr().String())
	}
	return all
}

// refresh reads which domains lead where. When it cannot, none leads anywhere:
// an old table could lead to somebody else's site.
func (e *sites) refresh(ctx context.Context) error {
	e.reading.Lock()
	defer e.reading.Unlock()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	table, err := e.data.db.Names.VerifiedDomains(ctx)
	e.names.Set(table)
	if err != nil {
		return err
	}
	return e.want(ctx, table)
}

// site is how an application is for those who visit it.
func (e *sites) site(id string) (proxy.Site, bool) {
	a, ok := e.find(app.ID(id))
	if !ok || a.Type != app.Site {
		return proxy.Site{}, false
	}
	s := siteOf(a)
	if a.Running && a.Code.Static() {
		s.State, s.Static = proxy.Up, staticSite(e.data.trees, a.ID, a.Code)
	}
	return s, true
}

// address is an app.Services.Address.
func (e *sites) address(id app.ID) app.SiteAddress {
	if e == nil {
		return app.SiteAddress{Why: app.Textf("this host serves no sites: its administrator sets proxy.mode and proxy.domain, or leads another web server to the program, at 127.0.0.1 and its PORT")}
	}
	names := e.names.Of(string(id))
	if domain := e.settings.SitesDomain(); domain != "" {
		names = slices.Insert(names, 0, string(id)+"."+domain)
	}
	if len(names) == 0 {
		return app.SiteAddress{Why: app.Textf("nobody can visit it: this host has no domain for sites; its administrator sets proxy.domain, or you bring a domain of your own")}
	}
	before, after := e.around()
	var at app.SiteAddress
	for _, name := range names {
		at.URLs = append(at.URLs, before+name+after)
	}
	return at
}

// around is what stands before and after the name of a site in its address. Behind another
// web server, that is as at base_url.
func (e *sites) around() (before, after string) {
	if e.settings.Proxy.Mode == settings.ProxyBehind {
		if strings.HasPrefix(e.settings.BaseURL, "https:") {
			return "https://", ""
		}
		return "http://", ""
	}
	_, port, _ := net.SplitHostPort(e.settings.Proxy.HTTPS)
	if len(e.listen) > 0 { // whatever it got
		_, port, _ = net.SplitHostPort(e.listen[0].Addr().String())
	}
	if port == "443" {
		return "https://", ""
	}
	return "https://", ":" + port
}

func siteOf(a app.Snapshot) proxy.Site {
	s := proxy.Site{ID: string(a.ID)}
	if a.Running {
		s.At, s.Dial = a.Reach, a.Elsewhere > 0
	}
	switch a.State {
	case app.Online, app.Starting:
		switch s.State = proxy.Starting; {
		case a.Reach.IsValid():
			s.State = proxy.Up
		case a.Silent:
			s.State = proxy.Silent
		}
	case app.Preparing:
		s.State = proxy.Deploying
	case app.Waiting:
		if s.State = endOf(a.LastExit); s.State != proxy.OutOfMemory && s.State != proxy.Crashed {
			s.State = proxy.Starting // AUTORESTART, or a start that failed and is tried again
		}
		s.Retry = max(time.Until(a.RetryAt), time.Second)
	case app.Stopping:
		if s.State = proxy.Starting; a.Wanted != app.WantOnline {
			s.State = proxy.Stopped
		}
	case app.Stopped:
		s.State = endOf(a.LastExit)
	}
	if a.Suspended && !a.Running {
		s.State, s.Retry = proxy.Suspended, 0
	}
	return s
}

// endOf is how a site is whose last program ended so.
func endOf(e *app.Exit) proxy.State {
	switch {
	case e == nil:
		return proxy.Offline
	case e.OOM:
		return proxy.OutOfMemory
	case e.Asked:
		return proxy.Stopped
	case e.Code == 0:
		return proxy.Ended
	}
	return proxy.Crashed
}

// changed tells the proxy that domains may lead elsewhere.
func (e *sites) changed(ctx context.Context) {
	if e == nil {
		return
	}
	if err := e.refresh(ctx); err != nil {
		e.log.Error("cannot read the domains: none leads anywhere until the next change", "error", err)
	}
}

// visits are the requests of the web; nil where the web comes by itself: then it knows
// one port of each application, and requests cannot be brought to another.
func (e *sites) visits() host.Visits {
	if e == nil {
		return nil
	}
	return e.proxy
}

// namesConfig is what the policy of names is made of.
func namesConfig(s settings.Settings, names db.Names, e *sites, log *slog.Logger) domain.Config {
	addresses := s.OwnAddresses()
	if s.Names.Proof == settings.ProofAddress && len(addresses) == 0 {
		log.Warn("names.proof has no effect", "why", "names.addresses does not say which addresses are this host's")
	}
	return domain.Config{
		Records: names, Changed: e.changed, Proved: e.proved, Resolver: NewResolver(s.Names.Resolver), Now: time.Now,
		PerAccount: s.Names.PerAccount, Own: ownDomains(s), Parent: s.SitesDomain(), Addresses: addresses,
		ByAddress: s.Names.Proof == settings.ProofAddress,
	}
}

// ownDomains are the host's own: nobody may claim them.
func ownDomains(s settings.Settings) []string {
	return slices.DeleteFunc([]string{s.Names.Domain, s.Proxy.Domain, s.HomeDomain()}, func(name string) bool { return name == "" })
}

// NewResolver asks the host's own servers, or the one at address. It is Go's
// own, which holds no thread while it waits.
func NewResolver(address string) *net.Resolver {
	r := &net.Resolver{PreferGo: true}
	if address != "" {
		r.Dial = func(ctx context.Context, network, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, network, address)
		}
	}
	return r
}
