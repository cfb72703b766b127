package daemon

import (
	"crypto/tls"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"berth/daemon/settings"
)

// What an upgrade must not wait for are the streams, and nothing else.
func TestEndlessPaths(t *testing.T) {
	for path, want := range map[string]bool{"/v2/events": true, "/events": true, "/": false, "/apps/shop/logs": false, "/v2/app/shop/events": false, "/events/": false} {
		if endless(path) != want {
			t.Errorf("%q: got %v", path, !want)
		}
	}
}

func TestPathsOfTheAPI(t *testing.T) {
	for path, want := range map[string]bool{
		"/v2": true, "/v2/": true, "/v2/user": true, "/d": true, "/d/x/y.zip": true, "*": true, "": true,
		"/": false, "/login": false, "/v20": false, "/v2x/y": false, "/download": false, "/V2/user": false, "/apps/v2/": false,
	} {
		if ofAPI(path) != want {
			t.Errorf("%q: got %v", path, !want)
		}
	}
}

// Browsers keep to HTTPS where they came by HTTPS, at a name that has it on its own port.
func TestStrict(t *testing.T) {
	over := func(r *http.Request) { r.TLS = &tls.ConnectionState{} }
	plain := func(*http.Request) {}
	forwarded := func(r *http.Request) {
		r.RemoteAddr = "192.0.2.1:9"
		r.Header.Set("X-Forwarded-Proto", "https")
	}
	for _, tt := range []struct {
		base  string
		edit  func(*settings.Settings)
		by    func(*http.Request)
		there bool
	}{
		{"https://berth.example.org", nil, over, true},
		{"https://berth.example.org", nil, plain, false},
		{"https://berth.example.org", nil, forwarded, false},
		{"https://berth.example.org", func(s *settings.Settings) { s.Proxy.Trusted = "192.0.2.0/24" }, forwarded, true},
		{"https://berth.example.org", func(s *settings.Settings) { s.Panel.Insecure = true }, over, false},
		{"https://berth.example.org:8443", nil, over, false},
		{"https://192.0.2.7", nil, over, false},
		{"http://berth.example.org", nil, over, false},
		{"", nil, over, false},
	} {
		s := settings.Settings{BaseURL: tt.base}
		if tt.edit != nil {
			tt.edit(&s)
		}
		r, w := httptest.NewRequest(http.MethodGet, "/", nil), httptest.NewRecorder()
		tt.by(r)
		strict(s, http.NotFoundHandler()).ServeHTTP(w, r)
		want := map[bool]string{true: "max-age=31536000"}[tt.there]
		if got := w.Header().Get("Strict-Transport-Security"); got != want || w.Code != http.StatusNotFound {
			t.Errorf("%+v: got %q, %d", tt, got, w.Code)
		}
	}
}

// Over plain HTTP browsers are led to HTTPS, and a client of the API hears what it did: a
// redirect would hide that others could read its token.
func TestPlainHTTPOfTheAPI(t *testing.T) {
	h := redirectToBaseURL(settings.Settings{BaseURL: "https://berth.example.org"})
	for path, want := range map[string]int{"/": 308, "/login?next=%2F": 308, "/v2/user": 403, "/v2": 403, "/d/x/y.zip": 403} {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(http.MethodPost, path, nil))
		location, body := w.Header().Get("Location"), w.Body.String()
		if w.Code != want || want == 308 && location != "https://berth.example.org"+path || want == 403 && (location != "" || !strings.Contains(body, `"statusCode":403`) || !strings.Contains(body, "revoke the token")) {
			t.Errorf("%s: got %d, %q, %s", path, w.Code, location, body)
		}
	}
}
