package httpapi

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"mime"
	"strings"

	"berth/app"
	"berth/web"
)

const (
	howToUpload   = "Send the ZIP file as multipart/form-data, in a part that has a file name."
	brokenUpload  = "The upload ended early or is not well-formed multipart/form-data."
	missingUpload = "missing required file: no part of the request has a file name. " + howToUpload
)

// accountUploads is how many bodies of one account may be on their way at a
// time: each can hold a connection, and space on the disk.
const accountUploads = 8

// deployments are the routes that bring code.
type deployments struct {
	app.Deployments
	snapshots app.Snapshots // nil where the host has no backup
	apps      app.Applications
	contents  app.Contents
	links     app.Links
	logs      app.Logs
	address   func(app.ID) app.SiteAddress
	backupOf  func(file string) (app.ID, bool)

	maxUpload, maxFile int64
	uploads            *places // in one request
}

func newDeployments(c Config) deployments {
	return deployments{
		Deployments: c.Deployments, snapshots: c.Snapshots, apps: c.Applications, contents: c.Contents, links: c.Links, logs: c.Logs,
		address: c.Address, backupOf: c.BackupOf, maxUpload: c.MaxUpload, maxFile: c.MaxFile,
		uploads: newPlaces(math.MaxInt, nil, accountUploads,
			app.Errorf(app.Limited, "Your account has %d uploads under way, the most that an account may have. Try again when one has ended.", accountUploads)),
	}
}

func (d deployments) upload(c *call) (response, error) {
	stopped, err := asked(c, "stopped")
	if err != nil {
		return response{}, err
	}
	file, err := d.spool(c, nil)
	if err != nil {
		return response{}, err
	}
	return d.deploy(c, func(ctx context.Context) (response, error) {
		if stopped {
			c.audit.Note("stopped=true")
			ctx = app.WithWanted(ctx, app.WantStopped)
		}
		made, err := d.Upload(app.WithFileName(ctx, c.FileName), c.account, file)
		if err != nil {
			return response{}, err
		}
		c.id, c.audit.name = made.ID, made.Name
		return d.deployed(c, app.Textf("Your application was uploaded"), made, uploaded(made))
	})
}

// uploaded shows a new application.
func uploaded(made app.Deployed) member {
	return member{"app", object{
		{"id", made.ID},
		{"type", made.Type},
		{"name", made.Name},
		{"avatarURL", made.AvatarURL},
		{"ram", made.RAM},
		{"mainFile", made.Code.Main},
		{"lang", made.Code.Lang},
		{"version", made.Code.Version},
		{"addedAtTimestamp", made.CreatedAt.UnixMilli()},
		{"autoRestart", made.AutoRestart},
	}}
}

// deployed is the answer of a deployment.
func (d deployments) deployed(c *call, done app.Text, made app.Deployed, found ...member) (response, error) {
	if len(made.Notices) > 0 {
		found = append(found, member{"notices", made.Notices})
	}
	if made.Logs != "" {
		found = append(found, member{"logs", made.Logs})
	}
	return numbered(c.outcome(done, made), append(found, c.site(made.Snapshot, d.address)...)...)
}

func (d deployments) commit(c *call) (response, error) {
	// Asked first, so that nobody sends a large file for nothing.
	if _, err := d.apps.App(c.owner(), c.id); err != nil {
		return response{}, err
	}
	exact, err := asked(c, "exact")
	if err != nil {
		return response{}, err
	}
	file, err := d.spool(c, isField("exact", &exact))
	if err != nil {
		return response{}, err
	}
	return d.deploy(c, func(ctx context.Context) (response, error) {
		made, err := d.commitSpooled(ctx, c, file, exact)
		if err != nil {
			return response{}, err
		}
		return d.deployed(c, app.Textf("Your application was updated"), made)
	})
}

// commitSpooled commits a file, unless the member who sent it was taken out of the team
// meanwhile: a file can be long on its way.
func (d deployments) commitSpooled(ctx context.Context, c *call, file string, exact bool) (app.Deployed, error) {
	if c.mayStill != nil {
		if err := c.mayStill(); err != nil {
			d.DropSpool(file)
			return app.Deployed{}, err
		}
	}
	if exact {
		c.audit.Note("exact=true")
	}
	return d.Commit(app.WithActor(ctx, c.account.ID), c.owner(), c.id, file, exact)
}

// isField returns a function for spool that takes one field of a form, which is true or
// false.
func isField(field string, is *bool) func(name, text string) error {
	return func(name, text string) error {
		if name != field {
			return nil
		}
		*is = text == "true"
		if !*is && text != "false" && text != "" {
			return app.Errorf(app.Invalid, "The field %s must be true or false.", field)
		}
		return nil
	}
}

// spool streams the first file of a multipart body to the deployer and returns the name
// of what it kept. It calls field, unless that is nil, with the name and the text of each
// part that comes before the file. The caller MUST hand the file over.
func (d deployments) spool(c *call, field func(name, text string) error) (string, error) {
	if c.Request.ContentLength > d.maxUpload {
		return "", tooLargeError(d.maxUpload)
	}
	release, err := d.uploads.acquire(c.account.ID)
	if err != nil {
		return "", err
	}
	defer release()
	u := web.Upload{
		MaxBody: d.maxUpload, MaxFile: d.maxFile, Field: field, Spool: d.Spool, DropSpool: d.DropSpool,
		NoForm:  app.Errorf(app.Invalid, howToUpload),
		NoFile:  app.Errorf(app.NotFound, missingUpload),
		Crowded: app.Errorf(app.Invalid, "There is too much before the file. %s", app.Textf(howToUpload)),
		TooLarge: func(limit int64) error {
			return app.Errorf(app.TooLarge, "The upload is larger than the %s that are allowed.", size(limit))
		},
		Blame: func(b *web.Body, err error) error { return blame(b, err, app.Textf(brokenUpload)) },
	}
	return u.Take(&c.Call)
}

func (d deployments) list(c *call) (response, error) {
	now, err := d.apps.App(c.owner(), c.id) // first: what ends meanwhile is among them
	if err != nil {
		return response{}, err
	}
	all, err := d.Deploys(c.Request.Context(), c.owner(), c.id)
	if err != nil {
		return response{}, err
	}
	list := make([]object, len(all))
	for i, x := range all {
		list[i] = object{
			{"number", x.Number},
			{"date", timestamp(x.At)},
			{"by", x.By.String()},
			{"kind", x.Kind},
			{"size", x.Bytes},
			{"mainFile", x.Code.Main},
			{"lang", x.Code.Lang},
			{"version", x.Code.Version},
			{"note", x.Note},
			{"exact", x.Exact},
			{"removed", x.Removed},
			{"current", i == 0},
			{"rollback", x.Back},
		}
	}
	return ok(c.say("The deploys of your application have been loaded."), member{"deploys", list}, member{"deploying", now.Deploying})
}

func (d deployments) rollback(c *call) (response, error) {
	number := int64(0)
	if c.Request.ContentLength != 0 {
		f := c.fields()
		if f.has("deploy") {
			if number = f.integer("deploy"); number < 1 || number > math.MaxInt32 {
				f.wrong("The field deploy must be the number of a deploy, 1 or more.")
			}
		}
		if f.err != nil {
			return response{}, f.err
		}
	}
	return d.deploy(c, func(ctx context.Context) (response, error) {
		made, err := d.Rollback(app.WithActor(ctx, c.account.ID), c.owner(), c.id, int(number))
		if err != nil {
			return response{}, err
		}
		return d.deployed(c, app.Textf("The earlier code of your application is back"), made)
	})
}

func (d deployments) restore(c *call) (response, error) {
	// Asked first, so that nobody sends a large file for nothing.
	if _, err := d.apps.App(c.owner(), c.id); err != nil {
		return response{}, err
	}
	withVariables, err := wantsVariables(c)
	if err != nil {
		return response{}, err
	}
	var file string
	if kind, _, broken := mime.ParseMediaType(c.Request.Header.Get("Content-Type")); broken == nil && strings.HasPrefix(kind, "multipart/") {
		file, err = d.spool(c, isField("env", &withVariables))
	} else {
		f := c.fields()
		if f.has("snapshot") {
			return d.restoreSnapshot(c, f, withVariables)
		}
		file, err = d.spoolBackup(c, f, &withVariables)
	}
	if err != nil {
		return response{}, err
	}
	return d.deploy(c, func(ctx context.Context) (response, error) {
		made, err := d.Restore(app.WithActor(ctx, c.account.ID), c.owner(), c.id, file, withVariables)
		if err != nil {
			return response{}, err
		}
		return d.deployed(c, app.Textf("Your application was restored"), made)
	})
}

// spoolBackup copies the backup that the fields of a JSON body name to the deployer.
func (d deployments) spoolBackup(c *call, f *fields, withVariables *bool) (string, error) {
	if f.has("env") && json.Unmarshal(f.members["env"], withVariables) != nil {
		f.wrong("The field %s must be true or false.", "env")
	}
	named := f.text("backup")
	if named == nil || *named == "" {
		f.wrong("The field backup is missing. It must be the url of a backup of the application; or send a ZIP as multipart/form-data.")
	}
	if f.err != nil {
		return "", f.err
	}
	link, err := d.links.Verify(signature(*named))
	if err != nil {
		return "", err
	}
	switch id, is := d.backupOf(link.Object); {
	case link.Kind != app.LinkBackup || !is:
		return "", app.Errorf(app.NotFound, "This is not the address of a backup.")
	case id != c.id:
		return "", app.Errorf(app.Invalid, "This is a backup of another application, %s. Send the ZIP itself if that is meant.", id)
	}
	backup, _, err := d.contents.OpenBackup(link.Object)
	if err != nil {
		return "", err
	}
	defer func() { _ = backup.Close() }() // only read, so nothing can be lost
	file, err := d.Spool(c.Request.Context(), backup)
	if err != nil {
		return "", fmt.Errorf("cannot read the backup: %w", err)
	}
	return file, nil
}

// signature is the signed part of a link: /d/<signature>/<name>, with or
// without what is around it.
func signature(link string) string {
	if _, after, found := strings.Cut(link, "/d/"); found {
		link = after
	}
	signed, _, _ := strings.Cut(link, "/")
	return signed
}
