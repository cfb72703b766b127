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

// give sets the permissions of a member, whatever they were.
func give(tb testing.TB, db *DB, owner app.AccountID, id app.ID, member app.AccountID, set app.Permissions) error {
	tb.Helper()
	m, err := db.Teams.UpdateMember(tb.Context(), owner, id, member, func(app.Account, app.Permissions) (app.Permissions, error) { return set, nil })
	if err == nil && (m.App != id || m.Account != member || m.Permissions != set) {
		tb.Errorf("returned %+v", m)
	}
	return err
}

func TestMembers(t *testing.T) {
	db, clock := openTemp(t)
	ctx := t.Context()
	ana, bob, carl := mustAccount(t, db, "ana", 1000), mustAccount(t, db, "bob", 1), mustAccount(t, db, "carl", 1000)
	mustApp(t, db, ana.ID, "two", 100)
	clock.advance(time.Second)
	mustApp(t, db, ana.ID, "one", 100)
	mustApp(t, db, carl.ID, "other", 100)
	set := app.Permissions(0).With(app.StartApp).With(app.StatusApp)

	got, err := db.Teams.UpdateMember(ctx, ana.ID, "one", bob.ID, func(a app.Account, before app.Permissions) (app.Permissions, error) {
		if a != bob || before != 0 {
			t.Errorf("change was asked about %+v with %v", a, before.Names())
		}
		return set, nil
	})
	if want := (app.Member{App: "one", Account: bob.ID, Name: "bob", Permissions: set}); err != nil || got != want {
		t.Errorf("got %+v, %v; want %+v", got, err, want)
	}
	must(t, give(t, db, ana.ID, "one", carl.ID, app.AllPermissions))
	must(t, give(t, db, ana.ID, "two", bob.ID, app.AllPermissions))
	must(t, give(t, db, carl.ID, "other", bob.ID, set))

	all, err := db.Teams.Members(ctx, ana.ID)
	want := []app.Member{
		{App: "one", Account: bob.ID, Name: "bob", Permissions: set},
		{App: "one", Account: carl.ID, Name: "carl", Permissions: app.AllPermissions},
		{App: "two", Account: bob.ID, Name: "bob", Permissions: app.AllPermissions},
	}
	if err != nil || !slices.Equal(all, want) {
		t.Errorf("the members are %+v, %v; want %+v", all, err, want)
	}
	if all, err := db.Teams.Members(ctx, bob.ID); err != nil || len(all) != 0 {
		t.Errorf("bob's members are %+v, %v", all, err)
	}

	mine, err := db.Teams.Memberships(ctx, bob.ID)
	oldest := []app.Membership{
		{App: "two", Owner: ana, Permissions: app.AllPermissions},
		{App: "one", Owner: ana, Permissions: set},
		{App: "other", Owner: carl, Permissions: set},
	}
	if err != nil || !slices.Equal(mine, oldest) {
		t.Errorf("the memberships are %+v, %v; want %+v", mine, err, oldest)
	}
	if m, err := db.Teams.Membership(ctx, bob.ID, "one"); err != nil || m != oldest[1] {
		t.Errorf("one membership is %+v, %v", m, err)
	}
	for _, tt := range []struct {
		account app.AccountID
		id      app.ID
	}{{ana.ID, "one"}, {carl.ID, "two"}, {bob.ID, "none"}, {99, "one"}} {
		_, err := db.Teams.Membership(ctx, tt.account, tt.id)
		wantKind(t, "no membership", err, app.NotFound)
	}
}

func TestChangesOfAMember(t *testing.T) {
	db, _ := openTemp(t)
	ctx := t.Context()
	ana, bob := mustAccount(t, db, "ana", 1000), mustAccount(t, db, "bob", 1000)
	mustApp(t, db, ana.ID, "one", 100)
	must(t, give(t, db, ana.ID, "one", bob.ID, app.AllPermissions))
	must(t, give(t, db, ana.ID, "one", bob.ID, 1))
	boom := errors.New("boom")
	_, err := db.Teams.UpdateMember(ctx, ana.ID, "one", bob.ID, func(_ app.Account, before app.Permissions) (app.Permissions, error) {
		if before != 1 {
			t.Errorf("before: %v", before.Names())
		}
		return app.AllPermissions, boom
	})
	if !errors.Is(err, boom) {
		t.Errorf("got %v, want the error of change", err)
	}
	if m, err := db.Teams.Membership(ctx, bob.ID, "one"); err != nil || m.Permissions != 1 {
		t.Errorf("after a refused change: %+v, %v", m, err)
	}

	wantKind(t, "another's application", give(t, db, bob.ID, "one", ana.ID, 1), app.NotFound)
	wantKind(t, "no application", give(t, db, ana.ID, "none", bob.ID, 1), app.NotFound)
	wantKind(t, "no account", give(t, db, ana.ID, "one", 99, 1), app.NotFound)
	_, err = db.Allocations(pool).Reserve(ctx, app.App{ID: "young", Account: ana.ID, RAM: 30}, anything)
	must(t, err)
	wantKind(t, "a reservation", give(t, db, ana.ID, "young", bob.ID, 1), app.Conflict)
	wantKind(t, "another's reservation", give(t, db, bob.ID, "young", ana.ID, 1), app.NotFound)

	must(t, give(t, db, ana.ID, "one", bob.ID, 0))
	must(t, give(t, db, ana.ID, "one", bob.ID, 0))
	_, err = db.Teams.Membership(ctx, bob.ID, "one")
	wantKind(t, "a membership that ended", err, app.NotFound)
}

// A membership ends with the application, and with either account; what comes
// to be under the same name has none of it.
func TestMembersGoWithWhatTheyBelongTo(t *testing.T) {
	db, _ := openTemp(t)
	ctx := t.Context()
	ana, bob, carl := mustAccount(t, db, "ana", 1000), mustAccount(t, db, "bob", 1000), mustAccount(t, db, "carl", 1000)
	for _, id := range []app.ID{"one", "two"} {
		mustApp(t, db, ana.ID, id, 100)
		must(t, give(t, db, ana.ID, id, bob.ID, 1))
		must(t, give(t, db, ana.ID, id, carl.ID, 1))
	}
	must(t, db.Apps.DeleteApp(ctx, "one"))
	must(t, db.Allocations(pool).Release(ctx, "one"))
	mustApp(t, db, ana.ID, "one", 100)
	_, err := db.Teams.Membership(ctx, bob.ID, "one")
	wantKind(t, "the team of a deleted application", err, app.NotFound)

	must(t, db.Accounts.DeleteAccount(ctx, bob.ID))
	all, err := db.Teams.Members(ctx, ana.ID)
	want := []app.Member{{App: "two", Account: carl.ID, Name: "carl", Permissions: 1}}
	if err != nil || !slices.Equal(all, want) {
		t.Errorf("left are %+v, %v; want %+v", all, err, want)
	}
	if mine, err := db.Teams.Memberships(ctx, bob.ID); err != nil || len(mine) != 0 {
		t.Errorf("a deleted account is in %+v, %v", mine, err)
	}
	if a, err := db.Accounts.Account(ctx, ana.ID); err != nil || a != ana {
		t.Errorf("the owner is %+v, %v", a, err)
	}
}

func TestPermissionsOutsideTheSetAreRefused(t *testing.T) {
	db, _ := openTemp(t)
	ana := mustAccount(t, db, "ana", 1000)
	mustApp(t, db, ana.ID, "one", 100)
	for _, bits := range []any{0, 256, -1, "start_app", nil} {
		if _, err := db.writer.ExecContext(t.Context(), "INSERT INTO member VALUES ('one', ?, ?)", ana.ID, bits); err == nil {
			t.Errorf("permissions %v were stored", bits)
		}
	}
}

// An application from before there were teams can have one.
func TestTeamsComeToADatabaseOfTheSecondSchema(t *testing.T) {
	path := filepath.Join(t.TempDir(), "berth.db")
	pool, err := sql.Open("sqlite3", path)
	must(t, err)
	before := fstest.MapFS{}
	for _, name := range []string{"0001.sql", "0002.sql"} {
		text, err := fs.ReadFile(migrations(), name)
		must(t, err)
		before[name] = &fstest.MapFile{Data: text}
	}
	must(t, migrate(t.Context(), pool, before, nokeep))
	_, err = pool.ExecContext(t.Context(), `
		INSERT INTO account VALUES (1, 'ana', 1024, 'Diamond', 'en-US', 0, 5), (2, 'bob', 1024, 'Diamond', 'en-US', 0, 6);
		INSERT INTO place VALUES ('shop', 1, 200, 70001, 20001);
		INSERT INTO app VALUES ('shop', 'Shop', '', 1, 'online', 7, 'main.py', 'python', 'latest', '', '', 1, 3, 9, NULL, '');`)
	must(t, errors.Join(err, pool.Close()))
	db := openAt(t, path, time.Now)
	if all, err := db.Teams.Members(t.Context(), 1); err != nil || len(all) != 0 {
		t.Errorf("members of before: %+v, %v", all, err)
	}
	must(t, give(t, db, 1, "shop", 2, app.AllPermissions))
	if m, err := db.Teams.Membership(t.Context(), 2, "shop"); err != nil || m.Owner.Name != "ana" || m.Permissions != app.AllPermissions {
		t.Errorf("the membership is %+v, %v", m, err)
	}
}
