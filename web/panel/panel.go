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

// Config is what the panel is made of. The services and Status MUST be set.
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
	BaseURL            string       // under which browsers reach the panel; "" when not known
	Trusted            web.Networks // proxies whose X-Forwarded-For and -Proto are believed
	Version            string
	Log                *slog.Logger     // nothing is logged when nil
	Now                func() time.Time // time.Now when nil
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
	if c.Now == nil {
		c.Now = time.Now
	}
	s := &server{
		Config: c, guard: http.NewCrossOriginProtection(), flashes: newFlashes(c.Now), jobs: newJobs(c.Now),
		began: c.Now(), doctor: &checkup{},
	}
	if u, err := url.Parse(c.BaseURL); err == nil && u.Host != "" {
		_ = s.guard.AddTrustedOrigin(u.Scheme + "://" + u.Host) // it was read above
	}
	s.mux = s.newMux()
	return s
}

type server struct {
	Config
	mux     *http.ServeMux
	guard   *http.CrossOriginProtection
	flashes *flashes
	jobs    *jobs
	began   time.Time
	doctor  *checkup
}

// patience is how long a client may take to send a form, or to take a page.
const patience = 30 * time.Second

// ServeHTTP answers one request.
func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c := &call{Call: web.NewCall(w, r, rand.Text(), s.Now())}
	c.Serve(s.Log, s.Now, func() {
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

// secure sets what every answer tells a browser. The referrer stays here: with
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

// embedded reports whether a page of another site asks for something, instead of a
// person who follows a link in it (Fetch Metadata, 2). Old browsers do not tell.
func embedded(h http.Header) bool {
	switch h.Get("Sec-Fetch-Site") {
	case "same-site", "cross-site":
		dest := h.Get("Sec-Fetch-Dest")
		return h.Get("Sec-Fetch-Mode") != "navigate" || dest != "document" && dest != ""
	}
	return false
}
