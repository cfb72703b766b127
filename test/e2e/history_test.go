package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"berth/test/harness"
)

// counter is a bot that says which code it is and keeps data of its own.
func counter(version string) harness.Files {
	return harness.ShellBot("echo code "+version+" $SECRET\necho ran "+version+" >> data.txt\nexec sleep 1000000\n").With("lib/code.txt", version)
}

// An application goes through commits, a backup, a rollback, a kill of the
// daemon, a restore, and at last to another host, and its data stays its own.
func TestHistory(t *testing.T) {
	t.Parallel()
	d := launch(t, "--apps-ok-delay", "500ms")
	c := d.account("ana", 500)
	id := c.Upload(counter("1"))
	c.Put("/app/"+id+"/env", `{"env":{"SECRET":"alpha"}}`).Want(200)
	c.Commit(id, counter("2").With("only2.txt", "2")).Want(200)
	backup := c.Get("/app/" + id + "/backup?env=true").Text("backups.url")
	c.Commit(id, counter("3")).Want(200)
	c.Put("/app/"+id+"/env", `{"env":{"SECRET":"beta"}}`).Want(200)

	a := c.ask("POST", "/app/"+id+"/rollback", "")
	a.Want(200, "status", "ok")
	c.UntilLog(id, "code 2 beta\n")
	if got := d.text(id, "lib/code.txt") + d.text(id, "data.txt"); got != "2ran 1\nran 2\nran 3\nran 2\n" {
		t.Errorf("after the rollback: %q", got)
	}
	c.ask("POST", "/app/"+id+"/rollback", `{"deploy":9}`).Want(404)
	c.ask("POST", "/app/"+id+"/rollback", `{"deploy":4}`).Want(200, "status", "error")
	h := c.Get("/app/" + id + "/deploys").Want(200)
	if text := string(h.Body); strings.Count(text, `"number"`) != 4 || !strings.Contains(text, `"kind":"rollback"`) || !strings.Contains(text, `"note":"back to deploy 2"`) {
		t.Errorf("the history is %s", text)
	}
	if out := d.CLI("app", "deploys", id); strings.Count(out, "\n") != 4 {
		t.Errorf("berth app deploys: %s", out)
	}

	_ = d.End(syscall.SIGKILL)
	d.Serve()
	c.Until(id, "apps.online", true)
	c.ask("POST", "/app/"+id+"/restore", fmt.Sprintf(`{"backup":%q,"env":true}`, backup)).Want(200, "status", "ok").Says("logs", "The environment variables of the backup (1 of them)")
	c.UntilLog(id, "code 2 alpha\n")
	if got := d.text(id, "data.txt"); !strings.HasPrefix(got, "ran 1\nran 2\n") || strings.Contains(got, "3") {
		t.Errorf("after the restore: %q", got)
	}
	c.ask("POST", "/app/"+id+"/rollback", `{"deploy":1}`).Want(200, "status", "ok")
	if got := d.text(id, "lib/code.txt"); got != "1" {
		t.Errorf("back at the upload: %q", got)
	}

	file := filepath.Join(d.Root, "all.tar.gz")
	d.CLI("backup", "create", "--to", file)
	if out, err := d.Command("backup", "verify", file).Output(); err != nil || !strings.Contains(string(out), "1 applications") {
		t.Errorf("verify: %s, %v", out, err)
	}
	before := d.text(id, "data.txt")
	c.DeleteAll()
	if code := d.End(syscall.SIGTERM); code != 0 {
		t.Errorf("exit %d", code)
	}
	if err := os.RemoveAll(d.Data); err != nil {
		t.Fatal(err)
	}
	d.CLI("backup", "restore", file)
	d.Serve()
	if a := c.ask("PUT", "/app/"+id+"/start", ""); a.Code != 409 || !strings.Contains(string(a.Body), "this host was restored from a backup of") {
		t.Errorf("a start on the restored host: %d %s", a.Code, a.Body)
	}
	if a := c.Post(counter("4").Zip()); a.Code != 409 {
		t.Errorf("an upload to the restored host: %d %s", a.Code, a.Body)
	}
	c.Until(id, "apps.online", false)
	d.CLI("resume")
	c.Until(id, "apps.online", true)
	if got := d.text(id, "data.txt"); !strings.HasPrefix(got, before) {
		t.Errorf("on the other host: %q, before %q", got, before)
	}
	c.ask("POST", "/app/"+id+"/rollback", "").Want(200, "status", "ok")
	if got := d.text(id, "lib/code.txt"); got != "2" {
		t.Errorf("a rollback there: %q", got)
	}
}

// text is a file of an application.
func (d *daemon) text(id, name string) string {
	d.T.Helper()
	b, err := os.ReadFile(d.Path(id, name))
	if err != nil {
		d.T.Error(err)
	}
	return string(b)
}

// Exact commits remove what earlier ZIPs brought, before the build; the program's own
// files stay, and rollbacks, kills of the daemon and a failed start bring all back.
func TestExactCommits(t *testing.T) {
	t.Parallel()
	d := launch(t, "--apps-ok-delay", "500ms")
	c := d.account("ana", 500)
	bot := func(version string, lines ...string) harness.Files {
		return harness.ShellBot("echo code "+version+"\necho ran "+version+" >> data.txt\nexec sleep 1000000\n", lines...)
	}
	id := c.Upload(bot("1").With("lib/old.txt", "1").With("edited.txt", "1").With("empty/too.txt", "1"))
	for _, name := range []string{"edited.txt", "lib/made.txt"} {
		path := filepath.Join(d.Data, "apps", id, name)
		if err := os.WriteFile(path, []byte("mine"), 0o644); err != nil {
			t.Fatal(err)
		}
		st, err := os.Stat(filepath.Dir(path))
		if err != nil {
			t.Fatal(err)
		}
		owner := st.Sys().(*syscall.Stat_t)
		if err := os.Chown(path, int(owner.Uid), int(owner.Gid)); err != nil {
			t.Fatal(err)
		}
	}
	gone := func(when string, names ...string) {
		t.Helper()
		for _, name := range names {
			if _, err := os.Lstat(filepath.Join(d.Data, "apps", id, name)); err == nil {
				t.Errorf("%s: %s is there", when, name)
			}
		}
	}
	c.CommitExact(id, bot("2", "BUILD=ls lib > seen").With("new.txt", "2")).Want(200, "status", "ok").
		Says("logs", "that were removed: 2.", `stay as they are: "edited.txt".`)
	gone("exact", "lib/old.txt", "empty")
	if got := d.text(id, "seen") + d.text(id, "edited.txt") + d.text(id, "data.txt"); got != "made.txt\nmineran 1\nran 2\n" {
		t.Errorf("after the exact commit: %q", got)
	}
	deploys := string(c.Get("/app/" + id + "/deploys").Want(200).Body)
	if !strings.Contains(deploys, `"exact":true,"removed":2`) || !strings.Contains(deploys, `"exact":false,"removed":0`) {
		t.Errorf("the history is %s", deploys)
	}
	c.CommitExact(id, harness.ShellBot("exit 7")).Want(422).Says("message", "the code from before the commit is back")
	if got := d.text(id, "new.txt"); got != "2" {
		t.Errorf("after a commit that failed: %q", got)
	}

	_ = d.End(syscall.SIGKILL)
	d.Serve()
	c.Until(id, "apps.online", true)
	c.ask("POST", "/app/"+id+"/rollback", "").Want(200, "status", "ok")
	if got := d.text(id, "lib/old.txt") + d.text(id, "empty/too.txt") + d.text(id, "edited.txt"); got != "11mine" {
		t.Errorf("after the rollback: %q", got)
	}
	gone("rollback", "new.txt", "seen")
	// What the rollback brought back is known as before.
	c.CommitExact(id, bot("3")).Want(200, "status", "ok").Says("logs", "that were removed: 2.")
	gone("exact again", "lib/old.txt", "empty")
	c.CommitExact(id, bot("4")).Want(200).Says("logs", "that were removed: 0.")
	if !strings.Contains(string(c.Get("/app/"+id+"/deploys").Want(200).Body), `"note":"exact, 0 files removed"`) {
		t.Error("the history does not say how many")
	}
}
