package logs

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// printed returns lines that were all stamped at a time.
func printed(at time.Time, texts ...string) (lines []Line) {
	for _, text := range texts {
		lines = append(lines, Line{at, []byte(text)})
	}
	return lines
}

// take takes lines, which must succeed.
func take(t testing.TB, l *Log, run, place string, lines ...Line) {
	t.Helper()
	if err := l.Take(run, lines, place); err != nil {
		t.Fatal(err)
	}
}

func wantPlace(t testing.TB, l *Log, run, want string) {
	t.Helper()
	if got := l.Taken(run); got != want {
		t.Errorf("the place of %s is %q, want %q", run, got, want)
	}
}

// stamps returns when the lines of a log were printed, after some time.
func stamps(t testing.TB, text string, since time.Time) (all []time.Duration) {
	t.Helper()
	for line := range strings.Lines(text) {
		at, ok := stampOf([]byte(line))
		if !ok {
			t.Fatalf("no stamp: %q", line)
		}
		all = append(all, at.Sub(since))
	}
	return all
}

// Lines keep their stamps and are read at once by all who read a log.
func TestTake(t *testing.T) {
	dir, c := t.TempDir(), newClock()
	l := open(t, dir, Options{Now: c.now})
	at := c.now()
	c.pass(time.Hour)
	f := l.Follow(0)
	defer f.Close()
	wantPlace(t, l, "1", "")
	take(t, l, "1", "a", Line{at, []byte("one")}, Line{at.Add(1500 * time.Millisecond), []byte("two")})
	take(t, l, "2", "b \"<\u2028\x00>", Line{at.Add(time.Minute), nil})
	take(t, l, "1", "c")
	want := "2026-01-02T03:04:05.678Z one\n2026-01-02T03:04:07.178Z two\n2026-01-02T03:05:05.678Z \n"
	if got := []string{whole(t, l), l.Tail(1000), f.Take()}; !slices.Equal(got, []string{want, want, want}) {
		t.Errorf("got %q\nwant each %q", got, want)
	}
	for range 2 {
		wantPlace(t, l, "1", "c")
		wantPlace(t, l, "2", "b \"<\u2028\x00>")
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		wantPlace(t, l, "1", "c")
		if err := l.Take("1", nil, "d"); !errors.Is(err, os.ErrClosed) {
			t.Errorf("Take after Close: %v", err)
		}
		l = open(t, dir, Options{Now: c.now})
	}
	wantPlace(t, l, "1", "c")
	wantLines(t, bare(t, whole(t, l)), "one", "two", "")
}

// Several machines have several clocks, and the host has another: the log is in order.
func TestTakenStampsAreInOrder(t *testing.T) {
	dir, c := t.TempDir(), newClock()
	o := Options{Now: c.now}
	l, zero := open(t, dir, o), c.now()
	at := func(d time.Duration) Line { return Line{zero.Add(d), []byte(d.String())} }
	c.pass(time.Minute) // it is now 60 s
	take(t, l, "1", "", at(10*time.Second), at(5*time.Second), at(11*time.Second), Line{})
	take(t, l, "2", "", at(-time.Hour), at(12*time.Second), at(100*time.Hour))
	l.Note("of the host")
	take(t, l, "1", "", at(20*time.Second))
	c.pass(time.Second)
	take(t, l, "1", "", at(60500*time.Millisecond))
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	l = open(t, dir, o)
	take(t, l, "1", "", at(30*time.Second), at(61*time.Second))
	c.pass(-10 * time.Second) // the host's clock was set back: that is said, as ever
	take(t, l, "1", "", at(50*time.Second), at(52*time.Second))
	want := []time.Duration{10e9, 10e9, 11e9, 11e9, 11e9, 12e9, 60e9, 60e9, 60e9, 60.5e9, 60.5e9, 61e9, 51e9, 51e9, 51e9}
	if got := stamps(t, whole(t, l), zero); !slices.Equal(got, want) {
		t.Errorf("the stamps are\n%v, want\n%v", got, want)
	}
	got := bare(t, whole(t, l))
	if !strings.Contains(got[12], "the host's clock was set back by 10s") || strings.Count(strings.Join(got, "\n"), "set back") != 1 {
		t.Errorf("the log has %q", got)
	}
}

// What a program prints elsewhere is cleaned like what it prints here, and each line ends.
func TestTakenTextIsCleaned(t *testing.T) {
	l := open(t, t.TempDir(), Options{MaxLine: 64})
	x := strings.Repeat("x", 64)
	take(t, l, "1", "", printed(time.Now(), "[berth] forged", "\x1b[m[berth] forged", "a\x00b\r",
		"half \xe2\x82", "\xac", "two\nlines\n", x+"y", "€ \x1b[31mred")...)
	wantLines(t, bare(t, whole(t, l)),
		`\[berth] forged`, "\\\x1b[m[berth] forged", "a\uFFFDb",
		"half \uFFFD\uFFFD", "\uFFFD", "two", "lines", "", x+"…", "y", "€ \x1b[31mred")
}

// A line that a program here has begun is broken there, and its half of a rune stays its own.
func TestTakeBreaksALineOfTheFIFO(t *testing.T) {
	c := newClock()
	l := open(t, t.TempDir(), Options{Now: c.now})
	feed(l, "first\nhalf \xe2\x82")
	c.pass(time.Second)
	take(t, l, "1", "a", printed(c.now(), "elsewhere \xe2", "too")...)
	feed(l, "\xac rest\n")
	l.Drain()
	wantLines(t, bare(t, whole(t, l)), "first", "half …", "elsewhere \uFFFD", "too", "€ rest")
	if got := stamps(t, whole(t, l), c.now()); !slices.Equal(got, []time.Duration{-1e9, -1e9, 0, 0, 0}) {
		t.Errorf("the stamps are %v", got)
	}
}

// takeFlood takes so many lines of 100 bytes, stamps included, in batches of 20; between two of
// them the host's clock goes on as far as that of the program, times some factor.
func takeFlood(t *testing.T, l *Log, c *clock, from time.Time, lines int, each time.Duration, factor float64) {
	t.Helper()
	text := []byte(strings.Repeat("x", 100-len(stampLayout)-1))
	var batch []Line
	for i := range lines {
		batch = append(batch, Line{from.Add(time.Duration(i) * each), text})
		if len(batch) == 20 {
			take(t, l, "1", fmt.Sprint(i), batch...)
			batch = batch[:0]
			c.pass(time.Duration(20 * float64(each) * factor))
		}
	}
}

// ofTen lets through ten lines of takeFlood a second, and 40 more at once.
func ofTen(c *clock) Options {
	return Options{Now: c.now, Rate: 1000, Burst: 4000, MaxLine: 100, MaxFile: 1 << 30}
}

// It is the program that is judged, not how its lines arrive.
func TestGateGoesByTheStamps(t *testing.T) {
	for _, tt := range []struct {
		name        string
		lag         time.Duration
		lines       int
		each        time.Duration
		factor      float64
		least, most int
	}{
		{"an hour at once, within the rate", time.Hour, 30_000, 120 * time.Millisecond, 0, 30_000, 30_000},
		{"an hour that was too much", time.Hour, 30_000, 20 * time.Millisecond, 0, 5_800, 6_040},
		{"too much, as it is printed", 0, 2_000, 10 * time.Millisecond, 1, 210, 240},
		{"as it is printed", time.Second, 2_000, 100 * time.Millisecond, 1, 2_000, 2_000},
		{"too much in one moment", 0, 1_000, 0, 0, 40, 40},
		{"too much, ahead of the host", -time.Hour, 2_000, 10 * time.Millisecond, 1, 210, 240},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := newClock()
			l := open(t, t.TempDir(), ofTen(c))
			takeFlood(t, l, c, c.now().Add(-tt.lag), tt.lines, tt.each, tt.factor)
			l.Drain()
			kept, dropped, _ := tally(t, bare(t, whole(t, l)))
			if len(kept)+dropped != tt.lines {
				t.Errorf("%d kept + %d dropped != %d", len(kept), dropped, tt.lines)
			}
			if len(kept) < tt.least || len(kept) > tt.most {
				t.Errorf("%d kept, want %d to %d", len(kept), tt.least, tt.most)
			}
		})
	}
}

// A clock that stands still, or is behind another of the same run, does not silence a program
// that prints no more than the host's clock allows.
func TestGateGoesByTheHostToo(t *testing.T) {
	c := newClock()
	l := open(t, t.TempDir(), ofTen(c))
	old := c.now().Add(-time.Hour)
	take(t, l, "1", "", printed(c.now(), "of a machine whose clock is right")...)
	for range 50 {
		takeFlood(t, l, c, old, 20, 0, 0)
		c.pass(2 * time.Second)
	}
	l.Drain()
	if kept, dropped, _ := tally(t, bare(t, whole(t, l))); len(kept) != 1001 || dropped != 0 {
		t.Errorf("%d kept, %d dropped", len(kept), dropped)
	}
	// An absence in between: what was printed meanwhile passes, wherever the clock of another was.
	from := c.now()
	take(t, l, "1", "", printed(from.Add(100*time.Hour), "of a machine whose clock is ahead")...)
	c.pass(time.Hour)
	takeFlood(t, l, c, from, 5_000, 120*time.Millisecond, 0)
	l.Drain()
	if kept, dropped, _ := tally(t, bare(t, whole(t, l))); len(kept) != 6002 || dropped != 0 {
		t.Errorf("after an absence %d kept, %d dropped", len(kept), dropped)
	}
}

// Lines of two machines that alternate are not two seconds apart each time.
func TestGateIsNotFooledByTwoClocks(t *testing.T) {
	c := newClock()
	l := open(t, t.TempDir(), ofTen(c))
	for i := range 500 {
		takeFlood(t, l, c, c.now().Add(-time.Duration(i%2+1)*2*time.Second), 20, 0, 0)
	}
	l.Drain()
	if kept, dropped, _ := tally(t, bare(t, whole(t, l))); len(kept) > 40+20 || len(kept)+dropped != 10_000 {
		t.Errorf("%d kept, %d dropped", len(kept), dropped)
	}
}

// What is refused by a full disk is not taken, and comes again as if it had not come before.
func TestTakeOnAFullDisk(t *testing.T) {
	dir, c := t.TempDir(), newClock()
	o := Options{Now: c.now, Rate: 1, Burst: 200, MaxLine: 64}
	l := open(t, dir, o)
	zero := c.now()
	take(t, l, "1", "a", printed(zero, "one")...)
	c.pass(10 * time.Second)
	batch := []Line{{zero.Add(1e9), []byte("two")}, {zero.Add(2e9), []byte("three")}, {zero.Add(3e9), []byte("four")}}
	refused := func(room int, sticky bool) {
		t.Helper()
		l.files.cur = &narrow{File: l.files.cur.(*os.File), room: room, sticky: sticky}
		if err := l.Take("1", batch, "b"); !errors.Is(err, syscall.ENOSPC) {
			t.Fatalf("Take() = %v", err)
		}
		wantPlace(t, l, "1", "a")
		wantLines(t, bare(t, whole(t, l)), "one")
		wantLines(t, bare(t, l.Tail(100)), "one")
	}
	for i, room := range []int{0, 10, 28, 40, 60, 0, 10, 60} { // into the second, third and last line
		refused(room, i > 4)
	}
	l.Note("meanwhile")
	abandonTaken(l) // and is killed
	l = open(t, dir, o)
	wantPlace(t, l, "1", "a")
	if err := l.Reset(); err != nil {
		t.Fatal(err)
	}
	l.lines.last = time.Time{} // as if nobody had said anything
	take(t, l, "1", "a", printed(zero, "one")...)
	for range 4 {
		refused(60, false)
	}
	take(t, l, "1", "b", batch...)
	wantLines(t, bare(t, whole(t, l)), "one", "two", "three", "four")
	if got := stamps(t, whole(t, l), zero); !slices.Equal(got, []time.Duration{0, 1e9, 2e9, 3e9}) {
		t.Errorf("the stamps are %v", got)
	}
	if tokens := int(l.gate.tokens); tokens != 200-29-29-31-30+3 {
		t.Errorf("%d tokens are left", tokens)
	}

	// While what was lost cannot be admitted nothing is taken.
	l.files.cur = &narrow{File: l.files.cur.(*os.File)}
	l.Note("lost")
	if err := l.Take("1", printed(c.now(), "five"), "c"); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("Take() = %v", err)
	}
	l.files.cur = l.files.cur.(*narrow).File
	c.pass(2 * retryAfter)
	take(t, l, "1", "c", printed(c.now(), "five")...)
	wantLines(t, bare(t, whole(t, l))[4:], "[berth] 1 line lost: cannot write the log: no space left on device", "five")
	wantPlace(t, l, "1", "c")
	if err := l.Close(); err != nil {
		t.Error(err)
	}
}

// A disk that refuses to take back a batch, or to note that it has, costs lines, which are
// counted: none of them comes again.
func TestTakeOnABrokenDisk(t *testing.T) {
	for name, tt := range map[string]struct {
		spoil func(t *testing.T, l *Log) (mend func())
		want  []string
	}{
		"taken back": {func(t *testing.T, l *Log) func() {
			base := l.files.base
			l.files.base = filepath.Join(t.TempDir(), "none", "none", "run") // nothing can be opened by its name
			return func() { l.files.base = base }
		}, []string{"one", "two", "[berth] 1 line lost: cannot write the log: no space left on device", "four"}},
		"noted": {func(t *testing.T, l *Log) func() {
			record := l.files.recordOf("1")
			if err := errors.Join(os.Remove(record), os.Mkdir(record, 0o700)); err != nil {
				t.Fatal(err)
			}
			return func() { os.Remove(record) }
		}, []string{"one", "[berth] 2 lines lost: cannot write the log: no space left on device", "four"}},
	} {
		t.Run(name, func(t *testing.T) {
			dir, c := t.TempDir(), newClock()
			l := open(t, dir, Options{Now: c.now})
			take(t, l, "1", "a", printed(c.now(), "one")...)
			l.files.cur = &narrow{File: l.files.cur.(*os.File), room: 40}
			mend := tt.spoil(t, l)
			l.mu.Lock()
			b := l.begin(c.now())
			l.stampAll(l.sources["1"], printed(c.now(), "two", "three"))
			text := l.lines.out[:l.lines.start]
			r := taken{End: l.files.end(), Wrote: int64(len(text)), After: reached{Place: "b"}}
			rest, why := l.files.write(text)
			if l.takeBack("1", r, text, rest, why) {
				t.Error("it was taken back")
			}
			l.lines.out, l.lines.start = l.lines.out[:0], 0
			l.finish(b)
			l.mu.Unlock()
			mend()
			c.pass(2 * retryAfter)
			take(t, l, "1", "c", printed(c.now(), "four")...)
			wantLines(t, bare(t, whole(t, l)), tt.want...)
			wantPlace(t, l, "1", "c")
		})
	}
}

// What a build log had is forgotten, but not how far it was read.
func TestResetKeepsThePlace(t *testing.T) {
	dir, c := t.TempDir(), newClock()
	o := Options{Now: c.now, Rate: 50, Burst: 1, MaxLine: 64}
	l := open(t, dir, o)
	x := strings.Repeat("x", 64)
	take(t, l, "1", "a", printed(c.now(), "one", x, x, x)...) // the last are dropped
	if err := l.Reset(); err != nil {
		t.Fatal(err)
	}
	wantPlace(t, l, "1", "a")
	abandonTaken(l)
	l = open(t, dir, o)
	wantPlace(t, l, "1", "a")
	take(t, l, "1", "b", printed(c.now(), "two")...)
	abandonTaken(l)
	l = open(t, dir, o)
	wantPlace(t, l, "1", "b")
	wantLines(t, bare(t, whole(t, l)), "two")
}

// Only a word names a run, for it is part of a file's name; only a short text is a place.
func TestTakeRefuses(t *testing.T) {
	dir := t.TempDir()
	l := open(t, dir, Options{})
	for _, run := range []string{"", ".", "..", "a/b", "../a", "a.b", "a b", "a\n", "a\x00", "é", strings.Repeat("a", 64)} {
		if err := l.Take(run, printed(time.Now(), "x"), "a"); err == nil {
			t.Errorf("%q was accepted", run)
		}
		if err := l.Forget(run); err == nil {
			t.Errorf("%q was forgotten", run)
		}
		wantPlace(t, l, run, "")
	}
	for _, place := range []string{strings.Repeat("a", maxPlace+1), "\xff"} {
		if err := l.Take("1", printed(time.Now(), "x"), place); err == nil {
			t.Errorf("%q was accepted", place)
		}
	}
	if list, _ := filepath.Glob(filepath.Join(dir, "*"+takenInfix+"*")); len(list) != 0 || whole(t, l) != "" {
		t.Errorf("there are %q", list)
	}
	take(t, l, strings.Repeat("a", 63), strings.Repeat("\x01", maxPlace), printed(time.Now(), "x")...)
	st, err := os.Stat(filepath.Join(dir, "run.from-"+strings.Repeat("a", 63)))
	if err != nil || st.Size() != takenSize || st.Mode() != 0o600 {
		t.Errorf("the record is %v, %v", st, err)
	}
}

// A link is not followed, whoever has made it.
func TestTakeFollowsNoLink(t *testing.T) {
	dir, other := t.TempDir(), filepath.Join(t.TempDir(), "other")
	if err := errors.Join(os.WriteFile(other, []byte("{}"), 0o600), os.Symlink(other, filepath.Join(dir, "run.from-1"))); err != nil {
		t.Fatal(err)
	}
	l := open(t, dir, Options{})
	if err := l.Take("1", printed(time.Now(), "x"), "a"); err == nil {
		t.Error("a link was followed")
	}
	if text, err := os.ReadFile(other); err != nil || string(text) != "{}" || whole(t, l) != "" {
		t.Errorf("it leads to %q, %v; the log is %q", text, err, whole(t, l))
	}
}

// The book says of a program elsewhere that it ran, also when its runs are forgotten, and
// removes what there is of it.
func TestBookOfTakenLines(t *testing.T) {
	dir := t.TempDir()
	b := NewBook(dir, Options{}, slog.New(slog.DiscardHandler))
	b.Note("shop", "hello")
	build, err := b.Output("shop", true)
	if err != nil {
		t.Fatal(err)
	}
	take(t, build, "1", "a", printed(time.Now(), "built")...)
	if b.Ran("shop") {
		t.Error("a note and a build are no program that ran")
	}
	l, err := b.Output("shop", false)
	if err != nil {
		t.Fatal(err)
	}
	take(t, l, "1", "")
	for range 2 {
		if !b.Ran("shop") {
			t.Error("it did not run")
		}
		if err := l.Forget("1"); err != nil {
			t.Fatal(err)
		}
		wantPlace(t, l, "1", "")
	}
	if _, err := os.Lstat(filepath.Join(dir, "shop", "run.from-1")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the record is left: %v", err)
	}
	if err := b.Remove("shop"); err != nil || b.Ran("shop") {
		t.Errorf("Remove() = %v; it ran: %t", err, b.Ran("shop"))
	}
	if err := l.Take("1", printed(time.Now(), "x"), "a"); !errors.Is(err, os.ErrClosed) {
		t.Errorf("Take of a removed log: %v", err)
	}
	if list, err := os.ReadDir(dir); err != nil || len(list) > 0 {
		t.Errorf("left: %v, %v", list, err)
	}
}
