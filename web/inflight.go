package web

import (
	"sync"
	"time"
)

// Inflight counts the handlers that run: http.Server.Close does not wait for
// them, and they use what is closed next. It also notices when none has run
// for a while.
type Inflight struct {
	mu     sync.RWMutex
	closed bool
	idle   *time.Timer

	running sync.Map // of *time.Time: when each handler began
}

// quiet is how long nobody asked for anything when berth gives memory back.
const quiet = 3 * time.Second

// NewInflight calls idle whenever the last request is quiet ago, and once
// after the start, which takes memory like a request.
func NewInflight(idle func()) *Inflight {
	return &Inflight{idle: time.AfterFunc(quiet, idle)}
}

// Enter lets a handler run unless it is too late; then it MUST call leave. The age of an
// endless one says nothing: it runs until its client goes or berth ends.
func (i *Inflight) Enter(endless bool) (leave func(), ok bool) {
	i.mu.RLock()
	return i.begin(endless)
}

// Join is Enter for work that a handler begins and does not wait for. It never
// waits: Close does for the handler.
func (i *Inflight) Join() (leave func(), ok bool) {
	if !i.mu.TryRLock() {
		return nil, false
	}
	return i.begin(false)
}

// begin lets what holds the lock run, until leave gives that back.
func (i *Inflight) begin(endless bool) (leave func(), ok bool) {
	if i.closed {
		i.mu.RUnlock()
		return nil, false
	}
	began := time.Now()
	if !endless {
		i.running.Store(&began, nil)
	}
	return func() {
		i.running.Delete(&began)
		i.idle.Reset(quiet)
		i.mu.RUnlock()
	}, true
}

// Oldest is how long the handler has been running that began first, 0 when
// none is.
func (i *Inflight) Oldest() (age time.Duration) {
	i.running.Range(func(key, _ any) bool {
		age = max(age, time.Since(*key.(*time.Time)))
		return true
	})
	return age
}

// Close waits for the handlers that run and lets no other in.
func (i *Inflight) Close() {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.closed = true
	i.idle.Stop()
}
