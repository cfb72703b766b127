package logs

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"berth/app"
)

// abandonTaken leaves everything as the kernel does with a process that is killed.
func abandonTaken(l *Log) {
	l.mu.Lock()
	abandon(l)
}

// killTaking takes lines until that many bytes are in the file; then nothing more is done. It
// reports whether it came to that.
func killTaking(t *testing.T, l *Log, bytes int, run, place string, lines ...Line) (died bool) {
	t.Helper()
	func() {
		defer func() {
			if r := recover(); r != nil {
				if _, ok := r.(killed); !ok {
					panic(r)
				}
				died = true
			}
		}()
		l.files.cur = &deadly{l.files.cur.(*os.File), bytes}
		take(t, l, run, place, lines...)
	}()
	abandonTaken(l)
	return died
}

// The daemon is killed after each byte of a batch, and after it: the next one knows what is in
// the log, and so does the one after that, whatever was written in between. It is so with and
// without a program that prints here too, and when the batch begins a new file.
func TestKilledAfterEachByteOfABatch(t *testing.T) {
	for _, tt := range []struct {
		name  string
		max   int64
		fifo  bool
		least int // bytes that are written at once
	}{{"alone", 1 << 20, false, 80}, {"beside a program", 1 << 20, true, 80}, {"rotating", 130, false, 60}, {"both", 130, true, 30}} {
		t.Run(tt.name, func(t *testing.T) {
			for n := 0; killInABatch(t, Options{MaxFile: tt.max, Keep: 9}, tt.fifo, n); n++ {
				if t.Failed() {
					t.Fatalf("killed after %d bytes", n)
				}
				if n > 1000 {
					t.Fatal("it never lives")
				}
				tt.least--
			}
			if tt.least > 0 {
				t.Errorf("%d bytes less were written than there should be", tt.least)
			}
		})
	}
}

func killInABatch(t *testing.T, o Options, fifo bool, n int) (died bool) {
	t.Helper()
	dir, c := t.TempDir(), newClock()
	o.Now = c.now
	l := open(t, dir, o)
	want := []string{"1 one", "2 one", "1 two", "1 three", "1 four"}
	if fifo {
		f, err := l.Pipe(-1, -1)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if _, err := f.WriteString("begun"); err != nil {
			t.Fatal(err)
		}
		want = append([]string{"begun…"}, want...)
	}
	take(t, l, "1", "a", printed(c.now(), "1 one")...)
	take(t, l, "2", "x", printed(c.now(), "2 one")...)
	heard := cursor(t, l, app.LineStart{All: true})
	text := everything(heard)
	batch := printed(c.now(), "1 two", "1 three", "1 four")
	died = killTaking(t, l, n, "1", "b", batch...)
	if !died {
		text += everything(heard)
	}
	whatIsIn := func() string { return strings.Join(bare(t, whole(t, l)), "\n") }
	l = open(t, dir, o)
	wantPlace(t, l, "2", "x")
	place := l.Taken("1")
	if in := strings.Contains(whatIsIn(), "1 four"); in != (place == "b") || !in && (place != "a" || strings.Contains(whatIsIn(), "1 t")) {
		t.Errorf("the place is %q, the log has %q", place, whatIsIn())
	}
	if !died && place != "b" {
		t.Error("the batch is not known")
	}
	for range 2 { // killed again, with and without a word in between
		abandonTaken(l)
		l = open(t, dir, o)
		wantPlace(t, l, "1", place)
		l.Note("between")
	}
	if place == "a" {
		take(t, l, "1", "b", batch...)
	}
	l.Drain()
	got := slices.DeleteFunc(bare(t, whole(t, l)), func(line string) bool { return line == "[berth] between" })
	wantLines(t, got, want...)
	text += everything(cursor(t, l, app.LineStart{Pos: heard.Position()}))
	if has := whole(t, l); text != has {
		t.Errorf("a follower got %q, the log has %q", text, has)
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	return died
}

// The batch had begun a new file when the daemon was killed: it is taken back in both.
func TestKilledAfterARotationInABatch(t *testing.T) {
	const first, rest = "2026-01-02T03:04:05.678Z two\n", "2026-01-02T03:04:05.678Z three\n"
	for written := range len(rest) + 1 {
		dir, c := t.TempDir(), newClock()
		o := Options{Now: c.now, MaxFile: 60, Keep: 5}
		l := open(t, dir, o)
		take(t, l, "1", "a", printed(c.now(), "one")...)
		if !killTaking(t, l, len(first), "1", "b", printed(c.now(), "two", "three")...) {
			t.Fatal("it lives")
		}
		dead := l.files
		var err error
		if dead.cur, err = os.OpenFile(dead.path(0), os.O_RDWR, 0); err == nil {
			dead.size += int64(len(first))
			err = dead.rotate()
		}
		if err == nil {
			_, err = dead.cur.Write([]byte(rest[:written]))
			err = errors.Join(err, dead.cur.Close())
		}
		if err != nil {
			t.Fatal(err)
		}
		want := "a"
		if written == len(rest) {
			want = "b"
		}
		for range 2 { // the first is killed when it has mended the files
			l = open(t, dir, o)
			wantPlace(t, l, "1", want)
			abandonTaken(l)
		}
		l = open(t, dir, o)
		if want == "a" {
			take(t, l, "1", "b", printed(c.now(), "two", "three")...)
		}
		wantLines(t, bare(t, whole(t, l)), "one", "two", "three")
		if t.Failed() {
			t.Fatalf("with %d bytes of the rest", written)
		}
	}
}

// A batch whose beginning a rotation has removed cannot be taken back: it is repeated, after
// a line that says so.
func TestKilledInABatchLargerThanTheLog(t *testing.T) {
	dir, c := t.TempDir(), newClock()
	o := Options{Now: c.now, MaxFile: 60, Keep: 1}
	l := open(t, dir, o)
	batch := printed(c.now(), numbers(0, 20)...)
	take(t, l, "1", "a", batch...)
	if err := os.Truncate(l.files.path(0), l.files.size-3); err != nil {
		t.Fatal(err)
	}
	abandonTaken(l)
	for range 2 {
		l = open(t, dir, o)
		wantPlace(t, l, "1", "")
		l.Note("x")
		abandonTaken(l)
	}
	l = open(t, dir, Options{Now: c.now})
	take(t, l, "1", "a", batch...)
	got := bare(t, whole(t, l))
	wantLines(t, got[len(got)-21:], append([]string{"[berth] " + mayRepeat}, numbers(0, 20)...)...)
}

// What cannot be known is told, once and at the right place, however often the daemon is
// killed before, and the place is one of before.
func TestDoubtAboutTakenLines(t *testing.T) {
	for name, tt := range map[string]struct {
		spoil func(base string) error
		place string
	}{
		"a power cut": {func(string) error {
			was := boot()
			boot = func() (id [16]byte) { was[0]++; return was }
			id := boot()
			boot = func() [16]byte { return id }
			return nil
		}, "a"},
		"no positions":      {func(base string) error { return os.Remove(base + ".pos") }, "a"},
		"another log":       {func(base string) error { return errors.Join(os.Link(base+".log", base+".old"), os.Remove(base+".log")) }, "a"},
		"a record of zeros": {func(base string) error { return os.WriteFile(base+".from-1", make([]byte, takenSize), 0o600) }, ""},
		"an empty record":   {func(base string) error { return errors.Join(os.Remove(base+".pos"), os.Truncate(base+".from-1", 0)) }, ""},
		"a shorter log":     {func(base string) error { return os.Truncate(base+".log", 0) }, "a"},
	} {
		t.Run(name, func(t *testing.T) {
			defer func(was func() [16]byte) { boot = was }(boot)
			dir, c := t.TempDir(), newClock()
			o := Options{Now: c.now}
			l := open(t, dir, o)
			take(t, l, "1", "a", printed(c.now(), "one")...)
			take(t, l, "1", "b", printed(c.now(), "two")...)
			abandonTaken(l)
			if err := tt.spoil(l.files.base); err != nil {
				t.Fatal(err)
			}
			reopened := func() {
				t.Helper()
				l = open(t, dir, o)
				wantPlace(t, l, "1", tt.place)
			}
			reopened()
			l.Note("x")
			abandonTaken(l)
			reopened()
			if err := l.Close(); err != nil { // also an orderly end does not make it known
				t.Error(err)
			}
			reopened()
			killTaking(t, l, 30, "1", "b", printed(c.now(), "two")...)
			reopened()
			take(t, l, "1", "b", printed(c.now(), "two")...)
			take(t, l, "1", "c", printed(c.now(), "three")...)
			got := bare(t, whole(t, l))
			wantLines(t, got[len(got)-3:], "[berth] "+mayRepeat, "two", "three")
			if strings.Count(strings.Join(got, "\n"), mayRepeat) != 1 {
				t.Errorf("it is said more than once: %q", got)
			}
			abandonTaken(l)
			l = open(t, dir, o)
			wantPlace(t, l, "1", "c")
		})
	}
}

// A text with many ends of lines is one batch as well.
func TestKilledInALargeBatch(t *testing.T) {
	dir := t.TempDir()
	l := open(t, dir, Options{})
	if !killTaking(t, l, 2*batchSize, "1", "a", Line{time.Now(), []byte(strings.Repeat("x\n", batchSize/8))}) {
		t.Fatal("it lives")
	}
	l = open(t, dir, Options{})
	wantPlace(t, l, "1", "")
	if text := whole(t, l); text != "" {
		t.Errorf("the log has %d bytes", len(text))
	}
}

// A power cut may bring back a record that is older than the log, although that was closed.
func TestOldRecordAfterAPowerCut(t *testing.T) {
	defer func(was func() [16]byte) { boot = was }(boot)
	dir := t.TempDir()
	l := open(t, dir, Options{})
	take(t, l, "1", "a", printed(time.Now(), "one")...)
	take(t, l, "1", "b", printed(time.Now(), "two")...)
	record, err := os.ReadFile(l.files.recordOf("1"))
	take(t, l, "1", "c", printed(time.Now(), "three")...)
	if err := errors.Join(err, l.Close(), os.WriteFile(l.files.recordOf("1"), record, 0o600)); err != nil {
		t.Fatal(err)
	}
	boot = func() [16]byte { return [16]byte{1} }
	l = open(t, dir, Options{})
	wantPlace(t, l, "1", "a")
	take(t, l, "1", "b", printed(time.Now(), "two")...)
	wantLines(t, bare(t, whole(t, l)), "one", "two", "three", "[berth] "+mayRepeat, "two")
}

// After an orderly end another run of the kernel knows all, and after a kill before the very
// first batch nothing is in doubt.
func TestNoDoubtAboutTakenLines(t *testing.T) {
	defer func(was func() [16]byte) { boot = was }(boot)
	dir, c := t.TempDir(), newClock()
	o := Options{Now: c.now}
	l := open(t, dir, o)
	take(t, l, "1", "a", printed(c.now(), "one")...)
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	boot = func() [16]byte { return [16]byte{1} }
	if err := os.WriteFile(filepath.Join(dir, "run.from-2"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	l = open(t, dir, o)
	wantPlace(t, l, "1", "a")
	wantPlace(t, l, "2", "")
	take(t, l, "1", "b", printed(c.now(), "two")...)
	take(t, l, "2", "x", printed(c.now(), "2 one")...)
	wantLines(t, bare(t, whole(t, l)), "one", "two", "2 one")
}

// Lines that were dropped are counted by the next daemon, once.
func TestDroppedCountOutlivesAKill(t *testing.T) {
	x := strings.Repeat("x", 64)
	const marker = "[berth] 3 lines (270 B) dropped: the program prints more than 50 B/s"
	for _, admitted := range []bool{false, true} {
		dir, c := t.TempDir(), newClock()
		o := Options{Now: c.now, Rate: 50, Burst: 1, MaxLine: 64}
		l := open(t, dir, o)
		take(t, l, "1", "a", printed(c.now(), "one", x)...)
		take(t, l, "2", "b", printed(c.now(), x, x)...) // all of it is dropped
		for range 2 {
			abandonTaken(l)
			l = open(t, dir, o)
			wantPlace(t, l, "2", "b")
		}
		c.pass(time.Hour)
		want := []string{"one", marker, "two"}
		if admitted {
			l.Note("x")
			abandonTaken(l)
			l = open(t, dir, o)
			want = []string{"one", marker, "[berth] x", "two"}
		}
		take(t, l, "1", "c", printed(c.now(), "two")...)
		wantLines(t, bare(t, whole(t, l)), want...)
	}
	for n := range 30 { // killed while it admits them
		dir, c := t.TempDir(), newClock()
		o := Options{Now: c.now, Rate: 50, Burst: 1, MaxLine: 64}
		l := open(t, dir, o)
		take(t, l, "1", "a", printed(c.now(), "one", x, x, x)...)
		c.pass(time.Hour)
		if !killTaking(t, l, n, "1", "b", printed(c.now(), "two")...) {
			t.Fatal("it lives")
		}
		l = open(t, dir, o)
		wantPlace(t, l, "1", "a")
		take(t, l, "1", "b", printed(c.now(), "two")...)
		wantLines(t, bare(t, whole(t, l)), "one", marker, "two")
	}
	dir, c := t.TempDir(), newClock()
	l := open(t, dir, Options{Now: c.now, Rate: 50, Burst: 1, MaxLine: 64})
	take(t, l, "1", "a", printed(c.now(), "one", x, x, x)...)
	if err := l.Forget("1"); err != nil {
		t.Fatal(err)
	}
	abandonTaken(l)
	wantLines(t, bare(t, whole(t, open(t, dir, Options{}))), "one", marker)
}

// takers are logs to be killed over, of lines that were printed elsewhere.
var takers = map[string]struct {
	kills int
	runs  int
	o     Options
	fifo  bool // a program prints here too
}{
	"one":      {60, 1, Options{Rate: -1, MaxFile: 64 << 20}, false},
	"two":      {60, 2, Options{Rate: -1, MaxFile: 64 << 20}, false},
	"rotating": {60, 2, Options{Rate: -1, MaxFile: 64 << 10, Keep: 300}, false},
	"dropping": {40, 1, Options{Rate: 20 << 10, Burst: 30 << 10, MaxFile: 64 << 20}, false},
	"numbers":  {60, 2, Options{Rate: -1, MaxFile: 64 << 20}, true}, // also a case of victims, for the program
}

// taker takes numbered lines of every run until it is killed or its parent is dead, each run
// from where the daemon before has come.
func taker() {
	v := takers[os.Getenv("BERTH_TEST_CASE")]
	l, err := Open(os.Getenv("BERTH_TEST_DIR"), "run", v.o)
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Println("open")
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(0)
	}()
	var all sync.WaitGroup
	for run := range v.runs {
		all.Go(func() {
			if err := takeOn(l, strconv.Itoa(run), -1); err != nil {
				fmt.Println(err)
				os.Exit(1)
			}
		})
	}
	all.Wait()
}

// takeOn takes what follows of a run, up to so many lines in all unless that is negative, or
// for ever. The clock of each run is another one.
func takeOn(l *Log, run string, until int) error {
	next, _ := strconv.Atoi(l.Taken(run)) // "" is 0
	random := rand.New(rand.NewPCG(uint64(os.Getpid()), uint64(next)))
	for until < 0 || next < until {
		var lines []Line
		n := random.IntN(300)
		if until >= 0 {
			n = min(n+1, until-next)
		}
		for range n {
			skew := time.Duration(random.IntN(2000)-1500) * time.Millisecond
			lines = append(lines, Line{time.Now().Add(skew), []byte(run + " " + sequence(next))})
			next++
		}
		if err := l.Take(run, lines, strconv.Itoa(next)); err != nil {
			return err
		}
		if n > 290 && until < 0 {
			l.Note("a word of berth's own")
		}
	}
	return nil
}

// Whenever a daemon is killed, what it takes from elsewhere is in the log once and in order,
// of each run, also beside what a program prints here.
func TestKilledTakerLosesNothing(t *testing.T) {
	for name, v := range takers {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			finish := func() int { return 0 }
			if v.fifo {
				finish = startChatter(t, name, dir, v.o)
			}
			kills := v.kills
			if testing.Short() {
				kills /= 10
			}
			random := rand.New(rand.NewPCG(uint64(time.Now().UnixNano()), 2))
			for range kills {
				killAtRandom(t, "taker", name, dir, random, &listener{})
			}
			l := open(t, dir, v.o)
			taken := map[string]int{}
			for run := range v.runs {
				run := strconv.Itoa(run)
				next, _ := strconv.Atoi(l.Taken(run))
				taken[run] = next + 10
				if err := takeOn(l, run, next+10); err != nil {
					t.Fatal(err)
				}
			}
			count := finish()
			l.Drain()
			checkRuns(t, whole(t, l), taken, count)
			if err := l.Close(); err != nil {
				t.Error(err)
			}
			t.Logf("%d kills over %v and %d lines", kills, taken, count)
		})
	}
}

// checkRuns checks every run's lines, and those of a program here, each as checkAll does.
func checkRuns(t *testing.T, text string, taken map[string]int, here int) {
	t.Helper()
	of := map[string]*strings.Builder{}
	for line := range strings.Lines(text) {
		body := line[len(stampLayout):]
		run, _, _ := strings.Cut(body, " ")
		switch {
		case body == "[berth] a word of berth's own\n":
			continue
		case strings.HasPrefix(body, notePrefix): // of what was dropped, where there is one run
			run = "0"
		case taken[run] == 0:
			run = "here"
		}
		if of[run] == nil {
			of[run] = &strings.Builder{}
		}
		of[run].WriteString(line)
	}
	if !slices.IsSorted(stamps(t, text, time.Time{})) {
		t.Error("the stamps are not in order")
	}
	for run, n := range taken {
		checkAll(t, of[run].String(), n, func(i int) string { return run + " " + sequence(i) })
	}
	if here > 0 {
		checkAll(t, of["here"].String(), here, sequence)
	} else if of["here"] != nil {
		t.Errorf("nobody printed %.100q", of["here"])
	}
}
