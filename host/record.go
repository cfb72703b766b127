package host

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"berth/app"
)

// patience is how long an application's goroutine waits for the disk. What
// takes longer is written when the disk answers, in order; meanwhile the
// application is looked after.
const patience = 15 * time.Second

// recorder writes what is to be remembered of one application, one thing after
// the other. It is safe for concurrent use.
type recorder struct {
	work *sync.WaitGroup // waits for all that is written
	log  *slog.Logger
	do   func(ctx context.Context, f func() error) error // lets the unit's goroutine run f

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
	left  bool          // nobody ever waits for it
	over  atomic.Bool   // it is written, or nobody waits for it: who sets it first, decides
}

// record writes to the database. A failure is logged and does not stop the
// application: what runs, runs. It is returned for those whose caller asked
// for what could not be recorded.
func (r *recorder) record(what string, write func(ctx context.Context) error) error {
	return r.beginRecord(what, write)()
}

// beginRecord is record that returns what waits for it, which must be called once.
func (r *recorder) beginRecord(what string, write func(ctx context.Context) error) (wait func() error) {
	stored := r.begin("record "+what, write, func() error { return nil })
	return func() error {
		err := stored()
		if err != nil {
			r.log.Error("cannot record the application's state", "what", what, "error", err)
		}
		return err
	}
}

// store writes what completes "cannot ..." and then has next follow on the unit's
// goroutine, unless that failed. While the disk does not answer it returns
// app.Unavailable within patience; both happen when it does, in order.
func (r *recorder) store(what string, write func(ctx context.Context) error, next func() error) error {
	return r.begin(what, write, next)()
}

// begin is store that returns what waits for it, which must be called once.
func (r *recorder) begin(what string, write func(ctx context.Context) error, next func() error) (wait func() error) {
	began := time.Now()
	e := &entry{do: write, done: make(chan struct{})}
	e.after = func(err error) {
		r.log.Warn("the disk answers again", "what", what, "after", time.Since(began), "error", err)
		if err == nil {
			err = r.do(context.Background(), next)
		}
		if err != nil {
			r.log.Error("what waited for the disk was not done", "what", what, "error", err)
		}
	}
	r.submit(e)
	return func() error {
		if !r.wait(e) {
			r.log.Warn("the disk does not answer; what waits for it is done when it does", "what", what)
			return app.Errorf(app.Unavailable, "cannot %s: %s; berth does it when the disk answers", what, app.Words(app.DiskSilent))
		}
		if e.err != nil {
			return e.err
		}
		return next()
	}
}

// submit begins to write an entry behind those before it. Behind what waits for the disk
// nobody waits: the unit must be there for what follows.
func (r *recorder) submit(e *entry) {
	r.mu.Lock()
	before, settled := r.last, make(chan struct{})
	r.last = settled
	if r.behind() {
		e.left = r.leave(e)
	}
	r.mu.Unlock()
	r.work.Go(func() {
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
}

// wait returns true once an entry is written, and false when the disk does not answer
// within patience: then its after follows.
func (r *recorder) wait(e *entry) bool {
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
