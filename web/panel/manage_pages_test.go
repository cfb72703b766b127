package panel

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"berth/app"
	"berth/host/sizing"
)

// Every page says everything in every language, whatever names there are, and has
// nothing that the policy forbids; a member sees what it may, and nothing else.
func TestEveryManagingPage(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	seed(w)
	w.host.add(w.ana.ID, "running", func(s *app.Snapshot) { s.Name = "<script>" })
	backups := goodBackups()
	backups.Good.Missing, backups.Last, backups.KeyShown = []app.ID{"running"}, &app.BackupRun{Ended: time.Now(), Error: "<script>"}, false
	backups.Running, backups.Fixed = &app.BackupRun{Began: time.Now()}, []string{"backups.at"}
	w.backups.set(backups)
	pages := map[string]string{ // and what each says of this world
		"/apps/shop/env": "****1234", "/apps/shop/domains": "berth-proof=", "/apps/bot/domains": "TYPE=site",
		"/apps/shop/backups": "/d/signed-shop.0123.zip/shop.zip", "/apps/bot/backups": "/apps/bot/snapshots/20261126T031500Z/copy", "/apps/shop/settings": `value="The shop"`, "/apps/running/settings": "&lt;script&gt;",
		"/apps/shop/files": "&lt;script&gt;alert(1)", "/apps/shop/files?path=src": "", "/apps/shop/files?path=many": "",
		"/apps/shop/files/view?path=index.js": "&lt;/textarea&gt;", "/apps/shop/files/view?path=data.bin": "", "/apps/shop/files/view?path=large.txt": "",
		"/apps/shop/commit": "data-drop", "/upload": "data-drop", "/host": "bob", "/host/audit": "app.start",
		"/host/audit?account=ana&app=shop&operation=env.set": "env.set",
	}
	for _, locale := range app.Locales {
		must(t, w.config.Accounts.SetLocale(t.Context(), w.ana.ID, locale))
		b := w.as("ana")
		b.post("/host/doctor")
		w.work.Wait()
		for path, says := range pages {
			p := b.get(path)
			p.want(t, path, http.StatusOK, says, `<html lang="`+locale+`"`)
			for _, never := range []string{"<script>", "%!", " style=", "<style", " onclick=", "javascript:", "\u202e", "&lt;b&gt; <"} {
				if strings.Contains(p.body, never) {
					t.Errorf("%s in %s has %q", path, locale, never)
				}
			}
		}
	}
	w.as("ana").get("/host").want(t, "the doctor", http.StatusOK, "full &lt;b&gt;", "apt install php-cli", "Node.js 22.11.0", "berth runtime install node 22")
	b := w.as("bob") // who may start, and make backups
	for path, status := range map[string]int{
		"/apps/shop/env": 404, "/apps/shop/domains": 404, "/apps/shop/settings": 403, "/apps/shop/commit": 403,
		"/apps/shop/backups": 200, "/apps/shop/files": 200, "/apps/shop/files/view?path=index.js": 200, "/host": 404, "/host/audit": 404,
		"/apps/bot/files": 404, "/apps/bot/backups": 404,
	} {
		b.get(path).want(t, "a member at "+path, status)
	}
	if p := b.get("/apps/shop/backups"); strings.Contains(p.body, "signed-") || strings.Contains(p.body, `name="env"`) {
		t.Error("a member sees the owner's backups, or can ask for variables")
	}
	if p := b.get("/apps/shop/files/view?path=index.js"); strings.Contains(p.body, "<textarea") {
		t.Error("a member can edit")
	}
	b.post("/apps/shop/backups", "env", "true").want(t, "with variables", http.StatusForbidden, "is only for the application&#39;s owner")
	next := b.post("/apps/shop/backups").leads(t, "a backup", "/apps/shop/backups")
	b.get(next).want(t, "its link", http.StatusOK, "/d/signed-shop.made.zip/shop.zip")
	must(t, onlyError(w.config.Teams.SetMember(t.Context(), w.ana.ID, "shop", w.bob.ID, []string{"edit_ram"})))
	if p := b.get("/apps/shop/settings"); !strings.Contains(p.body, `name="ram"`) || strings.Contains(p.body, "/team") || strings.Contains(p.body, "/delete") {
		t.Error("who may set the RAM does not see that alone")
	}
}

// A file comes as it is and is never shown as a page, whatever its name.
func TestDownloadFile(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	seed(w)
	name := "a\"b\n\xff\u202e.html"
	w.host.texts[name] = "<script>alert(1)</script>"
	b := w.as("ana")
	p := b.get("/apps/shop/files/download?" + query("path", name))
	if p.StatusCode != http.StatusOK || p.body != w.host.texts[name] || p.Header.Get("Content-Type") != "application/octet-stream" ||
		!strings.HasPrefix(p.Header.Get("Content-Disposition"), "attachment; filename") || !strings.Contains(p.Header.Get("Content-Security-Policy"), "sandbox") {
		t.Errorf("%d, %v", p.StatusCode, p.Header)
	}
	if act := w.acts.last(); act.Operation != "file.read" || act.App != "shop" {
		t.Errorf("the audit log has %+v", act)
	}
	b.get("/apps/shop/files/download?path=none").want(t, "no file", http.StatusNotFound, "There is no such file.")
	b.get("/apps/shop/files?path=%zz").want(t, "no address", http.StatusBadRequest, "This address is malformed.")
}

// A text keeps the ends of its lines, and a file that is sent its bytes.
func TestWriteFiles(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	seed(w)
	b := w.as("ana")
	w.host.texts["dos.txt"], w.host.texts["start.sh"] = "a\r\nb\r\n", "#!/bin/sh\necho a\r\necho b\n"
	for name, want := range map[string]bool{"dos.txt": true, "index.js": false, "start.sh": false} {
		if got := strings.Contains(b.get("/apps/shop/files/view?path="+name).body, `name="crlf"`); got != want {
			t.Errorf("%s: its page keeps CR LF: %v", name, got)
		}
	}
	b.post("/apps/shop/files/write", "path", "index.js", "text", "a\r\nb\r\n", "was", string(app.OverText([]byte(w.host.texts["index.js"]))))
	b.post("/apps/shop/files/write", "path", "dos.txt", "text", "a\r\nc\r\n", "crlf", "true", "was", string(app.OverText([]byte("a\r\nb\r\n"))))
	b.upload("/apps/shop/files/upload?path=src", "\x00PK\r\n").leads(t, "a file", "/apps/shop/files?path=src")
	for name, want := range map[string]string{"index.js": "a\nb\n", "dos.txt": "a\r\nc\r\n", "src/app.zip": "\x00PK\r\n"} {
		if got := w.host.texts[name]; got != want {
			t.Errorf("%s holds %q", name, got)
		}
	}
	if act := w.acts.last(); act.Operation != "file.write" || act.Detail != `path="src" first="src/app.zip" files=1 bytes=5 refused=0 replace=false` {
		t.Errorf("the audit log has %+v", act)
	}
	before := len(w.host.texts)
	for _, name := range []string{"..", ".", "a/.."} {
		body, kind := zipForm(t, "x")
		body = bytes.Replace(body, []byte("app.zip"), []byte(name), 1)
		p := b.sendTo("/apps/shop/files/upload?path=src", kind, bytes.NewReader(body))
		if p.StatusCode != http.StatusConflict || len(w.host.texts) != before {
			t.Errorf("%q is taken for a name", name)
		}
	}
}

// What is typed does not go over what somebody else has written meanwhile, unless that is said.
func TestFileChangedMeanwhile(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	seed(w)
	b := w.as("ana")
	was := string(app.OverText([]byte(w.host.texts["index.js"])))
	b.get("/apps/shop/files/view?path=index.js").want(t, "the editor", http.StatusOK, `name="was" value="`+was+`"`, "Save and restart")
	w.host.texts["index.js"] = "of the program"
	p := b.post("/apps/shop/files/write", "path", "index.js", "text", "typed <b>\r\n", "was", was)
	now := string(app.OverText([]byte("of the program")))
	p.want(t, "changed", http.StatusConflict, "has written this file since you opened it", "It has 14 B now.", "typed &lt;b&gt;", "Save anyway",
		`name="over" value="`+now+`"`, `href="/apps/shop/files/view?path=index.js"`, `name="was" value="`+was+`"`)
	p.lacks(t, "changed", "data-save")
	if w.host.texts["index.js"] != "of the program" {
		t.Error("it was written over")
	}
	w.host.texts["index.js"] = "of the program again"
	b.post("/apps/shop/files/write", "path", "index.js", "text", "typed", "was", was, "over", now).want(t, "changed again", http.StatusConflict, "It has 20 B now.")
	now = string(app.OverText([]byte(w.host.texts["index.js"])))
	b.post("/apps/shop/files/write", "path", "index.js", "text", "typed", "was", was, "over", now).leads(t, "anyway", "/apps/shop/files/view?path=index.js")
	if act := w.acts.last(); w.host.texts["index.js"] != "typed" || act.Detail != `path="index.js" bytes=5 over=true` {
		t.Errorf("it holds %q; the audit log has %+v", w.host.texts["index.js"], act)
	}
	b.post("/apps/shop/files/write", "path", "gone", "text", "typed", "was", was).want(t, "removed", http.StatusConflict, "has removed this file since you opened it", `name="over" value="*"`)
}

// A text is saved and the program is started anew at once; when that fails, both is said.
func TestSaveAndRestart(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	seed(w)
	b := w.as("ana")
	was := func() string { return string(app.OverText([]byte(w.host.texts["index.js"]))) }
	next := b.post("/apps/shop/files/write", "path", "index.js", "text", "a", "was", was(), "then", "run").leads(t, "a restart", "/apps/shop")
	b.get(next).want(t, "the overview", http.StatusOK, "The file was saved, and The shop was restarted.")
	if act := w.acts.last(); act.Operation != "file.write" || act.Detail != `path="index.js" bytes=1 restart=true` {
		t.Errorf("the audit log has %+v", act)
	}
	w.host.add(w.ana.ID, "down", func(s *app.Snapshot) { s.Running, s.State = false, app.Stopped })
	next = b.post("/apps/down/files/write", "path", "index.js", "text", "c", "was", was(), "then", "run").leads(t, "a start", "/apps/down")
	b.get(next).want(t, "its overview", http.StatusOK, "The file was saved, and", "was started.")
	w.host.fail = app.Errorf(app.Exhausted, "there is no RAM")
	p := b.post("/apps/shop/files/write", "path", "index.js", "text", "b", "was", was(), "then", "run")
	p.want(t, "no file", http.StatusUnprocessableEntity, "There is no RAM.")
}

// A new account gets a link, which sets its password.
func TestNewAccountBySetupLink(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	seed(w)
	b := w.as("ana")
	next := b.post("/host/accounts", "name", "eve", "ram", "100").leads(t, "the account", "/host")
	p := b.get(next)
	_, rest, found := strings.Cut(p.body, b.base+"/setup/")
	key, _, _ := strings.Cut(rest, `"`)
	if !found || strings.Contains(b.get(next).body+b.get("/host").body, "/setup/") {
		t.Fatal("there is no link, or it is shown twice")
	}
	w.browser().post("/setup/"+key, "name", "eve", "password", "battery staple", "again", "battery staple").leads(t, "the password", "/login?kept=&next=%2Ffirst-steps")
	b.post("/host/accounts/3/disable")
	if p := w.browser().post("/login", "name", "eve", "password", "battery staple"); p.StatusCode == http.StatusSeeOther && !strings.Contains(p.Header.Get("Location"), "login") {
		t.Errorf("a disabled account signs in: %d", p.StatusCode)
	}
}

// The log is read in pages, newest first, by what is asked for.
func TestAuditPages(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	seed(w)
	var all []app.AuditRecord
	for i := range auditPage + 3 {
		all = append(all, app.AuditRecord{At: time.Now(), Actor: w.bob.ID, Name: "bob", Operation: "app.start", App: "shop", Detail: fmt.Sprintf("number=%d.", i), Status: 200})
	}
	all = append(all, app.AuditRecord{At: time.Now(), Actor: app.Stranger, Operation: "session.failed", Detail: "<b>", Status: 401, Refusal: "No."}, app.AuditRecord{At: time.Now(), Operation: "account.create"})
	at := time.Date(2026, 3, 4, 23, 5, 0, 0, time.UTC)
	all = append(all, app.AuditRecord{At: at, Operation: "account.create"})
	must(t, w.db.Audit.Record(t.Context(), all...))
	b := w.as("ana")
	// Scripts write it in the reader's zone; without them it says which it is in.
	b.get("/host/audit?operation=account.create").want(t, "a time", http.StatusOK, `<time datetime="2026-03-04T23:05:00Z" data-moment>2026-03-04 23:05 UTC</time>`)
	b.get("/host/audit").want(t, "all", http.StatusOK, "&lt;b&gt;", "401 No.", "somebody unknown", "owner of the host")
	p := b.get("/host/audit?account=bob&operation=app.start")
	p.want(t, "one account", http.StatusOK, fmt.Sprintf("number=%d.", auditPage+2), "number=3.", "Older ones")
	if strings.Contains(p.body, "number=2.") || strings.Contains(p.body, "session.failed") {
		t.Error("there is more than was asked for")
	}
	_, rest, _ := strings.Cut(p.body, `class="button" href="`)
	older, _, _ := strings.Cut(rest, `"`)
	p = b.get(strings.ReplaceAll(older, "&amp;", "&"))
	p.want(t, "the older ones", http.StatusOK, "number=2.", "number=0.")
	if strings.Contains(p.body, "number=3.") || strings.Contains(p.body, "Older ones") {
		t.Error("a record is there twice")
	}
	b.get("/host/audit?account=nobody").want(t, "no account", http.StatusNotFound)
	b.get("/host/audit?account=77&app=none").want(t, "a deleted account", http.StatusOK, "No record matches.")
}

// The page of the host warns of a panel that others reach in plain HTTP.
func TestHostWarnsOfPlainHTTP(t *testing.T) {
	t.Parallel()
	const warning = "others read passwords &lt;here&gt;"
	for _, exposed := range []app.Text{{}, app.Words("others read passwords <here>")} {
		w := newWorld(t, func(c *Config) { c.Exposed = exposed })
		seed(w)
		page := w.as("ana").get("/host")
		if page.StatusCode != http.StatusOK || strings.Contains(page.body, warning) == exposed.IsZero() {
			t.Errorf("status %d, for the warning %q the page is %s", page.StatusCode, exposed, page.body)
		}
	}
}

// Administrators read on every page that the host holds its programs; others do not.
func TestPagesTellOfAHold(t *testing.T) {
	t.Parallel()
	hold := app.Hold{}
	w := newWorld(t, func(c *Config) { c.Held = func() app.Hold { return hold } })
	seed(w)
	for _, hold = range []app.Hold{{}, {Why: app.HoldRestored, Peer: "<old>"}} {
		for who, admin := range map[string]bool{"ana": true, "bob": false} {
			for _, path := range []string{"/", "/account"} {
				page := w.as(who).get(path)
				if page.StatusCode != http.StatusOK || strings.Contains(page.body, "his host was restored from a backup of &lt;old&gt; and holds its programs") != (admin && hold.Why != "") {
					t.Errorf("%s at %s, with the hold %v: status %d, %s", who, path, hold, page.StatusCode, page.body)
				}
			}
		}
	}
}

// The page of the host tells of a shortage of memory, and of one that is over for a day.
func TestHostTellsOfAShortage(t *testing.T) {
	t.Parallel()
	grown := []app.Grown{{App: "1700000000001", Name: "leak <1>", Used: 90 << 20, Usual: 40 << 20}, {App: "blog", Name: "calm", Used: 20 << 20, Usual: 30 << 20}}
	since := time.Now().Add(-time.Hour)
	for name, tt := range map[string]struct {
		app.Shortage
		want, not string
	}{
		"none":  {app.Shortage{}, "Capacity", "short of memory"},
		"lasts": {app.Shortage{Since: since, Available: 20, Total: 1024, Order: grown}, "with 20 of 1024 MB available. Builds and starts wait", "was short of memory"},
		"order": {app.Shortage{Since: since, Order: grown}, "leak &lt;1&gt; (1700000000001) used 90 MB, 50 MB more than expected of it</li><li>calm (blog) used 20 MB, not more", "<1>"},
		"over":  {app.Shortage{Since: since, Until: since.Add(90 * time.Second), Available: 20, Total: 1024}, "with 20 of 1024 MB available, and lasted 1 min", "is short of memory"},
		"old":   {app.Shortage{Since: since.Add(-48 * time.Hour), Until: since.Add(-24 * time.Hour)}, "Capacity", "short of memory"},
	} {
		w := newWorld(t, func(c *Config) { c.Shortage = func() app.Shortage { return tt.Shortage } })
		seed(w)
		if page := w.as("ana").get("/host"); page.StatusCode != http.StatusOK || !strings.Contains(page.body, tt.want) || strings.Contains(page.body, tt.not) {
			t.Errorf("%s: status %d, %s", name, page.StatusCode, page.body)
		}
	}
}

// Who looks at the page begins an examination, unless the last one is new, and does not wait
// for it. Its verdict is that of berth doctor.
func TestHostIsExamined(t *testing.T) {
	t.Parallel()
	var found []app.Finding
	var times atomic.Int32
	goOn := make(chan struct{})
	w := newWorld(t, func(c *Config) {
		c.Examine = func(context.Context) []app.Finding {
			times.Add(1)
			<-goOn
			return found
		}
	})
	seed(w)
	must(t, onlyError(w.db.Accounts.UpdateAccount(t.Context(), w.ana.ID, func(a *app.Account, _ app.MB) error { a.Admin = true; return nil })))
	b := w.as("ana")
	for range 3 {
		b.get("/host").want(t, "the page", http.StatusOK, "berth is checking the host.", `data-poll="doctor"`)
	}
	good, warned, failed := app.Finding{Name: "disk", Verdict: app.Good}, app.Finding{Name: "quota", Verdict: app.Dubious}, app.Finding{Name: "limit", Verdict: app.Bad}
	for i, c := range []struct {
		found               []app.Finding
		class, en, ptBR, es string
	}{
		{[]app.Finding{good}, "good", "Ready", "Pronto", "Listo"},
		{[]app.Finding{warned, good}, "busy", "Ready, 1 warning", "Pronto, 1 aviso", "Listo, 1 advertencia"},
		{[]app.Finding{warned, good, warned}, "busy", "Ready, 2 warnings", "Pronto, 2 avisos", "Listo, 2 advertencias"},
		{[]app.Finding{good, failed}, "bad", "Not ready: limit", "Não está pronto: limit", "No está listo: limit"},
		{[]app.Finding{failed, warned}, "bad", "Not ready: limit; 1 warning", "Não está pronto: limit; 1 aviso", "No está listo: limit; 1 advertencia"},
		{[]app.Finding{failed, warned, warned}, "bad", "Not ready: limit; 2 warnings", "Não está pronto: limit; 2 avisos", "No está listo: limit; 2 advertencias"},
	} {
		found = c.found
		if i == 0 {
			close(goOn)
		} else {
			b.post("/host/doctor")
		}
		w.work.Wait()
		for locale, says := range map[string]string{"en-US": c.en, "pt-BR": c.ptBR, "es": c.es} {
			must(t, w.config.Accounts.SetLocale(t.Context(), w.ana.ID, locale))
			p := b.get("/host")
			p.want(t, c.en, http.StatusOK, `<div class="counts `+c.class+`"><p class="state">`, "<span>"+says+"</span>")
			if strings.Contains(p.body, "data-poll") || strings.Contains(p.body, "<details open>") != (c.class == "bad") {
				t.Errorf("%s: %s", c.en, p.body)
			}
		}
		if n := int(times.Load()); n != i+1 {
			t.Errorf("%s: the host was examined %d times", c.en, n)
		}
	}
}

// The limits of an account are on its own page and on the administrators', with what it has.
func TestLimitsAreShown(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	seed(w)
	own := func(p page) string { return strings.Join(strings.Fields(p.body), " ") }
	if body := own(w.as("ana").get("/account")); !strings.Contains(body, "<dt>Disk</dt><dd>42 MB</dd>") || strings.Contains(body, "<dt>Processor</dt>") {
		t.Errorf("without limits the page shows %s", body)
	}
	w.as("ana").post(fmt.Sprintf("/host/accounts/%d/limits", w.ana.ID), "disk", "1024", "apps", "9", "cpu", "150", "builds", "2", "backups", "3").want(t, "limits", http.StatusSeeOther)
	apps := len(w.host.Apps(w.ana.ID))
	body := own(w.as("ana").get("/account"))
	for _, says := range []string{
		fmt.Sprintf("<dd>%d of 9</dd>", apps), "<dd>42 MB of 1 GB</dd>", "<dd>1 of 3</dd>", "<dd>150 % of one, for all applications together</dd>", "<dt>Builds at once</dt><dd>2</dd>",
	} {
		if !strings.Contains(body, says) {
			t.Errorf("the account's page lacks %q: %s", says, body)
		}
	}
	body = own(w.as("ana").get("/host"))
	for _, says := range []string{fmt.Sprintf("%d of 9 applications", apps), `name="disk" type="number" min="0" class="short" value="1024"`, `name="cpu" type="number" min="0" class="short" value="150"`} {
		if !strings.Contains(body, says) {
			t.Errorf("the page of the host lacks %q", says)
		}
	}
}

// The page Host says what of the RAM is sold, used, and can still be sold.
func TestPlanOfTheHost(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	must(t, onlyError(w.db.Accounts.UpdateAccount(t.Context(), w.ana.ID, func(a *app.Account, _ app.MB) error { a.Admin = true; return nil })))
	b := w.as("ana")
	w.plan = sizing.Plan(app.RAMPlan{Host: 4352, Reserve: 256, Overcommit: 1, Capacity: 4096, Promised: 6144, Given: 4500, Apps: 31, Used: 900 << 20})
	p := b.get("/host")
	p.want(t, "at first", http.StatusOK, "4500 of 4096 MB of RAM assigned to applications", "6144 MB promised to accounts", "31 applications",
		"900 MB", "not measured yet", "Nothing was measured yet: after 7 days berth can say what more you can sell.", "404 too many", "<td>3692</td>")
	p.lacks(t, "at first", `class="good">fits`, "That was")
	w.plan.Worst, w.plan.Days = app.RAMMoment{At: time.Now().Add(-24 * time.Hour), Used: 1640 << 20, Had: 4000, Apps: 20}, 30
	w.plan = sizing.Plan(w.plan)
	b.get("/host").want(t, "after 30 days", http.StatusOK, "1.6 GB of 3.9 GB", "That was", `41 % <span class="good">fits</span>`, `82 % <span class="busy">tight</span>`,
		`123 % <span class="bad">too much</span>`, `aria-current="true"><th scope="row">1</th>`, "with host.overcommit 1.5 that would still fit.",
		"it misses peaks between samples")
}

// Files are made, moved and deleted by forms; a deletion is asked about first.
func TestEditFiles(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	seed(w)
	b := w.as("ana")
	b.get("/apps/shop/files").want(t, "the list", http.StatusOK, `action="/apps/shop/files/new"`, `formaction="/apps/shop/files/move"`, `form="chosen"`)
	b.post("/apps/shop/files/new", "dir", "src", "name", "cogs", "kind", "dir").leads(t, "a directory", "/apps/shop/files?path=src%2Fcogs")
	if act := w.acts.last(); act.Operation != "file.make" || act.Detail != `path="src" new="src/cogs"` {
		t.Errorf("the audit log has %+v", act)
	}
	b.post("/apps/shop/files/new", "name", "config.json", "kind", "file").leads(t, "a file", "/apps/shop/files/view?path=config.json")
	b.post("/apps/shop/files/new", "name", "index.js", "kind", "file").want(t, "a name that is taken", http.StatusConflict, "Something has this name already.", "index.js")
	b.post("/apps/shop/files/move", "dir", ".", "path", "index.js", "to", "main.js").leads(t, "another name", "/apps/shop/files?path=.")
	b.post("/apps/shop/files/move", "dir", ".", "path", "index.js", "path", "a", "to", "src/").leads(t, "another directory", "/apps/shop/files?path=.")
	b.post("/apps/shop/files/move", "dir", ".", "path", "a", "path", "b", "to", "none").want(t, "no directory", http.StatusNotFound, "There is no directory")
	b.post("/apps/shop/files/move", "dir", ".", "to", "src").want(t, "nothing", http.StatusBadRequest, "Choose the files first.")
	b.post("/apps/shop/files/move", "dir", ".", "path", "%zz", "to", "src").want(t, "a form that is none", http.StatusBadRequest, "The form could not be read.")
	done := len(w.host.done)
	p := b.post("/apps/shop/files/delete", "dir", "src", "path", "src%2Fa%E2%80%AE%3Cb%3E", "path", "src/b")
	p.want(t, "a question", http.StatusOK, "Delete 2 files for good?", `src/a\u202e&lt;b&gt;`, `href="/apps/shop/files?path=src"`, `name="sure" value="true"`, `value="src%2Fa%E2%80%AE%3Cb%3E"`)
	p.lacks(t, "a question", "\u202e")
	if len(w.host.done) != done {
		t.Errorf("done before it was sure: %v", w.host.done[done:])
	}
	b.post("/apps/shop/files/delete", "dir", "src", "path", "src/a", "path", "src/b", "sure", "true").leads(t, "sure", "/apps/shop/files?path=src")
	b.post("/apps/shop/files/delete", "sure", "true").want(t, "nothing to delete", http.StatusBadRequest, "Choose the files first.")
	if act := w.acts.last(); act.Operation != "file.delete" {
		t.Errorf("the audit log has %+v", act)
	}
	want := "make src/cogs shop, write config.json shop, move index.js to main.js shop, move index.js to src/index.js shop, move a to src/a shop, delete src/a,src/b shop"
	if got := strings.Join(w.host.done, ", "); got != want {
		t.Errorf("done: %s\nwant: %s", got, want)
	}
}
