package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"berth/test/harness"
)

// commanding is the request that runs a command.
func (c *client) commanding(id, command string) *http.Request {
	body, err := json.Marshal(map[string]string{"command": command})
	if err != nil {
		panic(err)
	}
	r := c.request(http.MethodPut, "/v2/app/"+id+"/console", strings.NewReader(string(body)))
	r.Header.Set("Content-Type", "application/json")
	return r
}

func (c *client) console(id, command string) answer {
	c.t.Helper()
	return c.send(c.commanding(id, command))
}

// consoling is console under way; the channel gets the answer.
func (c *client) consoling(ctx context.Context, id, command string) <-chan answer {
	done := make(chan answer, 1)
	go func() {
		a, err := c.try(c.commanding(id, command).WithContext(ctx))
		if err != nil {
			a.body = []byte(err.Error())
		}
		done <- a
	}()
	return done
}

// began waits until a command has made the file begun in its directory.
func (d *daemon) began(id string) {
	d.t.Helper()
	harness.Eventually(d.t, "the command runs", func() bool { _, err := os.Stat(d.path(id, "begun")); return err == nil })
	if err := os.Remove(d.path(id, "begun")); err != nil {
		d.t.Fatal(err)
	}
}

// TestConsole runs commands beside a program and in place of one: the same
// user, directory, environment and limits, and a group of their own.
func TestConsole(t *testing.T) {
	t.Parallel()
	d := launch(t)
	c := d.account("ana", 1024)
	id := c.upload(shellBot("env | sort >its.env\n"+idleShell, "RAM=64"))
	c.untilLog(id, "up")
	shell := "apps.shell."
	c.console(id, "echo out; echo err >&2; exit 3").want(200, "status", "ok", "message", "The command ended with exit code 3.",
		"apps.id", id, shell+"online", true, shell+"stdout", "out\n", shell+"stderr", "err\n", shell+"cmd", "out\nerr\n")
	c.console(id, "id -u; id -g; pwd; cat; cat start.sh | head -n 1").want(200,
		shell+"stdout", fmt.Sprintf("%d\n%d\n%s\nenv | sort >its.env\n", d.uidOf(id), d.uidOf(id), d.path(id)))
	c.console(id, "env | sort | diff its.env -").want(200, "message", "The command ended with exit code 0.", shell+"stdout", "")
	// The root of what it sees is its own group (proc tests which that is), with
	// the shell and what tells.
	groups := c.console(id, "cat /proc/self/cgroup; cd /sys/fs/cgroup; wc -l <$(ls -d unified/cgroup.procs cgroup.procs 2>/dev/null)")
	if text := groups.text(shell + "stdout"); !regexp.MustCompile(`(?m)^0::/\n2\n$`).MatchString(text) {
		t.Errorf("its groups are %s", text)
	}
	if log := c.log(id); strings.Contains(log, "out") || strings.Contains(log, "err") {
		t.Errorf("a command's output is in the program's log:\n%s", log)
	}
	c.put("/app/"+id+"/stop", "").want(200)
	c.console(id, "env | sort | diff its.env -; cat /proc/self/cgroup >&2").want(200, shell+"online", false, shell+"stdout", "").
		says(shell+"stderr", "0::/\n")
	c.info(id).want(200, "apps.online", false, "apps.exitCode", 143)
	c.put("/app/"+id+"/start", "").want(200, "appStatus.online", true)
	ben := d.account("ben", 100)
	ben.console(id, "touch /tmp/x").want(404, "status", "error")
	c.console("nothing", "true").want(404)
	c.console(id, " ").want(400).says("message", "empty")
	said := d.Out.String()
	if strings.Contains(said, "its.env") || strings.Count(said, `msg="console command ended"`) != 5 || !strings.Contains(said, "code=3 ms=") {
		t.Errorf("the daemon's log has the commands, or not that they ran: %s", said)
	}
}

// TestKernelConsoleRAM gives a hog the RAM that its application has, no more.
func TestKernelConsoleRAM(t *testing.T) {
	t.Parallel()
	d := launch(t)
	c := d.account("ana", 200)
	id := c.upload(shellBot(idleShell, "RAM=64"))
	hog := "echo begun; exec tail /dev/zero"
	c.console(id, hog).want(200, "status", "ok", "apps.shell.online", true, "apps.shell.stdout", "begun\n").
		says("message", "the application needed more than 64 MB of RAM").says("apps.shell.stderr", "more than 64 MB of RAM")
	c.until(id, "apps.online", false, "apps.ramKilled", true, "apps.exitCode", 137)
	c.untilLog(id, "needed more than 64 MB of RAM")
	c.console(id, hog).want(200, "apps.shell.online", false).says("message", "the application needed more than 64 MB of RAM")
	c.console(id, "true").want(200, "message", "The command ended with exit code 0.")
	if list := d.of(id); len(list) > 0 {
		t.Errorf("left running: %v", list)
	}
}

// TestConsoleIsBounded: in time, in output, and in what it leaves behind.
func TestConsoleIsBounded(t *testing.T) {
	t.Parallel()
	d := launch(t, "--console-timeout", "5s")
	c := d.account("ana", 200)
	id := c.upload(shellBot(idleShell))
	c.untilLog(id, "up")
	pid := d.pid(id)
	c.console(id, `trap "" TERM HUP; echo begun; setsid sleep 1000 & sleep 1000`).want(200, "status", "ok", "apps.shell.stdout", "begun\n").
		says("message", "The command was ended, with everything it had started: it took longer than 5s").says("apps.shell.stderr", "longer than 5s")
	if d.pid(id) != pid {
		t.Error("the program is another")
	}
	// Had it held the answer up, that would say so.
	c.console(id, `(setsid sh -c 'setsid sleep 1000 & sleep 1000' &) ; sleep 1000 & echo done`).want(200,
		"apps.shell.stdout", "done\n", "message", "The command ended with exit code 0.")
	if d.pid(id) != pid {
		t.Error("the program is another")
	}
	a := c.console(id, `head -c 20000000 /dev/zero | tr '\0' '\377'; echo €€`).want(200, "message", "The command ended with exit code 0.").
		says("apps.shell.stdout", "[berth] 19MB more were dropped: the first 64KB are kept\n")
	if n := len(a.body); n > 1<<20 {
		t.Errorf("the answer has %d bytes", n)
	}
	if log := c.log(id); strings.Contains(log, "done") || strings.Contains(log, "dropped") {
		t.Errorf("the program's log has it:\n%s", tail(log, 1000))
	}
}

// TestConsoleEndsEarly: with the client, the application and the daemon.
func TestConsoleEndsEarly(t *testing.T) {
	t.Parallel()
	d := launch(t)
	c := d.account("ana", 400)
	id := c.upload(shellBot(idleShell))
	const waits = "echo so far; touch begun; sleep 1000"
	for _, online := range []bool{true, false} {
		if !online {
			c.put("/app/"+id+"/stop", "").want(200)
		}
		before := len(d.of(id))
		ctx, hangUp := context.WithCancel(context.Background())
		gone := c.consoling(ctx, id, waits)
		d.began(id)
		c.console(id, "true").want(409, "status", "error")
		hangUp()
		<-gone
		harness.Eventually(t, "the command ends with its client", func() bool { return len(d.of(id)) == before })
		harness.Eventually(t, "the next may come", func() bool { return c.console(id, "true").code == 200 })
	}
	for _, tt := range []struct {
		does, cut string
		do        func()
	}{
		{"starts", "the application was started", func() { c.put("/app/"+id+"/start", "").want(200, "appStatus.online", true) }},
		{"restarts", "the application was restarted", func() { c.put("/app/"+id+"/restart", "").want(200) }},
		{"commits", "the application was deployed", func() { c.commit(id, files{"new": "x"}).want(200) }},
		{"kills", "the application's program ended by signal 9 (killed)", func() { kill(t, d.programs(id)) }},
		{"deletes", "the application was deleted", func() { c.delete(id).want(200) }},
	} {
		console := c.consoling(context.Background(), id, waits)
		d.began(id)
		tt.do()
		(<-console).want(200, "status", "ok", "apps.shell.stdout", "so far\n").says("message", tt.cut)
		if tt.does == "kills" {
			c.until(id, "apps.online", false)
			c.put("/app/"+id+"/start", "").want(200, "appStatus.online", true)
		}
	}
	id = c.upload(shellBot(idleShell))
	off := c.upload(shellBot("exit 0"))
	first, second := c.consoling(context.Background(), id, waits), c.consoling(context.Background(), off, waits)
	d.began(id)
	d.began(off)
	if code := d.End(syscall.SIGTERM); code != 0 {
		t.Errorf("the daemon's exit status is %d", code)
	}
	for _, console := range []<-chan answer{first, second} {
		(<-console).want(200, "apps.shell.stdout", "so far\n").says("message", "the server is shutting down")
	}
	if left := d.processes(); len(left) > 0 {
		t.Errorf("left running: %v", left)
	}
	d.start()
}

// programs is the pid of an application's program, beside that of a command.
func (d *daemon) programs(id string) int {
	d.t.Helper()
	for _, p := range d.of(id) {
		group, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", p.pid))
		if !strings.Contains(string(group), "/console-") {
			return p.pid
		}
	}
	d.t.Fatal("no program runs")
	return 0
}
