package e2e

import (
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"berth/test/harness"
)

// memberOps are what a member can be allowed, each with how to see that it was
// done. The program of before is online with 64 MB.
var memberOps = []struct {
	perm string
	do   func(c *client, id string) harness.Answer
	done func(c, owner *client, id string, a harness.Answer)
}{
	{"status_app", func(c *client, id string) harness.Answer { return c.Get("/team/" + id + "/status") }, func(_, _ *client, id string, a harness.Answer) {
		a.Want(200, "apps.id", id, "apps.container", "Online")
	}},
	{"logs_app", func(c *client, id string) harness.Answer { return c.Get("/team/" + id + "/logs") }, func(c, _ *client, id string, a harness.Answer) {
		a.Want(200, "apps.id", id).Says("apps.terminal.small", "up")
		if log := string(c.Download(a.Text("apps.terminal.url"))); !strings.Contains(log, "up") {
			c.T.Errorf("the whole log is %q", log)
		}
	}},
	{"backup_app", func(c *client, id string) harness.Answer { return c.Get("/team/" + id + "/backup") }, func(c, _ *client, id string, a harness.Answer) {
		a.Want(200, "backups.id", id)
		if zip := string(c.Download(a.Text("backups.url"))); !strings.HasPrefix(zip, "PK") || !strings.Contains(zip, "start.sh") {
			c.T.Errorf("the backup has %d bytes and is no ZIP of the application", len(zip))
		}
	}},
	{"edit_ram", func(c *client, id string) harness.Answer { return c.Put("/team/"+id+"/ram", `{"ramMB":96}`) }, func(_, owner *client, id string, _ harness.Answer) {
		owner.Info(id).Want(200, "apps.ram", 96)
	}},
	{"restart_app", func(c *client, id string) harness.Answer { return c.Put("/team/"+id+"/restart", "") }, func(_, owner *client, id string, _ harness.Answer) {
		owner.Info(id).Want(200, "apps.online", true)
	}},
	{"commit_app", func(c *client, id string) harness.Answer {
		return c.Send(c.Form(http.MethodPut, "/v2/team/"+id+"/commit", harness.ShellBot("echo changed; "+harness.IdleShell).Zip()))
	}, func(_, owner *client, id string, _ harness.Answer) {
		owner.UntilLog(id, "changed")
	}},
	{"stop_app", func(c *client, id string) harness.Answer { return c.Put("/team/"+id+"/stop", "") }, func(_, owner *client, id string, _ harness.Answer) {
		owner.Info(id).Want(200, "apps.online", false)
	}},
	{"start_app", func(c *client, id string) harness.Answer { return c.Put("/team/"+id+"/start", "") }, func(_, owner *client, id string, a harness.Answer) {
		a.Want(200, "appStatus.online", true)
		owner.Info(id).Want(200, "apps.online", true)
	}},
}

// team sends a change of an application's team.
func (c *client) team(method, id, modID string, perms ...string) harness.Answer {
	c.T.Helper()
	r := c.Request(method, "/v2/app/"+id+"/team", strings.NewReader(fmt.Sprintf(`{"modID":%q,"perms":["%s"]}`, modID, strings.Join(perms, `","`))))
	r.Header.Set("Content-Type", "application/json")
	return c.Send(r)
}

// dismiss removes a member.
func (c *client) dismiss(id, modID string) harness.Answer {
	c.T.Helper()
	return c.Send(c.Request(http.MethodDelete, "/v2/app/"+id+"/team/"+modID, nil))
}

// TestTeamTable holds every operation against every permission, with real
// programs: what is not allowed is refused and changes nothing, what is allowed
// is done, at once after each change of the permissions.
func TestTeamTable(t *testing.T) {
	t.Parallel()
	d := launch(t)
	ana, bob := d.account("ana", 100), d.account("bob", 32) // the application would not fit into bob's
	id := ana.Upload(harness.ShellBot(harness.IdleShell, "RAM=64"))
	ana.UntilLog(id, "up")
	none := func(what string) {
		t.Helper()
		for _, op := range memberOps {
			op.do(bob, id).Want(404, "status", "error").Says("message", id)
			op.do(ana, id).Want(404).Says("message", "not in the team") // the owner has /v2/app
		}
		if t.Failed() {
			t.Fatal(what)
		}
	}
	none("before anything was given")
	for row, given := range memberOps {
		method := http.MethodPut
		if row == 0 {
			method = http.MethodPost
		}
		ana.team(method, id, bob.Account, given.perm).Want(200, "app.modID", bob.Account, "app.appID", id, "app.perms", "["+given.perm+"]")
		if given.perm == "start_app" { // which has something to do offline only
			ana.Put("/app/"+id+"/stop", "").Want(200, "status", "ok")
		}
		before, tree := ana.Info(id), harness.Snapshot(t, d.Path(id))
		for _, op := range memberOps {
			if op.perm != given.perm {
				op.do(bob, id).Want(403, "status", "error", "code", 403).Says("message", op.perm, id, "ana")
			}
		}
		if after := ana.Info(id); string(after.Body) != string(before.Body) {
			t.Errorf("with %s alone it became %s", given.perm, after.Body)
		}
		harness.SameTree(t, harness.Snapshot(t, d.Path(id)), tree)
		given.done(bob, ana, id, given.do(bob, id).Want(200, "status", "ok"))
		ana.Put("/app/"+id+"/ram", `{"ramMB":64}`).Want(200)
		ana.Put("/app/"+id+"/start", "").Want(200)
		ana.Until(id, "apps.online", true)
	}
	var all []string
	for _, op := range memberOps {
		all = append(all, op.perm)
	}
	ana.team(http.MethodPut, id, bob.Account, all...).Want(200)
	for _, op := range memberOps {
		op.done(bob, ana, id, op.do(bob, id).Want(200, "status", "ok"))
	}
	// The RAM is the owner's: bob has 32 MB, ana 100.
	bob.Put("/team/"+id+"/ram", `{"ramMB":101}`).Want(200, "status", "error").Says("message", "the account has 100 MB")
	bob.Get("/user").Want(200, "user.ramUsedMb", 0, "user.totalRamMb", 32)
	ana.dismiss(id, bob.Account).Want(200, "status", "ok")
	none("after the member was removed")
}

// TestTeamRefusals: each has its sentence, and changes nothing.
func TestTeamRefusals(t *testing.T) {
	t.Parallel()
	d := launch(t)
	ana, bob, carl, dora := d.account("ana", 200), d.account("bob", 100), d.account("carl", 100), d.account("dora", 100)
	id := ana.Upload(harness.ShellBot(harness.IdleShell, "RAM=32"))
	perms := []string{"start_app", "stop_app", "restart_app", "logs_app", "commit_app", "edit_ram", "backup_app", "status_app"}
	d.CLI("account", "disable", "dora")
	const post, put = http.MethodPost, http.MethodPut

	ana.team(post, id, "999", "logs_app").Want(404).Says("message", "there is no account 999")
	ana.team(post, id, "bob", "logs_app").Want(400).Says("message", "modID", "number")
	ana.team(post, id, ana.Account, "logs_app").Want(422).Says("message", "your own")
	ana.team(post, id, dora.Account, "logs_app").Want(422).Says("message", "disabled")
	ana.team(post, id, bob.Account, "logs_app", "fly_app").Want(400).Says("message", append(perms, "fly_app")...)
	ana.Put("/app/"+id+"/team", fmt.Sprintf(`{"modID":%s,"perms":[]}`, bob.Account)).Want(400).Says("message", append(perms, "at least one")...)
	ana.team(put, id, bob.Account, "logs_app").Want(404).Says("message", "not a member")
	ana.dismiss(id, bob.Account).Want(404).Says("message", "not a member")
	ana.dismiss(id, "bob").Want(404).Says("message", "number")
	ana.team(post, "all", bob.Account, "logs_app").Want(404)
	ana.Get("/app/"+id+"/team").Want(200, "team", "[]")

	ana.team(post, id, bob.Account, perms...).Want(200)
	ana.team(post, id, bob.Account, "logs_app").Want(409).Says("message", "already")
	ana.Put("/app/"+id+"/team", fmt.Sprintf(`{"modID":%s,"perms":["status_app","logs_app","status_app"]}`, bob.Account)).
		Want(200, "app.perms", "[logs_app status_app]", "app.modID", bob.Account)
	ana.team(put, id, bob.Account, perms...).Want(200)

	// A member is no owner, and a stranger nothing.
	for _, c := range []*client{bob, carl} {
		c.team(post, id, carl.Account, "logs_app").Want(404)
		c.team(put, id, bob.Account, "logs_app").Want(404)
		c.dismiss(id, bob.Account).Want(404)
		c.Get("/app/" + id + "/team").Want(404)
		c.Info(id).Want(404)
		c.Delete(id).Want(404)
		c.Put("/app/"+id+"/profile", `{"name":"mine"}`).Want(404)
	}
	if all := bob.Get("/team/all/status").Want(200, "status", "ok"); strings.Count(string(all.Body), `"container"`) != 1 {
		t.Errorf("all of bob's teams: %s", all.Body)
	}
	carl.Get("/team/all/status").Want(200, "apps", "[]")
	bob.Put("/app/all/stop", "").Want(200)
	ana.Info(id).Want(200, "apps.online", true, "apps.mods", "["+bob.Account+"]")

	// While an application comes to be it has no team.
	gate := filepath.Join(d.Gates, "gate")
	young, built := ana.uploading(gated(gate, harness.IdleNode))
	ana.team(post, young, bob.Account, "logs_app").Want(409).Says("message", "first time")
	ana.Get("/app/"+young+"/team").Want(200, "team", "[]")
	harness.Write(t, gate, "")
	(<-built).Want(200)
	ana.team(post, young, bob.Account, "logs_app").Want(200)
	d.CLI("account", "enable", "dora")
}

// TestTeamLists: who sees which application, over a restart of the daemon and
// the ends of applications and accounts.
func TestTeamLists(t *testing.T) {
	t.Parallel()
	d := launch(t)
	ana, bob, carl := d.account("ana", 200), d.account("bob", 100), d.account("carl", 100)
	id := ana.Upload(harness.ShellBot(harness.IdleShell, "RAM=48", "NAME=helper"))
	other := ana.Upload(harness.ShellBot(harness.IdleShell, "RAM=32"))
	own := bob.Upload(harness.ShellBot(harness.IdleShell, "RAM=32"))
	bob.Get("/team").Want(200, "status", "ok", "apps", "[]")
	ana.team(http.MethodPost, id, bob.Account, "stop_app", "status_app").Want(200)
	ana.team(http.MethodPost, other, bob.Account, "logs_app").Want(200)
	ana.team(http.MethodPost, id, carl.Account, "logs_app").Want(200)
	bob.Put("/team/"+id+"/stop", "").Want(200)
	check := func() {
		t.Helper()
		apps, _ := bob.Get("/team").Want(200).At("apps").([]any)
		if len(apps) != 2 {
			t.Fatalf("bob helps with %v, want two", apps)
		}
		harness.Answer{T: t, Code: 200, Value: apps[0]}.Want(200, "id", id, "name", "helper", "type", 0, "ram", 48, "online", false,
			"ramKilled", false, "lang", "shell", "perms", "[stop_app status_app]", "owner.name", "ana", "owner.avatar", "")
		members, _ := ana.Get("/app/" + id + "/team").Want(200).At("team").([]any)
		if len(members) != 2 {
			t.Fatalf("the team is %v, want two", members)
		}
		harness.Answer{T: t, Code: 200, Value: members[0]}.Want(200, "modID", bob.Account, "username", "bob", "avatar", nil, "perms", "[stop_app status_app]")
		ana.Info(id).Want(200, "apps.mods", fmt.Sprintf("[%s %s]", bob.Account, carl.Account))
		a := bob.Get("/vscode").Want(200, "status", "ok", "user.userID", bob.Account, "user.username", "bob", "user.avatar", nil,
			"user.apps", "["+own+"]", "user.ramUsedMb", 32, "user.totalRamMb", 100, "user.appsTeam", fmt.Sprintf("[%s %s]", id, other))
		status, _ := a.At("user.appsStatus").([]any)
		if len(status) != 1 {
			t.Fatalf("the extension is shown %v, want bob's one", status)
		}
		harness.Answer{T: t, Code: 200, Value: status[0]}.Want(200, "id", own, "online", true, "ram", 32, "mainFile", "start.sh", "lang", "shell",
			"version", "latest", "apts", "[]", "exitCode", 0, "type", 0, "autoRestart", false, "ramKilled", false)
	}
	check()
	d.Restart()
	bob.Until(own, "apps.online", true)
	check()

	// An account that is disabled does nothing; nor does anybody for it.
	d.CLI("account", "disable", "ana")
	bob.Get("/team/"+id+"/status").Want(403).Says("message", "disabled")
	d.CLI("account", "enable", "ana")
	d.CLI("account", "disable", "bob")
	bob.Get("/team/" + id + "/status").Want(403)
	ana.team(http.MethodPut, id, bob.Account, "status_app").Want(200) // an owner can take from it
	d.CLI("account", "enable", "bob")
	bob.Get("/team/"+id+"/status").Want(200, "apps.id", id)

	ana.Delete(other).Want(200)
	bob.Get("/team/" + other + "/logs").Want(404)
	bob.Get("/vscode").Want(200, "user.appsTeam", "["+id+"]")
	d.CLI("account", "delete", "carl")
	d.Clients = []*harness.Client{ana.Client, bob.Client}
	carl.Get("/team/" + id + "/logs").Want(401)
	ana.Info(id).Want(200, "apps.mods", "["+bob.Account+"]")
}
