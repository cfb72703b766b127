package e2e

import (
	"bufio"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"berth/test/harness"
)

// tidies needs a while to end, as a program that saves its data does. The
// wrapper that started it is gone before that.
const tidies = "process.on('SIGTERM', () => setTimeout(() => { console.log('tidied up'); process.exit(0) }, 300))\n"

// TestStop ends programs that do not want to.
func TestStop(t *testing.T) {
	t.Parallel()
	d := launch(t, "--apps-stop-timeout", "5s")
	owner := d.account("ana", 4096)
	for _, tt := range []struct {
		name     string
		app      harness.Files
		ready    string
		log      string
		min, max time.Duration
	}{
		{
			"it ends by itself", harness.NodeBot(tidies + harness.IdleNode),
			"up", "tidied up", 0, 4900 * time.Millisecond,
		},
		{
			"it ignores SIGTERM", harness.NodeBot("process.on('SIGTERM', () => console.log('no'))\n" + harness.IdleNode),
			"up", "no", 4900 * time.Millisecond, harness.Patience,
		},
		{"a wrapper", harness.NodeBot(tidies+harness.IdleNode,
			"START=sh -c 'node index.js; echo after'; true"), "up", "tidied up", 0, 4900 * time.Millisecond},
		{"npm start", harness.NodeBot(tidies+harness.IdleNode, "START=npm start", "RAM=200").
			With("package.json", `{"name":"x","version":"1.0.0","scripts":{"start":"node index.js"}}`), "up", "tidied up", 0, harness.Patience},
		{"a daemon of its own", harness.PythonBot(`import os, signal, time
if os.fork() == 0:
    os.setsid()
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if os.fork() == 0:
        os.setsid()
        print("up", flush=True)
        while True: time.sleep(1000)
    os._exit(0)
signal.pause()
`), "up", "", 0, harness.Patience},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if tt.name == "npm start" {
				harness.Needs(t, "npm")
			}
			c := owner.in(t)
			id := c.Upload(tt.app)
			c.UntilLog(id, tt.ready+"\n")
			began := time.Now()
			c.Put("/app/"+id+"/stop", "").Want(200, "status", "ok")
			if took := time.Since(began); took < tt.min || took > tt.max {
				t.Errorf("stopping took %v, want %v to %v", took, tt.min, tt.max)
			}
			if left := d.Of(id); len(left) > 0 {
				t.Errorf("left running: %v", left)
			}
			if log := c.Log(id); !strings.Contains(log, tt.log) {
				t.Errorf("%q is not in the log:\n%s", tt.log, log)
			}
			c.Info(id).Want(200, "apps.online", false, "apps.ramKilled", false)
		})
	}
}

// TestForkBomb meets the limit of processes and harms nobody.
func TestForkBomb(t *testing.T) {
	t.Parallel()
	d := launch(t, "--apps-pids-max", "20", "--apps-stop-timeout", "1s")
	c := d.account("ana", 200)
	calm := c.Upload(harness.NodeBot(harness.IdleNode))
	id := c.Upload(harness.PythonBot(`import os, signal
signal.signal(signal.SIGTERM, signal.SIG_IGN)
try:
    while os.fork() >= 0: pass
except OSError as e:
    print("stopped:", e.strerror)
signal.pause()
`))
	c.UntilLog(id, "stopped: Resource temporarily unavailable")
	if n := len(d.Of(id)); n > 20 {
		t.Errorf("%d processes, want 20 at most", n)
	}
	c.Put("/app/"+id+"/stop", "").Want(200, "status", "ok")
	if left := d.Of(id); len(left) > 0 {
		t.Errorf("left running: %v", left)
	}
	c.Info(calm).Want(200, "apps.online", true)
}

// TestStderrWithoutAReader: whoever read the daemon's log has died ("berth
// serve 2>&1 | tee"). The daemon goes on, and still stops its programs.
func TestStderrWithoutAReader(t *testing.T) {
	t.Parallel()
	d := prepare(t)
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd := d.Command(d.Args...)
	cmd.Env, cmd.Stderr = harness.CleanEnv(), w
	d.Spawn(t, cmd)
	_ = w.Close()
	lines := bufio.NewScanner(r)
	for lines.Scan() && !d.Hear(lines.Text()) {
	}
	c := d.account("ana", 100)
	id := c.Upload(harness.ShellBot(harness.IdleShell, "RAM=32"))
	_ = r.Close()
	for range 3 { // each writes a line
		c.Info(id).Want(200, "apps.online", true)
	}
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", d.PID(id)))
	if err != nil {
		t.Fatal(err)
	}
	if ignored, err := strconv.ParseUint(harness.Field(string(status), "SigIgn:"), 16, 64); err != nil || ignored&(1<<(syscall.SIGPIPE-1)) != 0 {
		t.Errorf("the program ignores signals %x, %v; a pipe must end it as anywhere", ignored, err)
	}
}
