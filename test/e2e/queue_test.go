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
func (c *client) uploading(f files) (id string, done <-chan answer) {
	c.t.Helper()
	before := c.ids()
	answers := make(chan answer, 1)
	r := c.form("POST", "/v2/upload", f.zip())
	go func() {
		a, err := c.try(r)
		if err != nil {
			a = answer{t: c.t}
		}
		answers <- a
	}()
	harness.Eventually(c.t, "the application is there", func() bool {
		for _, now := range c.ids() {
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
	c.t.Helper()
	harness.Eventually(c.t, fmt.Sprintf("%s is %q", id, want), func() bool {
		return c.get("/app/"+id+"/status").want(200).text("apps.container") == want
	})
}

// wantGone checks that nothing of an application is left.
func (c *client) wantGone(id string, uid int) {
	c.t.Helper()
	c.info(id).want(404)
	for _, dir := range []string{"apps", "logs", "tmp"} {
		if slices.Contains(c.d.files(dir), id) {
			c.t.Errorf("%s is left in %s", id, dir)
		}
	}
	for _, p := range c.d.processes() {
		if p.uid == uid {
			c.t.Errorf("left running: %v", p)
		}
	}
	if left := groupsNamed(filepath.Join(c.d.Group, "apps", id)); len(left) > 0 {
		c.t.Errorf("left groups: %v", left)
	}
}

// TestBuildsWaitTheirTurn: uploads that wait for a build are there, tell
// their number, and can be called off, as can the one that is built.
func TestBuildsWaitTheirTurn(t *testing.T) {
	t.Parallel()
	d := launch(t)
	ana, bob := d.account("ana", 400), d.account("bob", 100)
	gate := filepath.Join(d.gates, "gate")
	app := gated(gate, idleNode)
	first, built := ana.uploading(app)
	harness.Eventually(t, "it builds", func() bool { return exists(t, d.path(first, "began")) })
	ana.untilContainer(first, "Preparing")
	second, called := ana.uploading(app)
	ana.untilContainer(second, "Waiting to be built (number 1)")
	third, last := ana.uploading(app)
	ana.untilContainer(third, "Waiting to be built (number 2)")
	other, mine := bob.uploading(app)
	bob.untilContainer(other, "Waiting to be built (number 1)")
	ana.untilContainer(second, "Waiting to be built (number 2)")
	ana.info(third).want(200, "apps.online", false).says("message", "number 3 in the queue")
	ana.untilLog(second, "[berth] waiting to be built: number 1 in the queue")
	ana.get("/user").want(200, "user.ramUsedMb", 300)
	for _, what := range []string{"start", "restart"} {
		ana.put("/app/"+second+"/"+what, "").want(409).says("message", "deployed for the first time")
	}
	ana.get("/app/" + second + "/backup").want(409)
	ana.commit(second, app).want(409)
	bob.put("/app/"+second+"/stop", "").want(404)
	if staging := d.files("staging"); len(staging) > 0 {
		t.Errorf("staging holds %v while builds wait", staging)
	}

	uid := d.uidOf(second)
	ana.put("/app/"+second+"/stop", "").want(200, "status", "ok")
	ana.wantGone(second, uid)
	(<-called).want(409, "status", "error").says("message", "called off")
	ana.untilContainer(third, "Waiting to be built (number 2)")

	uid = d.uidOf(first)
	ana.delete(first).want(200, "status", "ok")
	ana.wantGone(first, uid)
	(<-built).want(409, "status", "error").says("message", "called off")
	harness.Eventually(t, "the other account's is built", func() bool { return exists(t, d.path(other, "began")) })
	if exists(t, d.path(third, "began")) {
		t.Error("two are built at once")
	}
	write(t, gate, "")
	(<-mine).want(200, "app.id", other)
	(<-last).want(200, "app.id", third)
	ana.until(third, "apps.online", true)
	bob.until(other, "apps.online", true)
}

// TestQueueIsBounded: what does not fit is refused and leaves nothing, and
// neither does a daemon that is killed while builds wait.
func TestQueueIsBounded(t *testing.T) {
	t.Parallel()
	d := launch(t, "--build-queue", "2")
	ana := d.account("ana", 400)
	app := gated(filepath.Join(d.gates, "gate"), idleNode)
	first, building := ana.uploading(app)
	harness.Eventually(t, "it builds", func() bool { return exists(t, d.path(first, "began")) })
	second, waiting := ana.uploading(app)
	ana.untilContainer(second, "Waiting to be built (number 1)")
	a := ana.post(app.zip()).want(503, "status", "error").says("message", "1 of the 2 places")
	if a.header.Get("Retry-After") == "" {
		t.Error("it is not told when to come again")
	}
	if ids, apps := ana.ids(), d.files("apps"); len(ids) != 2 || len(apps) != 2 {
		t.Errorf("then %v with the files %v", ids, apps)
	}
	d.End(syscall.SIGKILL)
	for _, done := range []<-chan answer{building, waiting} {
		if a := <-done; a.code != 0 {
			t.Errorf("an upload that was cut off was answered with %d", a.code)
		}
	}
	d.start()
	ana.get("/user").want(200, "user.apps", "[]", "user.ramUsedMb", 0)
	for _, dir := range []string{"apps", "logs", "staging"} {
		if left := d.files(dir); len(left) > 0 {
			t.Errorf("left in %s: %v", dir, left)
		}
	}
}
