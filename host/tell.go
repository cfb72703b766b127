package host

import (
	"context"
	"time"

	"berth/app"
)

// What the unit tells those who watch, and what is remembered for those who
// look later.

// tell tells an event of the application. Any goroutine may call it.
func (u *unit) tell(e app.Event) {
	if u.h.Tell == nil {
		return
	}
	e.App, e.Owner = u.id, u.owner
	u.h.Tell(e)
}

// tellState tells what is shown now, if that is not what was shown before.
func (u *unit) tellState(before, now app.Snapshot) {
	change := func(s app.Snapshot) app.StateChange {
		return app.StateChange{State: s.State, Running: s.Running, Name: s.Name, RAM: s.RAM, Attempt: s.Attempt, RetryAt: s.RetryAt}
	}
	if c := change(now); c != change(before) {
		u.tell(app.Event{Kind: app.StateEvent, State: &c})
	}
}

// tellRemoved is the last that is told of the application.
func (u *unit) tellRemoved() {
	u.removed = true
	u.tell(app.Event{Kind: app.RemovedEvent})
}

// tellDeploy tells a step of a deployment that has no progress of its own.
func (u *unit) tellDeploy(kind app.DeployKind, phase app.DeployPhase, err error) {
	step := app.DeployStep{Kind: kind, Phase: phase}
	if err != nil {
		step.Why = forUser(err)
	}
	u.tell(app.Event{Kind: app.DeployEvent, Deploy: &step})
}

// tellProgress tells that a deployment has begun, and lets those who watch hear
// what it tells whoever asked for it.
func (u *unit) tellProgress(ctx context.Context, kind app.DeployKind) context.Context {
	u.tellDeploy(kind, app.DeployBegun, nil)
	asked := app.ProgressOf(ctx)
	return app.WithProgress(ctx, func(p app.Progress) {
		asked(p)
		phase := map[app.Phase]app.DeployPhase{
			app.Checked: app.DeployChecked, app.Queued: app.DeployQueued, app.Building: app.DeployBuilding, app.Launching: app.DeployLaunching,
		}[p.Phase]
		u.tell(app.Event{Kind: app.DeployEvent, Deploy: &app.DeployStep{Kind: kind, Phase: phase, Position: p.Position}})
	})
}

// chronicle remembers what has no record of its own.
func (u *unit) chronicle(p app.HistoryEvent) {
	_ = u.record("what happened", func(ctx context.Context) error { return u.h.Registry.AddHistoryEvent(ctx, u.id, p) })
}

// EventLog returns what happened to an application lately, newest first, or
// app.NotFound. It fails with app.Conflict while it is deployed for the first
// time.
func (h *Host) EventLog(ctx context.Context, owner app.AccountID, id app.ID) ([]app.HistoryEvent, error) {
	var all []app.HistoryEvent
	err := h.change(ctx, owner, id, func(ctx context.Context, _ *unit) (err error) {
		all, err = h.Registry.EventLog(ctx, id)
		return err
	})
	if err != nil { // all may still be written to
		return nil, err
	}
	for i := range all {
		all[i].Text = Words(all[i], h.StopGrace)
	}
	return all, nil
}

// Words says in a sentence what happened; grace is what a program had to end in
// when it was asked to.
func Words(p app.HistoryEvent, grace time.Duration) string {
	e := p.Exit
	switch {
	case p.Text != "" || e == nil:
		return p.Text
	case e.Asked && !e.OOM:
		return stopped(*e, grace)
	}
	return sentence(*e).String()
}

// Measure calls each for every program that runs, one after the other; those
// that only refuses are left out, none when it is nil. Sites of files have
// nothing to measure.
func (h *Host) Measure(ctx context.Context, only func(owner app.AccountID, id app.ID) bool, each func(m app.Measured)) {
	h.mu.RLock()
	units := make([]*unit, 0, len(h.units))
	for _, u := range h.units {
		units = append(units, u)
	}
	h.mu.RUnlock()
	for _, u := range units {
		v := u.view.Load()
		if !v.Running || v.run == nil || v.Code.Static() || only != nil && !only(u.owner, u.id) {
			continue
		}
		if ctx.Err() != nil {
			return
		}
		counts, err := v.run.Counts()
		switch {
		case err != nil && u.view.Load().run == v.run:
			u.log.Warn("cannot measure the program", "error", err)
		case err == nil && counts != app.Counts{}:
			each(app.Measured{App: u.id, Owner: u.owner, Run: v.LastRun, StartedAt: v.StartedAt, Counts: counts})
		}
	}
}
