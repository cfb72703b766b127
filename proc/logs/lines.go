package logs

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"regexp"
	"slices"
	"sync"
	"time"
	"unicode"
	"unicode/utf8"
)

const (
	// stampLayout is as wide as every stamp made from it, whatever the time.
	stampLayout  = "2006-01-02T15:04:05.000Z "
	notePrefix   = "[berth] "
	foreignMark  = `\` // before a notePrefix that the program has printed
	esc          = 0x1b
	cutMark      = "…"
	lineOverhead = int64(len(stampLayout) + len(cutMark) + len("\n"))

	setBack = time.Second // less is a clock that is kept right

	readSize  = 64 << 10 // what a FIFO holds unless somebody enlarges it
	batchSize = 128 << 10
)

// replacement stands for whatever is not text.
var replacement = []byte("\uFFFD")

// plain marks the bytes that are text by themselves: printable ASCII, the tab,
// and ESC, which begins the colours that people expect to see again.
var plain = func() (t [256]bool) {
	for c := 0x20; c < 0x7f; c++ {
		t[c] = true
	}
	t['\t'], t[esc] = true, true
	return t
}()

// How a line ends.
const (
	wholeLine = false // the program ended it
	cutLine   = true  // it goes on in the next one
)

// lines is the text between the FIFO and the file:
//
//	out: | whole lines, stamped ........ | the line that has begun |
//	                                     ^ start             len(out) ^
//
// Between two batches only part and carry are kept, so an idle log owns no
// large buffer.
type lines struct {
	max    int
	forced bool      // what is added now passes the gate: it is berth's own
	at     time.Time // the last arrival
	last   time.Time // no line of the log has a stamp behind it, unless the host's clock was set back
	stamp  []byte    // the text of at, or of when a line was stamped elsewhere
	out    []byte
	start  int
	part   []byte // the line that has begun, with its stamp
	carry  []byte // the first bytes of a rune whose others have not arrived
	src    []byte // what arrived and is in the FIFO still, to be taken out once it is written
	fd     int    // of the FIFO, while there is src
}

// begun reports whether a line has begun.
func (s *lines) begun() bool { return len(s.out) > s.start }

// reset forgets the unfinished line.
func (s *lines) reset() { s.part, s.carry = s.part[:0], s.carry[:0] }

// The large buffers are lent to whichever log has something to do.
var (
	inputs  = sync.Pool{New: func() any { return new(input) }}
	outputs = sync.Pool{New: func() any { return &batch{out: make([]byte, 0, batchSize+readSize)} }}
)

// input is a buffer for one read, and what was kept of the one before.
type input [utf8.UTFMax + readSize]byte

// batch is a buffer for what becomes of one input.
type batch struct{ out []byte }

// arrived takes what the program printed.
func (l *Log) arrived(p []byte) {
	l.lastRead = l.opts.Now()
	b := l.begin(l.lastRead)
	l.text(p)
	l.finish(b)
}

// begin opens a batch of what arrived at the time now; the caller MUST finish
// it. The clock is read once per batch, not once per line: lines that arrive
// together are stamped alike.
//
// Stamps are in order unless somebody sets the host's clock back. Then a line
// says so, between those from before and those from after.
func (l *Log) begin(now time.Time) *batch {
	b := outputs.Get().(*batch)
	s := &l.lines
	back := s.at.Round(0).Sub(now.Round(0)) // by the clock on the wall
	s.at = now
	s.stamp = now.UTC().AppendFormat(s.stamp[:0], stampLayout)
	s.out = append(b.out[:0], s.part...)
	s.start = 0
	l.gate.refill(now)
	if back >= setBack {
		l.berth("the host's clock was set back by " + back.Round(time.Second).String())
	}
	return b
}

// finish writes the whole lines and keeps the begun one for the next batch.
func (l *Log) finish(b *batch) {
	s := &l.lines
	l.commit(len(s.src))
	s.part = append(s.part[:0], s.out...)
	b.out = s.out[:0]
	s.out, s.start = nil, 0
	outputs.Put(b)
}

// text adds what arrived: cleaned, cut and stamped. Bytes that may be the
// beginning of a rune wait in carry.
func (l *Log) text(p []byte) {
	for len(p) > 0 {
		if l.gate.closed() && !l.lines.begun() {
			p = p[l.skip(p):]
		}
		n := plainPrefix(p)
		if n > 0 {
			l.run(p[:n])
			p = p[n:]
		}
		if len(p) == 0 {
			return
		}
		switch c := p[0]; {
		case c == '\n':
			l.endLine(wholeLine)
			p = p[1:]
			if l.lines.start >= batchSize {
				l.commit(max(len(l.lines.src)-len(p), 0))
			}
		case c == '\r': // half of a line's end, or a progress bar's way back
			p = p[1:]
		case c < utf8.RuneSelf:
			l.symbol(replacement)
			p = p[1:]
		case !utf8.FullRune(p):
			l.lines.carry = append(l.lines.carry[:0], p...)
			return
		default:
			p = p[l.decode(p):]
		}
	}
}

// skip counts the whole lines at the start of p as dropped, unseen, and
// returns their length: a flood costs little more than reading it.
func (l *Log) skip(p []byte) int {
	n := bytes.LastIndexByte(p, '\n') + 1
	l.gate.drop(countNewlines(p[:n]), n)
	return n
}

// plainPrefix returns how many bytes p begins with that are text by
// themselves. It looks at eight at a time for one outside of 0x20 to 0x7e: the
// borrow or the carry of each byte's comparison shows in its highest bit.
func plainPrefix(p []byte) int {
	const ones, highs = 0x0101010101010101, 0x8080808080808080
	n := 0
	for ; n+8 <= len(p); n += 8 {
		x := binary.LittleEndian.Uint64(p[n:])
		if ((x-0x20*ones)|(x+ones)|x)&highs != 0 {
			break
		}
	}
	for n < len(p) && plain[p[n]] {
		n++
	}
	return n
}

// decode adds the rune that p begins with and returns its length. What is not
// UTF-8, and the control characters beyond ASCII, which terminals obey as they
// do ESC, are replaced.
func (l *Log) decode(p []byte) int {
	r, n := utf8.DecodeRune(p)
	if (r == utf8.RuneError && n == 1) || (r >= 0x80 && r < 0xa0) {
		l.symbol(replacement)
	} else {
		l.symbol(p[:n])
	}
	return n
}

// run adds plain bytes, which may be cut anywhere.
func (l *Log) run(p []byte) {
	for len(p) > 0 {
		n := min(len(p), l.spare())
		if n == 0 {
			l.endLine(cutLine)
			continue
		}
		l.lines.out = append(l.lines.out, p[:n]...)
		p = p[n:]
	}
}

// symbol adds the bytes of one rune, which stay together.
func (l *Log) symbol(p []byte) {
	if l.spare() < len(p) {
		l.endLine(cutLine)
	}
	l.spare()
	l.lines.out = append(l.lines.out, p...)
}

// spare begins a line if none has begun and returns how many bytes of text it
// still takes.
func (l *Log) spare() int {
	s := &l.lines
	if !s.begun() {
		s.out = append(s.out, s.stamp...)
	}
	return s.max - (len(s.out) - s.start - len(stampLayout))
}

// endLine ends the line and keeps it, or takes it back when the gate is shut.
func (l *Log) endLine(cut bool) {
	l.spare() // an empty line is stamped too
	s := &l.lines
	if text := s.start + len(stampLayout); !s.forced && readsAsNote(s.out[text:]) {
		s.out = slices.Insert(s.out, text, foreignMark[0])
	}
	if cut {
		s.out = append(s.out, cutMark...)
	}
	s.out = append(s.out, '\n')
	size := len(s.out) - s.start
	if !s.forced {
		open, resumed := l.gate.pass(size)
		if !open {
			s.out = s.out[:s.start]
			return
		}
		if resumed {
			l.admitBefore(size)
		}
	}
	s.start = len(s.out)
}

// unseen is a sequence for terminals (ECMA-48) at the beginning of a text, as all who show lines without sequences leave it
// out: also one that was cut, and an OSC that BEL has ended, which is replaced by now.
var unseen = regexp.MustCompile(`^\x1b(?:\[[ -?]*[@-~]?|\][^\x1b]*\x1b\\|\][^\x1b\x{FFFD}]*\x{FFFD}|[ -/]*[0-~]?)`)

// readsAsNote reports whether text begins with notePrefix for a reader who does not see sequences and characters that
// show nothing.
func readsAsNote(text []byte) bool {
	for rest := notePrefix; rest != ""; {
		switch {
		case len(text) == 0:
			return false
		case text[0] == rest[0]:
			text, rest = text[1:], rest[1:]
		case text[0] == esc:
			text = text[len(unseen.Find(text)):]
		default:
			r, n := utf8.DecodeRune(text)
			if !unicode.Is(unicode.Cf, r) {
				return false
			}
			text = text[n:]
		}
	}
	return true
}

// admit writes how many lines were dropped, if any were. It goes
// before the line that has begun, if one has.
func (l *Log) admit() { l.admitBefore(len(l.lines.out) - l.lines.start) }

// admitBefore inserts the count before the last size bytes.
func (l *Log) admitBefore(size int) {
	if l.gate.lines == 0 {
		return
	}
	s := &l.lines
	at := len(s.out) - size
	stamp := s.stamp
	if size > 0 { // not younger than the line below it
		stamp = s.out[at : at+len(stampLayout)]
	}
	marker := string(stamp) + notePrefix + l.gate.admit() + "\n"
	s.out = append(s.out, marker...)
	copy(s.out[at+len(marker):], s.out[at:])
	copy(s.out[at:], marker)
	s.start = at + len(marker)
}

// flushCarry gives up waiting for the rest of a rune.
func (l *Log) flushCarry() {
	for range l.lines.carry {
		l.symbol(replacement)
	}
	l.lines.carry = l.lines.carry[:0]
}

// commit writes the whole lines to the tail and to the file, and then takes
// what they were made of, the first n bytes of src, out of the FIFO. Before that
// it notes both, so that whenever the daemon is killed the next one knows which
// of them was done.
func (l *Log) commit(n int) {
	s := &l.lines
	if s.start == 0 && n == 0 {
		return
	}
	text, raw := s.out[:s.start], s.src[:n]
	s.src = s.src[n:]
	if len(text) > 0 {
		l.prepare(s.at)
		s.last = s.at
	}
	failing := l.files.err != nil
	mark := l.note(len(text), raw)
	if len(text) > 0 {
		l.tail.add(text)
		l.files.put(s.at, s.stamp, text)
		l.followers.wake()
	}
	if failing || l.files.err != nil { // then the file has something else than was noted
		mark = l.note(0, raw)
	}
	consume(s.fd, raw, mark)
	s.out = s.out[:copy(s.out, s.out[s.start:])]
	s.start = 0
}

// prepare is files.prepare, which may have to make more than the files again.
func (l *Log) prepare(at time.Time) {
	if l.files.prepare(at) {
		l.journal = l.journal.remade(l.files.base+".state", l.opts.MaxLine)
	}
}

// gate is a token bucket that counts what it does not let through. Once shut
// it stays shut until a second's worth of tokens is there, so that a flood
// loses one stretch of lines per second, admitted in one line, and not every
// other line.
type gate struct {
	rate   int64 // tokens (bytes) per second, negative for no limit
	burst  int64
	tokens float64
	filled time.Time
	early  float64 // what has accrued by the host's clock, and not yet by that of a program elsewhere

	shut  bool
	lines int // dropped and not yet admitted
	bytes int64
}

// refill adds what has accrued by the time now. A clock that was set back
// costs what had accrued, no more.
func (g *gate) refill(now time.Time) {
	if d := now.Sub(g.filled); d > 0 && !g.filled.IsZero() {
		before := g.tokens
		g.tokens = min(float64(g.burst), g.tokens+d.Seconds()*float64(g.rate))
		g.early = min(float64(g.burst), g.early+g.tokens-before)
	}
	g.filled = now
}

// advance adds what accrues while the clock of a program elsewhere goes on: its lines may
// arrive long after they were printed, hours of them at once. Of the time that has passed
// here as well nothing accrues twice.
func (g *gate) advance(d time.Duration) {
	n := d.Seconds() * float64(g.rate)
	paid := min(n, g.early)
	g.early -= paid
	g.tokens = min(float64(g.burst), g.tokens+n-paid)
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
