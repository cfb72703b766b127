package httpapi

import (
	"mime/multipart"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"berth/app"
)

func historyScenes() []scene {
	const (
		restore  = "/v2/app/{appID}/restore"
		rollback = "/v2/app/{appID}/rollback"
		deploys  = "/v2/app/{appID}/deploys"
	)
	online := func(w *world) { w.deployed = app.Deployed{Snapshot: bot("bot-one"), Logs: "a note\n"} }
	zip := func(*world) *http.Request { return zipRequest("POST", "/v2/app/bot-one/restore", "PK") }
	busy := "The application is being deployed."
	list := []scene{
		{name: "app_deploys_ok", method: "GET", path: "/v2/app/bot-one/deploys", op: deploys},
		{name: "app_deploys_not_found", method: "GET", path: "/v2/app/nobody/deploys", op: deploys},
		{name: "app_deploys_conflict", method: "GET", path: "/v2/app/bot-one/deploys", op: deploys, arrange: failing("Deploys", app.Conflict, busy)},
	}
	back := func(outcome, body string, arrange func(*world)) {
		list = append(list, scene{name: "app_rollback_" + outcome, method: "POST", path: "/v2/app/bot-one/rollback", op: rollback, body: body, arrange: arrange})
	}
	back("ok", "", online)
	back("ok_deploy", `{"deploy":5}`, online)
	back("already", `{"deploy":7}`, failing("Rollback", app.Already, "deploy 7 is the one that the application has now"))
	back("invalid", `{"deploy":0}`, nil)
	back("not_found", `{"deploy":99}`, failing("Rollback", app.NotFound, "there is no deploy 99 in the history of the application"))
	back("conflict", "", failing("Rollback", app.Conflict, busy))
	back("too_large", `{"deploy":1,"x":"`+strings.Repeat("x", maxFields)+`"}`, nil)
	back("unusable", "", func(w *world) {
		w.fail["Rollback"] = &app.Error{Kind: app.Unusable, Message: app.Textf("cannot start the new code"), Logs: "Traceback\n"}
	})
	add := func(outcome string, arrange func(*world), raw func(*world) *http.Request) {
		list = append(list, scene{name: "app_restore_" + outcome, method: "POST", path: "/v2/app/bot-one/restore", op: restore, arrange: arrange, raw: raw})
	}
	add("ok", online, zip)
	add("ok_backup", online, func(w *world) *http.Request {
		return newRequest("POST", "/v2/app/bot-one/restore", `{"backup":"http://api.example.org`+w.addBackup("PK")+`","env":true}`)
	})
	add("not_found", nil, func(*world) *http.Request {
		return newRequest("POST", "/v2/app/bot-one/restore", `{"backup":"http://api.example.org/d/forged/bot-one.zip"}`)
	})
	add("invalid", nil, func(*world) *http.Request { return newRequest("POST", "/v2/app/bot-one/restore", "{}") })
	add("conflict", failing("Restore", app.Conflict, busy), zip)
	add("too_large", func(w *world) { w.config.MaxUpload = 100 }, zip)
	add("unusable", failing("Restore", app.Unusable, "the backup holds no environment variables (.berth/env): make one with env=true, or restore it without them"), zip)
	return list
}

// Every way to name a backup, and every one to get it wrong.
func TestRestoreOfABackup(t *testing.T) {
	for name, tt := range map[string]struct {
		body   func(link string) string
		status int
		called string
		says   string
	}{
		"its url":       {func(l string) string { return `{"backup":"https://a.example` + l + `"}` }, 200, "Restore bot-one false by 7", ""},
		"its path":      {func(l string) string { return `{"backup":"` + l + `","env":false}` }, 200, "Restore bot-one false by 7", ""},
		"its signature": {func(l string) string { return `{"backup":"` + strings.Split(l, "/")[2] + `","env":true}` }, 200, "Restore bot-one true by 7", ""},
		"no text":       {func(string) string { return `{"backup":7}` }, 400, "", "must be a text"},
		"none":          {func(string) string { return `{"backup":""}` }, 400, "", "The field backup is missing"},
		"no boolean":    {func(l string) string { return `{"backup":"` + l + `","env":"yes"}` }, 400, "", "env must be true or false"},
		"a log": {func(string) string {
			return `{"backup":"` + newWorld(t).Sign(app.Link{Kind: app.LinkLog, Object: "bot-one", Expires: testNow.Add(time.Hour)}) + `"}`
		}, 404, "", "not the address of a backup"},
		"another's": {func(string) string {
			return `{"backup":"` + newWorld(t).Sign(app.Link{Kind: app.LinkBackup, Object: "f8-bot-two", Expires: testNow.Add(time.Hour)}) + `"}`
		}, 400, "", "backup of another application, bot-two"},
		"expired": {func(string) string {
			return `{"backup":"` + newWorld(t).Sign(app.Link{Kind: app.LinkBackup, Object: "f8-bot-one", Expires: testNow.Add(-time.Hour)}) + `"}`
		}, 404, "", "not valid or has expired"},
	} {
		w := newWorld(t)
		w.deployed.Snapshot = bot("bot-one")
		rec := do(t, w.handler(), newRequest("POST", "/v2/app/bot-one/restore", tt.body(w.addBackup("PK backup"))))
		if rec.Code != tt.status || !strings.Contains(rec.Body.String(), tt.says) {
			t.Errorf("%s: %d %s", name, rec.Code, rec.Body)
		}
		if called := slices.Contains(w.calls, tt.called); called != (tt.called != "") {
			t.Errorf("%s: called %v", name, w.calls)
		}
		if tt.called != "" && (len(w.handed) != 1 || w.spooled[w.handed[0]] != "PK backup") {
			t.Errorf("%s: handed over %v of %v", name, w.handed, w.spooled)
		}
	}
}

// A form says whether the variables are meant, before its file, or the query does.
func TestRestoreOfAFile(t *testing.T) {
	for name, tt := range map[string]struct {
		query, field string
		status       int
		with         string
	}{
		"nothing":       {"", "", 200, "false"},
		"field":         {"", "true", 200, "true"},
		"field says no": {"?env=true", "false", 200, "false"},
		"query":         {"?env=true", "", 200, "true"},
		"odd field":     {"", "yes", 400, ""},
		"odd query":     {"?env=1", "", 400, ""},
	} {
		w := newWorld(t)
		w.deployed.Snapshot = bot("bot-one")
		r := formRequest("POST", "/v2/app/bot-one/restore"+tt.query, func(m *multipart.Writer) {
			_ = m.WriteField("other", "text")
			if tt.field != "" {
				_ = m.WriteField("env", tt.field)
			}
			f, _ := m.CreateFormFile("anything", "a.zip")
			_, _ = f.Write([]byte("PK file"))
		})
		rec := do(t, w.handler(), r)
		if rec.Code != tt.status || tt.with != "" && (!slices.Contains(w.calls, "Restore bot-one "+tt.with+" by 7") || w.spooled[w.handed[0]] != "PK file") {
			t.Errorf("%s: %d %s, called %v", name, rec.Code, rec.Body, w.calls)
		}
	}
}

// An upload can ask that its program is not started.
func TestStoppedUpload(t *testing.T) {
	for query, tt := range map[string]struct {
		status  int
		stopped bool
	}{
		"":                           {200, false},
		"?stopped=false":             {200, false},
		"?stopped=true":              {200, true},
		"?stopped=1":                 {400, false},
		"?stopped=true&stopped=true": {400, false},
	} {
		w := newWorld(t)
		w.deployed.Snapshot = bot("bot-new")
		rec := do(t, w.handler(), formRequest("POST", "/v2/upload"+query, func(m *multipart.Writer) {
			f, _ := m.CreateFormFile("file", "a.zip")
			_, _ = f.Write([]byte("PK file"))
		}))
		if rec.Code != tt.status || slices.Contains(w.calls, "Stopped") != tt.stopped || slices.Contains(w.calls, "Upload") != (tt.status == 200) {
			t.Errorf("%q: %d %s, called %v", query, rec.Code, rec.Body, w.calls)
		}
	}
}

// A commit is exact by its query, or by a field of its form before the file, also that of
// a member.
func TestExactCommit(t *testing.T) {
	for name, tt := range map[string]struct {
		query, field string
		status       int
		exact        bool
	}{
		"nothing":       {"", "", 200, false},
		"field":         {"", "true", 200, true},
		"field says no": {"?exact=true", "false", 200, false},
		"query":         {"?exact=true", "", 200, true},
		"query says no": {"?exact=false", "", 200, false},
		"odd field":     {"", "yes", 400, false},
		"odd query":     {"?exact=1", "", 400, false},
		"twice":         {"?exact=true&exact=true", "", 400, false},
	} {
		for _, path := range []string{"/v2/app/bot-one/commit", "/v2/team/bot-one/commit"} {
			w := newWorld(t)
			w.deployed.Snapshot = bot("bot-one")
			if strings.Contains(path, "team") {
				w.join(app.AllPermissions)
			}
			r := formRequest("PUT", path+tt.query, func(m *multipart.Writer) {
				if tt.field != "" {
					_ = m.WriteField("exact", tt.field)
				}
				f, _ := m.CreateFormFile("file", "a.zip")
				_, _ = f.Write([]byte("PK file"))
			})
			rec := do(t, w.handler(), r)
			if rec.Code != tt.status || slices.Contains(w.calls, "Exact bot-one") != tt.exact || slices.Contains(w.calls, "Commit bot-one") != (tt.status == 200) {
				t.Errorf("%s, %s: %d %s, called %v", path, name, rec.Code, rec.Body, w.calls)
			}
			w.checkSpools(t)
		}
	}
}

// Neither is for members of a team, whatever they may.
func TestHistoryIsTheOwners(t *testing.T) {
	for method, path := range map[string]string{"POST": "/v2/team/bot-one/restore", "PUT": "/v2/team/bot-one/rollback", "GET": "/v2/team/bot-one/deploys"} {
		w := newWorld(t)
		w.join(app.AllPermissions)
		if rec := do(t, w.handler(), newRequest(method, path, "")); rec.Code != 404 {
			t.Errorf("%s: %d %s", path, rec.Code, rec.Body)
		}
	}
}

func TestRollbackBodies(t *testing.T) {
	for body, want := range map[string]string{
		"": "Rollback bot-one 0 by 7", "{}": "Rollback bot-one 0 by 7", `{"deploy":null}`: "Rollback bot-one 0 by 7", `{"deploy":5}`: "Rollback bot-one 5 by 7",
		`{"deploy":-1}`: "", `{"deploy":"5"}`: "", `{"deploy":1.5}`: "", `{"deploy":99999999999}`: "", "[]": "",
	} {
		w := newWorld(t)
		w.deployed.Snapshot = bot("bot-one")
		rec := do(t, w.handler(), newRequest("POST", "/v2/app/bot-one/rollback", body))
		if (rec.Code == 200) != (want != "") || want != "" && !slices.Contains(w.calls, want) || want == "" && rec.Code != 400 {
			t.Errorf("%s: %d %s, called %v", body, rec.Code, rec.Body, w.calls)
		}
	}
}

// The history tells who sent a commit, not whose application it is.
func TestCommitsAreTheSenders(t *testing.T) {
	for path, by := range map[string]string{"/v2/app/bot-one/commit": "CommitBy 7", "/v2/team/bot-one/commit": "CommitBy 8"} {
		w := newWorld(t)
		w.deployed.Snapshot = bot("bot-one")
		if strings.HasPrefix(path, "/v2/team") {
			w.join(app.AllPermissions)
		}
		r := zipRequest("PUT", path, "PK")
		if rec := do(t, w.handler(), r); rec.Code != 200 || !slices.Contains(w.calls, by) {
			t.Errorf("%s: %d %s, called %v", path, rec.Code, rec.Body, w.calls)
		}
	}
}
