package logs

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"berth/app"
)

// cursor opens a cursor that the test closes.
func cursor(t testing.TB, l *Log, from app.LineStart) *Cursor {
	t.Helper()
	c, err := l.Cursor(from)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// everything takes all that there is now.
func everything(c *Cursor) string {
	var b strings.Builder
	for {
		text := c.Take()
		if text == "" {
			return b.String()
		}
		b.WriteString(text)
	}
}

// Over rotations and restarts a follower, however slow, gets each line once.
func TestCursorLosesNothing(t *testing.T) {
	dir := t.TempDir()
	o := Options{MaxFile: 2000, Keep: 50, Rate: -1}
	random := rand.New(rand.NewPCG(1, 2))
	l := open(t, dir, o)
	c := cursor(t, l, app.LineStart{})
	var got strings.Builder
	next := 0
	for range 60 {
		n := random.IntN(40)
		for range n {
			feed(l, fmt.Sprintf("line %d\n", next))
			next++
		}
		switch random.IntN(4) {
		case 0:
			got.WriteString(c.Take())
		case 1:
			got.WriteString(everything(c))
		case 2: // another daemon
			at := c.Position()
			if err := l.Close(); err != nil {
				t.Fatal(err)
			}
			l = open(t, dir, o)
			c = cursor(t, l, app.LineStart{Pos: at})
		}
	}
	got.WriteString(everything(c))
	lines := bare(t, got.String())
	for i, line := range lines {
		if line != fmt.Sprintf("line %d", i) {
			t.Fatalf("line %d is %q", i, line)
		}
	}
	if len(lines) != next {
		t.Errorf("%d lines, %d were printed", len(lines), next)
	}
}

func TestCursorWakes(t *testing.T) {
	l := open(t, t.TempDir(), Options{Rate: -1})
	c := cursor(t, l, app.LineStart{})
	if text := c.Take(); text != "" {
		t.Errorf("took %q, want nothing yet", text)
	}
	feed(l, strings.Repeat(strings.Repeat("x", 999)+"\n", 200))
	took := 0
	for took < 200 { // in more than one
		<-c.Ready()
		text := c.Take()
		if len(text) > takeSize {
			t.Errorf("took %d bytes at once", len(text))
		}
		took += len(bare(t, text))
	}
	c.Close()
	if len(l.followers) > 0 {
		t.Error("it still follows")
	}
}

func TestWhereACursorBegins(t *testing.T) {
	clock := newClock()
	l := open(t, t.TempDir(), Options{MaxFile: 100, Keep: 9, Rate: -1, Now: clock.now})
	var all []string
	times := make([]time.Time, 10)
	for i := range 10 {
		clock.pass(time.Minute)
		times[i] = clock.now()
		feed(l, fmt.Sprintf("%d\n", i))
		all = append(all, fmt.Sprint(i))
	}
	for name, tt := range map[string]struct {
		from app.LineStart
		want []string
	}{
		"now":                {app.LineStart{}, nil},
		"all":                {app.LineStart{All: true}, all},
		"the last":           {app.LineStart{Last: 1}, all[9:]},
		"the last seven":     {app.LineStart{Last: 7}, all[3:]},
		"more than there is": {app.LineStart{Last: 100}, all},
		"from a time":        {app.LineStart{Time: times[4]}, all[4:]},
		"between two":        {app.LineStart{Time: times[4].Add(time.Second)}, all[5:]},
		"before all":         {app.LineStart{Time: times[0].Add(-time.Hour)}, all},
		"after all":          {app.LineStart{Time: times[9].Add(time.Second)}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			wantLines(t, bare(t, everything(cursor(t, l, tt.from))), tt.want...)
		})
	}
	once := cursor(t, l, app.LineStart{Last: 2, Once: true})
	feed(l, "later\n")
	wantLines(t, bare(t, everything(once)), "8", "9")
	for _, pos := range []string{"x", "a.b.c", "..", ".1.2", "x.-1.2", "x.1", "x.1.2.3", "x.99999999999999999999.1"} {
		if _, err := l.Cursor(app.LineStart{Pos: pos}); app.KindOf(err) != app.Invalid {
			t.Errorf("%q: %v", pos, err)
		}
	}
	if len(l.followers) > 10 { // of the subtests none, of once and of those that the test closes
		t.Errorf("%d follow", len(l.followers))
	}
}

// What is not kept any more is counted, and what cannot be known is said; then it is
// repeated rather than lost.
func TestWhatACursorCannotKnowIsSaid(t *testing.T) {
	const doubt = "[berth] it is not known where in this log you were: what follows may repeat lines, and some may be missing"
	clock := newClock()
	o := Options{MaxFile: 100, Keep: 3, Rate: -1, Now: clock.now}
	for name, tt := range map[string]struct {
		spoil func(t *testing.T, path string, l *Log) *Log
		want  []string
	}{
		"nothing happened": {func(_ *testing.T, _ string, l *Log) *Log { return l }, []string{"2", "3"}},
		"rotated away": {func(_ *testing.T, _ string, l *Log) *Log {
			for i := 4; i < 16; i++ {
				feed(l, fmt.Sprintf("%d\n", i))
			}
			return l
		}, []string{"[berth] 108 B left out: the log does not have them any more", "6", "7", "8", "9", "10", "11", "12", "13", "14", "15"}},
		"a reset": {func(t *testing.T, _ string, l *Log) *Log {
			if err := l.Reset(); err != nil {
				t.Fatal(err)
			}
			feed(l, "new\n")
			return l
		}, []string{"[berth] 54 B left out: the log does not have them any more", "new"}},
		"a power cut": {again(o, func(path string) error {
			text, err := os.ReadFile(path + ".pos")
			if err == nil {
				err = os.WriteFile(path+".pos", []byte(strings.NewReplacer(bootID(), "another", `"closed":true`, `"closed":false`).Replace(string(text))), 0o600)
			}
			return err
		}), []string{doubt, "1", "2", "3"}},
		"a reboot": {again(o, func(path string) error {
			text, err := os.ReadFile(path + ".pos")
			if err == nil {
				err = os.WriteFile(path+".pos", []byte(strings.Replace(string(text), bootID(), "another", 1)), 0o600)
			}
			return err
		}), []string{"2", "3"}},
		"no record":     {again(o, func(path string) error { return os.Remove(path + ".pos") }), []string{doubt, "1", "2", "3"}},
		"an odd record": {again(o, func(path string) error { return os.WriteFile(path+".pos", []byte("{}"), 0o600) }), []string{doubt, "1", "2", "3"}},
		"a shorter log": {again(o, func(path string) error { return os.Truncate(path+".log", 0) }), []string{doubt, "1", "2"}},
		"another log": {again(o, func(path string) error {
			return errors.Join(os.Remove(path+".log"), os.WriteFile(path+".log.1", nil, 0o600))
		}), []string{doubt}},
		"a missing file": {func(t *testing.T, path string, l *Log) *Log {
			if err := os.Remove(path + ".log"); err != nil {
				t.Fatal(err)
			}
			clock.pass(2 * checkAgain)
			feed(l, "new\n")
			return l
		}, []string{"[berth] 54 B left out: the log does not have them any more", "new"}},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			l := open(t, dir, o)
			for i := range 2 {
				feed(l, fmt.Sprintf("%d\n", i))
				clock.pass(time.Second)
			}
			c := cursor(t, l, app.LineStart{Last: 1})
			wantLines(t, bare(t, everything(c)), "1")
			at := c.Position()
			for i := 2; i < 4; i++ {
				feed(l, fmt.Sprintf("%d\n", i))
			}
			l = tt.spoil(t, filepath.Join(dir, "run"), l)
			got := bare(t, everything(cursor(t, l, app.LineStart{Pos: at})))
			wantLines(t, got, tt.want...)
		})
	}
}

// again is another daemon, after something happened to the files.
func again(o Options, spoil func(path string) error) func(*testing.T, string, *Log) *Log {
	return func(t *testing.T, path string, l *Log) *Log {
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		if err := spoil(path); err != nil {
			t.Fatal(err)
		}
		return open(t, filepath.Dir(path), o)
	}
}

// While the disk is full a follower hears that lines are lost, and then how many.
func TestCursorOnAFullDisk(t *testing.T) {
	clock := newClock()
	l := open(t, t.TempDir(), Options{Now: clock.now})
	disk := &narrow{File: l.files.cur.(*os.File), room: 30}
	l.files.cur = disk
	c := cursor(t, l, app.LineStart{})
	feed(l, "0\n1\n2\n")
	wantLines(t, bare(t, everything(c)), "0", "[berth] lines are being lost: cannot write the log: no space left on device")
	disk.room = 1 << 20
	clock.pass(2 * retryAfter)
	feed(l, "3\n")
	wantLines(t, bare(t, everything(c)), "[berth] 2 lines lost: cannot write the log: no space left on device", "3")
}
