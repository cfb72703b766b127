package e2e

import (
	"fmt"
	"path/filepath"
	"slices"
	"syscall"
	"testing"

	"berth/test/harness"
)

// uploading starts an upload and returns once it is there; the channel gets
// the answer, or an empty one when the request failed.
func (c *client) uploading(f harness.Files) (id string, done <-chan harness.Answer) {
	c.T.Helper()
	before := c.IDs()
	answers := make(chan harness.Answer, 1)
	r := c.Form("POST", "/v2/upload", f.Zip())
	go func() {
		a, err := c.Try(r)
		if err != nil {
			a = harness.Answer{T: c.T}
		}
		answers <- a
	}()
	harness.Eventually(c.T, "the application is there", func() bool {
		for _, now := range c.IDs() {
			if !slices.Contains(before, now) {
				id = now
			}
		}
		return id != ""
	})
	return id, answers
}

// untilContainer polls the status of an application.
func (c *client) untilContainer(id, want string) {
	c.T.Helper()
	harness.Eventually(c.T, fmt.Sprintf("%s is %q", id, want), func() bool {
		return c.Get("/app/"+id+"/status").Want(200).Text("apps.container") == want
	})
}

// wantGone checks that nothing of an application is left.
func (c *client) wantGone(id string, uid int) {
	c.T.Helper()
	c.Info(id).Want(404)
	for _, dir := range []string{"apps", "logs", "tmp"} {
		if slices.Contains(c.d.Entries(dir), id) {
			c.T.Errorf("%s is left in %s", id, dir)
		}
	}
	for _, p := range c.d.Processes() {
		if p.UID == uid {
			c.T.Errorf("left running: %v", p)
		}
	}
	if left := harness.GroupsNamed(filepath.Join(c.d.Group, "apps", id)); len(left) > 0 {
		c.T.Errorf("left groups: %v", left)
	}
}

// TestBuildsWaitTheirTurn: uploads that wait for a build are there, tell
// their number, and can be called off, as can the one that is built.
func TestBuildsWaitTheirTurn(t *testing.T) {
	t.Parallel()
	d := launch(t)
	ana, bob := d.account("ana", 400), d.account("bob", 100)
	gate := filepath.Join(d.Gates, "gate")
	app := gated(gate, harness.IdleNode)
	first, built := ana.uploading(app)
	harness.Eventually(t, "it builds", func() bool { return harness.Exists(t, d.Path(first, "began")) })
	ana.untilContainer(first, "Preparing")
	second, called := ana.uploading(app)
	ana.untilContainer(second, "Waiting to be built (number 1)")
	third, last := ana.uploading(app)
	ana.untilContainer(third, "Waiting to be built (number 2)")
	other, mine := bob.uploading(app)
	bob.untilContainer(other, "Waiting to be built (number 1)")
	ana.untilContainer(second, "Waiting to be built (number 2)")
	ana.Info(third).Want(200, "apps.online", false).Says("message", "number 3 in the queue")
	ana.UntilLog(second, "[berth] waiting to be built: number 1 in the queue")
	ana.Get("/user").Want(200, "user.ramUsedMb", 300)
	for _, what := range []string{"start", "restart"} {
		ana.Put("/app/"+second+"/"+what, "").Want(409).Says("message", "deployed for the first time")
	}
	ana.Get("/app/" + second + "/backup").Want(409)
	ana.Commit(second, app).Want(409)
	bob.Put("/app/"+second+"/stop", "").Want(404)
	if staging := d.Entries("staging"); len(staging) > 0 {
		t.Errorf("staging holds %v while builds wait", staging)
	}

	uid := d.UIDOf(second)
	ana.Put("/app/"+second+"/stop", "").Want(200, "status", "ok")
	ana.wantGone(second, uid)
	(<-called).Want(409, "status", "error").Says("message", "cancelled")
	ana.untilContainer(third, "Waiting to be built (number 2)")

	uid = d.UIDOf(first)
	ana.Delete(first).Want(200, "status", "ok")
	ana.wantGone(first, uid)
	(<-built).Want(409, "status", "error").Says("message", "cancelled")
	harness.Eventually(t, "the other account's is built", func() bool { return harness.Exists(t, d.Path(other, "began")) })
	if harness.Exists(t, d.Path(third, "began")) {
		t.Error("two are built at once")
	}
	harness.Write(t, gate, "")
	(<-mine).Want(200, "app.id", other)
	(<-last).Want(200, "app.id", third)
	ana.Until(third, "apps.online", true)
	bob.Until(other, "apps.online", true)
}

// TestQueueIsBounded: what does not fit is refused and leaves nothing, and
// neither does a daemon that is killed while builds wait.
func TestQueueIsBounded(t *testing.T) {
	t.Parallel()
	d := launch(t, "--build-queue", "2")
	ana := d.account("ana", 400)
	app := gated(filepath.Join(d.Gates, "gate"), harness.IdleNode)
	first, building := ana.uploading(app)
	harness.Eventually(t, "it builds", func() bool { return harness.Exists(t, d.Path(first, "began")) })
	second, waiting := ana.uploading(app)
	ana.untilContainer(second, "Waiting to be built (number 1)")
	a := ana.Post(app.Zip()).Want(503, "status", "error").Says("message", "1 of the 2 places")
	if a.Header.Get("Retry-After") == "" {
		t.Error("it is not told when to come again")
	}
	if ids, apps := ana.IDs(), d.Entries("apps"); len(ids) != 2 || len(apps) != 2 {
		t.Errorf("then %v with the files %v", ids, apps)
	}
	d.End(syscall.SIGKILL)
	for _, done := range []<-chan harness.Answer{building, waiting} {
		if a := <-done; a.Code != 0 {
			t.Errorf("an upload that was cut off was answered with %d", a.Code)
		}
	}
	d.Serve()
	ana.Get("/user").Want(200, "user.apps", "[]", "user.ramUsedMb", 0)
	for _, dir := range []string{"apps", "logs", "staging"} {
		if left := d.Entries(dir); len(left) > 0 {
			t.Errorf("left in %s: %v", dir, left)
		}
	}
}
