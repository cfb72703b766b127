package faults

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"berth/test/harness"
)

// counts prints a number twenty times a second.
const counts = "import itertools, time\nfor n in itertools.count():\n    print('line', n, flush=True)\n    time.sleep(.05)\n"

// whole fails unless every line that a program counted is in its log, once and in
// order, and returns how many there are.
func whole(c *harness.Client, id string) int {
	c.T.Helper()
	next := 0
	for line := range strings.Lines(c.Log(id)) {
		_, text, ok := strings.Cut(line, "Z line ")
		if !ok {
			continue
		}
		if n, err := strconv.Atoi(strings.TrimSpace(text)); err != nil || n != next {
			c.T.Fatalf("line %q follows %d", line, next-1)
		}
		next++
	}
	return next
}

// within fails when something takes longer than it may on a busy machine.
func within(t *testing.T, limit time.Duration, what string, f func()) {
	t.Helper()
	if harness.Emulated {
		limit *= 4
	}
	began := time.Now()
	f()
	if took := time.Since(began); took > limit {
		t.Errorf("%s took %v, want at most %v", what, took, limit)
	}
}

// TestFaultsDiskHangs: the disk under the data directory takes nothing and
// answers nothing for a while (a frozen file system). What only reads is
// answered, what changes something is refused and done when the disk answers, a
// stop ends its program, and no line is lost.
func TestFaultsDiskHangs(t *testing.T) {
	t.Parallel()
	harness.Ready(t, harness.Unready)
	k := harness.NewDisk(t, "/dev/shm", 96, "errors=continue")
	d := k.Prepare("--apps-stop-timeout", "1s")
	d.Serve()
	c := d.NewAccount("ana", 400)
	talks, idle, other := c.Upload(harness.PythonBot(counts, "RAM=40")), c.Upload(harness.ShellBot(harness.IdleShell, "RAM=40")), c.Upload(harness.ShellBot(harness.IdleShell, "RAM=40"))
	c.UntilLog(talks, "line 5\n")
	pid := d.PID(talks)

	k.Command("fsfreeze", "-f", k.Dir)
	frozen := true
	thaw := func() {
		if frozen {
			frozen = false
			k.Command("fsfreeze", "-u", k.Dir)
		}
	}
	defer thaw()
	reads := func() {
		t.Helper()
		within(t, 20*time.Second, "what only reads", func() {
			c.Get("/user").Want(200)
			c.Info(talks).Want(200, "apps.online", true)
			c.Get("/app/"+talks+"/status").Want(200, "apps.container", "Online")
			c.Get("/app/"+talks+"/logs").Want(200).Says("apps.terminal.big", "Z line 5\n")
		})
	}
	reads()
	within(t, time.Minute, "a change that is refused", func() {
		c.Put("/app/"+idle+"/profile", `{"name":"late"}`).Want(503, "status", "error").
			Says("message", "cannot store the profile: the host's disk does not answer", "berth does it when the disk answers")
	})
	c.Put("/app/"+idle+"/ram", `{"ramMB":50}`).Want(503).Says("message", "cannot store the RAM: the host's disk does not answer")
	within(t, time.Minute, "a stop", func() { c.Put("/app/"+other+"/stop", "").Want(503, "status", "error") })
	if left := d.Of(other); len(left) > 0 {
		t.Errorf("it was stopped and runs: %v", left)
	}
	reads()
	if said := d.Out.String(); !strings.Contains(said, "the disk does not answer") {
		t.Errorf("the daemon says nothing of it: %s", harness.BesidesRequests(said))
	}

	thaw()
	c.Until(idle, "apps.name", "late", "apps.ram", 50, "apps.online", true)
	c.Until(other, "apps.online", false)
	harness.Eventually(t, "it says that the disk answers", func() bool { return strings.Contains(d.Out.String(), "the disk answers again") })
	before := whole(c, talks)
	harness.Eventually(t, "its output goes on", func() bool { return whole(c, talks) > before })
	if now := d.PID(talks); now != pid {
		t.Errorf("the program was %d and is %d", pid, now)
	}
	c.Delete(c.Upload(harness.ShellBot(harness.IdleShell, "RAM=32"))).Want(200)
	d.Restart()
	c.Until(idle, "apps.online", true)
	c.Info(idle).Want(200, "apps.name", "late", "apps.ram", 50, "apps.online", true)
	c.Info(other).Want(200, "apps.online", false)
}

// TestFaultsDiskFails: the disk has room and fails all the same, for what it is on
// has none. It is told as a disk that fails, and over when there is room.
func TestFaultsDiskFails(t *testing.T) {
	t.Parallel()
	harness.Ready(t, harness.Unready)
	below, err := os.MkdirTemp("/tmp", "berth-e2e-below.") //nolint:usetesting // mounted on
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.Remove(below) })
	if err := syscall.Mount("tmpfs", below, "tmpfs", 0, "size=48m"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Unmount(below, syscall.MNT_DETACH) })
	// Without a journal, an error of which would make it read-only for good.
	k := harness.NewDisk(t, below, 96, "errors=continue", "-O", "^has_journal", "-E", "lazy_itable_init=1")
	d := k.Prepare()
	d.Serve()
	c := d.NewAccount("ana", 400)
	id := c.Upload(harness.ShellBot(harness.IdleShell, "RAM=40"))
	pid := d.PID(id)
	ballast := filepath.Join(below, "ballast")
	f, err := os.Create(ballast)
	if err != nil {
		t.Fatal(err)
	}
	for zeros := make([]byte, 1<<16); err == nil; {
		_, err = f.Write(zeros)
	}
	f.Close()
	refused, n := "", 0
	harness.Eventually(t, "changes are refused", func() bool {
		n++
		a := c.Put("/app/"+id+"/profile", fmt.Sprintf(`{"name":"name %d"}`, n))
		refused = a.Text("message")
		return a.Code == 503
	})
	if !strings.HasPrefix(refused, "cannot store the profile: the host's disk ") {
		t.Errorf("the refusal is %q", refused)
	}
	c.Info(id).Want(200, "apps.online", true)
	if err := os.Remove(ballast); err != nil {
		t.Fatal(err)
	}
	harness.Eventually(t, "changes are made again", func() bool { return c.Put("/app/"+id+"/profile", `{"name":"after"}`).Code == 200 })
	c.Info(id).Want(200, "apps.name", "after", "apps.online", true)
	if now := d.PID(id); now != pid {
		t.Errorf("the program was %d and is %d", pid, now)
	}
}
