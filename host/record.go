package host

import (
	"context"
	"sync"
	"time"

	"berth/app"
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
	write func(ctx context.Context) error
	after func(error) // when nobody waited to the end
	err   error
	done  chan struct{}
	left  bool // guarded by the recorder's lock, like over
	over  bool
}

// add takes an entry; wait says whether the caller will wait for it or leave it.
func (r *recorder) add(work *sync.WaitGroup, e *entry, wait bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !wait {
		e.left = true
		r.left++
	}
	r.queue = append(r.queue, e)
	if !r.busy {
		r.busy = true
		work.Go(r.run)
	}
}

func (r *recorder) run() {
	for e := r.next(); e != nil; e = r.next() {
		e.err = e.write(context.Background())
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

// leave gives up waiting for an entry; it reports false when it is over.
func (r *recorder) leave(e *entry) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if e.over {
		return false
	}
	e.left = true
	r.left++
	return true
}

// behind reports whether something waits for the disk that nobody waits for.
func (r *recorder) behind() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.left > 0
}

// record writes to the database. A failure is told and does not stop the
// application: what runs, runs. It is returned for those whose caller asked
// for what could not be recorded.
func (u *unit) record(what string, write func(ctx context.Context) error) error {
	err := u.store("record "+what, write, func() error { return nil })
	if err != nil {
		u.log.Error("cannot record the application's state", "what", what, "error", err)
	}
	return err
}

// store writes what completes "cannot ..." and then has then follow on the unit's
// goroutine, unless that failed. While the disk does not answer it returns
// app.Unavailable within patience; both happen when it does, in order.
func (u *unit) store(what string, write func(ctx context.Context) error, then func() error) error {
	began := time.Now()
	e := &entry{write: write, done: make(chan struct{})}
	e.after = func(err error) {
		u.log.Warn("the disk answers again", "what", what, "after", time.Since(began), "error", err)
		if err == nil {
			err = u.do(context.Background(), func(reply func(error)) { reply(then()) })
		}
		if err != nil {
			u.log.Error("what waited for the disk was not done", "what", what, "error", err)
		}
	}
	// Behind what waits for the disk nobody waits: the unit must be there for
	// what follows.
	wait := !u.records.behind()
	u.records.add(&u.h.work, e, wait)
	if wait {
		timer := time.NewTimer(patience)
		defer timer.Stop()
		select {
		case <-e.done:
		case <-timer.C:
			wait = !u.records.leave(e)
		}
	}
	if !wait {
		u.log.Warn("the disk does not answer; what waits for it is done when it does", "what", what)
		return app.Errorf(app.Unavailable, "cannot %s: %s; it is done when it does", what, app.Words(app.DiskSilent))
	}
	if e.err != nil {
		return e.err
	}
	return then()
}
