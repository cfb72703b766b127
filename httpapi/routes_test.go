package httpapi

import (
	"context"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"

	"berth/app"
)

// routeScenes are answers that belong to no operation, and the document itself.
func routeScenes() []scene {
	const none = "-"
	_, etag := document()
	return []scene{
		{name: "unknown_not_found", method: "GET", path: "/v2/nothing", op: none},
		{name: "unknown_not_found_root", method: "GET", path: "/", op: none},
		{name: "unknown_not_found_trailing_slash", method: "GET", path: "/v2/user/", op: none},
		{name: "unknown_not_found_upper_case", method: "GET", path: "/V2/user", op: none},
		{name: "unknown_not_found_escaped_slash", method: "GET", path: "/v2/app/bot-one%2Fstatus", op: none},
		{name: "unknown_method", method: "POST", path: "/v2/user", op: none},
		{name: "unknown_method_of_upload", method: "GET", path: "/v2/upload", op: none},
		{name: "options", method: "OPTIONS", path: "/v2/app/bot-one", op: none},
		{name: "options_unknown", method: "OPTIONS", path: "/v2/nothing", op: none},
		{name: "openapi_unchanged", method: "GET", path: "/v2/openapi.json", header: map[string]string{"If-None-Match": "W/" + etag}},
	}
}

func TestEveryRouteNeedsItsAccess(t *testing.T) {
	for _, r := range new(server).routes() {
		w := newWorld(t)
		path := strings.NewReplacer(":appID", "bot-one", ":locale", "en-US", ":modID", "8", ":tokenID", "5", ":token", "x", ":name", "y", ":externalID", "whmcs-7").Replace(r.Path)
		req := newRequest(r.Method, path, "")
		req.Header.Del(tokenHeader)
		rec := do(t, w.handler(), req)
		if refused := rec.Code == http.StatusUnauthorized; refused != (r.access != public) {
			t.Errorf("%s %s without a token: status %d", r.Method, r.Path, rec.Code)
		}
		if len(w.calls) > 0 {
			t.Errorf("%s %s without a token called %v", r.Method, r.Path, w.calls)
		}
	}
}

func TestEveryGetHasHeadAndEveryPathOptions(t *testing.T) {
	h := newWorld(t).handler()
	for _, r := range new(server).routes() {
		path := strings.NewReplacer(":appID", "bot-one", ":locale", "en-US", ":modID", "8", ":tokenID", "5", ":token", "x", ":name", "y").Replace(r.Path)
		rec := do(t, h, newRequest(http.MethodOptions, path, ""))
		allow := rec.Header().Get("Allow")
		if rec.Code != http.StatusNoContent || !strings.Contains(allow, r.Method) || !strings.Contains(allow, "OPTIONS") {
			t.Errorf("OPTIONS %s: status %d, Allow %q", path, rec.Code, allow)
		}
		if strings.Contains(allow, "HEAD") != strings.Contains(allow, http.MethodGet) {
			t.Errorf("%s: Allow is %q", path, allow)
		}
		if rec := do(t, h, newRequest(http.MethodTrace, path, "")); rec.Code != http.StatusMethodNotAllowed || strings.Contains(allow, http.MethodTrace) {
			t.Errorf("TRACE %s: status %d, Allow %q", path, rec.Code, allow)
		}
	}
}

func TestOddPathsAreNotFound(t *testing.T) {
	for _, path := range []string{
		"/v2/app//status", "/v2/app/", "/v2/app/../user", "/v2//user", "/v2/app/All/start", "/v2/app/-x/start",
		"/v2/app/a/start", "/v2/app/a%00b/start", "/v2/app/%2e%2e/start", "/v2/app/a%2fb/start", "/v2/app/a%2Fb",
		"/v2/app/" + strings.Repeat("a", 64) + "/start", "/v2/app/bot-one/", "/v2/app/bot-one/nothing", "/d/x", "/d//", "/v2/locale/",
		"/v2/locale/a%2Fb", "/v2/app/%F0%9F%92%A9/start", "/v2/openapi.json/",
	} {
		for _, method := range []string{"GET", "PUT"} {
			rec := do(t, newWorld(t).handler(), newRequest(method, path, ""))
			if rec.Code != http.StatusNotFound && rec.Code != http.StatusMethodNotAllowed {
				t.Errorf("%s %s: status %d", method, path, rec.Code)
			}
		}
	}
}

// A client whose base address ends with a slash begins paths with two.
func TestTwoSlashesBeforeThePath(t *testing.T) {
	for _, path := range []string{"//v2/user", "///v2/app/bot-one", "//v2/app/%62ot-one"} {
		r := newRequest("GET", "/", "")
		u, err := url.ParseRequestURI(path)
		if err != nil {
			t.Fatal(err)
		}
		r.URL = u
		if rec := do(t, newWorld(t).handler(), r); rec.Code != http.StatusOK {
			t.Errorf("%s: status %d", path, rec.Code)
		}
	}
}

// "all" is not for every operation, and the answer says so.
func TestAllWhereOneIsMeant(t *testing.T) {
	for _, tt := range []struct{ method, path, body string }{
		{"PUT", "/v2/app/all/ram", `{"ramMB":128}`},
		{"PUT", "/v2/app/all/profile", `{"name":"x"}`},
		{"PUT", "/v2/app/all/commit", ""},
		{"DELETE", "/v2/app/all/env/X", ""},
	} {
		rec := do(t, newWorld(t).handler(), newRequest(tt.method, tt.path, tt.body))
		var e errorBody
		decode(t, rec, &e)
		if rec.Code != http.StatusNotFound || e.Message != `This operation takes the ID of one application, and not "all".` {
			t.Errorf("%s %s: status %d, %q", tt.method, tt.path, rec.Code, e.Message)
		}
	}
}

func TestPathWithoutSlash(t *testing.T) {
	for _, path := range []string{"", "*", "v2/user"} {
		r := newRequest("GET", "/", "")
		r.URL.Path = path
		if rec := do(t, newWorld(t).handler(), r); rec.Code != http.StatusNotFound {
			t.Errorf("%q: status %d", path, rec.Code)
		}
	}
}

func TestBodiesThatNobodyNeedsAreIgnored(t *testing.T) {
	for _, tt := range []struct{ method, path, body string }{
		{"GET", "/v2/user", ""},
		{"GET", "/v2/app/bot-one", "{}"},
		{"PUT", "/v2/app/bot-one/stop", "{}"},
		{"PUT", "/v2/app/bot-one/restart", "not json"},
		{"DELETE", "/v2/app/bot-one/delete", "{}"},
		{"PUT", "/v2/locale/en-US", "{}"},
	} {
		w := newWorld(t)
		r := newRequest(tt.method, tt.path, tt.body)
		r.Header.Set("Content-Type", "application/json")
		if rec := do(t, w.handler(), r); rec.Code != http.StatusOK {
			t.Errorf("%s %s with body %q: status %d", tt.method, tt.path, tt.body, rec.Code)
		}
	}
}

func TestServerWithoutOptionalConfiguration(t *testing.T) {
	w := newWorld(t)
	h, _ := New(Config{Services: app.Services{Accounts: w, Links: w, Applications: w, Settings: w, Deployments: w, Contents: w, Names: w}})
	rec := httptest.NewRecorder()
	h.ServeHTTP(rec, newRequest("GET", "/v2/user", ""))
	if rec.Code != 200 || rec.Header().Get("ratelimit-limit") != "60" || rec.Header().Get("berth-version") != "" {
		t.Errorf("status %d, headers %v", rec.Code, rec.Header())
	}
}

// While nothing can be changed, every route that changes something says so and does
// nothing; the others answer.
func TestNothingCanBeChanged(t *testing.T) {
	w := newWorld(t)
	w.config.Changes = func() error { return app.Errorf(app.Unavailable, "Nothing can be changed now.") }
	w.before = func(_ context.Context, what string) {
		if slices.Contains([]string{"Start", "Stop", "Restart", "Delete", "SetRAM", "Upload", "Commit", "Spool"}, what) {
			t.Errorf("%s was asked for", what)
		}
	}
	h, refused := w.handler(), 0
	for _, r := range (&server{}).routes() {
		if r.Method == http.MethodGet {
			continue
		}
		path := strings.NewReplacer(":appID", "bot-one", ":name", "TOKEN", ":modID", "9", ":locale", "pt-BR", ":subdomain", "shop", ":domain", "a.example.org").Replace(r.Path)
		req := newRequest(r.Method, path, "")
		if r.access == byHost {
			req.Header.Set(tokenHeader, hostToken)
		}
		if rec := do(t, h, req); rec.Code != http.StatusServiceUnavailable || !strings.Contains(rec.Body.String(), "Nothing can be changed now.") || rec.Header().Get("Retry-After") == "" {
			t.Errorf("%s %s: status %d: %s", r.Method, path, rec.Code, rec.Body)
		}
		refused++
	}
	if refused < 20 {
		t.Errorf("only %d routes change something", refused)
	}
	for _, path := range []string{"/v2/user", "/v2/app/bot-one", "/v2/app/bot-one/status"} {
		if rec := do(t, h, newRequest("GET", path, "")); rec.Code != http.StatusOK {
			t.Errorf("GET %s: status %d", path, rec.Code)
		}
	}
}
