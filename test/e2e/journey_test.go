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
	c.Get("/user").Want(200, "user.userID", c.Account, "user.totalRamMb", 1024, "user.ramUsedMb", 0, "user.apps", "[]")
	node := c.Upload(example(t, "node-bot"))
	python := c.Upload(example(t, "python-bot"))
	both := []string{node, python}
	for _, id := range both {
		c.look(id)
	}
	c.Get("/user").Want(200, "user.ramUsedMb", 200)
	c.oneByOne(node)
	c.all(both)
	c.backup(node)
	for _, id := range both {
		c.Delete(id).Want(200, "status", "ok")
		c.Info(id).Want(404, "status", "error", "code", 404)
		if d.UIDOf(id) != -1 {
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
	c.T.Helper()
	c.Info(id).Want(200, "status", "ok", "apps.id", id, "apps.online", true, "apps.ramKilled", false,
		"apps.exitCode", 0, "apps.ram", 100, "apps.autoRestart", true)
	status := c.Get("/app/"+id+"/status").Want(200, "apps.id", id, "apps.container", "Online")
	for path, re := range map[string]*regexp.Regexp{
		"apps.memory": reMemory, "apps.cpu": reCPU, "apps.ssd": reSize, "apps.netIO.down": reSize, "apps.startedAt": reTime,
	} {
		if !re.MatchString(status.Text(path)) {
			c.T.Errorf("%s is %q, want %v", path, status.Text(path), re)
		}
	}
	if strings.HasPrefix(status.Text("apps.memory"), "0MB") || status.Text("apps.ssd") == "0B" {
		c.T.Errorf("nothing is used: %s", status.Body)
	}
	harness.Eventually(c.T, "it has printed something", func() bool {
		return c.Get("/app/"+id+"/logs").Text("apps.terminal.small") != ""
	})
	terminal := c.Get("/app/" + id + "/logs").Want(200)
	small := terminal.Text("apps.terminal.small")
	if whole := c.Log(id); len(small) > 1800 || !strings.Contains(whole, strings.TrimSpace(small)) || !reTime.MatchString(small[:24]) {
		c.T.Errorf("small is %q, the whole log %q", small, whole)
	}
}

// oneByOne stops and starts one application.
func (c *client) oneByOne(id string) {
	c.T.Helper()
	before := c.d.PID(id)
	c.Put("/app/"+id+"/start", "").Want(200, "status", "error").Says("message", "already online")
	c.Put("/app/"+id+"/stop", "").Want(200, "status", "ok")
	if left := c.d.Of(id); len(left) > 0 {
		c.T.Errorf("stop was answered while it ran: %v", left)
	}
	c.Info(id).Want(200, "apps.online", false, "apps.ramKilled", false)
	c.Get("/app/"+id+"/status").Want(200, "apps.container", "Offline")
	c.Put("/app/"+id+"/stop", "").Want(200, "status", "error").Says("message", "already offline")
	c.Put("/app/"+id+"/restart", "").Want(200, "status", "error").Says("message", "offline")
	c.Put("/app/"+id+"/start", "{}").Want(200, "status", "ok", "appStatus.online", true, "appStatus.exitCode", 0)
	between := c.d.PID(id)
	c.Put("/app/"+id+"/restart", "").Want(200, "status", "ok")
	if after := c.d.PID(id); before == between || between == after {
		c.T.Errorf("pids %d, %d, %d, want three", before, between, after)
	}
}

// all does the same to all applications.
func (c *client) all(ids []string) {
	c.T.Helper()
	lists := func(what, path string, want []string) {
		c.T.Helper()
		a := c.Put("/app/all/"+what, "").Want(200, "status", "ok")
		if got := a.List("apps." + path); !slices.Equal(got, slices.Sorted(slices.Values(want))) {
			c.T.Errorf("%s: %s is %v, want %v", what, path, got, want)
		}
	}
	lists("restart", "restarted", ids)
	lists("stop", "stoped", ids)
	lists("stop", "alreadyOffline", ids)
	lists("restart", "alreadyOffline", ids)
	lists("start", "started", ids)
	lists("start", "alreadyOnline", ids)
	for _, path := range []string{"", "/status", "/logs"} {
		if list, ok := c.Get("/app/all" + path).At("apps").([]any); !ok || len(list) != len(ids) {
			c.T.Errorf("GET /app/all%s has %d applications, want %d", path, len(list), len(ids))
		}
	}
}

// backup makes a backup and a new application of it.
func (c *client) backup(id string) {
	c.T.Helper()
	link := c.Get("/app/"+id+"/backup").Want(200, "backups.id", id).Text("backups.url")
	if !strings.HasPrefix(link, c.d.Base) || !strings.HasSuffix(link, ".zip") {
		c.T.Errorf("the address is %q, want an absolute one that ends in .zip", link)
	}
	content := c.Download(link)
	archive, err := zip.NewReader(bytes.NewReader(content), int64(len(content)))
	if err != nil {
		c.T.Fatal(err)
	}
	if _, err := archive.Open("index.js"); err != nil {
		c.T.Errorf("the backup has a wrapping folder: %v", err)
	}
	a := c.Post(content).Want(200, "status", "ok")
	again := a.Text("app.id")
	c.Info(again).Want(200, "apps.online", true, "apps.ram", 100)
	sameKeys(c.T, harness.Snapshot(c.T, c.d.Path(again)), harness.Snapshot(c.T, c.d.Path(id)))
	c.Delete(again).Want(200)
	if resp, err := harness.Web.Get(link + "x"); err != nil || resp.StatusCode != http.StatusNotFound {
		c.T.Errorf("a wrong link answers %v, %v", resp, err)
	}
}

// sameKeys fails unless two trees have the same files.
func sameKeys(t *testing.T, got, want harness.Files) {
	t.Helper()
	for name := range want {
		if _, ok := got[name]; !ok {
			t.Errorf("%s is missing", name)
		}
	}
}
