//go:build guest

package e2e

import (
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"berth/test/harness"
)

// sets sets the machine's clock that much forward, or back.
func sets(t *testing.T, by time.Duration) {
	t.Helper()
	now := time.Now().Add(by).Unix()
	if out, err := exec.Command("date", "-s", "@"+strconv.FormatInt(now, 10)).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
}

// TestGuestClockJumps: somebody sets the clock hours forward and back under a
// daemon with a watchdog. No program is restarted, none that waits is started
// early or late, who may ask may ask, and the log says where its stamps go back.
// It is everybody's clock: the test runs alone (test/vm/suite).
func TestGuestClockJumps(t *testing.T) {
	s := serve(t, []string{"WatchdogSec=20s"}, "--rate-limit", "600")
	s.systemctl("start", s.unit)
	main := s.main()
	c := s.account("ana", 600)
	counter := c.Upload(harness.PythonBot(countingPython, "RAM=40"))
	c.UntilLog(counter, "alive 3\n")
	crashes := c.Upload(harness.ShellBot("test -e well && exec sleep 100000; echo began; exit 7", "RAM=32", "AUTORESTART=true"))
	harness.Eventually(t, "it waits for longer", func() bool { return strings.Contains(c.Info(crashes).Text("message"), "(attempt 4)") })
	pid, since := s.PID(counter), c.Get("/app/"+counter+"/status").Text("apps.startedAt")
	same := func(after string) {
		t.Helper()
		c.Info(counter).Want(200, "apps.online", true, "apps.ramKilled", false)
		if now := s.PID(counter); now != pid {
			t.Errorf("after %s the program is %d, was %d", after, now, pid)
		}
		if now := c.Get("/app/"+counter+"/status").Want(200, "apps.container", "Online").Text("apps.startedAt"); now != since {
			t.Errorf("after %s it runs since %s, was since %s", after, now, since)
		}
		if len(c.Download(c.Get("/app/"+counter+"/logs").Text("apps.terminal.url"))) == 0 {
			t.Errorf("after %s a new link opens nothing", after)
		}
		if log := c.Log(counter); len(log) == 0 {
			t.Error("the log is empty")
		}
		s.is("ActiveState=active", "NRestarts=0", "MainPID="+strconv.Itoa(main))
	}
	began := time.Now() // by the clock that nobody sets
	attempts := func() int { return strings.Count(c.Log(crashes), "began\n") }
	before := attempts()
	defer func() { sets(t, 5*time.Hour) }() // what is left of the two jumps
	sets(t, 5*time.Hour)
	same("five hours forward")
	sets(t, -10*time.Hour)
	same("ten hours back")
	if n := attempts(); time.Since(began) < 10*time.Second && n > before+1 {
		t.Errorf("%d starts in %v of a program that waits for its fourth", n-before, time.Since(began))
	}
	harness.Eventually(t, "it is tried once more", func() bool { return attempts() > before })
	if log := c.UntilLog(counter, "the host's clock was set back by "); !strings.Contains(log, "set back by 10h0m") && !strings.Contains(log, "set back by 9h59m") {
		t.Errorf("the log says %s", harness.Tail(log, 500))
	}

	c.whole(counter, 20)
	harness.Eventually(t, "the watchdog's time is over", func() bool { return time.Since(began) > 25*time.Second })
	s.is("ActiveState=active", "NRestarts=0", "MainPID="+strconv.Itoa(main))
	c.Put("/app/"+counter+"/stop", "").Want(200)
	if ran := s.journal(); !strings.Contains(ran, `msg="program ended" app=`+counter) || strings.Contains(ran, "ran=-") {
		t.Errorf("the journal tells of a negative time: %s", harness.Tail(harness.BesidesRequests(ran), 2000))
	}
	c.DeleteAll()
	s.systemctl("stop", s.unit)
	s.nothingLeft()
}
