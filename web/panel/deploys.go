package panel

import (
	"context"
	"io"
	"math"
	"net/url"
	"slices"
	"time"

	"berth/app"
	"berth/web"
)

// deployPages are the earlier code of an application, and its backups.
type deployPages struct {
	uploadPages
	contents  app.Contents
	snapshots app.Snapshots // nil where the host has no backup
	links     app.Links
	feed      app.Feed
	account   func(ctx context.Context, id app.AccountID) (app.Account, error)
	backupTTL time.Duration
}

// deploysPage is the data of deploys.html.
type deploysPage struct {
	live
	Deploys []app.Deploy // the first is what the application has now
	Name    func(app.AccountID) string
	Why     string // there is no list yet
}

// list shows what was deployed, newest first.
func (p *deployPages) list(c *call) (answer, error) {
	page := deploysPage{live: liveOf(p.feed, "", c.app.ID), Name: namer(c, p.account)}
	var err error
	page.Deploys, err = p.deployments.Deploys(c.ctx(), c.owner, c.app.ID)
	if app.KindOf(err) == app.Conflict { // its first deployment is under way
		page.Why, err = c.say(err), nil
	}
	return show("deploys", page), err
}

// rollback brings the code of an earlier deploy back. Once begun it is finished,
// whether the browser waits or not.
func (p *deployPages) rollback(c *call) (answer, error) {
	number := c.number("number")
	if number < 1 || number > math.MaxInt32 {
		return answer{}, app.Errorf(app.NotFound, "there is no such deploy")
	}
	c.audit.Note("deploy=%d", number)
	ctx := app.WithActor(context.WithoutCancel(c.ctx()), c.account.ID)
	_, err := p.deployments.Rollback(ctx, c.owner, c.app.ID, int(number))
	return done(c.at("deploys"), c.lang.Say("The code of deploy %d is back.", number)), err
}

// backup is one that can be downloaded.
type backup struct {
	app.Backup
	URL string
}

// backupsPage is the data of backups.html.
type backupsPage struct {
	Ready  []backup             // that can be downloaded
	Nights []app.BackupSnapshot // newest first
	Backed bool                 // the host can have a backup
	Why    string               // the snapshots cannot be read
}

// backups lists those that can be downloaded, and the snapshots of every night. They may
// hold the environment variables, which are the owner's alone, so a member sees none but
// what it made.
func (p *deployPages) backups(c *call) (answer, error) {
	page := backupsPage{Backed: p.snapshots != nil}
	if !c.own() {
		return show("backups", page), nil
	}
	all, err := p.contents.Backups(c.app.ID, p.backupTTL)
	for _, b := range all {
		page.Ready = append(page.Ready, backup{b, p.linkTo(b)})
	}
	if err == nil && page.Backed {
		page.Nights, err = p.snapshots.Snapshots(c.ctx(), c.owner, c.app.ID)
		if sayable(err) != nil {
			page.Why, err = c.say(err), nil
		}
	}
	return show("backups", page), err
}

// linkTo is the signed address of a backup, which the API serves.
func (p *deployPages) linkTo(b app.Backup) string {
	link := app.Link{Kind: app.LinkBackup, Object: b.File, Expires: b.Expires}
	return "/d/" + p.links.Sign(link) + "/" + string(b.App) + ".zip"
}

func (p *deployPages) backup(c *call, f url.Values) (answer, error) {
	withVariables := f.Get("env") == "true"
	if withVariables && !c.own() {
		return answer{}, app.Errorf(app.Forbidden, "a backup with the environment variables is only for the application's owner")
	}
	if withVariables {
		c.audit.Note("env=true")
	}
	b, err := p.deployments.Backup(c.ctx(), c.owner, c.app.ID, withVariables)
	if err != nil {
		return answer{}, err
	}
	return answer{to: c.at("backups"), flash: &flash{Text: c.lang.Say("The backup was created."), Link: p.linkTo(b), Word: c.lang.Say("Download it")}}, nil
}

// errSure is what restoring without the tick of the form says.
func errSure() error {
	return app.Errorf(app.Invalid, "to replace the files, tick the box that confirms it")
}

// restore brings back a backup of the list, as a job.
func (p *deployPages) restore(c *call, f url.Values) (answer, error) {
	if f.Get("sure") != "true" {
		return answer{}, errSure()
	}
	withVariables := f.Get("env") == "true"
	if withVariables {
		c.audit.Note("env=true")
	}
	all, err := p.contents.Backups(c.app.ID, p.backupTTL)
	if err != nil {
		return answer{}, err
	}
	name := f.Get("backup")
	if !slices.ContainsFunc(all, func(b app.Backup) bool { return b.File == name }) {
		return answer{}, app.Errorf(app.NotFound, "this backup is not there any more")
	}
	source, _, err := p.contents.OpenBackup(name)
	if err != nil {
		return answer{}, err
	}
	defer func() { _ = source.Close() }() // only read, so nothing can be lost
	return p.deploy(c, jobRestore, func(c *call, u *web.Upload) (string, error) {
		return u.Spool(c.ctx(), source)
	}, func(ctx context.Context, file string) (app.Deployed, error) {
		return p.deployments.Restore(ctx, c.owner, c.app.ID, file, withVariables)
	})
}

// restoreUploaded brings back a ZIP that the form holds, as a job.
func (p *deployPages) restoreUploaded(c *call) (answer, error) {
	withVariables, sure := false, false
	return p.deploy(c, jobRestore, func(c *call, u *web.Upload) (string, error) {
		u.Field = func(name, text string) error {
			sure = sure || name == "sure" && text == "true"
			withVariables = withVariables || name == "env" && text == "true"
			return nil
		}
		u.Spool = func(ctx context.Context, r io.Reader) (string, error) {
			if !sure {
				return "", errSure()
			}
			return p.deployments.Spool(ctx, r)
		}
		file, err := p.receive(c, u)
		if withVariables {
			c.audit.Note("env=true")
		}
		return file, err
	}, func(ctx context.Context, file string) (app.Deployed, error) {
		return p.deployments.Restore(ctx, c.owner, c.app.ID, file, withVariables)
	})
}

// snapshot reads which snapshot a form is about, and whether its variables are wanted too.
func (p *deployPages) snapshot(c *call, f url.Values) (run string, withVariables bool, err error) {
	run, withVariables = c.Request.PathValue("snapshot"), f.Get("env") == "true"
	if _, is := app.ParseRun(run); !is || p.snapshots == nil {
		return "", false, app.Errorf(app.NotFound, "there is no such snapshot")
	}
	c.audit.Note("snapshot=%s", run)
	if withVariables {
		c.audit.Note("env=true")
	}
	return run, withVariables, nil
}

// restoreSnapshot brings back the files of a night, as a job.
func (p *deployPages) restoreSnapshot(c *call, f url.Values) (answer, error) {
	run, withVariables, err := p.snapshot(c, f)
	if err == nil && f.Get("sure") != "true" {
		err = errSure()
	}
	if err != nil {
		return answer{}, err
	}
	return p.deployStored(c, jobRestore, func(ctx context.Context) (app.Deployed, error) {
		return p.snapshots.RestoreSnapshot(ctx, c.owner, c.app.ID, run, withVariables)
	})
}

// copySnapshot makes a new application of the files of a night, as a job.
func (p *deployPages) copySnapshot(c *call, f url.Values) (answer, error) {
	run, withVariables, err := p.snapshot(c, f)
	if err != nil {
		return answer{}, err
	}
	c.audit.Note("from=%s", c.app.ID)
	return p.deployStored(c, jobCopy, func(ctx context.Context) (app.Deployed, error) {
		return p.snapshots.CopySnapshot(ctx, c.account, c.app.ID, run, withVariables)
	})
}
