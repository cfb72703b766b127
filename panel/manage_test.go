package panel

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"berth/app"
)

// changes is every form that manages an application or a host: what is posted, what
// a member of the team needs for it, and what the audit log calls it.
var changes = []struct {
	path   string
	form   []string
	needs  app.Permission // 0: the owner alone
	admin  bool
	status int // of who may
	audit  string
	done   string // what the host was asked for
}{
	{"/apps/shop/env", []string{"name", "A", "value", "x"}, 0, false, 303, "env.set", "set variables shop"},
	{"/apps/shop/env", []string{"block", "A=1\nB=2"}, 0, false, 303, "env.set", "set variables shop"},
	{"/apps/shop/env/reveal", []string{"name", "TOKEN"}, 0, false, 200, "env.reveal", ""},
	{"/apps/shop/env/remove", []string{"name", "DEBUG"}, 0, false, 303, "env.remove", "remove variable shop"},
	{"/apps/shop/files/write", []string{"path", "index.js", "text", "x"}, 0, false, 303, "file.write", "write index.js shop"},
	{"/apps/shop/domains", []string{"domain", "a.example.org"}, 0, false, 303, "domain.claim", "claim a.example.org shop"},
	{"/apps/shop/domains/shop.example.org/verify", nil, 0, false, 303, "domain.verify", "verify shop.example.org"},
	{"/apps/shop/domains/shop.example.org/remove", nil, 0, false, 303, "domain.remove", "remove shop.example.org"},
	{"/apps/shop/backups", nil, app.BackupApp, false, 303, "app.backup", "backup false shop"},
	{"/apps/shop/ram", []string{"ram", "200"}, app.EditRAM, false, 303, "app.ram", "ram 200 shop"},
	{"/apps/shop/restore", []string{"backup", "shop.0123.zip", "sure", "true", "env", "true"}, 0, false, 303, "app.restore", "restore content of shop.0123.zip true shop"},
	{"/apps/shop/profile", []string{"name", "New", "avatar", ""}, 0, false, 303, "app.profile", "profile New  shop"},
	{"/apps/shop/autorestart", []string{"on", "true"}, 0, false, 303, "app.autorestart", "autorestart true shop"},
	{"/apps/shop/team", []string{"account", "3", "permission", "stop_app"}, 0, false, 303, "team.add", ""},
	{"/apps/shop/team/2", []string{"permission", "stop_app"}, 0, false, 303, "team.set", ""},
	{"/apps/shop/team/2/remove", nil, 0, false, 303, "team.remove", ""},
	{"/apps/shop/delete", []string{"name", "The shop"}, 0, false, 303, "app.delete", "delete shop"},
	{"/host/accounts", []string{"name", "eve", "ram", "100"}, 0, true, 303, "account.create", ""},
	{"/host/accounts/2/ram", []string{"ram", "4096"}, 0, true, 303, "account.set", ""},
	{"/host/accounts/2/disable", nil, 0, true, 303, "account.disable", ""},
	{"/host/accounts/2/enable", nil, 0, true, 303, "account.enable", ""},
	{"/host/accounts/2/link", nil, 0, true, 303, "password.link", ""},
	{"/host/doctor", nil, 0, true, 303, "host.examine", ""},
}

// What somebody may not do is refused, and leaves nothing done; what they may is
// done, and recorded by its name.
func TestWhoMayChangeWhat(t *testing.T) {
	for _, c := range changes {
		t.Run(strings.ReplaceAll(c.path[1:], "/", " ")+" "+strings.Join(c.form, " "), func(t *testing.T) {
			w := newWorld(t)
			seed(w)
			carl := w.person("carl")
			without := app.AllPermissions &^ app.Permissions(c.needs)
			set := func(p app.Permissions) {
				must(t, onlyError(w.config.Teams.SetMember(t.Context(), w.ana.ID, "shop", w.bob.ID, p.Names())))
			}
			set(without)
			nothing := func(who string, p page, status int) {
				t.Helper()
				p.want(t, who, status)
				if w.work.Wait(); len(w.host.done) > 0 {
					t.Fatalf("%s did %v", who, w.host.done)
				}
			}
			nothing("without a session", w.browser().post(c.path, c.form...), http.StatusSeeOther)
			cross := w.as("ana")
			cross.header["Sec-Fetch-Site"] = "cross-site"
			nothing("from another site", cross.post(c.path, c.form...), http.StatusForbidden)
			stranger := w.as(carl.Name).post(c.path, c.form...)
			nothing("a stranger", stranger, http.StatusNotFound)
			if strings.Contains(stranger.body, "bob") || strings.Contains(stranger.body, "shop") {
				t.Error("the refusal tells a stranger something")
			}
			bob := w.as("bob")
			if c.needs == 0 {
				nothing("a member", bob.post(c.path, c.form...), http.StatusNotFound)
			} else {
				nothing("a member without the permission", bob.post(c.path, c.form...), http.StatusForbidden)
				set(app.Permissions(c.needs))
				bob.post(c.path, c.form...).want(t, "a member with it", c.status)
				if act := w.acts.last(); act.Operation != c.audit || act.Actor != w.bob.ID || act.Account != w.ana.ID {
					t.Errorf("the audit log has %+v", act)
				}
				w.host.done = nil
			}
			p := w.as("ana").post(c.path, c.form...)
			p.want(t, "the owner", c.status)
			w.work.Wait()
			act := w.acts.last()
			if act.Operation != c.audit || act.Actor != w.ana.ID || act.Refusal != "" || act.Status != c.status && act.Operation != "app.restore" {
				t.Errorf("the audit log has %+v", act)
			}
			if got := strings.Join(w.host.done, "|"); got != c.done {
				t.Errorf("done is %q, want %q", got, c.done)
			}
			if strings.Contains(act.Detail, "secret") {
				t.Errorf("a secret is recorded: %s", act.Detail)
			}
		})
	}
}

// Every route that changes something is in a table of these tests.
func TestEveryChangeIsTested(t *testing.T) {
	tested := map[string]bool{}
	for _, c := range changes {
		tested[c.audit] = true
	}
	s := &server{}
	for _, r := range append(s.manageRoutes(), s.hostRoutes()...) {
		if r.method == http.MethodPost && !tested[r.audit] {
			t.Errorf("nothing tests who may %s", r.pattern)
		}
		if r.method == http.MethodPost && r.audit == "" {
			t.Errorf("%s is not recorded", r.pattern)
		}
	}
}

// A refusal stands on the page of its form, with its status, and what was typed
// stays.
func TestRefusedForms(t *testing.T) {
	w := newWorld(t)
	seed(w)
	b := w.as("ana")
	long := strings.Repeat("x", 40)
	for _, c := range []struct {
		path   string
		form   []string
		status int
		says   []string
	}{
		{"/apps/shop/env", []string{"block", "A=1\nnothing"}, 400, []string{"Line 2 of the block is not NAME=VALUE.", "Environment variables"}},
		{"/apps/shop/env", []string{"block", `A="x`}, 400, []string{"The quotes in line 1 of the block do not close."}},
		{"/apps/shop/env", []string{"block", "A=1\nA=2"}, 400, []string{"Line 2 of the block sets a variable for the second time."}},
		{"/apps/shop/env", []string{"block", "# none"}, 400, []string{"The block has no line with NAME=VALUE."}},
		{"/apps/shop/env", []string{"block", strings.Repeat("A", maxBlock)}, 400, []string{"The form could not be read."}},
		{"/apps/shop/env/reveal", []string{"name", "NONE"}, 404, []string{"There is no such variable.", "TOKEN"}},
		{"/apps/shop/env/remove", []string{"name", "NONE"}, 404, []string{"There is no such variable."}},
		{"/apps/shop/ram", []string{"ram", "much"}, 400, []string{"The RAM must be a whole number of MB."}},
		{"/apps/shop/ram", []string{"ram", "-5"}, 400, []string{"The RAM must be a whole number of MB."}},
		{"/apps/shop/profile", []string{"name", long}, 400, []string{"1 to 30 characters", "Settings"}},
		{"/apps/shop/profile", []string{"name", "x", "avatar", "javascript:alert(1)"}, 400, []string{"http or https"}},
		{"/apps/shop/team", []string{"account", "bob"}, 400, []string{"number of the account"}},
		{"/apps/shop/team", []string{"account", "2", "permission", "stop_app"}, 409, []string{"a member of the team already"}},
		{"/apps/shop/team", []string{"account", "99", "permission", "stop_app"}, 404, nil},
		{"/apps/shop/team/2", []string{"permission", "everything"}, 400, []string{"There is no permission"}},
		{"/apps/shop/team/2", nil, 400, []string{"at least one permission"}},
		{"/apps/shop/delete", []string{"name", "shop"}, 400, []string{"Type the name of the application exactly as it is"}},
		{"/apps/shop/domains", []string{"domain", "none"}, 400, []string{"This is no domain.", `value="none"`}},
		{"/apps/shop/domains/old.example.org/verify", nil, 409, []string{"The TXT record was not found"}},
		{"/apps/shop/domains/bot.example.org/remove", nil, 404, []string{"does not belong to the application"}},
		{"/apps/shop/domains/x.example.org/remove", nil, 404, []string{"You have no such domain."}},
		{"/apps/shop/restore", []string{"backup", "shop.0123.zip"}, 400, []string{"Tick that the files are to be replaced"}},
		{"/apps/shop/restore", []string{"backup", "../berth.db", "sure", "true"}, 404, []string{"This backup is not there any more."}},
		{"/apps/shop/files/write", []string{"path", "x", "text", strings.Repeat("y", maxText+1)}, 413, []string{"More than 1 MB", "textarea"}},
		{"/host/accounts", []string{"name", "Eve!", "ram", "100"}, 400, []string{"cannot be the name of an account", `value="Eve!"`}},
		{"/host/accounts", []string{"name", "bob", "ram", "100"}, 409, nil},
		{"/host/accounts/99/link", nil, 404, []string{"There is no such account."}},
		{"/host/accounts/1/disable", nil, 409, []string{"You cannot disable your own account."}},
		{"/host/accounts/1/ram", []string{"ram", "1"}, 409, nil},
	} {
		p := b.post(c.path, c.form...)
		for i, s := range c.says {
			c.says[i] = strings.Replace(s, "More than", "more than", 1)
		}
		p.want(t, c.path+" "+strings.Join(c.form, " ")[:min(40, len(strings.Join(c.form, " ")))], c.status, c.says...)
		if act := w.acts.last(); act.Status != c.status || act.Refusal == "" {
			t.Errorf("%s: the audit log has %+v", c.path, act)
		}
	}
	for _, did := range w.host.done {
		if did != "verify old.example.org" {
			t.Errorf("something was done: %v", w.host.done)
		}
	}
	w.host.fail = app.Errorf(app.Exhausted, "the account has 2048 MB, 100 are assigned; 9999 MB more do not fit")
	b.post("/apps/shop/ram", "ram", "9999").want(t, "too much RAM", 422, "9999 MB more do not fit")
}

func TestParseBlock(t *testing.T) {
	got, err := parseBlock("# a comment\n\nA=1\nexport B = two words \r\nC=\"x\\ny \\\"q\\\" \\\\n\"\nD='$x\\n'\nE=\nF=a=b#c\n")
	must(t, err)
	for name, want := range map[string]string{"A": "1", "B": "two words", "C": "x\ny \"q\" \\n", "D": `$x\n`, "E": "", "F": "a=b#c"} {
		if v := got[name]; v == nil || *v != want {
			t.Errorf("%s is %v, want %q", name, v, want)
		}
	}
	if len(got) != 6 {
		t.Errorf("%d variables", len(got))
	}
	if _, err := parseBlock("secretvalue"); err == nil || strings.Contains(err.Error(), "secret") {
		t.Errorf("got %v", err)
	}
}

// Values are masked everywhere but where one was asked for.
func TestRevealShowsOneValue(t *testing.T) {
	w := newWorld(t)
	seed(w)
	b := w.as("ana")
	secret := w.host.env["TOKEN"]
	if p := b.get("/apps/shop/env"); strings.Contains(p.body, secret) || !strings.Contains(p.body, "****1234") {
		t.Error("the list shows a value, or does not mask it")
	}
	p := b.post("/apps/shop/env/reveal", "name", "TOKEN")
	p.want(t, "reveal", http.StatusOK, secret)
	if act := w.acts.last(); act.Operation != "env.reveal" || act.Detail != `env="TOKEN"` || act.App != "shop" {
		t.Errorf("the audit log has %+v", act)
	}
	if strings.Count(p.body, secret) != 1 || p.Header.Get("Cache-Control") != "no-store" {
		t.Error("the value stands there twice, or may be kept")
	}
}

// Every page says everything in every language, whatever names there are, and has
// nothing that the policy forbids; a member sees what it may, and nothing else.
func TestEveryManagingPage(t *testing.T) {
	w := newWorld(t)
	seed(w)
	w.host.add(w.ana.ID, "running", func(s *app.Snapshot) { s.Name = "<script>" })
	pages := map[string]string{ // and what each says of this world
		"/apps/shop/env": "****1234", "/apps/shop/domains": "berth-proof=", "/apps/bot/domains": "TYPE=site",
		"/apps/shop/backups": "/d/signed-shop.0123.zip/shop.zip", "/apps/shop/settings": `value="The shop"`, "/apps/running/settings": "&lt;script&gt;",
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
	w.as("ana").get("/host").want(t, "the doctor", http.StatusOK, "full &lt;b&gt;", "apt install php-cli")
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
	b.post("/apps/shop/backups", "env", "true").want(t, "with variables", http.StatusForbidden, "for the application&#39;s owner alone")
	b.post("/apps/shop/backups").leads(t, "a backup", "/apps/shop/backups")
	b.get("/apps/shop/backups").want(t, "its link", http.StatusOK, "/d/signed-shop.made.zip/shop.zip")
	must(t, onlyError(w.config.Teams.SetMember(t.Context(), w.ana.ID, "shop", w.bob.ID, []string{"edit_ram"})))
	if p := b.get("/apps/shop/settings"); !strings.Contains(p.body, `name="ram"`) || strings.Contains(p.body, "/team") || strings.Contains(p.body, "/delete") {
		t.Error("who may set the RAM does not see that alone")
	}
}

// A file comes as it is and is never shown as a page, whatever its name.
func TestDownloadFile(t *testing.T) {
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
	b.post("/apps/shop/files/write", "path", "index.js", "text", "a\r\nb\r\n")
	if got := w.host.texts["index.js"]; got != "a\nb\n" {
		t.Errorf("written is %q", got)
	}
}

// A new account gets a link, which sets its password.
func TestNewAccountBySetupLink(t *testing.T) {
	w := newWorld(t)
	seed(w)
	b := w.as("ana")
	b.post("/host/accounts", "name", "eve", "ram", "100").leads(t, "the account", "/host")
	p := b.get("/host")
	_, rest, found := strings.Cut(p.body, b.base+"/setup/")
	key, _, _ := strings.Cut(rest, `"`)
	if !found || strings.Contains(b.get("/host").body, "/setup/") {
		t.Fatal("there is no link, or it is shown twice")
	}
	w.browser().post("/setup/"+key, "name", "eve", "password", "battery staple", "again", "battery staple").leads(t, "the password", "/login?kept=&next=%2Faccount")
	b.post("/host/accounts/3/disable")
	if p := w.browser().post("/login", "name", "eve", "password", "battery staple"); p.StatusCode == http.StatusSeeOther && !strings.Contains(p.Header.Get("Location"), "login") {
		t.Errorf("a disabled account signs in: %d", p.StatusCode)
	}
}

// The log is read in pages, newest first, by what is asked for.
func TestAuditPages(t *testing.T) {
	w := newWorld(t)
	seed(w)
	var all []app.Act
	for i := range auditPage + 3 {
		all = append(all, app.Act{At: time.Now(), Actor: w.bob.ID, Name: "bob", Operation: "app.start", App: "shop", Detail: fmt.Sprintf("number=%d.", i), Status: 200})
	}
	all = append(all, app.Act{At: time.Now(), Actor: app.Stranger, Operation: "session.failed", Detail: "<b>", Status: 401, Refusal: "No."}, app.Act{At: time.Now(), Operation: "account.create"})
	must(t, w.db.Record(t.Context(), all...))
	b := w.as("ana")
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
	b.get("/host/audit?account=77&app=none").want(t, "a deleted account", http.StatusOK, "There is none.")
}
