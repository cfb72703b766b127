package panel

import (
	"context"
	"slices"

	"berth/app"
)

// backupsPage is the data of backups.html.
type backupsPage struct {
	Own     bool
	Backups []backup
}

// backup is one that can be downloaded.
type backup struct {
	app.Backup
	URL string
}

// backups lists those that can be downloaded. They may hold the environment
// variables, which are the owner's alone, so a member sees none but what it made.
func (s *server) backups(c *call) (answer, error) {
	page := backupsPage{Own: c.own()}
	if page.Own {
		all, err := s.Contents.Backups(c.app.ID, s.BackupTTL)
		if err != nil {
			return answer{}, err
		}
		for _, b := range all {
			page.Backups = append(page.Backups, backup{b, s.linkTo(b)})
		}
	}
	return show("backups", page)
}

// linkTo is the signed address of a backup, which the API serves.
func (s *server) linkTo(b app.Backup) string {
	link := app.Link{Kind: app.LinkBackup, Object: b.File, Expires: b.Expires}
	return "/d/" + s.Links.Sign(link) + "/" + string(b.App) + ".zip"
}

func (s *server) makeBackup(c *call) (answer, error) {
	f, err := c.form()
	if err != nil {
		return answer{}, err
	}
	withVariables := f.Get("env") == "true"
	if withVariables && !c.own() {
		return answer{}, app.Errorf(app.Forbidden, "a backup with the environment variables is for the application's owner alone")
	}
	if withVariables {
		c.audit.Note("env=true")
	}
	b, err := s.Deployments.Backup(c.Request.Context(), c.owner, c.app.ID, withVariables)
	if err != nil {
		return answer{}, err
	}
	return answer{to: c.at("backups"), flash: &flash{Text: c.lang.Say("The backup was made."), Link: s.linkTo(b), Word: c.lang.Say("Download it")}}, nil
}

// errSure is what restoring without the tick of the form says.
func errSure() error {
	return app.Errorf(app.Invalid, "tick that the files are to be replaced, then they are")
}

// restore brings back a backup of the list, as a job.
func (s *server) restore(c *call) (answer, error) {
	f, err := c.form()
	if err != nil {
		return answer{}, err
	}
	if f.Get("sure") != "true" {
		return answer{}, errSure()
	}
	withVariables := f.Get("env") == "true"
	if withVariables {
		c.audit.Note("env=true")
	}
	all, err := s.Contents.Backups(c.app.ID, s.BackupTTL)
	if err != nil {
		return answer{}, err
	}
	name := f.Get("backup")
	if !slices.ContainsFunc(all, func(b app.Backup) bool { return b.File == name }) {
		return answer{}, app.Errorf(app.NotFound, "this backup is not there any more")
	}
	source, _, err := s.Contents.OpenBackup(name)
	if err != nil {
		return answer{}, err
	}
	defer func() { _ = source.Close() }() // only read, so nothing can be lost
	return s.deploy(c, jobRestore, func(ctx context.Context, _ *job) (string, error) {
		return s.Deployments.Spool(ctx, source)
	}, func(ctx context.Context, file string) (app.Deployed, error) {
		return s.Deployments.Restore(ctx, c.owner, c.app.ID, file, withVariables)
	})
}

// restoreUploaded brings back a ZIP that the form holds, as a job.
func (s *server) restoreUploaded(c *call) (answer, error) {
	withVariables, sure := false, false
	return s.deploy(c, jobRestore, func(_ context.Context, j *job) (string, error) {
		file, err := s.spool(c, j, func(name, text string) {
			sure = sure || name == "sure" && text == "true"
			withVariables = withVariables || name == "env" && text == "true"
		}, func() error {
			if !sure {
				return errSure()
			}
			return nil
		})
		if withVariables {
			c.audit.Note("env=true")
		}
		return file, err
	}, func(ctx context.Context, file string) (app.Deployed, error) {
		return s.Deployments.Restore(ctx, c.owner, c.app.ID, file, withVariables)
	})
}
