package host

import (
	"context"

	"berth/app"
)

// reporter reports the events of one application to those who watch. Any goroutine may
// use it.
type reporter struct {
	notify func(app.Event)
	id     app.ID
	owner  app.AccountID
}

func (r reporter) event(e app.Event) {
	if r.notify != nil {
		e.App, e.Owner = r.id, r.owner
		r.notify(e)
	}
}

// state reports what is shown now, if that is not what was shown before.
func (r reporter) state(before, now app.Snapshot) {
	change := func(s app.Snapshot) app.StateChange {
		return app.StateChange{
			State: s.State, Running: s.Running, Name: s.Name, RAM: s.RAM, Attempt: s.Attempt, RetryAt: s.RetryAt, Reach: s.Reachable(),
		}
	}
	if c := change(now); c != change(before) {
		r.event(app.Event{Kind: app.StateEvent, State: &c})
	}
}

// deploy reports a step of a deployment that has no progress of its own.
func (r reporter) deploy(kind app.DeployKind, phase app.DeployPhase, err error) {
	step := app.DeployStep{Kind: kind, Phase: phase}
	if err != nil {
		step.Why = forUser(err)
	}
	r.event(app.Event{Kind: app.DeployEvent, Deploy: &step})
}

// progress reports that a deployment has begun, and then to those who watch what is
// reported to whoever asked for it.
func (r reporter) progress(ctx context.Context, kind app.DeployKind) context.Context {
	r.deploy(kind, app.DeployBegun, nil)
	asked := app.ProgressOf(ctx)
	return app.WithProgress(ctx, func(p app.Progress) {
		asked(p)
		r.event(app.Event{Kind: app.DeployEvent, Deploy: &app.DeployStep{Kind: kind, Phase: p.Phase.Word(), Position: p.Position, Why: p.Why}})
	})
}
