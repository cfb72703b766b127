package host

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"berth/app"
)

const (
	// buildTail is how much of a build's output is returned.
	buildTail = 64 << 10
	// lastLines is how much of a program's output explains its early end.
	lastLines = 1800
	// longWait is how long a build waits before the answer tells.
	longWait = 3 * time.Second
)

// build runs the plan's preparation, step by step, when its turn has come; a
// long wait becomes one of the plan's notes. stage is the copy to build in, or
// "" to build in the live tree. An error explains itself to the user and
// carries the build's output.
func (h *Host) build(ctx context.Context, a app.App, plan *app.Plan, stage app.Stage) error {
	if len(plan.Prepare) == 0 {
		return nil
	}
	turn, err := h.builds.join(a.ID, a.Account)
	if err != nil {
		return err
	}
	defer h.builds.leave(turn)
	waited, err := h.await(ctx, turn)
	if err != nil {
		return err
	}
	if waited >= longWait {
		plan.Notes = append(plan.Notes, "the build waited "+lasted(waited)+" for its turn")
	}
	if err := h.Quotas.Room("build the application"); err != nil {
		return err
	}
	if err := h.Logs.BeginBuild(a.ID); err != nil {
		return err
	}
	variables, err := h.buildVariables(ctx, a.ID)
	if err != nil {
		return err
	}
	app.ProgressOf(ctx)(app.Progress{Phase: app.Building, App: a.ID})
	limited, cancel := context.WithTimeout(ctx, h.BuildTimeout)
	defer cancel()
	limited, end := h.whileRoom(limited)
	defer end()
	for _, step := range plan.Prepare {
		err := h.step(limited, a, step, stage, variables)
		switch {
		case err == nil:
		case ctx.Err() != nil:
			return h.calledOff()
		case app.KindOf(context.Cause(limited)) == app.NoSpace:
			return withLogs(context.Cause(limited), h.preparation(a.ID, *plan))
		case errors.Is(context.Cause(limited), context.DeadlineExceeded):
			return withLogs(app.Errorf(app.Unusable, "cannot prepare the application: it took longer than %s", h.BuildTimeout),
				h.preparation(a.ID, *plan))
		default:
			return withLogs(err, h.preparation(a.ID, *plan))
		}
	}
	return nil
}

// await returns when the turn has come, and how long that took.
func (h *Host) await(ctx context.Context, t *turn) (time.Duration, error) {
	log, since := h.Log.With("app", t.id), time.Now()
	if t.position > 0 {
		log.Info("build waits", "position", t.position)
		h.Logs.Note(t.id, fmt.Sprintf("waiting to be built: number %d in the queue", t.position))
		app.ProgressOf(ctx)(app.Progress{Phase: app.Queued, App: t.id, Position: t.position})
	}
	select {
	case <-t.come:
	case <-ctx.Done():
		return 0, h.calledOff()
	}
	waited := time.Since(since)
	log.Info("build begins", "waited", waited)
	return waited, nil
}

// step runs one command of the preparation in a group of its own.
func (h *Host) step(ctx context.Context, a app.App, step app.Step, stage app.Stage, variables []app.Variable) error {
	run, err := h.Launch(ctx, app.Program{
		App: a.ID, Account: a.Account, Build: true, Argv: step.Argv, Env: step.Env, Variables: variables, Stage: stage,
		UID: a.UID, Port: a.Port, RAM: h.BuildRAM, Share: h.ramNow(a),
	})
	if err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, func() { run.Stop(0) })
	e := run.Wait()
	stop()
	switch {
	case e.OOM:
		return app.Errorf(app.Unusable,
			"cannot prepare the application: %q needed more than %d MB; upload it with its dependencies, or ask the owner of this host to raise build.ram",
			command(step), h.BuildRAM)
	case e.Code != 0 && !step.OnFail.IsZero():
		return app.Errorf(app.Unusable, "cannot prepare the application: %s", step.OnFail)
	case e.Code != 0:
		return app.Errorf(app.Unusable, "cannot prepare the application: %q failed with exit code %d", command(step), e.Code)
	}
	return nil
}

// ramNow is the RAM of an application, which may have changed since a was
// read: a build can be long.
func (h *Host) ramNow(a app.App) app.MB {
	u, err := h.find(a.Account, a.ID)
	if err != nil {
		return a.RAM
	}
	return u.view.Load().RAM
}

// command is a step as its author would type it.
func command(s app.Step) string {
	if s.Text != "" || len(s.Argv) == 0 {
		return s.Text
	}
	return strings.Join(append([]string{path.Base(s.Argv[0])}, s.Argv[1:]...), " ")
}

// preparation is what there is to say of how an application was prepared: what
// berth did otherwise than asked, and what its build printed.
func (h *Host) preparation(id app.ID, plan app.Plan) string {
	logs := slices.Clone(plan.Notes)
	if len(plan.Prepare) > 0 {
		logs = append(logs, h.Logs.Tail(id, true, buildTail))
	}
	return strings.Join(logs, "\n")
}

// deployed is the answer to a deployment that made it. printed is what the
// program has printed since.
func (h *Host) deployed(u *unit, plan app.Plan, e *app.Exit, startErr error, printed func(int) string) app.Deployed {
	var logs []string
	if text := h.preparation(u.id, plan); text != "" {
		logs = append(logs, strings.TrimRight(text, "\n"))
	}
	if startErr != nil {
		text := "the application is there but did not start: " + forUser(startErr)
		if u.view.Load().State == app.Waiting {
			text += "; berth tries again"
		}
		logs = append(logs, text)
	}
	if e != nil {
		logs = append(logs, strings.TrimRight(printed(lastLines), "\n"))
	}
	return app.Deployed{Snapshot: u.view.Load().Snapshot, Logs: strings.Join(logs, "\n")}
}
