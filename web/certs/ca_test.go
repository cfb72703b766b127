package certs

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/crypto/acme"
)

func TestWhatAnErrorIsAbout(t *testing.T) {
	said := func(code int, word, detail string, header ...string) error {
		h := http.Header{}
		if len(header) > 0 {
			h.Set("Retry-After", header[0])
		}
		return fmt.Errorf("x: %w", &acme.Error{StatusCode: code, ProblemType: "urn:ietf:params:acme:error:" + word, Detail: detail, Header: h})
	}
	for name, tt := range map[string]struct {
		err   error
		says  string // "" when it is not about a name
		after time.Duration
	}{
		"network":            {errors.New("connection refused"), "", 0},
		"their fault":        {said(500, "serverInternal", "oh"), "", 0},
		"their fault, a tls": {said(503, "tls", "oh"), "", 0},
		"account":            {said(400, "accountDoesNotExist", "who?"), "", 0},
		"deactivated":        {said(403, "unauthorized", "no"), "", 0},
		"new terms":          {said(403, "userActionRequired", "read"), "", 0},
		"policy":             {said(400, "rejectedIdentifier", "we do not like it"), "we do not like it", 0},
		"caa":                {said(403, "caa", "another's"), "another's", 0},
		"unknown":            {said(400, "somethingNew", "new"), "new", 0},
		"too often":          {said(429, "rateLimited", "later", "7200"), "later", 2 * time.Hour},
		"order":              {&acme.OrderError{Status: "invalid", Problem: &acme.Error{Detail: "bad"}}, "the order is invalid: bad", 0},
		"order without more": {&acme.OrderError{Status: "invalid"}, "the order is invalid", 0},
		"odd certificate":    {check([]byte("x"), []byte("y"), shop), "what it gave cannot be used", 0},
		"hostile":            {said(400, "dns", "a\x1b[2J\nb\u202ec"+strings.Repeat("x", 1000)), "a [2J b c", 0},
	} {
		no := &refusal{}
		a := &account{acme: &acme.Client{}}
		is := a.aboutName(tt.err, no)
		text := strings.Join(no.says, "; ")
		if is != (tt.says != "") || !strings.HasPrefix(text, tt.says) || len(text) > 400 || no.after.Round(time.Minute) != tt.after {
			t.Errorf("%s: %v, %q after %s", name, is, text, no.after)
		}
		if (a.acme == nil) != (name == "account") {
			t.Errorf("%s: the account is forgotten: %v", name, a.acme == nil)
		}
	}
}

func TestNoncesAloneAreRepeated(t *testing.T) {
	for code, want := range map[int]bool{400: true, 429: false, 500: false, 503: false} {
		if d := retryBackoff(1, nil, &http.Response{StatusCode: code}); d > 0 != want || d > time.Second {
			t.Errorf("%d: again after %s", code, d)
		}
	}
	if d := retryBackoff(11, nil, &http.Response{StatusCode: 400}); d != 0 {
		t.Errorf("the eleventh time after %s", d)
	}
}

func TestTimes(t *testing.T) {
	for failures, want := range map[int]time.Duration{0: 10 * time.Minute, 1: 10 * time.Minute, 2: time.Hour, 3: 4 * time.Hour, 4: 24 * time.Hour, 1000: 24 * time.Hour} {
		if d := backoff(failures); d < want || d > want*11/10 {
			t.Errorf("after %d failures %s, want %s", failures, d, want)
		}
	}
	for times, want := range map[int]time.Duration{1: 2 * time.Second, 2: 4 * time.Second, 10: 1024 * time.Second, 11: 30 * time.Minute, 1 << 40: 30 * time.Minute} {
		if d := pause(times); d < want || d > want*11/10 {
			t.Errorf("after %d times %s, want %s", times, d, want)
		}
	}
	begins := time.Date(2026, time.November, 20, 9, 0, 0, 0, time.UTC)
	for _, life := range []time.Duration{time.Second, time.Hour, 6 * 24 * time.Hour, 90 * 24 * time.Hour} {
		d := renewal(begins, begins.Add(life)).Sub(begins)
		least, most := life*6/10, life*2/3+1
		if life < shortLife {
			least, most = life/2, life*55/100+1
		}
		if d < least || d > most {
			t.Errorf("what lives for %s is renewed after %s", life, d)
		}
	}
	renewal(begins, begins.Add(-time.Hour)) // a certificate is a stranger's too
}

func TestServerNames(t *testing.T) {
	for name, want := range map[string]string{
		shop: shop, "192.0.2.10": "10.2.0.192.in-addr.arpa",
		"2001:db8::567:89ab": "b.a.9.8.7.6.5.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.8.b.d.0.1.0.0.2.ip6.arpa",
	} {
		if got := serverName(name); got != want {
			t.Errorf("%s: %s", name, got)
		}
	}
}

func TestAnswers(t *testing.T) {
	m := &Manager{}
	h := m.Answer(http.RedirectHandler("https://shop.example.org/", http.StatusPermanentRedirect))
	m.responses.Store(wellKnow+"token", "token.thumb")
	for _, tt := range []struct {
		method, path string
		code         int
		body         string
	}{
		{"GET", "/", 308, ""},
		{"GET", "/.well-known/other", 308, ""},
		{"GET", "/.well-known/acme-challenge", 308, ""},
		{"GET", wellKnow + "token", 200, "token.thumb"},
		{"HEAD", wellKnow + "token", 200, ""},
		{"POST", wellKnow + "token", 405, ""},
		{"GET", wellKnow + "another", 404, ""},
		{"GET", wellKnow, 404, ""},
		{"GET", wellKnow + "x/../token", 404, ""},
	} {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(tt.method, tt.path, nil))
		if w.Code != tt.code || tt.body != "" && w.Body.String() != tt.body || tt.code != 308 && w.Header().Get("Location") != "" {
			t.Errorf("%s %s: %d %q", tt.method, tt.path, w.Code, w.Body)
		}
	}
	m.responses.Delete(wellKnow + "token")
	w := httptest.NewRecorder()
	if h.ServeHTTP(w, httptest.NewRequest("GET", wellKnow+"token", nil)); w.Code != 404 {
		t.Errorf("after it was removed: %d", w.Code)
	}
}

// freshKey is a store of which an account gets the key that it has made.
type freshKey struct{ Store }

func (freshKey) ACMEKey(_ context.Context, _ string, made []byte) ([]byte, error) { return made, nil }

// Nothing goes to an authority in plain text, wherever it leads, nor to one that cannot prove
// its name.
func TestAuthorityThatLeadsToPlainHTTP(t *testing.T) {
	plain := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("asked in plain text") }))
	defer plain.Close()
	for name, answer := range map[string]http.HandlerFunc{
		"a redirect": func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, plain.URL, http.StatusTemporaryRedirect)
		},
		"a directory": func(w http.ResponseWriter, _ *http.Request) {
			_, _ = fmt.Fprintf(w, `{"newNonce":"%[1]s/nonce","newAccount":"%[1]s/account","newOrder":"%[1]s/order"}`, plain.URL)
		},
	} {
		server := httptest.NewUnstartedServer(answer)
		server.Config.ErrorLog = log.New(io.Discard, "", 0) // a client goes away
		server.StartTLS()
		roots := x509.NewCertPool()
		roots.AddCert(server.Certificate())
		for says, known := range map[string]*x509.CertPool{"which is not HTTPS": roots, "certificate signed by unknown authority": x509.NewCertPool()} {
			a := newAccount(CA{Directory: server.URL, Roots: known}, freshKey{}, &sync.Map{})
			if _, _, err := a.obtain(t.Context(), shop); err == nil || !strings.Contains(err.Error(), says) {
				t.Errorf("%s: %v, want %q", name, err, says)
			}
			a.http.CloseIdleConnections()
		}
		server.Close()
	}
}
