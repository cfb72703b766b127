package faults

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"berth/test/harness"
)

// fills prints lines that fill a FIFO within a second when nobody reads it.
const fills = `import sys, time
n = 0
while True:
    n += 1
    print("line", n, "." * 200, flush=True)
    time.sleep(0.001)
`

// numbersIn are the lines of fills in a log, in order.
func numbersIn(t *testing.T, log string) (all []int) {
	t.Helper()
	for text := range strings.Lines(log) {
		if fields := strings.Fields(text); len(fields) == 4 && fields[1] == "line" && strings.HasSuffix(text, "\n") {
			n, err := strconv.Atoi(fields[2])
			if err != nil {
				t.Fatalf("the log has %q", text)
			}
			all = append(all, n)
		}
	}
	return all
}

// goesOn waits until far more is in a log than a FIFO holds, and looks whether it
// is without a gap.
func goesOn(t *testing.T, c *harness.Client, id string) {
	t.Helper()
	first, more := 0, 1000
	harness.Eventually(t, "what the program prints is in the log", func() bool {
		all := numbersIn(t, c.Log(id))
		if len(all) == 0 {
			return false
		}
		if last := all[len(all)-1]; first == 0 || last < first { // at first, and after a restart
			first = last
		}
		for i := range all[1:] {
			if all[i+1] != all[i]+1 && all[i+1] != 1 { // but for a restart
				t.Fatalf("line %d follows %d", all[i+1], all[i])
			}
		}
		return all[len(all)-1] >= first+more
	})
}

// TestFaultsOutputWithoutAName: somebody empties the directory of the logs. What
// programs print is in their logs all the same, whatever becomes of the daemon,
// and of the process that holds it.
func TestFaultsOutputWithoutAName(t *testing.T) {
	t.Parallel()
	d := harness.Upgradable(t)
	d.Serve()
	c := d.NewAccount("ana", 400)
	id := c.Upload(harness.PythonBot(fills, "RAM=40"))
	pid := d.PID(id)
	empty := func() {
		t.Helper()
		// A line that is written meanwhile makes a file anew.
		harness.Eventually(t, "the directory is gone", func() bool { return os.RemoveAll(filepath.Join(d.Data, "logs", id)) == nil })
	}
	for _, tt := range []struct {
		name string
		next func()
	}{
		{"nothing else", func() {}},
		{"an upgrade", d.Upgrade},
		{"another upgrade", d.Upgrade},
		{"a crash", func() {
			d.End(syscall.SIGKILL)
			d.Serve()
		}},
		{"a crash with a FIFO in its place", func() {
			if err := os.MkdirAll(filepath.Join(d.Data, "logs", id), 0o700); err != nil {
				t.Fatal(err)
			}
			if err := syscall.Mkfifo(filepath.Join(d.Data, "logs", id, "run.fifo"), 0o600); err != nil {
				t.Fatal(err)
			}
			d.End(syscall.SIGKILL)
			d.Serve()
		}},
		{"a crash without a holder", func() {
			d.End(syscall.SIGKILL)
			harness.Kill(t, d.Keeper())
			d.Serve()
		}},
	} {
		t.Log(tt.name)
		empty()
		tt.next()
		goesOn(t, c, id)
		if now := d.PID(id); now != pid {
			t.Fatalf("%s: the program was %d and is %d", tt.name, pid, now)
		}
	}
	if said := d.Out.String(); !strings.Contains(said, "somebody removed the file that an application prints to") || !strings.Contains(said, "nobody held what an application prints to") {
		t.Errorf("the daemon said %s", harness.BesidesRequests(said))
	}
	c.Put("/app/"+id+"/restart", "").Want(200)
	goesOn(t, c, id)
}
