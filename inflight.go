package main

import (
	"runtime"
	"runtime/debug"
	"sync"
	"time"
)

// inflight counts the handlers that run: http.Server.Close does not wait for
// them, and they use what is closed next. It also notices when none has run
// for a while.
type inflight struct {
	mu     sync.RWMutex
	closed bool
	idle   *time.Timer
}

// quiet is how long nobody asked for anything when berth gives memory back.
const quiet = 3 * time.Second

// newInflight calls idle whenever the last request is quiet ago, and once
// after the start, which takes memory like a request.
func newInflight(idle func()) *inflight {
	return &inflight{idle: time.AfterFunc(quiet, idle)}
}

// release gives the kernel what a burst of work needed. The collector keeps it
// for the next one, which may be days away; what pools hold goes with the
// second collection.
func release() {
	runtime.GC()
	debug.FreeOSMemory()
}

// enter reports whether a handler may run; then it MUST call leave.
func (i *inflight) enter() bool {
	i.mu.RLock()
	if i.closed {
		i.mu.RUnlock()
		return false
	}
	return true
}

func (i *inflight) leave() {
	i.idle.Reset(quiet)
	i.mu.RUnlock()
}

// close waits for the handlers that run and lets no other in.
func (i *inflight) close() {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.closed = true
	i.idle.Stop()
}
