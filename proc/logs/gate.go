package logs

import (
	"fmt"
	"time"
)

// gate is a token bucket that counts what it does not let through. Once shut
// it stays shut until a second's worth of tokens is there, so that a flood
// loses one stretch of lines per second, admitted in one line, and not every
// other line.
type gate struct {
	rate   int64 // tokens (bytes) per second, negative for no limit
	burst  int64
	tokens float64
	filled time.Time

	shut  bool
	lines int // dropped and not yet admitted
	bytes int64
}

// refill adds what has accrued by the time now. A clock that was set back
// costs what had accrued, no more.
func (g *gate) refill(now time.Time) {
	if d := now.Sub(g.filled); d > 0 && !g.filled.IsZero() {
		g.tokens = min(float64(g.burst), g.tokens+d.Seconds()*float64(g.rate))
	}
	g.filled = now
}

// pass asks for a whole line of size bytes. resumed tells that it is the first
// one after others were refused, which should be admitted before it.
func (g *gate) pass(size int) (open, resumed bool) {
	if g.rate < 0 {
		return true, false
	}
	need := float64(size)
	if g.shut {
		need = max(need, float64(min(g.rate, g.burst)))
	}
	if g.tokens < need {
		g.shut = true
		g.lines++
		g.bytes += int64(size)
		return false, false
	}
	g.tokens -= float64(size)
	resumed, g.shut = g.shut, false
	return true, resumed
}

// flooding reports whether what arrives is beyond the rate. Without a rate
// everything is: it costs as much, and nothing else bounds it.
func (g *gate) flooding() bool { return g.shut || g.rate < 0 }

// closed reports whether no line, however short, passes until the next refill.
func (g *gate) closed() bool { return g.shut && g.tokens < float64(min(g.rate, g.burst)) }

// drop counts lines that were not even offered, of size bytes without stamps.
func (g *gate) drop(lines, size int) {
	g.lines += lines
	g.bytes += int64(size + lines*len(stampLayout))
}

// admit returns the sentence about what was dropped and forgets it.
func (g *gate) admit() string {
	text := fmt.Sprintf("%s (%s) dropped: the program prints more than %s/s",
		countLines(g.lines), size(g.bytes), size(g.rate))
	g.lines, g.bytes = 0, 0
	return text
}

// countLines returns "1 line" or "n lines".
func countLines(n int) string {
	if n == 1 {
		return "1 line"
	}
	return fmt.Sprintf("%d lines", n)
}

// size returns n bytes in the unit that suits them, in powers of 1024.
func size(n int64) string {
	switch {
	case n < 1<<10:
		return fmt.Sprintf("%d B", n)
	case n < 1<<20:
		return fmt.Sprintf("%.1f KB", float64(n)/(1<<10))
	}
	return fmt.Sprintf("%.1f MB", float64(n)/(1<<20))
}
