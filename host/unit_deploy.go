package host

import (
	"cmp"
	"context"
	"slices"
	"time"

	"berth/app"
)

// What a deployment has the unit do, on the unit's goroutine.

// beginDeploy marks the application as being deployed; cancel calls the
// deployment off. There is one at a time.
func (u *unit) beginDeploy(cancel context.CancelFunc) error {
	switch err := cmp.Or(u.refuse(), u.h.barred(u.owner)); {
	case err != nil:
		return err
	case u.deploy != nil:
		return u.busy("being deployed")
	case u.state == app.Stopping:
		return u.busy("being stopped")
	}
	u.deploy = &deployment{cancel: cancel}
	return nil
}

// firstStart is how the first start went: nothing when the program has lived for the ok
// delay.
type firstStart struct {
	exit *app.Exit // when it ended before
	err  error     // when it could not be started
}

// create is the end of a first deployment that went well: the application exists from
// here on, and starts unless it is wanted stopped. It replies when the program has lived for the ok delay or
// ended, with an error only when there is no application.
func (u *unit) create(d app.Deploy, variables []app.Variable, reply func(firstStart, error)) {
	if u.closing != stay || u.h.rests(u.owner) {
		reply(firstStart{}, u.h.calledOff())
		return
	}
	created, err := u.h.Registry.CreateApp(context.Background(), u.app, d, variables...)
	if err != nil {
		reply(firstStart{}, err)
		return
	}
	if created.Type == app.Site {
		u.h.namesChanged()
	}
	u.app, u.deploy = created, nil
	u.h.disk.limit(context.Background(), created, 1)
	if created.Wanted == app.WantStopped {
		u.enter(app.Stopped, 0)
		reply(firstStart{}, nil)
		return
	}
	// What the host has too little memory for stays offline, as its owner reads; a fault
	// of the host is none of the owner's to mend.
	fault := func(err error) bool { return app.KindOf(err) == app.Internal || app.KindOf(err) == app.Unavailable }
	if err := u.startAnew(u.h.scarce(), fault); err != nil {
		reply(firstStart{err: err}, nil)
		return
	}
	u.proof = fresh
	u.outcome = append(u.outcome, func(e *app.Exit) { reply(firstStart{exit: e}, nil) })
}

// abandon is the end of a first deployment that failed: everything of the
// application is removed, and then whoever waits for that is answered.
func (u *unit) abandon() {
	u.log.Info("first deployment abandoned")
	u.h.unregister(u.id) // before its name is free for another
	u.deploy = nil
	u.forget()
}

// pause ends the program so that the tree can be changed under it, and replies when no
// program runs, and no console command, with what there is to come back to.
func (u *unit) pause(reply func(app.Snapshot, error)) {
	if u.state == app.Stopped {
		u.resign() // it ended a moment ago
	}
	u.publish()
	before := u.view.Load().Snapshot
	switch u.state {
	case app.Starting, app.Online:
		u.drainAndStop(app.Words(whyDeployed))
	case app.Waiting, app.Stopped, app.Preparing:
		u.enter(app.Stopped, 0)
		u.stopSecond()
	case app.Stopping: // a stop came first
	}
	u.after(deploy, func(err error) { reply(before, err) }, nil)
}

// try starts the new code and replies when it has lived for the ok delay (nil) or ended.
func (u *unit) try(c *commit, reply func(*app.Exit, error)) {
	if u.closing != stay {
		reply(nil, u.refuse())
		return
	}
	u.app.Code, u.app.AutoRestart, u.mixedTree = c.plan.Code, c.auto, false
	u.deploy.variables = c.variables
	if u.deploy.stopped { // it is deployed, and stays offline
		reply(nil, nil)
		return
	}
	u.recovered()
	if err := u.launch(c.journal, false); err != nil {
		reply(nil, err)
		return
	}
	c.number, c.started = u.app.LastRun, u.app.StartedAt
	u.app.LastExit = nil // recorded with the deployment, like what is wanted
	u.means(app.WantOnline)
	u.proof = trial
	u.outcome = append(u.outcome, func(e *app.Exit) { reply(e, nil) })
}

// recorded is the event that the deployment is good. A wish for system packages fails
// no commit.
func (u *unit) recorded(c *commit) {
	u.deploy.variables = nil
	if c.apts {
		_ = u.storeApts(c.plan.Apts) // logged
	}
}

func (u *unit) storeApts(apts []string) error {
	err := u.records.record("the system packages", func(ctx context.Context) error { return u.h.Records.SetApts(ctx, u.id, apts) })
	if err == nil {
		u.app.Apts = apts
	}
	return err
}

// resume goes on with the code that was there before a commit that failed.
func (u *unit) resume(before app.Snapshot) {
	u.app.Code, u.app.AutoRestart, u.deploy.variables = before.Code, before.AutoRestart, nil
	u.attempt = before.Attempt
	u.setExit(before.LastExit)
	if !u.deploy.stopped && u.app.Wanted != before.Wanted {
		_ = u.want(before.Wanted)
	}
	if u.closing == stay && !u.mixedTree && u.app.Wanted == app.WantOnline && u.state == app.Stopped {
		u.h.Logs.Note(u.id, "the code from before the deployment is back")
		u.retry()
	}
}

// whyAlone is why a site is stopped before its new code is started.
func (u *unit) whyAlone(c *commit) (why string, note bool) {
	switch {
	case u.h.Visits == nil || u.app.Type != app.Site:
		return "it is no site", false
	case u.closing != stay || u.deploy.stopped || u.state != app.Online || u.mixedTree || u.second != nil,
		slices.ContainsFunc(u.consoles, (*console).alone):
		return "it is not online", false
	case u.app.Code.Static() || c.plan.Code.Static():
		return "it has files alone", false
	case u.app.Code.Health == app.HealthOff || c.plan.Code.Health == app.HealthOff:
		return "HEALTH=off", false
	case !u.run.listening.At.IsValid():
		return "its program takes no visitors", false
	case !u.run.listening.Own:
		return "its program does not listen on process.env.PORT, and two cannot have one port", true
	}
	return "", false
}

// beside reserves RAM and a port for a second run, the candidate. It returns nil when
// there are none, or two must not go on at once.
func (u *unit) beside(c *commit) (*run, error) {
	why, note := u.whyAlone(c)
	if why == "" {
		err := u.reserveSecond()
		if err == nil {
			return u.second, nil
		}
		why, note = forUser(err), true
	}
	u.log.Debug("a commit stops the program first", "why", why)
	if note {
		u.h.Logs.Note(u.id, "the old program is stopped before the new one is started, visitors wait: "+why)
	}
	return nil, nil
}

func (u *unit) reserveSecond() (err error) {
	port := u.app.Port
	if u.run.port == port {
		if port, err = u.h.Registry.Spare(context.Background(), u.id); err != nil {
			return err
		}
	}
	if err := u.h.capacity.reserve(secondOf(u.id), u.app.RAM); err != nil {
		return err
	}
	u.second = newRun(nil, 0, port, candidate)
	return nil
}

// startBeside starts the new code as the candidate.
func (u *unit) startBeside(c *commit, r *run) error {
	if u.closing != stay || u.deploy.stopped || u.h.rests(u.owner) {
		return u.h.calledOff()
	}
	p, err := u.program(c.plan.Code)
	if err != nil {
		return err
	}
	p.Run, p.Port, p.Journal, p.Beside, p.CPU = u.nextNumber(), r.port, c.journal, true, u.h.share(u.owner, u.id)
	r.printed = u.h.Logs.Mark(u.id)
	program, err := u.h.Launch(u.h.ctx, p)
	if err != nil {
		return err
	}
	r.Instance, r.number, c.number, c.started = program, p.Run, p.Run, time.Now()
	u.log.Info("second run started", "run", r.number, "port", r.port)
	u.waitFor(r)
	return nil
}

// giveUp is the end of a trial that failed; whole says whether the tree is one
// code again. A program that ended meanwhile gets what it would have got then.
func (u *unit) giveUp(candidate *run, whole bool) {
	if u.second == candidate {
		u.second = nil
	}
	u.h.capacity.release(secondOf(u.id))
	u.mixedTree = !whole
	x := u.pendingExit
	if x == nil || u.state != app.Stopped {
		return
	}
	u.pendingExit = nil
	switch {
	case u.deploy.stopped || u.closing == shutdown || u.closing == remove:
	case whole:
		u.endedByItself(*x)
	default:
		u.resign()
	}
}

// promote makes the new run the application's, whose commit is recorded. The old
// one gets no new requests, and ends when its last are answered.
func (u *unit) promote(c *commit, next *run) {
	next.listening = c.listening
	u.app.Code, u.app.AutoRestart = c.plan.Code, c.auto
	u.app.LastRun, u.app.StartedAt = c.number, c.started
	u.log.Info("visitors are brought to the new run", "run", next.number)
	u.recorded(c)
	u.second = nil
	if u.state == app.Stopped { // the old one ended by itself
		u.pendingExit = nil
	}
	switch {
	case u.deploy.stopped || u.state == app.Stopping: // both end, and the code is good
		if next.runs() {
			u.second, next.role = next, retiring
		}
	case u.state != app.Stopped:
		u.relieve(next)
	case next.runs():
		u.h.capacity.release(secondOf(u.id))
		u.h.capacity.force(u.id, u.app.RAM)
		u.adoptCandidate(next)
	default: // neither runs any more
		u.crashed(next)
	}
}

// relieve lets the new run take the place of the one that runs.
func (u *unit) relieve(next *run) {
	old := u.run
	u.interrupt(app.Words(whyDeployed))
	u.h.capacity.force(secondOf(u.id), u.app.RAM)
	u.adoptCandidate(next)
	u.second, old.role = old, retiring
	if !next.runs() { // it has ended just now
		u.run = nil
		u.h.capacity.release(u.id)
		u.crashed(next)
	}
	u.publish() // before anybody counts the requests
	u.drain(old, u.h.DrainTimeout, true)
}

// adoptCandidate makes a run that is well the application's.
func (u *unit) adoptCandidate(r *run) {
	u.run, r.role = r, primary
	u.recovered()
	u.setExit(nil)
	_ = u.want(app.WantOnline) // logged; it runs whatever is recorded
	u.enter(app.Online, 0)
	u.watchHealth(r)
}

// crashed is the end of a candidate that has become the application's program.
func (u *unit) crashed(r *run) {
	x := programEnd{r, r.exit}
	u.recordExit(&x)
	if u.closing == shutdown { // killed in a hurry; what is wanted stays
		u.enter(app.Stopped, 0)
		return
	}
	u.endedByItself(x)
}
