package panel

import (
	"context"
	"crypto/rand"
	"log/slog"
	"net/http"
	"net/url"
	"time"

	"berth/app"
	"berth/web"
)

// Config is what the panel is made of. The services MUST be set.
type Config struct {
	app.Services
	SignIns SignIns
	Tokens  Tokens
	Admin   Admin

	// Account knows accounts by their number: NotFound for none.
	Account func(ctx context.Context, id app.AccountID) (app.Account, error)
	// AuditRecords returns the newest of what was done that q chooses, oldest first.
	AuditRecords func(ctx context.Context, q app.AuditQuery) ([]app.AuditRecord, error)
	// Examine says how the host is, as berth doctor does. It may take seconds.
	Examine func(ctx context.Context) []app.Finding
	// Runtimes lists the runtimes that the owner installed beside the distribution's.
	Runtimes func() []app.Runtime
	// Go runs f beside the request, and keeps the daemon from ending before it
	// returns; false: it does not run, because the daemon ends.
	Go func(f func()) bool

	TTL       time.Duration // how long a session lives that nobody uses
	BackupTTL time.Duration // how long a backup is kept
	FirstRAM  app.MB        // of the first account: what applications may have together
	Sites     string        // the domain below which sites are; "" when not known
	// MaxUpload bounds the body of an upload, MaxFile the file in it, in bytes.
	MaxUpload, MaxFile int64
	Insecure           bool         // let people sign in over plain HTTP
	Exposed            app.Text     // warns administrators of how the panel is reached; zero for nothing to warn of
	BaseURL            string       // under which browsers reach the panel; "" when not known
	Trusted            web.Networks // proxies whose X-Forwarded-For and -Proto are believed
	Version            string
	Log                *slog.Logger // nothing is logged when nil
}

// The methods below MUST be safe for concurrent use. Errors carry a kind of
// package app; any other error is shown as an internal one.

// SignIns knows who is signed in, and changes passwords.
type SignIns interface {
	// SignIn begins a session and returns what its cookie holds: Unauthorized for a
	// wrong name or password, with the account if there is one of that name.
	SignIn(ctx context.Context, name, password string, from app.Visitor) (key string, a app.Account, err error)
	// Session returns Unauthorized for none, Forbidden when the account is disabled.
	Session(ctx context.Context, key string, from app.Visitor) (app.Account, app.Session, error)
	Sessions(ctx context.Context, id app.AccountID) ([]app.Session, error)
	// EndSession returns NotFound for the session of another account.
	EndSession(ctx context.Context, account app.AccountID, id int64) error
	// Remember returns by what a browser is known in which the account has just
	// signed in, "" when it is to be by nothing.
	Remember(ctx context.Context, a app.Account) (string, error)
	// ChangePassword ends all sessions but the one with the id keep. It returns
	// Forbidden when old is wrong.
	ChangePassword(ctx context.Context, a app.Account, old, password string, keep int64) error
	// Invite makes a one-time link to a new password and returns its text.
	Invite(ctx context.Context, id app.AccountID) (string, error)
	// Invitation returns NotFound for a one-time link that is none any more.
	Invitation(ctx context.Context, key string) (app.Invitation, error)
	// Redeem uses a one-time link up and begins a session, as SignIn does. name and
	// ram are of the first account, which the link may make.
	Redeem(ctx context.Context, key, name, password string, ram app.MB, from app.Visitor) (session string, a app.Account, err error)
}

// Tokens are the API tokens of an account.
type Tokens interface {
	// Tokens returns those that work, oldest first.
	Tokens(ctx context.Context, id app.AccountID) ([]app.Token, error)
	// Issue makes one, for ever when lasts is 0. Its text is never returned again.
	Issue(ctx context.Context, id app.AccountID, label string, lasts time.Duration) (string, app.Token, error)
	// Rotate makes a successor and ends the old one after overlap.
	Rotate(ctx context.Context, account app.AccountID, id int64, overlap time.Duration) (string, app.Token, error)
	Revoke(ctx context.Context, account app.AccountID, id int64) error
}

// Admin manages the accounts of the host.
type Admin interface {
	// Accounts returns all of them, oldest first, and the RAM that each has assigned.
	Accounts(ctx context.Context) ([]app.Account, []app.MB, error)
	Create(ctx context.Context, name string, ram app.MB) (app.Account, error)
	SetTotal(ctx context.Context, id app.AccountID, ram app.MB) (app.Account, error)
	SetDisabled(ctx context.Context, id app.AccountID, disabled bool) (app.Account, error)
}

// New returns the handler of the panel: of everything that is not the API's. It
// is safe for concurrent use; what outlives a request, it starts with Config.Go.
//
// The http.Server around it SHOULD set ReadHeaderTimeout and IdleTimeout but
// neither ReadTimeout nor WriteTimeout: they would cut live views, and the handler
// cuts stalled clients itself.
func New(c Config) http.Handler {
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	s := &server{Config: c, guard: http.NewCrossOriginProtection(), flashes: newFlashes()}
	if u, err := url.Parse(c.BaseURL); err == nil && u.Host != "" {
		_ = s.guard.AddTrustedOrigin(u.Scheme + "://" + u.Host) // it was read above
	}
	s.mux = s.newMux(newPages(c, s.recordLate).routes())
	return s
}

// newPages sets what the handlers need. record hands what came of a job to the
// audit log.
func newPages(c Config, record func(*call, error)) *pages {
	charts := chartPages{c.Metrics}
	uploads := uploadPages{
		deployments: c.Deployments, teams: c.Teams, logs: c.Logs, maxUpload: c.MaxUpload, maxFile: c.MaxFile,
		jobs: newJobs(), beside: c.Go, record: record, log: c.Log,
	}
	return &pages{
		accounts: accountPages{
			signIns: c.SignIns, tokens: c.Tokens, accounts: c.Accounts, apps: c.Applications,
			ttl: c.TTL, firstRAM: c.FirstRAM, log: c.Log,
		},
		apps: appPages{
			apps: c.Applications, settings: c.Settings, teams: c.Teams, feed: c.Feed, address: c.Address,
			account: c.Account, records: c.AuditRecords, charts: charts, log: c.Log,
		},
		charts: charts,
		deploys: deployPages{
			uploadPages: uploads, contents: c.Contents, links: c.Links, feed: c.Feed, account: c.Account, backupTTL: c.BackupTTL,
		},
		domains: domainPages{c.Names, c.Sites},
		env:     envPages{c.Settings},
		files:   filePages{c.Contents, c.Settings},
		host: hostPages{
			admin: c.Admin, signIns: c.SignIns, apps: c.Applications, records: c.AuditRecords, examiner: c.Examine,
			runtimes: c.Runtimes, beside: c.Go,
			capacity: c.FirstRAM, exposed: c.Exposed, baseURL: c.BaseURL, began: time.Now(), log: c.Log,
		},
		live:     livePages{c.Feed, c.SignIns, c.Account},
		logs:     logPages{c.Logs, c.Feed},
		settings: settingsPages{c.Settings, c.Teams, c.Applications},
	}
}

// server answers every request of the panel: it finds the route, calls its handler, and
// writes the answer.
type server struct {
	Config
	mux     *http.ServeMux
	guard   *http.CrossOriginProtection
	flashes *flashes
}

// patience is how long a client may need to send a form, or to receive a page.
const patience = 30 * time.Second

// ServeHTTP answers one request.
func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c := &call{Call: web.NewCall(w, r, rand.Text(), time.Now())}
	c.Serve(s.Log, time.Now, func() {
		secure(c.Header())
		c.Header().Set("X-Request-Id", c.RequestID)
		s.mux.ServeHTTP(c, r)
	}, func(begun bool) {
		if !begun {
			http.Error(c, "internal error", http.StatusInternalServerError)
		}
	})
}

// policy lets a page load what this server has, and send its forms here, and
// nothing else.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
	"form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

// secure sets the headers of every answer. The referrer stays here: with
// "no-referrer" forms would come with the origin "null".
func secure(h http.Header) {
	h.Set("Cache-Control", "no-store")
	h.Set("Content-Security-Policy", policy)
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Referrer-Policy", "same-origin")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Robots-Tag", "noindex")
}

// sameSite refuses a form that another site has sent, and whatever a page of another
// site has in itself: SameSite=Lax lets the sites of this host's domain, which
// are anybody's, send the cookie with that, and a picture could hold a stream.
func (s *server) sameSite(c *call) error {
	if s.guard.Check(c.Request) == nil && !embedded(c.Request.Header) {
		return nil
	}
	return app.Errorf(app.Forbidden, "this came from another site, so nothing was done; if you use a proxy, let it pass the Host header on")
}

// embedded reports whether a page of another site requests something, instead of a
// person who follows a link in it (Fetch Metadata, 2). Old browsers do not say.
func embedded(h http.Header) bool {
	switch h.Get("Sec-Fetch-Site") {
	case "same-site", "cross-site":
		dest := h.Get("Sec-Fetch-Dest")
		return h.Get("Sec-Fetch-Mode") != "navigate" || dest != "document" && dest != ""
	}
	return false
}
