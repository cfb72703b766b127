package e2e

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"berth/test/harness"
)

// What the release before left is in testdata/before, as its own binary made it: a data
// directory and a backup of the host, with schema 12 of the database. An account has a
// token and a bot that is deployed twice, with a variable and a member of its team. The
// token opens nothing else.

// firstUID is the user id from which that release gave them.
const firstUID = 599000

// TestDataOfTheReleaseBefore serves what the release before left: its tokens may what they
// could, and its deploys lead back; what is new works on top of it.
func TestDataOfTheReleaseBefore(t *testing.T) {
	t.Parallel()
	for name, bring := range map[string]func(t *testing.T, d *daemon, from string){
		"data directory": func(t *testing.T, d *daemon, from string) {
			if err := os.Mkdir(d.Data, 0o711); err != nil {
				t.Fatal(err)
			}
			//nolint:gosec // both are this test's own
			if out, err := exec.Command("tar", "-xzpf", filepath.Join(from, "data.tar.gz"), "--numeric-owner", "-C", d.Data).CombinedOutput(); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
		},
		"backup": func(t *testing.T, d *daemon, from string) {
			archive := filepath.Join(from, "backup.tar.gz")
			if out, err := d.Command("backup", "verify", archive).CombinedOutput(); err != nil || !strings.Contains(string(out), "1 applications") {
				t.Fatalf("%v: %s", err, out)
			}
			d.CLI("backup", "restore", "--start", archive)
		},
	} {
		t.Run(name, func(t *testing.T) { // one after the other: both have the same users
			from, err := filepath.Abs("testdata/before")
			if err != nil {
				t.Fatal(err)
			}
			d := &daemon{harness.Prepare(t, "--apps-uid-base", fmt.Sprint(firstUID))}
			d.UID = firstUID
			bring(t, d, from)
			d.Serve()
			tokenOf, err := os.ReadFile(filepath.Join(from, "token"))
			if err != nil {
				t.Fatal(err)
			}
			c := &client{&harness.Client{T: t, Berth: d.Berth, Name: "ana", Token: strings.TrimSpace(string(tokenOf))}, d}
			d.Clients = append(d.Clients, c.Client)
			servedAsBefore(t, d, c)
			sealedSince(t, d)
		})
	}
}

func servedAsBefore(t *testing.T, d *daemon, c *client) {
	t.Helper()
	if ids := c.IDs(); len(ids) != 1 {
		t.Fatalf("the applications are %v", ids)
	}
	id := c.IDs()[0]
	c.Until(id, "apps.online", true)
	c.UntilLog(id, "code 2 alpha\n")
	deploys := string(c.Get("/app/" + id + "/deploys").Want(200).Body)
	if strings.Count(deploys, `"exact":false,"removed":0`) != 2 || !strings.Contains(deploys, `"rollback":true`) {
		t.Errorf("the deploys are %s", deploys)
	}

	// A token of before has no bounds; one that it makes has them.
	c.Put("/app/"+id+"/env", `{"env":{"SECRET":"beta"}}`).Want(200)
	c.Get("/token").Want(200)
	made := c.ask(http.MethodPost, "/token", fmt.Sprintf(`{"label":"ci","apps":[%q],"may":["commit_app"]}`, id)).Want(200)
	ci := &client{&harness.Client{T: t, Berth: d.Berth, Name: "ci", Token: made.Text("token.token")}, d}
	if ci.Token == "" {
		t.Fatalf("no token in %s", made.Body)
	}
	ci.Put("/app/"+id+"/env", `{"env":{"SECRET":"gamma"}}`).Want(403)
	bob := &client{&harness.Client{T: t, Berth: d.Berth, Name: "bob", Token: d.CLI("token", "create", "bob")}, d}
	bob.Get("/team/" + id + "/logs").Want(200)

	// Nothing says what its deploys brought, so an exact one removes none of that, and
	// says so once.
	next := harness.Files{"start.sh": "echo code 3 $SECRET\nexec sleep 1000000\n"}
	ci.CommitExact(id, next.With("lib/three.txt", "3")).Want(200).Says("logs", "that were removed: 0.", "berth does not know what each earlier deploy brought")
	if got := d.text(id, "lib/old.txt") + d.text(id, "lib/two.txt") + d.text(id, "lib/three.txt"); got != "123" {
		t.Errorf("after an exact commit: %q", got)
	}
	c.UntilLog(id, "code 3 beta\n")
	a := ci.CommitExact(id, next).Want(200).Says("logs", "that were removed: 1.")
	if strings.Contains(a.Text("logs"), "does not know") {
		t.Errorf("the second says %s", a.Text("logs"))
	}
	c.ask(http.MethodPost, "/app/"+id+"/rollback", `{"deploy":1}`).Want(200, "status", "ok")
	if got := d.text(id, "lib/old.txt") + d.text(id, "data.txt"); !strings.HasPrefix(got, "1ran 1\nran 2\n") {
		t.Errorf("back at the first deploy: %q", got)
	}
	if _, err := os.Lstat(d.Path(id, "lib/two.txt")); err == nil {
		t.Error("back at the first deploy, what the second brought is there")
	}
	d.Restart()
	c.Until(id, "apps.online", true)
	c.UntilLog(id, "code 1 beta\n")
}

// sealedSince looks for the variable that the release before had stored in plain: the copy from
// before the migration has it, until it is a day old.
func sealedSince(t *testing.T, d *daemon) {
	t.Helper()
	const row, file = "SECRETalpha", "/berth.db.schema-"
	found := holding(t, d.Data, row)
	if len(found) != 1 || !strings.HasPrefix(found[0], file) {
		t.Errorf("%s is in %v", row, found)
	}
	d.End(syscall.SIGTERM)
	for _, name := range found {
		old := time.Now().Add(-25 * time.Hour)
		if err := os.Chtimes(d.Data+name, old, old); err != nil {
			t.Fatal(err)
		}
	}
	d.Serve()
	harness.Eventually(t, "nothing is there in plain", func() bool { return holding(t, d.Data, row) == nil })
}
