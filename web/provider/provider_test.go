package provider

import (
	"crypto/rand"
	"crypto/rsa"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"berth/app"
	"berth/test/openid"
)

func TestWhoSomebodyIs(t *testing.T) {
	l := openid.New(t)
	ps := providers(l)
	for name, want := range map[string]app.Identity{
		"corp":    {Issuer: l.URL, Subject: "ana-1", Name: "Ana"},
		"discord": {Issuer: discordBase, Subject: "81234", Name: "Ana"},
	} {
		query, cookie := begun(t, l, ps, name)
		got, purpose, err := ps.Finish(t.Context(), name, query, cookie)
		if err != nil || got != want || purpose.Next != "/apps" {
			t.Errorf("%s: %+v, %+v, %v (%v), expected %+v", name, got, purpose, err, Cause(err), want)
		}
	}
}

// Everything in an id token that is not as it must be is refused, in one sentence, and tells
// the log why.
func TestLies(t *testing.T) {
	other, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	claim := func(name string, value any) func(*openid.Server) {
		return func(l *openid.Server) { l.Claims = func(c map[string]any) { c[name] = value } }
	}
	for name, lie := range map[string]func(*openid.Server){
		"alg none": func(l *openid.Server) {
			l.Sign = func(c map[string]any) string {
				return openid.JWT(`{"alg":"none"}`, c, func(string) []byte { return nil })
			}
		},
		"HS256 by the public key":    func(l *openid.Server) { l.Sign = l.PublicHMAC },
		"another key":                func(l *openid.Server) { l.Sign = func(c map[string]any) string { return openid.SignedBy(other, c) } },
		"no id token":                func(l *openid.Server) { l.Sign = func(map[string]any) string { return "" } },
		"another audience":           claim("aud", "other"),
		"no audience":                claim("aud", nil),
		"another party":              claim("azp", "other"),
		"two audiences and no party": claim("aud", []string{"berth", "other"}),
		"another issuer":             claim("iss", "https://other.example.com"),
		"another nonce":              claim("nonce", "old"),
		"no nonce":                   claim("nonce", ""),
		"expired":                    claim("exp", time.Now().Add(-time.Second).Unix()),
		"no expiry":                  claim("exp", nil),
		"not yet":                    claim("nbf", time.Now().Add(time.Hour).Unix()),
		"no subject":                 claim("sub", ""),
		"a long subject":             claim("sub", strings.Repeat("a", maxSubject+1)),
		"a subject with NUL":         claim("sub", "ana\x00-1"),
	} {
		t.Run(name, func(t *testing.T) {
			l := openid.New(t)
			lie(l)
			ps := providers(l)
			query, cookie := begun(t, l, ps, "corp")
			who, _, err := ps.Finish(t.Context(), "corp", query, cookie)
			if who != (app.Identity{}) || app.KindOf(err) != app.Unauthorized || Cause(err) == nil ||
				err.Error() != "cannot sign you in by Corp: its answer does not prove who you are; begin again" {
				t.Errorf("got %+v, %v (%v)", who, err, Cause(err))
			}
			if cause := Cause(err); cause != nil && strings.Contains(cause.Error(), "eyJ") {
				t.Errorf("the cause has a token: %v", cause)
			}
		})
	}
}

// Only the browser that began finishes, once, with the provider it began with.
func TestBrowserAndState(t *testing.T) {
	l := openid.New(t)
	ps := providers(l)
	address, cookie, err := ps.Begin(t.Context(), "corp", Purpose{}, browser)
	if err != nil {
		t.Fatal(err)
	}
	query := l.Agree(t, address)
	_, other := begun(t, l, ps, "corp")
	refused := func(what, name string, q url.Values, cookie string) {
		t.Helper()
		if _, _, err := ps.Finish(t.Context(), name, q, cookie); app.KindOf(err) != app.Unauthorized {
			t.Errorf("%s: %v", what, err)
		}
	}
	refused("no cookie", "corp", query, "")
	refused("the cookie of another browser", "corp", query, other)
	refused("another provider", "discord", query, cookie)
	refused("no state", "corp", url.Values{"code": query["code"]}, cookie)
	refused("a huge state", "corp", url.Values{"state": {strings.Repeat("a", 1<<20)}}, cookie)
	if _, _, err := ps.Finish(t.Context(), "corp", query, cookie); err != nil {
		t.Errorf("what others tried has ended the sign-in: %v (%v)", err, Cause(err))
	}
	refused("a state used twice", "corp", l.Agree(t, address), cookie)

	again, cookie := begun(t, l, ps, "corp")
	again["code"] = query["code"]
	refused("a code used twice", "corp", again, cookie)

	query, cookie = begun(t, l, ps, "corp")
	query.Set("iss", "https://other.example.com")
	refused("another issuer in the answer", "corp", query, cookie)
	query, cookie = begun(t, l, ps, "corp")
	query.Set("iss", l.URL)
	if _, _, err := ps.Finish(t.Context(), "corp", query, cookie); err != nil {
		t.Errorf("the issuer itself: %v (%v)", err, Cause(err))
	}
	if _, _, err := ps.Begin(t.Context(), "nobody", Purpose{}, browser); app.KindOf(err) != app.NotFound {
		t.Errorf("a provider that is none: %v", err)
	}
}

// Somebody who is to prove who they are is asked by the provider, and one that says it did not ask
// lately proves nothing.
func TestAskedAgain(t *testing.T) {
	for at, want := range map[int64]app.Kind{0: 0, time.Now().Unix(): 0, time.Now().Add(-Life - time.Minute).Unix(): app.Unauthorized} {
		l := openid.New(t)
		l.Claims = func(c map[string]any) {
			if at != 0 {
				c["auth_time"] = at
			}
		}
		ps := providers(l)
		address, cookie, err := ps.Begin(t.Context(), "corp", Purpose{Session: 7, Prove: true}, browser)
		if err != nil || !strings.Contains(address, "prompt=login") || !strings.Contains(address, "max_age=0") {
			t.Fatalf("%s, %v", address, err)
		}
		_, purpose, err := ps.Finish(t.Context(), "corp", l.Agree(t, address), cookie)
		if app.KindOf(err) != want || purpose.Session != 7 || !purpose.Prove {
			t.Errorf("asked at %d: %+v, %v (%v)", at, purpose, err, Cause(err))
		}
	}
	address, _, err := providers(openid.New(t)).Begin(t.Context(), "discord", Purpose{Session: 7, Prove: true}, browser)
	if err != nil || !strings.Contains(address, "prompt=consent") {
		t.Errorf("%s, %v", address, err)
	}
}

// A provider that says it names itself in answers must do so (RFC 9207).
func TestMissingIssuer(t *testing.T) {
	l := openid.New(t)
	l.Metadata = func(m map[string]any) { m["authorization_response_iss_parameter_supported"] = true }
	ps := providers(l)
	query, cookie := begun(t, l, ps, "corp")
	if _, _, err := ps.Finish(t.Context(), "corp", query, cookie); app.KindOf(err) != app.Unauthorized {
		t.Errorf("got %v", err)
	}
}

func TestErrorsOfTheProvider(t *testing.T) {
	l := openid.New(t)
	ps := providers(l)
	for text, want := range map[string]struct {
		kind     app.Kind
		sentence string
	}{
		"access_denied":                        {app.Forbidden, "cannot sign you in by Corp: you did not agree there; begin again, or sign in with your password"},
		"<script>" + strings.Repeat("a", 9999): {app.Unavailable, "cannot sign you in by Corp: it does not answer as it should; try again later, or sign in with your password"},
	} {
		query, cookie := begun(t, l, ps, "corp")
		query.Del("code")
		query.Set("error", text)
		_, purpose, err := ps.Finish(t.Context(), "corp", query, cookie)
		if app.KindOf(err) != want.kind || err.Error() != want.sentence || purpose.Next != "/apps" {
			t.Errorf("%.20s: %v", text, err)
		}
		if cause := Cause(err); cause != nil && len(cause.Error()) > 200 {
			t.Errorf("the log gets %d bytes of the provider", len(cause.Error()))
		}
	}
}

// What a provider says of itself is refused before a browser is sent anywhere, and asked for once.
func TestBadMetadata(t *testing.T) {
	for name, lie := range map[string]func(m map[string]any){
		"another issuer":      func(m map[string]any) { m["issuer"] = "https://other.example.com" },
		"a script":            func(m map[string]any) { m["authorization_endpoint"] = "javascript:alert(1)//" },
		"a token in plain":    func(m map[string]any) { m["token_endpoint"] = "http://127.0.0.1:1/token" },
		"keys in plain":       func(m map[string]any) { m["jwks_uri"] = "http://127.0.0.1:1/keys" },
		"no address":          func(m map[string]any) { delete(m, "authorization_endpoint") },
		"more than fits":      func(m map[string]any) { m["x"] = strings.Repeat("a", maxBody) },
		"a name and password": func(m map[string]any) { m["token_endpoint"] = "https://a:b@example.com/" },
	} {
		l := openid.New(t)
		l.Metadata = lie
		ps := providers(l)
		for range 3 {
			address, _, err := ps.Begin(t.Context(), "corp", Purpose{}, browser)
			if address != "" || app.KindOf(err) != app.Unavailable || Cause(err) == nil {
				t.Errorf("%s: %q, %v", name, address, err)
			}
		}
		if n := l.Asked.Load(); n != 1 {
			t.Errorf("%s: the provider was asked %d times", name, n)
		}
	}
}

func TestBadTokenAnswers(t *testing.T) {
	elsewhere := httptest.NewTLSServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("the redirect was followed") }))
	defer elsewhere.Close()
	for name, lie := range map[string]func(w http.ResponseWriter) bool{
		"more than fits": func(w http.ResponseWriter) bool {
			_, _ = io.WriteString(w, `{"access_token":"a","x":"`+strings.Repeat("a", 2*maxBody)+`"}`)
			return true
		},
		"a redirect": func(w http.ResponseWriter) bool {
			w.Header().Set("Location", elsewhere.URL)
			w.WriteHeader(http.StatusTemporaryRedirect)
			return true
		},
		"no JSON": func(w http.ResponseWriter) bool { _, _ = io.WriteString(w, "<html>"); return true },
	} {
		l := openid.New(t)
		l.Token = lie
		ps := providers(l)
		query, cookie := begun(t, l, ps, "corp")
		_, _, err := ps.Finish(t.Context(), "corp", query, cookie)
		if kind := app.KindOf(err); kind != app.Unavailable && kind != app.Unauthorized || Cause(err) == nil || len(Cause(err).Error()) > 300 {
			t.Errorf("%s: %v (%v)", name, err, Cause(err))
		}
	}
}

func TestBadUsersOfDiscord(t *testing.T) {
	for _, user := range []string{`{}`, `{"id":""}`, `{"id":"1' OR"}`, `{"id":"1","bot":true}`, `{"id":1}`, `[]`, ``, `{"id":"` + strings.Repeat("1", maxBody) + `"}`} {
		l := openid.New(t)
		l.User = user
		ps := providers(l)
		query, cookie := begun(t, l, ps, "discord")
		if who, _, err := ps.Finish(t.Context(), "discord", query, cookie); who != (app.Identity{}) || err == nil || Cause(err) == nil {
			t.Errorf("%.30s: %+v, %v", user, who, err)
		}
	}
}

// A provider that does not answer costs one request its time, and the others nothing.
func TestSlowProvider(t *testing.T) {
	t.Parallel()
	l := openid.New(t)
	l.Hold = make(chan struct{})
	defer close(l.Hold)
	ps := providers(l)
	for range 20 {
		if _, _, err := ps.Begin(t.Context(), "corp", Purpose{}, browser); app.KindOf(err) != app.Unavailable {
			t.Errorf("got %v", err)
		}
	}
	if n := l.Asked.Load(); n != 1 {
		t.Errorf("it was asked %d times", n)
	}
	if _, _, err := ps.Begin(t.Context(), "discord", Purpose{}, browser); err != nil {
		t.Errorf("another provider: %v", err)
	}
}

// What is at providers ends, and is bounded for each network and for all.
func TestBounds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ps := New("https://panel.example.com", []Config{{Name: "discord", Issuer: Discord, Client: "berth", Secret: "s"}})
		begin := func(key string) (state, cookie string) {
			address, cookie, err := ps.Begin(t.Context(), "discord", Purpose{}, app.Visitor{Key: key})
			if err != nil {
				t.Fatal(err)
			}
			u, _ := url.Parse(address)
			return u.Query().Get("state"), cookie
		}
		begin("mine")
		for range 3 * maxWaitingOwn {
			time.Sleep(time.Millisecond)
			begin("theirs")
		}
		if n := len(ps.waiting); n != 1+maxWaitingOwn {
			t.Errorf("%d wait", n)
		}
		for i := range maxWaiting {
			time.Sleep(time.Millisecond)
			begin(strconv.Itoa(i))
		}
		if n := len(ps.waiting); n != maxWaiting {
			t.Errorf("%d wait", n)
		}
		state, cookie := begin("mine")
		time.Sleep(Life)
		if _, ok := ps.take("discord", state, cookie); ok {
			t.Error("a sign-in outlived its time")
		}
		begin("mine")
		if n := len(ps.waiting); n != 1 {
			t.Errorf("%d wait after their time", n)
		}
	})
}
