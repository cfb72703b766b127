package host

import (
	"context"

	"berth/app"
)

// deployFirst builds a reserved application whose tree is in place, makes it
// exist and starts it. Its owner sees it meanwhile, and can call it off; when
// that happens, or the build fails, nothing of it stays.
func (h *Host) deployFirst(ctx context.Context, a app.App, plan app.Plan, d app.Deploy) (app.Deployed, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	u := newUnit(h, a)
	u.deploy, u.unborn = cancel, true
	u.publish()
	h.register(u)
	ctx = u.tellProgress(ctx, app.DeployUpload)
	err := h.build(ctx, a, &plan, "")
	if err == nil {
		err = u.grown(ctx)
	}
	if err == nil {
		app.ProgressOf(ctx)(app.Progress{Phase: app.Launching, App: a.ID})
		printed, run := h.Logs.Mark(a.ID), firstRun{}
		if err = u.do(context.Background(), u.create(d, &run)); err == nil {
			u.tellDeploy(app.DeployUpload, app.DeployDone, nil)
			return h.deployed(u, plan, run.exit, run.err, printed), nil
		}
	}
	u.tellDeploy(app.DeployUpload, app.DeployFailed, err)
	_ = u.do(context.Background(), u.abandon) // always taken: the unit ends with it, not before
	return app.Deployed{}, err
}

// firstRun is how the first start went: nothing when the program has lived
// for the ok delay.
type firstRun struct {
	exit *app.Exit // when it ended before
	err  error     // when it could not be started
}

// create is the end of a first deployment that went well: the application
// exists from here on, and starts. It replies when the program has lived for
// the ok delay or ended, with an error only when there is no application.
func (u *unit) create(d app.Deploy, run *firstRun) func(func(error)) {
	return func(reply func(error)) {
		if u.closing != open {
			reply(u.h.calledOff())
			return
		}
		created, err := u.h.Registry.CreateApp(context.Background(), u.app, d)
		if err != nil {
			reply(err)
			return
		}
		u.app, u.unborn, u.deploy = created, false, nil
		u.h.bound(context.Background(), created, 1)
		// What the host has no room for stays offline, as its owner reads; a fault of
		// the host is none of the owner's to mend.
		fault := func(err error) bool { return app.KindOf(err) == app.Internal || app.KindOf(err) == app.Unavailable }
		if run.err = u.asked(fault); run.err != nil {
			reply(nil)
			return
		}
		u.fresh = true
		u.watch = append(u.watch, func(x *app.Exit) {
			run.exit = x
			reply(nil)
		})
	}
}

// abandon is the end of a first deployment that failed: everything of the
// application is removed, and then whoever waits for that is answered.
func (u *unit) abandon(reply func(error)) {
	u.closing = ended
	u.log.Info("first deployment abandoned")
	u.h.unregister(u.id) // before its name is free for another
	u.h.release(context.Background(), u.app)
	u.tellRemoved()
	u.endDeploy(reply)
}
