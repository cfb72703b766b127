package host

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	"berth/app"
)

// unit is one application. Its goroutine alone changes it; others call do and read view.
type unit struct {
	h       *Host
	id      app.ID
	owner   app.AccountID
	created time.Time
	log     *slog.Logger
	report  reporter

	cmds     chan func()
	exits    chan programEnd
	quit     chan struct{} // closed when the goroutine has ended
	view     atomic.Pointer[view]
	disk     diskUse
	measured atomic.Pointer[measured]
	records  recorder
	online   atomic.Bool // what is wanted, see wanted

	// The goroutine's own.
	app         app.App
	state       app.State
	run         *run                // nil unless a program runs
	second      *run                // beside it; nil when there is none
	used        int                 // the highest number of a run
	consoles    []*console          // the console commands and sessions that run
	deploy      *deployment         // under way; nil when none is
	mixedTree   bool                // half of one code and half of another, which nothing starts
	proof       proof               // of the code that was started
	outcome     []func(e *app.Exit) // called once the start went well (nil) or the program has ended
	pendingExit *programEnd         // of the program, while the second run decides what follows
	ending      func()              // waits until the program's exit is recorded, and reports it; nil when that is done
	steps       []step              // follow once nothing is in their way
	closing     then                // remove, shutdown or detach: no command is taken; else stay
	resting     bool                // the account is suspended, or programs are held: what is wanted starts when that ends
	over        bool                // the goroutine is to end
	attempt     int
	waited      time.Duration // between the starts of these attempts
	starts      []time.Time   // by berth alone in the last day, oldest first; never changed in place
	spent       bool          // the owner knows that the budget of them is
	retryAt     time.Time     // in Waiting; zero: when its turn has come after the boot
	timer       *time.Timer   // of the state: ok delay, healthyAfter, back-off, settling
	refusal     string        // why it could not be started, as it is in the event log
}

// deployment is what a unit knows of the deployment under way.
type deployment struct {
	cancel    context.CancelFunc
	first     bool           // nothing of the application is recorded yet
	stopped   bool           // a person stopped the application meanwhile
	variables []app.Variable // of a restore that is not recorded yet; nil when the recorded ones hold
}

// proof is how far the code that was started has proved itself.
type proof int

const (
	proven proof = iota
	fresh        // a deployment waits for the outcome of its start
	trial        // and a commit decides what follows if it ends
)

// then is what follows once nothing of the application is in the way.
type then int

const (
	stay     then = iota // nothing
	start                // the program starts again
	again                // it does after the pause of a crash
	deploy               // a deployment changes the tree
	rest                 // nothing runs while the account is suspended, or the host holds its programs
	remove               // the application is deleted
	shutdown             // the daemon ends
	detach               // the daemon ends, and the program goes on
)

// step is what follows, and whom that is reported to.
type step struct {
	then  then
	reply func(error)
	err   error // what there is to report, if nothing else fails
}

// view is what others see.
type view struct {
	app.Snapshot
	run *run
}

// measured is a Status as it was found.
type measured struct {
	of     *view
	at     time.Time
	status app.Status
}

func newUnit(h *Host, a app.App) *unit {
	u := &unit{
		h: h, id: a.ID, owner: a.Account, created: a.CreatedAt, log: h.Log.With("app", a.ID), report: reporter{h.Notify, a.ID, a.Account},
		cmds: make(chan func()), exits: make(chan programEnd), quit: make(chan struct{}),
		app: a, state: app.Stopped, timer: time.NewTimer(time.Hour),
	}
	u.disk.trees, u.disk.id, u.disk.view, u.disk.log = h.Trees, u.id, &u.view, u.log
	u.records = recorder{work: &h.work, log: u.log, do: u.do}
	u.timer.Stop()
	u.means(a.Wanted)
	u.publish()
	return u
}

// loop is the unit's goroutine; it ends after a shutdown or a delete, when
// nothing of the application runs any more.
func (u *unit) loop() {
	defer close(u.quit)
	for {
		if !u.due() {
			u.settle()
		}
		u.proceed()
		if !u.due() {
			u.publish()
		}
		if u.over {
			return
		}
		select {
		case cmd := <-u.cmds:
			cmd()
		case e := <-u.exits:
			u.exited(e)
		case <-u.timer.C:
			u.tick()
		}
	}
}

// request lets the unit's goroutine run f, which calls reply exactly once, now or
// later, and returns what was replied. The work goes on when ctx ends first.
func request[T any](ctx context.Context, u *unit, f func(reply func(T, error))) (value T, err error) {
	type answer struct {
		value T
		err   error
	}
	answers := make(chan answer, 1)
	select {
	case u.cmds <- func() {
		f(func(value T, err error) {
			u.publish() // whoever gets the answer sees what it speaks of
			answers <- answer{value, err}
		})
	}:
	case <-u.quit:
		return value, u.gone()
	case <-ctx.Done():
		return value, ctx.Err()
	}
	select {
	case a := <-answers:
		return a.value, a.err
	case <-ctx.Done():
		return value, ctx.Err()
	}
}

// ask is request for what f answers at once.
func ask[T any](ctx context.Context, u *unit, f func() (T, error)) (T, error) {
	return request(ctx, u, func(reply func(T, error)) { reply(f()) })
}

// do is ask for what has no answer but an error.
func (u *unit) do(ctx context.Context, f func() error) error {
	_, err := ask(ctx, u, func() (struct{}, error) { return struct{}{}, f() })
	return err
}

// call is do for what cannot fail; a unit that has ended does nothing.
func (u *unit) call(ctx context.Context, f func()) {
	_ = u.do(ctx, func() error { f(); return nil })
}

// await is do for what is answered later.
func (u *unit) await(ctx context.Context, f func(reply func(error))) error {
	_, err := request(ctx, u, func(reply func(struct{}, error)) { f(func(err error) { reply(struct{}{}, err) }) })
	return err
}

// gone is the answer of a unit that has ended.
func (u *unit) gone() error {
	if u.h.ctx.Err() != nil {
		return app.Errorf(app.Unavailable, "the server is shutting down; try again in a minute")
	}
	return noApp(u.id)
}

// publish makes the state visible to readers, once the exit that it shows is recorded.
func (u *unit) publish() {
	u.settle()
	s := app.Snapshot{
		App: u.app, State: u.state, Attempt: u.attempt, Starts: u.starts,
		Deploying: u.deploy != nil, Suspended: u.h.owners.suspended(u.owner),
	}
	s.Running = u.run != nil && u.state != app.Stopping
	switch {
	case u.queued():
		s.State = app.Starting
	case u.state == app.Waiting:
		s.RetryAt = u.retryAt
	}
	if s.Running {
		s.Reach, s.Silent, s.Unwell, s.Why = u.run.listening.At, u.run.silent, u.run.unwell, u.run.hint
		if !u.run.listening.Own {
			s.Elsewhere = u.run.listening.Port
		}
	}
	if u.deploy != nil && u.run == nil {
		s.State = app.Preparing
	}
	before := u.view.Swap(&view{Snapshot: s, run: u.run})
	if before != nil && !u.removed() {
		u.report.state(before.Snapshot, s)
	}
}

// removed reports whether the application is gone, which was the last to report of it.
func (u *unit) removed() bool { return u.over && u.closing == remove }

// queued reports whether the application waits for its turn after the boot.
func (u *unit) queued() bool { return u.state == app.Waiting && u.retryAt.IsZero() }

// creating reports whether its first deployment is under way.
func (u *unit) creating() bool { return u.deploy != nil && u.deploy.first }

// enter is the only writer of the state. after is when tick is due, 0 for
// never.
func (u *unit) enter(s app.State, after time.Duration) {
	u.state = s
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
	return u.records.record("what is wanted", func(ctx context.Context) error { return u.h.Records.SetWanted(ctx, u.id, w) })
}

// logEvent remembers what has no record of its own.
func (u *unit) logEvent(p app.HistoryEvent) {
	_ = u.records.record("what happened", func(ctx context.Context) error { return u.h.Registry.AddHistoryEvent(ctx, u.id, p) })
}

// setExit records the exit that is shown, and forgets it when e is nil.
func (u *unit) setExit(e *app.Exit) {
	if u.app.LastExit != e {
		_ = u.beginExit(e)()
	}
}

// beginExit is setExit that returns what waits for it, which must be called once.
func (u *unit) beginExit(e *app.Exit) (wait func() error) {
	u.app.LastExit = e
	return u.records.beginRecord("the exit", func(ctx context.Context) error {
		if e == nil {
			return u.h.Records.ClearExit(ctx, u.id)
		}
		return u.h.Records.RunEnded(ctx, u.id, *e)
	})
}

func (u *unit) busy(what string) error {
	return app.Errorf(app.Conflict, "the application is %s; try again in a moment", app.Words(what))
}

// refuse returns why no command is taken now, nil when they are.
func (u *unit) refuse() error {
	switch u.closing {
	case shutdown, detach:
		return app.Errorf(app.Unavailable, "the server is shutting down; try again in a minute")
	case remove:
		return noApp(u.id)
	case stay, start, deploy, rest, again:
	}
	if u.creating() {
		return app.Errorf(app.Conflict, "the application is being deployed for the first time; wait until that is done, or stop it")
	}
	return nil
}

// start is a person's start.
func (u *unit) start() error {
	if err := u.refuse(); err != nil {
		return err
	}
	switch u.state {
	case app.Starting, app.Online:
		return app.Errorf(app.Already, "the application is already %s", app.Words("online"))
	case app.Stopping:
		return u.busy("being stopped")
	case app.Stopped, app.Waiting, app.Preparing:
	}
	if err := u.h.barred(u.owner); err != nil {
		return err
	}
	switch {
	case u.deploy != nil:
		return u.busy("being deployed")
	case u.state == app.Waiting:
		return u.startAgain(u.h.scarce())
	}
	return u.startAnew(u.h.scarce(), func(err error) bool { return errors.Is(err, errShort) })
}

// startAgain is startAnew for what is wanted online already: a start that fails for the
// host's reasons, its disk, its memory or a moment without processes, is tried again
// like one at boot. A program that cannot be started fails the same way again.
func (u *unit) startAgain(cannot error) error {
	return u.startAnew(cannot, func(err error) bool {
		kind := app.KindOf(err)
		return kind != app.Unusable && kind != app.Invalid
	})
}

// startAnew launches because somebody asked, unless cannot says why not: the last exit is no longer shown, crashes
// are counted anew. A start that failed leaves it stopped, unless that passes. What is
// wanted is recorded once: a crash meets what it was before, or what it is from here on.
func (u *unit) startAnew(cannot error, passes func(error) bool) error {
	u.recovered()
	u.setExit(nil)
	err := cmp.Or(cannot, u.checkDisk())
	if err == nil {
		err = u.launch("", false)
	}
	switch {
	case err == nil:
		return u.want(app.WantOnline)
	case passes(err):
		_ = u.want(app.WantOnline) // logged; the start's own error is the answer
		u.putOff(err)
	default:
		u.enter(app.Stopped, 0)
		_ = u.want(app.WantStopped) // as above
	}
	return err
}

// restart is a person's restart.
func (u *unit) restart(reply func(error)) {
	err := u.refuse()
	if err == nil && u.deploy != nil {
		err = u.busy("being deployed")
	}
	if err != nil {
		reply(err)
		return
	}
	switch u.state {
	case app.Starting, app.Online:
		u.drainAndStop(app.Textf("the application was restarted"))
		u.after(start, reply, nil)
	case app.Waiting:
		reply(u.startAgain(u.h.scarce()))
	case app.Stopping:
		reply(u.busy("being stopped"))
	case app.Stopped, app.Preparing:
		reply(cmp.Or(u.h.Held().Refusal(), app.Errorf(app.Already, "the application is offline; start it instead")))
	}
}

// stop is a person's stop. It calls off a deployment under way; of a first
// one nothing stays.
func (u *unit) stop(reply func(error)) {
	if u.creating() {
		u.remove(reply)
		return
	}
	deploying := u.deploy != nil
	err := u.refuse()
	if err == nil && u.state == app.Stopping && !deploying {
		err = u.busy("being stopped")
	}
	if err != nil {
		reply(err)
		return
	}
	if deploying {
		u.deploy.cancel()
		u.deploy.stopped = true
	}
	offline := u.state == app.Stopped && !deploying
	switch u.state {
	case app.Starting, app.Online: // first, for the record may have to wait for the disk
		u.stopRun(app.Textf("the application was stopped"))
	case app.Waiting:
		u.recovered()
		u.enter(app.Stopped, 0)
		u.h.Logs.Note(u.id, "stopped; it is not started again")
	case app.Stopping, app.Stopped, app.Preparing: // between the old code and the new, or offline
	}
	if deploying || u.app.Wanted == app.WantOnline {
		err = u.want(app.WantStopped)
	}
	if offline {
		err = app.Errorf(app.Already, "the application is already offline")
	}
	u.stopSecond()
	u.after(stay, reply, err)
}

// remove deletes the application: it calls off a deployment, ends the
// program, and then forgets everything.
func (u *unit) remove(reply func(error)) {
	if u.closing != stay {
		reply(u.refuse())
		return
	}
	u.close(remove, reply)
}

// close takes no more commands and ends with what follows once the application is at
// rest: it is deleted, the program ends with the daemon, or goes on without it.
func (u *unit) close(last then, reply func(error)) {
	if u.closing != stay {
		return
	}
	u.closing = last
	if u.deploy != nil {
		u.deploy.cancel()
	}
	u.after(last, reply, nil)
}

// kill is a shutdown that does not wait for the program.
func (u *unit) kill() {
	u.close(shutdown, nil)
	for _, r := range []*run{u.run, u.second} {
		if r.runs() {
			r.Stop(0)
		}
	}
}

// after has a step follow as soon as nothing is in its way.
func (u *unit) after(t then, reply func(error), err error) {
	u.steps = append(u.steps, step{t, reply, err})
}

// proceed takes the steps that nothing is in the way of, in order.
func (u *unit) proceed() {
	if u.state == app.Stopping && u.run == nil && !u.second.runs() {
		e := u.pendingExit.exit
		u.pendingExit = nil
		u.h.Logs.Note(u.id, stopped(e, u.h.StopGrace))
		u.enter(app.Stopped, 0)
		u.verdict(&e)
	}
	for {
		i := slices.IndexFunc(u.steps, func(s step) bool { return u.ready(s.then) })
		if i < 0 {
			return
		}
		s := u.steps[i]
		u.steps = slices.Delete(u.steps, i, i+1)
		switch s.then {
		case stay, deploy, rest:
			s.reply(s.err)
		case start:
			s.reply(u.startAgain(nil)) // the host has the memory of the one before
		case again:
			u.startLater()
		case remove:
			s.reply(u.erase())
		case shutdown, detach:
			u.verdict(nil) // who waits for a start hears that it goes on
			u.over = true
		}
	}
}

// ready reports whether nothing is in the way of what follows, and ends what is.
func (u *unit) ready(t then) bool {
	if u.state == app.Stopping || t >= rest && u.deploy != nil {
		return false
	}
	why := app.Textf("the server is shutting down")
	switch t {
	case stay, start, again:
		return !u.second.runs()
	case deploy:
		return !u.second.runs() && u.stopConsole(app.Words(whyDeployed))
	case detach:
		if !u.stopSecond() {
			return false
		}
		u.interrupt(why)
		return u.run == nil || u.run.Leave()
	case rest:
		why = u.whyResting()
	case remove:
		why = app.Textf("the application was deleted")
	case shutdown:
	}
	if u.run != nil {
		u.stopRun(why)
		return false
	}
	u.enter(app.Stopped, 0)
	return u.stopSecond() && u.stopConsole(why)
}

// whyResting is why what runs ends while u is resting.
func (u *unit) whyResting() app.Text {
	if u.h.Held().Why != "" {
		return app.Textf("the programs of this host are held")
	}
	return app.Textf("the account was suspended")
}

// erase forgets the application. The record goes first: a crash after it
// leaves files that the next boot removes, never a record without files. The
// place goes last: nobody gets the name or the uid while files have them. Only
// on a full disk the files must go first, for they make the space that the
// record takes to be forgotten.
func (u *unit) erase() error {
	if u.over { // abandoned, with everything
		return nil
	}
	ctx := context.Background()
	err := u.h.Registry.DeleteApp(ctx, u.id)
	if app.KindOf(err) == app.NoSpace {
		u.means(app.WantStopped) // nothing is left to be started
		if err = errors.Join(u.h.Trees.Remove(ctx, u.id), u.h.Forget(u.id)); err == nil {
			err = u.h.Registry.DeleteApp(ctx, u.id)
		}
	}
	if err == nil {
		u.h.namesChanged()
		u.h.unregister(u.id)
		u.forget()
		u.log.Info("application deleted")
		return nil
	}
	if u.h.ctx.Err() != nil {
		u.over, u.closing = true, shutdown
		return err
	}
	u.closing = stay // still there, and says so
	if u.app.Wanted == app.WantOnline && !u.mixedTree {
		u.retry()
	}
	return err
}

// forget is the end of an application that is no more.
func (u *unit) forget() {
	u.h.release(context.Background(), u.app)
	u.over, u.closing = true, remove
	u.report.event(app.Event{Kind: app.RemovedEvent})
}
