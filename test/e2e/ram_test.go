package e2e

import (
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"berth/test/harness"
)

// Programs that need more RAM than they have.
const (
	// Buffers lie outside the JavaScript heap: no limit of Node.js comes first.
	hogNode      = "const held = []; console.log('hogging'); setInterval(() => held.push(Buffer.alloc(8 << 20, 1)), 2)\n"
	hogPython    = "held = []\nprint('hogging')\nwhile True: held.append(bytearray(8 << 20))\n"
	helperPython = "import subprocess, sys, time\nsubprocess.run([sys.executable, '-c', 'x = bytearray(300 << 20)'])\nprint('the helper is gone')\n"
)

// TestKernelRAMOfARunningProgram changes the limit under a program that holds 60 MB.
func TestKernelRAMOfARunningProgram(t *testing.T) {
	t.Parallel()
	d := launch(t)
	c := d.account("ana", 1024)
	id := c.Upload(harness.PythonBot("held = bytearray(60 << 20)\n"+harness.IdlePython, "RAM=100"))
	c.UntilLog(id, "up")
	pid := d.PID(id)
	c.Put("/app/"+id+"/ram", `{"ramMB":150}`).Want(200, "status", "ok")
	unchanged := func() {
		t.Helper()
		c.Info(id).Want(200, "apps.ram", 150, "apps.online", true)
		if m := c.Get("/app/" + id + "/status").Text("apps.memory"); !strings.HasSuffix(m, "/150MB") {
			t.Errorf("memory is %q, want a limit of 150MB", m)
		}
		c.Get("/user").Want(200, "user.ramUsedMb", 150)
	}
	unchanged()
	small := c.Put("/app/"+id+"/ram", `{"ramMB":50}`).Want(200, "status", "error", "code", 200)
	if m := small.Text("message"); !regexp.MustCompile(`to 50 MB: the program uses 6\d MB now`).MatchString(m) {
		t.Errorf("the message is %q, want both numbers", m)
	}
	unchanged()
	c.Put("/app/"+id+"/ram", `{"ramMB":31}`).Want(200, "status", "error").Says("message", "at least 32 MB", "31 MB")
	c.Put("/app/"+id+"/ram", `{"ramMB":1025}`).Want(200, "status", "error").Says("message", "1024 MB", "1025 MB")
	c.Put("/app/"+id+"/ram", `{"ramMB":"many"}`).Want(400).Says("message", "ramMB")
	unchanged()
	if now := d.PID(id); now != pid {
		t.Errorf("the pid was %d and is %d: a change of RAM must not restart", pid, now)
	}
}

// TestKernelCPUWeight reads the share of the processor of a running program,
// which follows its RAM and is its own while it is built anew.
func TestKernelCPUWeight(t *testing.T) {
	t.Parallel()
	d := launch(t)
	if harness.Unweighed != "" {
		t.Skip(harness.Unweighed)
	}
	c := d.account("ana", 1024)
	gate := filepath.Join(d.Gates, "gate")
	id := c.Upload(harness.NodeBot(harness.IdleNode, "RAM=100"))
	c.UntilLog(id, "up")
	is := func(v2, v1 string) {
		t.Helper()
		if got := d.weight(id); got != "cpu.weight "+v2 && got != "cpu.shares "+v1 {
			t.Errorf("it has a %s, want a weight of %s", got, v2)
		}
	}
	is("100", "1024")
	c.Put("/app/"+id+"/ram", `{"ramMB":200}`).Want(200, "status", "ok")
	is("200", "2048")
	c.Put("/app/"+id+"/ram", `{"ramMB":1025}`).Want(200, "status", "error")
	is("200", "2048")
	done := c.building(t.Context(), id, gated(gate, harness.IdleNode))
	is("200", "2048")
	c.Put("/app/"+id+"/ram", `{"ramMB":400}`).Want(200)
	is("400", "4096")
	harness.Write(t, gate, "")
	(<-done).Want(200)
	is("400", "4096")
	c.Put("/app/"+id+"/restart", "").Want(200)
	is("400", "4096")
}

// weight is the file with an application's share of the processor, and what
// it holds.
func (d *daemon) weight(id string) string {
	d.T.Helper()
	for _, dir := range d.Groups() {
		for _, file := range []string{"cpu.weight", "cpu.shares"} {
			if text, err := os.ReadFile(filepath.Join(dir, "apps", id, file)); err == nil {
				return file + " " + strings.TrimSpace(string(text))
			}
		}
	}
	return "share in no file"
}

// Page cache is not what a program needs: lowering the RAM below it works.
func TestKernelRAMIgnoresPageCache(t *testing.T) {
	t.Parallel()
	c := launch(t).account("ana", 200)
	id := c.Upload(harness.ShellBot(`head -c 60000000 /dev/zero >file; cat file >/dev/null; echo written; exec sleep 1000`, "RAM=150"))
	c.UntilLog(id, "written")
	c.Put("/app/"+id+"/ram", `{"ramMB":40}`).Want(200, "status", "ok")
	c.Get("/app/"+id+"/status").Says("apps.memory", "/40MB")
	c.Info(id).Want(200, "apps.online", true, "apps.ram", 40)
}

// TestKernelOutOfMemory kills programs for real and tells it from other ends.
func TestKernelOutOfMemory(t *testing.T) {
	t.Parallel()
	d := launch(t)
	owner := d.account("ana", 4096)
	kept := map[string]bool{} // id: was it for its RAM
	// On a hybrid host berth itself ends the rest of the group, a moment after
	// the kernel's kill: a wrapper that lives on must not live long.
	t.Run("programs", func(t *testing.T) {
		for _, tt := range []struct {
			name string
			app  harness.Files
			log  string
		}{
			{"node", harness.NodeBot(hogNode, "RAM=64"), "hogging"},
			{"python", harness.PythonBot(hogPython, "RAM=40"), "hogging"},
			{"a helper of START", harness.NodeBot(hogNode, "RAM=64", "START=node index.js; sleep 1000; echo never"), "hogging"},
			{"a helper of Python", harness.PythonBot(helperPython+"time.sleep(1000)\nprint('never')\n", "RAM=48"), ""},
		} {
			c := owner.in(t)
			id := c.Upload(tt.app)
			c.Until(id, "apps.ramKilled", true, "apps.exitCode", 137, "apps.online", false)
			log := c.UntilLog(id, "killed: needed more than "+c.Info(id).Text("apps.ram")+" MB")
			if !strings.Contains(log, tt.log) || strings.Contains(log, "never") {
				t.Errorf("%s: the log is %q", tt.name, log)
			}
			c.Info(id).Says("message", "was killed for needing more than")
			c.Get("/app/"+id+"/status").Want(200, "apps.container", "Offline")
			kept[id] = true
		}
	})
	byHand := owner.Upload(harness.NodeBot(harness.IdleNode, "RAM=64"))
	harness.Kill(t, d.PID(byHand))
	owner.UntilLog(byHand, "ended by signal 9")
	kept[byHand] = false
	own := owner.Upload(harness.ShellBot("exit 137", "RAM=32"))
	kept[own] = false
	told := func() {
		t.Helper()
		for id, ram := range kept {
			owner.Until(id, "apps.ramKilled", ram, "apps.exitCode", 137, "apps.online", false)
		}
	}
	told()
	d.Restart()
	told()
	owner.Put("/app/"+byHand+"/start", "").Want(200, "appStatus.ramKilled", false, "appStatus.exitCode", 0)
	owner.Info(byHand).Want(200, "apps.online", true, "apps.exitCode", 0)
}

// With AUTORESTART an out-of-memory kill restarts like any other failure and
// is still told.
func TestOutOfMemoryRestarts(t *testing.T) {
	t.Parallel()
	c := launch(t).account("ana", 100)
	id := c.Upload(harness.ShellBot("test -e once && exec sleep 1000; touch once; exec tail /dev/zero", "RAM=32", "AUTORESTART=true"))
	c.Until(id, "apps.online", true, "apps.ramKilled", true, "apps.exitCode", 137, "apps.autoRestart", true)
	c.UntilLog(id, "killed: needed more than 32 MB of RAM (exit code 137); restarting now")
	c.Put("/app/"+id+"/restart", "").Want(200, "status", "ok")
	c.Info(id).Want(200, "apps.online", true, "apps.ramKilled", false, "apps.exitCode", 0)
}

// TestKernelHelperOutOfMemory: without apps.oom_group a helper dies alone, and it
// is the program's end only when the program follows it.
func TestKernelHelperOutOfMemory(t *testing.T) {
	t.Parallel()
	c := launch(t, "--apps-oom-group=false").account("ana", 200)
	lives := c.Upload(harness.PythonBot(helperPython+"time.sleep(1000)\n", "RAM=48"))
	ends := c.Upload(harness.PythonBot(helperPython+"sys.exit(1)\n", "RAM=48"))
	later := c.Upload(harness.PythonBot(helperPython+"time.sleep(8)\nsys.exit(4)\n", "RAM=48"))
	c.UntilLog(lives, "a helper process was killed: the application needed more than 48 MB")
	c.Info(lives).Want(200, "apps.online", true, "apps.ramKilled", false)
	c.Until(ends, "apps.online", false, "apps.ramKilled", true, "apps.exitCode", 137)
	c.Until(later, "apps.online", false, "apps.ramKilled", false, "apps.exitCode", 4)
}

// What helpers use counts like the program's own.
func TestStatusCountsHelpers(t *testing.T) {
	t.Parallel()
	c := launch(t).account("ana", 200)
	id := c.Upload(harness.PythonBot("import os, signal\nif os.fork() == 0:\n    held = bytearray(60 << 20)\n    print('holds')\n    while True: pass\nsignal.pause()\n"))
	c.UntilLog(id, "holds")
	harness.Eventually(t, "the helper's memory and cpu are seen", func() bool {
		a := c.Get("/app/" + id + "/status")
		memory, _ := strconv.ParseFloat(strings.TrimSuffix(a.Text("apps.memory"), "MB/100MB"), 64)
		cpu, _ := strconv.ParseFloat(strings.TrimSuffix(a.Text("apps.cpu"), "%"), 64)
		return memory >= 60 && memory < 90 && cpu > 5
	})
}
