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
	// longWait is how long a build waits before the answer says so.
	longWait = 3 * time.Second
)

// buildJob is the preparation of one application.
type buildJob struct {
	h     *Host
	app   app.App
	plan  *app.Plan
	stage app.Stage // the copy to build in, or "" to build in the live tree
}

// run runs the plan's preparation, step by step, when its turn has come; a long wait
// becomes one of the plan's notes. An error explains itself to the user and carries the
// build's output.
func (b buildJob) run(ctx context.Context) error {
	h, a, plan := b.h, b.app, b.plan
	if len(plan.Prepare) == 0 {
		return nil
	}
	if err := h.barred(a.Account); err != nil {
		return err
	}
	turn, err := h.builds.join(a.ID, a.Account, h.limits(a.Account).Builds)
	if err != nil {
		return err
	}
	defer h.builds.leave(turn)
	if err := b.wait(ctx, turn); err != nil {
		return err
	}
	if err := h.Quotas.CheckFree("build the application"); err != nil {
		return err
	}
	if err := h.Logs.BeginBuild(a.ID); err != nil {
		return err
	}
	variables, err := b.variables(ctx)
	if err != nil {
		return err
	}
	app.ProgressOf(ctx)(app.Progress{Phase: app.Building, App: a.ID})
	limited, cancel := context.WithTimeout(ctx, h.BuildTimeout)
	defer cancel()
	limited, end := h.disk.whileSpace(limited)
	defer end()
	for _, step := range plan.Prepare {
		err := b.step(limited, step, variables)
		switch {
		case err == nil:
		case ctx.Err() != nil:
			return h.calledOff()
		case app.KindOf(context.Cause(limited)) == app.NoSpace:
			return withLogs(context.Cause(limited), preparation(h.Logs, a.ID, *plan))
		case errors.Is(context.Cause(limited), context.DeadlineExceeded):
			return withLogs(app.Errorf(app.Unusable, "cannot prepare the application: it took longer than %s", h.BuildTimeout),
				preparation(h.Logs, a.ID, *plan))
		default:
			return withLogs(err, preparation(h.Logs, a.ID, *plan))
		}
	}
	return nil
}

// wait returns when the turn has come.
func (b buildJob) wait(ctx context.Context, t *turn) error {
	log, since := b.h.Log.With("app", t.id), time.Now()
	if t.position > 0 {
		log.Info("build waits", "position", t.position)
		note := fmt.Sprintf("waiting to be built: number %d in the queue", t.position)
		if t.why != "" {
			note += ", for " + t.why
		}
		b.h.Logs.Note(t.id, note)
		app.ProgressOf(ctx)(app.Progress{Phase: app.Queued, App: t.id, Position: t.position, Why: t.why})
	}
	select {
	case <-t.come:
	case <-ctx.Done():
		return b.h.calledOff()
	}
	waited := time.Since(since)
	log.Info("build begins", "waited", waited)
	if waited >= longWait {
		b.plan.Notes = append(b.plan.Notes, "the build waited "+lasted(waited)+" for its turn")
	}
	return nil
}

// variables are the variables of a step. A build gets no NODE_ENV: with "production"
// npm, pnpm and Yarn leave out the packages that builds need. Before its first deployment
// is done an application has none.
func (b buildJob) variables(ctx context.Context) ([]app.Variable, error) {
	all, err := b.h.Records.Variables(context.WithoutCancel(ctx), b.app.ID)
	if app.KindOf(err) == app.NotFound {
		return nil, nil
	}
	return slices.DeleteFunc(all, func(v app.Variable) bool { return v.Name == "NODE_ENV" }), err
}

// step runs one command of the preparation in a group of its own.
func (b buildJob) step(ctx context.Context, step app.Step, variables []app.Variable) error {
	h, a, ram := b.h, b.app, b.app.RAM
	if u, err := h.find(a.Account, a.ID); err == nil {
		ram = u.view.Load().RAM // it may have changed since: a build can be long
	}
	defer h.capacity.build(a.ID, ram)()
	run, err := h.Launch(ctx, app.Program{
		App: a.ID, Account: a.Account, Build: true, Argv: step.Argv, Runtime: b.plan.Runtime, Env: step.Env, Variables: variables, Stage: b.stage,
		UID: a.UID, Port: a.Port, RAM: h.BuildRAM, Share: ram, CPU: h.share(a.Account, a.ID),
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
	case e.HostOOM:
		return app.Errorf(app.Unavailable,
			"cannot prepare the application: this host ran short of memory while %q ran, and a build is ended before most programs; try again in a few minutes", command(step))
	case e.Code != 0 && !step.OnFail.IsZero():
		return app.Errorf(app.Unusable, "cannot prepare the application: %s", step.OnFail)
	case e.Code != 0:
		return app.Errorf(app.Unusable, "cannot prepare the application: %q failed with exit code %d", command(step), e.Code)
	}
	return nil
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
func preparation(from Logs, id app.ID, plan app.Plan) string {
	logs := slices.Clone(plan.Notes)
	if len(plan.Prepare) > 0 {
		logs = append(logs, from.Tail(id, true, buildTail))
	}
	return strings.Join(logs, "\n")
}
