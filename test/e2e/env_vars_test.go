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
func (c *client) setEnv(id string, set map[string]any) answer {
	c.t.Helper()
	body, err := json.Marshal(map[string]any{"env": set})
	if err != nil {
		c.t.Fatal(err)
	}
	return c.put("/app/"+id+"/env", string(body))
}

// reports waits until a program has reported n times, and returns the last.
func (c *client) reports(id string, n int) string {
	c.t.Helper()
	var log string
	harness.Eventually(c.t, fmt.Sprintf("it reported %d times", n), func() bool {
		log = c.log(id)
		return strings.Count(log, " END\n") >= n
	})
	log = log[strings.LastIndex(log, "REPORT ")+len("REPORT "):]
	report, _, _ := strings.Cut(log, " END")
	return strings.ReplaceAll(report, " ", "")
}

func (c *client) wantReport(id string, n int, want string) {
	c.t.Helper()
	if got := c.reports(id, n); got != want {
		c.t.Errorf("report %d is %s, want %s", n, got, want)
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
	for name, app := range map[string]files{"node": nodeBot(nodeSecret), "python": pythonBot(pySecret)} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := owner.in(t)
			id := c.upload(app)
			c.wantReport(id, 1, `["unset","production"]`)
			c.setEnv(id, map[string]any{"TOKEN": envSecret, "NODE_ENV": "test", "SHORT": "1"}).want(200, "status", "ok", "statusCode", 200).
				says("message", "3 environment variables", "In effect from the next start.")
			c.get("/app/"+id+"/env").want(200, "status", "ok", "env", "[map[name:NODE_ENV value:****] map[name:SHORT value:****] map[name:TOKEN value:****long]]")
			c.put("/app/"+id+"/restart", "").want(200)
			c.wantReport(id, 2, "["+length+`,"test"]`)
			if n := strings.Count(c.log(id), " END\n"); n != 2 {
				t.Errorf("it reported %d times: it was started before the restart", n)
			}
			// By the owner of the host, while the daemon runs.
			d.berth("app", "env", id, "set", "TOKEN=short")
			c.put("/app/"+id+"/restart", "").want(200)
			c.wantReport(id, 3, `[5,"test"]`)
			if got := d.berth("app", "env", id, "list", "--show"); !strings.Contains(got, "TOKEN     short") {
				t.Errorf("the command lists %q", got)
			}
			c.send(c.request(http.MethodDelete, "/v2/app/"+id+"/env/TOKEN", nil)).want(200).says("message", "TOKEN was removed")
			c.setEnv(id, map[string]any{"NODE_ENV": nil}).want(200)
			c.put("/app/"+id+"/restart", "").want(200)
			c.wantReport(id, 4, `["unset","production"]`)
			c.send(c.request(http.MethodDelete, "/v2/app/"+id+"/env/TOKEN", nil)).want(404).says("message", `there is no variable "TOKEN"`)
			c.setEnv(id, map[string]any{"PORT": "1"}).want(400).says("message", "PORT is set by berth")
			stranger := other.in(t)
			stranger.get("/app/" + id + "/env").want(404)
			stranger.setEnv(id, map[string]any{"A": "1"}).want(404)
		})
	}
}

// TestSecretsStayInTheDatabase looks for a value wherever berth writes, through
// a start, a build, a backup, a failed commit and a restart of the daemon.
func TestSecretsStayInTheDatabase(t *testing.T) {
	t.Parallel()
	d := launch(t)
	c := d.account("ana", 4096)
	id := c.upload(nodeBot(nodeSecret))
	length := fmt.Sprint(len(envSecret))
	c.wantReport(id, 1, `["unset","production"]`)
	c.setEnv(id, map[string]any{"TOKEN": envSecret, "NODE_ENV": "production"}).want(200)
	c.setEnv(id, map[string]any{"BAD-NAME": envSecret}).want(400)
	c.put("/app/"+id+"/restart", "").want(200)
	c.wantReport(id, 2, "["+length+`,"production"]`)

	// A build sees it, but for NODE_ENV, with which packages would be missing.
	// A commit keeps it, and one that fails does too.
	c.commit(id, nodeBot(nodeSecret, "BUILD=sh build.sh").with("build.sh", `echo "${#TOKEN} ${NODE_ENV-none}" > out`)).want(200)
	if got, err := os.ReadFile(d.path(id, "out")); err != nil || string(got) != length+" none\n" {
		t.Errorf("the build saw %q, %v", got, err)
	}
	c.wantReport(id, 3, "["+length+`,"production"]`)
	c.commit(id, nodeBot(nodeSecret, "BUILD=exit 3")).want(422)
	d.restart()
	c.wantReport(id, 4, "["+length+`,"production"]`)

	pieces := map[string][]byte{"the application's log": []byte(c.log(id)), "the daemon's log": []byte(d.Out.String())}
	for name, content := range backup(c, id, "") {
		pieces["the backup's "+name] = content
	}
	err := filepath.Walk(d.data, func(path string, info os.FileInfo, err error) error {
		if err != nil || !info.Mode().IsRegular() || strings.HasPrefix(filepath.Base(path), "berth.db") {
			return err
		}
		pieces[path], err = os.ReadFile(path)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	_, doctor, _ := d.run("doctor")
	pieces["berth doctor"] = []byte(doctor)
	for name, content := range pieces {
		if bytes.Contains(content, []byte(envSecret)) {
			t.Errorf("%s holds the value", name)
		}
	}
	if info, err := os.Stat(filepath.Join(d.data, "berth.db")); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the database: %v, %v", info, err)
	}
	c.wantVariablesInBackup(d, id)
	// Gone with the application, also for the next of its name.
	c.delete(id).want(200)
	if code, _, stderr := d.run("app", "env", id, "list"); code != 5 {
		t.Errorf("status %d: %s", code, stderr)
	}
}

// wantVariablesInBackup asks for a backup with the variables, and uploads and
// commits it: what it holds is neither unpacked nor set.
func (c *client) wantVariablesInBackup(d *daemon, id string) {
	c.t.Helper()
	held := string(backup(c, id, "?env=true")[".berth/env"])
	if want := "NODE_ENV='production'\nTOKEN='" + envSecret + "'\n"; !strings.HasSuffix(held, "\n"+want) {
		c.t.Errorf("it holds %q, want %q at the end", held, want)
	}
	c.get("/app/"+id+"/backup?env=yes").want(400).says("message", "The parameter env must be given once, as true or false.")
	c.get("/app/all/backup?env=true").want(200).says("message", ".berth/env")
	const told = `".berth/env" of the ZIP (1 entry) was left out: it is for environment variables (2 of them)`
	packed := c.download(c.get("/app/" + id + "/backup?env=true").text("backups.url"))
	c.setEnv(id, map[string]any{"TOKEN": "changed"}).want(200)
	c.send(c.form(http.MethodPut, "/v2/app/"+id+"/commit", packed)).want(200).says("logs", told, "berth app env APP set NAME=VALUE")
	if got := d.berth("app", "env", id, "list", "--show"); !strings.Contains(got, "TOKEN     changed") {
		c.t.Errorf("a commit sets variables: %s", got)
	}
	other := c.post(packed).want(200).says("logs", told).text("app.id")
	c.get("/app/"+other+"/env").want(200, "env", "[]")
	for _, id := range []string{id, other} {
		if exists(c.t, d.path(id, ".berth", "env")) || !exists(c.t, d.path(id, "index.js")) {
			c.t.Errorf("of %s the wrong files were unpacked", id)
		}
	}
	if strings.Contains(d.Out.String(), envSecret) || !strings.Contains(d.Out.String(), "a backup holds the environment variables") {
		c.t.Error("the daemon's log tells of no such backup, or what is in it")
	}
}

// backup returns what is in a backup that is asked for with a query.
func backup(c *client, id, query string) map[string][]byte {
	c.t.Helper()
	packed := c.download(c.get("/app/" + id + "/backup" + query).text("backups.url"))
	r, err := zip.NewReader(bytes.NewReader(packed), int64(len(packed)))
	if err != nil {
		c.t.Fatal(err)
	}
	content := map[string][]byte{}
	for _, f := range r.File {
		in, err := f.Open()
		if err != nil {
			c.t.Fatal(err)
		}
		if content[f.Name], err = io.ReadAll(in); err != nil {
			c.t.Fatal(err)
		}
	}
	if len(content["index.js"]) == 0 {
		c.t.Errorf("the backup holds %d files and no code", len(content))
	}
	return content
}

// A value that comes through the command's standard input, the largest there
// may be, arrives whole, and so do those that fill the environment.
func TestLargeVariables(t *testing.T) {
	t.Parallel()
	d := launch(t)
	c := d.account("ana", 4096)
	id := c.upload(pythonBot("import hashlib, json, os, signal\nprint('REPORT', json.dumps([len(os.environ.get('V%d' % i, '')) for i in range(4)] + [os.environ.get('LINES', '').count(chr(10))]), 'END', flush=True)\nsignal.pause()\n"))
	c.wantReport(id, 1, "[0,0,0,0,0]")
	cmd := exec.Command(berth, "app", "env", id, "set", "LINES=-", "--data-dir", d.data)
	cmd.Env = harness.CleanEnv()
	cmd.Stdin = strings.NewReader(strings.Repeat("line é\n", 100))
	if out, err := cmd.CombinedOutput(); err != nil || strings.Contains(string(out), "line") {
		t.Fatalf("%v: %s", err, out)
	}
	large := strings.Repeat("\x01", 15<<10) // which JSON writes with six bytes
	c.setEnv(id, map[string]any{"V0": large, "V1": large, "V2": large, "V3": large}).want(200)
	c.setEnv(id, map[string]any{"V4": large}).want(422).says("message", "may take 64 KB together")
	c.setEnv(id, map[string]any{"V4": large + large}).want(400).says("message", "the value of V4 is longer than 16 KB")
	c.put("/app/"+id+"/restart", "").want(200)
	c.wantReport(id, 2, "[15360,15360,15360,15360,99]")
}

// TestApts: wishes for system packages are remembered, and nothing is pretended.
func TestApts(t *testing.T) {
	t.Parallel()
	d := launch(t)
	c := d.account("ana", 4096)
	a := c.post(nodeBot(idleNode, "APT=no-such-package-a").zip()).want(200)
	if _, err := os.Stat("/var/lib/dpkg/status"); err == nil {
		a.says("logs", "this host lacks no-such-package-a", "apt-get install no-such-package-a")
	}
	id := a.text("app.id")
	c.info(id).want(200, "apps.apts", "[no-such-package-a]")
	added := c.put("/app/"+id+"/apt", `{"apt":"dpkg, no-such-package-b"}`).want(200, "status", "ok", "statusCode", 200)
	if _, err := os.Stat("/var/lib/dpkg/status"); err == nil {
		added.says("message", "Recorded: dpkg, no-such-package-b.", "this host lacks no-such-package-b.", "apt-get install no-such-package-b")
	}
	c.put("/app/"+id+"/apt", `{"apt":"; reboot"}`).want(400)
	c.info(id).want(200, "apps.apts", "[no-such-package-a dpkg no-such-package-b]")
	c.send(c.request(http.MethodDelete, "/v2/app/"+id+"/apt?apt=no-such-package-a", nil)).want(200, "status", "ok")
	r := c.request(http.MethodDelete, "/v2/app/"+id+"/apt", strings.NewReader(`{"apt":"no-such-package-b"}`))
	r.Header.Set("Content-Type", "application/json")
	c.send(r).want(200, "status", "ok")
	d.restart()
	c.info(id).want(200, "apps.apts", "[dpkg]")
	c.commit(id, nodeBot(idleNode, "APT=tools")).want(200)
	c.info(id).want(200, "apps.apts", "[tools]")
}
