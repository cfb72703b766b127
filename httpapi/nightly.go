package httpapi

import (
	"context"
	"encoding/json"

	"berth/app"
)

// listSnapshots lists the copies of an application in the backup of the host. There are none
// where the host has no backup.
func (d deployments) listSnapshots(c *call) (response, error) {
	if _, err := d.apps.App(c.owner(), c.id); err != nil {
		return response{}, err
	}
	var all []app.BackupSnapshot
	if d.snapshots != nil {
		var err error
		if all, err = d.snapshots.Snapshots(c.Request.Context(), c.owner(), c.id); err != nil {
			return response{}, err
		}
	}
	return ok(c.say("The snapshots of your application have been loaded."), member{"snapshots", convert(all, func(s app.BackupSnapshot) object {
		return object{{"snapshot", s.Run}, {"date", timestamp(s.At)}, {"size", s.Bytes}}
	})})
}

// snapshot reads which snapshot a body means, and whether its variables are wanted too.
func (d deployments) snapshot(c *call, f *fields, withVariables *bool) (run string, err error) {
	noted := *withVariables // by wantsVariables
	if f.has("env") && json.Unmarshal(f.members["env"], withVariables) != nil {
		f.wrong("The field %s must be true or false.", "env")
	}
	if f.has("backup") {
		f.wrong("The fields backup and snapshot exclude each other.")
	}
	if named := f.text("snapshot"); named == nil {
		f.wrong("The field %s is missing. It must be a text.", "snapshot")
	} else {
		run = *named
	}
	if _, is := app.ParseRun(run); !is {
		f.wrong("The field snapshot must be the name of a snapshot, such as %s.", "20261126T031500Z")
	}
	switch {
	case f.err != nil:
		return "", f.err
	case d.snapshots == nil:
		return "", app.Errorf(app.NotFound, "This host keeps no snapshots of applications.")
	}
	c.audit.Note("snapshot=%s", run)
	if *withVariables && !noted {
		c.audit.Note("env=true")
	}
	return run, nil
}

// restoreSnapshot is restore for a body that names a snapshot.
func (d deployments) restoreSnapshot(c *call, f *fields, withVariables bool) (response, error) {
	run, err := d.snapshot(c, f, &withVariables)
	if err != nil {
		return response{}, err
	}
	return d.deploy(c, func(ctx context.Context) (response, error) {
		made, err := d.snapshots.RestoreSnapshot(app.WithActor(ctx, c.account.ID), c.owner(), c.id, run, withVariables)
		if err != nil {
			return response{}, err
		}
		return d.deployed(c, app.Textf("Your application was restored"), made)
	})
}

// copySnapshot makes a new application of a snapshot.
func (d deployments) copySnapshot(c *call) (response, error) {
	if _, err := d.apps.App(c.owner(), c.id); err != nil {
		return response{}, err
	}
	withVariables := false
	run, err := d.snapshot(c, c.fields(), &withVariables)
	if err != nil {
		return response{}, err
	}
	c.audit.Note("from=%s", c.id)
	return d.deploy(c, func(ctx context.Context) (response, error) {
		made, err := d.snapshots.CopySnapshot(ctx, c.account, c.id, run, withVariables)
		if err != nil {
			return response{}, err
		}
		c.id, c.audit.name = made.ID, made.Name
		return d.deployed(c, app.Textf("A new application was created from the snapshot"), made, uploaded(made))
	})
}
