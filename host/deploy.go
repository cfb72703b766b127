package host

import (
	"context"
	"errors"

	"berth/app"
)

// What a deployment asks of the unit, each on the unit's goroutine.

// beginDeploy marks the application as being deployed; cancel calls the
// deployment off. There is one at a time.
func (u *unit) beginDeploy(cancel context.CancelFunc) func(func(error)) {
	return func(reply func(error)) {
		if err := u.refuse(); err != nil {
			reply(err)
			return
		}
		switch {
		case u.deploy != nil:
			reply(u.busy("being deployed"))
		case u.state == app.Stopping:
			reply(u.busy("being stopped"))
		default:
			u.deploy, u.stopped = cancel, false
			reply(nil)
		}
	}
}

// endDeploy is the end of a deployment, however it went.
func (u *unit) endDeploy(reply func(error)) {
	u.deploy = nil
	reply(nil)
	if then := u.resting; then != nil {
		u.resting = nil
		then()
	}
}

// pause ends the program so that the tree can be changed under it. before is
// set to what there is to come back to.
func (u *unit) pause(before *app.Snapshot) func(func(error)) {
	return func(reply func(error)) {
		if u.state == app.Stopped {
			u.resign() // it ended a moment ago
		}
		u.publish()
		*before = u.view.Load().Snapshot
		u.rest(reply)
	}
}

// rest replies when no program runs, and no console command.
func (u *unit) rest(reply func(error)) {
	switch u.state {
	case app.Starting, app.Online:
		u.yield(app.Words(whyDeployed), func() { u.hush(app.Words(whyDeployed), func() { reply(nil) }) })
	case app.Stopping: // a stop came first; follow it
		u.follow(func() { u.hush(app.Words(whyDeployed), func() { reply(nil) }) })
	case app.Waiting, app.Stopped, app.Preparing:
		u.enter(app.Stopped, 0)
		u.without(func() { u.hush(app.Words(whyDeployed), func() { reply(nil) }) })
	}
}

// whole notes whether the tree is one code or half of two, which nothing starts.
func (u *unit) whole(is bool) func(func(error)) {
	return func(reply func(error)) {
		u.broken = !is
		reply(nil)
	}
}

// try starts the new code and replies when it has lived for the ok delay or
// ended; e tells which.
func (u *unit) try(c *commit, e **app.Exit) func(func(error)) {
	return func(reply func(error)) {
		if u.closing != open {
			reply(u.refuse())
			return
		}
		u.app.Code, u.app.AutoRestart, u.broken = c.plan.Code, c.auto, false
		u.variables = c.variables
		if u.stopped { // it is deployed, and stays offline
			reply(nil)
			return
		}
		u.attempt = 0
		u.journal = c.journal
		err := u.launch()
		u.journal = ""
		if err != nil {
			reply(err)
			return
		}
		c.number, c.started = u.app.LastRun, u.app.StartedAt
		u.app.LastExit = nil // recorded with the deployment, like what is wanted
		u.means(app.WantOnline)
		u.trial, u.fresh = true, true
		u.watch = append(u.watch, func(x *app.Exit) {
			*e = x
			reply(nil)
		})
	}
}

// mean is the event that something else is wanted, which the deployment will
// record; what a person said meanwhile holds.
func (u *unit) mean(w app.Wanted) func(func(error)) {
	return func(reply func(error)) {
		if !u.stopped {
			u.means(w)
		}
		reply(nil)
	}
}

// resume goes on with the code that was there before a commit that failed.
func (u *unit) resume(before app.Snapshot) func(func(error)) {
	return func(reply func(error)) {
		u.app.Code, u.app.AutoRestart, u.variables = before.Code, before.AutoRestart, nil
		u.attempt = before.Attempt
		u.showExit(before.LastExit)
		if !u.stopped && u.app.Wanted != before.Wanted {
			_ = u.want(before.Wanted)
		}
		if u.closing == open && !u.broken && u.app.Wanted == app.WantOnline && u.state == app.Stopped {
			u.h.Logs.Note(u.id, "the code from before the deployment is back")
			u.retry()
		}
		reply(nil)
	}
}

// showExit makes e the exit that is told again, after a start that was undone.
func (u *unit) showExit(e *app.Exit) {
	if u.app.LastExit == e {
		return
	}
	u.app.LastExit = e
	_ = u.record("the exit", func(ctx context.Context) error {
		if e == nil {
			return u.h.Records.ClearExit(ctx, u.id)
		}
		return u.h.Records.RunEnded(ctx, u.id, *e)
	})
}

// calledOff is the error of a deployment that was cancelled.
func (h *Host) calledOff() error {
	if h.ctx.Err() != nil {
		return app.Errorf(app.Unavailable, "the server is shutting down; upload it again in a minute")
	}
	return app.Errorf(app.Conflict, "the deployment was called off: the application was stopped or deleted meanwhile")
}

// forUser is what an application's owner may read of an error: causes name
// paths of the host.
func forUser(err error) string {
	var e *app.Error
	if errors.As(err, &e) {
		return e.Message.String()
	}
	return "internal error; the server's log tells more"
}

// withLogs adds what the build or the program printed to an error for the
// user.
func withLogs(err error, logs string) error {
	var e *app.Error
	if !errors.As(err, &e) || e.Logs != "" {
		return err
	}
	with := *e
	with.Logs = logs
	return &with
}
