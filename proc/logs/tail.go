package logs

import (
	"bytes"
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
	if room := tailSize - len(t.buf); room > 0 {
		n := min(room, len(p))
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
