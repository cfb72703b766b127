package httpapi

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"berth/app"
)

func withToken(token, address string) *http.Request {
	r := newRequest("GET", "/v2/user", "")
	r.Header.Set(tokenHeader, token)
	r.RemoteAddr = address
	return r
}

func TestTokenIsLimitedForOneWindow(t *testing.T) {
	w := newWorld(t)
	w.config.RateLimit = 3
	h := w.handler()
	for i, remaining := range []string{"2", "1", "1"} { // never 0 on an allowed answer
		rec := do(t, h, withToken(goodToken, "192.0.2.1:1"))
		if rec.Code != 200 || rec.Header().Get("ratelimit-remaining") != remaining {
			t.Errorf("request %d: status %d, remaining %s", i, rec.Code, rec.Header().Get("ratelimit-remaining"))
		}
	}
	w.advance(20 * time.Second)
	rec := do(t, h, withToken(goodToken, "192.0.2.1:1"))
	if rec.Code != 429 || rec.Header().Get("Retry-After") != "40" || rec.Header().Get("ratelimit-reset") != "40" {
		t.Errorf("status %d, headers %v", rec.Code, rec.Header())
	}
	w.advance(40 * time.Second)
	if rec := do(t, h, withToken(goodToken, "192.0.2.1:1")); rec.Code != 200 {
		t.Errorf("in the next window: status %d", rec.Code)
	}
}

func TestGuessingIsSlowedAndValidTokensGoOn(t *testing.T) {
	w := newWorld(t)
	w.config.RateLimit = 3
	h := w.handler()
	for i := range 5 {
		rec := do(t, h, withToken(fmt.Sprint("guess", i), fmt.Sprint("192.0.2.1:", 1000+i)))
		if want := map[bool]int{true: 401, false: 429}[i < 3]; rec.Code != want {
			t.Errorf("guess %d: status %d, want %d", i, rec.Code, want)
		}
	}
	if rec := do(t, h, withToken(goodToken, "192.0.2.1:1")); rec.Code != 200 {
		t.Errorf("a valid token from the same address: status %d", rec.Code)
	}
	if rec := do(t, h, withToken("guess", "192.0.2.2:1")); rec.Code != 401 {
		t.Errorf("from another address: status %d", rec.Code)
	}
}

func TestMissingAndLongTokensAreNotLookedUp(t *testing.T) {
	w := newWorld(t)
	h := w.handler()
	for _, token := range []string{"", strings.Repeat("x", maxTokenLength+1)} {
		if rec := do(t, h, withToken(token, "192.0.2.1:1")); rec.Code != 401 {
			t.Errorf("%d bytes: status %d", len(token), rec.Code)
		}
	}
	if w.called("Authenticate") != 0 {
		t.Error("a token was looked up")
	}
}

// Many APIs take "Bearer" before the token, and people paste it along.
func TestTokenWithBearer(t *testing.T) {
	for _, word := range []string{"Bearer ", "bearer "} {
		w := newWorld(t)
		rec := do(t, w.handler(), withToken(word+goodToken, "192.0.2.1:1"))
		var e errorBody
		decode(t, rec, &e)
		if rec.Code != 401 || e.Message != `The api-token header takes the token alone: leave out "Bearer" before it.` || w.called("Authenticate") != 0 {
			t.Errorf("status %d, %q", rec.Code, e.Message)
		}
	}
}

func TestRevokedTokenIsForgotten(t *testing.T) {
	w := newWorld(t)
	w.config.RateLimit = 2
	h := w.handler()
	do(t, h, withToken(goodToken, "192.0.2.1:1"))
	w.fail["Authenticate"] = app.Errorf(app.Unauthorized, "The API token is not valid.")
	for _, want := range []int{401, 401, 429} {
		if rec := do(t, h, withToken(goodToken, "192.0.2.1:1")); rec.Code != want {
			t.Errorf("status %d, want %d", rec.Code, want)
		}
	}
}

func TestUncountedAnswersShowTheQuotaOfTheToken(t *testing.T) {
	w := newWorld(t)
	h := w.handler()
	do(t, h, withToken(goodToken, "192.0.2.1:1"))
	for _, path := range []string{"/v2/nothing", "/v2/openapi.json", "/d/x/y"} {
		if got := do(t, h, newRequest("GET", path, "")).Header().Get("ratelimit-remaining"); got != "59" {
			t.Errorf("%s: remaining %s, want 59", path, got)
		}
	}
	if got := do(t, h, newRequest("OPTIONS", "/v2/user", "")).Header().Get("ratelimit-remaining"); got != "59" {
		t.Errorf("OPTIONS: remaining %s, want 59", got)
	}
}

func TestAddressKey(t *testing.T) {
	for remote, want := range map[string]string{
		"192.0.2.1:80":               "192.0.2.1",
		"[::ffff:192.0.2.1]:80":      "192.0.2.1",
		"[2001:db8:1:2:3:4:5:6]:443": "2001:db8:1:2::/64",
		"[2001:db8:1:2::9]:1":        "2001:db8:1:2::/64",
		"[fe80::1%eth0]:1":           "fe80::/64",
		"@":                          "@", // a Unix socket
		"":                           "",
	} {
		if got := addressKey(remote); got != want {
			t.Errorf("addressKey(%q) = %q, want %q", remote, got, want)
		}
	}
}

func TestTokenKeyDoesNotHoldTheToken(t *testing.T) {
	if key := tokenKey(goodToken); strings.Contains(key, goodToken) || key == tokenKey("other") || len(key) != 32 {
		t.Errorf("key %q", key)
	}
}

// The token of a suspended account opens no route, and every refusal says why.
func TestSuspendedOnEveryRoute(t *testing.T) {
	for _, r := range new(server).routes() {
		if r.access != byToken { // TestHostedNeedsATokenOfTheHost
			continue
		}
		for _, id := range []string{"bot-one", "all"} {
			w := newWorld(t)
			several(w)
			w.off = &app.Account{ID: 9, Name: "off", Suspended: app.Suspension{On: true, Why: "unpaid"}}
			path := strings.NewReplacer(":appID", id, ":locale", "en-US", ":modID", "8", ":tokenID", "5", ":name", "y",
				":subdomain", "blog", ":domain", "shop.example.org", ":account", "7").Replace(r.Path)
			req := newRequest(r.Method, path, "{}")
			req.Header.Set(tokenHeader, offToken)
			rec := do(t, w.handler(), req)
			if rec.Code != http.StatusForbidden || !strings.Contains(rec.Body.String(), "this account is suspended (unpaid); ask the owner of the server") {
				t.Errorf("%s %s: status %d, %s", r.Method, path, rec.Code, rec.Body)
			}
			if len(w.calls) != 1 {
				t.Errorf("%s %s: asked %v", r.Method, path, w.calls)
			}
		}
	}
}
