package clients

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"berth/test/harness"
)

// everything is all eight permissions, as the clients spell them.
var everything = []string{"backup_app", "commit_app", "edit_ram", "logs_app", "restart_app", "start_app", "status_app", "stop_app"}

// TestSDKTeam: an owner gives a friend permissions, and the friend uses them.
func TestSDKTeam(t *testing.T) {
	d := launch(t)
	owner := d.sdk(t, d.token)
	friendID, friendToken := d.account("bea")
	friend := d.sdk(t, friendToken)
	id := owner.call("apps.create", map[string]any{"file": zipped(t, "demo.zip", bot("Demo", idle))}).text("app.appId")

	owner.call("appTeam.fetch", id).want("", "[]")
	owner.try("appTeam.create", id, "999", []string{"logs_app"}).refused(404)
	owner.call("appTeam.create", id, friendID, []string{"logs_app"}).want("modID", friendID, "appID", id, "perms", "[logs_app]")
	owner.try("appTeam.create", id, friendID, []string{"logs_app"}).refused(409)
	owner.call("apps.fetch", id).want("mods", "["+friendID+"]")

	friend.call("teamApps.terminal", id)
	friend.try("teamApps.stop", id).refused(403, "stop_app")
	friend.try("apps.fetch", id).refused(404)
	owner.call("appTeam.edit", id, friendID, everything)
	seen := friend.call("teamApps.fetch").at(id)
	if app, ok := seen.(map[string]any); !ok || app["name"] != "Demo" || app["online"] != true || len(app["perms"].([]any)) != 8 {
		t.Errorf("the friend sees %v", seen)
	}
	friend.call("teamApps.status", id).want("container", "Online")
	if url := friend.call("teamApps.backup", id).text("url"); !strings.HasPrefix(url, d.Base+"/d/") {
		t.Errorf("the backup is at %s", url)
	}
	friend.call("teamApps.ram", id, 130).want("statusCode", 200)
	friend.call("teamApps.stop", id).want("status", "ok")
	friend.call("teamApps.start", id).want("status", "ok")
	friend.call("teamApps.restart", id).want("status", "ok")
	friend.call("teamApps.update", id, map[string]any{"file": zipped(t, "c.zip", map[string]string{"index.js": "console.log('by a friend');" + idle})}).want("status", "ok")
	harness.Eventually(t, "the friend's code runs", func() bool {
		return strings.Contains(friend.call("teamApps.terminal", id).text("big"), "by a friend")
	})
	owner.call("apps.fetch", id).want("ram", 130)

	// Without an id the SDK means all that it may.
	equal(t, "the logs of all", len(friend.call("teamApps.terminal").Value.(map[string]any)), 1)
	equal(t, "the backups of all", len(friend.call("teamApps.backup").Value.(map[string]any)), 1)
	equal(t, "stop all", len(friend.call("teamApps.stop").at("stoped").([]any)), 1)
	equal(t, "start all", len(friend.call("teamApps.start").at("started").([]any)), 1)
	equal(t, "restart all", len(friend.call("teamApps.restart").at("restarted").([]any)), 1)

	owner.call("appTeam.delete", id, friendID).want("status", "ok")
	friend.try("teamApps.status", id).refused(404)
	friend.call("teamApps.fetch").want("", "map[]")
}

// TestCLITeam is the same with the command line.
func TestCLITeam(t *testing.T) {
	d := launch(t)
	owner := d.cli(t, d.token)
	friendID, friendToken := d.account("bea")
	friend := d.cli(t, friendToken)
	id := d.sdk(t, d.token).call("apps.create", map[string]any{"file": zipped(t, "demo.zip", bot("Demo", idle))}).text("app.appId")

	owner.run([]string{friendID, "status_app"}, "apps:team", id, "--create", friendID, "--perms", "status_app,logs_app")
	owner.run([]string{friendID, "bea", "logs_app"}, "apps:team", id)
	friend.run([]string{id, "Demo", "status_app"}, "team")
	friend.run([]string{"Online"}, "team:status", id)
	friend.run([]string{"Online"}, "team:status")
	friend.refused(403, "backup_app", "team:backup", id)
	owner.run([]string{friendID}, "apps:team", id, "--edit", friendID, "--perms", "all")
	friend.run(nil, "team:ram", id, "120")
	friend.run(nil, "team:stop", id)
	friend.run(nil, "team:start", id)
	friend.run(nil, "team:restart", id)
	friend.run([]string{id}, "team:restart", "all")
	friend.run([]string{id}, "team:logs")
	friend.run([]string{id}, "team:backup", id, "--save")
	code := folder(t, map[string]string{"index.js": "console.log('by a friend');" + idle})
	friend.in(code).ask([]answer{{typed: "\x1b[B\r"}}, nil, "team:commit", ".") // all applications come first in the list
	harness.Eventually(t, "the friend's code runs", func() bool {
		friend.run([]string{id}, "team:logs", id)
		log, err := os.ReadFile(filepath.Join(friend.dir, "discloud/logs", id+".log"))
		return err == nil && strings.Contains(string(log), "by a friend")
	})
	owner.run(nil, "apps:team", id, "--delete", friendID)
	friend.refused(404, "", "team:status", id)
}

// TestConsoleAndAPT: the rest of what the clients can do.
func TestConsoleAndAPT(t *testing.T) {
	d := launch(t)
	s, c := d.sdk(t, d.token), d.cli(t, d.token)
	id := s.call("apps.create", map[string]any{"file": zipped(t, "demo.zip", bot("Demo", idle))}).text("app.appId")
	s.call("apps.console", id, "echo out; echo err >&2; ls index.js").want("online", true, "stdout", "out\nindex.js\n", "stderr", "err\n")
	s.call("apps.console", id, "exit 3")
	if _, said := c.try([]answer{{"echo from the $((40 + 2))\r", "from the 42"}, {typed: "exit\r"}}, "terminal", id); !strings.Contains(said, "from the 42") {
		t.Errorf("the terminal said %q", said)
	}
	s.call("appApt.install", id, []string{"ffmpeg", "tools"}).want("status", "ok")
	c.run([]string{id, "ffmpeg"}, "apps", id)
	s.call("appApt.uninstall", id, []string{"tools"}).want("status", "ok")
	c.run([]string{"canvas"}, "app:apt", id, "--install", "canvas")
	c.run(nil, "app:apt", id, "--uninstall", "canvas")

	other := s.call("apps.create", map[string]any{"file": zipped(t, "demo.zip", bot("Other", idle))}).text("app.appId")
	removed := s.call("apps.delete").at("removealled").([]any)
	if len(removed) != 2 || s.call("apps.fetch").text("") != "map[]" {
		t.Errorf("%v were removed, want %s and %s", removed, id, other)
	}
}
