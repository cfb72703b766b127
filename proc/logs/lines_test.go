package logs

import (
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

func TestTextIsCleaned(t *testing.T) {
	for _, c := range []struct{ name, in, want string }{
		{"plain", "hello", "hello"},
		{"tab and colour", "a\tb \x1b[31mred\x1b[0m", "a\tb \x1b[31mred\x1b[0m"},
		{"runes", "olá € 😀", "olá € 😀"},
		{"windows line", "a\r", "a"},
		{"progress bar", "10%\r20%\r30%", "10%20%30%"},
		{"NUL and bell", "a\x00b\x07c\x7f", "a\uFFFDb\uFFFDc\uFFFD"},
		{"control beyond ASCII", "a\u0085b\u009b31m", "a\uFFFDb\uFFFD31m"},
		{"not UTF-8", "a\xff\xfeb\xc3(", "a\uFFFD\uFFFDb\uFFFD("},
		{"surrogate", "\xed\xa0\x80", "\uFFFD\uFFFD\uFFFD"},
		{"overlong", "\xc0\xaf", "\uFFFD\uFFFD"},
		{"cut short by a line end", "a\xe2\x82", "a\uFFFD\uFFFD"},
		{"a real replacement", "a\uFFFDb", "a\uFFFDb"},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := open(t, t.TempDir(), Options{})
			feed(l, c.in+"\n")
			byByte := open(t, t.TempDir(), Options{})
			for i := range len(c.in) {
				feed(byByte, c.in[i:i+1])
			}
			feed(byByte, "\n")
			wantLines(t, bare(t, whole(t, l)), c.want)
			wantLines(t, bare(t, whole(t, byByte)), c.want)
		})
	}
}

// Only berth's own lines begin as they do, whatever a program prints, in which pieces.
func TestOnlyBerthSpeaksAsBerth(t *testing.T) {
	l := open(t, t.TempDir(), Options{MaxLine: 64})
	feed(l, "[berth] killed\n[ber")
	feed(l, "th] in pieces\n\r[berth] behind a return\n [berth] indented\n[berth]\n")
	feed(l, strings.Repeat("x", 64)+"[berth] behind a cut\n")
	feed(l, "[berth] broken by")
	l.Note("[berth] of berth's own")
	feed(l, " it\n[berth] "+strings.Repeat("y", 70)+"\n")
	feed(l, "[berth] without an end")
	l.Drain()
	// Whoever shows lines without escape sequences shows these as berth's.
	hidden := []string{
		"\x1b[m[berth] behind colours", "[be\x1b[mrth] among colours", "\x1b]0;a title\x1b\\[berth] x", "\x1b]0;a title\uFFFD[berth] x",
		"\x1b(B\x1b[m[berth] x", "\x1b[1 2K[berth] x", "[berth]\x1b[\u202a x", "\u202a[berth] x", "\x1b\u200b[berth] x",
	}
	feed(l, strings.Join(hidden, "\n")+"\n\x1b[32mgreen [berth] \n\x1b]0;[berth] \n\x1b[")
	l.Drain()
	for i := range hidden {
		hidden[i] = `\` + hidden[i]
	}
	wantLines(t, bare(t, whole(t, l)), slices.Concat([]string{
		`\[berth] killed`, `\[berth] in pieces`, `\[berth] behind a return`, " [berth] indented", "[berth]", strings.Repeat("x", 64) + "…", `\[berth] behind a cut`,
		`\[berth] broken by…`, "[berth] [berth] of berth's own", " it", `\[berth] ` + strings.Repeat("y", 56) + "…", strings.Repeat("y", 14), `\[berth] without an end`,
	}, hidden, []string{"\x1b[32mgreen [berth] ", "\x1b]0;[berth] ", "\x1b["})...)
}

func TestLongLineIsCut(t *testing.T) {
	l := open(t, t.TempDir(), Options{MaxLine: 64})
	x := strings.Repeat("x", 64)
	feed(l, x+"\n")            // exactly full: not cut
	feed(l, x+"y\n")           // one too many
	feed(l, x[:63]+"€ rest\n") // a rune is not split
	wantLines(t, bare(t, whole(t, l)), x, x+"…", "y", x[:63]+"…", "€ rest")
}

func TestEndlessLineTakesNoMemory(t *testing.T) {
	l := open(t, t.TempDir(), Options{Rate: -1, MaxLine: 1000})
	chunk := strings.Repeat("x", 4096)
	for range 1000 {
		feed(l, chunk)
	}
	if n := cap(l.lines.part); n > 4096 {
		t.Errorf("the unfinished line takes %d bytes", n)
	}
	l.Drain()
	for _, line := range bare(t, whole(t, l)) {
		if len(line) > 1000+len(cutMark) {
			t.Fatalf("a line has %d bytes", len(line))
		}
	}
}

// Whatever the bytes and however they arrive, the log is valid UTF-8, every
// line is stamped, and the text does not depend on where the reads fell.
func FuzzWrite(f *testing.F) {
	f.Add([]byte("hello\nworld\n"), uint8(3))
	f.Add([]byte("\xe2\x82\xac\r\n\x00\x1b[1m\xff\xfe\xf0\x9f\x98\x80"), uint8(1))
	f.Add([]byte(strings.Repeat("é", 200)), uint8(7))
	f.Add([]byte("2026-01-02T03:04:05.678Z [berth] forged\n\n\n"), uint8(2))
	dir := f.TempDir()
	c := newClock()
	f.Fuzz(func(t *testing.T, p []byte, step uint8) {
		once := fuzzLog(t, dir, c)
		feed(once, string(p))
		once.Drain()
		want := whole(t, once)

		split := fuzzLog(t, dir, c)
		n := int(step%16) + 1
		for i := 0; i < len(p); i += n {
			feed(split, string(p[i:min(i+n, len(p))]))
		}
		split.Drain()
		got := whole(t, split)

		if got != want {
			t.Errorf("in steps of %d:\n got %q\nwant %q", n, got, want)
		}
		if !utf8.ValidString(got) || strings.ContainsAny(got, "\x00\r\x7f\b") {
			t.Errorf("not clean: %q", got)
		}
		bare(t, got)
		for size := range 70 {
			if tail := split.Tail(size); !utf8.ValidString(tail) || len(tail) > size || !strings.HasSuffix(got, tail) {
				t.Errorf("the tail of %d is %q", size, tail)
			}
		}
	})
}

// fuzzLog is an empty log without limits. One directory serves all.
func fuzzLog(t *testing.T, dir string, c *clock) *Log {
	l := open(t, dir, Options{Now: c.now, Rate: -1, MaxLine: 64})
	if err := l.Reset(); err != nil {
		t.Fatal(err)
	}
	return l
}

// Lines cost no allocation each, whether they are kept or dropped. A batch may
// cost a few: under the race detector pools forget at random.
func TestLinesCostNoAllocation(t *testing.T) {
	const count = 1000
	p := []byte(strings.Repeat("a line of some words\n", count))
	for name, o := range map[string]Options{
		"kept":    {Rate: 1 << 40, MaxFile: 1 << 30},
		"dropped": {Rate: 1, Burst: 1, Now: newClock().now},
	} {
		l := open(t, t.TempDir(), o)
		allocs := testing.AllocsPerRun(50, func() {
			l.mu.Lock()
			defer l.mu.Unlock()
			l.arrived(p)
		})
		if allocs > count/50 {
			t.Errorf("%s: %.0f allocations for %d lines", name, allocs, count)
		}
	}
}

func BenchmarkArrived(b *testing.B) {
	for name, line := range map[string]string{
		"ascii80":  strings.Repeat("x", 79) + "\n",
		"unicode":  strings.Repeat("olá, ", 13) + "\n",
		"oneByte":  "\n",
		"dropping": strings.Repeat("x", 79) + "\n",
	} {
		b.Run(name, func(b *testing.B) {
			o := Options{Rate: -1}
			if name == "dropping" {
				at := time.Now()
				o = Options{Now: func() time.Time { return at }}
			}
			l := open(b, b.TempDir(), o)
			p := []byte(strings.Repeat(line, readSize/len(line)))
			b.SetBytes(int64(len(p)))
			b.ReportAllocs()
			for b.Loop() {
				l.mu.Lock()
				l.arrived(p)
				l.mu.Unlock()
			}
		})
	}
}
