package e2e

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"berth/app"
	"berth/host/watch/metrics"
	"berth/test/harness"
)

// What programs really used, and a real kill, are what the advice and the plan rest on.
func TestRightSizeAndPlan(t *testing.T) {
	t.Parallel()
	d := launch(t, "--host-overcommit", "1.5")
	c := d.account("ana", 1000)
	run := func(width uint16, args ...string) string {
		t.Helper()
		cmd := d.Command(args...)
		cmd.Env = append(harness.CleanEnv(), "BERTH_RUNTIME_DIR="+d.Runtime(), "HOME="+t.TempDir(), "XDG_CONFIG_HOME="+t.TempDir())
		if width == 0 {
			out, err := cmd.CombinedOutput()
			if err != nil {
				t.Fatalf("berth %s: %v: %s", strings.Join(args, " "), err, out)
			}
			return string(out)
		}
		p := harness.OpenTerminal(t, cmd, width)
		ends(t, p, 0)
		for line := range strings.Lines(p.Screen()) {
			if len(strings.TrimRight(line, "\n")) > int(width) {
				t.Errorf("%d columns: %q", width, line)
			}
		}
		return p.Screen()
	}
	if out := run(0, "plan"); !strings.Contains(out, "Nothing was measured yet: after 7 days berth can say what more you can sell.") {
		t.Errorf("at first: %s", out)
	}
	held := c.Upload(harness.PythonBot("held = bytearray(60 << 20)\n"+harness.IdlePython, "RAM=200"))
	c.UntilLog(held, "up")
	hog := c.Upload(harness.PythonBot(hogPython, "RAM=64", "AUTORESTART=false"))
	c.Until(hog, "apps.ramKilled", true)
	c.Get("/app/"+hog+"/ram").Want(200, "apps.verdict", "more", "apps.ramMB", 64, "apps.fitMB", 96, "apps.ramKills", 1, "apps.killDays", 7).
		Says("message", "It ran out of its RAM once in 7 days and needed more than 64 MB: give it 96 MB.")
	c.stream("/v2/events?types=metric&app="+held, "").until(`event: app.metrics`) // it is measured while somebody watches
	d.Restart()                                                                   // which stores the minute that has begun
	c.UntilLog(held, "up")
	a := c.Get("/app/"+held+"/ram").Want(200, "apps.verdict", "unknown", "apps.ramMB", 200, "apps.fitMB", 200, "apps.days", 1, "apps.ramKills", 0)
	if m := a.Text("message"); !regexp.MustCompile(`^It was measured on one day, and peaked at [67]\d of 200 MB: berth can say which RAM fits after 7 days\.$`).MatchString(m) {
		t.Error(m)
	}
	all := c.Get("/app/all/ram").Want(200)
	if n := strings.Count(string(all.Body), `"verdict"`); n != 2 {
		t.Errorf("of all: %s", all.Body)
	}

	// The command line: of all, of one, and to set it.
	if out := run(0, "advice", "--account", "ana"); !strings.Contains(out, "VERDICT") || !regexp.MustCompile(hog+` +64 MB +96 MB +6\dM +\d +1 +more`).MatchString(out) {
		t.Errorf("of all: %s", out)
	}
	for _, width := range []uint16{80, 40} {
		t.Logf("%d columns:\n%s\n%s", width, run(width, "advice", hog, "--account", "ana"), run(width, "plan"))
	}
	if out := run(0, "advice", hog, "--apply", "--account", "ana"); !strings.Contains(out, "give it 96 MB.") {
		t.Errorf("to set it: %s", out)
	}
	c.Info(hog).Want(200, "apps.ram", 96)
	c.Get("/app/"+hog+"/ram").Want(200, "apps.fitMB", 96, "apps.ramKills", 0)

	// The plan, which only the owner of the host has.
	var plan struct {
		HostMB, CapacityMB, PromisedMB, GivenMB, RunningMB int64
		Overcommit                                         float64
		Applications, Days                                 int
		Used                                               int64
		Worst                                              struct{ Used, HadMB int64 }
		Message                                            string
	}
	if err := json.Unmarshal([]byte(run(0, "plan", "--json")), &plan); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		t.Fatal(err)
	}
	kb, err := strconv.ParseInt(harness.Field(string(text), "MemTotal:"), 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	if plan.HostMB != kb>>10 || plan.CapacityMB != (kb>>10-256)*3/2 || plan.PromisedMB != 1000 || plan.GivenMB != 296 || plan.RunningMB != 200 ||
		plan.Applications != 2 || plan.Days < 1 || plan.Used < 60<<20 || plan.Worst.Used < 60<<20 || plan.Worst.HadMB < 64 {
		t.Errorf("the plan is %+v", plan)
	}
	if !strings.Contains(plan.Message, "of the last 30 days: after 7 days berth can say what more you can sell.") {
		t.Error(plan.Message)
	}

	// Thirty days later.
	if code := d.End(syscall.SIGTERM); code != 0 {
		t.Fatalf("the daemon's exit status is %d", code)
	}
	past, err := metrics.Open(filepath.Join(d.Data, "metrics"))
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	for at := now.Add(-30 * 24 * time.Hour); at.Before(now.Add(-time.Hour)); at = at.Add(time.Hour) {
		point := app.Point{At: at, Ran: time.Minute, Memory: 70 << 20, MemoryMax: 80 << 20, Limit: 200 << 20}
		if err := past.Append(at.Add(time.Hour), []app.PointOf{{App: app.ID(held), Point: point}}); err != nil {
			t.Fatal(err)
		}
	}
	if err := past.Close(); err != nil {
		t.Fatal(err)
	}
	d.Serve()
	c.Get("/app/"+held+"/ram").Want(200, "apps.verdict", "less", "apps.fitMB", 128).Says("message", "It peaked at 80 of 200 MB in 30 days: 128 MB are enough.")
	if out := run(0, "advice", held, "--apply", "--account", "ana"); !strings.Contains(out, "128 MB are enough.") {
		t.Errorf("to set it: %s", out)
	}
	c.Get("/app/"+held+"/ram").Want(200, "apps.verdict", "right", "apps.ramMB", 128)
	out := run(80, "plan")
	t.Logf("after 30 days:\n%s", out)
	if !strings.Contains(out, "on 30 of the last 30") || !strings.Contains(out, "At the worst moment, programs used") || !strings.Contains(out, " fits") {
		t.Errorf("the plan after 30 days: %s", out)
	}
	if a := c.Get("/host/plan"); a.Code != 404 {
		t.Errorf("the plan for others: %d %s", a.Code, a.Body)
	}
}
