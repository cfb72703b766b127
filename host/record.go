package host

import (
	"context"
	"sync"
	"time"
)

// patience is how long an application's goroutine waits for the disk. What
// takes longer is written when the disk answers, in order; meanwhile the
// application is looked after.
const patience = 15 * time.Second

// recorder writes what is to be remembered of one application, one thing after
// the other. It has a goroutine while there is something to write, which the
// host's work waits for. It is safe for concurrent use.
type recorder struct {
	mu    sync.Mutex
	queue []*entry
	busy  bool
	left  int // entries nobody waits for any more
}

// entry is one thing to write.
type entry struct {
	do    func(ctx context.Context) error
	after func(error) // when nobody waited to the end
	err   error
	done  chan struct{}
	left  bool // guarded by the recorder's lock, like over
	over  bool
}

// write returns true once an entry is written, and false when the disk does not answer
// within patience: then its after follows. Behind what waits for the disk nobody waits:
// the unit must be there for what follows.
func (r *recorder) write(work *sync.WaitGroup, e *entry) bool {
	r.mu.Lock()
	if r.left > 0 {
		e.left = true
		r.left++
	}
	r.queue = append(r.queue, e)
	if !r.busy {
		r.busy = true
		work.Go(r.run)
	}
	r.mu.Unlock()
	if e.left {
		return false
	}
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-e.done:
		return true
	case <-timer.C:
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if !e.over {
		e.left = true
		r.left++
	}
	return e.over
}

func (r *recorder) run() {
	for e := r.next(); e != nil; e = r.next() {
		e.err = e.do(context.Background())
		r.mu.Lock()
		e.over = true
		left := e.left
		r.mu.Unlock()
		close(e.done)
		if left {
			e.after(e.err)
			r.mu.Lock()
			r.left--
			r.mu.Unlock()
		}
	}
}

func (r *recorder) next() *entry {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.queue) == 0 {
		r.busy = false
		return nil
	}
	e := r.queue[0]
	r.queue = r.queue[1:]
	return e
}

// behind reports whether something waits for the disk that nobody waits for.
func (r *recorder) behind() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.left > 0
}
