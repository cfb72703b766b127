package host

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"berth/app"
)

// Commit lays a spooled ZIP over an application's tree, prepares it beside
// the running program, and starts it. It takes the file over; the work goes
// on when ctx ends. When preparing or starting fails, the old code is back as
// it was, and runs if it ran. It fails with app.Conflict while another
// deployment is under way. It tells its progress (app.WithProgress).
func (h *Host) Commit(ctx context.Context, owner app.AccountID, id app.ID, file string) (app.Deployed, error) {
	defer h.Staging.DropSpool(file)
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
	c := &commit{h: h, u: u, before: u.view.Load().Snapshot}
	h.bound(work, c.before.App, deploying)
	defer h.bound(context.Background(), c.before.App, 1)
	return c.run(work, file)
}

// commit is one commit under way.
type commit struct {
	h      *Host
	u      *unit
	before app.Snapshot
	plan   app.Plan
	auto   bool // autoRestart from now on
	apts   bool // the config has a list of system packages, which replaces the one before
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
	app.ProgressOf(ctx)(app.Progress{Phase: app.Launching, App: c.u.id})
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
	notes := slices.Concat(up.Left, untaken(cfg, c.before.App))
	if !found { // the ZIP brings no config: what was decided before holds
		cfg, found = configOf(c.before.App), true
	}
	cfg.Type = c.before.Type // which a commit does not change
	c.plan, err = h.Plan(cfg, found, h.Staging.Files(stage, id), c.before.Code.Packages)
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
	// Before anything is built, too: what the ZIP brings is known.
	if err := h.fits(ctx, stage, id); err != nil || len(c.plan.Prepare) == 0 {
		return stage, err
	}
	if err := h.Trees.Prepare(ctx, stage, id, c.before.UID); err != nil {
		return stage, err
	}
	if err := h.build(ctx, c.before.App, &c.plan, stage); err != nil {
		return stage, err
	}
	return stage, h.fits(ctx, stage, id)
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
func (c *commit) switchTo(stage app.Stage) (app.Deployed, error) {
	h, u, ctx := c.h, c.u, context.Background()
	// What an earlier commit could not undo comes first.
	if err := h.Trees.Undo(ctx, u.id, c.before.UID); err != nil {
		return app.Deployed{}, c.back(err)
	}
	if err := h.Trees.Apply(ctx, stage, u.id, c.before.UID); err != nil {
		return app.Deployed{}, c.back(err)
	}
	var e *app.Exit
	printed := h.Logs.Mark(u.id)
	if err := u.do(ctx, u.try(c.plan.Code, c.auto, &e)); err != nil {
		return app.Deployed{}, c.back(err)
	}
	if e != nil && e.Code != 0 && !e.Asked {
		err := app.Errorf(app.Unusable, "cannot start the new code (%s); the code from before the commit is back", sentence(*e))
		if h.ctx.Err() != nil { // killed by a shutdown in a hurry, or nearly so
			err = h.calledOff()
		}
		return app.Deployed{}, c.back(withLogs(err, printed(lastLines)))
	}
	if err := h.Settings.SetCode(ctx, u.id, c.plan.Code, c.auto); err != nil {
		_ = u.do(ctx, u.pause(new(app.Snapshot)))
		return app.Deployed{}, c.back(err)
	}
	if err := h.Trees.Settle(ctx, u.id); err != nil {
		// With its journal left, the next boot would undo what is told to be done.
		if back := h.Settings.SetCode(ctx, u.id, c.before.Code, c.before.AutoRestart); back != nil {
			u.log.Error("cannot record the code from before a commit", "error", back)
		}
		_ = u.do(ctx, u.pause(new(app.Snapshot)))
		return app.Deployed{}, c.back(err)
	}
	if e != nil && !e.Asked {
		_ = u.do(ctx, func(reply func(error)) { // it ended well: nothing is to come online at the next boot
			reply(u.want(app.WantStopped))
		})
	}
	if c.apts {
		_ = u.do(ctx, u.setApts(c.plan.Apts)) // told in the log: a wish fails no commit
	}
	return h.deployed(u, c.plan, e, nil, printed), nil
}

// back undoes what was applied and returns err.
func (c *commit) back(err error) error {
	undo := c.h.Trees.Undo(context.Background(), c.u.id, c.before.UID)
	_ = c.u.do(context.Background(), c.u.whole(undo == nil))
	if undo == nil {
		c.resume()
		return err
	}
	// Half of one code and half of the other is not started.
	c.u.log.Error("cannot undo a commit; the next commit or start of berth tries again", "error", undo)
	const sorry = "the commit failed and the code from before it could not be brought back: the application stays offline; commit the whole code again"
	c.h.Logs.Note(c.u.id, sorry)
	return &app.Error{Kind: app.Internal, Message: sorry, Err: errors.Join(err, undo)}
}

func (c *commit) resume() {
	_ = c.u.do(context.Background(), c.u.resume(c.before))
}
