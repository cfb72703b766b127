package faults

import (
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"berth/test/harness"
)

// holder makes what systemd makes of a unit with Delegate=yes, with a process in it: programs
// in it outlive a daemon that is stopped. It returns the group.
func holder(t *testing.T) (group string) {
	t.Helper()
	root := "/sys/fs/cgroup"
	if harness.Exists(t, root+"/unified/cgroup.procs") {
		root += "/unified"
	}
	group = fmt.Sprintf("/berth-holder-%d-faults.service", os.Getpid())
	dir := root + group
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = os.WriteFile(dir+"/cgroup.kill", []byte("1"), 0o600)
		harness.Eventually(t, "the groups of the programs are gone", func() bool {
			var all []string
			_ = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
				if err == nil && d.IsDir() {
					all = append(all, path)
				}
				return nil
			})
			for _, path := range slices.Backward(all) {
				_ = os.Remove(path)
			}
			return !harness.Exists(t, dir)
		})
	})
	if err := unix.Setxattr(dir, "trusted.delegate", []byte("1"), 0); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	sleep := exec.Command("/bin/sleep", "100000")
	sleep.SysProcAttr = &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: int(f.Fd())}
	if err := sleep.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { _ = sleep.Wait() }()
	return group
}

// TestFaultsRestart: the daemon is stopped and started as a service, again and again. Visitors of
// a site wait, and programs go on.
func TestFaultsRestart(t *testing.T) {
	t.Parallel()
	const times, rate = 5, 100
	harness.Root(t, "a control group is made")
	m, sites := harness.NewManager(t), harness.Address(t)
	group := holder(t)
	d := harness.Prepare(t, "--logs-rate", "100000", "--logs-max-file", "64",
		"--proxy-mode", "behind", "--proxy-listen", sites, "--proxy-domain", "apps.example.org")
	env := d.Env
	d.Env = append(slices.Clone(env), "BERTH_HOLDER="+group)
	m.Serve(d)
	d.Listens()
	c := d.NewAccount("ana", 200)
	talker, shop := c.Upload(harness.NodeBot(harness.Chatty, "RAM=64")), openShop(c, sites)
	pids := map[string]int{talker: d.PID(talker), shop: d.PID(shop)}
	visitors := harness.Visit(rate, func() *http.Request { return atShop(sites) })
	for range times {
		if code := d.End(syscall.SIGTERM); code != 0 {
			t.Fatalf("the daemon's exit status is %d: %s", code, d.Out)
		}
		m.Serve(d)
		d.Listens()
		for id, pid := range pids {
			c.Info(id).Want(200, "apps.online", true, "apps.ramKilled", false)
			if now := d.PID(id); now != pid {
				t.Errorf("the program of %s is %d, was %d", id, now, pid)
			}
		}
	}
	visitors.End(t, times*harness.MaxVisitors)
	if kept := m.Kept("sites/"); len(kept) != 1 {
		t.Errorf("the manager keeps %v", kept)
	}
	c.Put("/app/"+talker+"/stop", "").Want(200, "status", "ok")
	c.Counted(talker, 100)
	if log := harness.BesidesRequests(d.Out.String()); strings.Contains(log, "level=ERROR") {
		t.Errorf("the daemon complained: %s", log)
	}
	c.DeleteAll()
	d.End(syscall.SIGTERM)
	m.Forget()
	d.Env = env // the last one is no service, which would leave its groups
	d.Serve()
}

// openShop uploads a site and waits until it answers.
func openShop(c *harness.Client, sites string) (id string) {
	c.T.Helper()
	id = c.Upload(harness.Files{
		"discloud.config": harness.Config("TYPE=site", "ID=shop", "MAIN=index.js", "RAM=64"),
		"index.js":        "require('http').createServer((q, s) => s.end('open')).listen(process.env.PORT)",
	})
	harness.Eventually(c.T, "the site answers", func() bool {
		r := atShop(sites)
		r.Close = true
		resp, err := http.DefaultTransport.RoundTrip(r)
		if err != nil {
			return false
		}
		_ = resp.Body.Close()
		return resp.StatusCode == http.StatusOK
	})
	return id
}

// atShop is a visit of that site.
func atShop(sites string) *http.Request {
	r, err := http.NewRequest("GET", "http://"+sites+"/", nil)
	if err != nil {
		panic(err)
	}
	r.Host = "shop.apps.example.org"
	return r
}
