package httpapi

import (
	"cmp"
	"context"
	"crypto/rand"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/julienschmidt/httprouter"

	"berth/app"
	"berth/web"
	"berth/web/local"
)

const (
	defaultRateLimit = 60        // what the public clients assume
	defaultMaxUpload = 101 << 20 // the 100 MB of the clients and what multipart adds
	defaultMaxSocket = 512 << 20 // what the clients allow themselves over a WebSocket
)

// Config is what the API is made of. The services MUST be set; the other
// fields have defaults.
type Config struct {
	app.Services
	// BackupOf returns the application that a backup was made of, by its file.
	BackupOf func(file string) (id app.ID, ok bool)
	// Account returns the account that the owner of the host acts for, by its name or its
	// number: NotFound for none.
	Account func(ctx context.Context, nameOrID string) (app.Account, error)
	// AccountChanged makes what an account may have now hold for what runs, after the owner
	// of the host changed it in the database. It fails with NotFound.
	AccountChanged func(ctx context.Context, id app.AccountID) error
	// HoldChanged makes a hold that a command has set or dropped in the database hold for what runs.
	HoldChanged func(ctx context.Context) error
	// DeleteAccount removes an account with everything that it has, or fails with NotFound.
	DeleteAccount func(ctx context.Context, id app.AccountID) error
	// HostAccounts are the accounts that a program of the host's owner keeps.
	HostAccounts HostAccounts
	// Devices are programs that ask for a token by a code. It is nil without a panel.
	Devices Devices
	// Trusted are proxies whose X-Forwarded-For and -Proto are believed.
	Trusted web.Networks
	// Host returns what the daemon says of itself to the owner of the host.
	Host func() local.Daemon

	RateLimit int              // requests a minute a token, 60 when zero
	BaseURL   string           // of the addresses of downloads; "" derives it from each request's Host
	BackupTTL time.Duration    // how long a backup is kept
	MaxUpload int64            // bytes of a whole upload body, 101 MiB when zero
	MaxFile   int64            // bytes of the file in it, MaxUpload when zero
	MaxSocket int64            // bytes of a file that comes over a WebSocket, 512 MiB when zero
	Version   string           // sent as the berth-version header unless ""
	Log       *slog.Logger     // nothing is logged when nil
	Now       func() time.Time // time.Now when nil
}

// New returns the handlers of the API; they serve /v2/ and /d/ and answer 404
// for everything else. They are safe for concurrent use and start no goroutine
// that outlives a request.
//
// public knows who asks by a token. owner takes everybody for the owner of the host, who acts
// for the account that local.AccountHeader names, and serves local.HostPath besides: it MUST
// be reached through a local.Listener alone. public does not read that header.
//
// The http.Server around each SHOULD set ReadHeaderTimeout and IdleTimeout but
// neither ReadTimeout nor WriteTimeout: they would cut long uploads, and the
// handler cuts stalled clients itself. It SHOULD listen through a web.LimitedListener with
// RefuseConnection. Its BaseContext SHOULD end after Shutdown, which knows nothing of
// WebSockets: those that wait for more of an upload are closed then. Where its cause is an
// *app.Error, other bodies that are still coming are refused with it. Behind a reverse proxy, whoever
// wraps the handler SHOULD put the client's address in RemoteAddr, or all clients
// share one allowance of failed authentications.
func New(c Config) (public, owner http.Handler) {
	c.RateLimit = cmp.Or(c.RateLimit, defaultRateLimit)
	c.MaxUpload = cmp.Or(c.MaxUpload, defaultMaxUpload)
	c.MaxFile = cmp.Or(c.MaxFile, c.MaxUpload)
	c.MaxSocket = cmp.Or(c.MaxSocket, defaultMaxSocket)
	c.Log = cmp.Or(c.Log, slog.New(slog.DiscardHandler))
	if c.Now == nil {
		c.Now = time.Now
	}
	c.BaseURL = strings.TrimRight(c.BaseURL, "/")
	auditor, deployments := auditor{c.Record, c.Applications}, newDeployments(c)
	s := &server{
		Config:      c,
		auditor:     auditor,
		tokens:      tokens{c.Accounts, auditor, newLimiter(c.RateLimit, c.Now), newLimiter(c.RateLimit, c.Now)},
		deployments: deployments,
		sockets:     newSockets(c, deployments, auditor),
		devices:     devices{c.Devices, newLimiter(c.RateLimit, c.Now), c.Trusted, c.BaseURL, false},
	}
	s.router = s.newRouter()
	o := *s
	o.byOwner, o.devices.byOwner = true, true
	o.router = o.newRouter()
	return s, &o
}

type server struct {
	Config
	byOwner     bool // the owner of the host asks, by the local socket
	router      *httprouter.Router
	auditor     auditor
	tokens      tokens
	deployments deployments
	sockets     *sockets
	devices     devices
}

// ServeHTTP answers one request.
func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c := s.newCall(w, r)
	c.Serve(s.Log, s.Now, func() { s.answer(c) }, func(begun bool) {
		resp := response{}
		if !begun {
			resp = c.refusal(http.StatusInternalServerError, app.Textf(internalMessage))
		}
		s.auditor.record(c, resp)
		if !begun {
			c.send(resp)
		}
	})
}

func (s *server) newCall(w http.ResponseWriter, r *http.Request) *call {
	id := r.Header.Get("X-Request-Id")
	if len(id) > 64 || !isWord(id) { // strangers write nothing but a word into the log
		id = rand.Text()
	}
	return &call{Call: web.NewCall(w, r, id, s.Now()), encrypted: s.Trusted.Encrypted(r), now: s.Now, log: s.Log, maxLinger: 4 * s.MaxUpload}
}

func (s *server) answer(c *call) {
	h := c.Header()
	h.Set("X-Request-Id", c.RequestID)
	secure(h)
	if s.Version != "" {
		h.Set("berth-version", s.Version)
	}
	if !s.byOwner { // who has no limit
		s.tokens.quota(c).setHeaders(h)
	}
	c.boundBody()
	// The router matches the decoded path, so "a%2Fstatus" would be taken for
	// the two segments "a" and "status".
	if u := c.Request.URL; !strings.HasPrefix(u.Path, "/") || strings.Contains(strings.ToLower(u.RawPath), "%2f") {
		notFound(c, c.Request)
		return
	}
	if strings.HasPrefix(c.Request.URL.Path, "//") { // of a client whose base address ends with a slash
		u := *c.Request.URL
		u.Path, u.RawPath = "/"+strings.TrimLeft(u.Path, "/"), ""
		c.Request.URL = &u
	}
	s.router.ServeHTTP(c, c.Request)
}

// secure sets the headers by which a browser keeps nothing of an answer, guesses no type,
// shows it in no frame, loads and runs nothing for it, and reports its address, which may
// be a download's, to nobody.
func secure(h http.Header) {
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
	h.Set("Referrer-Policy", "no-referrer")
}

func (s *server) newRouter() *httprouter.Router {
	router := httprouter.New()
	// Redirects lose bodies and tokens in many clients; a wrong path is a 404.
	router.RedirectTrailingSlash = false
	router.RedirectFixedPath = false
	router.GlobalOPTIONS = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.(*call).send(response{status: http.StatusNoContent})
	})
	router.NotFound = http.HandlerFunc(notFound)
	router.MethodNotAllowed = http.HandlerFunc(methodNotAllowed)
	routes := s.routes()
	if s.byOwner {
		routes = append(routes, route{http.MethodGet, local.HostPath, public, open, s.describeHost, ""},
			route{http.MethodGet, local.PlanPath, public, open, s.ramPlan, ""},
			route{http.MethodPut, local.ChangedPath, public, open, s.accountChanged, ""},
			route{http.MethodPut, local.HoldPath, public, open, s.holdChanged, ""},
			route{http.MethodGet, local.AccountPath, public, open, s.accountDisk, ""},
			route{http.MethodDelete, local.AccountPath, public, open, s.deleteAccount, ""})
	}
	for _, r := range routes {
		router.Handle(r.Method, r.Path, s.serve(r))
		if r.Method == http.MethodGet {
			router.Handle(http.MethodHead, r.Path, s.serve(r))
		}
	}
	return router
}

func notFound(w http.ResponseWriter, _ *http.Request) {
	c := w.(*call)
	c.send(c.refusal(http.StatusNotFound, app.Textf("There is nothing at this address. The API is described at /v2/openapi.json.")))
}

func methodNotAllowed(w http.ResponseWriter, r *http.Request) {
	c := w.(*call)
	c.send(c.refusal(http.StatusMethodNotAllowed,
		app.Textf("This address does not take %s. It takes %s.", r.Method, w.Header().Get("Allow"))))
}

// serve runs one route: access, handler, answer.
func (s *server) serve(r route) httprouter.Handle {
	return func(w http.ResponseWriter, _ *http.Request, params httprouter.Params) {
		c := w.(*call)
		c.Pattern, c.params, c.audit.Operation = r.Path, params, r.audit
		if authenticate := s.authenticates(r.access); authenticate != nil {
			if err := authenticate(c); err != nil {
				c.send(s.sockets.failed(c, err))
				return
			}
		}
		s.auditor.begin(c)
		var resp response
		err := r.bounds.check(c)
		if err == nil {
			err = s.changeable(c)
		}
		if err == nil {
			resp, err = r.handler(c)
		}
		if err != nil {
			resp = s.sockets.failed(c, err)
		}
		if resp.stream == nil {
			s.auditor.record(c, resp)
		}
		c.send(resp)
		s.auditor.record(c, resp) // of a conversation
	}
}

// authenticates returns what finds out who asks for a route of this access, nil where
// nobody need be known.
func (s *server) authenticates(a access) func(*call) error {
	switch {
	case a == public:
		return nil
	case a == byHost && s.byOwner:
		return func(c *call) error {
			c.byOwner = true
			return nil
		}
	case a == byHost:
		return func(c *call) error { return s.tokens.authenticateHost(c, s.HostAccounts) }
	case s.byOwner:
		return s.actFor
	}
	return s.tokens.authenticate
}

// changeable refuses what is to change something when nothing can be changed.
func (s *server) changeable(c *call) error {
	if s.Changes == nil || c.Request.Method == http.MethodGet || c.Request.Method == http.MethodHead {
		return nil
	}
	return s.Changes()
}
