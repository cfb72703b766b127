package logs

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// taker takes numbered lines of two runs from where they were, until it is killed or its parent is dead.
func taker() {
	l, err := Open(os.Getenv("BERTH_TEST_DIR"), "run", Options{Rate: -1, MaxFile: 64 << 10, Keep: 500})
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Println("open")
	for os.Getppid() != 1 {
		for _, run := range []string{"a.1", "a.2"} {
			next := 1
			if place := l.Taken(run); place != "" {
				next, _ = strconv.Atoi(place)
				next++
			}
			var lines []Line
			for range 1 + rand.IntN(50) {
				lines = append(lines, Line{time.Now(), fmt.Appendf(nil, "%s %d", run, next)})
				next++
			}
			if err := l.Take(run, lines, strconv.Itoa(next-1)); err != nil {
				fmt.Println(err)
				os.Exit(1)
			}
		}
	}
	os.Exit(0)
}

// Whenever a daemon is killed, the next one goes on with the line behind the last one that is in the log.
func TestTakenOverKills(t *testing.T) {
	dir := t.TempDir()
	for range 60 {
		cmd := exec.CommandContext(t.Context(), os.Args[0])
		cmd.Env = append(os.Environ(), "BERTH_TEST_ROLE=taker", "BERTH_TEST_DIR="+dir)
		out, err := cmd.StdoutPipe()
		if err == nil {
			err = cmd.Start()
		}
		if err != nil {
			t.Fatal(err)
		}
		said := make([]byte, 5)
		if _, err := out.Read(said); err != nil || string(said) != "open\n" {
			t.Fatalf("it says %q, %v", said, err)
		}
		time.Sleep(time.Duration(rand.IntN(3000)) * time.Microsecond) // the moment of the kill, which is the test
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // it was killed
	}
	l := open(t, dir, Options{Rate: -1, MaxFile: 64 << 10, Keep: 500})
	last := map[string]int{}
	for line := range strings.Lines(whole(t, l)) {
		fields := strings.Fields(line) // stamp, run, number
		n, err := strconv.Atoi(fields[len(fields)-1])
		if len(fields) != 3 || err != nil || n != last[fields[1]]+1 {
			t.Fatalf("after %v comes %q", last, line)
		}
		last[fields[1]] = n
	}
	for _, run := range []string{"a.1", "a.2"} {
		if place := l.Taken(run); place != strconv.Itoa(last[run]) || last[run] < 1000 {
			t.Errorf("%s was taken up to %q, and the log has %d lines", run, place, last[run])
		}
	}
}

func takes(t *testing.T, l *Log, run string, at time.Time, place string, texts ...string) {
	t.Helper()
	var lines []Line
	for _, text := range texts {
		lines = append(lines, Line{at, []byte(text)})
	}
	if err := l.Take(run, lines, place); err != nil {
		t.Fatal(err)
	}
}

// A daemon that is killed between what it notes and what it writes left one of three states.
func TestTakenAfterEachStep(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	o := Options{Now: func() time.Time { return now }}
	for name, c := range map[string]struct {
		cut        int64 // bytes of the second batch that were not written
		place, log string
	}{
		"nothing of it was written": {1 << 20, "first", "one\n"},
		"a part of it was written":  {3, "first", "one\n"},
		"all of it was written":     {0, "second", "one\ntwo\nthree\n"},
	} {
		dir := t.TempDir()
		l := open(t, dir, o)
		takes(t, l, "a.1", now, "first", "one")
		before := size0(t, dir)
		takes(t, l, "a.1", now, "second", "two", "three")
		after := size0(t, dir)
		// Not closed: a daemon that is killed closes nothing.
		if err := os.Truncate(filepath.Join(dir, "run.log"), max(before, after-c.cut)); err != nil {
			t.Fatal(err)
		}
		for range 2 { // also when the next one is killed at once
			next := open(t, dir, o)
			if got := next.Taken("a.1"); got != c.place {
				t.Errorf("%s: the place is %q, want %q", name, got, c.place)
			}
			if got := unstamped(whole(t, next)); got != c.log {
				t.Errorf("%s: the log is %q, want %q", name, got, c.log)
			}
		}
	}
}

func size0(t *testing.T, dir string) int64 {
	t.Helper()
	st, err := os.Stat(filepath.Join(dir, "run.log"))
	if err != nil {
		t.Fatal(err)
	}
	return st.Size()
}

func unstamped(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		_, rest, _ := strings.Cut(line, " ")
		b.WriteString(rest)
	}
	return b.String()
}

// Lines have the times of their machine, in order, and none is of tomorrow; only berth's own begin like berth's own.
func TestTakenLines(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 0, 0, 0, time.UTC)
	l := open(t, t.TempDir(), Options{Now: func() time.Time { return now }})
	hour := now.Add(-time.Hour)
	takes(t, l, "a.1", hour, "1", "early", "[berth] false\x07", "")
	takes(t, l, "a.1", hour.Add(-time.Minute), "2", "a clock that is late")
	takes(t, l, "a.1", now.Add(time.Hour), "3", "a clock that is early")
	l.Note("berth says")
	want := "2026-01-02T02:00:00.000Z early\n2026-01-02T02:00:00.000Z \\[berth] false\uFFFD\n2026-01-02T02:00:00.000Z \n" +
		"2026-01-02T02:00:00.000Z a clock that is late\n2026-01-02T03:00:00.000Z a clock that is early\n2026-01-02T03:00:00.000Z [berth] berth says\n"
	if got := whole(t, l); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
	for run, place := range map[string]string{"": "1", "../a": "1", "A": "1", "a.1": "a\nb", "a.2": strings.Repeat("a", 201)} {
		if err := l.Take(run, []Line{{now, nil}}, place); err == nil || !strings.Contains(err.Error(), "bad name or place") {
			t.Errorf("%q, %q: %v", run, place, err)
		}
	}
	if err := l.Forget("a.1"); err != nil || l.Taken("a.1") != "" {
		t.Error(err, l.Taken("a.1"))
	}
	if left, _ := filepath.Glob(l.files.base + fromWord + "*"); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
	_ = l.Close()
	if err := l.Take("a.1", []Line{{now, nil}}, "1"); err == nil {
		t.Error("a closed log took lines")
	}
}

// What a program printed within its rate while nobody read is kept; what it printed beyond it is counted.
func TestTakenRate(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 0, 0, 0, time.UTC)
	for name, c := range map[string]struct {
		every time.Duration
		flood bool
	}{"an hour's worth": {time.Second, false}, "a flood": {time.Microsecond, true}} {
		l := open(t, t.TempDir(), Options{Now: func() time.Time { return now }, Rate: 100, Burst: 1000, MaxLine: 64, MaxFile: 10 << 20})
		const n = 3000
		for i := range n {
			takes(t, l, "a.1", now.Add(-time.Hour).Add(time.Duration(i)*c.every), strconv.Itoa(i), "forty bytes, forty bytes, forty bytes")
		}
		now = now.Add(2 * time.Second) // and nothing more comes
		text := whole(t, l)
		if got := strings.Count(text, "forty"); (got < 3*n) != c.flood || c.flood && !strings.Contains(text, "dropped: the program prints more than") {
			t.Errorf("%s: %d lines of %d are there", name, got/3, n)
		}
	}
}

// After a power cut nobody knows what is in the log: it is repeated, after a line that says so.
func TestTakenAfterPowerCut(t *testing.T) {
	dir := t.TempDir()
	l := open(t, dir, Options{})
	takes(t, l, "a.1", time.Now(), "first", "one")
	takes(t, l, "a.1", time.Now(), "second", "two")
	if err := os.Remove(filepath.Join(dir, "run.pos")); err != nil { // which holds for one boot
		t.Fatal(err)
	}
	next := open(t, dir, Options{})
	if got := next.Taken("a.1"); got != "first" {
		t.Errorf("it goes on at %q", got)
	}
	if text := whole(t, next); !strings.Contains(text, "what follows may be a repeat") {
		t.Errorf("the log: %s", text)
	}
}
