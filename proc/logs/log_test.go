package logs

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"
)

// clock is a time that passes when told to.
type clock struct {
	mu sync.Mutex
	t  time.Time
}

func newClock() *clock { return &clock{t: time.Date(2026, 1, 2, 3, 4, 5, 678e6, time.UTC)} }

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.t
}

func (c *clock) pass(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.t = c.t.Add(d)
}

// open opens a log in a directory of the test's and closes it afterwards.
func open(t testing.TB, dir string, o Options) *Log {
	t.Helper()
	l, err := Open(dir, "run", o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l
}

// feed does to l what the pump does with p.
func feed(l *Log, p string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	in := append(slices.Clone(l.lines.carry), p...)
	l.lines.carry = l.lines.carry[:0]
	l.arrived(in)
}

// whole returns the text that Reader gives.
func whole(t testing.TB, l *Log) string {
	t.Helper()
	r, err := l.Reader()
	if err != nil {
		t.Fatal(err)
	}
	p, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	return string(p)
}

var stamped = regexp.MustCompile(`^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z `)

// bare checks that every line is whole and stamped and returns the texts.
func bare(t testing.TB, text string) []string {
	t.Helper()
	if text == "" {
		return nil
	}
	if !strings.HasSuffix(text, "\n") {
		t.Fatalf("the text ends within a line: %q", text[max(0, len(text)-100):])
	}
	list := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	for i, line := range list {
		if !stamped.MatchString(line) {
			t.Fatalf("line %d has no stamp: %q", i, line)
		}
		list[i] = line[len(stampLayout):]
	}
	return list
}

func wantLines(t *testing.T, got []string, want ...string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("lines:\n got %q\nwant %q", got, want)
	}
}

// eventually polls until ok or a deadline.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(60 * time.Second); !ok(); runtime.Gosched() {
		if time.Now().After(end) {
			t.Fatalf("waited in vain: %s", what)
		}
	}
}

func TestStampIsTheTimeOfArrival(t *testing.T) {
	c := newClock()
	l := open(t, t.TempDir(), Options{Now: c.now})
	feed(l, "one\ntw")
	c.pass(1500 * time.Millisecond)
	feed(l, "o\n\nthree\n")
	want := "2026-01-02T03:04:05.678Z one\n" +
		"2026-01-02T03:04:05.678Z two\n" +
		"2026-01-02T03:04:07.178Z \n" +
		"2026-01-02T03:04:07.178Z three\n"
	if got := whole(t, l); got != want {
		t.Errorf("got %q\nwant %q", got, want)
	}
	if got := l.Tail(1 << 20); got != want {
		t.Errorf("tail %q\nwant %q", got, want)
	}
}

func TestStampIsUTC(t *testing.T) {
	zone := time.FixedZone("", -3*3600)
	l := open(t, t.TempDir(), Options{Now: func() time.Time { return time.Date(2026, 1, 1, 22, 0, 0, 0, zone) }})
	feed(l, "x\n")
	if got, want := whole(t, l), "2026-01-02T01:00:00.000Z x\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestNoteKeepsItsPlace(t *testing.T) {
	l := open(t, t.TempDir(), Options{})
	feed(l, "first\nhalf \xe2\x82")
	l.Note("stopped\nby its owner \xff")
	feed(l, "\xac rest\n")
	wantLines(t, bare(t, whole(t, l)),
		"first", "half …", "[berth] stopped by its owner \uFFFD", "€ rest")
}

func TestLongNoteIsCut(t *testing.T) {
	l := open(t, t.TempDir(), Options{MaxLine: 64, Burst: 1, Rate: 1})
	l.Note(strings.Repeat("x", 100))
	wantLines(t, bare(t, whole(t, l)), "[berth] "+strings.Repeat("x", 56)+"…", strings.Repeat("x", 44))
}

func TestDrainEndsTheLastLine(t *testing.T) {
	l := open(t, t.TempDir(), Options{})
	feed(l, "no end \xf0\x9f")
	if got := whole(t, l); got != "" {
		t.Errorf("a line appeared before it ended: %q", got)
	}
	l.Drain()
	wantLines(t, bare(t, whole(t, l)), "no end \uFFFD\uFFFD")
	l.Drain() // nothing more to end
	wantLines(t, bare(t, whole(t, l)), "no end \uFFFD\uFFFD")
}

func TestReopenContinues(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "b")
	l := open(t, dir, Options{})
	feed(l, "before\n")
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	l = open(t, dir, Options{})
	wantLines(t, bare(t, l.Tail(1000)), "before")
	feed(l, "after\n")
	wantLines(t, bare(t, whole(t, l)), "before", "after")
	for path, want := range map[string]os.FileMode{dir: 0o700, filepath.Join(dir, "run.log"): 0o600} {
		st, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		if st.Mode().Perm() != want {
			t.Errorf("%s has mode %v, want %v", path, st.Mode().Perm(), want)
		}
	}
}

func TestReopenAfterACrash(t *testing.T) {
	dir := t.TempDir()
	torn := "2026-01-02T03:04:05.678Z whole\n2026-01-02T03:04:05.678Z torn\xe2\x82"
	if err := os.WriteFile(filepath.Join(dir, "run.log"), []byte(torn), 0o600); err != nil {
		t.Fatal(err)
	}
	l := open(t, dir, Options{})
	feed(l, "next\n")
	wantLines(t, bare(t, whole(t, l)), "whole", "torn\xe2\x82", "next")
	wantLines(t, bare(t, l.Tail(1000)), "whole", "torn?", "next")
}

func TestOpenRefusesStrangeNames(t *testing.T) {
	for _, name := range []string{"", ".", "..", "a/b", "/a", "../a"} {
		if l, err := Open(t.TempDir(), name, Options{}); err == nil {
			_ = l.Close()
			t.Errorf("%q was accepted", name)
		}
	}
}

func TestOpenRefusesALink(t *testing.T) {
	dir, other := t.TempDir(), filepath.Join(t.TempDir(), "other")
	if err := os.Symlink(other, filepath.Join(dir, "run.log")); err != nil {
		t.Fatal(err)
	}
	if l, err := Open(dir, "run", Options{}); err == nil {
		_ = l.Close()
		t.Error("a link was followed")
	}
}

func TestResetForgetsEverything(t *testing.T) {
	dir := t.TempDir()
	l := open(t, dir, Options{MaxFile: 200})
	for i := range 20 {
		feed(l, fmt.Sprintf("old %d\n", i))
	}
	feed(l, "half\xe2")
	before, err := l.Reader()
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Reset(); err != nil {
		t.Fatal(err)
	}
	if got := whole(t, l) + l.Tail(1000); got != "" {
		t.Errorf("left after Reset: %q", got)
	}
	feed(l, "new\n")
	l.Drain()
	wantLines(t, bare(t, whole(t, l)), "new")
	wantLines(t, bare(t, l.Tail(1000)), "new")

	old, err := io.ReadAll(before)
	if err != nil {
		t.Fatal(err)
	}
	if got := bare(t, string(old)); len(got) == 0 || got[len(got)-1] != "old 19" {
		t.Errorf("Reset changed a text under way: %q", got)
	}
	if err := before.Close(); err != nil {
		t.Error(err)
	}
}

func TestClosedLogStillReads(t *testing.T) {
	l := open(t, t.TempDir(), Options{})
	feed(l, "last words")
	for range 2 {
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
	}
	l.Note("too late")
	l.Drain()
	if err := l.Reset(); err == nil {
		t.Error("Reset after Close succeeded")
	}
	if f, err := l.Pipe(-1, -1); err == nil {
		_ = f.Close()
		t.Error("Pipe after Close succeeded")
	}
	wantLines(t, bare(t, whole(t, l)), "last words")
	wantLines(t, bare(t, l.Tail(1000)), "last words")
}

func TestConcurrentUse(t *testing.T) {
	l := open(t, t.TempDir(), Options{MaxFile: 2000})
	var wg sync.WaitGroup
	for i := range 4 {
		wg.Go(func() {
			for n := range 200 {
				feed(l, fmt.Sprintf("%d %d\n", i, n))
				l.Note("hello")
				if s := l.Tail(500); !utf8.ValidString(s) {
					t.Error("the tail is not valid UTF-8")
				}
				if n%50 == 0 {
					bare(t, whole(t, l))
					l.Drain()
				}
			}
		})
	}
	wg.Wait()
	bare(t, whole(t, l))
}

// When the host's clock is set back, a line says so where the stamps go back;
// when it is set forward, or back by a little, none does.
func TestClockSetBack(t *testing.T) {
	clk := newClock()
	l := open(t, t.TempDir(), Options{Now: clk.now})
	for _, by := range []time.Duration{0, 5 * time.Hour, -time.Second / 2, -10 * time.Hour, time.Hour} {
		clk.pass(by)
		feed(l, fmt.Sprintf("after %v\n", by))
	}
	wantLines(t, bare(t, whole(t, l)), "after 0s", "after 5h0m0s", "after -500ms", "[berth] the host's clock was set back by 10h0m0s", "after -10h0m0s", "after 1h0m0s")
	feed(l, "begun ")
	clk.pass(-time.Hour)
	feed(l, "and ended\n")
	if got := bare(t, whole(t, l)); len(got) != 9 || !strings.Contains(got[7], "set back by 1h0m0s") || !strings.HasSuffix(got[8], "and ended") {
		t.Errorf("a line that had begun: %q", got[6:])
	}
}
