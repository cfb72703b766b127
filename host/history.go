package host

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"berth/app"
)

// Deploys returns the history of an application, newest first, or app.NotFound.
// It fails with app.Conflict while it is deployed for the first time.
func (h *Host) Deploys(ctx context.Context, owner app.AccountID, id app.ID) ([]app.Deploy, error) {
	var all []app.Deploy
	err := h.change(ctx, owner, id, func(ctx context.Context, _ *unit) (err error) {
		all, err = h.Registry.Deploys(ctx, id)
		return err
	})
	if err != nil { // all may still be written to
		return nil, err
	}
	Reach(all)
	return all, nil
}

// Reach sets Back of each deploy of a history.
func Reach(all []app.Deploy) {
	for i := range all {
		_, _, err := WayBack(all, all[i].Number)
		all[i].Back = err == nil
	}
}

// WayBack returns the deploy with a number, or the one before the newest when
// number is 0, and the journals that lead back to it, newest first. all is a
// history, newest first. It fails with app.NotFound when there is no such
// deploy, app.Already when it is the newest, and app.Unusable when a journal on
// the way was dropped.
func WayBack(all []app.Deploy, number int) (app.Deploy, []string, error) {
	if number == 0 {
		if len(all) < 2 {
			return app.Deploy{}, nil, app.Errorf(app.NotFound, "there is no deploy before this one")
		}
		number = all[1].Number
	}
	at := slices.IndexFunc(all, func(d app.Deploy) bool { return d.Number == number })
	switch at {
	case -1:
		return app.Deploy{}, nil, app.Errorf(app.NotFound, "there is no deploy %d in the history of the application", number)
	case 0:
		return app.Deploy{}, nil, app.Errorf(app.Already, "deploy %d is the one that the application has now", number)
	}
	var journals []string
	for _, d := range all[:at] {
		if d.Journal == "" {
			return app.Deploy{}, nil, app.Errorf(app.Unusable, "deploy %d cannot be brought back: what deploy %d replaced was not kept", number, d.Number)
		}
		journals = append(journals, d.Journal)
	}
	return all[at], journals, nil
}

// retain is how much of a history is remembered. The newest journal stays in
// any case, since its name is what makes its deploy good; the oldest one leads
// to nothing.
func (h *Host) retain(all []app.Deploy) []app.Deploy {
	kept := slices.Clone(all[:min(len(all), max(h.DeploysKeep, 1))])
	var bytes int64
	for i := range kept {
		bytes += kept[i].Kept
		if i > 0 && (i == len(kept)-1 || bytes > h.DeploysDisk.Bytes()) {
			bytes = max(bytes, h.DeploysDisk.Bytes()+1) // nothing that is older leads anywhere
			kept[i].Journal, kept[i].Kept = "", 0
		}
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

// record makes a commit good: from here on a boot keeps it.
func (c *commit) record(ctx context.Context, done app.Applied) error {
	h := c.h
	d := app.Deploy{
		By: c.by, Kind: c.kind, Bytes: c.bytes, Code: c.plan.Code, Auto: c.auto, Note: c.note,
		Journal: done.Journal, Kept: done.Bytes, Run: c.number, Started: c.started,
	}
	retain := h.retain
	if c.lost {
		retain = func(all []app.Deploy) []app.Deploy { return forgotten(h.retain(all)) }
	}
	if _, err := h.Registry.AddDeploy(ctx, c.u.id, d, c.variables, c.u.wanted, retain); err != nil {
		// It may be written all the same: what the records say decides.
		if good, look := h.Registry.Journals(ctx, c.u.id); look != nil || !slices.Contains(good, done.Journal) {
			return err
		}
	}
	err := h.settle(ctx, c.u.id, c.before.UID)
	if err == nil && (c.lost || h.DeploysKeep < 2 || done.Bytes > h.DeploysDisk.Bytes()) {
		if err = h.Registry.DropJournal(ctx, c.u.id, done.Journal); err == nil {
			err = h.settle(ctx, c.u.id, c.before.UID)
		}
	}
	if err != nil { // the commit is good: the next one, or the next boot, tidies up
		c.u.log.Error("cannot put the journals in order after a deployment", "error", err)
	}
	return nil
}

// forgotten is a history whose earlier deploys lead nowhere: the tree that their
// journals were about is gone.
func forgotten(all []app.Deploy) []app.Deploy {
	for i := 1; i < len(all); i++ {
		all[i].Journal, all[i].Kept = "", 0
	}
	return all
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
		c.note = fmt.Sprintf("back to deploy %d", target.Number)
		return c.launch(work, func(ctx context.Context) (app.Stage, error) {
			stage, stays, err := h.Staging.Rollback(ctx, id, c.before.UID, journals)
			c.plan.Notes = staying(stays)
			return stage, err
		})
	})
}

// mostNamed is how many files an answer names.
const mostNamed = 10

// staying says which files a rollback left as the program had made them.
func staying(paths []string) []string {
	if len(paths) == 0 {
		return nil
	}
	named := make([]string, 0, mostNamed+1)
	for _, path := range paths[:min(len(paths), mostNamed)] {
		named = append(named, fmt.Sprintf("%.200q", path))
	}
	if more := len(paths) - mostNamed; more > 0 {
		named = append(named, fmt.Sprintf("and %d more", more))
	}
	return []string{"The program made or changed these since they were deployed, so they stay as they are: " + strings.Join(named, ", ") + "."}
}

// Restore brings an application's files to what a spooled ZIP holds, as Commit
// does, but what is not in the ZIP goes away. With withVariables the variables
// in it become the application's. It takes the file over.
func (h *Host) Restore(ctx context.Context, owner app.AccountID, id app.ID, file string, withVariables bool) (app.Deployed, error) {
	defer h.Staging.DropSpool(file)
	return h.deploy(ctx, owner, id, app.DeployRestore, func(work context.Context, c *commit) (app.Deployed, error) {
		c.whole, c.takesVariables = true, withVariables
		c.note = "from a backup"
		if withVariables {
			c.note += ", with its environment variables"
		}
		return c.run(work, file)
	})
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
