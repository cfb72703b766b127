package e2e

import (
	"os"
	"testing"

	"berth/test/harness"
)

// fragile ends at once with code 3 while a file is there.
const fragile = "test -e die && { echo last words; exit 3; }; echo up; exec sleep 100000"

// TestStartsThatDieAreTold: who starts a program that dies at once hears of it, with
// the status of a start.
func TestStartsThatDieAreTold(t *testing.T) {
	t.Parallel()
	d := launch(t, "--apps-ok-delay", "1s")
	c := d.account("ana", 300)
	id, well := c.Upload(harness.ShellBot(fragile, "RAM=32")), c.Upload(harness.ShellBot(fragile, "RAM=32"))
	dies := func(now bool) {
		t.Helper()
		if now {
			harness.Write(t, d.Path(id, "die"), "")
		} else if err := os.Remove(d.Path(id, "die")); err != nil {
			t.Fatal(err)
		}
	}
	starts := func() {
		t.Helper()
		c.Put("/app/"+id+"/start", "").Want(200, "status", "ok", "message", "Your application was started.",
			"appStatus.online", true, "appStatus.ramKilled", false, "appStatus.exitCode", 0)
	}
	const why = ", but it crashed with code 3."
	c.Put("/app/all/stop", "").Want(200)
	dies(true)
	c.Put("/app/"+id+"/start", "").Want(200, "status", "ok", "message", "Your application was started"+why,
		"appStatus.online", false, "appStatus.ramKilled", false, "appStatus.exitCode", 3)
	c.Put("/app/all/start", "").Want(200, "status", "ok", "apps.started", "["+well+"]", "apps.alreadyOnline", "[]", "apps.alreadyInProcess", "[]", "apps.failed", "["+id+"]").
		Says("message", "1 application was started", id+" failed: it crashed with code 3.")
	dies(false)
	starts()
	c.Put("/app/"+id+"/restart", "").Want(200, "status", "ok", "message", "Your application was restarted.")
	dies(true)
	c.Put("/app/all/restart", "").Want(200, "status", "ok", "apps.restarted", "["+well+"]", "apps.alreadyOffline", "[]", "apps.alreadyInProcess", "[]", "apps.failed", "["+id+"]")
	dies(false)
	starts()
	dies(true)
	c.Put("/app/"+id+"/restart", "").Want(200, "status", "ok", "message", "Your application was restarted"+why)
	c.Put("/app/all/start", "").Want(200, "status", "ok", "apps.started", "[]", "apps.alreadyOnline", "["+well+"]", "apps.failed", "["+id+"]")
}

// computes works for 1.5 seconds, as a program that starts on a small machine, and
// then finds that it cannot go on.
const computes = `import time
until = time.monotonic() + 1.5
while time.monotonic() < until: pass
print("last words", flush=True)
raise SystemExit(1)
`

// TestNewCodeIsWatchedWhileItStarts: code that is still busy when the ok delay is
// over is not taken for well.
func TestNewCodeIsWatchedWhileItStarts(t *testing.T) {
	t.Parallel()
	d := launch(t, "--apps-ok-delay", "100ms")
	c := d.account("ana", 300)
	a := c.Post(harness.PythonBot(computes, "RAM=48").Zip()).Want(200, "status", "ok").Says("message", "crashed with code 1").Says("logs", "last words")
	c.Info(a.Text("app.id")).Want(200, "apps.online", false, "apps.exitCode", 1)
	id := c.Upload(harness.PythonBot(harness.IdlePython, "RAM=48"))
	c.Commit(id, harness.Files{"main.py": computes}).Want(422, "status", "error").Says("message", "exited with code 1", "the code from before the commit is back", "last words")
	c.Until(id, "apps.online", true)
}
