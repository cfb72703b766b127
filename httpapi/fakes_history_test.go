package httpapi

import (
	"context"
	"strings"
	"time"

	"berth/app"
)

func (w *world) Restore(ctx context.Context, owner app.AccountID, id app.ID, file string, withVariables bool) (app.Deployed, error) {
	w.hand(file)
	w.pause(ctx, "Restore "+string(id))
	return w.deployed, w.change(w.call("Restore", id, withVariables, "by", app.ActorOf(ctx, 0)), owner, id)
}

func (w *world) BackupOf(file string) (app.ID, bool) {
	id, ok := strings.CutPrefix(file, "f8-")
	return app.ID(id), ok
}

func (w *world) Deploys(_ context.Context, owner app.AccountID, id app.ID) ([]app.Deploy, error) {
	if err := w.change(w.call("Deploys", id), owner, id); err != nil {
		return nil, err
	}
	code := app.Code{Main: "index.js", Lang: "javascript", Version: "latest", Start: "TOKEN=secret npm start", Packages: "sum"}
	return []app.Deploy{
		{Number: 7, At: testNow, By: 8, Kind: app.DeployRollback, Code: code, Auto: true, Note: "back to deploy 5", Journal: "secret", Kept: 9},
		{Number: 6, At: testNow.Add(-time.Hour), By: 7, Kind: app.DeployCommit, Bytes: 1234, Code: code, Journal: "secret", Back: true, Exact: true, Removed: 3, Brought: "secret"},
		{Number: 5, At: testNow.Add(-2 * time.Hour), By: 7, Kind: app.DeployUpload, Bytes: 12345, Code: code},
	}, nil
}

func (w *world) Rollback(ctx context.Context, owner app.AccountID, id app.ID, number int) (app.Deployed, error) {
	w.pause(ctx, "Rollback "+string(id))
	return w.deployed, w.change(w.call("Rollback", id, number, "by", app.ActorOf(ctx, 0)), owner, id)
}

func (w *world) Commit(ctx context.Context, owner app.AccountID, id app.ID, file string, exact bool) (app.Deployed, error) {
	w.hand(file)
	w.pause(ctx, "Commit "+string(id))
	_ = w.call("CommitBy", app.ActorOf(ctx, 0))
	if exact {
		_ = w.call("Exact", id)
	}
	return w.deployed, w.change(w.call("Commit", id), owner, id)
}
