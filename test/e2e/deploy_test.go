package e2e

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"berth/test/harness"
)

// TestCommitOverlays: what is in the ZIP replaces, what is not stays.
func TestCommitOverlays(t *testing.T) {
	t.Parallel()
	d := launch(t)
	c := d.account("ana", 100)
	id := c.Upload(harness.NodeBot("require('fs').writeFileSync('data.json', '{\"n\":1}'); console.log('version', require('./v.js')); setInterval(() => {}, 1e6)\n").
		With("v.js", "module.exports = 1").With("lib/old.js", "old"))
	c.UntilLog(id, "version 1")
	harness.Eventually(t, "it wrote its data", func() bool { return harness.Exists(t, d.Path(id, "data.json")) })
	before := d.PID(id)
	c.Commit(id, harness.Files{"v.js": "module.exports = 2", "lib/new.js": "new"}).Want(200, "status", "ok", "statusCode", 200)
	c.UntilLog(id, "version 2")
	for name, want := range map[string]string{
		"v.js": "module.exports = 2", "lib/old.js": "old", "lib/new.js": "new", "data.json": `{"n":1}`,
	} {
		got, err := os.ReadFile(d.Path(id, name))
		if err != nil || string(got) != want {
			t.Errorf("%s is %q, %v, want %q", name, got, err, want)
		}
		if info, err := os.Stat(d.Path(id, name)); err == nil && info.Mode().Perm()&0o200 == 0 {
			t.Errorf("%s is %v, want it writable", name, info.Mode())
		}
	}
	if d.PID(id) == before {
		t.Error("the old code still runs")
	}
	c.Info(id).Want(200, "apps.online", true, "apps.mainFile", "index.js", "apps.ram", 100)
	// The application's own folder around everything is taken off; a directory
	// of the application that is all a ZIP holds stays what it is.
	code, err := os.ReadFile(d.Path(id, "index.js"))
	if err != nil {
		t.Fatal(err)
	}
	c.Commit(id, harness.Files{"app/v.js": "module.exports = 3", "app/index.js": string(code)}).Want(200)
	c.UntilLog(id, "version 3")
	c.Commit(id, harness.Files{"lib/new.js": "newer"}).Want(200)
	if got, err := os.ReadFile(d.Path(id, "lib", "new.js")); err != nil || string(got) != "newer" {
		t.Errorf("lib/new.js is %q, %v", got, err)
	}
	if harness.Exists(t, d.Path(id, "app")) || harness.Exists(t, d.Path(id, "new.js")) {
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
		commit  harness.Files
		code    int
		says    string
		logs    string
		samePid bool // the old program was not even stopped
	}{
		{"not a ZIP", nil, 422, "cannot unpack the ZIP", "", true},
		{"MAIN missing", harness.Files{"discloud.config": harness.Config("MAIN=nothing.js"), "index.js": "x"}, 422, "cannot find MAIN", "", true},
		{"a build that fails", harness.NodeBot("new", "BUILD=echo broken; echo x > made; exit 3"), 422, "the command in BUILD failed", "broken", true},
		{"a build out of memory", harness.NodeBot("new", "BUILD=tail /dev/zero"), 422, "needed more than 64 MB", "", true},
		{
			"a start that fails",
			harness.Files{"index.js": "require('fs').writeFileSync('index.txt', ''); throw new Error('boom')", "sub/new.js": "x", "kept/b.js": "changed"},
			422, "cannot start the new code (exited with code 1", "Error: boom", false,
		},
		{"a build whose code fails", harness.NodeBot("throw new Error('boom')", "BUILD=rm kept/b.js; mkdir made; echo x > made/x"), 422, "cannot start the new code", "Error: boom", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			c := owner.in(t)
			id := c.Upload(harness.NodeBot(harness.IdleNode).With("kept/b.js", "b"))
			pid, before := d.PID(id), harness.Snapshot(t, d.Path(id))
			var a harness.Answer
			if tt.commit == nil {
				a = c.Send(c.Form("PUT", "/v2/app/"+id+"/commit", []byte("hello")))
			} else {
				a = c.Commit(id, tt.commit)
			}
			a.Want(tt.code, "status", "error", "code", tt.code).Says("message", tt.says)
			if tt.logs != "" {
				a.Says("logs", tt.logs)
			}
			c.Info(id).Want(200, "apps.online", true, "apps.exitCode", 0, "apps.mainFile", "index.js")
			if now := d.PID(id); (now == pid) != tt.samePid {
				t.Errorf("the pid was %d and is %d", pid, now)
			}
			after := harness.Snapshot(t, d.Path(id))
			delete(after, "index.txt") // the new program's own, made while it ran
			harness.SameTree(t, after, before)
			if left := slices.DeleteFunc(harness.List(t, filepath.Join(d.Data, "rollback", id)), func(name string) bool {
				return strings.HasSuffix(name, ".list") // of what the upload brought
			}); len(left) > 0 {
				t.Errorf("its journal is left: %v", left)
			}
		})
	}
}

// A commit that fails while stopped leaves it stopped; one that works starts it.
func TestCommitWhileStopped(t *testing.T) {
	t.Parallel()
	d := launch(t, "--apps-ok-delay", "1500ms")
	c := d.account("ana", 100)
	id := c.Upload(harness.NodeBot(harness.IdleNode))
	c.Put("/app/"+id+"/stop", "").Want(200)
	before := harness.Snapshot(t, d.Path(id))
	c.Commit(id, harness.Files{"index.js": "throw new Error('boom')"}).Want(422)
	c.Info(id).Want(200, "apps.online", false)
	if left := d.Of(id); len(left) > 0 {
		t.Errorf("it was stopped and runs: %v", left)
	}
	harness.SameTree(t, harness.Snapshot(t, d.Path(id)), before)
	c.Commit(id, harness.Files{"index.js": "console.log('again')\n" + harness.IdleNode}).Want(200, "status", "ok")
	c.Info(id).Want(200, "apps.online", true, "apps.exitCode", 0)
	c.UntilLog(id, "again")
}

// gated is an application whose build waits until the gate is there.
func gated(gate, code string) harness.Files {
	return harness.NodeBot(code, "BUILD=touch began; until [ -e "+gate+" ]; do sleep 0.02; done")
}

// building starts a commit and returns once its build runs; the channel gets
// the answer, or an empty one when the request failed.
func (c *client) building(ctx context.Context, id string, f harness.Files) <-chan harness.Answer {
	c.T.Helper()
	done := make(chan harness.Answer, 1)
	r := c.Form("PUT", "/v2/app/"+id+"/commit", f.Zip()).WithContext(ctx)
	go func() {
		a, err := c.Try(r)
		if err != nil {
			a = harness.Answer{T: c.T}
		}
		done <- a
	}()
	harness.Eventually(c.T, "it builds", func() bool {
		found, _ := filepath.Glob(c.d.Data + "/staging/*/build/began") // the pattern is well-formed
		for _, f := range found {
			if info, err := os.Stat(f); err == nil && ownerOf(info) == c.d.UIDOf(id) {
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
	old := harness.NodeBot("console.log('old')\n" + harness.IdleNode)
	fresh := "console.log('fresh')\n" + harness.IdleNode
	run := func(name string, test func(t *testing.T, c *client, id, gate string)) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := owner.in(t)
			test(t, c, c.Upload(old), filepath.Join(d.Gates, strings.ReplaceAll(name, " ", "-")))
		})
	}
	run("a second commit is refused", func(t *testing.T, c *client, id, gate string) {
		pid := d.pidNamed(id, "index.js")
		done := c.building(t.Context(), id, gated(gate, fresh))
		c.Commit(id, harness.Files{"index.js": "x"}).Want(409, "status", "error").Says("message", "being deployed")
		c.Put("/app/"+id+"/restart", "").Want(409)
		c.Info(id).Want(200, "apps.online", true)
		if now := d.pidNamed(id, "index.js"); now != pid {
			t.Errorf("the old program was %d and is %d while the new one is built", pid, now)
		}
		harness.Write(t, gate, "")
		(<-done).Want(200, "status", "ok")
		c.UntilLog(id, "fresh")
	})
	run("stop calls it off", func(t *testing.T, c *client, id, gate string) {
		before := harness.Snapshot(t, d.Path(id))
		done := c.building(t.Context(), id, gated(gate, fresh))
		c.Put("/app/"+id+"/stop", "").Want(200, "status", "ok")
		(<-done).Want(409, "status", "error").Says("message", "cancelled")
		c.Info(id).Want(200, "apps.online", false)
		if left := d.Of(id); len(left) > 0 {
			t.Errorf("left running: %v", left)
		}
		harness.SameTree(t, harness.Snapshot(t, d.Path(id)), before)
		c.Put("/app/"+id+"/start", "").Want(200, "status", "ok")
	})
	run("delete calls it off", func(t *testing.T, c *client, id, gate string) {
		uid := d.UIDOf(id)
		done := c.building(t.Context(), id, gated(gate, fresh))
		c.Delete(id).Want(200, "status", "ok")
		if a := <-done; a.Code < 400 {
			t.Errorf("the commit of a deleted application answers %d %s", a.Code, a.Body)
		}
		for _, p := range d.Processes() {
			if p.UID == uid {
				t.Errorf("left running: %v", p)
			}
		}
		c.Info(id).Want(404)
	})
	run("the client hangs up", func(t *testing.T, c *client, id, gate string) {
		ctx, hangUp := context.WithCancel(t.Context())
		done := c.building(ctx, id, gated(gate, fresh))
		hangUp()
		<-done
		harness.Write(t, gate, "")
		c.UntilLog(id, "fresh")
		c.Until(id, "apps.online", true)
	})
	run("settings change", func(t *testing.T, c *client, id, gate string) {
		done := c.building(t.Context(), id, gated(gate, fresh))
		c.Put("/app/"+id+"/ram", `{"ramMB":120}`).Want(200)
		c.Put("/app/"+id+"/profile", `{"name":"While building"}`).Want(200)
		harness.Write(t, gate, "")
		(<-done).Want(200)
		c.Info(id).Want(200, "apps.ram", 120, "apps.name", "While building", "apps.online", true)
		if m := c.Get("/app/" + id + "/status").Text("apps.memory"); !strings.HasSuffix(m, "/120MB") {
			t.Errorf("memory is %q, want the new limit", m)
		}
	})
}

// The client of an upload that hangs up gets its application all the same.
func TestUploadHangsUp(t *testing.T) {
	t.Parallel()
	d := launch(t)
	c := d.account("ana", 100)
	gate := filepath.Join(d.Gates, "gate")
	ctx, hangUp := context.WithCancel(t.Context())
	done := make(chan error, 1)
	r := c.Form("POST", "/v2/upload", gated(gate, harness.IdleNode).Zip()).WithContext(ctx)
	go func() { _, err := c.Try(r); done <- err }()
	harness.Eventually(t, "it builds", func() bool { return harness.Exists(t, d.Path("*", "began")) })
	hangUp()
	if err := <-done; err == nil {
		t.Error("the request was answered although its client had gone")
	}
	harness.Write(t, gate, "")
	harness.Eventually(t, "the application is there", func() bool { return len(c.IDs()) == 1 })
	c.Until(c.IDs()[0], "apps.online", true)
	// One that hangs up in the middle of its body leaves nothing.
	c.DeleteAll()
	half, stop := context.WithCancel(t.Context())
	cut := c.Form("POST", "/v2/upload", harness.NodeBot(harness.IdleNode).Zip()).WithContext(half)
	cut.Body = &stalled{Reader: strings.NewReader("--x\r\nContent-Disposition: form-data; name=f; filename=a.zip\r\n\r\nPK"), stalled: half.Done()}
	cut.ContentLength = 5000
	cut.Header.Set("Content-Type", "multipart/form-data; boundary=x")
	go func() { _, err := c.Try(cut); done <- err }()
	harness.Eventually(t, "it arrives", func() bool { return len(d.Entries("staging")) == 1 })
	stop()
	<-done
	harness.Eventually(t, "staging is empty", func() bool { return len(d.Entries("staging")) == 0 })
	c.Get("/user").Want(200, "user.apps", "[]", "user.ramUsedMb", 0)
}
