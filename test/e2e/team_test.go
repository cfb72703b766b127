package e2e

import (
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
)

// memberOps are what a member can be allowed, each with how to see that it was
// done. The program of before is online with 64 MB.
var memberOps = []struct {
	perm string
	do   func(c *client, id string) answer
	done func(c, owner *client, id string, a answer)
}{
	{"status_app", func(c *client, id string) answer { return c.get("/team/" + id + "/status") }, func(_, _ *client, id string, a answer) {
		a.want(200, "apps.id", id, "apps.container", "Online")
	}},
	{"logs_app", func(c *client, id string) answer { return c.get("/team/" + id + "/logs") }, func(c, _ *client, id string, a answer) {
		a.want(200, "apps.id", id).says("apps.terminal.small", "up")
		if log := string(c.download(a.text("apps.terminal.url"))); !strings.Contains(log, "up") {
			c.t.Errorf("the whole log is %q", log)
		}
	}},
	{"backup_app", func(c *client, id string) answer { return c.get("/team/" + id + "/backup") }, func(c, _ *client, id string, a answer) {
		a.want(200, "backups.id", id)
		if zip := string(c.download(a.text("backups.url"))); !strings.HasPrefix(zip, "PK") || !strings.Contains(zip, "start.sh") {
			c.t.Errorf("the backup has %d bytes and is no ZIP of the application", len(zip))
		}
	}},
	{"edit_ram", func(c *client, id string) answer { return c.put("/team/"+id+"/ram", `{"ramMB":96}`) }, func(_, owner *client, id string, _ answer) {
		owner.info(id).want(200, "apps.ram", 96)
	}},
	{"restart_app", func(c *client, id string) answer { return c.put("/team/"+id+"/restart", "") }, func(_, owner *client, id string, _ answer) {
		owner.info(id).want(200, "apps.online", true)
	}},
	{"commit_app", func(c *client, id string) answer {
		return c.send(c.form(http.MethodPut, "/v2/team/"+id+"/commit", shellBot("echo changed; "+idleShell).zip()))
	}, func(_, owner *client, id string, _ answer) {
		owner.untilLog(id, "changed")
	}},
	{"stop_app", func(c *client, id string) answer { return c.put("/team/"+id+"/stop", "") }, func(_, owner *client, id string, _ answer) {
		owner.info(id).want(200, "apps.online", false)
	}},
	{"start_app", func(c *client, id string) answer { return c.put("/team/"+id+"/start", "") }, func(_, owner *client, id string, a answer) {
		a.want(200, "appStatus.online", true)
		owner.info(id).want(200, "apps.online", true)
	}},
}

// team sends a change of an application's team.
func (c *client) team(method, id, modID string, perms ...string) answer {
	c.t.Helper()
	r := c.request(method, "/v2/app/"+id+"/team", strings.NewReader(fmt.Sprintf(`{"modID":%q,"perms":["%s"]}`, modID, strings.Join(perms, `","`))))
	r.Header.Set("Content-Type", "application/json")
	return c.send(r)
}

// dismiss removes a member.
func (c *client) dismiss(id, modID string) answer {
	c.t.Helper()
	return c.send(c.request(http.MethodDelete, "/v2/app/"+id+"/team/"+modID, nil))
}

// TestTeamTable holds every operation against every permission, with real
// programs: what is not allowed is refused and changes nothing, what is allowed
// is done, at once after each change of the permissions.
func TestTeamTable(t *testing.T) {
	t.Parallel()
	d := launch(t)
	ana, bob := d.account("ana", 100), d.account("bob", 32) // the application would not fit into bob's
	id := ana.upload(shellBot(idleShell, "RAM=64"))
	ana.untilLog(id, "up")
	none := func(what string) {
		t.Helper()
		for _, op := range memberOps {
			op.do(bob, id).want(404, "status", "error").says("message", id)
			op.do(ana, id).want(404).says("message", "not in the team") // the owner has /v2/app
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
		ana.team(method, id, bob.account, given.perm).want(200, "app.modID", bob.account, "app.appID", id, "app.perms", "["+given.perm+"]")
		if given.perm == "start_app" { // which has something to do offline only
			ana.put("/app/"+id+"/stop", "").want(200, "status", "ok")
		}
		before, tree := ana.info(id), snapshot(t, d.path(id))
		for _, op := range memberOps {
			if op.perm != given.perm {
				op.do(bob, id).want(403, "status", "error", "code", 403).says("message", op.perm, id, "ana")
			}
		}
		if after := ana.info(id); string(after.body) != string(before.body) {
			t.Errorf("with %s alone it became %s", given.perm, after.body)
		}
		sameTree(t, snapshot(t, d.path(id)), tree)
		given.done(bob, ana, id, given.do(bob, id).want(200, "status", "ok"))
		ana.put("/app/"+id+"/ram", `{"ramMB":64}`).want(200)
		ana.put("/app/"+id+"/start", "").want(200)
		ana.until(id, "apps.online", true)
	}
	var all []string
	for _, op := range memberOps {
		all = append(all, op.perm)
	}
	ana.team(http.MethodPut, id, bob.account, all...).want(200)
	for _, op := range memberOps {
		op.done(bob, ana, id, op.do(bob, id).want(200, "status", "ok"))
	}
	// The RAM is the owner's: bob has 32 MB, ana 100.
	bob.put("/team/"+id+"/ram", `{"ramMB":101}`).want(200, "status", "error").says("message", "the account has 100 MB")
	bob.get("/user").want(200, "user.ramUsedMb", 0, "user.totalRamMb", 32)
	ana.dismiss(id, bob.account).want(200, "status", "ok")
	none("after the member was removed")
}

// TestTeamRefusals: each has its sentence, and changes nothing.
func TestTeamRefusals(t *testing.T) {
	t.Parallel()
	d := launch(t)
	ana, bob, carl, dora := d.account("ana", 200), d.account("bob", 100), d.account("carl", 100), d.account("dora", 100)
	id := ana.upload(shellBot(idleShell, "RAM=32"))
	perms := []string{"start_app", "stop_app", "restart_app", "logs_app", "commit_app", "edit_ram", "backup_app", "status_app"}
	d.berth("account", "disable", "dora")
	const post, put = http.MethodPost, http.MethodPut

	ana.team(post, id, "999", "logs_app").want(404).says("message", "there is no account 999")
	ana.team(post, id, "bob", "logs_app").want(400).says("message", "modID", "number")
	ana.team(post, id, ana.account, "logs_app").want(422).says("message", "your own")
	ana.team(post, id, dora.account, "logs_app").want(422).says("message", "disabled")
	ana.team(post, id, bob.account, "logs_app", "fly_app").want(400).says("message", append(perms, "fly_app")...)
	ana.put("/app/"+id+"/team", fmt.Sprintf(`{"modID":%s,"perms":[]}`, bob.account)).want(400).says("message", append(perms, "at least one")...)
	ana.team(put, id, bob.account, "logs_app").want(404).says("message", "not a member")
	ana.dismiss(id, bob.account).want(404).says("message", "not a member")
	ana.dismiss(id, "bob").want(404).says("message", "number")
	ana.team(post, "all", bob.account, "logs_app").want(404)
	ana.get("/app/"+id+"/team").want(200, "team", "[]")

	ana.team(post, id, bob.account, perms...).want(200)
	ana.team(post, id, bob.account, "logs_app").want(409).says("message", "already")
	ana.put("/app/"+id+"/team", fmt.Sprintf(`{"modID":%s,"perms":["status_app","logs_app","status_app"]}`, bob.account)).
		want(200, "app.perms", "[logs_app status_app]", "app.modID", bob.account)
	ana.team(put, id, bob.account, perms...).want(200)

	// A member is no owner, and a stranger nothing.
	for _, c := range []*client{bob, carl} {
		c.team(post, id, carl.account, "logs_app").want(404)
		c.team(put, id, bob.account, "logs_app").want(404)
		c.dismiss(id, bob.account).want(404)
		c.get("/app/" + id + "/team").want(404)
		c.info(id).want(404)
		c.delete(id).want(404)
		c.put("/app/"+id+"/profile", `{"name":"mine"}`).want(404)
	}
	if all := bob.get("/team/all/status").want(200, "status", "ok"); strings.Count(string(all.body), `"container"`) != 1 {
		t.Errorf("all of bob's teams: %s", all.body)
	}
	carl.get("/team/all/status").want(200, "apps", "[]")
	bob.put("/app/all/stop", "").want(200)
	ana.info(id).want(200, "apps.online", true, "apps.mods", "["+bob.account+"]")

	// While an application comes to be it has no team.
	gate := filepath.Join(d.gates, "gate")
	young, built := ana.uploading(gated(gate, idleNode))
	ana.team(post, young, bob.account, "logs_app").want(409).says("message", "first time")
	ana.get("/app/"+young+"/team").want(200, "team", "[]")
	write(t, gate, "")
	(<-built).want(200)
	ana.team(post, young, bob.account, "logs_app").want(200)
	d.berth("account", "enable", "dora")
}

// TestTeamLists: who sees which application, over a restart of the daemon and
// the ends of applications and accounts.
func TestTeamLists(t *testing.T) {
	t.Parallel()
	d := launch(t)
	ana, bob, carl := d.account("ana", 200), d.account("bob", 100), d.account("carl", 100)
	id := ana.upload(shellBot(idleShell, "RAM=48", "NAME=helper"))
	other := ana.upload(shellBot(idleShell, "RAM=32"))
	own := bob.upload(shellBot(idleShell, "RAM=32"))
	bob.get("/team").want(200, "status", "ok", "apps", "[]")
	ana.team(http.MethodPost, id, bob.account, "stop_app", "status_app").want(200)
	ana.team(http.MethodPost, other, bob.account, "logs_app").want(200)
	ana.team(http.MethodPost, id, carl.account, "logs_app").want(200)
	bob.put("/team/"+id+"/stop", "").want(200)
	check := func() {
		t.Helper()
		apps, _ := bob.get("/team").want(200).at("apps").([]any)
		if len(apps) != 2 {
			t.Fatalf("bob helps with %v, want two", apps)
		}
		answer{t: t, code: 200, value: apps[0]}.want(200, "id", id, "name", "helper", "type", 0, "ram", 48, "online", false,
			"ramKilled", false, "lang", "shell", "perms", "[stop_app status_app]", "owner.name", "ana", "owner.avatar", "")
		members, _ := ana.get("/app/" + id + "/team").want(200).at("team").([]any)
		if len(members) != 2 {
			t.Fatalf("the team is %v, want two", members)
		}
		answer{t: t, code: 200, value: members[0]}.want(200, "modID", bob.account, "username", "bob", "avatar", nil, "perms", "[stop_app status_app]")
		ana.info(id).want(200, "apps.mods", fmt.Sprintf("[%s %s]", bob.account, carl.account))
		a := bob.get("/vscode").want(200, "status", "ok", "user.userID", bob.account, "user.username", "bob", "user.avatar", nil,
			"user.apps", "["+own+"]", "user.ramUsedMb", 32, "user.totalRamMb", 100, "user.appsTeam", fmt.Sprintf("[%s %s]", id, other))
		status, _ := a.at("user.appsStatus").([]any)
		if len(status) != 1 {
			t.Fatalf("the extension is shown %v, want bob's one", status)
		}
		answer{t: t, code: 200, value: status[0]}.want(200, "id", own, "online", true, "ram", 32, "mainFile", "start.sh", "lang", "shell",
			"version", "latest", "apts", "[]", "exitCode", 0, "type", 0, "autoRestart", false, "ramKilled", false)
	}
	check()
	d.restart()
	check()

	// An account that is disabled does nothing; nor does anybody for it.
	d.berth("account", "disable", "ana")
	bob.get("/team/"+id+"/status").want(403).says("message", "disabled")
	d.berth("account", "enable", "ana")
	d.berth("account", "disable", "bob")
	bob.get("/team/" + id + "/status").want(403)
	ana.team(http.MethodPut, id, bob.account, "status_app").want(200) // an owner can take from it
	d.berth("account", "enable", "bob")
	bob.get("/team/"+id+"/status").want(200, "apps.id", id)

	ana.delete(other).want(200)
	bob.get("/team/" + other + "/logs").want(404)
	bob.get("/vscode").want(200, "user.appsTeam", "["+id+"]")
	d.berth("account", "delete", "carl")
	d.clients = []*client{ana, bob}
	carl.get("/team/" + id + "/logs").want(401)
	ana.info(id).want(200, "apps.mods", "["+bob.account+"]")
}
