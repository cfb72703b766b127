//go:build guest

package e2e

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"berth/app"
	"berth/host/watch/metrics"
	"berth/test/harness"
)

// grows takes a MB of memory after the other, as many in a second as it is told, from the
// moment at which the gate is there.
const grows = `import os, time
held = []
print("up", flush=True)
while not os.path.exists("%s"): time.sleep(.2)
began = time.monotonic()
while len(held) < %d:
    while len(held) < min((time.monotonic() - began) * %g, %d): held.append(bytearray(b"x") * (1 << 20))
    time.sleep(.1)
while True: time.sleep(1000)
`

// overcommit is how often the memory of the host is sold.
const overcommit = 1.6

// TestHostShortOfMemory: a host sells its memory 1.6 times, and all programs grow at once.
// The kernel ends those that are furthest above their usual use, in that order, and not the
// largest; berth answers throughout, and nothing that is not a program is killed. The test
// is alone in its guest.
func TestHostShortOfMemory(t *testing.T) {
	guest(t)
	const growing, large, uses, perSecond = 8, 440, 360, 2.0
	sold := int(float64(memoryOf(t)-256) * overcommit) // host.reserve
	each := (sold - large) / growing
	d := prepare(t, "--host-overcommit", fmt.Sprint(overcommit))
	d.Serve()
	c := d.account("ana", sold)
	gate := filepath.Join(d.Gates, "grow")
	steady := c.Upload(harness.PythonBot(fmt.Sprintf("held = bytearray(b'x') * (%d << 20)\n", uses)+harness.IdlePython, fmt.Sprintf("RAM=%d", large)))
	var chosen []string // the order of kills: what is usually smallest is furthest above it
	most := each * 9 / 10
	for range growing {
		chosen = append(chosen, c.Upload(harness.PythonBot(fmt.Sprintf(grows, gate, most, perSecond, most), fmt.Sprintf("RAM=%d", each))))
	}
	if code := d.End(syscall.SIGTERM); code != 0 {
		t.Fatalf("the daemon ended with %d", code)
	}
	usual := map[string]int{steady: uses}
	for i, id := range chosen {
		usual[id] = 25 + 15*i
	}
	remember(t, d.Data, usual)
	d.Serve()
	harness.Eventually(t, "all run again", func() bool {
		return !slices.ContainsFunc(append([]string{steady}, chosen...), func(id string) bool { return len(d.Of(id)) != 1 })
	})
	before := d.PID(steady)
	harness.Eventually(t, "berth has chosen the order", func() bool { return slices.Equal(d.ranks(append([]string{steady}, chosen...)), chosen) })

	began := time.Now()
	harness.Write(t, gate, "")
	slowest := d.answersUntil(c, steady, func() bool { return len(d.killed()) >= 3 })
	told := d.killed()
	kernel := d.killedByKernel(t)
	t.Logf("the kernel's order: %v, berth's: %v", kernel, chosen)
	t.Logf("in %s the kernel ended %d programs; the slowest answer took %s", time.Since(began).Round(time.Second), len(kernel), slowest.Round(time.Millisecond))
	if len(kernel) < len(told) || !slices.Equal(told, chosen[:len(told)]) || !slices.Equal(kernel, chosen[:len(kernel)]) {
		t.Errorf("berth chose  %v\nthe kernel ended %v\nberth saw    %v", chosen, kernel, told)
	}
	out := d.Out.String()
	named := regexp.MustCompile(`msg="this host is short of memory: builds and starts wait".* grew=(\S+) .* order="\[([^]]*)\]"`).FindStringSubmatch(out)
	if named == nil || named[1] != chosen[0] || !strings.HasPrefix(named[2], strings.Join(chosen[:3], " ")) {
		t.Errorf("it named %q, want %v", named, chosen)
	}
	if first, killed := strings.Index(out, "this host is short of memory"), strings.Index(out, `msg="program ended" app=`+chosen[0]); first < 0 || killed < first {
		t.Errorf("it was named at %d, and killed at %d", first, killed)
	}
	for _, id := range told {
		c.Info(id).Want(200, "apps.online", false, "apps.ramKilled", false, "apps.exitCode", 137)
		c.UntilLog(id, fmt.Sprintf("killed: this host ran short of memory; the program's own limit of %d MB was not the reason", each))
	}
	if now := d.PID(steady); now != before || d.Ended() {
		t.Errorf("the large program was %d and is %d, the daemon has ended: %t", before, now, d.Ended())
	}
}

// memoryOf is the guest's memory in MB.
func memoryOf(t *testing.T) int {
	t.Helper()
	text, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		t.Fatal(err)
	}
	kb, err := strconv.Atoi(strings.Fields(harness.Field(string(text), "MemTotal:"))[0])
	if err != nil {
		t.Fatal(err)
	}
	return kb >> 10
}

// remember gives applications a history: what they used in MB, for hours.
func remember(t *testing.T, data string, usual map[string]int) {
	t.Helper()
	store, err := metrics.Open(filepath.Join(data, "metrics"))
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	for ago := 5 * time.Hour; ago > 10*time.Minute; ago -= 10 * time.Minute {
		var points []app.PointOf
		for id, mb := range usual {
			points = append(points, app.PointOf{App: app.ID(id), Point: app.Point{
				At: now.Add(-ago), Step: time.Minute, Ran: time.Minute, Memory: float64(mb << 20), MemoryMax: float64(mb << 20), Limit: float64(mb << 21),
			}})
		}
		if err := store.Append(now.Add(-ago), points); err != nil {
			t.Fatal(err)
		}
	}
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
}

// ranks are those of the applications that stand before the first, which is the last to
// be killed, in the order of kills.
func (d *daemon) ranks(ids []string) []string {
	scores := map[string]int{}
	for _, id := range ids {
		for _, p := range d.Of(id) {
			text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/oom_score_adj", p.PID))
			scores[id], _ = strconv.Atoi(strings.TrimSpace(string(text)))
		}
	}
	before := slices.DeleteFunc(slices.Clone(ids), func(id string) bool { return scores[id] <= scores[ids[0]] || scores[id] == 0 })
	slices.SortFunc(before, func(a, b string) int { return scores[b] - scores[a] })
	return before
}

// answersUntil asks the daemon all the time, and returns how long the slowest answer took.
func (d *daemon) answersUntil(c *client, id string, ok func() bool) (slowest time.Duration) {
	d.T.Helper()
	deadline := time.Now().Add(5 * time.Minute)
	for !ok() {
		asked := time.Now()
		if asked.After(deadline) {
			d.T.Fatalf("the kernel ended %v in five minutes: %s", d.killed(), harness.Tail(harness.BesidesRequests(d.Out.String()), 4000))
		}
		a, err := c.Try(c.Request(http.MethodGet, "/v2/app/"+id+"/status", nil))
		if slowest = max(slowest, time.Since(asked)); err != nil || a.Code != 200 {
			d.T.Errorf("after %s it answered %d, %v", time.Since(asked), a.Code, err)
		}
		time.Sleep(100 * time.Millisecond)
	}
	return slowest
}

// killed are the applications whose program berth has seen end, in that order.
func (d *daemon) killed() (ids []string) {
	for _, found := range regexp.MustCompile(`msg="program ended" app=(\S+) .*code=137`).FindAllStringSubmatch(d.Out.String(), -1) {
		ids = append(ids, found[1])
	}
	return ids
}

// killedByKernel are the applications that the kernel has killed something of for the
// host's lack of memory; what is none is a failure.
func (d *daemon) killedByKernel(t *testing.T) (ids []string) {
	t.Helper()
	out, err := exec.Command("dmesg").Output()
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(out)) {
		if !strings.Contains(line, "oom-kill:") {
			continue
		}
		found := regexp.MustCompile(`constraint=CONSTRAINT_NONE,.*,global_oom,task_memcg=\S*/apps/([^/,]+)/\d+,task=`).FindStringSubmatch(line)
		if found == nil {
			t.Errorf("the kernel killed what is no program, or for another reason: %s", line)
			continue
		}
		ids = append(ids, found[1])
	}
	return ids
}
