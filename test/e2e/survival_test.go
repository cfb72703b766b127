package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"berth/test/harness"
)

// TestSurvivesARestart: what was online comes online, what was stopped stays
// stopped, and nothing is forgotten.
func TestSurvivesARestart(t *testing.T) {
	t.Parallel()
	d := launch(t)
	c := d.account("ana", 1000)
	online := c.upload(nodeBot(idleNode, "NAME=First", "AUTORESTART=true"))
	stopped := c.upload(pythonBot(idlePython, "RAM=50"))
	failed := c.upload(shellBot("echo bad; exit 3", "RAM=32"))
	site := c.upload(nodeBot(idleNode, "TYPE=site", "ID=my-site").with("discloud.config", config("TYPE=site", "ID=my-site", "MAIN=index.js")))
	c.put("/app/"+online+"/ram", `{"ramMB":120}`).want(200)
	c.put("/app/"+online+"/profile", `{"name":"Renamed","avatarURL":"https://example.org/a.png"}`).want(200)
	c.put("/app/"+stopped+"/stop", "").want(200)
	c.until(failed, "apps.exitCode", 3)
	link := c.get("/app/" + online + "/logs").text("apps.terminal.url")
	pid := d.pid(online)

	d.restart()
	c.info(online).want(200, "apps.online", true, "apps.ram", 120, "apps.name", "Renamed",
		"apps.avatarURL", "https://example.org/a.png", "apps.autoRestart", true, "apps.exitCode", 0)
	if now := d.pid(online); now == pid {
		t.Errorf("the pid is still %d", pid)
	}
	if m := c.get("/app/" + online + "/status").text("apps.memory"); !strings.HasSuffix(m, "/120MB") {
		t.Errorf("memory is %q, want the limit of before", m)
	}
	harness.Eventually(t, "both runs are in the log", func() bool { return strings.Count(c.log(online), "Z up\n") == 2 })
	path := link[strings.Index(link, "/d/"):]
	if log := string(c.download(d.Base + path)); strings.Count(log, "Z up\n") != 2 {
		t.Errorf("the link of before shows %q", log)
	}
	c.info(stopped).want(200, "apps.online", false, "apps.ram", 50, "apps.ramKilled", false)
	if left := d.of(stopped); len(left) > 0 {
		t.Errorf("it was stopped and runs: %v", left)
	}
	c.info(failed).want(200, "apps.online", false, "apps.exitCode", 3)
	c.info(site).want(200, "apps.online", true, "apps.id", "my-site", "apps.type", 1)
	c.get("/user").want(200, "user.ramUsedMb", 120+50+32+100, "user.subdomains", "[my-site]")
}

// A commit that failed leaves the exit that was told before, also after a
// restart of the daemon.
func TestSurvivesTheExitToldBeforeAFailedCommit(t *testing.T) {
	t.Parallel()
	d := launch(t, "--apps-ok-delay", "2s")
	c := d.account("ana", 100)
	id := c.upload(shellBot("exec tail /dev/zero", "RAM=32"))
	c.until(id, "apps.ramKilled", true, "apps.online", false)
	c.commit(id, files{"start.sh": "exit 5"}).want(422)
	c.info(id).want(200, "apps.ramKilled", true, "apps.exitCode", 137, "apps.online", false)
	d.restart()
	c.info(id).want(200, "apps.ramKilled", true, "apps.exitCode", 137, "apps.online", false)
}

// TestSurvivesSIGKILL: a program whose daemon was killed goes on, is adopted by
// the next one with all that is known of it, and not a line of it is lost.
func TestSurvivesSIGKILL(t *testing.T) {
	t.Parallel()
	d := launch(t)
	c := d.account("ana", 400)
	id := c.upload(nodeBot("console.log('up'); let n = 0; setInterval(() => console.log('alive', n++), 20)\n", "RAM=64"))
	c.put("/app/"+id+"/ram", `{"ramMB":96}`).want(200)
	old, started := d.pid(id), c.get("/app/"+id+"/status").text("apps.startedAt")
	for range 5 {
		if code := d.End(syscall.SIGKILL); code != -1 {
			t.Fatalf("exit status %d of a daemon that was killed", code)
		}
		if pid := d.pid(id); pid != old {
			t.Errorf("the program of a killed daemon is %d, want %d", pid, old)
		}
		d.start()
		if pid := d.pid(id); pid != old {
			t.Errorf("after the start of the next daemon the program is %d, want %d", pid, old)
		}
		status := c.get("/app/"+id+"/status").want(200, "apps.container", "Online")
		if status.text("apps.startedAt") != started || !strings.HasSuffix(status.text("apps.memory"), "/96MB") {
			t.Errorf("it is told as %v", status.text("apps"))
		}
		c.info(id).want(200, "apps.online", true, "apps.ramKilled", false)
	}
	c.put("/app/"+id+"/stop", "").want(200, "status", "ok")
	next := 0
	for line := range strings.Lines(c.log(id)) {
		_, text, ok := strings.Cut(line, "alive ")
		if !ok {
			continue
		}
		if n, err := strconv.Atoi(strings.TrimSpace(text)); err != nil || n != next {
			t.Fatalf("line %q, want number %d", line, next)
		}
		next++
	}
	if next < 10 {
		t.Errorf("only %d lines", next)
	}
}

// What happens to programs while no daemon lives is told by the next one.
func TestSurvivesTheDeathOfProgramsMeanwhile(t *testing.T) {
	t.Parallel()
	d := launch(t)
	c := d.account("ana", 600)
	const when = "until [ -e go ]; do sleep 0.02; done; echo last words; "
	codes := c.upload(shellBot("echo up; "+when+"exit 3", "RAM=64"))
	hungry := c.upload(shellBot("echo up; "+when+"exec tail /dev/zero", "RAM=64"))
	again := c.upload(shellBot("echo up; "+when+"rm go; exit 4", "RAM=64", "AUTORESTART=true"))
	stops := c.upload(shellBot("echo up; exec sleep 100000", "RAM=64"))
	for _, id := range []string{codes, hungry, again} {
		c.untilLog(id, "up")
	}
	d.End(syscall.SIGKILL)
	for _, id := range []string{codes, hungry, again} {
		write(t, d.path(id, "go"), "")
		harness.Eventually(t, "the program is gone", func() bool { return len(d.of(id)) == 0 })
	}
	d.start()
	known := func(id string, code int) {
		t.Helper()
		c.until(id, "apps.online", false)
		got := c.info(id).text("apps.exitCode")
		if got != strconv.Itoa(code) && (got != "-1" || exitsAreSeen()) {
			t.Errorf("the exit code is %s, want %d", got, code)
		}
	}
	known(codes, 3)
	c.until(hungry, "apps.online", false, "apps.ramKilled", true, "apps.exitCode", 137)
	harness.Eventually(t, "it was started again", func() bool { return strings.Count(c.log(again), "up\n") == 2 })
	for _, id := range []string{codes, hungry, again} {
		if log := c.log(id); strings.Count(log, "last words\n") != 1 {
			t.Errorf("the log is %s", log)
		}
	}
	c.info(stops).want(200, "apps.online", true)
}

// exitsAreSeen tells whether this kernel remembers how the child of another
// ended (PIDFD_INFO_EXIT).
func exitsAreSeen() bool {
	text, _ := os.ReadFile("/proc/sys/kernel/osrelease")
	var major, minor int
	_, _ = fmt.Sscanf(string(text), "%d.%d", &major, &minor) // 0.0 sees nothing
	return major > 6 || major == 6 && minor >= 15
}

// TestSurvivesSIGKILLWithLastWords: what a program prints before it ends, while
// its daemon is dead, is in its log.
func TestSurvivesSIGKILLWithLastWords(t *testing.T) {
	t.Parallel()
	d := launch(t)
	c := d.account("ana", 400)
	id := c.upload(shellBot("echo up; while [ ! -e go ]; do sleep 0.1; done; printf 'last words'", "RAM=32"))
	harness.Eventually(t, "it runs", func() bool { return strings.Contains(c.log(id), "up") })
	keeper := d.keeper()
	if keeper == 0 {
		t.Fatal("nobody keeps its output")
	}
	if group, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", keeper)); err != nil || strings.Contains(string(group), "/apps/") {
		t.Errorf("the keeper is in %s, %v", group, err)
	}
	d.End(syscall.SIGKILL)
	if err := os.WriteFile(d.path(id, "go"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	harness.Eventually(t, "the program ends", func() bool { return len(d.of(id)) == 0 })
	d.start()
	c.until(id, "apps.online", false)
	if log := c.log(id); !regexp.MustCompile(`(?s)up\n.*last words\n`).MatchString(log) || strings.Count(log, "last words") != 1 {
		t.Errorf("the log is %q", log)
	}
	if d.keeper() != keeper {
		t.Error("another keeper was started beside the first")
	}
	if code := d.End(syscall.SIGTERM); code != 0 {
		t.Errorf("exit status %d", code)
	}
	if d.keeper() != 0 {
		t.Error("a keeper with nothing to keep lives on")
	}
}

// keeper is the process that keeps the programs' output, 0 if there is none.
func (d *daemon) keeper() int {
	d.t.Helper()
	list, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		d.t.Fatal(err)
	}
	for _, path := range list {
		if text, _ := os.ReadFile(path); string(text) == "berth\x00keep-descriptors\x00"+d.data+"\x00" {
			pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(path))) // digits
			return pid
		}
	}
	return 0
}

// A killed daemon's upload in flight leaves nothing after the next start.
func TestSurvivesSIGKILLDuringABuild(t *testing.T) {
	t.Parallel()
	d := launch(t)
	c := d.account("ana", 200)
	id := c.upload(nodeBot(idleNode, "RAM=64"))
	before := snapshot(t, d.path(id))
	gated := files{"discloud.config": config("TYPE=bot", "MAIN=index.js", "RAM=64", "BUILD=touch began; sleep 1000"), "index.js": "broken("}
	for _, r := range []func() error{
		func() error { _, err := c.try(c.form("POST", "/v2/upload", gated.zip())); return err },
		func() error { _, err := c.try(c.form("PUT", "/v2/app/"+id+"/commit", gated.zip())); return err },
	} {
		done := make(chan error, 1)
		go func() { done <- r() }()
		harness.Eventually(t, "it builds", func() bool {
			return exists(t, d.path("*", "began")) || exists(t, d.data+"/staging/*/build/began")
		})
		d.End(syscall.SIGKILL)
		if err := <-done; err == nil {
			t.Error("a killed daemon answered")
		}
		d.start()
		if left := d.files("staging"); len(left) > 0 {
			t.Errorf("left in staging: %v", left)
		}
		if apps := d.files("apps"); len(apps) != 1 || len(d.files("logs")) != 1 {
			t.Errorf("left: apps %v, logs %v", apps, d.files("logs"))
		}
		if all := d.processes(); len(all) != 1 {
			t.Errorf("%v run, want one process", all)
		}
		sameTree(t, snapshot(t, d.path(id)), before)
		c.info(id).want(200, "apps.online", true)
		c.get("/user").want(200, "user.ramUsedMb", 64)
	}
	c.delete(c.upload(nodeBot(idleNode, "RAM=136"))).want(200) // no reservation is left
}

// TestSecondDaemon is refused on the same data.
func TestSecondDaemon(t *testing.T) {
	t.Parallel()
	d := launch(t)
	c := d.account("ana", 100)
	id := c.upload(nodeBot(idleNode))
	pid := d.pid(id)
	code, _, stderr := d.run("serve", "--listen", "127.0.0.1:0")
	if code != 1 || !strings.Contains(stderr, "cannot use "+d.data+": another berth is serving from it") {
		t.Errorf("exit status %d: %s", code, stderr)
	}
	if d.pid(id) != pid {
		t.Error("the second daemon touched the first one's programs")
	}
}

// TestSecondSIGTERM ends a program that ignores the first at once.
func TestSecondSIGTERM(t *testing.T) {
	t.Parallel()
	d := launch(t, "--apps-stop-timeout", "60s")
	c := d.account("ana", 100)
	id := c.upload(nodeBot("process.on('SIGTERM', () => console.log('no'))\n" + idleNode))
	c.untilLog(id, "up")
	d.Signal(syscall.SIGTERM)
	harness.Eventually(t, "it stops", func() bool { return strings.Contains(d.Out.String(), "msg=stopping") })
	if d.Ended() || len(d.of(id)) != 1 {
		t.Fatal("the daemon did not wait for its program")
	}
	began := time.Now()
	if code := d.End(syscall.SIGTERM); code != 0 {
		t.Errorf("exit status %d", code)
	}
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("the second signal took %v", took)
	}
	if left := d.processes(); len(left) > 0 {
		t.Errorf("left running: %v", left)
	}
	if left := d.groups(); len(left) > 0 {
		t.Errorf("left groups: %v", left)
	}
	d.start()
	c.info(id).want(200, "apps.online", true)
	c.put("/app/"+id+"/ram", `{"ramMB":90}`).want(200)
	kill(t, d.pid(id)) // rather than wait for the minute
	c.until(id, "apps.online", false)
}

// What waits for its next restart when the daemon stops is wanted online, and
// is started at the next start of the daemon.
func TestSurvivesWhileWaiting(t *testing.T) {
	t.Parallel()
	d := launch(t)
	c := d.account("ana", 100)
	id := c.upload(shellBot("test -e well && exec sleep 1000; exit 7", "AUTORESTART=true"))
	harness.Eventually(t, "it waits", func() bool { return strings.Contains(c.info(id).text("message"), "(attempt 3)") })
	write(t, d.path(id, "well"), "")
	d.restart()
	c.until(id, "apps.online", true)
}
