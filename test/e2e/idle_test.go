package e2e

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
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

// used is the processor time of the daemon, in steps of 10 ms.
func (d *daemon) used() time.Duration {
	d.T.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", d.Cmd.Process.Pid))
	if err != nil {
		d.T.Fatal(err)
	}
	fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
	user, err := strconv.Atoi(fields[11])
	system, err2 := strconv.Atoi(fields[12])
	if err != nil || err2 != nil {
		d.T.Fatal(err, err2)
	}
	return time.Duration(user+system) * 10 * time.Millisecond
}

// TestFollowersOfQuietProgramsCostLittle: a hundred who follow the logs of programs that
// print nothing seldom wake the daemon. Its processor time would depend on what else the
// machine does, so wake-ups are counted: the signs of life of a stream cost about 20 each.
// Who looked ten times a second for new lines would cost 300.
func TestFollowersOfQuietProgramsCostLittle(t *testing.T) {
	t.Parallel()
	d := launch(t)
	ctx, cancel := context.WithCancel(context.Background())
	web := &http.Client{Transport: &http.Transport{}}
	t.Cleanup(web.CloseIdleConnections)
	t.Cleanup(cancel)
	for n := range 4 { // 25 streams of each account, which may have 32
		c := d.account(fmt.Sprint("person", n), 200)
		id := c.Upload(harness.ShellBot(harness.IdleShell, "RAM=32"))
		c.Until(id, "apps.online", true)
		for range 25 {
			resp, err := web.Do(c.Request(http.MethodGet, "/v2/events?types=log&tail=10&app="+id, nil).WithContext(ctx))
			if err != nil || resp.StatusCode != http.StatusOK {
				t.Fatal(resp, err)
			}
			go func() {
				defer func() { _ = resp.Body.Close() }()
				_, _ = io.Copy(io.Discard, resp.Body) // until it is cancelled
			}()
		}
	}
	const calm, window = 5 * time.Second, 30 * time.Second
	time.Sleep(calm) // what opening them costs
	before, wakeUps := d.used(), d.wakeUps()
	time.Sleep(window)
	used, woken := d.used()-before, d.wakeUps()-wakeUps
	t.Logf("100 followers cost %v of processor time and %d wake-ups in %v", used, woken, window)
	if woken > 100*100 {
		t.Errorf("100 followers woke the daemon %d times in %v", woken, window)
	}
}
