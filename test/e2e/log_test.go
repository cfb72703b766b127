package e2e

import (
	"regexp"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"berth/test/harness"
)

var (
	reStamp   = regexp.MustCompile(`^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z `)
	reDropped = regexp.MustCompile(`^\[berth\] (\d+) lines? \(.*\) dropped: the program prints more than `)
)

// entries are the lines of a log without their stamps, which every line has.
func entries(t *testing.T, log string) []string {
	t.Helper()
	if !utf8.ValidString(log) || strings.ContainsRune(log, 0) {
		t.Error("the log holds what is no text")
	}
	var list []string
	last := ""
	for line := range strings.Lines(log) {
		stamp := reStamp.FindString(line)
		if stamp == "" || stamp < last {
			t.Fatalf("%q has the stamp %q after %q", line, stamp, last)
		}
		last = stamp
		list = append(list, strings.TrimSuffix(line[len(stamp):], "\n"))
	}
	return list
}

// TestFlood: of 200,000 lines printed at once each is kept or counted.
func TestFlood(t *testing.T) {
	t.Parallel()
	c := launch(t, "--logs-max-file", "50", "--logs-rate", "64").account("ana", 100)
	const lines = 200_000
	id := c.Upload(harness.PythonBot("import sys\nfor i in range(" + strconv.Itoa(lines) + "): sys.stdout.write('line %d\\n' % i)\n"))
	c.Until(id, "apps.online", false)
	kept, dropped, next := 0, 0, 0
	for _, line := range entries(t, c.Log(id)) {
		if m := reDropped.FindStringSubmatch(line); m != nil {
			n, _ := strconv.Atoi(m[1]) // the expression allows digits alone
			dropped += n
			next += n
			continue
		}
		number, is := strings.CutPrefix(line, "line ")
		if !is {
			continue
		}
		if n, err := strconv.Atoi(number); err != nil || n != next {
			t.Fatalf("%q follows where line %d should", line, next)
		}
		kept++
		next++
	}
	if kept+dropped != lines || kept == 0 || dropped == 0 {
		t.Errorf("%d kept and %d dropped, want %d together and some of each", kept, dropped, lines)
	}
	if a := c.Get("/app/" + id + "/logs").Want(200); len(a.Text("apps.terminal.big")) > 64<<10 || len(a.Text("apps.terminal.small")) > 1800 {
		t.Error("big or small is too large")
	}
}

// TestOddOutput prints what is no line and no text.
func TestOddOutput(t *testing.T) {
	t.Parallel()
	c := launch(t).account("ana", 200)
	id := c.Upload(harness.PythonBot(`import os, signal
os.write(1, b"a" * (1 << 20))
os.write(1, b"\nbad \xff\xfe utf8\nnul \x00 here\n\xe2\x82")
os.write(2, b"\xac euro\n")
for i in range(50):
    os.write(1 + i % 2, b"turn %d\n" % i)
os.write(1, b"no end")
signal.pause()
`))
	c.UntilLog(id, "turn 49")
	c.Put("/app/"+id+"/stop", "").Want(200)
	list := entries(t, c.Log(id))
	long, turns, rest := 0, 0, []string{}
	for _, line := range list {
		switch as := strings.TrimSuffix(line, "…"); {
		case strings.Trim(as, "a") == "":
			long += len(as)
		case line == "turn "+strconv.Itoa(turns):
			turns++
		default:
			rest = append(rest, line)
		}
	}
	want := []string{"bad \uFFFD\uFFFD utf8", "nul \uFFFD here", "€ euro", "no end", "[berth] stopped"}
	if got := strings.Join(rest, "|"); long != 1<<20 || turns != 50 || got != strings.Join(want, "|") {
		t.Errorf("%d of the long line, %d turns in order, and %q", long, turns, got)
	}
}

// TestLogRotation keeps the newest and stays small.
func TestLogRotation(t *testing.T) {
	t.Parallel()
	d := launch(t, "--logs-max-file", "1", "--logs-keep", "1", "--logs-rate", "100000")
	c := d.account("ana", 100)
	id := c.Upload(harness.PythonBot("for i in range(60000): print('%06d' % i, 'x' * 80)\nprint('last')\n"))
	c.Until(id, "apps.online", false)
	log := c.Log(id)
	if size := len(log); size > 5<<19 || size < 1<<20 || !strings.Contains(log, "Z last\n") || strings.Contains(log, " 000000 ") {
		t.Errorf("the log has %d bytes and begins with %.60q", size, log)
	}
	entries(t, log)
}
