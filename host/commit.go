package host

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"berth/app"
)

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
	// listening is where that takes visitors, once it is well beside the old one.
	listening app.Listening

	brought string // Deploy.Brought, after it
	exact   bool   // what earlier deploys brought goes away, unless the ZIP has it
	removed int    // how many files that were

	treeGone       bool           // the tree was gone, and is made anew
	whole          bool           // what is not in the ZIP goes away
	takesVariables bool           // those of the ZIP
	variables      []app.Variable // nil when they stay
}

// ofFile is the source that a spooled ZIP is.
func (c *commit) ofFile(file string) app.Source {
	return func(ctx context.Context) (app.Unpacked, error) {
		return c.h.unpack(ctx, file, func() (app.Unpacked, error) {
			return c.h.Staging.Unpack(ctx, file, &c.before.Code, func(app.Config) error { return nil })
		})
	}
}

func (c *commit) run(ctx context.Context, source app.Source) (app.Deployed, error) {
	stage, err := c.prepare(ctx, source)
	defer c.h.discard(stage)
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
		c.afterSecondRun() // of the commit before
		next, err := ask(context.Background(), c.u, func() (*run, error) { return c.u.beside(c) })
		if err != nil {
			return app.Deployed{}, err
		}
		if next != nil {
			return c.overlap(ctx, next, stage)
		}
	}
	// From here on the live tree changes, and the work is finished one way or
	// the other: cancelling is heeded no more.
	before, err := request(context.Background(), c.u, c.u.pause)
	if err != nil {
		return app.Deployed{}, err
	}
	c.before = before
	if ctx.Err() != nil {
		c.resume()
		return app.Deployed{}, c.h.calledOff()
	}
	return c.switchTo(stage)
}

// prepare does all that can be done beside the running program.
func (c *commit) prepare(ctx context.Context, source app.Source) (app.Stage, error) {
	h, id := c.h, c.u.id
	up, err := source(ctx)
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
		cfg, found = ConfigOf(c.before.App), true
	}
	cfg.Type = c.before.Type // which a commit does not change
	files, err := c.over(ctx, stage)
	if err != nil {
		return stage, err
	}
	prepared := c.before.Code.Packages
	if c.treeGone {
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
	if err := (buildJob{h, c.before.App, &c.plan, stage}).run(ctx); err != nil {
		return stage, err
	}
	return stage, c.fits(ctx, stage)
}

// over shows what the tree will hold once the stage is laid over it.
func (c *commit) over(ctx context.Context, stage app.Stage) (app.Files, error) {
	h, id := c.h, c.u.id
	if c.whole {
		return h.Staging.Remains(stage, id), nil
	}
	all, err := h.Registry.Deploys(ctx, id)
	if err != nil {
		return nil, err
	}
	before := ""
	if len(all) > 0 && !c.treeGone {
		before = all[0].Brought
	}
	return h.Staging.Over(ctx, stage, id, before, c.exact)
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
	c.treeGone = true
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
		return c.fits(ctx, stage)
	}
	if err := c.fits(ctx, stage); err != nil || len(c.plan.Prepare) == 0 {
		return err
	}
	return h.Trees.Prepare(ctx, stage, id, uid)
}

// fits refuses a stage with which the application, or its account, would take more of the
// disk than it may.
func (c *commit) fits(ctx context.Context, stage app.Stage) error {
	if err := c.h.disk.fits(ctx, stage, c.u.id); err != nil {
		return err
	}
	return c.h.claimStage(ctx, c.u.owner, c.u.id, c.u.id, stage)
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
	done, err := c.apply(ctx, stageOf)
	if err != nil {
		return app.Deployed{}, c.back(err)
	}
	printed := h.Logs.Mark(u.id)
	e, err := request(ctx, u, func(reply func(*app.Exit, error)) { u.try(c, reply) })
	if err != nil {
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
		u.call(ctx, func() {
			if !u.deploy.stopped { // else what a person said meanwhile holds
				u.means(app.WantStopped)
			}
		})
	}
	if err := c.record(ctx, done); err != nil {
		_, _ = request(ctx, u, u.pause)
		return app.Deployed{}, c.back(err)
	}
	u.call(ctx, func() { u.recorded(c) })
	return h.deployed(u, c.plan, e, nil, printed), nil
}

// apply changes the tree. The context calls it off before that, not within.
func (c *commit) apply(ctx context.Context, stageOf func(context.Context) (app.Stage, error)) (app.Applied, error) {
	whole := context.Background()
	// What an earlier commit could not undo comes first.
	if err := c.h.settle(whole, c.u.id, c.before.UID); err != nil {
		return app.Applied{}, err
	}
	stage, err := stageOf(whole)
	if err != nil {
		return app.Applied{}, err
	}
	if ctx.Err() != nil {
		return app.Applied{}, c.h.calledOff()
	}
	done, err := c.h.Trees.Apply(whole, stage, c.u.id, c.before.UID)
	c.journal = done.Journal
	if done.Brought != "" {
		c.brought = done.Brought
	}
	if err == nil && c.exact {
		c.removed = done.Removed
		c.note = fmt.Sprintf("exact, %d files removed", done.Removed)
		if done.Removed == 1 {
			c.note = "exact, 1 file removed"
		}
		c.plan.Notes = append(c.plan.Notes, cleared(done)...)
	}
	return done, err
}

// sorry is noted when not even that can be undone which failed.
const sorry = "the deployment failed and the code from before it could not be brought back: the application stays offline; commit the whole code again"

// back undoes what was applied and returns err.
func (c *commit) back(err error) error {
	undo := c.h.settle(context.Background(), c.u.id, c.before.UID)
	c.u.call(context.Background(), func() { c.u.mixedTree = undo != nil })
	if undo == nil {
		c.resume()
		return err
	}
	return c.notUndone(app.Words(sorry), err, undo)
}

// notUndone is the error of a deployment after which the tree is half of one code and
// half of the other.
func (c *commit) notUndone(sorry app.Text, err, undo error) error {
	c.u.log.Error("cannot undo a deployment; the next commit or start of berth tries again", "error", undo)
	c.h.Logs.Note(c.u.id, sorry.String())
	return &app.Error{Kind: app.Internal, Message: sorry, Err: errors.Join(err, undo)}
}

func (c *commit) resume() {
	c.u.call(context.Background(), func() { c.u.resume(c.before) })
}

// record makes a commit good: from here on a boot keeps it.
func (c *commit) record(ctx context.Context, done app.Applied) error {
	h := c.h
	d := app.Deploy{
		By: c.by, Kind: c.kind, Bytes: c.bytes, Code: c.plan.Code, Auto: c.auto, Note: c.note,
		Journal: done.Journal, Kept: done.Bytes, Run: c.number, Started: c.started,
		Brought: c.brought, Exact: c.exact, Removed: c.removed,
	}
	retain := h.retain
	if c.treeGone {
		retain = func(all []app.Deploy) []app.Deploy { return forgotten(h.retain(all)) }
	}
	admit := func(total, used app.MB) error { return h.admit(total, used, c.u.view.Load().RAM, d.Code) }
	if _, err := h.Registry.AddDeploy(ctx, c.u.id, d, c.variables, c.u.wanted, admit, retain); err != nil {
		// It may be written all the same: what the records say decides.
		if good, look := h.Registry.Journals(ctx, c.u.id); look != nil || !slices.Contains(good, done.Journal) {
			return err
		}
	}
	err := h.settle(ctx, c.u.id, c.before.UID)
	if err == nil && (c.treeGone || h.DeploysKeep < 2 || done.Bytes > h.DeploysDisk.Bytes()) {
		if err = h.Registry.DropJournal(ctx, c.u.id, done.Journal); err == nil {
			err = h.settle(ctx, c.u.id, c.before.UID)
		}
	}
	if err != nil { // the commit is good: the next one, or the next boot, tidies up
		c.u.log.Error("cannot put the journals in order after a deployment", "error", err)
	}
	return nil
}

// packed takes the variables out of an upload if they are asked for, and
// returns what is to be said of what was left out.
func (c *commit) packed(up app.Unpacked) ([]string, error) {
	if !c.takesVariables {
		return up.Left, nil
	}
	vars := up.Variables
	switch {
	case !vars.Found:
		return nil, app.Errorf(app.Unusable, "the backup holds no environment variables (%s): make one with env=true, or restore it without them", app.VariablesFile)
	case vars.Err != nil:
		return nil, vars.Err
	}
	change := make(map[string]*string, len(vars.All))
	for _, v := range vars.All {
		change[v.Name] = &v.Value
	}
	if len(change) > 0 {
		if err := ChangeVariables(map[string]string{}, change); err != nil {
			return nil, app.Errorf(app.Unusable, "%s: %v", app.VariablesFile, err)
		}
	}
	c.variables = append([]app.Variable{}, vars.All...) // not nil: none is an answer too
	slices.SortFunc(c.variables, func(a, b app.Variable) int { return strings.Compare(a.Name, b.Name) })
	left := slices.DeleteFunc(slices.Clone(up.Left), func(sentence string) bool { return sentence == vars.Left })
	return append(left, fmt.Sprintf("The environment variables of the backup (%d of them) are the application's now.", len(vars.All))), nil
}
