package e2e

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"berth/test/harness"
)

// TestCommitOverlays: what is in the ZIP replaces, what is not stays.
func TestCommitOverlays(t *testing.T) {
	t.Parallel()
	d := launch(t)
	c := d.account("ana", 100)
	id := c.upload(nodeBot("require('fs').writeFileSync('data.json', '{\"n\":1}'); console.log('version', require('./v.js')); setInterval(() => {}, 1e6)\n").
		with("v.js", "module.exports = 1").with("lib/old.js", "old"))
	c.untilLog(id, "version 1")
	harness.Eventually(t, "it wrote its data", func() bool { return exists(t, d.path(id, "data.json")) })
	before := d.pid(id)
	c.commit(id, files{"v.js": "module.exports = 2", "lib/new.js": "new"}).want(200, "status", "ok", "statusCode", 200)
	c.untilLog(id, "version 2")
	for name, want := range map[string]string{
		"v.js": "module.exports = 2", "lib/old.js": "old", "lib/new.js": "new", "data.json": `{"n":1}`,
	} {
		got, err := os.ReadFile(d.path(id, name))
		if err != nil || string(got) != want {
			t.Errorf("%s is %q, %v, want %q", name, got, err, want)
		}
		if info, err := os.Stat(d.path(id, name)); err == nil && info.Mode().Perm()&0o200 == 0 {
			t.Errorf("%s is %v, want it writable", name, info.Mode())
		}
	}
	if d.pid(id) == before {
		t.Error("the old code still runs")
	}
	c.info(id).want(200, "apps.online", true, "apps.mainFile", "index.js", "apps.ram", 100)
	// The application's own folder around everything is taken off; a directory
	// of the application that is all a ZIP holds stays what it is.
	code, err := os.ReadFile(d.path(id, "index.js"))
	if err != nil {
		t.Fatal(err)
	}
	c.commit(id, files{"app/v.js": "module.exports = 3", "app/index.js": string(code)}).want(200)
	c.untilLog(id, "version 3")
	c.commit(id, files{"lib/new.js": "newer"}).want(200)
	if got, err := os.ReadFile(d.path(id, "lib", "new.js")); err != nil || string(got) != "newer" {
		t.Errorf("lib/new.js is %q, %v", got, err)
	}
	if exists(t, d.path(id, "app")) || exists(t, d.path(id, "new.js")) {
		t.Error("a folder went astray")
	}
}

// TestCommitThatFails leaves the old code as it was, running if it ran.
func TestCommitThatFails(t *testing.T) {
	t.Parallel()
	d := launch(t, "--apps-ok-delay", "1500ms", "--build-ram", "64")
	owner := d.account("ana", 2000)
	for _, tt := range []struct {
		name    string
		commit  files
		code    int
		says    string
		logs    string
		samePid bool // the old program was not even stopped
	}{
		{"not a ZIP", nil, 422, "cannot unpack the ZIP", "", true},
		{"MAIN missing", files{"discloud.config": config("MAIN=nothing.js"), "index.js": "x"}, 422, "cannot find MAIN", "", true},
		{"a build that fails", nodeBot("new", "BUILD=echo broken; echo x > made; exit 3"), 422, "the command in BUILD failed", "broken", true},
		{"a build out of memory", nodeBot("new", "BUILD=tail /dev/zero"), 422, "needed more than 64 MB", "", true},
		{
			"a start that fails",
			files{"index.js": "require('fs').writeFileSync('index.txt', ''); throw new Error('boom')", "sub/new.js": "x", "kept/b.js": "changed"},
			422, "cannot start the new code (exited with code 1", "Error: boom", false,
		},
		{"a build whose code fails", nodeBot("throw new Error('boom')", "BUILD=rm kept/b.js; mkdir made; echo x > made/x"), 422, "cannot start the new code", "Error: boom", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			c := owner.in(t)
			id := c.upload(nodeBot(idleNode).with("kept/b.js", "b"))
			pid, before := d.pid(id), snapshot(t, d.path(id))
			var a answer
			if tt.commit == nil {
				a = c.send(c.form("PUT", "/v2/app/"+id+"/commit", []byte("hello")))
			} else {
				a = c.commit(id, tt.commit)
			}
			a.want(tt.code, "status", "error", "code", tt.code).says("message", tt.says)
			if tt.logs != "" {
				a.says("logs", tt.logs)
			}
			c.info(id).want(200, "apps.online", true, "apps.exitCode", 0, "apps.mainFile", "index.js")
			if now := d.pid(id); (now == pid) != tt.samePid {
				t.Errorf("the pid was %d and is %d", pid, now)
			}
			after := snapshot(t, d.path(id))
			delete(after, "index.txt") // the new program's own, made while it ran
			sameTree(t, after, before)
			if exists(t, filepath.Join(d.data, "rollback", id)) {
				t.Error("its journal is left")
			}
		})
	}
}

// A commit that fails while stopped leaves it stopped; one that works starts it.
func TestCommitWhileStopped(t *testing.T) {
	t.Parallel()
	d := launch(t, "--apps-ok-delay", "1500ms")
	c := d.account("ana", 100)
	id := c.upload(nodeBot(idleNode))
	c.put("/app/"+id+"/stop", "").want(200)
	before := snapshot(t, d.path(id))
	c.commit(id, files{"index.js": "throw new Error('boom')"}).want(422)
	c.info(id).want(200, "apps.online", false)
	if left := d.of(id); len(left) > 0 {
		t.Errorf("it was stopped and runs: %v", left)
	}
	sameTree(t, snapshot(t, d.path(id)), before)
	c.commit(id, files{"index.js": "console.log('again')\n" + idleNode}).want(200, "status", "ok")
	c.info(id).want(200, "apps.online", true, "apps.exitCode", 0)
	c.untilLog(id, "again")
}

// gated is an application whose build waits until the gate is there.
func gated(gate, code string) files {
	return nodeBot(code, "BUILD=touch began; until [ -e "+gate+" ]; do sleep 0.02; done")
}

// building starts a commit and returns once its build runs; the channel gets
// the answer, or an empty one when the request failed.
func (c *client) building(ctx context.Context, id string, f files) <-chan answer {
	c.t.Helper()
	done := make(chan answer, 1)
	r := c.form("PUT", "/v2/app/"+id+"/commit", f.zip()).WithContext(ctx)
	go func() {
		a, err := c.try(r)
		if err != nil {
			a = answer{t: c.t}
		}
		done <- a
	}()
	harness.Eventually(c.t, "it builds", func() bool {
		found, _ := filepath.Glob(c.d.data + "/staging/*/build/began") // the pattern is well-formed
		for _, f := range found {
			if info, err := os.Stat(f); err == nil && ownerOf(info) == c.d.uidOf(id) {
				return true
			}
		}
		return false
	})
	return done
}

// TestDuringABuild does everything to an application that is being built.
func TestDuringABuild(t *testing.T) {
	t.Parallel()
	d := launch(t, "--build-concurrency", "8")
	owner := d.account("ana", 2000)
	old := nodeBot("console.log('old')\n" + idleNode)
	fresh := "console.log('fresh')\n" + idleNode
	run := func(name string, test func(t *testing.T, c *client, id, gate string)) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := owner.in(t)
			test(t, c, c.upload(old), filepath.Join(d.gates, strings.ReplaceAll(name, " ", "-")))
		})
	}
	run("a second commit is refused", func(t *testing.T, c *client, id, gate string) {
		pid := d.pidNamed(id, "index.js")
		done := c.building(t.Context(), id, gated(gate, fresh))
		c.commit(id, files{"index.js": "x"}).want(409, "status", "error").says("message", "being deployed")
		c.put("/app/"+id+"/restart", "").want(409)
		c.info(id).want(200, "apps.online", true)
		if now := d.pidNamed(id, "index.js"); now != pid {
			t.Errorf("the old program was %d and is %d while the new one is built", pid, now)
		}
		write(t, gate, "")
		(<-done).want(200, "status", "ok")
		c.untilLog(id, "fresh")
	})
	run("stop calls it off", func(t *testing.T, c *client, id, gate string) {
		before := snapshot(t, d.path(id))
		done := c.building(t.Context(), id, gated(gate, fresh))
		c.put("/app/"+id+"/stop", "").want(200, "status", "ok")
		(<-done).want(409, "status", "error").says("message", "called off")
		c.info(id).want(200, "apps.online", false)
		if left := d.of(id); len(left) > 0 {
			t.Errorf("left running: %v", left)
		}
		sameTree(t, snapshot(t, d.path(id)), before)
		c.put("/app/"+id+"/start", "").want(200, "status", "ok")
	})
	run("delete calls it off", func(t *testing.T, c *client, id, gate string) {
		uid := d.uidOf(id)
		done := c.building(t.Context(), id, gated(gate, fresh))
		c.delete(id).want(200, "status", "ok")
		if a := <-done; a.code < 400 {
			t.Errorf("the commit of a deleted application answers %d %s", a.code, a.body)
		}
		for _, p := range d.processes() {
			if p.uid == uid {
				t.Errorf("left running: %v", p)
			}
		}
		c.info(id).want(404)
	})
	run("the client hangs up", func(t *testing.T, c *client, id, gate string) {
		ctx, hangUp := context.WithCancel(t.Context())
		done := c.building(ctx, id, gated(gate, fresh))
		hangUp()
		<-done
		write(t, gate, "")
		c.untilLog(id, "fresh")
		c.until(id, "apps.online", true)
	})
	run("settings change", func(t *testing.T, c *client, id, gate string) {
		done := c.building(t.Context(), id, gated(gate, fresh))
		c.put("/app/"+id+"/ram", `{"ramMB":120}`).want(200)
		c.put("/app/"+id+"/profile", `{"name":"While building"}`).want(200)
		write(t, gate, "")
		(<-done).want(200)
		c.info(id).want(200, "apps.ram", 120, "apps.name", "While building", "apps.online", true)
		if m := c.get("/app/" + id + "/status").text("apps.memory"); !strings.HasSuffix(m, "/120MB") {
			t.Errorf("memory is %q, want the new limit", m)
		}
	})
}

// The client of an upload that hangs up gets its application all the same.
func TestUploadHangsUp(t *testing.T) {
	t.Parallel()
	d := launch(t)
	c := d.account("ana", 100)
	gate := filepath.Join(d.gates, "gate")
	ctx, hangUp := context.WithCancel(t.Context())
	done := make(chan error, 1)
	r := c.form("POST", "/v2/upload", gated(gate, idleNode).zip()).WithContext(ctx)
	go func() { _, err := c.try(r); done <- err }()
	harness.Eventually(t, "it builds", func() bool { return exists(t, d.path("*", "began")) })
	hangUp()
	if err := <-done; err == nil {
		t.Error("the request was answered although its client had gone")
	}
	write(t, gate, "")
	harness.Eventually(t, "the application is there", func() bool { return len(c.ids()) == 1 })
	c.until(c.ids()[0], "apps.online", true)
	// One that hangs up in the middle of its body leaves nothing.
	c.deleteAll()
	half, stop := context.WithCancel(t.Context())
	cut := c.form("POST", "/v2/upload", nodeBot(idleNode).zip()).WithContext(half)
	cut.Body = &stalled{Reader: strings.NewReader("--x\r\nContent-Disposition: form-data; name=f; filename=a.zip\r\n\r\nPK"), stalled: half.Done()}
	cut.ContentLength = 5000
	cut.Header.Set("Content-Type", "multipart/form-data; boundary=x")
	go func() { _, err := c.try(cut); done <- err }()
	harness.Eventually(t, "it arrives", func() bool { return len(d.files("staging")) == 1 })
	stop()
	<-done
	harness.Eventually(t, "staging is empty", func() bool { return len(d.files("staging")) == 0 })
	c.get("/user").want(200, "user.apps", "[]", "user.ramUsedMb", 0)
}
