package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"testing"
	"time"

	"berth/test/harness"
)

var voluntary = regexp.MustCompile(`(?m)^voluntary_ctxt_switches:\s+(\d+)$`)

// wakeUps is how often the daemon's threads have gone to sleep.
func (d *daemon) wakeUps() int {
	d.T.Helper()
	files, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/status", d.Cmd.Process.Pid))
	if err != nil {
		d.T.Fatal(err)
	}
	sum := 0
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			continue // the thread has ended
		}
		if m := voluntary.FindSubmatch(text); m != nil {
			n, _ := strconv.Atoi(string(m[1])) // digits
			sum += n
		}
	}
	return sum
}

// TestIdleDaemonSleeps watches a daemon whose programs do nothing: it does
// nothing either, for longer than ten seconds at a time. Once a minute it measures
// them, which is between two such times.
func TestIdleDaemonSleeps(t *testing.T) {
	t.Parallel()
	d := launch(t)
	c := d.account("ana", 2000)
	for range 10 {
		c.Until(c.Upload(harness.ShellBot(harness.IdleShell)), "apps.online", true)
	}
	const window = 11 * time.Second
	began, last := time.Now(), d.wakeUps()
	for deadline := began.Add(5 * time.Minute); time.Since(began) < window; time.Sleep(harness.Pause) {
		if now := d.wakeUps(); now != last {
			began, last = time.Now(), now
		}
		if began.After(deadline) {
			t.Fatalf("the daemon never sleeps for %v", window)
		}
	}
}
