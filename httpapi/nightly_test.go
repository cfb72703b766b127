package httpapi

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"berth/app"
)

// lastNight is the newest snapshot of every application of a world.
const lastNight = "20261120T031500Z"

// worldSnapshots are the copies of applications of a world.
type worldSnapshots struct{ w *world }

func (s worldSnapshots) Snapshots(_ context.Context, owner app.AccountID, id app.ID) ([]app.BackupSnapshot, error) {
	at, _ := app.ParseRun(lastNight)
	return []app.BackupSnapshot{
		{Run: lastNight, At: at, Bytes: 12345},
		{Run: app.RunName(at.Add(-24 * time.Hour)), At: at.Add(-24 * time.Hour), Bytes: 12340},
	}, s.w.change(s.w.call("Snapshots", id), owner, id)
}

func (s worldSnapshots) RestoreSnapshot(ctx context.Context, owner app.AccountID, id app.ID, run string, withVariables bool) (app.Deployed, error) {
	s.w.pause(ctx, "RestoreSnapshot "+string(id))
	return s.w.deployed, s.w.change(s.w.call("RestoreSnapshot", id, run, withVariables, "by", app.ActorOf(ctx, 0)), owner, id)
}

func (s worldSnapshots) CopySnapshot(ctx context.Context, owner app.Account, id app.ID, run string, withVariables bool) (app.Deployed, error) {
	s.w.pause(ctx, "CopySnapshot "+string(id))
	return s.w.deployed, s.w.change(s.w.call("CopySnapshot", id, run, withVariables, "for", owner.ID), owner.ID, id)
}

func snapshotScenes() []scene {
	const (
		list    = "/v2/app/{appID}/snapshots"
		restore = "/v2/app/{appID}/restore"
		another = "/v2/app/{appID}/copy"
		night   = `{"snapshot":"` + lastNight + `"}`
		gone    = "there is no such snapshot of the application"
	)
	copied := func(w *world) { w.deployed = app.Deployed{Snapshot: bot("1795349742699"), Logs: "added 12 packages"} }
	scenes := []scene{
		{name: "app_snapshots_ok", method: "GET", path: "/v2/app/bot-one/snapshots", op: list},
		{name: "app_snapshots_ok_empty", method: "GET", path: "/v2/app/bot-one/snapshots", op: list, arrange: func(w *world) { w.noBackup = true }},
		{name: "app_snapshots_not_found", method: "GET", path: "/v2/app/nobody/snapshots", op: list},
	}
	add := func(name, path, op, body string, arrange func(*world)) {
		scenes = append(scenes, scene{name: name, method: "POST", path: path, op: op, body: body, arrange: arrange})
	}
	add("app_restore_ok_snapshot", "/v2/app/bot-one/restore", restore, `{"snapshot":"`+lastNight+`","env":true}`, func(w *world) { w.deployed.Snapshot = bot("bot-one") })
	add("app_restore_not_found_snapshot", "/v2/app/bot-one/restore", restore, night, failing("RestoreSnapshot", app.NotFound, gone))
	add("app_restore_not_found_no_backup", "/v2/app/bot-one/restore", restore, night, func(w *world) { w.noBackup = true })
	add("app_restore_unavailable_snapshot", "/v2/app/bot-one/restore", restore, night, failing("RestoreSnapshot", app.Unavailable, "the backup of the host cannot be read now"))
	for outcome, arrange := range map[string]func(*world){
		"ok":        copied,
		"not_found": failing("CopySnapshot", app.NotFound, gone),
		"conflict":  failing("CopySnapshot", app.Conflict, "another application has the ID bot-one"),
		"unusable":  failing("CopySnapshot", app.Unusable, "the snapshot holds no environment variables"),
	} {
		add("app_copy_"+outcome, "/v2/app/bot-one/copy", another, night, arrange)
	}
	add("app_copy_invalid", "/v2/app/bot-one/copy", another, `{"env":true}`, nil)
	add("app_copy_too_large", "/v2/app/bot-one/copy", another, `{"snapshot":"`+lastNight+`","x":"`+strings.Repeat("x", maxFields)+`"}`, nil)
	return scenes
}

// Every body that names a snapshot, and every one that does not quite.
func TestSnapshotBodies(t *testing.T) {
	for body, want := range map[string]string{
		`{"snapshot":"` + lastNight + `"}`:                           lastNight + " false",
		`{"snapshot":"` + lastNight + `","env":true}`:                lastNight + " true",
		`{"snapshot":"` + lastNight + `","env":null,"backup":null}`:  lastNight + " false",
		`{"snapshot":"` + lastNight + `","env":"yes"}`:               "env must be true or false",
		`{"snapshot":"` + lastNight + `","backup":"/d/x/bot-1.zip"}`: "exclude each other",
		`{"snapshot":7}`:                      "must be a text",
		`{"snapshot":""}`:                     "must be the name of a snapshot",
		`{"snapshot":"latest"}`:               "must be the name of a snapshot",
		`{"snapshot":"20261320T031500Z"}`:     "must be the name of a snapshot",
		`{"snapshot":"../20261120T031500Z"}`:  "must be the name of a snapshot",
		`{"snapshot":"20261120T031500Z\n\n"}`: "must be the name of a snapshot",
	} {
		for path, called := range map[string]string{"restore": "RestoreSnapshot bot-one %s by 7", "copy": "CopySnapshot bot-one %s for 7"} {
			w := newWorld(t)
			w.deployed.Snapshot = bot("bot-one")
			rec := do(t, w.handler(), newRequest("POST", "/v2/app/bot-one/"+path, body))
			if strings.HasPrefix(want, lastNight) {
				if called = strings.Replace(called, "%s", want, 1); rec.Code != 200 || !slices.Contains(w.calls, called) {
					t.Errorf("%s of %s: %d %s, called %v", path, body, rec.Code, rec.Body, w.calls)
				}
			} else if rec.Code != 400 || !strings.Contains(rec.Body.String(), want) || w.called("RestoreSnapshot")+w.called("CopySnapshot") > 0 {
				t.Errorf("%s of %s: %d %s, called %v", path, body, rec.Code, rec.Body, w.calls)
			}
			w.checkSpools(t)
		}
	}
	w := newWorld(t)
	w.deployed.Snapshot = bot("bot-one")
	r := newRequest("POST", "/v2/app/bot-one/restore?env=true", `{"snapshot":"`+lastNight+`"}`)
	if rec := do(t, w.handler(), r); rec.Code != 200 || !slices.Contains(w.calls, "RestoreSnapshot bot-one "+lastNight+" true by 7") {
		t.Errorf("by the query: %d %s, called %v", rec.Code, rec.Body, w.calls)
	}
}

// Snapshots are for the owner of an application, whatever a member of its team may: one holds
// the environment variables.
func TestSnapshotsAreTheOwners(t *testing.T) {
	for _, id := range []string{"app/bot-two", "team/bot-one"} {
		for method, path := range map[string]string{"GET": "/snapshots", "POST": "/copy"} {
			w := newWorld(t)
			if strings.HasPrefix(id, "team") {
				w.join(app.AllPermissions)
			}
			rec := do(t, w.handler(), newRequest(method, "/v2/"+id+path, map[string]string{"POST": `{"snapshot":"` + lastNight + `"}`}[method]))
			if rec.Code != 404 || w.called("Snapshots")+w.called("CopySnapshot") > 0 {
				t.Errorf("%s %s%s: %d %s, called %v", method, id, path, rec.Code, rec.Body, w.calls)
			}
		}
	}
}

// The audit log has which snapshot was meant, whether variables were, and what was made of it.
func TestSnapshotsAreRecorded(t *testing.T) {
	for path, want := range map[string]struct {
		operation, detail string
		id                app.ID
	}{
		"restore":          {"app.restore", "snapshot=" + lastNight + " env=true", "bot-one"},
		"restore?env=true": {"app.restore", "env=true snapshot=" + lastNight, "bot-one"},
		"copy":             {"app.copy", "snapshot=" + lastNight + " env=true from=bot-one", "new-one"},
	} {
		w, records := audited(t)
		w.deployed.Snapshot = bot(want.id)
		if rec := do(t, w.handler(), newRequest("POST", "/v2/app/bot-one/"+path, `{"snapshot":"`+lastNight+`","env":true}`)); rec.Code != 200 {
			t.Errorf("%s: %d %s", path, rec.Code, rec.Body)
		}
		if got := records.acts; len(got) != 1 || got[0].Operation != want.operation || got[0].Detail != want.detail || got[0].App != want.id {
			t.Errorf("%s: the audit log has %+v", path, got)
		}
	}
}
