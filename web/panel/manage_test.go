package panel

import (
	"net/http"
	"strings"
	"testing"

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
	{"/apps/shop/start", nil, app.StartApp, false, 303, "app.start", "start shop"},
	{"/apps/shop/restart", nil, app.RestartApp, false, 303, "app.restart", "restart shop"},
	{"/apps/shop/stop", nil, app.StopApp, false, 303, "app.stop", "stop shop"},
	{"/apps/shop/input", []string{"line", "say hello"}, 0, false, 303, "app.input", "line say hello to shop"},
	{"/apps/shop/deploys/1/rollback", nil, 0, false, 303, "app.rollback", "rollback 1 by 1 shop"},
	{"/apps/shop/env", []string{"name", "A", "value", "x"}, 0, false, 303, "env.set", "set variables shop"},
	{"/apps/shop/env", []string{"block", "A=1\nB=2"}, 0, false, 303, "env.set", "set variables shop"},
	{"/apps/shop/env/reveal", []string{"name", "TOKEN"}, 0, false, 200, "env.reveal", ""},
	{"/apps/shop/env/remove", []string{"name", "DEBUG"}, 0, false, 303, "env.remove", "remove variable shop"},
	{"/apps/shop/files/write", []string{"path", "index.js", "text", "x", "over", "*"}, 0, false, 303, "file.write", "write index.js shop"},
	{"/apps/shop/files/new", []string{"name", "new", "kind", "dir"}, 0, false, 303, "file.make", "make new shop"},
	{"/apps/shop/files/move", []string{"path", "index.js", "to", "main.js"}, 0, false, 303, "file.move", "move index.js to main.js shop"},
	{"/apps/shop/files/delete", []string{"path", "index.js", "sure", "true"}, 0, false, 303, "file.delete", "delete index.js shop"},
	{"/apps/shop/files/unzip", []string{"dir", ".", "zip", "index.js"}, 0, false, 303, "file.unzip", "unzip spool-0 into . shop"},
	{"/apps/shop/domains", []string{"domain", "a.example.org"}, 0, false, 303, "domain.claim", "claim a.example.org shop"},
	{"/apps/shop/domains/shop.example.org/verify", nil, 0, false, 303, "domain.verify", "verify shop.example.org"},
	{"/apps/shop/domains/shop.example.org/remove", nil, 0, false, 303, "domain.remove", "remove shop.example.org"},
	{"/apps/shop/backups", nil, app.BackupApp, false, 303, "app.backup", "backup false shop"},
	{"/apps/shop/ram", []string{"ram", "200"}, app.EditRAM, false, 303, "app.ram", "ram 200 shop"},
	{"/apps/shop/restore", []string{"backup", "shop.0123.zip", "sure", "true", "env", "true"}, 0, false, 303, "app.restore", "restore content of shop.0123.zip true shop"},
	{"/apps/shop/snapshots/20261126T031500Z/restore", []string{"sure", "true", "env", "true"}, 0, false, 303, "app.restore", "restore snapshot 20261126T031500Z true shop"},
	{"/apps/shop/snapshots/20261126T031500Z/copy", []string{"env", "true"}, 0, false, 303, "app.copy", "copy snapshot 20261126T031500Z true for 1 shop"},
	{"/apps/shop/profile", []string{"name", "New", "avatar", ""}, 0, false, 303, "app.profile", "profile New  shop"},
	{"/apps/shop/autorestart", []string{"on", "true"}, 0, false, 303, "app.autorestart", "autorestart true shop"},
	{"/apps/shop/icon/remove", nil, 0, false, 303, "app.icon", ""},
	{"/apps/shop/team", []string{"account", "3", "permission", "stop_app"}, 0, false, 303, "team.add", ""},
	{"/apps/shop/team/2", []string{"permission", "stop_app"}, 0, false, 303, "team.set", ""},
	{"/apps/shop/team/2/remove", nil, 0, false, 303, "team.remove", ""},
	{"/apps/shop/invitations", []string{"permission", "stop_app", "minutes", "1440"}, 0, false, 303, "invitation.create", ""},
	{"/apps/shop/invitations/2/revoke", nil, 0, false, 303, "invitation.revoke", ""},
	{"/apps/shop/delete", []string{"name", "The shop"}, 0, false, 303, "app.delete", "delete shop"},
	{"/host/accounts", []string{"name", "eve", "ram", "100"}, 0, true, 303, "account.create", ""},
	{"/host/accounts/2/ram", []string{"ram", "4096"}, 0, true, 303, "account.set", ""},
	{"/host/accounts/2/limits", []string{"disk", "1024", "apps", "3", "cpu", "", "builds", "1", "backups", "2"}, 0, true, 303, "account.set", ""},
	{"/host/accounts/2/disable", nil, 0, true, 303, "account.disable", ""},
	{"/host/accounts/2/enable", nil, 0, true, 303, "account.enable", ""},
	{"/host/accounts/2/suspend", []string{"reason", "unpaid"}, 0, true, 303, "account.suspend", ""},
	{"/host/accounts/2/unsuspend", nil, 0, true, 303, "account.unsuspend", ""},
	{"/host/accounts/2/link", nil, 0, true, 303, "password.link", ""},
	{"/host/invitations", []string{"ram", "100", "minutes", "1440"}, 0, true, 303, "invitation.create", ""},
	{"/host/invitations/1/revoke", nil, 0, true, 303, "invitation.revoke", ""},
	{"/host/settings", []string{"rate_limit", "61"}, 0, true, 303, "host.settings", ""},
	{"/host/factor", []string{"on", "false"}, 0, true, 303, "factor.require", ""},
	{"/host/backups", []string{"at", "04:30", "daily", "7", "weekly", "", "monthly", "6", "days", "14"}, 0, true, 303, "backup.set", "backups at 04:30, 7 0 6, 336h0m0s host"},
	{"/host/backups/start", nil, 0, true, 303, "backup.start", "start a backup host"},
	{"/host/backups/rehearse", nil, 0, true, 303, "backup.rehearse", "start a rehearsal host"},
	{"/host/doctor", nil, 0, true, 303, "host.examine", ""},
}

// What somebody may not do is refused, and leaves nothing done; what they may is
// done, and recorded by its name.
func TestWhoMayChangeWhat(t *testing.T) {
	t.Parallel()
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
			if said := strings.ReplaceAll(stranger.body, "combobox", ""); strings.Contains(said, "bob") || strings.Contains(said, "shop") {
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
			if act.Operation != c.audit || act.Actor != w.ana.ID || act.Refusal != "" || act.Status != c.status && act.Operation != "app.restore" && act.Operation != "app.copy" {
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
	t.Parallel()
	tested := map[string]bool{}
	for _, c := range changes {
		tested[c.audit] = true
	}
	tested["app.commit"] = true // TestMemberCommits, TestUploadRefusals
	for _, r := range (&pages{}).routes() {
		if r.access.who() == public || !strings.Contains(r.pattern, "{app}") && r.access.who() != admin {
			continue
		}
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
	t.Parallel()
	w := newWorld(t)
	seed(w)
	b := w.as("ana")
	long := strings.Repeat("x", 40)
	w.backups.set(goodBackups())
	for _, c := range []struct {
		path   string
		form   []string
		status int
		says   []string
	}{
		{"/apps/shop/env", []string{"block", "A=1\nnothing"}, 400, []string{"Line 2 is not NAME=VALUE.", "Environment variables"}},
		{"/apps/shop/env", []string{"block", `A="x`}, 400, []string{"The quotes in line 1 do not close."}},
		{"/apps/shop/env", []string{"block", "A=1\nA=2"}, 400, []string{"Line 2 sets a variable for the second time."}},
		{"/apps/shop/env", []string{"block", "# none"}, 400, []string{"There is no line with NAME=VALUE."}},
		{"/apps/shop/env", []string{"block", strings.Repeat("A", maxBlock)}, 400, []string{"The form could not be read."}},
		{"/apps/shop/env/reveal", []string{"name", "NONE"}, 404, []string{"There is no such variable.", "TOKEN"}},
		{"/apps/shop/env/remove", []string{"name", "NONE"}, 404, []string{"There is no such variable."}},
		{"/apps/shop/ram", []string{"ram", "much"}, 400, []string{"The RAM must be a whole number of MB."}},
		{"/apps/shop/ram", []string{"ram", "-5"}, 400, []string{"The RAM must be a whole number of MB."}},
		{"/apps/shop/profile", []string{"name", long}, 400, []string{"1 to 30 characters", "Settings"}},
		{"/apps/shop/profile", []string{"name", "x", "avatar", "javascript:alert(1)"}, 400, []string{"http or https"}},
		{"/apps/shop/team", []string{"account", " ", "permission", "stop_app"}, 400, []string{"number of the account"}},
		{"/apps/shop/team", []string{"account", "bob"}, 400, []string{"at least one permission"}},
		{"/apps/shop/team", []string{"account", "bob", "permission", "stop_app"}, 409, []string{"a member of the team already"}},
		{"/apps/shop/team", []string{"account", "eve", "permission", "stop_app"}, 404, []string{"is called", "eve"}},
		{"/apps/shop/team", []string{"account", "2", "permission", "stop_app"}, 409, []string{"a member of the team already"}},
		{"/apps/shop/team", []string{"account", "99", "permission", "stop_app"}, 404, nil},
		{"/apps/shop/team/2", []string{"permission", "everything"}, 400, []string{"There is no permission"}},
		{"/apps/shop/team/2", nil, 400, []string{"at least one permission"}},
		{"/apps/shop/delete", []string{"name", "shop"}, 400, []string{"To delete the application, type its name exactly"}},
		{"/apps/shop/domains", []string{"domain", "none"}, 400, []string{"This is no domain.", `value="none"`}},
		{"/apps/shop/domains/old.example.org/verify", nil, 409, []string{"The TXT record was not found"}},
		{"/apps/shop/domains/bot.example.org/remove", nil, 404, []string{"does not belong to the application"}},
		{"/apps/shop/domains/x.example.org/remove", nil, 404, []string{"You have no such domain."}},
		{"/apps/shop/restore", []string{"backup", "shop.0123.zip"}, 400, []string{"To replace the files, tick the box"}},
		{"/apps/shop/restore", []string{"backup", "../berth.db", "sure", "true"}, 404, []string{"This backup is not there any more."}},
		{"/apps/shop/snapshots/20261126T031500Z/restore", []string{"env", "true"}, 400, []string{"To replace the files, tick the box", "Nightly snapshots"}},
		{"/apps/shop/snapshots/latest/restore", []string{"sure", "true"}, 404, []string{"There is no such snapshot."}},
		{"/apps/shop/snapshots/..%2Fx/copy", nil, 404, []string{"There is no such snapshot."}},
		{"/host/backups", []string{"at", "25:00", "daily", "9", "weekly", "4", "monthly", "6", "days", "7"}, 400, []string{"25:00 is no time of a day", `name="at" type="time" value="25:00"`, `value="9"`}},
		{"/host/backups", []string{"at", "03:15", "daily", "many", "weekly", "4", "monthly", "6", "days", "7"}, 400, []string{"cannot be kept for -1 days"}},
		{"/apps/shop/files/write", []string{"path", "x", "text", strings.Repeat("y", maxText+1)}, 413, []string{"More than 1 MB", "textarea"}},
		{"/host/accounts", []string{"name", "Eve!", "ram", "100"}, 400, []string{"cannot be the name of an account", `value="Eve!"`}},
		{"/host/accounts", []string{"name", "bob", "ram", "100"}, 409, nil},
		{"/host/accounts/99/link", nil, 404, []string{"There is no such account."}},
		{"/host/accounts/1/disable", nil, 409, []string{"You cannot disable your own account."}},
		{"/host/accounts/1/suspend", nil, 409, []string{"You cannot suspend your own account."}},
		{"/host/accounts/2/suspend", []string{"reason", strings.Repeat("x", 201)}, 400, []string{"The reason of a suspension is one line of at most 200 characters."}},
		{"/host/accounts/1/ram", []string{"ram", "1"}, 409, nil},
		{"/host/accounts/1/limits", []string{"apps", "-1"}, 400, []string{"The number of applications of an account must be from 0 to 1048576, not -1; 0 is no limit."}},
		{"/host/accounts/1/limits", []string{"disk", "many"}, 400, []string{"The disk space of an account must be from 0 to 1073741824 MB, not -1; 0 is no limit."}},
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
	t.Parallel()
	got, err := app.ParseEnv("# a comment\n\nA=1\nexport B = two words \r\nC=\"x\\ny \\\"q\\\" \\\\n\"\nD='$x\\n'\nE=\nF=a=b#c\n")
	must(t, err)
	for name, want := range map[string]string{"A": "1", "B": "two words", "C": "x\ny \"q\" \\n", "D": `$x\n`, "E": "", "F": "a=b#c"} {
		if v := got[name]; v == nil || *v != want {
			t.Errorf("%s is %v, want %q", name, v, want)
		}
	}
	if len(got) != 6 {
		t.Errorf("%d variables", len(got))
	}
	if _, err := app.ParseEnv("secretvalue"); err == nil || strings.Contains(err.Error(), "secret") {
		t.Errorf("got %v", err)
	}
}

// Values are masked everywhere but where one was asked for.
func TestRevealShowsOneValue(t *testing.T) {
	t.Parallel()
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

// While nothing can be changed, forms are refused with the reason and do nothing, and
// pages are shown.
func TestNothingCanBeChanged(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	seed(w)
	ana := w.as("ana")
	w.config.Changes = func() error { return app.Errorf(app.Unavailable, "Nothing can be changed now.") }
	w.handler = New(w.config)
	for _, c := range changes {
		ana.post(c.path, c.form...).want(t, c.path, http.StatusServiceUnavailable, "Nothing can be changed now.")
	}
	w.browser().post("/login", "name", "ana", "password", password).want(t, "/login", http.StatusServiceUnavailable, "Nothing can be changed now.")
	ana.get("/apps/shop").want(t, "a page", http.StatusOK)
	if w.work.Wait(); len(w.host.done) > 0 {
		t.Errorf("done is %v", w.host.done)
	}
}
