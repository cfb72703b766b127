package cgroup

import (
	"sync"
	"time"
)

// removePause is how long a group that has served stays: a program that is started
// again is, by then, and the kernel removes groups beside it instead of before it. Its
// application's own group, which would be removed with it and made again, stays.
const removePause = 200 * time.Millisecond

// later does what nobody waits for, a moment later. The zero value is ready.
type later struct {
	mu  sync.Mutex
	now *batch // what is put off now, nil for nothing
}

// batch is what was put off since the last flush.
type batch struct {
	hurry chan struct{}
	all   sync.WaitGroup
}

// do calls f after removePause, or once somebody calls flush.
func (l *later) do(f func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.now == nil {
		l.now = &batch{hurry: make(chan struct{})}
	}
	hurry := l.now.hurry
	l.now.all.Go(func() {
		select {
		case <-hurry:
		case <-time.After(removePause):
		}
		f()
	})
}

// flush does at once what was put off, and waits for it. It reports whether that was
// something.
func (l *later) flush() bool {
	l.mu.Lock()
	b := l.now
	l.now = nil
	l.mu.Unlock()
	if b == nil {
		return false
	}
	close(b.hurry)
	b.all.Wait()
	return true
}
