package httpapi

import (
	"strings"
	"sync"
	"time"

	"berth/app"
)

const (
	reportPace = 200 * time.Millisecond // between two reports of what is new
	placePace  = 2 * time.Second        // between two checks of the queue
	maxLog     = 16 << 10               // bytes of output in one frame
)

// news is a piece of how a deployment goes.
type news struct {
	app     app.ID
	phase   app.Phase
	reached bool // the phase, or the place, is new; else there is more output
	place   int  // in the queue, 1 being next, while app.Queued
	output  string
}

// reporter gathers how one deployment goes, and hands it on at the pace of the client.
// The deployment waits for neither.
type reporter struct {
	c    *call
	from deployments
	// send sends what is new, or nothing when nothing is; one goroutine at a time calls it,
	// every placePace at least.
	send func([]news)
	wake chan struct{}
	done chan struct{} // closed when no more is reported

	mu      sync.Mutex
	pending []news       // what was not sent yet
	now     news         // the phase, as it was reported last
	build   app.Follower // nil until there is one
}

func newReporter(c *call, from deployments, send func([]news)) *reporter {
	return &reporter{c: c, from: from, send: send, wake: make(chan struct{}, 1), done: make(chan struct{})}
}

// begin reports in the background until quiet is called, which blocks until everything
// was sent. Only its first call does.
func (r *reporter) begin() (quiet func()) {
	var reporting sync.WaitGroup
	reporting.Go(r.report)
	return sync.OnceFunc(func() {
		close(r.done)
		reporting.Wait()
		r.flush()
		if r.build != nil {
			r.build.Close()
		}
	})
}

// progress notes how far a deployment has come. It never waits for the client.
func (r *reporter) progress(p app.Progress) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.take() // belongs before what follows
	if p.Phase == app.Building {
		r.follow(p.App)
	}
	r.reach(news{app: p.App, phase: p.Phase, place: p.Position})
}

// reach reports a phase, or a place in the queue. The caller holds mu.
func (r *reporter) reach(n news) {
	r.now = n
	n.reached = true
	r.pending = append(r.pending, n)
	r.nudge()
}

// take reports what the build has printed. The caller holds mu.
func (r *reporter) take() {
	if r.build == nil {
		return
	}
	n := r.now
	if n.output = r.build.Take(); n.output != "" {
		r.pending = append(r.pending, n)
	}
}

// follow begins to report the output of a build. The caller holds mu.
func (r *reporter) follow(id app.ID) {
	if r.build != nil {
		return
	}
	f, err := r.from.logs.FollowBuild(id)
	if err != nil { // then the output comes at the end alone
		r.c.log.Warn("cannot follow a build", "app", id, "request", r.c.RequestID, "cause", err)
		return
	}
	r.build = f
}

// nudge wakes report. It never blocks.
func (r *reporter) nudge() {
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// report sends what is new until done, at the pace of the client, and a few times a
// second at most.
func (r *reporter) report() {
	places := time.NewTicker(placePace)
	defer places.Stop()
	for {
		select {
		case <-r.done:
			return
		case <-places.C:
			r.checkQueue()
		case <-r.wake:
		case <-r.output():
		}
		r.flush()
		select {
		case <-r.done:
			return
		case <-time.After(reportPace):
		}
	}
}

// output receives when the build may have printed, never without a build.
func (r *reporter) output() <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.build == nil {
		return nil
	}
	return r.build.Ready()
}

// checkQueue reports a build that waits and has moved up.
func (r *reporter) checkQueue() {
	r.mu.Lock()
	known := r.now
	r.mu.Unlock()
	if known.phase != app.Queued {
		return
	}
	snapshot, err := r.from.apps.App(r.c.owner(), known.app)
	if err != nil {
		return // gone; the deployment reports that
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if place := snapshot.Position; r.now == known && place > 0 && place != known.place {
		known.place = place
		r.reach(known)
	}
}

// flush sends what is new now.
func (r *reporter) flush() {
	r.mu.Lock()
	r.take()
	all := r.pending
	r.pending = nil
	r.mu.Unlock()
	r.send(all)
}

// cutOutput returns what fits into a frame, whole lines unless one alone does not fit, and
// the rest.
func cutOutput(log string) (first, rest string) {
	n := len(log)
	if n > maxLog {
		n = max(strings.LastIndexByte(log[:maxLog], '\n')+1, strings.IndexByte(log, '\n')+1)
	}
	return log[:n], log[n:]
}
