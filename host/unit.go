package host

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"berth/app"
)

// unit is one application. Its goroutine alone changes it; others call do
// and read view.
type unit struct {
	h       *Host
	id      app.ID
	owner   app.AccountID
	created time.Time
	log     *slog.Logger

	cmds     chan func()
	exits    chan end
	quit     chan struct{} // closed when the goroutine has ended
	view     atomic.Pointer[view]
	disk     diskUse
	measured atomic.Pointer[measured]
	records  recorder
	online   atomic.Bool // what is wanted, see wanted

	// The goroutine's own.
	app       app.App
	state     app.State
	run       Instance           // nil unless a program runs
	port      int                // that it was given
	used      int                // the highest number of a run
	twin      *twin              // a second run beside it; nil when there is none
	lost      *app.Exit          // of the program, when it ended while new code was on trial beside it
	halted    *app.Exit          // of the program, in Stopping, while the second run has not ended
	watch     []func(*app.Exit)  // told once whether the start went well (nil) or how it ended
	variables []app.Variable     // of a restore that is not recorded yet; nil when the recorded ones hold
	trial     bool               // a commit's start: the deployment decides what follows its end
	fresh     bool               // a start of new code, whose deployment waits for the verdict
	deploy    context.CancelFunc // ends the deployment under way; nil when none is
	attempt   int
	retryAt   time.Time
	queued    bool        // in Waiting: for its turn after the boot
	timer     *time.Timer // of the state: ok delay, healthy minute, back-off, settling
	after     func()      // follows once the program is gone, in Stopping
	resting   func()      // follows once the deployment is over
	refusal   string      // why it could not be started, as it is in the chronicle
	stopped   bool        // a person stopped it during the deployment
	removed   bool        // and told so: there is nothing more to tell
	broken    bool        // its tree is half of one code and half of another
	unborn    bool        // its first deployment is under way: nothing of it is recorded yet
	journal   string      // of the deployment that starts it now
	console   *console    // the console command that runs; nil when none does
	hushed    []func()    // follow once it is over
	closing   closing

	// Of a site's program.
	listening   app.Listening
	silent      bool                 // it has opened no port for long
	printed     func(max int) string // what it has printed
	cancelWatch context.CancelFunc   // ends the look-out for its port
}

// end is a program that has ended.
type end struct {
	run  Instance
	exit app.Exit
}

// closing is why a unit takes no more commands.
type closing int

const (
	open closing = iota
	byShutdown
	byLeave
	byDelete
	ended
)

// view is what others see.
type view struct {
	app.Snapshot
	run Instance
}

// measured is a Status as it was found.
type measured struct {
	of     *view
	at     time.Time
	status app.Status
}

// diskUse is the last known size of the tree, measured by whoever asks.
type diskUse struct {
	mu    sync.Mutex
	space app.Space
	at    time.Time
}

func newUnit(h *Host, a app.App) *unit {
	u := &unit{
		h: h, id: a.ID, owner: a.Account, created: a.CreatedAt, log: h.Log.With("app", a.ID),
		cmds: make(chan func()), exits: make(chan end), quit: make(chan struct{}),
		app: a, state: app.Stopped, timer: time.NewTimer(time.Hour),
	}
	u.timer.Stop()
	u.means(a.Wanted)
	u.publish()
	return u
}

// loop is the unit's goroutine; it ends after a shutdown or a delete, when
// nothing of the application runs any more.
func (u *unit) loop() {
	defer close(u.quit)
	for u.closing != ended {
		select {
		case cmd := <-u.cmds:
			cmd()
		case e := <-u.exits:
			u.exited(e)
		case <-u.timer.C:
			u.tick()
		}
		u.publish()
	}
}

// do lets the unit's goroutine run f, which calls reply exactly once, now or
// later, and returns what was replied. The work goes on when ctx ends first.
func (u *unit) do(ctx context.Context, f func(reply func(error))) error {
	answer := make(chan error, 1)
	select {
	case u.cmds <- func() {
		f(func(err error) {
			u.publish() // whoever gets the answer sees what it speaks of
			answer <- err
		})
	}:
	case <-u.quit:
		return u.gone()
	case <-ctx.Done():
		return ctx.Err()
	}
	select {
	case err := <-answer:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// gone is the answer of a unit that has ended.
func (u *unit) gone() error {
	if u.h.ctx.Err() != nil {
		return app.Errorf(app.Unavailable, "the server is shutting down; try again in a minute")
	}
	return noApp(u.id)
}

// publish makes the state visible to readers.
func (u *unit) publish() {
	s := app.Snapshot{App: u.app, State: u.state, Running: u.run != nil && u.state != app.Stopping, Attempt: u.attempt}
	switch {
	case u.state == app.Waiting && u.queued:
		s.State = app.Starting
	case u.state == app.Waiting:
		s.RetryAt = u.retryAt
	}
	if s.Running {
		s.Reach, s.Silent = u.listening.Port, u.silent
	}
	if u.deploy != nil && u.run == nil {
		s.State = app.Preparing
	}
	before := u.view.Swap(&view{Snapshot: s, run: u.run})
	if before != nil && !u.removed {
		u.tellState(before.Snapshot, s)
	}
}

// enter is the only writer of the state. after is when tick is due, 0 for
// never.
func (u *unit) enter(s app.State, after time.Duration) {
	u.state, u.queued = s, false
	u.timer.Stop()
	if after > 0 {
		u.timer.Reset(after)
	}
}

// means sets what is wanted, for a deployment under way to record.
func (u *unit) means(w app.Wanted) {
	u.app.Wanted = w
	u.online.Store(w == app.WantOnline)
}

// wanted is what is wanted now, for who is not on the unit's goroutine.
func (u *unit) wanted() app.Wanted {
	if u.online.Load() {
		return app.WantOnline
	}
	return app.WantStopped
}

// want sets and records what is wanted. It is set first: of a deployment that is
// recorded meanwhile, either the record has it, or this one comes after.
func (u *unit) want(w app.Wanted) error {
	u.means(w)
	return u.record("what is wanted", func(ctx context.Context) error { return u.h.Records.SetWanted(ctx, u.id, w) })
}
