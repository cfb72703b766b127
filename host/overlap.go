package host

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"berth/app"
)

// healthEvery is the pause between two looks at a new run.
const healthEvery = 250 * time.Millisecond

// whyAlone is why a site is stopped before its new code is started.
func (u *unit) whyAlone(c *commit) (why string, tell bool) {
	switch {
	case u.h.Visits == nil || c.kind != app.DeployCommit || u.app.Type != app.Site:
		return "it is no site, or no commit", false
	case u.closing != open || u.stopped || u.state != app.Online || u.broken || u.twin != nil || u.console != nil && !u.console.online:
		return "it is not online", false
	case u.app.Code.Static() || c.plan.Code.Static():
		return "it has files alone", false
	case u.app.Code.Health == app.HealthOff || c.plan.Code.Health == app.HealthOff:
		return "HEALTH=off", false
	case u.listening.Port == 0:
		return "its program takes no visitors", false
	case !u.listening.Own:
		return "its program does not listen on process.env.PORT, and two cannot have one port", true
	}
	return "", false
}

// beside makes room for a second run: RAM, and a port. t stays nil when there
// is none, or two must not go on at once.
func (u *unit) beside(c *commit, t **twin) func(func(error)) {
	return func(reply func(error)) {
		defer reply(nil)
		why, tell := u.whyAlone(c)
		if why == "" {
			var err error
			if *t, err = u.room(); err == nil {
				u.twin = *t
				return
			}
			why, tell = forUser(err), true
		}
		u.log.Debug("a commit stops the program first", "why", why)
		if tell {
			u.h.Logs.Note(u.id, "the old program is stopped before the new one is started, visitors wait: "+why)
		}
	}
}

func (u *unit) room() (*twin, error) {
	port := u.app.Port
	if u.port == port {
		var err error
		if port, err = u.spare(); err != nil {
			return nil, err
		}
	}
	if err := u.h.capacity.take(twinOf(u.id), u.app.RAM); err != nil {
		return nil, err
	}
	return &twin{port: port, ended: make(chan struct{})}, nil
}

// spare returns the application's second port.
func (u *unit) spare() (int, error) { return u.h.Registry.Spare(context.Background(), u.id) }

// overlap lays the new code over the tree under the running program, starts it
// beside that, and brings the visitors to it when it is well. Until then a
// failure, a stop or a delete leaves the program as it is, and its files as they
// were.
func (c *commit) overlap(ctx context.Context, t *twin, stageOf func(context.Context) (app.Stage, error)) (app.Deployed, error) {
	h, u := c.h, c.u
	printed := h.Logs.Mark(u.id)
	done, err := c.applyBeside(ctx, stageOf)
	var run Instance
	if err == nil {
		err = u.do(context.Background(), u.startBeside(c, t, done.Journal, &run))
	}
	if err == nil {
		err = c.await(ctx, t, run)
	}
	if err == nil {
		c.number, c.started = t.number, t.started
		err = c.record(context.Background(), done)
	}
	if err != nil {
		return app.Deployed{}, c.backBeside(t, withLogs(err, printed(lastLines)))
	}
	_ = u.do(context.Background(), u.promote(c, t))
	if c.apts {
		_ = u.do(context.Background(), u.setApts(c.plan.Apts)) // told in the log: a wish fails no commit
	}
	return h.deployed(u, c.plan, nil, nil, printed), nil
}

// applyBeside changes the tree. The context calls it off before that, not
// within.
func (c *commit) applyBeside(ctx context.Context, stageOf func(context.Context) (app.Stage, error)) (app.Applied, error) {
	whole := context.Background()
	if err := c.h.settle(whole, c.u.id, c.before.UID); err != nil {
		return app.Applied{}, err
	}
	stage, err := stageOf(whole)
	if err != nil {
		return app.Applied{}, err
	}
	defer c.h.Staging.Discard(stage)
	if ctx.Err() != nil {
		return app.Applied{}, c.h.calledOff()
	}
	return c.h.Trees.Apply(whole, stage, c.u.id, c.before.UID)
}

// startBeside starts the new code.
func (u *unit) startBeside(c *commit, t *twin, journal string, run *Instance) func(func(error)) {
	return func(reply func(error)) {
		if u.closing != open || u.stopped {
			reply(u.h.calledOff())
			return
		}
		next := u.app
		next.Code = c.plan.Code
		plan, err := u.h.Plan(configOf(next), true, u.h.Staging.Files("", u.id), next.Code.Packages)
		if err != nil {
			reply(err)
			return
		}
		p, err := u.program(plan)
		if err != nil {
			reply(err)
			return
		}
		p.Run, p.Port, p.Journal, p.Beside = u.number(), t.port, journal, true
		t.printed = u.h.Logs.Mark(u.id)
		if *run, err = u.h.Launch(u.h.ctx, p); err != nil {
			reply(err)
			return
		}
		t.run, t.number, t.started = *run, p.Run, time.Now()
		u.log.Info("second run started", "run", t.number, "port", t.port)
		u.await(t.run)
		reply(nil)
	}
}

// await blocks until the new run has lived for the ok delay and is well, or
// returns why that will not be.
func (c *commit) await(ctx context.Context, t *twin, run Instance) error {
	limited, cancel := context.WithTimeout(ctx, c.h.HealthTimeout)
	var watching sync.WaitGroup
	watching.Go(func() {
		select {
		case <-t.ended:
			cancel()
		case <-limited.Done():
		}
	})
	defer watching.Wait()
	defer cancel()
	ticker := time.NewTicker(healthEvery)
	defer ticker.Stop()
	why := errors.New("it was not asked")
	for {
		if now := c.check(limited, run); limited.Err() == nil {
			if why = now; why == nil && time.Since(t.started) >= c.h.OKDelay {
				return nil
			}
		}
		select {
		case <-ticker.C:
		case <-limited.Done():
			return c.unwell(ctx, t, why)
		}
	}
}

// check looks once whether the new run is well.
func (c *commit) check(ctx context.Context, run Instance) error {
	if run.Ended() { // what it left running may still listen
		return errors.New("it has ended")
	}
	l, err := run.Listens()
	path := c.plan.Code.Health
	switch {
	case err != nil:
		return err
	case l.Port == 0:
		return errors.New("it has opened no port; listen on process.env.PORT")
	case !l.Own:
		return fmt.Errorf("it listens on port %d; listen on process.env.PORT", l.Port)
	case path == "":
		return nil
	}
	return c.h.Visits.Healthy(ctx, c.u.id, l.Port, path)
}

// unwell is the error of a new run that is not.
func (c *commit) unwell(ctx context.Context, t *twin, why error) error {
	select {
	case <-t.ended:
		if ctx.Err() != nil {
			return c.h.calledOff()
		}
		hint := ""
		if !t.exit.OOM {
			hint = "; if no two copies of it can run at once, set HEALTH=off"
		}
		return app.Errorf(app.Unusable, "cannot start the new code beside the old (%s): the program from before the %s goes on%s", sentence(t.exit), c.kind, hint)
	default:
	}
	if ctx.Err() != nil {
		return c.h.calledOff()
	}
	if why == nil {
		why = errors.New("it has not run for long enough")
	}
	return app.Errorf(app.Unusable, "cannot bring visitors to the new code: it was not well within %s (%v); the program from before the %s goes on; if the new one needs longer to start, set HEALTH=off",
		lasted(c.h.HealthTimeout), why, c.kind)
}

// backBeside ends the new run, undoes what was applied and returns err.
func (c *commit) backBeside(t *twin, err error) error {
	_ = c.u.do(context.Background(), c.u.endTwin) // nothing of the new code runs while its files go
	undo := c.h.settle(context.Background(), c.u.id, c.before.UID)
	_ = c.u.do(context.Background(), c.u.giveUp(t, undo == nil))
	if undo == nil {
		return err
	}
	c.u.log.Error("cannot undo a deployment; the next commit or start of berth tries again", "error", undo)
	const sorry = "the deployment failed and the code from before it could not be brought back: what runs goes on, and cannot be started again; commit the whole code again"
	c.h.Logs.Note(c.u.id, sorry)
	return &app.Error{Kind: app.Internal, Message: app.Words(sorry), Err: errors.Join(err, undo)}
}

// giveUp is the end of a trial that failed; whole says whether the tree is one
// code again. A program that ended meanwhile gets what it would have got then.
func (u *unit) giveUp(t *twin, whole bool) func(func(error)) {
	return func(reply func(error)) {
		defer reply(nil)
		if u.twin == t {
			u.twin = nil
		}
		u.h.capacity.give(twinOf(u.id))
		u.broken = !whole
		e := u.lost
		u.lost = nil
		if e == nil || u.stopped || u.state != app.Stopped || u.closing == byShutdown || u.closing == byDelete {
			return
		}
		if whole {
			u.ended(*e)
			return
		}
		u.resign()
	}
}

// promote makes the new run the application's, whose commit is recorded. The old
// one gets no new requests, and ends when its last are answered.
func (u *unit) promote(c *commit, t *twin) func(func(error)) {
	return func(reply func(error)) {
		defer reply(nil)
		before := u.app.LastRun
		u.app.Code, u.app.AutoRestart = c.plan.Code, c.auto
		u.app.LastRun, u.app.StartedAt = t.number, t.started
		u.log.Info("visitors are brought to the new run", "run", t.number)
		u.twin, u.lost = nil, nil
		switch {
		case u.stopped || u.state == app.Stopping: // both end, and the code is good
			if !t.over {
				u.twin = t
				t.old = true
			}
		case u.state == app.Stopped && t.over: // neither runs any more
			u.end(t.exit)
		case u.state == app.Stopped: // the old one ended by itself
			u.h.capacity.give(twinOf(u.id))
			u.h.capacity.force(u.id, u.app.RAM)
			u.take(t)
		default:
			u.relieve(t, before)
		}
	}
}

// relieve lets the new run take the place of the one that runs, which has this
// number.
func (u *unit) relieve(t *twin, number int) {
	old := &twin{run: u.run, number: number, port: u.listening.Port, old: true, ended: make(chan struct{})}
	u.interrupt(app.Words(whyDeployed))
	u.h.capacity.force(twinOf(u.id), u.app.RAM)
	u.take(t)
	u.twin = old
	if t.over { // just now: it crashes as any program does
		u.run = nil
		u.h.capacity.give(u.id)
		u.end(t.exit)
	}
	u.publish() // before anybody counts the requests
	u.drain(old.port, u.h.DrainTimeout, true, func() {
		if !old.over {
			old.run.Stop(u.h.StopGrace)
		}
	})
}

// take makes a run that is well the application's.
func (u *unit) take(t *twin) {
	u.unwatch()
	u.run, u.port = t.run, t.port
	u.listening, u.silent = app.Listening{Port: t.port, Own: true}, false
	u.printed, u.attempt = t.printed, 0
	u.forgetExit()
	_ = u.want(app.WantOnline) // told in the log; it runs whatever is recorded
	u.enter(app.Online, 0)
}

// end records an exit of the application's program, and decides what follows.
func (u *unit) end(e app.Exit) {
	if u.closing == byShutdown { // killed in a hurry; what is wanted stays
		u.enter(app.Stopped, 0)
		return
	}
	e.Run = u.app.LastRun
	u.app.LastExit = &e
	_ = u.record("the exit", func(ctx context.Context) error { return u.h.Records.RunEnded(ctx, u.id, e) })
	u.ended(e)
}

// inUse reports whether a program says that a port it asked for is taken.
func inUse(printed string) bool {
	return strings.Contains(printed, "EADDRINUSE") || strings.Contains(strings.ToLower(printed), "address already in use")
}
