package logs

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestTailBeginsWithALine(t *testing.T) {
	var tl tail
	tl.add([]byte("one\ntwo\nthrée\n"))
	for n, want := range map[int]string{
		-1: "", 0: "", 1: "\n", 3: "e\n", 4: "ée\n", // the last line is longer: its end, at a rune
		7: "thrée\n", 8: "thrée\n", 10: "thrée\n", 11: "two\nthrée\n", 14: "two\nthrée\n",
		15: "one\ntwo\nthrée\n", 1000: "one\ntwo\nthrée\n",
	} {
		if got := tl.last(n); got != want {
			t.Errorf("last(%d) = %q, want %q", n, got, want)
		}
	}
}

func TestMarkTellsWhatFollows(t *testing.T) {
	l, err := Open(t.TempDir(), "run", Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	l.Note("before")
	since := l.Mark()
	if got := since(1000); got != "" {
		t.Errorf("nothing was written, and it is %q", got)
	}
	l.Note("after")
	if got := since(1000); !strings.HasSuffix(got, "[berth] after\n") || strings.Contains(got, "before") {
		t.Errorf("it is %q, want the second line", got)
	}
	for range 2 * tailSize / 100 {
		l.Note(strings.Repeat("x", 100))
	}
	if got := since(1 << 30); len(got) > tailSize || !utf8.ValidString(got) {
		t.Errorf("%d bytes, want no more than are at hand", len(got))
	}
}

// The ring must give what a plain suffix of everything would give.
func TestTailRing(t *testing.T) {
	for _, chunk := range []int{1, 100, 30000, tailSize - 1, tailSize, tailSize + 1, 3 * tailSize} {
		var tl tail
		var all strings.Builder
		for i := 0; all.Len() < 5*tailSize; i++ {
			var p strings.Builder
			for p.Len() < chunk {
				fmt.Fprintf(&p, "line é %d\n", i)
			}
			tl.add([]byte(p.String()))
			all.WriteString(p.String())
		}
		for _, n := range []int{50, 1800, tailSize - 1, tailSize, 1 << 20} {
			got := tl.last(n)
			if !strings.HasSuffix(all.String(), got) || !strings.HasPrefix(got, "line ") || len(got) > n {
				t.Fatalf("chunks of %d: last(%d) is %d bytes, %q...", chunk, n, len(got), got[:min(40, len(got))])
			}
			if len(got) < min(n, tailSize)-40 {
				t.Errorf("chunks of %d: last(%d) is only %d bytes", chunk, n, len(got))
			}
		}
	}
}

func TestTailIsPrimedAcrossFiles(t *testing.T) {
	dir := t.TempDir()
	l := open(t, dir, Options{MaxFile: 20 << 10, Keep: 9})
	for i := range 4000 {
		feed(l, fmt.Sprintf("line %d with some text\n", i))
	}
	want := l.Tail(tailSize)
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	l = open(t, dir, Options{MaxFile: 20 << 10, Keep: 9})
	if got := l.Tail(tailSize); got != want {
		t.Errorf("after reopening: %d bytes, want %d", len(got), len(want))
	}
}

func TestTailOfADamagedFile(t *testing.T) {
	dir := t.TempDir()
	text := strings.Repeat("\x00\xff\x80", 30000) + "\nlast\n"
	if err := os.WriteFile(filepath.Join(dir, "run.log"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	got := open(t, dir, Options{}).Tail(tailSize)
	if !utf8.ValidString(got) || strings.Contains(got, "\x00") || !strings.HasSuffix(got, "last\n") {
		t.Errorf("the tail is %q", got[:min(100, len(got))])
	}
}

// hung is a file whose writes wait until it is let go.
type hung struct {
	file
	began chan struct{}
	goOn  chan struct{}
}

func (h *hung) Write(p []byte) (int, error) {
	close(h.began)
	<-h.goOn
	return h.file.Write(p)
}

// While the disk takes nothing, who asks for the last lines gets them.
func TestTailWhileTheDiskHangs(t *testing.T) {
	l := open(t, t.TempDir(), Options{})
	l.Note("before")
	since := l.Mark()
	h := &hung{l.files.cur, make(chan struct{}), make(chan struct{})}
	l.files.cur = h
	done := make(chan struct{})
	go func() { defer close(done); l.Note("meanwhile") }()
	<-h.began
	if got := l.Tail(1000); !strings.Contains(got, "before\n") {
		t.Errorf("the tail is %q", got)
	}
	if got := since(1000); strings.Contains(got, "before") {
		t.Errorf("since then came %q", got)
	}
	close(h.goOn)
	<-done
	l.files.cur = h.file
	if got := since(1000); !strings.HasSuffix(got, "[berth] meanwhile\n") || strings.Contains(got, "before") {
		t.Errorf("since then came %q", got)
	}
}
