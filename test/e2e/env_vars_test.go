package e2e

import (
	"archive/zip"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"berth/test/harness"
)

const (
	envSecret  = "s3cr3t-of-the-owner-that-is-long"
	nodeSecret = "console.log('REPORT', JSON.stringify([process.env.TOKEN ? process.env.TOKEN.length : 'unset', process.env.NODE_ENV]), 'END'); setInterval(() => {}, 1e6)\n"
	pySecret   = "import json, os, signal\ntoken = os.environ.get('TOKEN')\nprint('REPORT', json.dumps([len(token) if token else 'unset', os.environ['NODE_ENV']]), 'END', flush=True)\nsignal.pause()\n"
)

// setEnv sets variables through the API.
func (c *client) setEnv(id string, set map[string]any) harness.Answer {
	c.T.Helper()
	body, err := json.Marshal(map[string]any{"env": set})
	if err != nil {
		c.T.Fatal(err)
	}
	return c.Put("/app/"+id+"/env", string(body))
}

// reports waits until a program has reported n times, and returns the last.
func (c *client) reports(id string, n int) string {
	c.T.Helper()
	var log string
	harness.Eventually(c.T, fmt.Sprintf("it reported %d times", n), func() bool {
		log = c.Log(id)
		return strings.Count(log, " END\n") >= n
	})
	log = log[strings.LastIndex(log, "REPORT ")+len("REPORT "):]
	report, _, _ := strings.Cut(log, " END")
	return strings.ReplaceAll(report, " ", "")
}

func (c *client) wantReport(id string, n int, want string) {
	c.T.Helper()
	if got := c.reports(id, n); got != want {
		c.T.Errorf("report %d is %s, want %s", n, got, want)
	}
}

// TestVariables follows a variable from the API to programs, and looks where it
// must not be.
func TestVariables(t *testing.T) {
	t.Parallel()
	d := launch(t)
	owner := d.account("ana", 4096)
	other := d.account("bob", 512)
	length := fmt.Sprint(len(envSecret))
	for name, app := range map[string]harness.Files{"node": harness.NodeBot(nodeSecret), "python": harness.PythonBot(pySecret)} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := owner.in(t)
			id := c.Upload(app)
			c.wantReport(id, 1, `["unset","production"]`)
			c.setEnv(id, map[string]any{"TOKEN": envSecret, "NODE_ENV": "test", "SHORT": "1"}).Want(200, "status", "ok", "statusCode", 200).
				Says("message", "3 environment variables", "In effect from the next start.")
			c.Get("/app/"+id+"/env").Want(200, "status", "ok", "env", "[map[name:NODE_ENV value:****] map[name:SHORT value:****] map[name:TOKEN value:****long]]")
			c.Put("/app/"+id+"/restart", "").Want(200)
			c.wantReport(id, 2, "["+length+`,"test"]`)
			if n := strings.Count(c.Log(id), " END\n"); n != 2 {
				t.Errorf("it reported %d times: it was started before the restart", n)
			}
			// By the owner of the host, while the daemon runs.
			d.CLI("app", "env", id, "set", "TOKEN=short")
			c.Put("/app/"+id+"/restart", "").Want(200)
			c.wantReport(id, 3, `[5,"test"]`)
			if got := d.CLI("app", "env", id, "list", "--show"); !strings.Contains(got, "TOKEN     short") {
				t.Errorf("the command lists %q", got)
			}
			c.Send(c.Request(http.MethodDelete, "/v2/app/"+id+"/env/TOKEN", nil)).Want(200).Says("message", "TOKEN was removed")
			c.setEnv(id, map[string]any{"NODE_ENV": nil}).Want(200)
			c.Put("/app/"+id+"/restart", "").Want(200)
			c.wantReport(id, 4, `["unset","production"]`)
			c.Send(c.Request(http.MethodDelete, "/v2/app/"+id+"/env/TOKEN", nil)).Want(404).Says("message", `there is no variable "TOKEN"`)
			c.setEnv(id, map[string]any{"PORT": "1"}).Want(400).Says("message", "PORT is set by berth")
			stranger := other.in(t)
			stranger.Get("/app/" + id + "/env").Want(404)
			stranger.setEnv(id, map[string]any{"A": "1"}).Want(404)
		})
	}
}

// TestSecretsStayInTheDatabase looks for a value wherever berth writes, through
// a start, a build, a backup, a failed commit and a restart of the daemon.
func TestSecretsStayInTheDatabase(t *testing.T) {
	t.Parallel()
	d := launch(t)
	c := d.account("ana", 4096)
	id := c.Upload(harness.NodeBot(nodeSecret))
	length := fmt.Sprint(len(envSecret))
	c.wantReport(id, 1, `["unset","production"]`)
	c.setEnv(id, map[string]any{"TOKEN": envSecret, "NODE_ENV": "production"}).Want(200)
	c.setEnv(id, map[string]any{"BAD-NAME": envSecret}).Want(400)
	c.Put("/app/"+id+"/restart", "").Want(200)
	c.wantReport(id, 2, "["+length+`,"production"]`)

	// A build sees it, but for NODE_ENV, with which packages would be missing.
	// A commit keeps it, and one that fails does too.
	c.Commit(id, harness.NodeBot(nodeSecret, "BUILD=sh build.sh").With("build.sh", `echo "${#TOKEN} ${NODE_ENV-none}" > out`)).Want(200)
	if got, err := os.ReadFile(d.Path(id, "out")); err != nil || string(got) != length+" none\n" {
		t.Errorf("the build saw %q, %v", got, err)
	}
	c.wantReport(id, 3, "["+length+`,"production"]`)
	c.Commit(id, harness.NodeBot(nodeSecret, "BUILD=exit 3")).Want(422)
	d.Restart()
	c.wantReport(id, 4, "["+length+`,"production"]`)

	pieces := map[string][]byte{"the application's log": []byte(c.Log(id)), "the daemon's log": []byte(d.Out.String())}
	for name, content := range backup(c, id, "") {
		pieces["the backup's "+name] = content
	}
	err := filepath.Walk(d.Data, func(path string, info os.FileInfo, err error) error {
		if err != nil || !info.Mode().IsRegular() || strings.HasPrefix(filepath.Base(path), "berth.db") {
			return err
		}
		pieces[path], err = os.ReadFile(path)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	_, doctor, _ := d.Run("doctor")
	pieces["berth doctor"] = []byte(doctor)
	for name, content := range pieces {
		if bytes.Contains(content, []byte(envSecret)) {
			t.Errorf("%s holds the value", name)
		}
	}
	if info, err := os.Stat(filepath.Join(d.Data, "berth.db")); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the database: %v, %v", info, err)
	}
	c.wantVariablesInBackup(d, id)
	// Gone with the application, also for the next of its name.
	c.Delete(id).Want(200)
	if code, _, stderr := d.Run("app", "env", id, "list"); code != 5 {
		t.Errorf("status %d: %s", code, stderr)
	}
}

// wantVariablesInBackup asks for a backup with the variables, and uploads and
// commits it: what it holds is neither unpacked nor set.
func (c *client) wantVariablesInBackup(d *daemon, id string) {
	c.T.Helper()
	held := string(backup(c, id, "?env=true")[".berth/env"])
	if want := "NODE_ENV='production'\nTOKEN='" + envSecret + "'\n"; !strings.HasSuffix(held, "\n"+want) {
		c.T.Errorf("it holds %q, want %q at the end", held, want)
	}
	c.Get("/app/"+id+"/backup?env=yes").Want(400).Says("message", "The parameter env must be given once, as true or false.")
	c.Get("/app/all/backup?env=true").Want(200).Says("message", ".berth/env")
	const told = `".berth/env" of the ZIP (1 entry) was left out: it is for environment variables (2 of them)`
	packed := c.Download(c.Get("/app/" + id + "/backup?env=true").Text("backups.url"))
	c.setEnv(id, map[string]any{"TOKEN": "changed"}).Want(200)
	c.Send(c.Form(http.MethodPut, "/v2/app/"+id+"/commit", packed)).Want(200).Says("logs", told, "berth app env APP set NAME=VALUE")
	if got := d.CLI("app", "env", id, "list", "--show"); !strings.Contains(got, "TOKEN     changed") {
		c.T.Errorf("a commit sets variables: %s", got)
	}
	other := c.Post(packed).Want(200).Says("logs", told).Text("app.id")
	c.Get("/app/"+other+"/env").Want(200, "env", "[]")
	for _, id := range []string{id, other} {
		if harness.Exists(c.T, d.Path(id, ".berth", "env")) || !harness.Exists(c.T, d.Path(id, "index.js")) {
			c.T.Errorf("of %s the wrong files were unpacked", id)
		}
	}
	if strings.Contains(d.Out.String(), envSecret) || !strings.Contains(d.Out.String(), "a backup holds the environment variables") {
		c.T.Error("the daemon's log tells of no such backup, or what is in it")
	}
}

// backup returns what is in a backup that is asked for with a query.
func backup(c *client, id, query string) map[string][]byte {
	c.T.Helper()
	packed := c.Download(c.Get("/app/" + id + "/backup" + query).Text("backups.url"))
	r, err := zip.NewReader(bytes.NewReader(packed), int64(len(packed)))
	if err != nil {
		c.T.Fatal(err)
	}
	content := map[string][]byte{}
	for _, f := range r.File {
		in, err := f.Open()
		if err != nil {
			c.T.Fatal(err)
		}
		if content[f.Name], err = io.ReadAll(in); err != nil {
			c.T.Fatal(err)
		}
	}
	if len(content["index.js"]) == 0 {
		c.T.Errorf("the backup holds %d files and no code", len(content))
	}
	return content
}

// A value that comes through the command's standard input, the largest there
// may be, arrives whole, and so do those that fill the environment.
func TestLargeVariables(t *testing.T) {
	t.Parallel()
	d := launch(t)
	c := d.account("ana", 4096)
	id := c.Upload(harness.PythonBot("import hashlib, json, os, signal\nprint('REPORT', json.dumps([len(os.environ.get('V%d' % i, '')) for i in range(4)] + [os.environ.get('LINES', '').count(chr(10))]), 'END', flush=True)\nsignal.pause()\n"))
	c.wantReport(id, 1, "[0,0,0,0,0]")
	cmd := exec.Command(harness.Binary, "app", "env", id, "set", "LINES=-", "--data-dir", d.Data)
	cmd.Env = harness.CleanEnv()
	cmd.Stdin = strings.NewReader(strings.Repeat("line é\n", 100))
	if out, err := cmd.CombinedOutput(); err != nil || strings.Contains(string(out), "line") {
		t.Fatalf("%v: %s", err, out)
	}
	large := strings.Repeat("\x01", 15<<10) // which JSON writes with six bytes
	c.setEnv(id, map[string]any{"V0": large, "V1": large, "V2": large, "V3": large}).Want(200)
	c.setEnv(id, map[string]any{"V4": large}).Want(422).Says("message", "may take 64 KB together")
	c.setEnv(id, map[string]any{"V4": large + large}).Want(400).Says("message", "the value of V4 is longer than 16 KB")
	c.Put("/app/"+id+"/restart", "").Want(200)
	c.wantReport(id, 2, "[15360,15360,15360,15360,99]")
}

// TestApts: wishes for system packages are remembered, and nothing is pretended.
func TestApts(t *testing.T) {
	t.Parallel()
	d := launch(t)
	c := d.account("ana", 4096)
	a := c.Post(harness.NodeBot(harness.IdleNode, "APT=no-such-package-a").Zip()).Want(200)
	if _, err := os.Stat("/var/lib/dpkg/status"); err == nil {
		a.Says("logs", "this host lacks no-such-package-a", "apt-get install no-such-package-a")
	}
	id := a.Text("app.id")
	c.Info(id).Want(200, "apps.apts", "[no-such-package-a]")
	added := c.Put("/app/"+id+"/apt", `{"apt":"dpkg, no-such-package-b"}`).Want(200, "status", "ok", "statusCode", 200)
	if _, err := os.Stat("/var/lib/dpkg/status"); err == nil {
		added.Says("message", "Recorded: dpkg, no-such-package-b.", "this host lacks no-such-package-b.", "apt-get install no-such-package-b")
	}
	c.Put("/app/"+id+"/apt", `{"apt":"; reboot"}`).Want(400)
	c.Info(id).Want(200, "apps.apts", "[no-such-package-a dpkg no-such-package-b]")
	c.Send(c.Request(http.MethodDelete, "/v2/app/"+id+"/apt?apt=no-such-package-a", nil)).Want(200, "status", "ok")
	r := c.Request(http.MethodDelete, "/v2/app/"+id+"/apt", strings.NewReader(`{"apt":"no-such-package-b"}`))
	r.Header.Set("Content-Type", "application/json")
	c.Send(r).Want(200, "status", "ok")
	d.Restart()
	c.Info(id).Want(200, "apps.apts", "[dpkg]")
	c.Commit(id, harness.NodeBot(harness.IdleNode, "APT=tools")).Want(200)
	c.Info(id).Want(200, "apps.apts", "[tools]")
}
