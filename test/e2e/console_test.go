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
	r := c.Request(http.MethodPut, "/v2/app/"+id+"/console", strings.NewReader(string(body)))
	r.Header.Set("Content-Type", "application/json")
	return r
}

func (c *client) console(id, command string) harness.Answer {
	c.T.Helper()
	return c.Send(c.commanding(id, command))
}

// consoling is console under way; the channel gets the answer.
func (c *client) consoling(ctx context.Context, id, command string) <-chan harness.Answer {
	done := make(chan harness.Answer, 1)
	go func() {
		a, err := c.Try(c.commanding(id, command).WithContext(ctx))
		if err != nil {
			a.Body = []byte(err.Error())
		}
		done <- a
	}()
	return done
}

// began waits until a command has made the file begun in its directory.
func (d *daemon) began(id string) {
	d.T.Helper()
	harness.Eventually(d.T, "the command runs", func() bool { _, err := os.Stat(d.Path(id, "begun")); return err == nil })
	if err := os.Remove(d.Path(id, "begun")); err != nil {
		d.T.Fatal(err)
	}
}

// TestConsole runs commands beside a program and in place of one: the same
// user, directory, environment and limits, and a group of their own.
func TestConsole(t *testing.T) {
	t.Parallel()
	d := launch(t)
	c := d.account("ana", 1024)
	id := c.Upload(harness.ShellBot("env | sort >its.env\n"+harness.IdleShell, "RAM=64"))
	c.UntilLog(id, "up")
	shell := "apps.shell."
	c.console(id, "echo out; echo err >&2; exit 3").Want(200, "status", "ok", "message", "The command ended with exit code 3.",
		"apps.id", id, shell+"online", true, shell+"stdout", "out\n", shell+"stderr", "err\n", shell+"cmd", "out\nerr\n")
	c.console(id, "id -u; id -g; pwd; cat; cat start.sh | head -n 1").Want(200,
		shell+"stdout", fmt.Sprintf("%d\n%d\n%s\nenv | sort >its.env\n", d.UIDOf(id), d.UIDOf(id), d.Path(id)))
	c.console(id, "env | sort | diff its.env -").Want(200, "message", "The command ended with exit code 0.", shell+"stdout", "")
	// The root of what it sees is its own group (proc tests which that is), with
	// the shell and what tells.
	groups := c.console(id, "cat /proc/self/cgroup; cd /sys/fs/cgroup; wc -l <$(ls -d unified/cgroup.procs cgroup.procs 2>/dev/null)")
	if text := groups.Text(shell + "stdout"); !regexp.MustCompile(`(?m)^0::/\n2\n$`).MatchString(text) {
		t.Errorf("its groups are %s", text)
	}
	if log := c.Log(id); strings.Contains(log, "out") || strings.Contains(log, "err") {
		t.Errorf("a command's output is in the program's log:\n%s", log)
	}
	c.Put("/app/"+id+"/stop", "").Want(200)
	c.console(id, "env | sort | diff its.env -; cat /proc/self/cgroup >&2").Want(200, shell+"online", false, shell+"stdout", "").
		Says(shell+"stderr", "0::/\n")
	c.Info(id).Want(200, "apps.online", false, "apps.exitCode", 143)
	c.Put("/app/"+id+"/start", "").Want(200, "appStatus.online", true)
	ben := d.account("ben", 100)
	ben.console(id, "touch /tmp/x").Want(404, "status", "error")
	c.console("nothing", "true").Want(404)
	c.console(id, " ").Want(400).Says("message", "empty")
	said := d.Out.String()
	if strings.Contains(said, "its.env") || strings.Count(said, `msg="console command ended"`) != 5 || !strings.Contains(said, "code=3 ms=") {
		t.Errorf("the daemon's log has the commands, or not that they ran: %s", said)
	}
}

// TestKernelConsoleRAM gives a hog the RAM that its application has, no more.
func TestKernelConsoleRAM(t *testing.T) {
	t.Parallel()
	d := launch(t, "--console-timeout", "2m") // it takes an emulated machine more than the default to use it up
	c := d.account("ana", 200)
	id := c.Upload(harness.ShellBot(harness.IdleShell, "RAM=64"))
	hog := "echo begun; exec tail /dev/zero"
	c.console(id, hog).Want(200, "status", "ok", "apps.shell.online", true, "apps.shell.stdout", "begun\n").
		Says("message", "the application needed more than 64 MB of RAM").Says("apps.shell.stderr", "more than 64 MB of RAM")
	c.Until(id, "apps.online", false, "apps.ramKilled", true, "apps.exitCode", 137)
	c.UntilLog(id, "needed more than 64 MB of RAM")
	c.console(id, hog).Want(200, "apps.shell.online", false).Says("message", "the application needed more than 64 MB of RAM")
	c.console(id, "true").Want(200, "message", "The command ended with exit code 0.")
	if list := d.Of(id); len(list) > 0 {
		t.Errorf("left running: %v", list)
	}
}

// TestConsoleIsBounded: in time, in output, and in what it leaves behind.
func TestConsoleIsBounded(t *testing.T) {
	t.Parallel()
	d := launch(t, "--console-timeout", "5s")
	c := d.account("ana", 200)
	id := c.Upload(harness.ShellBot(harness.IdleShell))
	c.UntilLog(id, "up")
	pid := d.PID(id)
	c.console(id, `trap "" TERM HUP; echo begun; setsid sleep 1000 & sleep 1000`).Want(200, "status", "ok", "apps.shell.stdout", "begun\n").
		Says("message", "The command was ended, with everything it had started: it took longer than 5s").Says("apps.shell.stderr", "longer than 5s")
	if d.PID(id) != pid {
		t.Error("the program is another")
	}
	// Had it held the answer up, that would say so.
	c.console(id, `(setsid sh -c 'setsid sleep 1000 & sleep 1000' &) ; sleep 1000 & echo done`).Want(200,
		"apps.shell.stdout", "done\n", "message", "The command ended with exit code 0.")
	if d.PID(id) != pid {
		t.Error("the program is another")
	}
	a := c.console(id, `head -c 20000000 /dev/zero | tr '\0' '\377'; echo €€`).Want(200, "message", "The command ended with exit code 0.").
		Says("apps.shell.stdout", "[berth] 19MB more were dropped: the first 64KB are kept\n")
	if n := len(a.Body); n > 1<<20 {
		t.Errorf("the answer has %d bytes", n)
	}
	if log := c.Log(id); strings.Contains(log, "done") || strings.Contains(log, "dropped") {
		t.Errorf("the program's log has it:\n%s", harness.Tail(log, 1000))
	}
}

// TestConsoleEndsEarly: with the client, the application and the daemon.
func TestConsoleEndsEarly(t *testing.T) {
	t.Parallel()
	d := launch(t)
	c := d.account("ana", 400)
	id := c.Upload(harness.ShellBot(harness.IdleShell))
	const waits = "echo so far; touch begun; sleep 1000"
	for _, online := range []bool{true, false} {
		if !online {
			c.Put("/app/"+id+"/stop", "").Want(200)
		}
		before := len(d.Of(id))
		ctx, hangUp := context.WithCancel(context.Background())
		gone := c.consoling(ctx, id, waits)
		d.began(id)
		c.console(id, "true").Want(409, "status", "error")
		hangUp()
		<-gone
		harness.Eventually(t, "the command ends with its client", func() bool { return len(d.Of(id)) == before })
		harness.Eventually(t, "the next may come", func() bool { return c.console(id, "true").Code == 200 })
	}
	for _, tt := range []struct {
		does, cut string
		do        func()
	}{
		{"starts", "the application was started", func() { c.Put("/app/"+id+"/start", "").Want(200, "appStatus.online", true) }},
		{"restarts", "the application was restarted", func() { c.Put("/app/"+id+"/restart", "").Want(200) }},
		{"commits", "the application was deployed", func() { c.Commit(id, harness.Files{"new": "x"}).Want(200) }},
		{"kills", "the application's program ended by signal 9 (killed)", func() { harness.Kill(t, d.programs(id)) }},
		{"deletes", "the application was deleted", func() { c.Delete(id).Want(200) }},
	} {
		console := c.consoling(context.Background(), id, waits)
		d.began(id)
		tt.do()
		(<-console).Want(200, "status", "ok", "apps.shell.stdout", "so far\n").Says("message", tt.cut)
		if tt.does == "kills" {
			c.Until(id, "apps.online", false)
			c.Put("/app/"+id+"/start", "").Want(200, "appStatus.online", true)
		}
	}
	id = c.Upload(harness.ShellBot(harness.IdleShell))
	off := c.Upload(harness.ShellBot("exit 0"))
	first, second := c.consoling(context.Background(), id, waits), c.consoling(context.Background(), off, waits)
	d.began(id)
	d.began(off)
	if code := d.End(syscall.SIGTERM); code != 0 {
		t.Errorf("the daemon's exit status is %d", code)
	}
	for _, console := range []<-chan harness.Answer{first, second} {
		(<-console).Want(200, "apps.shell.stdout", "so far\n").Says("message", "the server is shutting down")
	}
	if left := d.Processes(); len(left) > 0 {
		t.Errorf("left running: %v", left)
	}
	d.Serve()
}

// programs is the pid of an application's program, beside that of a command.
func (d *daemon) programs(id string) int {
	d.T.Helper()
	for _, p := range d.Of(id) {
		group, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", p.PID))
		if !strings.Contains(string(group), "/console-") {
			return p.PID
		}
	}
	d.T.Fatal("no program runs")
	return 0
}
