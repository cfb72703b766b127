package e2e

import (
	"archive/zip"
	"bytes"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"

	"berth/test/harness"
)

// TestJourney is the demo: two programs through their whole life.
func TestJourney(t *testing.T) {
	t.Parallel()
	d := launch(t)
	c := d.account("ana", 1024)
	c.get("/user").want(200, "user.userID", c.account, "user.totalRamMb", 1024, "user.ramUsedMb", 0, "user.apps", "[]")
	node := c.upload(example(t, "node-bot"))
	python := c.upload(example(t, "python-bot"))
	both := []string{node, python}
	for _, id := range both {
		c.look(id)
	}
	c.get("/user").want(200, "user.ramUsedMb", 200)
	c.oneByOne(node)
	c.all(both)
	c.backup(node)
	for _, id := range both {
		c.delete(id).want(200, "status", "ok")
		c.info(id).want(404, "status", "error", "code", 404)
		if d.uidOf(id) != -1 {
			t.Errorf("%s still has its directory", id)
		}
	}
}

var (
	reMemory = regexp.MustCompile(`^\d+(\.\d)?MB/100MB$`)
	reCPU    = regexp.MustCompile(`^\d+(\.\d)?%$`)
	reSize   = regexp.MustCompile(`^\d+(\.\d)?(B|KB|MB|GB)$`)
	reTime   = regexp.MustCompile(`^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$`)
)

// look reads everything that can be read of an application that runs.
func (c *client) look(id string) {
	c.t.Helper()
	c.info(id).want(200, "status", "ok", "apps.id", id, "apps.online", true, "apps.ramKilled", false,
		"apps.exitCode", 0, "apps.ram", 100, "apps.autoRestart", true)
	status := c.get("/app/"+id+"/status").want(200, "apps.id", id, "apps.container", "Online")
	for path, re := range map[string]*regexp.Regexp{
		"apps.memory": reMemory, "apps.cpu": reCPU, "apps.ssd": reSize, "apps.netIO.down": reSize, "apps.startedAt": reTime,
	} {
		if !re.MatchString(status.text(path)) {
			c.t.Errorf("%s is %q, want %v", path, status.text(path), re)
		}
	}
	if strings.HasPrefix(status.text("apps.memory"), "0MB") || status.text("apps.ssd") == "0B" {
		c.t.Errorf("nothing is used: %s", status.body)
	}
	harness.Eventually(c.t, "it has printed something", func() bool {
		return c.get("/app/"+id+"/logs").text("apps.terminal.small") != ""
	})
	terminal := c.get("/app/" + id + "/logs").want(200)
	small := terminal.text("apps.terminal.small")
	if whole := c.log(id); len(small) > 1800 || !strings.Contains(whole, strings.TrimSpace(small)) || !reTime.MatchString(small[:24]) {
		c.t.Errorf("small is %q, the whole log %q", small, whole)
	}
}

// oneByOne stops and starts one application.
func (c *client) oneByOne(id string) {
	c.t.Helper()
	before := c.d.pid(id)
	c.put("/app/"+id+"/start", "").want(200, "status", "error").says("message", "already online")
	c.put("/app/"+id+"/stop", "").want(200, "status", "ok")
	if left := c.d.of(id); len(left) > 0 {
		c.t.Errorf("stop was answered while it ran: %v", left)
	}
	c.info(id).want(200, "apps.online", false, "apps.ramKilled", false)
	c.get("/app/"+id+"/status").want(200, "apps.container", "Offline")
	c.put("/app/"+id+"/stop", "").want(200, "status", "error").says("message", "already offline")
	c.put("/app/"+id+"/restart", "").want(200, "status", "error").says("message", "offline")
	c.put("/app/"+id+"/start", "{}").want(200, "status", "ok", "appStatus.online", true, "appStatus.exitCode", 0)
	between := c.d.pid(id)
	c.put("/app/"+id+"/restart", "").want(200, "status", "ok")
	if after := c.d.pid(id); before == between || between == after {
		c.t.Errorf("pids %d, %d, %d, want three", before, between, after)
	}
}

// all does the same to all applications.
func (c *client) all(ids []string) {
	c.t.Helper()
	lists := func(what, path string, want []string) {
		c.t.Helper()
		a := c.put("/app/all/"+what, "").want(200, "status", "ok")
		if got := a.list("apps." + path); !slices.Equal(got, slices.Sorted(slices.Values(want))) {
			c.t.Errorf("%s: %s is %v, want %v", what, path, got, want)
		}
	}
	lists("restart", "restarted", ids)
	lists("stop", "stoped", ids)
	lists("stop", "alreadyOffline", ids)
	lists("restart", "alreadyOffline", ids)
	lists("start", "started", ids)
	lists("start", "alreadyOnline", ids)
	for _, path := range []string{"", "/status", "/logs"} {
		if list, ok := c.get("/app/all" + path).at("apps").([]any); !ok || len(list) != len(ids) {
			c.t.Errorf("GET /app/all%s has %d applications, want %d", path, len(list), len(ids))
		}
	}
}

// backup makes a backup and a new application of it.
func (c *client) backup(id string) {
	c.t.Helper()
	link := c.get("/app/"+id+"/backup").want(200, "backups.id", id).text("backups.url")
	if !strings.HasPrefix(link, c.d.Base) || !strings.HasSuffix(link, ".zip") {
		c.t.Errorf("the address is %q, want an absolute one that ends in .zip", link)
	}
	content := c.download(link)
	archive, err := zip.NewReader(bytes.NewReader(content), int64(len(content)))
	if err != nil {
		c.t.Fatal(err)
	}
	if _, err := archive.Open("index.js"); err != nil {
		c.t.Errorf("the backup has a wrapping folder: %v", err)
	}
	a := c.post(content).want(200, "status", "ok")
	again := a.text("app.id")
	c.info(again).want(200, "apps.online", true, "apps.ram", 100)
	sameKeys(c.t, snapshot(c.t, c.d.path(again)), snapshot(c.t, c.d.path(id)))
	c.delete(again).want(200)
	if resp, err := web.Get(link + "x"); err != nil || resp.StatusCode != http.StatusNotFound {
		c.t.Errorf("a wrong link answers %v, %v", resp, err)
	}
}

// sameKeys fails unless two trees have the same files.
func sameKeys(t *testing.T, got, want files) {
	t.Helper()
	for name := range want {
		if _, ok := got[name]; !ok {
			t.Errorf("%s is missing", name)
		}
	}
}
