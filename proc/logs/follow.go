package logs

import (
	"fmt"
	"slices"
	"strings"
)

// Follower reads what a log gets from a moment on. It holds no text: what it
// has not taken when the log's tail no longer has it is lost to it, with a line
// that says so. So a reader that is slow, or has died, costs nothing. It is safe
// for concurrent use.
type Follower struct {
	log   *Log
	from  int64 // of the bytes ever written, what is taken already
	ready chan struct{}
	bare  bool // its lines have no stamps
}

// Follow returns a follower of what is written from now on, and of at most the
// last back bytes before, from the start of a line. The caller MUST Close it.
func (l *Log) Follow(back int) *Follower {
	f := &Follower{log: l, ready: make(chan struct{}, 1)}
	l.mu.Lock()
	defer l.mu.Unlock()
	f.from = l.tail.total - int64(len(l.tail.last(back)))
	l.followers = append(l.followers, f)
	return f
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
	f.from = l.tail.total
	text := l.tail.last(int(min(come, tailSize)))
	if lost := come - int64(len(text)); lost > 0 {
		stamp := l.opts.Now().UTC().Format(stampLayout)
		return fmt.Sprintf("%s%s%s left out: they came faster than they were read\n", stamp, notePrefix, size(lost)) + text
	}
	return text
}

// Close ends the following. It may be called again.
func (f *Follower) Close() {
	f.log.mu.Lock()
	defer f.log.mu.Unlock()
	f.log.followers = slices.DeleteFunc(f.log.followers, func(g *Follower) bool { return g == f })
}

// wake tells the followers that something was written. The caller holds mu.
func (l *Log) wake() {
	for _, f := range l.followers {
		select {
		case f.ready <- struct{}{}:
		default: // it knows
		}
	}
}

// Unstamped is text of a log without the stamps of its lines.
func Unstamped(text string) string {
	var b strings.Builder
	b.Grow(len(text))
	for line := range strings.Lines(text) {
		b.WriteString(line[min(len(stampLayout), len(line)):])
	}
	return b.String()
}
