package host

import (
	"context"
	"time"

	"berth/app"
)

// run is one run of an application's program: unit.run, or a second one beside it. Only
// the unit's goroutine reads and writes it, but for what is set before it is started,
// and what is said to be read once it has ended.
type run struct {
	Instance // nil until it is started
	number   int
	port     int // that it was given
	role     role
	stopped  bool            // it was asked to end
	life     context.Context // until exit is set
	end      context.CancelFunc
	exit     app.Exit
	printed  func(max int) string // what it has printed

	// Of a site's program.
	listening app.Listening
	silent    bool     // it has opened no port for long
	unwell    bool     // it does not answer its HEALTH path
	hint      app.Text // what to do about the one or the other
	noted     int      // the port, not its own, that its log names
}

// role is what a run is to its application.
type role int

const (
	primary   role = iota // the application's program
	candidate             // new code on trial beside the old
	retiring              // old code whose last requests are being answered
)

// programEnd is a run that has ended, and how.
type programEnd struct {
	run  *run
	exit app.Exit
}

// newRun is a program that was started, or is nil until then.
func newRun(in Instance, number, port int, is role) *run {
	r := &run{Instance: in, number: number, port: port, role: is}
	r.life, r.end = context.WithCancel(context.Background())
	return r
}

// runs reports whether its program runs. Of nil, it does not.
func (r *run) runs() bool { return r != nil && r.Instance != nil && r.life.Err() == nil }

// is reports whether it has a role. Of nil, it has none.
func (r *run) is(role role) bool { return r != nil && r.role == role }

// stop asks its program to end, once.
func (r *run) stop(grace time.Duration) {
	if !r.stopped {
		r.stopped = true
		r.Stop(grace)
	}
}

// secondOf is the name under which a second run is counted in the host's memory.
func secondOf(id app.ID) app.ID { return id + " second" }

// sleep waits, and reports false when ctx ended first.
func sleep(ctx context.Context, pause time.Duration) bool {
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
