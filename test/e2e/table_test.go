package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"berth/test/harness"
)

// What berth promises of the kernel, as an owner sees it. The same tests run on
// unified and on hybrid hosts: only the names of files differ.

// hog needs more than any RAM given to it, fast and without a runtime.
const hog = "exec tail /dev/zero\n"

// showLimit prints the limit of the group it is in, from whichever hierarchy
// has one.
const showLimit = `
v2=/sys/fs/cgroup$(sed -n 's/^0:://p' /proc/self/cgroup)/memory.max
v1=/sys/fs/cgroup/memory$(sed -n 's/^[0-9]*:memory://p' /proc/self/cgroup)/memory.limit_in_bytes
echo "limit $(cat $v2 2>/dev/null || cat $v1)"
`

// inGroup is what a file of the group of an application's one run holds; v2 and
// v1 may call it differently. "" when there is none.
func (d *daemon) inGroup(id string, names ...string) string {
	d.T.Helper()
	for _, dir := range d.Groups() {
		for _, name := range names {
			found, _ := filepath.Glob(filepath.Join(dir, "apps", id, "*", name)) // the pattern is well-formed
			if len(found) > 1 {
				d.T.Errorf("%d groups of one application: %v", len(found), found)
			}
			for _, file := range found {
				text, err := os.ReadFile(file)
				if err != nil {
					d.T.Error(err)
				}
				return strings.TrimSpace(string(text))
			}
		}
	}
	return ""
}

// runs are the groups of an application in every hierarchy.
func (d *daemon) runs(id string) []string {
	var all []string
	for _, dir := range d.Groups() {
		found, _ := filepath.Glob(filepath.Join(dir, "apps", id)) // the pattern is well-formed
		below, _ := filepath.Glob(filepath.Join(dir, "apps", id, "*", "cgroup.procs"))
		all = append(append(all, found...), below...)
	}
	return all
}

// bytesOf is a number of MB as the kernel writes it.
func bytesOf(mb int) string { return strconv.Itoa(mb << 20) }

// TestKernelLimits: every running application has the memory.max that it was
// given, before its first instruction and after every change, no swap, and its
// number of processes; when it has ended its group is gone.
func TestKernelLimits(t *testing.T) {
	t.Parallel()
	d := launch(t, "--apps-pids-max", "77")
	c := d.account("ana", 2000)
	ram := map[string]int{
		c.Upload(harness.ShellBot(showLimit+harness.IdleShell, "RAM=32")):                                   32,
		c.Upload(harness.NodeBot(harness.IdleNode, "RAM=101")):                                              101,
		c.Upload(harness.PythonBot(harness.IdlePython, "RAM=64")):                                           64,
		c.Upload(harness.ShellBot("x", "RAM=256", "START=sh -c '"+quoted(showLimit+harness.IdleShell)+"'")): 256,
	}
	limits := func() {
		t.Helper()
		for id, mb := range ram {
			c.Info(id).Want(200, "apps.online", true, "apps.ram", mb)
			if got := d.inGroup(id, "memory.max", "memory.limit_in_bytes"); got != bytesOf(mb) {
				t.Errorf("memory.max of %s is %q, want %s", id, got, bytesOf(mb))
			}
			// On v1 no swap is memory plus swap with the same limit.
			if got := d.inGroup(id, "memory.swap.max", "memory.memsw.limit_in_bytes"); got != "0" && got != bytesOf(mb) {
				t.Errorf("the limit of swap of %s is %q", id, got)
			}
			if got := d.inGroup(id, "pids.max"); got != "77" {
				t.Errorf("pids.max of %s is %q, want 77", id, got)
			}
		}
	}
	limits()
	for id, mb := range ram {
		if mb == 32 || mb == 256 {
			if log := c.UntilLog(id, "up"); !strings.Contains(log, "limit "+bytesOf(mb)+"\n") {
				t.Errorf("what it saw first: %q, want a limit of %d MB", log, mb)
			}
		}
		c.Put("/app/"+id+"/ram", fmt.Sprintf(`{"ramMB":%d}`, mb+50)).Want(200)
		ram[id] = mb + 50
	}
	limits()
	c.Put("/app/all/restart", "").Want(200)
	limits()
	c.Put("/app/all/stop", "").Want(200)
	for id := range ram {
		if left := d.runs(id); len(left) > 0 {
			t.Errorf("groups of a stopped application: %v", left)
		}
	}
}

// quoted makes a script one line, to stand between single quotes in a config.
func quoted(script string) string {
	return strings.ReplaceAll(strings.ReplaceAll(strings.TrimSpace(script), "'", `'"'"'`), "\n", "; ")
}

// TestKernelOutOfMemoryKills: the API tells each kill for RAM as that, and
// no SIGKILL by hand, 25 times, with the record of each, and a hundred
// times if everything is asked for.
func TestKernelOutOfMemoryKills(t *testing.T) {
	t.Parallel()
	d := launch(t)
	owner := d.account("ana", 1000)
	const lines = 5
	each := 5
	if os.Getenv("BERTH_E2E_LONG") != "" {
		each = 20 // the records keep 20 of an application
	}
	t.Run("lines", func(t *testing.T) {
		for n := range lines {
			t.Run(strconv.Itoa(n), func(t *testing.T) {
				t.Parallel()
				c := owner.in(t)
				id := c.Upload(harness.ShellBot(hog, "RAM=32"))
				idle := c.Upload(harness.ShellBot(harness.IdleShell, "RAM=32"))
				for kill := range each {
					c.Until(id, "apps.ramKilled", true, "apps.exitCode", 137, "apps.online", false)
					if kill < each-1 {
						c.Put("/app/"+id+"/start", "").Want(200)
					}
					if kill%5 == 0 {
						d.killByHand(c, idle)
					}
				}
				for n, e := range d.exits(id) {
					if e.OOM != 1 || e.Code != 137 || e.Peak < 31<<20 || e.Peak > 32<<20 || e.Limit != 32 {
						t.Errorf("record %d is %+v, want a kill at a peak of 32 MB", n, e)
					}
				}
				if n := len(d.exits(id)); n != each {
					t.Errorf("%d records of %d kills", n, each)
				}
				for n, e := range d.exits(idle) {
					if e.OOM != 0 || e.Code != 137 || e.Signal != 9 || e.Peak == 0 {
						t.Errorf("record %d of a SIGKILL by hand is %+v", n, e)
					}
				}
			})
		}
	})
}

// killByHand kills a program that idles, sees it told, and starts it again.
func (d *daemon) killByHand(c *client, id string) {
	c.T.Helper()
	c.Until(id, "apps.online", true)
	for _, p := range d.Of(id) {
		if err := syscall.Kill(p.PID, syscall.SIGKILL); err != nil {
			c.T.Error(err)
		}
	}
	c.Until(id, "apps.ramKilled", false, "apps.exitCode", 137, "apps.online", false)
	c.Put("/app/"+id+"/start", "").Want(200)
}

// exitRecord is how a run ended, as the database has it.
type exitRecord struct {
	OOM, Code, Signal int
	Peak              int64 // bytes
	Limit             int   // MB
}

// exits reads the records of an application while the daemon runs.
func (d *daemon) exits(id string) []exitRecord {
	d.T.Helper()
	const script = `import json, sqlite3, sys
rows = sqlite3.connect("file:" + sys.argv[1] + "?mode=ro", uri=True).execute(
    "SELECT oom, code, signal, peak_bytes, limit_mb FROM exit_record WHERE app = ?", (sys.argv[2],))
print(json.dumps([dict(zip(("oom", "code", "signal", "peak", "limit"), row)) for row in rows]))`
	out, err := exec.Command("/usr/bin/python3", "-c", script, filepath.Join(d.Data, "berth.db"), id).Output()
	if err != nil {
		d.T.Fatal(err)
	}
	var list []exitRecord
	if err := json.Unmarshal(out, &list); err != nil {
		d.T.Fatal(err)
	}
	return list
}

// TestKernelWrapper: npm start is a process of its own in front of the program
// that is killed, whether the kernel takes the group along or not.
func TestKernelWrapper(t *testing.T) {
	t.Parallel()
	for _, group := range []bool{true, false} {
		t.Run(fmt.Sprintf("oom_group=%t", group), func(t *testing.T) {
			t.Parallel()
			start := "START=npm start"
			if harness.Emulated { // there npm takes longer to follow its program than a wrapper may
				start = "START=python3 wrapper.py"
			} else {
				harness.Needs(t, "npm")
			}
			d := launch(t, fmt.Sprintf("--apps-oom-group=%t", group))
			c := d.account("ana", 400)
			id := c.Upload(harness.NodeBot(hogNode, "RAM=200", start).
				With("wrapper.py", "import subprocess, sys\nsys.exit(subprocess.run(['node', 'index.js']).returncode % 256)\n").
				With("package.json", `{"name":"wrapped","scripts":{"start":"node index.js"}}`))
			c.Until(id, "apps.ramKilled", true, "apps.exitCode", 137, "apps.online", false)
			c.UntilLog(id, "killed: needed more than 200 MB")
			if left := d.Of(id); len(left) > 0 {
				t.Errorf("left of it: %v", left)
			}
		})
	}
}

// bombPython forks in every process it ever made, again and again.
const bombPython = `import os, time
while True:
    try:
        os.fork()
    except OSError:
        time.sleep(0.1)
`

// TestKernelForkBomb: a program that forks without end reaches its limit and
// no further; its neighbour and the daemon go on, and it can be stopped.
func TestKernelForkBomb(t *testing.T) {
	t.Parallel()
	d := launch(t, "--apps-pids-max", "40")
	c := d.account("ana", 400)
	neighbour := c.Upload(harness.NodeBot("console.log('up'); let n = 0; setInterval(() => console.log('alive', n++), 50)\n", "RAM=100"))
	id := c.Upload(harness.PythonBot(bombPython, "RAM=200"))
	most := 0
	harness.Eventually(t, "it meets its limit", func() bool {
		n := len(d.Of(id))
		most = max(most, n)
		var met int
		_, err := fmt.Sscanf(d.inGroup(id, "pids.events"), "max %d", &met)
		return err == nil && met > 100 && n == 40
	})
	seen := strings.Count(c.Log(neighbour), "alive")
	harness.Eventually(t, "its neighbour goes on", func() bool { return strings.Count(c.Log(neighbour), "alive") > seen+5 })
	most = max(most, len(d.Of(id)))
	if most > 40 {
		t.Errorf("it had %d processes, want at most 40", most)
	}
	c.Info(neighbour).Want(200, "apps.online", true)
	c.Put("/app/"+id+"/stop", "").Want(200, "status", "ok")
	if left := d.Of(id); len(left) > 0 {
		t.Errorf("left after the stop: %v", left)
	}
	if left := d.runs(id); len(left) > 0 {
		t.Errorf("groups after the stop: %v", left)
	}
}

// TestKernelStartAfterKill: a program that only cgroup.kill ends runs again at
// once, every time. Some kernels kill whatever is born into a group that was
// killed before, so that each run needs a fresh one.
func TestKernelStartAfterKill(t *testing.T) {
	t.Parallel()
	d := launch(t, "--apps-stop-timeout", "50ms")
	c := d.account("ana", 100)
	id := c.Upload(harness.ShellBot("trap '' TERM\necho up\nwhile :; do sleep 1000; done\n", "RAM=32"))
	for n := range 5 {
		harness.Eventually(t, "it is up once more", func() bool { return strings.Count(c.Log(id), "Z up\n") == n+1 })
		c.Put("/app/"+id+"/restart", "").Want(200, "status", "ok")
	}
	harness.Eventually(t, "it is up at the end", func() bool { return strings.Count(c.Log(id), "Z up\n") == 6 })
	c.Info(id).Want(200, "apps.online", true, "apps.exitCode", 0)
}

// TestKernelNoStaleGroups: after a daemon that was killed, the next goes on with
// the group of each program that runs, in each hierarchy, and has no other.
func TestKernelNoStaleGroups(t *testing.T) {
	t.Parallel()
	d := launch(t)
	c := d.account("ana", 400)
	ids := []string{c.Upload(harness.ShellBot(harness.IdleShell, "RAM=32")), c.Upload(harness.PythonBot(harness.IdlePython, "RAM=64"))}
	before := map[string]bool{}
	for _, id := range ids {
		for _, dir := range d.runs(id) {
			before[dir] = true
		}
	}
	stopped := c.Upload(harness.ShellBot(harness.IdleShell, "RAM=32"))
	d.End(syscall.SIGKILL)
	if len(d.Processes()) != 3 {
		t.Fatalf("%v run after the daemon was killed, want three", d.Processes())
	}
	d.Serve()
	c.Put("/app/"+stopped+"/stop", "").Want(200)
	hierarchies := 0
	for _, dir := range d.Groups() {
		if harness.Exists(t, filepath.Join(dir, "apps")) { // in others programs are shown an empty one
			hierarchies++
		}
	}
	for _, id := range ids {
		c.Until(id, "apps.online", true)
		now := d.runs(id)
		if len(now) != 2*hierarchies { // the application's directory and its run's
			t.Errorf("%v, want one run in each of %d hierarchies", now, hierarchies)
		}
		for _, dir := range now {
			if !before[dir] {
				t.Errorf("%s was not there before the daemon was killed", dir)
			}
		}
	}
	if left := d.runs(stopped); len(left) > 0 {
		t.Errorf("groups of a stopped application: %v", left)
	}
}
