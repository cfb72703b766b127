package host

import (
	"context"
	"errors"
	"io"
	"slices"
	"strings"

	"berth/app"
)

// Spool streams an upload to disk and returns its file, to be handed to
// Upload or Commit, or given up with DropSpool. It fails with app.TooLarge.
//
// A shutdown does not wait for it: how long it takes is the client's choice.
func (h *Host) Spool(ctx context.Context, r io.Reader) (string, error) {
	if h.ctx.Err() != nil {
		return "", h.calledOff()
	}
	if h.held.Load() {
		return "", app.Errorf(app.Unavailable, "the server is being upgraded; upload it again in a minute")
	}
	return h.Staging.Spool(ctx, r)
}

// Hold makes Spool refuse uploads that begin, or take them again. Those under
// way go on.
func (h *Host) Hold(on bool) { h.held.Store(on) }

// DropSpool removes a spooled upload that was not handed over.
func (h *Host) DropSpool(file string) { h.Staging.DropSpool(file) }

// Upload makes an application of a spooled ZIP, starts it, and returns when
// it has lived for the ok delay or ended. It takes the file over. The work
// goes on when ctx ends. While it is built it is shown as app.Preparing, and
// Stop and Delete call it off. Until the application exists an error leaves
// nothing behind; once it does, a program that died at once is no error. It
// tells its progress (app.WithProgress).
func (h *Host) Upload(given context.Context, owner app.Account, file string) (app.Deployed, error) {
	defer h.Staging.DropSpool(file)
	done, err := h.begin()
	if err != nil {
		return app.Deployed{}, err
	}
	defer done()
	ctx := app.WithProgress(h.ctx, app.ProgressOf(given))
	up, err := h.unpack(ctx, file, nil, func(cfg app.Config) error { return h.early(owner, cfg) })
	if err != nil {
		return app.Deployed{}, err
	}
	defer h.Staging.Discard(up.Stage)
	if err := h.fits(ctx, up.Stage, ""); err != nil {
		return app.Deployed{}, err
	}
	plan, err := h.Plan(up.Config, up.Found, h.Staging.Files(up.Stage, ""), "")
	if err != nil {
		return app.Deployed{}, hinted(err, up.Hint)
	}
	plan.Notes = slices.Concat(up.Left, plan.Notes)
	a, err := h.describe(owner, up.Config, plan)
	if err != nil {
		return app.Deployed{}, err
	}
	a, err = h.Registry.Reserve(ctx, a, func(total, used app.MB) error { return h.checkRAM(total, used, up.Config) })
	if err != nil {
		return app.Deployed{}, err
	}
	h.bound(ctx, a, deploying)
	if err := h.Trees.Publish(ctx, up.Stage, a.ID, a.UID); err != nil {
		h.release(context.Background(), a)
		return app.Deployed{}, err
	}
	app.ProgressOf(ctx)(app.Progress{Phase: app.Checked, App: a.ID})
	first := app.Deploy{By: app.ActorOf(given, owner.ID), Kind: app.DeployUpload, Bytes: up.Bytes}
	return h.deployFirst(ctx, a, plan, first)
}

// unpack is Staging.Unpack when a place is free. Nobody needs the file after
// it, and a build may have to wait long.
func (h *Host) unpack(ctx context.Context, file string, over *app.Code, judge func(app.Config) error) (app.Unpacked, error) {
	give, err := h.unpacks.take(ctx)
	if err != nil {
		return app.Unpacked{}, h.calledOff()
	}
	defer give()
	defer h.Staging.DropSpool(file)
	return h.Staging.Unpack(ctx, file, over, judge)
}

// early refuses, before anything is unpacked, what the account has no RAM
// for. Reserve decides, with what is assigned then.
func (h *Host) early(owner app.Account, cfg app.Config) error {
	var used app.MB
	for _, s := range h.Apps(owner.ID) {
		used += s.RAM
	}
	return h.checkRAM(owner.TotalRAM, used, cfg)
}

// checkRAM judges the RAM that a config asks for, and names its line.
func (h *Host) checkRAM(total, used app.MB, cfg app.Config) error {
	err := h.CheckRAM(total, used, h.ramOf(cfg))
	if err != nil && cfg.Has("RAM") {
		return app.Errorf(app.KindOf(err), "%s: RAM=%d: %v", cfg.Where("RAM"), cfg.RAM, err)
	}
	return err
}

// ramOf is the RAM that a config asks for.
func (h *Host) ramOf(cfg app.Config) app.MB {
	if cfg.RAM == 0 {
		return h.RAMDefault
	}
	return cfg.RAM
}

// hinted adds what the archive's own look says about a config not found.
func hinted(err error, hint app.Text) error {
	if hint.IsZero() {
		return err
	}
	return app.Errorf(app.KindOf(err), "%v (%s)", err, hint)
}

// describe makes the application that a config asks for.
func (h *Host) describe(owner app.Account, cfg app.Config, plan app.Plan) (app.App, error) {
	a := app.App{
		ID: h.newID(), Account: owner.ID, Name: cfg.Name, AvatarURL: cfg.AvatarURL, Type: cfg.Type, RAM: h.ramOf(cfg),
		Wanted: app.WantOnline, Code: plan.Code, AutoRestart: cfg.AutoRestart, Apts: plan.Apts,
	}
	if cfg.Type == app.Site {
		id := strings.ToLower(cfg.ID)
		if id == "" {
			return app.App{}, app.Errorf(app.Unusable, "%s: TYPE=site needs ID, the site's subdomain", cfg.Where("TYPE"))
		}
		if err := h.CheckSubdomain(id); err != nil {
			return app.App{}, app.Errorf(app.Unusable, "%s: ID=%v", cfg.Where("ID"), err)
		}
		a.ID = app.ID(id)
	}
	if a.Name == "" {
		a.Name = string(a.ID)
	}
	return a, nil
}

// release removes the files and logs of an application that is no more, or
// never came to be, and then gives back its place. Where that fails the place
// stays taken, and the next boot does it.
func (h *Host) release(ctx context.Context, a app.App) {
	err := errors.Join(h.Trees.Remove(ctx, a.ID), h.Logs.Remove(a.ID), h.Quotas.Limit(ctx, a.ID, a.UID, 0))
	if err == nil {
		err = h.Registry.Release(ctx, a.ID)
	}
	if err != nil {
		h.Log.Error("cannot remove what is left of an application; the next start of berth will", "app", a.ID, "error", err)
	}
}
