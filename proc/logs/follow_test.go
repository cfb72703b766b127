package logs

import (
	"fmt"
	"strings"
	"testing"
)

func TestFollow(t *testing.T) {
	l := open(t, t.TempDir(), Options{Rate: -1})
	l.Note("before")
	f := l.Follow(0)
	defer f.Close()
	if got := f.Take(); got != "" {
		t.Errorf("took %q, want nothing yet", got)
	}
	select {
	case <-f.Ready():
		t.Error("it is ready although nothing came")
	default:
	}
	l.Note("first")
	l.Note("second")
	<-f.Ready()
	if got := Unstamped(f.Take()); got != "[berth] first\n[berth] second\n" {
		t.Errorf("took %q", got)
	}
	if err := l.Reset(); err != nil {
		t.Fatal(err)
	}
	l.Note("third")
	if got := Unstamped(f.Take()); got != "[berth] third\n" {
		t.Errorf("after a reset took %q", got)
	}
	l.Note("lost with the reset")
	if err := l.Reset(); err != nil {
		t.Fatal(err)
	}
	if got := f.Take(); got != "" {
		t.Errorf("took %q, which the reset has removed", got)
	}
	l.Note("last")
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if got := Unstamped(f.Take()); got != "[berth] last\n" {
		t.Errorf("after the close took %q", got)
	}
}

// A follower can begin with whole lines from before, and misses none between.
func TestFollowFromBefore(t *testing.T) {
	l := open(t, t.TempDir(), Options{Rate: -1})
	l.Note("one")
	l.Note("two")
	for back, want := range map[int]string{0: "", 50: "[berth] two\n", 1 << 20: "[berth] one\n[berth] two\n"} {
		f := l.Follow(back)
		if got := Unstamped(f.Take()); got != want {
			t.Errorf("with %d bytes from before took %q, want %q", back, got, want)
		}
		f.Close()
	}
	f := l.Follow(1 << 20)
	defer f.Close()
	l.Note("three")
	if got := Unstamped(f.Take()); got != "[berth] one\n[berth] two\n[berth] three\n" {
		t.Errorf("took %q", got)
	}
	// Old lines that have left the tail before the first Take are not missed: new ones are.
	for range 2000 {
		l.Note(strings.Repeat("old", 20))
	}
	full := l.Follow(tailSize)
	defer full.Close()
	l.Note("new")
	if got := full.Take(); strings.Contains(got, "left out") || !strings.HasSuffix(got, "[berth] new\n") {
		t.Errorf("took %.80q", got)
	}
	l.Note("newer")
	if got := Unstamped(full.Take()); got != "[berth] newer\n" {
		t.Errorf("then took %q", got)
	}
}

// A follower that is slow gets the end, and a line about the rest.
func TestFollowSlowly(t *testing.T) {
	l := open(t, t.TempDir(), Options{Rate: -1})
	f := l.Follow(0)
	defer f.Close()
	for i := range 3000 {
		l.Note(fmt.Sprintf("line %04d %s", i, strings.Repeat("x", 50)))
	}
	text := f.Take()
	lines := strings.Split(strings.TrimSuffix(Unstamped(text), "\n"), "\n")
	if len(text) > tailSize+200 || !strings.HasPrefix(lines[0], "[berth] ") || !strings.HasSuffix(lines[0], " left out: they came faster than they were read") ||
		!strings.HasPrefix(lines[1], "[berth] line ") || !strings.HasPrefix(lines[len(lines)-1], "[berth] line 2999") {
		t.Errorf("%d bytes, from %q and %q to %q", len(text), lines[0], lines[1], lines[len(lines)-1])
	}
	f.Close()
	if len(l.followers) > 0 {
		t.Error("it still follows")
	}
}

func TestMarkOutlivesAReset(t *testing.T) {
	l := open(t, t.TempDir(), Options{Rate: -1})
	l.Note(strings.Repeat("long", 100))
	since := l.Mark()
	if err := l.Reset(); err != nil {
		t.Fatal(err)
	}
	l.Note("new")
	if got := Unstamped(since(100)); got != "[berth] new\n" {
		t.Errorf("got %q", got)
	}
}
