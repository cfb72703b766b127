package logs

import (
	"bytes"
	"fmt"
	"strings"
	"sync"
	"unicode/utf8"
)

// tailSize is how much of the end of a log is at hand without reading a file.
const tailSize = 64 << 10

// tail is a ring of the last tailSize bytes. It grows up to that size, because
// most applications print little. It has a lock of its own, which nobody holds
// while a disk is waited for.
type tail struct {
	mu    sync.Mutex
	buf   []byte
	pos   int   // once full: where the oldest byte is
	total int64 // bytes ever added
}

// add appends p, overwriting the oldest bytes.
func (t *tail) add(p []byte) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.total += int64(len(p))
	if len(p) > tailSize {
		p = p[len(p)-tailSize:]
	}
	if free := tailSize - len(t.buf); free > 0 {
		n := min(free, len(p))
		t.buf = append(t.buf, p[:n]...)
		p = p[n:]
	}
	for len(p) > 0 {
		n := copy(t.buf[t.pos:], p)
		p = p[n:]
		t.pos = (t.pos + n) % tailSize
	}
}

// last returns at most the last max bytes, from the start of a line if one
// starts there, else from the start of a rune.
func (t *tail) last(max int) string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.ending(max)
}

// since is last of what was added after the first from bytes.
func (t *tail) since(from int64, max int) string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.ending(int(min(int64(max), t.total-from)))
}

// forget drops the text, but not the count.
func (t *tail) forget() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.buf, t.pos = nil, 0
}

// ending is last for those who hold the lock.
func (t *tail) ending(max int) string {
	whole := len(t.buf) < tailSize // then it begins with a line
	n := min(max, len(t.buf))
	if n <= 0 {
		return ""
	}
	all := make([]byte, 0, len(t.buf))
	all = append(append(all, t.buf[t.pos:]...), t.buf[:t.pos]...)
	p := all[len(all)-n:]
	if n == len(all) && whole || n < len(all) && all[len(all)-n-1] == '\n' {
		return string(p)
	}
	if i := bytes.IndexByte(p, '\n'); i >= 0 && i < len(p)-1 {
		return string(p[i+1:])
	}
	for len(p) > 0 && !utf8.RuneStart(p[0]) {
		p = p[1:]
	}
	return string(p)
}

// Follower reads what a log gets from a moment on. It holds no text: what it
// has not taken when the log's tail no longer has it is lost to it, with a line
// that says so. So a reader that is slow, or has died, costs nothing. It is safe
// for concurrent use.
type Follower struct {
	log   *Log
	from  int64 // of the bytes ever written, what is taken already
	began int64 // how many there were when the following began
	ready chan struct{}
	bare  bool // its lines have no stamps
}

// Ready receives when there is something to take, perhaps once too often.
func (f *Follower) Ready() <-chan struct{} { return f.ready }

// Take returns the whole lines that came since the last call, with their
// stamps, "" when there are none: at most the last 64 KiB. It does not block,
// and works after the log's Close.
func (f *Follower) Take() string {
	text := f.take()
	if f.bare {
		return Unstamped(text)
	}
	return text
}

func (f *Follower) take() string {
	l := f.log
	l.mu.Lock()
	defer l.mu.Unlock()
	f.from = max(f.from, l.cleared)
	come := l.tail.total - f.from
	text := l.tail.last(int(min(come, tailSize)))
	// What was there before the following began has not come too fast.
	lost := l.tail.total - int64(len(text)) - max(f.from, f.began)
	f.from = l.tail.total
	if lost > 0 {
		stamp := l.opts.Now().UTC().Format(stampLayout)
		return fmt.Sprintf("%s%s%s left out: they came faster than they were read\n", stamp, notePrefix, size(lost)) + text
	}
	return text
}

// Close ends the following. It may be called again.
func (f *Follower) Close() { f.log.unfollow(f.ready) }

// Unstamped is text of a log without the stamps of its lines.
func Unstamped(text string) string {
	var b strings.Builder
	b.Grow(len(text))
	for line := range strings.Lines(text) {
		b.WriteString(line[min(len(stampLayout), len(line)):])
	}
	return b.String()
}

// followers wake those of one log, whose lock guards them.
type followers []chan struct{}

// wake tells them that something was written.
func (all followers) wake() {
	for _, ready := range all {
		wake(ready)
	}
}

func wake(ready chan struct{}) {
	select {
	case ready <- struct{}{}:
	default: // it knows
	}
}
