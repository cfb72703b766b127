// Package services is Discord, Slack, Telegram, ntfy, a receiver of Standard Webhooks and a mail server, for
// tests: on loopback. They are written from the documents of the services, refuse what those refuse (limits,
// fields, addresses, tokens), and answer as those do. A field that a service does not know is refused here, though
// some services would ignore it.
package services

import (
	"crypto/x509"
	"encoding/json"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf16"
)

// What the services know berth by.
const (
	TelegramToken = "123456789:AAExampleExampleExampleExampleExamp"
	TelegramChat  = "-1001234567890"
	NtfyToken     = "tk_example"
	WebhookSecret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
)

const (
	discordPath  = "/api/webhooks/1234567890123456789/discord-token_1"
	slackPath    = "/services/T01234567/B01234567/slackTokenSlackToken1234"
	telegramPath = "/bot" + TelegramToken + "/sendMessage"
	ntfyTopic    = "berth_alerts"
	webhookPath  = "/hook"
)

// Server is all of them but the mail server, at their paths. It is safe for concurrent use.
type Server struct {
	*httptest.Server
	Roots *x509.CertPool // by which its certificate is believed

	Discord, Slack, Ntfy, Webhook string // addresses of channels
	// Fail answers a request in place of the service, and reports whether it has. A test sets it
	// before the first request; n counts from 1.
	Fail func(n int, w http.ResponseWriter, r *http.Request) bool

	// Limits makes the services refuse who sends faster than they take, by this clock; nil takes all.
	Limits func() time.Time

	mu      sync.Mutex
	n       int
	buckets map[string]*bucket
	got     []Message
	refuse  []string
}

// Message is what a service has taken.
type Message struct {
	Service string
	ID      string // of Standard Webhooks
	Title   string
	Text    string // with the markup of the service
	Link    string
	Loud    int // priority of ntfy; 1 for a message of Telegram that sounds
	Rings   int // mentions that would tell somebody
	Header  http.Header
	Body    []byte
	At      time.Time
}

// New returns services over TLS, which end with the test.
func New(t testing.TB) *Server {
	t.Helper()
	s := &Server{buckets: map[string]*bucket{}}
	s.Server = httptest.NewUnstartedServer(s)
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.StartTLS()
	s.Roots = x509.NewCertPool()
	s.Roots.AddCert(s.Certificate())
	return s.ready(t)
}

// NewPlain returns services over HTTP, for a daemon that believes no certificate of a test.
func NewPlain(t testing.TB) *Server {
	t.Helper()
	s := &Server{buckets: map[string]*bucket{}}
	s.Server = httptest.NewServer(s)
	return s.ready(t)
}

func (s *Server) ready(t testing.TB) *Server {
	t.Cleanup(s.Close)
	s.Discord, s.Slack, s.Ntfy, s.Webhook = s.URL+discordPath, s.URL+slackPath, s.URL+"/"+ntfyTopic, s.URL+webhookPath
	return s
}

// Messages are those that were taken, oldest first.
func (s *Server) Messages() []Message {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.got)
}

// Refused says why requests were refused, but for those that Fail answered.
func (s *Server) Refused() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.refuse)
}

// answer is what a service says: a status, and JSON or plain text.
type answer struct {
	status int
	body   any
	why    string // it refused; for the test alone
}

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	s.n++
	n := s.n
	s.mu.Unlock()
	if s.Fail != nil && s.Fail(n, w, r) {
		return
	}
	m := Message{Header: r.Header, At: time.Now()}
	var err error
	if m.Body, err = io.ReadAll(r.Body); err != nil {
		return // it went away
	}
	name, of := serviceAt(r.URL.Path)
	m.Service = name
	if after := s.limited(name); after > 0 {
		tooMany(w, name, after)
		return
	}
	a := take(of, r, &m)
	s.mu.Lock()
	if a.why == "" {
		s.got = append(s.got, m)
	} else {
		s.refuse = append(s.refuse, m.Service+": "+a.why)
	}
	s.mu.Unlock()
	if text, is := a.body.(string); is {
		w.WriteHeader(a.status)
		_, _ = io.WriteString(w, text)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(a.status)
	if a.body != nil {
		_ = json.NewEncoder(w).Encode(a.body)
	}
}

// serviceAt is the service whose path it is.
func serviceAt(path string) (name string, take func(*http.Request, *Message) answer) {
	switch {
	case strings.HasPrefix(path, "/api/"):
		return "discord", discord
	case strings.HasPrefix(path, "/services/"):
		return "slack", slack
	case strings.HasPrefix(path, "/bot"):
		return "telegram", telegram
	case path == webhookPath:
		return "webhook", webhook
	case path == "/":
		return "ntfy", ntfy
	}
	return "nobody", func(r *http.Request, _ *Message) answer {
		return answer{http.StatusNotFound, "nobody is here", "nobody is at " + r.URL.Path}
	}
}

// take is what all services refuse alike, and then one of them.
func take(of func(*http.Request, *Message) answer, r *http.Request, m *Message) answer {
	if r.Method != http.MethodPost {
		return answer{http.StatusMethodNotAllowed, "method not allowed", r.Method}
	}
	if r.Header.Get("Content-Type") != "application/json" {
		return answer{http.StatusBadRequest, "no JSON", "the type is " + r.Header.Get("Content-Type")}
	}
	return of(r, m)
}

// decode reads a body that has all of these fields and no others.
func decode(body []byte, to any) error {
	d := json.NewDecoder(strings.NewReader(string(body)))
	d.DisallowUnknownFields()
	return d.Decode(to)
}

// length is that of a text in characters of UTF-16.
func length(text string) int { return len(utf16.Encode([]rune(text))) }
