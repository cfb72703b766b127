package e2e

import (
	"regexp"
	"strings"
	"testing"

	"berth/test/harness"
)

// TestExitCodes uploads programs that end at once: the upload is "ok" and its
// logs say what happened.
func TestExitCodes(t *testing.T) {
	t.Parallel()
	owner := launch(t, "--apps-ok-delay", "10s").account("ana", 4096)
	for _, tt := range []struct {
		name string
		app  harness.Files
		code int
		logs []string
	}{
		{"exit 0", harness.ShellBot("echo all done; exit 0"), 0, []string{"all done", "ended by itself (exit code 0)"}},
		{"exit 3", harness.ShellBot("echo out; echo err >&2; exit 3"), 3, []string{"out\n", "err\n", "exited with code 3"}},
		{"an exception in Node.js", harness.NodeBot("function deep() { throw new Error('boom') }\ndeep()\n"), 1, []string{"Error: boom", "at deep", "index.js:1"}},
		{"an exception in Python", harness.PythonBot("def deep(): raise ValueError('boom')\ndeep()\n"), 1, []string{"Traceback", "in deep", "ValueError: boom"}},
		{"SIGSEGV", harness.PythonBot("import os, signal\nos.kill(os.getpid(), signal.SIGSEGV)\n"), 139, []string{"ended by signal 11"}},
		{"a command that is not there", harness.ShellBot("x", "START=./no-such-command"), 127, []string{"no-such-command", "exited with code 127"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			c := owner.in(t)
			a := c.Post(tt.app.Zip()).Want(200, "status", "ok", "statusCode", 200).Says("logs", tt.logs...)
			id := a.Text("app.id")
			if tt.code != 0 {
				a.Says("message", "crashed with code")
			} else {
				a.Says("message", "ended by itself")
			}
			c.Info(id).Want(200, "apps.online", false, "apps.exitCode", tt.code, "apps.ramKilled", false)
		})
	}
}

// The answer to an upload must know how the program ended, every time.
func TestUploadNeverAnswersFromThePast(t *testing.T) {
	t.Parallel()
	c := launch(t, "--apps-ok-delay", "10s").account("ana", 4096)
	for range 25 {
		a := c.Post(harness.ShellBot("exit 9").Zip()).Want(200).Says("message", "crashed with code 9")
		if t.Failed() {
			return
		}
		c.Delete(a.Text("app.id")).Want(200)
	}
}

// TestCrashLoop follows the back-off of a program that always fails, and
// breaks it by hand.
func TestCrashLoop(t *testing.T) {
	t.Parallel()
	d := launch(t, "--apps-ok-delay", "5s")
	c := d.account("ana", 200)
	id := c.Upload(harness.ShellBot("test -e well && exec sleep 1000; exit 7", "AUTORESTART=true"))
	waiting := func(attempt string) {
		t.Helper()
		harness.Eventually(t, "it waits for restart "+attempt, func() bool {
			a := c.Info(id)
			return strings.Contains(a.Text("message"), "crashed with code 7. It restarts in ") &&
				strings.Contains(a.Text("message"), "(attempt "+attempt+")")
		})
	}
	waiting("4") // for four seconds
	if s := c.Get("/app/" + id + "/status").Text("apps.container"); !regexp.MustCompile(`^Restarting in [1-4]s$`).MatchString(s) {
		t.Errorf("container is %q", s)
	}
	c.Info(id).Want(200, "apps.online", false, "apps.exitCode", 7)
	log := c.Log(id)
	for _, line := range []string{"; restarting now", "; restart 2 follows in 1s", "; restart 3 follows in 2s", "; restart 4 follows in 4s"} {
		if strings.Count(log, line) != 1 {
			t.Errorf("%q is not once in the log:\n%s", line, log)
		}
	}
	c.Put("/app/"+id+"/stop", "").Want(200, "status", "ok")
	c.Get("/app/"+id+"/status").Want(200, "apps.container", "Offline")
	c.Put("/app/"+id+"/start", "").Want(200, "status", "ok", "appStatus.online", false, "appStatus.exitCode", 7).Says("message", "crashed with code 7. It restarts in ")
	harness.Eventually(t, "the crashes are counted anew", func() bool {
		return strings.Count(c.Log(id), "; restart 2 follows in 1s") == 2
	})
	c.UntilLog(id, "stopped; it is not started again")
	waiting("4")
	harness.Write(t, d.Path(id, "well"), "")
	c.Put("/app/"+id+"/start", "").Want(200, "status", "ok", "appStatus.online", true)
	c.Until(id, "apps.online", true, "apps.exitCode", 0)
	c.Put("/app/"+id+"/stop", "").Want(200, "status", "ok")
	c.Info(id).Want(200, "apps.online", false)
}
