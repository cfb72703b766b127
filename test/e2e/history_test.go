package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// counter is a bot that says which code it is and keeps data of its own.
func counter(version string) files {
	return shellBot("echo code "+version+" $SECRET\necho ran "+version+" >> data.txt\nexec sleep 1000000\n").with("lib/code.txt", version)
}

// An application goes through commits, a backup, a rollback, a kill of the
// daemon, a restore, and at last to another host, and its data stays its own.
func TestHistory(t *testing.T) {
	t.Parallel()
	d := launch(t, "--apps-ok-delay", "500ms")
	c := d.account("ana", 500)
	id := c.upload(counter("1"))
	c.put("/app/"+id+"/env", `{"env":{"SECRET":"alpha"}}`).want(200)
	c.commit(id, counter("2").with("only2.txt", "2")).want(200)
	backup := c.get("/app/" + id + "/backup?env=true").text("backups.url")
	c.commit(id, counter("3")).want(200)
	c.put("/app/"+id+"/env", `{"env":{"SECRET":"beta"}}`).want(200)

	a := c.ask("POST", "/app/"+id+"/rollback", "")
	a.want(200, "status", "ok")
	c.untilLog(id, "code 2 beta\n")
	if got := d.text(id, "lib/code.txt") + d.text(id, "data.txt"); got != "2ran 1\nran 2\nran 3\nran 2\n" {
		t.Errorf("after the rollback: %q", got)
	}
	c.ask("POST", "/app/"+id+"/rollback", `{"deploy":9}`).want(404)
	c.ask("POST", "/app/"+id+"/rollback", `{"deploy":4}`).want(200, "status", "error")
	h := c.get("/app/" + id + "/deploys").want(200)
	if text := string(h.body); strings.Count(text, `"number"`) != 4 || !strings.Contains(text, `"kind":"rollback"`) || !strings.Contains(text, `"note":"back to deploy 2"`) {
		t.Errorf("the history is %s", text)
	}
	if out := d.berth("app", "deploys", id); strings.Count(out, "\n") != 4 {
		t.Errorf("berth app deploys: %s", out)
	}

	_ = d.End(syscall.SIGKILL)
	d.start()
	c.until(id, "apps.online", true)
	c.ask("POST", "/app/"+id+"/restore", fmt.Sprintf(`{"backup":%q,"env":true}`, backup)).want(200, "status", "ok").says("logs", "The environment variables of the backup (1 of them)")
	c.untilLog(id, "code 2 alpha\n")
	if got := d.text(id, "data.txt"); !strings.HasPrefix(got, "ran 1\nran 2\n") || strings.Contains(got, "3") {
		t.Errorf("after the restore: %q", got)
	}
	c.ask("POST", "/app/"+id+"/rollback", `{"deploy":1}`).want(200, "status", "ok")
	if got := d.text(id, "lib/code.txt"); got != "1" {
		t.Errorf("back at the upload: %q", got)
	}

	file := filepath.Join(d.root, "all.tar.gz")
	d.berth("backup", "create", "--to", file)
	if out, err := d.command("backup", "verify", file).Output(); err != nil || !strings.Contains(string(out), "1 applications") {
		t.Errorf("verify: %s, %v", out, err)
	}
	before := d.text(id, "data.txt")
	c.deleteAll()
	if code := d.End(syscall.SIGTERM); code != 0 {
		t.Errorf("exit %d", code)
	}
	if err := os.RemoveAll(d.data); err != nil {
		t.Fatal(err)
	}
	d.berth("backup", "restore", file)
	d.start()
	c.until(id, "apps.online", true)
	if got := d.text(id, "data.txt"); !strings.HasPrefix(got, before) {
		t.Errorf("on the other host: %q, before %q", got, before)
	}
	c.ask("POST", "/app/"+id+"/rollback", "").want(200, "status", "ok")
	if got := d.text(id, "lib/code.txt"); got != "2" {
		t.Errorf("a rollback there: %q", got)
	}
}

// text is a file of an application.
func (d *daemon) text(id, name string) string {
	d.t.Helper()
	b, err := os.ReadFile(d.path(id, name))
	if err != nil {
		d.t.Error(err)
	}
	return string(b)
}
