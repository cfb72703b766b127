package httpapi

import (
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/julienschmidt/httprouter"

	"berth/app"
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
	// Certificates tells how the certificate of a name is; false when none is to
	// be told of. It may be nil: then none is.
	Certificates func(name string) (app.Certificate, bool)

	RateLimit int              // requests a minute a token, 60 when zero
	BaseURL   string           // of the addresses of downloads; "" derives it from each request's Host
	MaxUpload int64            // bytes of a whole upload body, 101 MiB when zero
	MaxFile   int64            // bytes of the file in it, MaxUpload when zero
	MaxSocket int64            // bytes of a file that comes over a WebSocket, 512 MiB when zero
	Version   string           // sent as the berth-version header unless ""
	Log       *slog.Logger     // nothing is logged when nil
	Now       func() time.Time // time.Now when nil
}

// New returns the handler of the API; it serves /v2/ and /d/ and answers 404
// for everything else. It is safe for concurrent use and starts no goroutine
// that outlives a request.
//
// The http.Server around it SHOULD set ReadHeaderTimeout and IdleTimeout but
// neither ReadTimeout nor WriteTimeout: they would cut long uploads, and the
// handler cuts stalled clients itself. It SHOULD listen through a Gate. Its
// BaseContext SHOULD end after Shutdown, which knows nothing of WebSockets: those
// that wait for more of an upload are closed then. Where its cause is an *app.Error,
// other bodies that are still coming are refused with it. Behind a reverse proxy, whoever
// wraps the handler SHOULD put the client's address in RemoteAddr, or all clients
// share one allowance of failed authentications.
func New(c Config) http.Handler {
	if c.RateLimit <= 0 {
		c.RateLimit = defaultRateLimit
	}
	if c.MaxUpload <= 0 {
		c.MaxUpload = defaultMaxUpload
	}
	if c.MaxFile <= 0 {
		c.MaxFile = c.MaxUpload
	}
	if c.MaxSocket <= 0 {
		c.MaxSocket = defaultMaxSocket
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	c.BaseURL = strings.TrimRight(c.BaseURL, "/")
	s := &server{
		Config:    c,
		tokens:    newLimiter(c.RateLimit, c.Now),
		addresses: newLimiter(c.RateLimit, c.Now),
		document:  newDocument(),
		sockets:   sockets{of: map[app.AccountID]int{}},
		uploads:   uploads{of: map[app.AccountID]int{}},
		refusing:  make(chan struct{}, refusals),
	}
	s.router = s.newRouter()
	return s
}

type server struct {
	Config
	router    *httprouter.Router
	tokens    *limiter // requests of valid tokens
	addresses *limiter // failed authentications
	document  document
	sockets   sockets
	uploads   uploads       // in one request
	refusing  chan struct{} // WebSockets that are open only to refuse
}

// ServeHTTP answers one request.
func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c := newCall(w, r, s.Now())
	c.Serve(s.Log, s.Now, func() { s.answer(c) }, func(begun bool) {
		resp := response{}
		if !begun {
			resp = c.refusal(http.StatusInternalServerError, app.Textf(internalMessage))
		}
		s.record(c, resp)
		if !begun {
			s.send(c, resp)
		}
	})
}

func (s *server) answer(c *call) {
	s.commonHeaders(c)
	c.boundBody()
	// The router matches the decoded path, so "a%2Fstatus" would be taken for
	// the two segments "a" and "status".
	if u := c.Request.URL; !strings.HasPrefix(u.Path, "/") || strings.Contains(strings.ToLower(u.RawPath), "%2f") {
		s.notFound(c, c.Request)
		return
	}
	s.router.ServeHTTP(c, c.Request)
}

func (s *server) commonHeaders(c *call) {
	h := c.Header()
	h.Set("X-Request-Id", c.RequestID)
	secure(h)
	if s.Version != "" {
		h.Set("berth-version", s.Version)
	}
	s.currentQuota(c).setHeaders(h)
}

// secure sets what every answer tells a browser: to keep nothing, to guess no
// type, to show it in no frame, to load and run nothing for it, and to tell nobody
// its address, which may be a download's.
func secure(h http.Header) {
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
	h.Set("Referrer-Policy", "no-referrer")
}
