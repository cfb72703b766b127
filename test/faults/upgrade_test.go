package faults

import (
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"berth/test/harness"
)

// descriptors is what the daemon has open, by kind, and zombies how many
// processes have ended that it did not wait for.
func descriptors(d *harness.Berth) (open map[string]int, zombies int) {
	pid := strconv.Itoa(d.Cmd.Process.Pid)
	list, err := filepath.Glob("/proc/" + pid + "/fd/*")
	if err != nil {
		d.T.Fatal(err)
	}
	open = map[string]int{}
	for _, link := range list {
		// Connections to the database are opened as they are needed.
		if to, err := os.Readlink(link); err == nil && !strings.Contains(to, "/berth.db") {
			kind, _, _ := strings.Cut(to, ":[") // of sockets and pipes, which have numbers
			open[kind]++
		}
	}
	out, _ := exec.Command("ps", "--ppid", pid, "-o", "stat=").Output() // fails when there is none
	return open, strings.Count(string(out), "Z")
}

// TestFaultsUpgrade: the daemon is replaced in place, again and again, and neither
// programs nor clients notice.
func TestFaultsUpgrade(t *testing.T) {
	t.Parallel()
	upgrades(t, 5, 100)
}

// upgrades is TestFaultsUpgrade with so many of them, and so many connections a second.
func upgrades(t *testing.T, times, rate int) {
	sites := harness.Address(t)
	d := harness.Upgradable(t, "--logs-rate", "100000", "--logs-max-file", "64",
		"--proxy-mode", "behind", "--proxy-listen", sites, "--proxy-domain", "apps.example.org")
	d.Serve()
	c := d.NewAccount("ana", 800)
	talkers := []string{c.Upload(harness.NodeBot(harness.Chatty, "RAM=64")), c.Upload(harness.NodeBot(harness.Chatty, "RAM=64"))}
	shop := openShop(c, sites)
	pids, since := map[string]int{}, map[string]string{}
	for _, id := range append(talkers, shop) {
		pids[id], since[id] = d.PID(id), c.Get("/app/"+id+"/status").Text("apps.startedAt")
	}
	daemon := d.Cmd.Process.Pid
	d.Upgrade() // one image may have other descriptors open than the next
	harness.Web.CloseIdleConnections()
	before, _ := descriptors(d)
	v := harness.Visit(rate, func() *http.Request { return c.Request("GET", "/v2/user", nil) })
	visitors := harness.Visit(rate, func() *http.Request { return atShop(sites) })
	for n := range times {
		ends := c.Upload(harness.ShellBot("until [ -e go ]; do sleep 0.01; done; echo last; exit 7", "RAM=32"))
		d.Replace(harness.Binary)
		images := d.Images()
		d.Signal(syscall.SIGHUP)
		time.AfterFunc(time.Duration(n*250)*time.Millisecond, func() { _ = os.WriteFile(d.Path(ends, "go"), nil, 0o644) })
		d.UntilImages(images + 1)
		c.Until(ends, "apps.online", false, "apps.exitCode", 7, "apps.ramKilled", false)
		if log := c.Log(ends); strings.Count(log, "last\n") != 1 || strings.Contains(log, "repeat") {
			t.Errorf("its log is %s", log)
		}
		c.Delete(ends).Want(200)
		for id := range pids {
			if pid := d.PID(id); pid != pids[id] {
				t.Fatalf("the program is %d, want %d", pid, pids[id])
			}
			c.Info(id).Want(200, "apps.online", true, "apps.ramKilled", false)
			if at := c.Get("/app/" + id + "/status").Text("apps.startedAt"); at != since[id] {
				t.Errorf("it runs since %s, want %s", at, since[id])
			}
		}
	}
	least := int64(times) * harness.MaxVisitors
	v.End(t, least)
	visitors.End(t, least)
	var open map[string]int
	zombies := 0
	defer func() {
		if t.Failed() {
			t.Logf("before %v, after %v, zombies %d", before, open, zombies)
		}
	}()
	harness.Eventually(t, "no descriptor and no zombie is left", func() bool {
		harness.Web.CloseIdleConnections()
		open, zombies = descriptors(d)
		if most := before["pipe"] + 2*4; open["pipe"] <= most { // logs share up to four, as many as were busy at once
			open["pipe"] = before["pipe"]
		}
		const wire = "anon_inode" // an eventfd, by which v1 tells how full a program is; it may have been to come
		if open[wire] <= before[wire]+len(pids) {
			open[wire] = before[wire]
		}
		for kind, n := range open { // a connection may not have been closed yet at the time of before
			if n > before[kind] {
				return false
			}
		}
		return zombies == 0
	})
	if d.Ended() || d.Cmd.Process.Pid != daemon {
		t.Fatal("the daemon is another")
	}
	for _, id := range talkers {
		c.Put("/app/"+id+"/stop", "").Want(200, "status", "ok")
		c.Counted(id, 500*times/2)
	}
	if log := harness.BesidesRequests(d.Out.String()); strings.Contains(log, "level=ERROR") {
		t.Errorf("the daemon complained: %s", log)
	}
}
