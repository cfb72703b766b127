package logs

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"
)

var dropMarker = regexp.MustCompile(`^\[berth\] (\d+) lines? \([\d.]+ [KM]?B\) dropped: the program prints more than [\d.]+ [KM]?B/s$`)

// tally splits lines into what the program printed and what is said to be dropped.
func tally(t testing.TB, lines []string) (kept []string, dropped, markers int) {
	t.Helper()
	for _, line := range lines {
		m := dropMarker.FindStringSubmatch(line)
		if m == nil {
			kept = append(kept, line)
			continue
		}
		n, err := strconv.Atoi(m[1])
		if err != nil {
			t.Fatal(err)
		}
		dropped += n
		markers++
	}
	return kept, dropped, markers
}

func TestFloodIsCountedExactly(t *testing.T) {
	c := newClock()
	l := open(t, t.TempDir(), Options{Now: c.now, Rate: 10 << 10, Burst: 40 << 10, MaxFile: 1 << 20})
	const produced = 30000
	var b strings.Builder
	for i := range produced {
		fmt.Fprintf(&b, "line %d\n", i)
		if i%100 == 99 { // 20 KB/s of text in 10 seconds, stamps beside
			feed(l, b.String())
			b.Reset()
			c.pass(10 * time.Second / (produced / 100))
		}
	}
	l.Drain()
	kept, dropped, markers := tally(t, bare(t, whole(t, l)))
	if len(kept)+dropped != produced {
		t.Errorf("%d kept + %d dropped != %d", len(kept), dropped, produced)
	}
	if dropped == 0 || len(kept) < 3000 || len(kept) > 4500 { // (40 KB + 10 s * 10 KB) / 36 B
		t.Errorf("%d kept", len(kept))
	}
	if markers < 8 || markers > 12 {
		t.Errorf("%d markers in 10 seconds", markers)
	}
	for _, line := range kept {
		if !strings.HasPrefix(line, "line ") {
			t.Fatalf("not a whole line: %q", line)
		}
	}
}

func TestMarkerText(t *testing.T) {
	c := newClock()
	l := open(t, t.TempDir(), Options{Now: c.now, Rate: 1 << 20, Burst: 1, MaxLine: 64})
	line := strings.Repeat("x", 64-25+25)
	feed(l, line+"\n"+line+"\n")
	c.pass(time.Minute)
	feed(l, "calm\n")
	wantLines(t, bare(t, whole(t, l)), line,
		"[berth] 1 line (90 B) dropped: the program prints more than 1.0 MB/s", "calm")
}

// The count stands where the lines are missing: before a line that had begun
// and before whatever berth says next.
func TestMarkerKeepsItsPlace(t *testing.T) {
	for _, c := range []struct {
		name string
		do   func(*Log)
		want []string
	}{
		{"drain", (*Log).Drain, []string{"a", "M", "b"}},
		{"note", func(l *Log) { l.Note("n") }, []string{"a", "M", "b…", "[berth] n"}},
		{"close", func(l *Log) { _ = l.Close() }, []string{"a", "M", "b"}},
		{"tail", func(l *Log) { l.Tail(10) }, []string{"a", "M"}},
		{"reader", func(l *Log) {
			if r, err := l.Reader(); err == nil {
				_ = r.Close()
			}
		}, []string{"a", "M"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			clk := newClock()
			l := open(t, t.TempDir(), Options{Now: clk.now, Rate: 50, Burst: 1, MaxLine: 64})
			feed(l, "a\n"+strings.Repeat(strings.Repeat("x", 64)+"\n", 5)+"b")
			l.Tail(10) // the flood has only just been: no count yet
			wantLines(t, bare(t, string(l.tail.buf)), "a")
			clk.pass(2 * quiet)
			c.do(l)
			got := bare(t, whole(t, l))
			for i, line := range got {
				if dropMarker.MatchString(line) {
					got[i] = "M"
				}
			}
			wantLines(t, got, c.want...)
		})
	}
}

func TestGate(t *testing.T) {
	start := newClock().now()
	g := gate{rate: 100, burst: 300, tokens: 300}
	pass := func(after time.Duration, size int, open, resumed bool) {
		t.Helper()
		g.refill(start.Add(after))
		if o, r := g.pass(size); o != open || r != resumed {
			t.Errorf("after %v: %d bytes: open %v, resumed %v; want %v, %v", after, size, o, r, open, resumed)
		}
	}
	pass(0, 300, true, false)
	pass(0, 1, false, false)
	pass(500*time.Millisecond, 1, false, false) // there are tokens, but not a second's worth
	pass(time.Second, 1, true, true)
	pass(time.Second, 1, true, false)
	pass(time.Hour, 300, true, false) // never more than the burst
	pass(time.Hour, 1, false, false)
	pass(0, 1, false, false) // the clock was set back
	pass(time.Second, 1, true, true)
	if g.lines != 4 || g.bytes != 4 {
		t.Errorf("%d lines, %d bytes dropped", g.lines, g.bytes)
	}
}

// A line larger than a second's worth must not bring a marker with every try.
// What has no rate is never shut out, and is a flood all the same.
func TestGateFloods(t *testing.T) {
	for _, tt := range []struct {
		gate  gate
		open  bool
		flood bool
	}{
		{gate{rate: 100, burst: 200, tokens: 200}, true, false},
		{gate{rate: 100, burst: 200}, false, true},
		{gate{rate: -1}, true, true},
	} {
		g := tt.gate
		if open, _ := g.pass(50); open != tt.open || g.flooding() != tt.flood {
			t.Errorf("%+v: open %t, flooding %t", tt.gate, open, g.flooding())
		}
	}
}

func TestGateWaitsForALargeLine(t *testing.T) {
	at := newClock().now()
	g := gate{rate: 10, burst: 1000, tokens: 0}
	opened := 0
	for i := range 100 {
		g.refill(at.Add(time.Duration(i) * time.Second))
		if open, _ := g.pass(500); open {
			opened++
		}
	}
	if opened != 1 {
		t.Errorf("opened %d times in 100 s, want once (after 50 s)", opened)
	}
}

func TestSize(t *testing.T) {
	for n, want := range map[int64]string{
		0: "0 B", 1023: "1023 B", 1024: "1.0 KB", 1 << 20: "1.0 MB", 1258291: "1.2 MB", 5 << 30: "5120.0 MB",
	} {
		if got := size(n); got != want {
			t.Errorf("size(%d) = %q, want %q", n, got, want)
		}
	}
}
