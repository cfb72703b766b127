package daemon

import (
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"

	"berth/app"
	"berth/db"
	"berth/host/account"
)

// Nobody can find out which applications others have: every operation answers
// for another's as for one that is not.
func TestIDsCannotBeProbed(t *testing.T) {
	s := testSettings(t)
	s.RateLimit = 1_000_000
	d, err := openDaemon(t.Context(), s, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer d.undo.close()
	ids := db.IDRange{UIDBase: 70000, UIDCount: 10, PortFirst: 20000, PortLast: 20009}
	for _, name := range []string{"ana", "bob"} {
		if _, err := d.data.db.Accounts.CreateAccount(t.Context(), app.Account{Name: name, TotalRAM: 512, Plan: "Diamond", Locale: "en-US"}); err != nil {
			t.Fatal(err)
		}
	}
	theirs, err := d.data.db.Allocations(ids).Reserve(t.Context(), app.App{ID: "theirs", Account: 1, RAM: 100, Wanted: app.WantStopped}, func(app.Account, app.Use) error { return nil })
	if err == nil {
		_, err = d.data.db.Apps.CreateApp(t.Context(), theirs, app.Deploy{Kind: app.DeployUpload})
	}
	if err == nil {
		err = d.host.Boot(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	token, _, err := account.New(d.data.db.Accounts).IssueToken(t.Context(), app.Token{Account: 2})
	if err != nil {
		t.Fatal(err)
	}
	requestID := regexp.MustCompile(`"requestId":"[^"]*"`)
	ask := func(method, path, id string) (int, string) {
		path = strings.NewReplacer("{appID}", id, "{modID}", "1", "{name}", "TOKEN", "{domain}", "shop.example.org").Replace(path)
		body := `{"ramMB":100,"name":"x","env":{"A":"b"},"apt":"ffmpeg","command":"true","line":"x","modID":"1","perms":["logs_app"],` +
			`"appID":"` + id + `","newAppID":"` + id + `","domainName":"shop.example.org"}`
		r := httptest.NewRequestWithContext(t.Context(), method, path, strings.NewReader(body))
		r.Header.Set("api-token", token)
		r.Header.Set("Content-Type", "application/json")
		rec := httptest.NewRecorder()
		d.handler.ServeHTTP(rec, r)
		return rec.Code, strings.ReplaceAll(requestID.ReplaceAllString(rec.Body.String(), ""), id, "ID")
	}
	tried := 0
	for method, path := range operationsOf(t, d.handler) {
		if !strings.Contains(path, "{appID}") && !strings.Contains(path, "customdomain/create") {
			continue
		}
		tried++
		status, body := ask(method, path, "theirs")
		statusNone, bodyNone := ask(method, path, "no-one")
		if status != statusNone || body != bodyNone {
			t.Errorf("%s %s: %d %s for another's, %d %s for none", method, path, status, body, statusNone, bodyNone)
		}
		if status != http.StatusNotFound && !strings.Contains(path, "/ws/") {
			t.Errorf("%s %s: %d %s", method, path, status, body)
		}
	}
	if tried < 30 {
		t.Errorf("%d operations were tried", tried)
	}
	if all, err := d.data.db.Apps.Apps(t.Context()); err != nil || len(all) != 1 || all[0].RAM != 100 {
		t.Errorf("the application is %+v, %v", all, err)
	}
}

// operationsOf yields the methods and paths that the API says it has.
func operationsOf(t *testing.T, h http.Handler) func(yield func(method, path string) bool) {
	t.Helper()
	rec := httptest.NewRecorder()
	h.ServeHTTP(rec, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/v2/openapi.json", nil))
	var document struct {
		Paths map[string]map[string]json.RawMessage `json:"paths"`
	}
	if err := json.Unmarshal(rec.Body.Bytes(), &document); err != nil {
		t.Fatal(err)
	}
	return func(yield func(method, path string) bool) {
		for path, methods := range document.Paths {
			for method := range methods {
				if method == "parameters" {
					continue
				}
				if !yield(strings.ToUpper(method), path) {
					return
				}
			}
		}
	}
}
