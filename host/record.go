package host

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// patience is how long an application's goroutine waits for the disk. What
// takes longer is written when the disk answers, in order; meanwhile the
// application is looked after.
const patience = 15 * time.Second

// recorder writes what is to be remembered of one application, one thing after
// the other. It is safe for concurrent use.
type recorder struct {
	mu   sync.Mutex
	last <-chan struct{} // closed once the entry that came last is done with
	left atomic.Int32    // entries nobody waits for any more
}

// entry is one thing to write.
type entry struct {
	do    func(ctx context.Context) error
	after func(error) // when nobody waited to the end
	err   error
	done  chan struct{} // closed once it is written, if somebody waits
	over  atomic.Bool   // it is written, or nobody waits for it: who sets it first, decides
}

// write returns true once an entry is written, and false when the disk does not answer
// within patience: then its after follows. Behind what waits for the disk nobody waits:
// the unit must be there for what follows. work waits for all.
func (r *recorder) write(work *sync.WaitGroup, e *entry) bool {
	r.mu.Lock()
	before, settled := r.last, make(chan struct{})
	r.last = settled
	if r.behind() {
		r.leave(e)
	}
	r.mu.Unlock()
	waits := !e.over.Load()
	work.Go(func() {
		defer close(settled)
		if before != nil {
			<-before
		}
		e.err = e.do(context.Background())
		if e.over.CompareAndSwap(false, true) {
			close(e.done)
			return
		}
		e.after(e.err)
		r.left.Add(-1)
	})
	if !waits {
		return false
	}
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-e.done:
		return true
	case <-timer.C:
	}
	if r.leave(e) {
		return false
	}
	<-e.done
	return true
}

// leave gives up waiting for an entry; it reports false when that is over.
func (r *recorder) leave(e *entry) bool {
	r.left.Add(1)
	if e.over.CompareAndSwap(false, true) {
		return true
	}
	r.left.Add(-1)
	return false
}

// behind reports whether something waits for the disk that nobody waits for.
func (r *recorder) behind() bool { return r.left.Load() > 0 }
