package db

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"testing"
	"testing/fstest"
	"time"

	"berth/app"
)

// first is how an application that is uploaded begins its history.
func first(a app.App) app.Deploy { return app.Deploy{By: a.Account, Kind: app.DeployUpload, Bytes: 9} }

// everything retains all of a history.
func everything(all []app.Deploy) []app.Deploy { return all }

func setCode(db *DB, id app.ID, c app.Code, auto bool) error {
	_, err := db.History.AddDeploy(context.Background(), id, app.Deploy{Kind: app.DeployCommit, Code: c, Auto: auto}, nil, nil, nil, everything)
	return err
}

func TestDeploys(t *testing.T) {
	db, clock := openTemp(t)
	ctx := t.Context()
	owner := mustAccount(t, db, "ana", 512).ID
	shop := mustApp(t, db, owner, "shop", 100)
	mustApp(t, db, owner, "forum", 100)
	begin, err := db.History.Deploys(ctx, "shop")
	must(t, err)
	want := []app.Deploy{{Number: 1, At: moment(stamp(clock.now())), By: owner, Kind: app.DeployUpload, Bytes: 9, Code: shop.Code, Auto: shop.AutoRestart}}
	if !reflect.DeepEqual(begin, want) {
		t.Errorf("after the upload %+v, want %+v", begin, want)
	}
	clock.advance(time.Hour)
	add := func(n int) app.Deploy {
		d, err := db.History.AddDeploy(ctx, "shop", app.Deploy{
			By: 77, Kind: app.DeployCommit, Bytes: 5, Code: app.Code{Main: fmt.Sprint(n), Lang: "x", Version: "v", Start: "s", Build: "b", Packages: "p", Health: "/up", MemorySignal: "SIGUSR2", Stdin: true}, Auto: true,
			Note: "a note", Journal: fmt.Sprint("journal", n), Kept: 100, Brought: fmt.Sprint("list", n), Exact: n%2 == 0, Removed: n,
		}, nil, nil, nil, func(all []app.Deploy) []app.Deploy {
			for i, d := range all {
				if d.Number != n-i {
					t.Errorf("number %d at %d", d.Number, i)
				}
			}
			kept := slices.Clone(all[:min(3, len(all))])
			kept[len(kept)-1].Journal, kept[len(kept)-1].Brought = "", ""
			return kept
		})
		must(t, err)
		return d
	}
	var last []app.Deploy
	for n := 2; n <= 6; n++ {
		last = append([]app.Deploy{add(n)}, last...)
	}
	got, err := db.History.Deploys(ctx, "shop")
	must(t, err)
	last = last[:3]
	last[2].Journal, last[2].Brought = "", ""
	if !reflect.DeepEqual(got, last) || last[0].Number != 6 || !last[0].At.Equal(moment(stamp(clock.now()))) {
		t.Errorf("got %+v, want %+v", got, last)
	}
	if a := oneApp(t, db, "shop"); a.Code != last[0].Code || !a.AutoRestart {
		t.Errorf("the application is %+v", a)
	}
	journals, err := db.History.Journals(ctx, "shop")
	if slices.Sort(journals); err != nil || !slices.Equal(journals, []string{"journal5", "journal6", "list5", "list6"}) {
		t.Errorf("journals %v, %v", journals, err)
	}
	if other, err := db.History.Deploys(ctx, "forum"); err != nil || len(other) != 1 {
		t.Errorf("another application: %+v, %v", other, err)
	}
	must(t, db.Apps.DeleteApp(ctx, "shop"))
	_, err = db.History.Deploys(ctx, "shop")
	wantKind(t, "deploys of what was deleted", err, app.NotFound)
	if journals, err := db.History.Journals(ctx, "shop"); err != nil || len(journals) != 0 {
		t.Errorf("journals of what was deleted: %v, %v", journals, err)
	}
	wantKind(t, "a deploy of what was deleted", setCode(db, "shop", app.Code{}, true), app.NotFound)
}

func wantMode(t *testing.T, path string, want os.FileMode) {
	t.Helper()
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != want {
		t.Errorf("%s: %v, %v", filepath.Base(path), info, err)
	}
}

// A deploy is recorded whole or not at all.
func TestAddDeployIsOneTransaction(t *testing.T) {
	db, _ := openTemp(t)
	ctx := t.Context()
	owner := mustAccount(t, db, "ana", 512).ID
	before := mustApp(t, db, owner, "shop", 100)
	must(t, db.Apps.ChangeVariables(ctx, "shop", func(set map[string]string) error { set["OLD"] = "1"; return nil }))
	bad := app.Deploy{Kind: "perhaps", Code: app.Code{Main: "new"}, Journal: "j"}
	if _, err := db.History.AddDeploy(ctx, "shop", bad, []app.Variable{}, nil, nil, everything); err == nil {
		t.Error("a kind that is none was taken")
	}
	if got := oneApp(t, db, "shop"); !reflect.DeepEqual(got, before) {
		t.Errorf("got %+v, want %+v", got, before)
	}
	wantVariables(t, db, "shop", app.Variable{Name: "OLD", Value: "1"})
	bad.Kind = app.DeployRestore
	_, err := db.History.AddDeploy(ctx, "shop", bad, []app.Variable{{Name: "NEW", Value: "2"}}, nil, nil, everything)
	must(t, err)
	wantVariables(t, db, "shop", app.Variable{Name: "NEW", Value: "2"})
	if _, err := db.History.AddDeploy(ctx, "shop", bad, nil, nil, nil, everything); err == nil {
		t.Error("one journal for two deploys was taken")
	}
}

func TestCopyAndCheck(t *testing.T) {
	path := filepath.Join(t.TempDir(), "berth.db")
	db := openAt(t, path, time.Now)
	ctx := t.Context()
	owner := mustAccount(t, db, "ana", 512).ID
	mustApp(t, db, owner, "shop", 100)
	to := path + ".copy"
	must(t, os.WriteFile(to+PartWord, []byte("of a process that was killed"), 0o600))
	must(t, db.Copy(ctx, to))
	if _, err := os.Stat(to + PartWord); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("beside the copy there is a part, %v", err)
	}
	if err := db.Copy(ctx, to); err == nil {
		t.Error("copied over a file")
	}
	wantMode(t, to, 0o600)
	schema, err := Check(ctx, to)
	if err != nil || schema != Schema() || schema == 0 {
		t.Errorf("schema %d, %v", schema, err)
	}
	copied := openAt(t, to, time.Now)
	if a := oneApp(t, copied, "shop"); a.Account != owner {
		t.Errorf("got %+v", a)
	}
	_, err = copied.writer.ExecContext(ctx, "PRAGMA user_version = 999")
	must(t, errors.Join(err, copied.Close()))
	if schema, err := Check(ctx, to); !errors.Is(err, ErrNewer) || schema != 999 {
		t.Errorf("a newer one: %d, %v", schema, err)
	}
	if _, err := Check(ctx, path+".missing"); err == nil {
		t.Error("a missing file is whole")
	}
}

// The run that a deployment started beside another is the application's in the
// same transaction.
func TestAddDeployNamesTheRun(t *testing.T) {
	db, clock := openTemp(t)
	ctx := t.Context()
	mustApp(t, db, mustAccount(t, db, "ana", 512).ID, "shop", 100)
	must(t, db.Apps.RunStarted(ctx, "shop", 3, clock.now(), false))
	started := clock.now().Add(time.Minute).Truncate(time.Millisecond)
	for _, c := range []struct{ run, want int }{{0, 3}, {7, 7}, {0, 7}} {
		_, err := db.History.AddDeploy(ctx, "shop", app.Deploy{Kind: app.DeployCommit, Code: app.Code{Main: "x", Health: "/up", MemorySignal: "SIGUSR1", Stdin: true}, Run: c.run, Started: started}, nil, nil, nil, everything)
		must(t, err)
		all, err := db.Apps.Apps(ctx)
		must(t, err)
		if a := all[0]; a.LastRun != c.want || a.StartedAt.Equal(started) != (c.want == 7) || a.Code.Health != "/up" || a.Code.MemorySignal != "SIGUSR1" || !a.Code.Stdin {
			t.Errorf("after run %d it is %+v", c.run, a)
		}
	}
}

// What is wanted is recorded with the deploy, as it is when that is written; an exit
// from before the run that was started for it is no longer shown.
func TestAddDeployRecordsWhatIsWanted(t *testing.T) {
	db, clock := openTemp(t)
	ctx := t.Context()
	mustApp(t, db, mustAccount(t, db, "ana", 512).ID, "shop", 100)
	must(t, db.Apps.SetWanted(ctx, "shop", app.WantStopped))
	must(t, db.Apps.RunEnded(ctx, "shop", app.Exit{Run: 3, At: clock.now(), Code: 1}))
	online := func() app.Wanted { return app.WantOnline }
	stopped := func() app.Wanted { return app.WantStopped }
	for _, c := range []struct {
		name   string
		kind   app.DeployKind
		run    int
		wanted func() app.Wanted
		want   app.Wanted
		exit   bool
	}{
		{"one that is not written", "perhaps", 4, online, app.WantStopped, true},
		{"one that says nothing", app.DeployCommit, 0, nil, app.WantStopped, true},
		{"one that starts a run", app.DeployCommit, 4, online, app.WantOnline, false},
		{"one whose run has ended", app.DeployCommit, 5, stopped, app.WantStopped, true},
	} {
		if c.run == 5 {
			must(t, db.Apps.RunEnded(ctx, "shop", app.Exit{Run: 5, At: clock.now(), Code: 0}))
		}
		_, err := db.History.AddDeploy(ctx, "shop", app.Deploy{Kind: c.kind, Code: app.Code{Main: "x"}, Run: c.run, Started: clock.now()}, nil, c.wanted, nil, everything)
		if (err != nil) != (c.kind == "perhaps") {
			t.Errorf("%s: %v", c.name, err)
		}
		if a := oneApp(t, db, "shop"); a.Wanted != c.want || (a.LastExit != nil) != c.exit {
			t.Errorf("%s: %s, exit %+v", c.name, a.Wanted, a.LastExit)
		}
	}
}

func TestEventLog(t *testing.T) {
	db, _ := openTemp(t)
	a := mustApp(t, db, mustAccount(t, db, "ana", 1000).ID, "shop", 100)
	exit := app.Exit{Run: 1, At: moment(5000), Ran: time.Second, Code: 137, Signal: 9, OOM: true, HostOOM: true, HeapFull: app.JavaScriptHeap, HeapMB: 44, PeakBytes: 1 << 20, LimitMB: 64}
	must(t, db.Apps.RunEnded(t.Context(), a.ID, exit))
	must(t, db.Apps.RunEnded(t.Context(), a.ID, exit)) // known already
	_, err := db.History.AddDeploy(t.Context(), a.ID, app.Deploy{By: 7, Kind: app.DeployCommit, Note: "a note"}, nil, nil, nil, func(all []app.Deploy) []app.Deploy { return all })
	must(t, err)
	must(t, db.History.AddHistoryEvent(t.Context(), a.ID, app.HistoryEvent{Kind: app.HistoryFailure, Deploy: app.DeployRollback, By: 8, Text: "why"}))
	warning := app.MemoryWarning{
		Run: 2, At: moment(6000), Level: 95, HeldBytes: 62 << 20, LimitBytes: 64 << 20, FullIn: 90 * time.Second, Squeezed: 3, Signal: "SIGUSR2", Sent: true,
	}
	must(t, db.History.AddHistoryEvent(t.Context(), a.ID, app.HistoryEvent{At: warning.At, Kind: app.HistoryMemory, Memory: &warning}))
	all, err := db.History.EventLog(t.Context(), a.ID)
	must(t, err)
	if len(all) != 5 {
		t.Fatalf("got %+v", all)
	}
	if w := all[0].Memory; w == nil || *w != warning || all[0].Kind != app.HistoryMemory || !all[0].At.Equal(warning.At) {
		t.Errorf("the warning is %+v", w)
	}
	all = all[1:]
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
	if all, err = db.History.EventLog(t.Context(), a.ID); err != nil || len(all) != eventsKept || all[0].Number != 5+eventsKept+5 {
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
