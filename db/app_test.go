package db

import (
	"bytes"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mattn/go-sqlite3"

	"berth/app"
)

// full is an application with every stored field set.
func full(owner app.AccountID) app.App {
	return app.App{
		ID: "shop", Account: owner, Name: "The Shop", AvatarURL: "https://example.org/a.png", Type: app.Site,
		RAM: 300, Wanted: app.WantOnline, AutoRestart: true, Apts: []string{"ffmpeg", "g++"},
		Code: app.Code{Main: "src/index.js", Lang: "javascript", Version: "latest", Start: "npm start", Build: "npm run build", Packages: "sum", Stdin: true},
	}
}

func TestCreateAppAndReadItBackAfterARestart(t *testing.T) {
	path := filepath.Join(t.TempDir(), "berth.db")
	clock := newClock()
	db := openAt(t, path, clock.now)
	ctx := t.Context()
	owner := mustAccount(t, db, "ana", 512).ID

	reserved, err := db.Allocations(pool).Reserve(ctx, full(owner), anything)
	must(t, err)
	if reserved.UID != 70000 || reserved.Port != 20000 || reserved.Name != "The Shop" || !reserved.CreatedAt.Equal(clock.now().Truncate(time.Millisecond)) {
		t.Errorf("reserved %+v", reserved)
	}
	clock.advance(time.Hour) // a build
	if all, err := db.Apps.Apps(ctx); err != nil || len(all) != 0 {
		t.Errorf("a reservation is an application: %+v, %v", all, err)
	}
	created, err := db.Apps.CreateApp(ctx, reserved, first(reserved))
	must(t, err)
	want := reserved
	if !reflect.DeepEqual(created, want) {
		t.Errorf("created %+v, want %+v", created, want)
	}

	exit := app.Exit{
		Run: 3, At: want.CreatedAt.Add(time.Hour), Ran: 61500 * time.Millisecond, Code: 137, Signal: 9,
		OOM: true, PeakBytes: 300 << 20, LimitMB: 300, Asked: true,
	}
	must(t, db.Apps.RunStarted(ctx, "shop", 3, want.CreatedAt.Add(time.Minute), false))
	must(t, db.Apps.RunEnded(ctx, "shop", exit))
	must(t, db.Close())

	want.LastRun, want.StartedAt, want.LastExit = 3, want.CreatedAt.Add(time.Minute), &exit
	if got := oneApp(t, openAt(t, path, clock.now), "shop"); !reflect.DeepEqual(got, want) {
		t.Errorf("after a restart %+v, want %+v", got, want)
	}
}

func TestChangesOfAnApp(t *testing.T) {
	db, _ := openTemp(t)
	ctx := t.Context()
	owner := mustAccount(t, db, "ana", 512).ID
	want := mustApp(t, db, owner, "shop", 100)
	other := mustApp(t, db, owner, "forum", 50)
	text := func(s string) *string { return &s }

	for _, step := range []struct {
		name   string
		do     func(id app.ID) error
		effect func()
	}{
		{"wanted", func(id app.ID) error { return db.Apps.SetWanted(ctx, id, app.WantStopped) }, func() { want.Wanted = app.WantStopped }},
		{"name", func(id app.ID) error { return db.Apps.SetProfile(ctx, id, app.Profile{Name: text("new")}) }, func() { want.Name = "new" }},
		{
			"avatar", func(id app.ID) error { return db.Apps.SetProfile(ctx, id, app.Profile{AvatarURL: text("u")}) },
			func() { want.AvatarURL = "u" },
		},
		{"auto restart", func(id app.ID) error { return db.Apps.SetAutoRestart(ctx, id, true) }, func() { want.AutoRestart = true }},
		{"no auto restart", func(id app.ID) error { return db.Apps.SetAutoRestart(ctx, id, false) }, func() { want.AutoRestart = false }},
		{"empty name", func(id app.ID) error { return db.Apps.SetProfile(ctx, id, app.Profile{Name: text("")}) }, func() { want.Name = "" }},
		{
			"code", func(id app.ID) error { return setCode(db, id, app.Code{Main: "m", Lang: "l", Packages: "p"}, true) },
			func() { want.Code, want.AutoRestart = app.Code{Main: "m", Lang: "l", Packages: "p"}, true },
		},
		{"ram", func(id app.ID) error { return db.Apps.SetRAM(ctx, id, 200, anyRAM) }, func() { want.RAM = 200 }},
		{
			"run", func(id app.ID) error { return db.Apps.RunStarted(ctx, id, 9, time.UnixMilli(5), true) },
			func() { want.LastRun, want.StartedAt = 9, time.UnixMilli(5).UTC() },
		},
		{"exit", func(id app.ID) error { return db.Apps.RunEnded(ctx, id, app.Exit{Run: 9}) }, func() { want.LastExit = &app.Exit{Run: 9} }},
		{"clear", func(id app.ID) error { return db.Apps.ClearExit(ctx, id) }, func() { want.LastExit = nil }},
	} {
		must(t, step.do("shop"))
		step.effect()
		if got := oneApp(t, db, "shop"); !reflect.DeepEqual(got, want) {
			t.Errorf("%s: got %+v, want %+v", step.name, got, want)
		}
		wantKind(t, step.name+" of a stranger", step.do("nobody"), app.NotFound)
	}
	if got := oneApp(t, db, "forum"); !reflect.DeepEqual(got, other) {
		t.Errorf("another application changed: %+v, want %+v", got, other)
	}
	err := db.Apps.SetWanted(ctx, "shop", "perhaps")
	if !isCode(err, sqlite3.ErrConstraint) {
		t.Errorf("a word that is no wish: got %v, want a constraint error", err)
	}
}

func TestSetRAMAsksWithTheNumbersOfTheOthers(t *testing.T) {
	db, _ := openTemp(t)
	ctx := t.Context()
	owner := mustAccount(t, db, "ana", 512).ID
	mustApp(t, db, owner, "one", 100)
	mustApp(t, db, owner, "two", 150)
	mustApp(t, db, mustAccount(t, db, "bob", 64).ID, "three", 33)
	refused := errors.New("refused")
	err := db.Apps.SetRAM(ctx, "one", 999, func(total, others app.MB) error {
		if total != 512 || others != 150 {
			t.Errorf("asked with total %d and others %d, want 512 and 150", total, others)
		}
		return refused
	})
	if !errors.Is(err, refused) {
		t.Errorf("got %v", err)
	}
	if got := oneApp(t, db, "one").RAM; got != 100 {
		t.Errorf("RAM is %d after a refusal, want 100", got)
	}
	if sum, err := db.Accounts.SumRAM(ctx, owner); err != nil || sum != 250 {
		t.Errorf("the sum is %d, %v; want 250", sum, err)
	}
}

func TestExitsKeepsTheLastTwenty(t *testing.T) {
	db, _ := openTemp(t)
	ctx := t.Context()
	owner := mustAccount(t, db, "ana", 512).ID
	mustApp(t, db, owner, "one", 1)
	mustApp(t, db, owner, "two", 1)
	must(t, db.Apps.RunEnded(ctx, "two", app.Exit{Run: 1, Code: 5}))
	for run := 1; run <= 25; run++ {
		must(t, db.Apps.RunEnded(ctx, "one", app.Exit{Run: run, Code: run}))
	}
	must(t, db.Apps.RunEnded(ctx, "one", app.Exit{Run: 25, Code: 99, HostOOM: true, HeapFull: app.JavaHeap, HeapMB: 7})) // learned more about the same run
	got, err := exits(t, db, "one")
	must(t, err)
	if len(got) != 20 || got[0] != (app.Exit{Run: 25, Code: 99, HostOOM: true, HeapFull: app.JavaHeap, HeapMB: 7}) || got[19].Run != 6 {
		t.Errorf("got %d exits: %+v", len(got), got)
	}
	must(t, db.Apps.ClearExit(ctx, "one"))
	if got, err := exits(t, db, "one"); err != nil || len(got) != 20 {
		t.Errorf("after ClearExit %d exits, %v; want 20", len(got), err)
	}
	if got, err := exits(t, db, "two"); err != nil || len(got) != 1 || got[0].Code != 5 {
		t.Errorf("the other application: %+v, %v", got, err)
	}
}

func TestDeleteAppTakesItsRecordsAlong(t *testing.T) {
	db, _ := openTemp(t)
	ctx := t.Context()
	owner := mustAccount(t, db, "ana", 512).ID
	mustApp(t, db, owner, "one", 100)
	must(t, db.Apps.RunEnded(ctx, "one", app.Exit{Run: 1}))
	must(t, db.Apps.DeleteApp(ctx, "one"))
	_, err := db.Allocations(pool).Reserve(ctx, app.App{ID: "one", Account: owner, RAM: 1}, anything)
	wantKind(t, "the name while files have it", err, app.Conflict)
	must(t, db.Allocations(pool).Release(ctx, "one"))
	for _, table := range []string{"place", "app", "exit_record"} {
		var n int
		must(t, db.reader.QueryRowContext(t.Context(), "SELECT count(*) FROM "+table).Scan(&n))
		if n != 0 {
			t.Errorf("%d rows left in %s", n, table)
		}
	}
	wantKind(t, "deleting twice", db.Apps.DeleteApp(ctx, "one"), app.NotFound)
	mustApp(t, db, owner, "one", 100) // the name is free again
	if got, err := exits(t, db, "one"); err != nil || len(got) != 0 {
		t.Errorf("a new application has the exits of an old one: %+v, %v", got, err)
	}
}

func BenchmarkRunEnded(b *testing.B) {
	db, _ := openTemp(b)
	mustApp(b, db, mustAccount(b, db, "ana", 512).ID, "one", 100)
	for i := 0; b.Loop(); i++ {
		if err := db.Apps.RunEnded(b.Context(), "one", app.Exit{Run: i}); err != nil {
			b.Fatal(err)
		}
	}
}

// exits returns how the last runs of an application ended, newest first.
func exits(t *testing.T, db *DB, id app.ID) ([]app.Exit, error) {
	return getAll(t.Context(), db, "list the exits", func(row scanner) (e app.Exit, err error) {
		err = row.Scan(exitInto(&e)...)
		return e, err
	}, "SELECT run, ended_at, ran_ms, code, signal, oom, peak_bytes, limit_mb, asked, host_oom, heap_full, heap_mb FROM exit_record WHERE app = ? ORDER BY run DESC", id)
}

// setVariables stores these beside what is there.
func setVariables(t *testing.T, db *DB, id app.ID, more map[string]string) {
	t.Helper()
	must(t, db.Apps.ChangeVariables(t.Context(), id, func(set map[string]string) error {
		maps.Copy(set, more)
		return nil
	}))
}

func wantVariables(t *testing.T, db *DB, id app.ID, want ...app.Variable) {
	t.Helper()
	got, err := db.Apps.Variables(t.Context(), id)
	must(t, err)
	if !slices.Equal(got, want) {
		t.Errorf("%s has %v, want %v", id, got, want)
	}
}

func TestVariables(t *testing.T) {
	path := filepath.Join(t.TempDir(), "berth.db")
	db := openAt(t, path, time.Now)
	owner := mustAccount(t, db, "ana", 512).ID
	mustApp(t, db, owner, "shop", 100)
	mustApp(t, db, owner, "bot", 100)
	wantVariables(t, db, "shop")

	setVariables(t, db, "shop", map[string]string{"B": "2", "A": "", "Z": "line\nline \U0001F511 'quoted'"})
	setVariables(t, db, "bot", map[string]string{"A": "the bot's"})
	must(t, db.Apps.ChangeVariables(t.Context(), "shop", func(set map[string]string) error {
		if len(set) != 3 || set["B"] != "2" {
			t.Errorf("the change sees %v", set)
		}
		delete(set, "B")
		set["C"], set["A"] = "3", "1"
		return nil
	}))
	must(t, setCode(db, "shop", app.Code{Main: "new.js"}, true)) // a commit keeps them
	must(t, db.Close())

	db = openAt(t, path, time.Now)
	want := []app.Variable{{Name: "A", Value: "1"}, {Name: "C", Value: "3"}, {Name: "Z", Value: "line\nline \U0001F511 'quoted'"}}
	wantVariables(t, db, "shop", want...)
	wantVariables(t, db, "bot", app.Variable{Name: "A", Value: "the bot's"})

	boom := app.Errorf(app.Exhausted, "too many")
	err := db.Apps.ChangeVariables(t.Context(), "shop", func(set map[string]string) error {
		clear(set)
		return boom
	})
	if !errors.Is(err, boom) {
		t.Errorf("got %v, want the change's own error", err)
	}
	wantVariables(t, db, "shop", want...)

	// Those of a deleted application are gone, also for the next of its name.
	must(t, db.Apps.DeleteApp(t.Context(), "shop"))
	_, err = db.Apps.Variables(t.Context(), "shop")
	wantKind(t, "variables of a deleted application", err, app.NotFound)
	err = db.Apps.ChangeVariables(t.Context(), "shop", func(map[string]string) error { return nil })
	wantKind(t, "a change of a deleted application", err, app.NotFound)
	must(t, db.Allocations(pool).Release(t.Context(), "shop"))
	mustApp(t, db, owner, "shop", 100)
	wantVariables(t, db, "shop")
	wantVariables(t, db, "bot", app.Variable{Name: "A", Value: "the bot's"})
}

// What was removed does not stay in the file.
func TestRemovedVariablesAreOverwritten(t *testing.T) {
	path := filepath.Join(t.TempDir(), "berth.db")
	db := openAt(t, path, time.Now)
	owner := mustAccount(t, db, "ana", 512).ID
	secrets := map[app.ID]string{"removed": "one-secret-", "deleted": "two-secret-", "replaced": "three-secret-"}
	for id, text := range secrets {
		mustApp(t, db, owner, id, 10)
		setVariables(t, db, id, map[string]string{"SHORT": text, "LONG": strings.Repeat(text, 1000)})
	}
	must(t, db.Apps.ChangeVariables(t.Context(), "removed", func(set map[string]string) error {
		clear(set)
		return nil
	}))
	must(t, db.Apps.DeleteApp(t.Context(), "deleted"))
	setVariables(t, db, "replaced", map[string]string{"SHORT": "", "LONG": "still-here"})
	must(t, db.Close())
	text, err := os.ReadFile(path)
	must(t, err)
	if !bytes.Contains(text, []byte("still-here")) {
		t.Error("the file does not hold what it should")
	}
	for id, secret := range secrets {
		if bytes.Contains(text, []byte(secret)) {
			t.Errorf("the file still holds the variables of %s", id)
		}
	}
}

// Changes of two processes, as the daemon and a command are, do not lose each
// other.
func TestConcurrentChangesOfVariables(t *testing.T) {
	path := filepath.Join(t.TempDir(), "berth.db")
	first := openAt(t, path, time.Now)
	second := openAt(t, path, time.Now)
	mustApp(t, first, mustAccount(t, first, "ana", 512).ID, "shop", 100)
	var wg sync.WaitGroup
	for i := range 20 {
		db := []*DB{first, second}[i%2]
		wg.Go(func() {
			err := db.Apps.ChangeVariables(t.Context(), "shop", func(set map[string]string) error {
				set["N"] += "x"
				return nil
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	wantVariables(t, second, "shop", app.Variable{Name: "N", Value: strings.Repeat("x", 20)})
}

func TestSetApts(t *testing.T) {
	db, _ := openTemp(t)
	mustApp(t, db, mustAccount(t, db, "ana", 512).ID, "shop", 100)
	for _, want := range [][]string{{"ffmpeg"}, {"ffmpeg", "libstdc++6", "tools"}, nil} {
		must(t, db.Apps.SetApts(t.Context(), "shop", want))
		if got := oneApp(t, db, "shop").Apts; !slices.Equal(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	wantKind(t, "of no application", db.Apps.SetApts(t.Context(), "nobody", nil), app.NotFound)
}

func TestVariablesNeedTheirApplication(t *testing.T) {
	db, _ := openTemp(t)
	err := db.write(t.Context(), "test", func(t tx) error {
		return t.exec("INSERT INTO env (app, name, value) VALUES ('nobody', 'A', '1')")
	})
	if !isCode(err, sqlite3.ErrConstraint) {
		t.Errorf("a variable of no application: got %v, want a constraint error", err)
	}
}

// A site of files is charged no RAM from its reservation until it is gone, and keeps the RAM
// that it asked for. What comes in its place is charged, or refused.
func TestSitesOfFilesAreChargedNoRAM(t *testing.T) {
	db, _ := openTemp(t)
	ctx := t.Context()
	owner := mustAccount(t, db, "ana", 512).ID
	mustApp(t, db, owner, "bot", 100)
	sum := func(when string, want app.MB) {
		t.Helper()
		if got, err := db.Accounts.SumRAM(ctx, owner); err != nil || got != want {
			t.Errorf("%s: the sum is %d, %v; want %d", when, got, err, want)
		}
	}
	static := app.Code{Main: "index.html", Lang: app.StaticLang}
	a, err := db.Allocations(pool).Reserve(ctx, app.App{ID: "docs", Account: owner, Type: app.Site, RAM: 500, Code: static, Wanted: app.WantOnline}, anything)
	must(t, err)
	sum("reserved", 101) // a place has some
	_, err = db.Apps.CreateApp(ctx, a, first(a))
	must(t, err)
	sum("as an application", 100)
	if got := oneApp(t, db, "docs"); got.RAM != 500 || got.Charged() != 0 {
		t.Errorf("it has %+v", got)
	}
	must(t, db.Apps.SetRAM(ctx, "docs", 600, anyRAM))
	sum("with more RAM", 100)
	must(t, db.Apps.SetRAM(ctx, "bot", 200, func(_, others app.MB) error {
		if others != 0 {
			t.Errorf("beside a site of files %d MB are charged", others)
		}
		return nil
	}))
	deploy := func(c app.Code, admit func(total, others app.MB) error) error {
		_, err := db.History.AddDeploy(ctx, "docs", app.Deploy{Kind: app.DeployCommit, Code: c}, nil, nil, admit, everything)
		return err
	}
	program, asked := app.Code{Main: "index.html", Lang: app.StaticLang, Start: "./serve"}, 0
	refused := errors.New("refused")
	admit := func(answer error) func(total, others app.MB) error {
		return func(total, others app.MB) error {
			if asked++; total != 512 || others != 200 {
				t.Errorf("asked with %d and %d, want 512 and 200", total, others)
			}
			return answer
		}
	}
	must(t, deploy(static, admit(refused))) // nobody asks
	if err := deploy(program, admit(refused)); !errors.Is(err, refused) || asked != 1 {
		t.Errorf("asked %d times, %v", asked, err)
	}
	if got := oneApp(t, db, "docs"); !got.Code.Static() {
		t.Errorf("after a refusal it is %+v", got.Code)
	}
	sum("refused", 200)
	must(t, deploy(program, admit(nil)))
	sum("as a program", 800)
	must(t, deploy(program, admit(refused))) // it is charged already
	must(t, deploy(static, nil))
	sum("as files again", 200)
	must(t, db.Apps.DeleteApp(ctx, "docs"))
	sum("while it is removed", 201)
	must(t, db.Apps.DeleteApp(ctx, "bot"))
	sum("while a program is removed", 201)
	wantKind(t, "once more", db.Apps.DeleteApp(ctx, "docs"), app.NotFound)
}
