package host

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"berth/app"
)

// Spool streams an upload to disk and returns its file, to be handed to
// Upload or Commit, or given up with DropSpool. It fails with app.TooLarge, and with
// app.Conflict on a host that holds its programs.
//
// A shutdown does not wait for it: how long it takes is the client's choice.
func (h *Host) Spool(ctx context.Context, r io.Reader) (string, error) {
	if h.ctx.Err() != nil {
		return "", h.calledOff()
	}
	if err := h.Held().Refusal(); err != nil {
		return "", err
	}
	if h.refusing.Load() {
		return "", app.Errorf(app.Unavailable, "the server is being upgraded; upload it again in a minute")
	}
	return h.Staging.Spool(ctx, r, h.MaxUpload)
}

// RefuseUploads makes Spool refuse uploads that begin, or take them again. Those under
// way go on.
func (h *Host) RefuseUploads(on bool) { h.refusing.Store(on) }

// DropSpool removes a spooled upload that was not handed over.
func (h *Host) DropSpool(file string) {
	if err := h.Staging.DropSpool(file); err != nil {
		h.Log.Error("cannot remove an upload", "error", err)
	}
}

// discard removes a stage, if there is one.
func (h *Host) discard(stage app.Stage) {
	if stage == "" {
		return
	}
	if err := h.Staging.Discard(stage); err != nil {
		h.Log.Error("cannot remove an unpacked upload; the next start of berth will", "error", err)
	}
}

// Upload makes an application of a spooled ZIP, as its owner has decided before (app.WithFirst), starts it unless it is
// wanted stopped (app.WithWanted), and returns when it has lived for the ok delay or ended. It takes the file over. The work
// goes on when ctx ends. While it is built it is shown as app.Preparing, and
// Stop and Delete call it off. Until the application exists an error leaves
// nothing behind; once it does, a program that died at once is no error. It
// reports its progress (app.WithProgress).
func (h *Host) Upload(given context.Context, owner app.Account, file string) (app.Deployed, error) {
	defer h.DropSpool(file)
	first := app.FirstOf(given)
	if err := checkFirst(first.Variables); err != nil {
		return app.Deployed{}, err
	}
	return h.upload(given, owner, app.DeployUpload, func(ctx context.Context) (app.Unpacked, error) {
		return h.unpack(ctx, file, func() (app.Unpacked, error) {
			judge := func(cfg app.Config) error { return h.early(owner, cfg) }
			if first.Config != "" {
				return h.Staging.UnpackAs(ctx, file, first.Config, judge)
			}
			return h.Staging.Unpack(ctx, file, nil, judge)
		})
	})
}

// UploadFrom makes an application as Upload does, of what source has, such as a copy in a backup. It has the
// variables of source, if there are any, from its first start on.
func (h *Host) UploadFrom(given context.Context, owner app.Account, source app.Source) (app.Deployed, error) {
	return h.upload(given, owner, app.DeployRestore, func(ctx context.Context) (app.Unpacked, error) {
		up, err := source(ctx)
		if err == nil {
			if err = h.early(owner, up.Config); err != nil {
				h.discard(up.Stage)
			}
		}
		return up, err
	})
}

// upload makes an application of what source has.
func (h *Host) upload(given context.Context, owner app.Account, kind app.DeployKind, source app.Source) (app.Deployed, error) {
	if err := h.Held().Refusal(); err != nil {
		return app.Deployed{}, err
	}
	done, err := h.begin()
	if err != nil {
		return app.Deployed{}, err
	}
	defer done()
	ctx := app.WithProgress(h.ctx, app.ProgressOf(given))
	up, err := source(ctx)
	if err != nil {
		return app.Deployed{}, err
	}
	defer h.discard(up.Stage)
	if err := h.disk.fits(ctx, up.Stage, ""); err != nil {
		return app.Deployed{}, err
	}
	plan, err := h.Plan(up.Config, up.Found, h.Staging.Files(up.Stage, ""), "")
	if err != nil {
		return app.Deployed{}, hinted(err, up.Hint)
	}
	plan.Notes = slices.Concat(up.Left, plan.Notes)
	a, err := h.describe(owner, up.Config, plan, app.FileNameOf(given))
	if err != nil {
		return app.Deployed{}, err
	}
	a.Wanted = app.WantedOf(given)
	a, err = h.Registry.Reserve(ctx, a, func(owner app.Account, used app.Use) error {
		if err := admitNew(owner, used); err != nil {
			return err
		}
		return h.checkRAM(owner.TotalRAM, used.RAM, up.Config, plan.Code)
	})
	if err != nil {
		return app.Deployed{}, err
	}
	defer h.unclaim(a.ID)
	if err := h.claimStage(ctx, a.Account, a.ID, "", up.Stage); err != nil {
		h.release(context.Background(), a)
		return app.Deployed{}, err
	}
	h.disk.limit(ctx, a, deploying)
	brought, err := h.Trees.Publish(ctx, up.Stage, a.ID, a.UID)
	if err != nil {
		h.release(context.Background(), a)
		return app.Deployed{}, err
	}
	app.ProgressOf(ctx)(app.Progress{Phase: app.Checked, App: a.ID})
	first := app.Deploy{By: app.ActorOf(given, owner.ID), Kind: kind, Bytes: up.Bytes, Brought: brought}
	hint := h.namesake(a)
	variables := app.FirstOf(given).Variables
	if kind == app.DeployRestore {
		variables = up.Variables.All
	}
	made, err := h.deployFirst(ctx, a, plan, first, variables)
	if err == nil {
		made.Hint = hint
		h.codeChanged(a)
	}
	return made, err
}

// namesake says that the owner of a new bot has another one of that name: who wants to
// replace its code may not know of commits. A site's ID is its own.
func (h *Host) namesake(a app.App) app.Text {
	if a.Type == app.Site {
		return app.Text{}
	}
	for _, s := range h.Apps(a.Account) {
		if s.ID != a.ID && s.Type == a.Type && strings.EqualFold(s.Name, a.Name) {
			return app.Textf("You already had an application named %q, with the ID %s, and have two now: a commit to the first one would have replaced its code.", s.Name, s.ID)
		}
	}
	return app.Text{}
}

// unpack calls unpack, which unpacks file, when a place is free. Nobody needs the file after
// it, and a build may have to wait long.
func (h *Host) unpack(ctx context.Context, file string, unpack func() (app.Unpacked, error)) (app.Unpacked, error) {
	if h.unpacks.Acquire(ctx, 1) != nil {
		return app.Unpacked{}, h.calledOff()
	}
	defer h.unpacks.Release(1)
	defer h.DropSpool(file)
	return unpack()
}

// early refuses, before anything is unpacked, what the account has no RAM for, or another
// application than it may have. Reserve decides, with what is assigned then, and for a site that may be of files
// alone, which only its plan tells.
func (h *Host) early(owner app.Account, cfg app.Config) error {
	var code app.Code
	if page := strings.ToLower(path.Ext(cfg.Main)); cfg.Type == app.Site && cfg.Start == "" && (page == ".html" || page == ".htm") {
		code.Lang = app.StaticLang
	}
	var used app.MB
	all := h.Apps(owner.ID)
	for _, s := range all {
		used += s.Charged()
	}
	if err := admitNew(owner, app.Use{RAM: used, Apps: len(all)}); err != nil {
		return err
	}
	return h.checkRAM(owner.TotalRAM, used, cfg, code)
}

// admit judges the RAM of an application against its account, by its code. A site of
// files is charged none: its RAM is bounded all the same.
func (h *Host) admit(total, used, want app.MB, code app.Code) error {
	if code.Static() {
		total, used = max(total, h.RAMDefault), 0
	}
	return h.CheckRAM(total, used, want)
}

// checkRAM judges the RAM that a config asks for, and names its line.
func (h *Host) checkRAM(total, used app.MB, cfg app.Config, code app.Code) error {
	err := h.admit(total, used, h.ramOf(cfg), code)
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

// describe makes the application that a config asks for, which came in a file.
func (h *Host) describe(owner app.Account, cfg app.Config, plan app.Plan, file string) (app.App, error) {
	a := app.App{
		ID: h.newID(), Account: owner.ID, Name: cfg.Name, AvatarURL: cfg.AvatarURL, Type: cfg.Type, RAM: h.ramOf(cfg),
		Code: plan.Code, AutoRestart: cfg.AutoRestart, Apts: plan.Apts,
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
	if a.Name == "" && a.Type != app.Site { // a site's ID is a name already
		a.Name = nameOfFile(file)
	}
	if a.Name == "" {
		a.Name = string(a.ID)
	}
	return a, nil
}

// plainFiles are names that clients give to every file.
var plainFiles = []string{"app", "application", "archive", "backup", "blob", "bot", "buffer", "discloud", "file", "project", "upload", "zip"}

// nameOfFile makes a name for an application of the name of its file; "" when that says
// nothing.
func nameOfFile(file string) string {
	name := file[strings.LastIndexAny(file, `/\`)+1:]
	if ext := path.Ext(name); strings.EqualFold(ext, ".zip") || strings.EqualFold(ext, ".jar") {
		name = strings.TrimSuffix(name, ext)
	}
	name = strings.Map(func(r rune) rune {
		if r == utf8.RuneError || !unicode.IsPrint(r) {
			return -1
		}
		return r
	}, name)
	name = strings.TrimSpace(strings.Trim(name, ". "))
	if runes := []rune(name); len(runes) > app.MaxName {
		name = strings.TrimSpace(string(runes[:app.MaxName]))
	}
	if slices.Contains(plainFiles, strings.ToLower(name)) {
		return ""
	}
	return name
}

// deployFirst builds a reserved application whose tree is in place, makes it
// exist and starts it. Its owner sees it meanwhile, and can call it off; when
// that happens, or the build fails, nothing of it stays.
func (h *Host) deployFirst(ctx context.Context, a app.App, plan app.Plan, d app.Deploy, variables []app.Variable) (app.Deployed, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	u := newUnit(h, a)
	u.deploy = &deployment{cancel: cancel, first: true}
	u.publish()
	h.register(u)
	ctx = u.report.progress(ctx, app.DeployUpload)
	err := buildJob{h, a, &plan, ""}.run(ctx)
	if err == nil && len(plan.Prepare) > 0 {
		d.Brought, err = h.Trees.Relist(ctx, a.ID, d.Brought)
	}
	if err == nil {
		err = h.disk.deployable(func() (app.Space, error) { return u.disk.now(ctx) })
	}
	if err == nil {
		err = h.built(ctx, u)
	}
	if err == nil {
		if a.Wanted == app.WantOnline {
			app.ProgressOf(ctx)(app.Progress{Phase: app.Launching, App: a.ID})
		}
		printed := h.Logs.Mark(a.ID)
		var run firstStart
		run, err = request(context.Background(), u, func(reply func(firstStart, error)) { u.create(d, variables, reply) })
		if err == nil {
			u.report.deploy(app.DeployUpload, app.DeployDone, nil)
			return h.deployed(u, plan, run.exit, run.err, printed), nil
		}
	}
	u.report.deploy(app.DeployUpload, app.DeployFailed, err)
	u.call(context.Background(), u.abandon) // always taken: the unit ends with it, not before
	return app.Deployed{}, err
}

// release removes the files and logs of an application that is no more, or
// never came to be, and then gives back its place. Where that fails the place
// stays taken, and the next boot does it.
func (h *Host) release(ctx context.Context, a app.App) {
	err := errors.Join(h.Trees.Remove(ctx, a.ID), h.Forget(a.ID), h.disk.set(ctx, a, 0))
	if err == nil {
		err = h.Registry.Release(ctx, a.ID)
	}
	if err != nil {
		h.Log.Error("cannot remove what is left of an application; the next start of berth will", "app", a.ID, "error", err)
	}
}

// Commit lays a spooled ZIP over an application's tree, prepares it beside
// the running program, and starts it. It takes the file over; the work goes
// on when ctx ends. When preparing or starting fails, the old code is back as
// it was, and runs if it ran. It fails with app.Conflict while another
// deployment is under way. It reports its progress (app.WithProgress).
//
// exact also removes what earlier deploys brought and the ZIP does not have: no file
// that has changed since, and none that the program or a build made.
func (h *Host) Commit(ctx context.Context, owner app.AccountID, id app.ID, file string, exact bool) (app.Deployed, error) {
	defer h.DropSpool(file)
	return h.deploy(ctx, owner, id, app.DeployCommit, func(work context.Context, c *commit) (app.Deployed, error) {
		c.exact = exact
		return c.run(work, c.ofFile(file))
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
	if err := u.do(context.WithoutCancel(ctx), func() error { return u.beginDeploy(cancel) }); err != nil {
		return app.Deployed{}, err
	}
	defer u.call(context.Background(), func() { u.deploy = nil })
	defer h.unclaim(id)
	c := &commit{h: h, u: u, kind: kind, by: app.ActorOf(ctx, owner), before: u.view.Load().Snapshot}
	h.disk.limit(work, c.before.App, deploying)
	defer h.disk.limit(context.Background(), c.before.App, 1)
	d, err := do(u.report.progress(work, kind), c)
	if err != nil {
		u.logEvent(app.HistoryEvent{Kind: app.HistoryFailure, Deploy: kind, By: c.by, Text: forUser(err)})
		u.report.deploy(kind, app.DeployFailed, err)
		return d, err
	}
	h.codeChanged(c.before.App)
	u.report.deploy(kind, app.DeployDone, nil)
	return d, nil
}

func (h *Host) codeChanged(a app.App) {
	if h.CodeChanged != nil {
		h.CodeChanged(h.ctx, a)
	}
}

// Rollback brings back the code of an earlier deploy, the one before the newest
// when number is 0, and starts it like a commit. The program's own data stays as
// it is. It is a deploy itself, which another rollback takes back. It has
// WayBack's errors, and Commit's.
func (h *Host) Rollback(ctx context.Context, owner app.AccountID, id app.ID, number int) (app.Deployed, error) {
	return h.deploy(ctx, owner, id, app.DeployRollback, func(work context.Context, c *commit) (app.Deployed, error) {
		all, err := h.Registry.Deploys(work, id)
		if err != nil {
			return app.Deployed{}, err
		}
		target, journals, err := WayBack(all, number)
		if err != nil {
			return app.Deployed{}, err
		}
		c.plan, c.auto = app.Plan{Code: target.Code}, target.Auto
		c.note, c.brought = fmt.Sprintf("back to deploy %d", target.Number), target.Brought
		var stage app.Stage
		defer func() { h.discard(stage) }()
		return c.launch(work, func(ctx context.Context) (_ app.Stage, err error) {
			var stays []string
			stage, stays, err = h.Staging.Rollback(ctx, id, c.before.UID, journals)
			c.plan.Notes = staying(stays)
			return stage, err
		})
	})
}

// Restore brings an application's files to what a spooled ZIP holds, as Commit
// does, but what is not in the ZIP goes away. With withVariables the variables
// in it become the application's. It takes the file over.
func (h *Host) Restore(ctx context.Context, owner app.AccountID, id app.ID, file string, withVariables bool) (app.Deployed, error) {
	defer h.DropSpool(file)
	return h.restore(ctx, owner, id, withVariables, func(c *commit) app.Source { return c.ofFile(file) })
}

// RestoreFrom is Restore of what source has, such as a copy in a backup.
func (h *Host) RestoreFrom(
	ctx context.Context, owner app.AccountID, id app.ID, source app.Source, withVariables bool,
) (app.Deployed, error) {
	return h.restore(ctx, owner, id, withVariables, func(*commit) app.Source { return source })
}

func (h *Host) restore(
	ctx context.Context, owner app.AccountID, id app.ID, withVariables bool, sourceOf func(*commit) app.Source,
) (app.Deployed, error) {
	return h.deploy(ctx, owner, id, app.DeployRestore, func(work context.Context, c *commit) (app.Deployed, error) {
		c.whole, c.takesVariables = true, withVariables
		c.note = "from a backup"
		if withVariables {
			c.note += ", with its environment variables"
		}
		return c.run(work, sourceOf(c))
	})
}

// retain is how much of a history is remembered. The newest journal stays in
// any case, since its name is what makes its deploy good; the oldest one leads
// to nothing. Of what deploys brought it keeps the lists of those that can be the
// application's code again.
func (h *Host) retain(all []app.Deploy) []app.Deploy {
	kept := slices.Clone(all[:min(len(all), max(h.DeploysKeep, 1))])
	var bytes int64
	leads := true // a rollback, to this one
	for i := range kept {
		bytes += kept[i].Kept
		if i > 0 && (i == len(kept)-1 || bytes > h.DeploysDisk.Bytes()) {
			bytes = max(bytes, h.DeploysDisk.Bytes()+1) // nothing that is older leads anywhere
			kept[i].Journal, kept[i].Kept = "", 0
		}
		if !leads {
			kept[i].Brought = ""
		}
		leads = leads && kept[i].Journal != ""
	}
	return kept
}

// settle brings the journals of an application in line with the records.
func (h *Host) settle(ctx context.Context, id app.ID, uid int) error {
	good, err := h.Registry.Journals(ctx, id)
	if err != nil {
		return err
	}
	return h.Trees.Settle(ctx, id, uid, good)
}

// deployed is the answer to a deployment that made it. printed is what the
// program has printed since.
func (h *Host) deployed(u *unit, plan app.Plan, e *app.Exit, startErr error, printed func(int) string) app.Deployed {
	var logs []string
	if text := preparation(h.Logs, u.id, plan); text != "" {
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
	return app.Deployed{Snapshot: u.view.Load().Snapshot, Notices: plan.Notes, Logs: strings.Join(logs, "\n")}
}

// calledOff is the error of a deployment that was cancelled.
func (h *Host) calledOff() error {
	if h.ctx.Err() != nil {
		return app.Errorf(app.Unavailable, "the server is shutting down; upload it again in a minute")
	}
	return app.Errorf(app.Conflict, "the deployment was cancelled: the application was stopped or deleted meanwhile")
}
