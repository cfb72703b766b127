package httpapi

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"berth/app"
	"berth/web"
)

// worldTokens are the tokens of a world.
type worldTokens struct{ w *world }

func (t worldTokens) Tokens(_ context.Context, _ app.AccountID) ([]app.Token, error) {
	return t.w.tokens, t.w.call("Tokens")
}

func (t worldTokens) Issue(_ context.Context, wanted app.Token, lasts time.Duration) (string, app.Token, error) {
	said := "unbounded"
	if b := wanted.Bounds; b != nil {
		said = fmt.Sprint(b.Apps, b.May.Names())
	}
	if err := t.w.call("Issue", wanted.Label, lasts, said); err != nil {
		return "", app.Token{}, err
	}
	wanted.ID, wanted.CreatedAt = 5, testNow
	if lasts > 0 {
		wanted.Expires = testNow.Add(lasts)
	}
	return "the-text-of-the-token", wanted, nil
}

func (t worldTokens) Rotate(context.Context, app.AccountID, int64, time.Duration) (string, app.Token, error) {
	panic("the API has no route for this")
}

func (t worldTokens) Revoke(_ context.Context, _ app.AccountID, id int64) error {
	if id != 5 {
		return app.Errorf(app.NotFound, "there is no token %d", id)
	}
	return t.w.call("Revoke", id)
}

func tokenScenes() []scene {
	const all, one = "/v2/token", "/v2/token/{tokenID}"
	bound := `{"label":"ci","days":90,"apps":["bot-one"],"may":["commit_app","logs_app"]}`
	return []scene{
		{name: "token_ok", method: "GET", path: all, arrange: func(w *world) {
			may := app.Permissions(0).With(app.CommitApp)
			w.tokens = []app.Token{
				{ID: 3, Label: "laptop", CreatedAt: testNow, LastUsed: testNow},
				{ID: 5, Label: "ci", CreatedAt: testNow, Expires: testNow.AddDate(0, 3, 0), Bounds: &app.Bounds{Apps: []app.ID{"bot-one"}, May: may}},
				{ID: 6, CreatedAt: testNow.AddDate(0, 0, -90), Bounds: &app.Bounds{May: may}},
			}
		}},
		{name: "token_post_ok", method: "POST", path: all, body: bound},
		{name: "token_post_ok_unbounded", method: "POST", path: all, body: `{}`},
		{name: "token_post_invalid", method: "POST", path: all, body: `{"apps":["bot-one"]}`},
		{name: "token_post_invalid_permission", method: "POST", path: all, body: `{"apps":["bot-one"],"may":["fly_app"]}`},
		{name: "token_post_invalid_days", method: "POST", path: all, body: `{"days":0}`},
		{name: "token_post_not_found", method: "POST", path: all, body: bound, arrange: failing("Issue", app.NotFound, `you have no application "bot-one"`)},
		{name: "token_post_not_found_id", method: "POST", path: all, body: `{"apps":["../x"],"may":["logs_app"]}`},
		{name: "token_post_exhausted", method: "POST", path: all, body: bound, arrange: failing("Issue", app.Exhausted, "the account has 100 tokens, as many as it may have; revoke some")},
		{name: "token_post_too_large", method: "POST", path: all, body: `{"label":"` + strings.Repeat("x", maxFields) + `"}`},
		{name: "token_delete_ok", method: "DELETE", path: "/v2/token/5", op: one},
		{name: "token_delete_not_found", method: "DELETE", path: "/v2/token/6", op: one},
		{name: "token_delete_not_found_word", method: "DELETE", path: "/v2/token/five", op: one},
	}
}

// boundNeeds is what each route asks of a token with bounds: the name of a permission, "app"
// for any permission with the application, "any" for every such token, "none" where no such
// token will do.
var boundNeeds = map[string]string{
	"POST /v2/upload":            "none",
	"GET /v2/app/:appID":         "app",
	"GET /v2/app/:appID/status":  "status_app",
	"GET /v2/app/:appID/logs":    "logs_app",
	"GET /v2/app/:appID/backup":  "backup_app",
	"PUT /v2/app/:appID/start":   "start_app",
	"PUT /v2/app/:appID/restart": "restart_app",
	"PUT /v2/app/:appID/stop":    "stop_app",
	"PUT /v2/app/:appID/ram":     "edit_ram",
	"GET /v2/app/:appID/ram":     "status_app",

	"GET /v2/app/:appID/env":          "none",
	"GET /v2/app/:appID/env/values":   "none",
	"GET /v2/app/:appID/backups":      "none",
	"PUT /v2/app/:appID/env":          "none",
	"DELETE /v2/app/:appID/env/:name": "none",
	"PUT /v2/app/:appID/apt":          "none",
	"DELETE /v2/app/:appID/apt":       "none",
	"PUT /v2/app/:appID/commit":       "commit_app",
	"POST /v2/app/:appID/restore":     "none",
	"GET /v2/app/:appID/snapshots":    "backup_app",
	"POST /v2/app/:appID/copy":        "none",
	"GET /v2/app/:appID/deploys":      "commit_app",
	"POST /v2/app/:appID/rollback":    "commit_app",
	"PUT /v2/app/:appID/console":      "none",
	"POST /v2/app/:appID/input":       "none",
	"PUT /v2/app/:appID/profile":      "none",
	"GET /v2/app/:appID/metrics":      "status_app",
	"GET /v2/app/:appID/events":       "status_app",
	"DELETE /v2/app/:appID/delete":    "none",

	"GET /v2/app/:appID/team":           "none",
	"POST /v2/app/:appID/team":          "none",
	"PUT /v2/app/:appID/team":           "none",
	"DELETE /v2/app/:appID/team/:modID": "none",
	"GET /v2/team":                      "any",
	"GET /v2/team/:appID":               "app",
	"GET /v2/team/:appID/status":        "status_app",
	"GET /v2/team/:appID/logs":          "logs_app",
	"GET /v2/team/:appID/backup":        "backup_app",
	"PUT /v2/team/:appID/start":         "start_app",
	"PUT /v2/team/:appID/restart":       "restart_app",
	"PUT /v2/team/:appID/stop":          "stop_app",
	"PUT /v2/team/:appID/ram":           "edit_ram",
	"GET /v2/team/:appID/ram":           "status_app",
	"PUT /v2/team/:appID/commit":        "commit_app",

	"GET /v2/events":                "any", // TestBoundsOfEvents has more
	"GET /v2/vscode":                "any",
	"GET /v2/user":                  "any",
	"GET /v2/ws/upload":             "none",
	"GET /v2/ws/app/:appID/commit":  "commit_app",
	"GET /v2/ws/app/:appID/exec":    "none",
	"GET /v2/ws/team/:appID/commit": "commit_app",
	"GET /v2/token":                 "none",
	"POST /v2/token":                "none",
	"DELETE /v2/token/:tokenID":     "none",
	"PUT /v2/locale/:locale":        "none",

	"GET /v2/channel":                       "none",
	"POST /v2/channel":                      "none",
	"GET /v2/channel/:channelID":            "none",
	"PUT /v2/channel/:channelID":            "none",
	"DELETE /v2/channel/:channelID":         "none",
	"POST /v2/channel/:channelID/test":      "none",
	"POST /v2/channel/:channelID/secret":    "none",
	"DELETE /v2/channel/:channelID/secret":  "none",
	"GET /v2/channel/:channelID/deliveries": "none",
	"POST /v2/delivery/:deliveryID/again":   "none",

	"GET /v2/subdomain/:subdomain":           "none",
	"POST /v2/subdomain/:subdomain":          "none",
	"DELETE /v2/subdomain/:subdomain":        "none",
	"GET /v2/customdomain/:domain":           "none",
	"POST /v2/customdomain/create":           "none",
	"PUT /v2/customdomain/:domain/edit":      "none",
	"DELETE /v2/customdomain/:domain":        "none",
	"DELETE /v2/customdomain/:domain/remove": "none",
	"GET /v2/customdomain/:domain/verify":    "none",
}

// Every route is refused with 403, and without a look at anything, to a token whose bounds do
// not allow it, and to no other.
func TestBoundsOnEveryRoute(t *testing.T) {
	known := map[string]bool{}
	for _, r := range new(server).routes() {
		if r.access != byToken {
			continue
		}
		name := r.Method + " " + r.Path
		want, listed := boundNeeds[name]
		known[name] = true
		if !listed {
			t.Errorf("%s: no row says what a token with bounds needs", name)
			continue
		}
		for _, ids := range [][]app.ID{{"bot-one"}, {"other"}, {}} {
			for _, may := range []app.Permissions{app.AllPermissions, app.AllPermissions &^ permission(want), permission(want)} {
				if may == 0 {
					continue
				}
				for _, id := range []string{"bot-one", "all"} {
					if id == "all" && !strings.Contains(r.Path, ":appID") {
						continue
					}
					w := newWorld(t)
					w.bounds = &app.Bounds{Apps: ids, May: may}
					path := strings.NewReplacer(":appID", id, ":locale", "en-US", ":modID", "8", ":tokenID", "5", ":channelID", "4", ":deliveryID", "9", ":name", "y",
						":subdomain", "blog", ":domain", "shop.example.org").Replace(r.Path)
					path = strings.ReplaceAll(path, "/v2/events", "/v2/events?types=state")
					req := newRequest(r.Method, path, "{}")
					if strings.HasPrefix(path, "/v2/events") {
						req.Method = http.MethodHead // which does not follow
						w.bounds.May = w.bounds.May.With(app.StatusApp)
					}
					rec := do(t, w.handler(), req)
					within := id == "all" || slices.Contains(ids, app.ID(id))
					allowed := want == "any" || want == "app" && within || want != "none" && want != "app" && within && may.Has(app.Permission(permission(want)))
					if refused := rec.Code == http.StatusForbidden && strings.Contains(rec.Body.String(), "This token"); refused == allowed {
						t.Errorf("%s %s with %v and %v: status %d, %s", r.Method, path, ids, may.Names(), rec.Code, rec.Body)
					}
					if !allowed && len(w.calls) > 1 {
						t.Errorf("%s %s was refused after %v", r.Method, path, w.calls)
					}
				}
			}
		}
	}
	for name := range boundNeeds {
		if !known[name] {
			t.Errorf("there is no route %s", name)
		}
	}
}

func permission(name string) app.Permissions {
	p, _ := app.ParsePermission(name)
	return app.Permissions(p)
}

// Lists hold what is within the bounds, and nothing of members and variables.
func TestBoundsOfLists(t *testing.T) {
	for _, path := range []string{
		"/v2/user", "/v2/vscode", "/v2/app/all", "/v2/app/all/status", "/v2/app/all/logs", "/v2/app/all/backup", "/v2/team", "/v2/team/all/status", "/v2/app/bot-one",
	} {
		w := newWorld(t)
		several(w)
		if strings.HasPrefix(path, "/v2/team") {
			w.join(app.AllPermissions)
		}
		helped(w)
		w.bounds = &app.Bounds{Apps: []app.ID{"bot-one"}, May: app.AllPermissions}
		rec := do(t, w.handler(), newRequest(http.MethodGet, path, ""))
		body := rec.Body.String()
		if rec.Code != http.StatusOK || !strings.Contains(body, "bot-one") {
			t.Errorf("%s: %d, %s", path, rec.Code, body)
		}
		for _, other := range []string{"1745338954955", "crashing", `"shop"`, `"mods":["`} {
			if strings.Contains(body, other) {
				t.Errorf("%s shows %s: %s", path, other, body)
			}
		}
	}
	w := newWorld(t)
	w.bounds = &app.Bounds{Apps: []app.ID{"bot-one"}, May: app.AllPermissions}
	for _, path := range []string{"/v2/app/bot-one/backup?env=true", "/v2/app/all/backup?env=true"} {
		if rec := do(t, w.handler(), newRequest(http.MethodGet, path, "")); rec.Code != http.StatusForbidden {
			t.Errorf("%s: %d, %s", path, rec.Code, rec.Body)
		}
	}
}

func TestBoundsOfActions(t *testing.T) {
	w := newWorld(t)
	several(w)
	w.bounds = &app.Bounds{Apps: []app.ID{"bot-one"}, May: app.AllPermissions}
	for _, verb := range []string{"start", "restart", "stop"} {
		if rec := do(t, w.handler(), newRequest(http.MethodPut, "/v2/app/all/"+verb, "")); rec.Code != http.StatusOK {
			t.Errorf("%s: %d, %s", verb, rec.Code, rec.Body)
		}
	}
	for _, call := range w.calls {
		for _, other := range []string{"1745338954955", "crashing", "shop"} {
			if strings.Contains(call, other) {
				t.Errorf("another application was reached: %s", call)
			}
		}
	}
}

// A stream shows what is within the bounds, of the kinds that they allow.
func TestBoundsOfEvents(t *testing.T) {
	logs, status := app.Permissions(0).With(app.LogsApp), app.Permissions(0).With(app.StatusApp)
	for _, tt := range []struct {
		query  string
		may    app.Permissions
		status int
	}{
		{"", status, 200},
		{"", logs, 403},
		{"?app=bot-one&types=log", logs, 200},
		{"?app=bot-one&types=log", status, 403},
		{"?app=bot-one&types=log,exit", logs, 403},
		{"?app=bot-one&types=log,exit", logs | status, 200},
		{"?app=shop", status, 403},
	} {
		w := newWorld(t)
		several(w)
		w.bounds = &app.Bounds{Apps: []app.ID{"bot-one"}, May: tt.may}
		feeding(
			app.Event{ID: 1, At: testNow, Kind: app.RemovedEvent, App: "shop"},
			app.Event{ID: 2, At: testNow, Kind: app.RemovedEvent, App: "bot-one"},
		)(w)
		rec := do(t, w.handler(), newRequest(http.MethodGet, "/v2/events"+tt.query, ""))
		if rec.Code != tt.status || strings.Contains(rec.Body.String(), "shop") || (tt.status == 200) != strings.Contains(rec.Body.String(), `"bot-one"`) {
			t.Errorf("%q with %v: %d, %s", tt.query, tt.may.Names(), rec.Code, rec.Body)
		}
	}
}

// An application that is deleted leaves the bounds of a stream too: that it was deleted is
// the last that is told of it, though the next one has its id.
func TestBoundsOfAnOpenStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		several(w)
		w.bounds = &app.Bounds{Apps: []app.ID{"bot-one"}, May: app.AllPermissions}
		w.feed = make(chan []app.Event)
		rec, done := httptest.NewRecorder(), make(chan struct{})
		h := w.handler()
		go func() {
			defer close(done)
			h.ServeHTTP(rec, newRequest(http.MethodGet, "/v2/events", ""))
		}()
		synctest.Wait()
		w.mu.Lock()
		w.bounds = &app.Bounds{May: app.AllPermissions}
		w.mu.Unlock()
		time.Sleep(web.StreamCheck - 1)
		w.feed <- []app.Event{{ID: 51, At: testNow, Kind: app.RemovedEvent, App: "bot-one"}}
		time.Sleep(web.StreamCheck)
		w.feed <- []app.Event{{ID: 52, At: testNow, Kind: app.RemovedEvent, App: "bot-one"}}
		close(w.feed)
		<-done
		if body := rec.Body.String(); !strings.Contains(body, "id: 51\n") || strings.Contains(body, "id: 52\n") {
			t.Errorf("told %q", body)
		}
	})
}
