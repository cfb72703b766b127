package db

import (
	"database/sql"
	"errors"
	"io/fs"
	"path/filepath"
	"slices"
	"testing"
	"testing/fstest"
	"time"

	"berth/app"
)

func TestEventLog(t *testing.T) {
	db, _ := openTemp(t)
	a := mustApp(t, db, mustAccount(t, db, "ana", 1000).ID, "shop", 100)
	exit := app.Exit{Run: 1, At: moment(5000), Ran: time.Second, Code: 137, Signal: 9, OOM: true, PeakBytes: 1 << 20, LimitMB: 64}
	must(t, db.Apps.RunEnded(t.Context(), a.ID, exit))
	must(t, db.Apps.RunEnded(t.Context(), a.ID, exit)) // known already
	_, err := db.History.AddDeploy(t.Context(), a.ID, app.Deploy{By: 7, Kind: app.DeployCommit, Note: "a note"}, nil, nil, func(all []app.Deploy) []app.Deploy { return all })
	must(t, err)
	must(t, db.History.AddHistoryEvent(t.Context(), a.ID, app.HistoryEvent{Kind: app.HistoryFailure, Deploy: app.DeployRollback, By: 8, Text: "why"}))
	all, err := db.History.EventLog(t.Context(), a.ID)
	must(t, err)
	if len(all) != 4 {
		t.Fatalf("got %+v", all)
	}
	want := []app.HistoryEvent{
		{Number: 4, At: all[0].At, Kind: app.HistoryFailure, Deploy: app.DeployRollback, By: 8, Text: "why"},
		{Number: 3, At: all[1].At, Kind: app.HistoryDeploy, Deploy: app.DeployCommit, By: 7, Text: "a note"},
		{Number: 2, At: moment(5000), Kind: app.HistoryExit},
		{Number: 1, At: all[3].At, Kind: app.HistoryDeploy, Deploy: all[3].Deploy, By: all[3].By},
	}
	if e := all[2].Exit; e == nil || *e != exit {
		t.Errorf("the exit is %+v", e)
	}
	all[2].Exit = nil
	if !slices.Equal(all, want) || all[0].At.IsZero() {
		t.Errorf("got %+v, want %+v", all, want)
	}
	for range eventsKept + 5 {
		must(t, db.History.AddHistoryEvent(t.Context(), a.ID, app.HistoryEvent{Kind: app.HistoryRefusal, Text: "full"}))
	}
	if all, err = db.History.EventLog(t.Context(), a.ID); err != nil || len(all) != eventsKept || all[0].Number != 4+eventsKept+5 {
		t.Errorf("%d are kept, %v", len(all), err)
	}
	must(t, db.Apps.DeleteApp(t.Context(), a.ID))
	if all, err = db.History.EventLog(t.Context(), a.ID); err != nil || len(all) != 0 {
		t.Errorf("after the application: %+v, %v", all, err)
	}
	if err := db.History.AddHistoryEvent(t.Context(), a.ID, app.HistoryEvent{Kind: app.HistoryRefusal}); app.KindOf(err) != app.NotFound {
		t.Errorf("of no application: %v", err)
	}
}

// What was remembered before there was a chronicle is its beginning.
func TestEventLogOfAnOlderSchema(t *testing.T) {
	path := filepath.Join(t.TempDir(), "berth.db")
	pool, err := sql.Open("sqlite3", path)
	must(t, err)
	older := fstest.MapFS{}
	names, err := fs.Glob(migrations(), "*.sql")
	must(t, err)
	for _, name := range names[:slices.Index(names, "0010.sql")] {
		text, err := fs.ReadFile(migrations(), name)
		must(t, err)
		older[name] = &fstest.MapFile{Data: text}
	}
	must(t, migrate(t.Context(), pool, older, nokeep))
	_, err = pool.ExecContext(t.Context(), `
		INSERT INTO account (id, name, total_ram, plan, locale, disabled, created_at) VALUES (1, 'ana', 1024, 'Diamond', 'en-US', 0, 5);
		INSERT INTO place (id, account, ram, uid, port) VALUES ('shop', 1, 200, 70001, 20001), ('blog', 1, 200, 70002, 20002);
		INSERT INTO app (id, name, avatar_url, type, wanted, created_at, main, lang, version, start_command, build_command, packages, auto_restart, apts, last_run, started_at)
			VALUES ('shop', '', '', 0, 'online', 7, '', '', '', '', '', '', 1, '', 3, 9), ('blog', '', '', 0, 'online', 7, '', '', '', '', '', '', 1, '', 3, 9);
		INSERT INTO exit_record (app, run, ended_at, ran_ms, code, signal, oom, peak_bytes, limit_mb, asked)
			VALUES ('shop', 1, 20, 1, 1, 0, 0, 0, 64, 0), ('shop', 2, 40, 1, 0, 0, 0, 0, 64, 1), ('blog', 1, 20, 1, 1, 0, 0, 0, 64, 0);
		INSERT INTO deploy (app, number, at, by, kind, bytes, main, lang, version, start_command, build_command, packages, auto_restart, note, journal, kept)
			VALUES ('shop', 1, 10, 1, 'upload', 0, '', '', '', '', '', '', 1, '', '', 0), ('shop', 2, 30, 1, 'commit', 0, '', '', '', '', '', '', 1, 'n', '', 0);`)
	must(t, errors.Join(err, pool.Close()))
	db := openAt(t, path, time.Now)
	all, err := db.History.EventLog(t.Context(), "shop")
	must(t, err)
	var kinds []app.HistoryEventKind
	for i, p := range all {
		kinds = append(kinds, p.Kind)
		if p.Number != int64(len(all)-i) {
			t.Errorf("the numbers are wrong: %+v", all)
		}
	}
	if want := []app.HistoryEventKind{app.HistoryExit, app.HistoryDeploy, app.HistoryExit, app.HistoryDeploy}; !slices.Equal(kinds, want) || !all[0].Exit.Asked || all[1].Text != "n" {
		t.Errorf("got %+v", all)
	}
	must(t, db.History.AddHistoryEvent(t.Context(), "blog", app.HistoryEvent{Kind: app.HistoryRefusal, Text: "x"}))
	if all, err = db.History.EventLog(t.Context(), "blog"); err != nil || len(all) != 2 || all[0].Number != 2 {
		t.Errorf("and goes on: %+v, %v", all, err)
	}
}
