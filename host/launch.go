package host

import (
	"cmp"
	"context"
	"time"

	"berth/app"
)

// launch starts the program of the live tree. It changes the state only when
// it succeeds; a failure is returned and noted by the caller.
func (u *unit) launch() error {
	if u.broken {
		return halves()
	}
	plan, err := u.h.Plan(configOf(u.app), true, u.h.Staging.Files("", u.id), u.app.Code.Packages)
	if err != nil {
		return err
	}
	p, err := u.program(plan)
	if err != nil {
		return err
	}
	if err := u.h.capacity.take(u.id, u.app.RAM); err != nil {
		return err
	}
	u.interrupt(app.Textf("the application was started"))
	u.app.LastRun = u.number()
	p.Run = u.app.LastRun
	if p.Beside = u.twin.runs(); p.Beside && u.twin.port == p.Port { // whose last requests are being answered
		if p.Port, err = u.spare(); err != nil {
			return err
		}
	}
	run, err := u.h.Launch(u.h.ctx, p)
	if err != nil {
		u.h.capacity.give(u.id)
		u.log.Error("cannot start the program", "error", err)
		return err
	}
	u.run, u.port, u.refusal = run, p.Port, ""
	u.app.StartedAt = time.Now()
	_ = u.record("the start", func(ctx context.Context) error {
		return u.h.Records.RunStarted(ctx, u.id, u.app.LastRun, u.app.StartedAt)
	})
	u.log.Info("program started", "run", u.app.LastRun, "ram", u.app.RAM)
	u.enter(app.Starting, max(u.h.OKDelay, 1))
	u.watchPort(u.app.StartedAt)
	u.await(run)
	return nil
}

// await tells the unit of the program's end, if it is still there by then.
func (u *unit) await(run Instance) {
	u.h.waits.Go(func() {
		e := run.Wait()
		select {
		case u.exits <- end{run, e}:
		case <-u.quit:
		}
	})
}

// adopt goes on with the program that an earlier daemon left, if it did.
func (u *unit) adopt() bool {
	if u.h.Adopt == nil {
		return false
	}
	p, _ := u.program(app.Plan{}) // its variables are with it already
	s, err := u.h.Adopt(p)
	if err != nil {
		u.log.Error("cannot go on with the program that an earlier daemon left running", "error", err)
		u.h.Logs.Note(u.id, "berth could not go on with the program after its own restart")
	}
	if s == nil {
		return false
	}
	u.run, u.port = s, cmp.Or(s.Port, u.app.Port)
	if u.app.LastRun != s.Run { // the daemon died between the start and its record
		u.app.LastRun, u.app.StartedAt = s.Run, s.StartedAt
		_ = u.record("the start", func(ctx context.Context) error {
			return u.h.Records.RunStarted(ctx, u.id, s.Run, s.StartedAt)
		})
	}
	u.h.capacity.force(u.id, u.app.RAM)
	u.log.Info("program adopted", "run", s.Run, "since", s.StartedAt)
	u.enter(app.Online, 0)
	u.watchPort(time.Now())
	u.await(s)
	return true
}

// halves is the error of a tree that is half of one code and half of another.
func halves() error {
	return app.Errorf(app.Unusable, "a commit failed and the code from before it could not be brought back; commit the whole code again")
}

// program is what a plan makes of the application now.
func (u *unit) program(plan app.Plan) (app.Program, error) {
	// At each start, for a command may have changed them beside the daemon.
	variables, err := u.h.Records.Variables(context.Background(), u.id)
	if u.variables != nil {
		variables = u.variables
	}
	return app.Program{
		App: u.id, Account: u.app.Account, Run: u.app.LastRun, Code: plan.Code, Argv: plan.Argv, Env: plan.Env, Variables: variables,
		Journal: u.journal, UID: u.app.UID, Port: u.app.Port, RAM: u.app.RAM, Share: u.app.RAM,
	}, err
}

// configOf is what a stored deployment would have written in its config.
func configOf(a app.App) app.Config {
	c := a.Code
	cfg := app.Config{Type: a.Type, Main: c.Main, Version: c.Version, Start: c.Start, Build: c.Build, Health: c.Health}
	for key, value := range map[string]string{"MAIN": c.Main, "VERSION": c.Version, "START": c.Start, "BUILD": c.Build, "HEALTH": c.Health} {
		if value != "" {
			cfg.Keys = append(cfg.Keys, key)
		}
	}
	return cfg
}
