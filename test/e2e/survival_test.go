package e2e

import (
	"fmt"
	"os"
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
	online := c.Upload(harness.NodeBot(harness.IdleNode, "NAME=First", "AUTORESTART=true"))
	stopped := c.Upload(harness.PythonBot(harness.IdlePython, "RAM=50"))
	failed := c.Upload(harness.ShellBot("echo bad; exit 3", "RAM=32"))
	site := c.Upload(harness.NodeBot(harness.IdleNode, "TYPE=site", "ID=my-site").With("discloud.config", harness.Config("TYPE=site", "ID=my-site", "MAIN=index.js")))
	c.Put("/app/"+online+"/ram", `{"ramMB":120}`).Want(200)
	c.Put("/app/"+online+"/profile", `{"name":"Renamed","avatarURL":"https://example.org/a.png"}`).Want(200)
	c.Put("/app/"+stopped+"/stop", "").Want(200)
	c.Until(failed, "apps.exitCode", 3)
	link := c.Get("/app/" + online + "/logs").Text("apps.terminal.url")
	pid := d.PID(online)

	d.Restart()
	c.Until(online, "apps.online", true)
	c.Until(site, "apps.online", true) // they start side by side
	c.Info(online).Want(200, "apps.online", true, "apps.ram", 120, "apps.name", "Renamed",
		"apps.avatarURL", "https://example.org/a.png", "apps.autoRestart", true, "apps.exitCode", 0)
	if now := d.PID(online); now == pid {
		t.Errorf("the pid is still %d", pid)
	}
	if m := c.Get("/app/" + online + "/status").Text("apps.memory"); !strings.HasSuffix(m, "/120MB") {
		t.Errorf("memory is %q, want the limit of before", m)
	}
	harness.Eventually(t, "both runs are in the log", func() bool { return strings.Count(c.Log(online), "Z up\n") == 2 })
	path := link[strings.Index(link, "/d/"):]
	if log := string(c.Download(d.Base + path)); strings.Count(log, "Z up\n") != 2 {
		t.Errorf("the link of before shows %q", log)
	}
	c.Info(stopped).Want(200, "apps.online", false, "apps.ram", 50, "apps.ramKilled", false)
	if left := d.Of(stopped); len(left) > 0 {
		t.Errorf("it was stopped and runs: %v", left)
	}
	c.Info(failed).Want(200, "apps.online", false, "apps.exitCode", 3)
	c.Info(site).Want(200, "apps.online", true, "apps.id", "my-site", "apps.type", 1)
	c.Get("/user").Want(200, "user.ramUsedMb", 120+50+32+100, "user.subdomains", "[my-site]")
}

// A commit that failed leaves the exit that was told before, also after a
// restart of the daemon.
func TestSurvivesTheExitToldBeforeAFailedCommit(t *testing.T) {
	t.Parallel()
	d := launch(t, "--apps-ok-delay", "2s")
	c := d.account("ana", 100)
	id := c.Upload(harness.ShellBot("exec tail /dev/zero", "RAM=32"))
	c.Until(id, "apps.ramKilled", true, "apps.online", false)
	c.Commit(id, harness.Files{"start.sh": "exit 5"}).Want(422)
	c.Info(id).Want(200, "apps.ramKilled", true, "apps.exitCode", 137, "apps.online", false)
	d.Restart()
	c.Info(id).Want(200, "apps.ramKilled", true, "apps.exitCode", 137, "apps.online", false)
}

// TestSurvivesSIGKILL: a program whose daemon was killed goes on, is adopted by
// the next one with all that is known of it, and not a line of it is lost.
func TestSurvivesSIGKILL(t *testing.T) {
	t.Parallel()
	d := launch(t)
	c := d.account("ana", 400)
	id := c.Upload(harness.NodeBot("console.log('up'); let n = 0; setInterval(() => console.log('alive', n++), 20)\n", "RAM=64"))
	c.Put("/app/"+id+"/ram", `{"ramMB":96}`).Want(200)
	old, started := d.PID(id), c.Get("/app/"+id+"/status").Text("apps.startedAt")
	for range 5 {
		if code := d.End(syscall.SIGKILL); code != -1 {
			t.Fatalf("exit status %d of a daemon that was killed", code)
		}
		if pid := d.PID(id); pid != old {
			t.Errorf("the program of a killed daemon is %d, want %d", pid, old)
		}
		d.Serve()
		if pid := d.PID(id); pid != old {
			t.Errorf("after the start of the next daemon the program is %d, want %d", pid, old)
		}
		status := c.Get("/app/"+id+"/status").Want(200, "apps.container", "Online")
		if status.Text("apps.startedAt") != started || !strings.HasSuffix(status.Text("apps.memory"), "/96MB") {
			t.Errorf("it is told as %v", status.Text("apps"))
		}
		c.Info(id).Want(200, "apps.online", true, "apps.ramKilled", false)
	}
	c.Put("/app/"+id+"/stop", "").Want(200, "status", "ok")
	next := 0
	for line := range strings.Lines(c.Log(id)) {
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
	codes := c.Upload(harness.ShellBot("echo up; "+when+"exit 3", "RAM=64"))
	hungry := c.Upload(harness.ShellBot("echo up; "+when+"exec tail /dev/zero", "RAM=64"))
	again := c.Upload(harness.ShellBot("echo up; "+when+"rm go; exit 4", "RAM=64", "AUTORESTART=true"))
	stops := c.Upload(harness.ShellBot("echo up; exec sleep 100000", "RAM=64"))
	for _, id := range []string{codes, hungry, again} {
		c.UntilLog(id, "up")
	}
	d.End(syscall.SIGKILL)
	for _, id := range []string{codes, hungry, again} {
		harness.Write(t, d.Path(id, "go"), "")
		harness.Eventually(t, "the program is gone", func() bool { return len(d.Of(id)) == 0 })
	}
	d.Serve()
	known := func(id string, code int) {
		t.Helper()
		c.Until(id, "apps.online", false)
		got := c.Info(id).Text("apps.exitCode")
		if got != strconv.Itoa(code) && (got != "-1" || exitsAreSeen()) {
			t.Errorf("the exit code is %s, want %d", got, code)
		}
	}
	known(codes, 3)
	c.Until(hungry, "apps.online", false, "apps.ramKilled", true, "apps.exitCode", 137)
	harness.Eventually(t, "it was started again", func() bool { return strings.Count(c.Log(again), "up\n") == 2 })
	for _, id := range []string{codes, hungry, again} {
		if log := c.Log(id); strings.Count(log, "last words\n") != 1 {
			t.Errorf("the log is %s", log)
		}
	}
	c.Info(stops).Want(200, "apps.online", true)
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
	id := c.Upload(harness.ShellBot("echo up; while [ ! -e go ]; do sleep 0.1; done; printf 'last words'", "RAM=32"))
	harness.Eventually(t, "it runs", func() bool { return strings.Contains(c.Log(id), "up") })
	keeper := d.Keeper()
	if keeper == 0 {
		t.Fatal("nobody keeps its output")
	}
	if group, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", keeper)); err != nil || strings.Contains(string(group), "/apps/") {
		t.Errorf("the keeper is in %s, %v", group, err)
	}
	d.End(syscall.SIGKILL)
	if err := os.WriteFile(d.Path(id, "go"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	harness.Eventually(t, "the program ends", func() bool { return len(d.Of(id)) == 0 })
	d.Serve()
	c.Until(id, "apps.online", false)
	if log := c.Log(id); !regexp.MustCompile(`(?s)up\n.*last words\n`).MatchString(log) || strings.Count(log, "last words") != 1 {
		t.Errorf("the log is %q", log)
	}
	if d.Keeper() != keeper {
		t.Error("another keeper was started beside the first")
	}
	if code := d.End(syscall.SIGTERM); code != 0 {
		t.Errorf("exit status %d", code)
	}
	if d.Keeper() != 0 {
		t.Error("a keeper with nothing to keep lives on")
	}
}

// A killed daemon's upload in flight leaves nothing after the next start.
func TestSurvivesSIGKILLDuringABuild(t *testing.T) {
	t.Parallel()
	d := launch(t)
	c := d.account("ana", 200)
	id := c.Upload(harness.NodeBot(harness.IdleNode, "RAM=64"))
	before := harness.Snapshot(t, d.Path(id))
	gated := harness.Files{"discloud.config": harness.Config("TYPE=bot", "MAIN=index.js", "RAM=64", "BUILD=touch began; sleep 1000"), "index.js": "broken("}
	for _, r := range []func() error{
		func() error { _, err := c.Try(c.Form("POST", "/v2/upload", gated.Zip())); return err },
		func() error { _, err := c.Try(c.Form("PUT", "/v2/app/"+id+"/commit", gated.Zip())); return err },
	} {
		done := make(chan error, 1)
		go func() { done <- r() }()
		harness.Eventually(t, "it builds", func() bool {
			return harness.Exists(t, d.Path("*", "began")) || harness.Exists(t, d.Data+"/staging/*/build/began")
		})
		d.End(syscall.SIGKILL)
		if err := <-done; err == nil {
			t.Error("a killed daemon answered")
		}
		d.Serve()
		if left := d.Entries("staging"); len(left) > 0 {
			t.Errorf("left in staging: %v", left)
		}
		if apps := d.Entries("apps"); len(apps) != 1 || len(d.Entries("logs")) != 1 {
			t.Errorf("left: apps %v, logs %v", apps, d.Entries("logs"))
		}
		if all := d.Processes(); len(all) != 1 {
			t.Errorf("%v run, want one process", all)
		}
		harness.SameTree(t, harness.Snapshot(t, d.Path(id)), before)
		c.Info(id).Want(200, "apps.online", true)
		c.Get("/user").Want(200, "user.ramUsedMb", 64)
	}
	c.Delete(c.Upload(harness.NodeBot(harness.IdleNode, "RAM=136"))).Want(200) // no reservation is left
}

// TestSecondDaemon is refused on the same data.
func TestSecondDaemon(t *testing.T) {
	t.Parallel()
	d := launch(t)
	c := d.account("ana", 100)
	id := c.Upload(harness.NodeBot(harness.IdleNode))
	pid := d.PID(id)
	code, _, stderr := d.Run("serve", "--listen", "127.0.0.1:0")
	if code != 1 || !strings.Contains(stderr, "cannot use "+d.Data+fmt.Sprintf(": another berth is serving from it (pid %d)", d.Cmd.Process.Pid)) {
		t.Errorf("exit status %d: %s", code, stderr)
	}
	if d.PID(id) != pid {
		t.Error("the second daemon touched the first one's programs")
	}
}

// TestSecondSIGTERM ends a program that ignores the first at once.
func TestSecondSIGTERM(t *testing.T) {
	t.Parallel()
	d := launch(t, "--apps-stop-timeout", "60s")
	c := d.account("ana", 100)
	id := c.Upload(harness.NodeBot("process.on('SIGTERM', () => console.log('no'))\n" + harness.IdleNode))
	c.UntilLog(id, "up")
	d.Signal(syscall.SIGTERM)
	harness.Eventually(t, "it stops", func() bool { return strings.Contains(d.Out.String(), "msg=stopping") })
	if d.Ended() || len(d.Of(id)) != 1 {
		t.Fatal("the daemon did not wait for its program")
	}
	began := time.Now()
	if code := d.End(syscall.SIGTERM); code != 0 {
		t.Errorf("exit status %d", code)
	}
	if took := time.Since(began); took > 50*time.Second { // of sixty
		t.Errorf("the second signal took %v", took)
	}
	if left := d.Processes(); len(left) > 0 {
		t.Errorf("left running: %v", left)
	}
	if left := d.Groups(); len(left) > 0 {
		t.Errorf("left groups: %v", left)
	}
	d.Serve()
	c.Until(id, "apps.online", true)
	c.Put("/app/"+id+"/ram", `{"ramMB":90}`).Want(200)
	harness.Kill(t, d.PID(id)) // rather than wait for the minute
	c.Until(id, "apps.online", false)
}

// What waits for its next restart when the daemon stops is wanted online, and
// is started at the next start of the daemon.
func TestSurvivesWhileWaiting(t *testing.T) {
	t.Parallel()
	d := launch(t)
	c := d.account("ana", 100)
	id := c.Upload(harness.ShellBot("test -e well && exec sleep 1000; exit 7", "AUTORESTART=true"))
	harness.Eventually(t, "it waits", func() bool { return strings.Contains(c.Info(id).Text("message"), "(attempt 3)") })
	harness.Write(t, d.Path(id, "well"), "")
	d.Restart()
	c.Until(id, "apps.online", true)
}
