package panel

import (
	"bytes"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"berth/app"
)

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
	b.post("/apps/shop/backups", "env", "true").want(t, "with variables", http.StatusForbidden, "for the application&#39;s owner alone")
	next := b.post("/apps/shop/backups").leads(t, "a backup", "/apps/shop/backups")
	b.get(next).want(t, "its link", http.StatusOK, "/d/signed-shop.made.zip/shop.zip")
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
}

// A text keeps the ends of its lines, and a file that is sent its bytes.
func TestWriteFiles(t *testing.T) {
	w := newWorld(t)
	seed(w)
	b := w.as("ana")
	w.host.texts["dos.txt"] = "a\r\nb\r\n"
	for name, want := range map[string]bool{"dos.txt": true, "index.js": false} {
		if got := strings.Contains(b.get("/apps/shop/files/view?path="+name).body, `name="crlf"`); got != want {
			t.Errorf("%s: its page keeps CR LF: %v", name, got)
		}
	}
	b.post("/apps/shop/files/write", "path", "index.js", "text", "a\r\nb\r\n")
	b.post("/apps/shop/files/write", "path", "dos.txt", "text", "a\r\nc\r\n", "crlf", "true")
	b.upload("/apps/shop/files/upload?path=src", "\x00PK\r\n").leads(t, "a file", "/apps/shop/files?path=src")
	for name, want := range map[string]string{"index.js": "a\nb\n", "dos.txt": "a\r\nc\r\n", "src/app.zip": "\x00PK\r\n"} {
		if got := w.host.texts[name]; got != want {
			t.Errorf("%s holds %q", name, got)
		}
	}
	if act := w.acts.last(); act.Operation != "file.write" || act.Detail != `path="src/app.zip" bytes=5` {
		t.Errorf("the audit log has %+v", act)
	}
	before := len(w.host.texts)
	for _, name := range []string{"..", ".", "a/.."} {
		body, kind := zipForm(t, "x")
		body = bytes.Replace(body, []byte("app.zip"), []byte(name), 1)
		p := b.sendTo("/apps/shop/files/upload?path=src", kind, bytes.NewReader(body))
		if p.StatusCode != http.StatusBadRequest || len(w.host.texts) != before {
			t.Errorf("%q is taken for a name", name)
		}
	}
}

// A new account gets a link, which sets its password.
func TestNewAccountBySetupLink(t *testing.T) {
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
	var all []app.AuditRecord
	for i := range auditPage + 3 {
		all = append(all, app.AuditRecord{At: time.Now(), Actor: w.bob.ID, Name: "bob", Operation: "app.start", App: "shop", Detail: fmt.Sprintf("number=%d.", i), Status: 200})
	}
	all = append(all, app.AuditRecord{At: time.Now(), Actor: app.Stranger, Operation: "session.failed", Detail: "<b>", Status: 401, Refusal: "No."}, app.AuditRecord{At: time.Now(), Operation: "account.create"})
	must(t, w.db.Audit.Record(t.Context(), all...))
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

// The page of the host warns of a panel that others reach in plain HTTP.
func TestHostWarnsOfPlainHTTP(t *testing.T) {
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
