package host

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"berth/app"
)

// Commit lays a spooled ZIP over an application's tree, prepares it beside
// the running program, and starts it. It takes the file over; the work goes
// on when ctx ends. When preparing or starting fails, the old code is back as
// it was, and runs if it ran. It fails with app.Conflict while another
// deployment is under way. It tells its progress (app.WithProgress).
func (h *Host) Commit(ctx context.Context, owner app.AccountID, id app.ID, file string) (app.Deployed, error) {
	defer h.Staging.DropSpool(file)
	return h.deploy(ctx, owner, id, app.DeployCommit, func(work context.Context, c *commit) (app.Deployed, error) {
		return c.run(work, file)
	})
}

// deploy does one deployment of an application that exists; its context ends
// when the deployment is called off.
func (h *Host) deploy(
	ctx context.Context, owner app.AccountID, id app.ID, kind app.DeployKind, do func(context.Context, *commit) (app.Deployed, error),
) (app.Deployed, error) {
	u, err := h.find(owner, id)
	if err != nil {
		return app.Deployed{}, err
	}
	done, err := h.begin()
	if err != nil {
		return app.Deployed{}, err
	}
	defer done()
	work, cancel := context.WithCancel(app.WithProgress(h.ctx, app.ProgressOf(ctx)))
	defer cancel()
	if err := u.do(context.WithoutCancel(ctx), u.beginDeploy(cancel)); err != nil {
		return app.Deployed{}, err
	}
	defer func() { _ = u.do(context.Background(), u.endDeploy) }()
	c := &commit{h: h, u: u, kind: kind, by: app.ActorOf(ctx, owner), before: u.view.Load().Snapshot}
	h.bound(work, c.before.App, deploying)
	defer h.bound(context.Background(), c.before.App, 1)
	d, err := do(u.tellProgress(work, kind), c)
	if err != nil {
		u.chronicle(app.HistoryEvent{Kind: app.HistoryFailure, Deploy: kind, By: c.by, Text: forUser(err)})
		u.tellDeploy(kind, app.DeployFailed, err)
		return d, err
	}
	u.tellDeploy(kind, app.DeployDone, nil)
	return d, nil
}

// commit is one commit under way, or a restore, or a rollback.
type commit struct {
	h      *Host
	u      *unit
	kind   app.DeployKind
	by     app.AccountID
	before app.Snapshot
	plan   app.Plan
	auto   bool   // autoRestart from now on
	apts   bool   // the config has a list of system packages, which replaces the one before
	bytes  int64  // of the ZIP
	note   string // for the history

	journal string    // that takes it back
	number  int       // of the run that was started for it; 0 when none was
	started time.Time // when

	lost           bool           // the tree was gone, and is made anew
	whole          bool           // what is not in the ZIP goes away
	takesVariables bool           // those of the ZIP
	variables      []app.Variable // nil when they stay
}

func (c *commit) run(ctx context.Context, file string) (app.Deployed, error) {
	stage, err := c.prepare(ctx, file)
	if stage != "" {
		defer c.h.Staging.Discard(stage)
	}
	if err != nil && errors.Is(err, context.Canceled) {
		err = c.h.calledOff()
	}
	if err != nil {
		return app.Deployed{}, err
	}
	return c.launch(ctx, func(context.Context) (app.Stage, error) { return stage, nil })
}

// launch ends the program, changes the tree to what stage returns, which is
// called when nothing runs any more, and starts it again.
func (c *commit) launch(ctx context.Context, stage func(context.Context) (app.Stage, error)) (app.Deployed, error) {
	app.ProgressOf(ctx)(app.Progress{Phase: app.Launching, App: c.u.id})
	if c.kind == app.DeployCommit {
		var t *twin
		_ = c.u.do(context.Background(), c.u.endTwin) // of the commit before
		if err := c.u.do(context.Background(), c.u.beside(c, &t)); err != nil {
			return app.Deployed{}, err
		}
		if t != nil {
			return c.overlap(ctx, t, stage)
		}
	}
	// From here on the live tree changes, and the work is finished one way or
	// the other: cancelling is heeded no more.
	if err := c.u.do(context.Background(), c.u.pause(&c.before)); err != nil {
		return app.Deployed{}, err
	}
	if ctx.Err() != nil {
		c.resume()
		return app.Deployed{}, c.h.calledOff()
	}
	return c.switchTo(stage)
}

// prepare does all that can be done beside the running program.
func (c *commit) prepare(ctx context.Context, file string) (app.Stage, error) {
	h, id := c.h, c.u.id
	up, err := h.unpack(ctx, file, &c.before.Code, func(app.Config) error { return nil })
	if err != nil {
		return "", err
	}
	stage, cfg, found := up.Stage, up.Config, up.Found
	if up.Single && c.whole {
		return stage, app.Errorf(app.Unusable, "cannot restore the application from a Java program (.jar): send the ZIP of a backup")
	}
	left, err := c.packed(up)
	if err != nil {
		return stage, err
	}
	if err := c.renew(ctx, found || c.whole); err != nil {
		return stage, err
	}
	c.bytes = up.Bytes
	notes := slices.Concat(left, untaken(cfg, c.before.App))
	if !found { // the ZIP brings no config: what was decided before holds
		cfg, found = configOf(c.before.App), true
	}
	cfg.Type = c.before.Type // which a commit does not change
	files := h.Staging.Files(stage, id)
	if c.whole {
		files = h.Staging.Remains(stage, id)
	}
	prepared := c.before.Code.Packages
	if c.lost {
		prepared = "" // gone with the tree
	}
	c.plan, err = h.Plan(cfg, found, files, prepared)
	if err != nil {
		return stage, hinted(err, up.Hint)
	}
	c.plan.Notes = slices.Concat(notes, c.plan.Notes)
	app.ProgressOf(ctx)(app.Progress{Phase: app.Checked, App: id})
	c.auto = c.before.AutoRestart
	if cfg.Has("AUTORESTART") {
		c.auto = cfg.AutoRestart
	}
	c.apts = cfg.Has("APT")
	if err := c.lay(ctx, stage); err != nil || len(c.plan.Prepare) == 0 {
		return stage, err
	}
	if err := h.build(ctx, c.before.App, &c.plan, stage); err != nil {
		return stage, err
	}
	return stage, h.fits(ctx, stage, id)
}

// renew makes the application's tree anew if it is gone: somebody removed it, or the
// disk lost it. Nothing of it is left to lay a commit over, so that must be whole.
func (c *commit) renew(ctx context.Context, whole bool) error {
	h, id, uid := c.h, c.u.id, c.before.UID
	gone, err := h.Trees.Renew(ctx, id, uid, false)
	switch {
	case err != nil || !gone:
		return err
	case !whole:
		return app.Errorf(app.Unusable, "the application's files are gone: commit the whole code with its discloud.config, or restore a backup")
	}
	if err := h.settle(ctx, id, uid); err != nil { // what was to be undone is gone with them
		return err
	}
	if _, err := h.Trees.Renew(ctx, id, uid, true); err != nil {
		return err
	}
	c.u.log.Warn("the application's files are gone; a deployment brings them anew")
	c.lost = true
	return nil
}

// lay makes of the stage what there is to be built, if it will fit: what the ZIP
// brings is known before anything is built.
func (c *commit) lay(ctx context.Context, stage app.Stage) error {
	h, id, uid := c.h, c.u.id, c.before.UID
	if c.whole {
		if err := h.Staging.PrepareRestore(ctx, stage, id, uid); err != nil {
			return err
		}
		return h.fits(ctx, stage, id)
	}
	if err := h.fits(ctx, stage, id); err != nil || len(c.plan.Prepare) == 0 {
		return err
	}
	return h.Trees.Prepare(ctx, stage, id, uid)
}

// untaken says what a config asks for that only an upload takes from it, where
// the application has it otherwise.
func untaken(cfg app.Config, a app.App) []string {
	var notes []string
	for _, key := range []struct{ name, asked, has, how string }{
		{"TYPE", cfg.Type.String(), a.Type.String(), "upload it anew to change that"},
		{"ID", cfg.ID, string(a.ID), "upload it anew to change that"},
		{"RAM", cfg.RAM.String(), a.RAM.String(), "PUT ram changes that"},
		{"NAME", cfg.Name, a.Name, "PUT profile changes that"},
		{"AVATAR", cfg.AvatarURL, a.AvatarURL, "PUT profile changes that"},
	} {
		if key.name == "ID" && a.Type == app.Bot {
			continue // clients write it there, and an upload does not take it either
		}
		if cfg.Has(key.name) && key.asked != key.has {
			notes = append(notes, fmt.Sprintf("%s: %s=%.80s is not taken from a commit, the application keeps %s: %s.",
				cfg.Where(key.name), key.name, key.asked, cmp.Or(key.has, "none"), key.how))
		}
	}
	return notes
}

// switchTo changes the tree and starts the new code; if either fails it goes
// back.
func (c *commit) switchTo(stageOf func(context.Context) (app.Stage, error)) (app.Deployed, error) {
	h, u, ctx := c.h, c.u, context.Background()
	// What an earlier commit could not undo comes first.
	if err := h.settle(ctx, u.id, c.before.UID); err != nil {
		return app.Deployed{}, c.back(err)
	}
	stage, err := stageOf(ctx)
	if err != nil {
		return app.Deployed{}, c.back(err)
	}
	defer h.Staging.Discard(stage)
	done, err := h.Trees.Apply(ctx, stage, u.id, c.before.UID)
	if err != nil {
		return app.Deployed{}, c.back(err)
	}
	c.journal = done.Journal
	var e *app.Exit
	printed := h.Logs.Mark(u.id)
	if err := u.do(ctx, u.try(c, &e)); err != nil {
		return app.Deployed{}, c.back(err)
	}
	if e != nil && e.Code != 0 && !e.Asked {
		err := app.Errorf(app.Unusable, "cannot start the new code (%s); the code from before the %s is back", sentence(*e), c.kind)
		if h.ctx.Err() != nil { // killed by a shutdown in a hurry, or nearly so
			err = h.calledOff()
		}
		return app.Deployed{}, c.back(withLogs(err, printed(lastLines)))
	}
	if e != nil && !e.Asked { // it ended well: nothing is to come online at the next boot
		_ = u.do(ctx, u.mean(app.WantStopped))
	}
	if err := c.record(ctx, done); err != nil {
		_ = u.do(ctx, u.pause(new(app.Snapshot)))
		return app.Deployed{}, c.back(err)
	}
	_ = u.do(ctx, func(reply func(error)) {
		u.variables = nil // they are recorded
		reply(nil)
	})
	if c.apts {
		_ = u.do(ctx, u.setApts(c.plan.Apts)) // told in the log: a wish fails no commit
	}
	return h.deployed(u, c.plan, e, nil, printed), nil
}

// sorry is told when not even that can be undone which failed.
const sorry = "the deployment failed and the code from before it could not be brought back: the application stays offline; commit the whole code again"

// back undoes what was applied and returns err.
func (c *commit) back(err error) error {
	undo := c.h.settle(context.Background(), c.u.id, c.before.UID)
	_ = c.u.do(context.Background(), c.u.whole(undo == nil))
	if undo == nil {
		c.resume()
		return err
	}
	// Half of one code and half of the other is not started.
	c.u.log.Error("cannot undo a deployment; the next commit or start of berth tries again", "error", undo)
	c.h.Logs.Note(c.u.id, sorry)
	return &app.Error{Kind: app.Internal, Message: app.Words(sorry), Err: errors.Join(err, undo)}
}

func (c *commit) resume() {
	_ = c.u.do(context.Background(), c.u.resume(c.before))
}
