package db

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"testing"
	"time"

	"berth/app"
)

// first is how an application that is uploaded begins its history.
func first(a app.App) app.Deploy { return app.Deploy{By: a.Account, Kind: app.DeployUpload, Bytes: 9} }

// everything retains all of a history.
func everything(all []app.Deploy) []app.Deploy { return all }

func setCode(db *DB, id app.ID, c app.Code, auto bool) error {
	_, err := db.History.AddDeploy(context.Background(), id, app.Deploy{Kind: app.DeployCommit, Code: c, Auto: auto}, nil, nil, everything)
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
			By: 77, Kind: app.DeployCommit, Bytes: 5, Code: app.Code{Main: fmt.Sprint(n), Lang: "x", Version: "v", Start: "s", Build: "b", Packages: "p", Health: "/up"}, Auto: true,
			Note: "a note", Journal: fmt.Sprint("journal", n), Kept: 100,
		}, nil, nil, func(all []app.Deploy) []app.Deploy {
			for i, d := range all {
				if d.Number != n-i {
					t.Errorf("number %d at %d", d.Number, i)
				}
			}
			kept := slices.Clone(all[:min(3, len(all))])
			kept[len(kept)-1].Journal = ""
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
	last[2].Journal = ""
	if !reflect.DeepEqual(got, last) || last[0].Number != 6 || !last[0].At.Equal(moment(stamp(clock.now()))) {
		t.Errorf("got %+v, want %+v", got, last)
	}
	if a := oneApp(t, db, "shop"); a.Code != last[0].Code || !a.AutoRestart {
		t.Errorf("the application is %+v", a)
	}
	journals, err := db.History.Journals(ctx, "shop")
	if slices.Sort(journals); err != nil || !slices.Equal(journals, []string{"journal5", "journal6"}) {
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
	if _, err := db.History.AddDeploy(ctx, "shop", bad, []app.Variable{}, nil, everything); err == nil {
		t.Error("a kind that is none was taken")
	}
	if got := oneApp(t, db, "shop"); !reflect.DeepEqual(got, before) {
		t.Errorf("got %+v, want %+v", got, before)
	}
	wantVariables(t, db, "shop", app.Variable{Name: "OLD", Value: "1"})
	bad.Kind = app.DeployRestore
	_, err := db.History.AddDeploy(ctx, "shop", bad, []app.Variable{{Name: "NEW", Value: "2"}}, nil, everything)
	must(t, err)
	wantVariables(t, db, "shop", app.Variable{Name: "NEW", Value: "2"})
	if _, err := db.History.AddDeploy(ctx, "shop", bad, nil, nil, everything); err == nil {
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
	must(t, db.Apps.RunStarted(ctx, "shop", 3, clock.now()))
	started := clock.now().Add(time.Minute).Truncate(time.Millisecond)
	for _, c := range []struct{ run, want int }{{0, 3}, {7, 7}, {0, 7}} {
		_, err := db.History.AddDeploy(ctx, "shop", app.Deploy{Kind: app.DeployCommit, Code: app.Code{Main: "x", Health: "/up"}, Run: c.run, Started: started}, nil, nil, everything)
		must(t, err)
		all, err := db.Apps.Apps(ctx)
		must(t, err)
		if a := all[0]; a.LastRun != c.want || a.StartedAt.Equal(started) != (c.want == 7) || a.Code.Health != "/up" {
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
		_, err := db.History.AddDeploy(ctx, "shop", app.Deploy{Kind: c.kind, Code: app.Code{Main: "x"}, Run: c.run, Started: clock.now()}, nil, c.wanted, everything)
		if (err != nil) != (c.kind == "perhaps") {
			t.Errorf("%s: %v", c.name, err)
		}
		if a := oneApp(t, db, "shop"); a.Wanted != c.want || (a.LastExit != nil) != c.exit {
			t.Errorf("%s: %s, exit %+v", c.name, a.Wanted, a.LastExit)
		}
	}
}
