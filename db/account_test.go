package db

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"testing"
	"time"

	"berth/app"
)

func TestAccounts(t *testing.T) {
	db, clock := openTemp(t)
	ctx := t.Context()
	ana := mustAccount(t, db, "ana", 512)
	want := app.Account{
		ID: ana.ID, Name: "ana", TotalRAM: 512, Plan: "Diamond", Locale: "en-US",
		CreatedAt: clock.now().Truncate(time.Millisecond),
	}
	if ana != want {
		t.Errorf("created %+v, want %+v", ana, want)
	}
	bob := mustAccount(t, db, "bob", 1<<40)

	_, err := db.Accounts.CreateAccount(ctx, app.Account{Name: "ana", TotalRAM: 1})
	wantKind(t, "a second ana", err, app.Conflict)
	_, err = db.Accounts.Account(ctx, 99)
	wantKind(t, "no such id", err, app.NotFound)
	_, err = db.Accounts.AccountByName(ctx, "carl")
	wantKind(t, "no such name", err, app.NotFound)

	if got, err := db.Accounts.Account(ctx, ana.ID); err != nil || got != want {
		t.Errorf("by id: %+v, %v", got, err)
	}
	if got, err := db.Accounts.AccountByName(ctx, "bob"); err != nil || got != bob {
		t.Errorf("by name: %+v, %v", got, err)
	}
	if all, err := db.Accounts.Accounts(ctx); err != nil || len(all) != 2 || all[0] != want || all[1] != bob {
		t.Errorf("all: %+v, %v", all, err)
	}
}

func TestUpdateAccount(t *testing.T) {
	db, _ := openTemp(t)
	ctx := t.Context()
	ana := mustAccount(t, db, "ana", 512)
	mustAccount(t, db, "bob", 512)
	mustApp(t, db, ana.ID, "one", 100)
	_, err := db.Allocations(pool).Reserve(ctx, app.App{ID: "two", Account: ana.ID, RAM: 30}, anything)
	must(t, err)

	got, err := db.Accounts.UpdateAccount(ctx, ana.ID, func(a *app.Account, assigned app.MB) error {
		if assigned != 130 {
			t.Errorf("assigned is %d, want 130", assigned)
		}
		a.ID, a.CreatedAt = 77, time.Time{} // must not take effect
		a.Name, a.TotalRAM, a.Plan, a.Locale, a.Disabled = "anna", 1024, "Gold", "pt-BR", true
		a.Limits = app.Limits{Disk: 1, Apps: 2, CPU: 3, Builds: 4, Backups: 5}
		return nil
	})
	limits := app.Limits{Disk: 1, Apps: 2, CPU: 3, Builds: 4, Backups: 5}
	want := app.Account{ID: ana.ID, Name: "anna", TotalRAM: 1024, Plan: "Gold", Locale: "pt-BR", Disabled: true, Limits: limits, CreatedAt: ana.CreatedAt}
	if err != nil || got != want {
		t.Errorf("returned %+v, %v; want %+v", got, err, want)
	}
	if got, err := db.Accounts.Account(ctx, ana.ID); err != nil || got != want {
		t.Errorf("stored %+v, %v; want %+v", got, err, want)
	}

	refused := errors.New("refused")
	_, err = db.Accounts.UpdateAccount(ctx, ana.ID, func(a *app.Account, _ app.MB) error {
		a.Name = "zoe"
		return refused
	})
	if !errors.Is(err, refused) {
		t.Errorf("got %v, want the error of change", err)
	}
	if got, _ := db.Accounts.Account(ctx, ana.ID); got != want {
		t.Errorf("a refused change was stored: %+v", got)
	}
	_, err = db.Accounts.UpdateAccount(ctx, ana.ID, func(a *app.Account, _ app.MB) error {
		a.Name = "bob"
		return nil
	})
	wantKind(t, "a name that is taken", err, app.Conflict)
	_, err = db.Accounts.UpdateAccount(ctx, 99, func(*app.Account, app.MB) error { return nil })
	wantKind(t, "no such account", err, app.NotFound)
}

func TestDeleteAccount(t *testing.T) {
	db, _ := openTemp(t)
	ctx := t.Context()
	ana := mustAccount(t, db, "ana", 512)
	_, err := db.Accounts.InsertToken(ctx, [32]byte{1}, app.Token{Account: ana.ID})
	must(t, err)
	mustApp(t, db, ana.ID, "one", 100)
	mustApp(t, db, ana.ID, "two", 100)

	err = db.Accounts.DeleteAccount(ctx, ana.ID)
	wantKind(t, "with two applications", err, app.Conflict)
	if got, want := err.Error(), "the account owns 2 applications"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	must(t, db.Apps.DeleteApp(ctx, "one"))
	err = db.Accounts.DeleteAccount(ctx, ana.ID)
	if got, want := err.Error(), "the account owns 1 application"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	must(t, db.Apps.DeleteApp(ctx, "two"))
	wantKind(t, "with files that are being removed", db.Accounts.DeleteAccount(ctx, ana.ID), app.Conflict)
	must(t, db.Allocations(pool).Release(ctx, "one"))
	must(t, db.Allocations(pool).Release(ctx, "two"))

	_, err = db.Allocations(pool).Reserve(ctx, app.App{ID: "three", Account: ana.ID, RAM: 1, Wanted: app.WantOnline}, anything)
	must(t, err)
	wantKind(t, "with a deployment under way", db.Accounts.DeleteAccount(ctx, ana.ID), app.Conflict)
	must(t, db.Allocations(pool).Release(ctx, "three"))
	_, err = db.SignIns.InsertSession(ctx, app.Session{Account: ana.ID}, [32]byte{1}, time.Time{}, 9)
	must(t, err)
	must(t, db.Accounts.DeleteAccount(ctx, ana.ID))
	_, _, err = db.Accounts.AccountByToken(ctx, [32]byte{1})
	wantKind(t, "its token", err, app.NotFound)
	_, _, err = db.SignIns.AccountBySession(ctx, [32]byte{1}, "", time.Time{})
	wantKind(t, "its session", err, app.NotFound)
	wantKind(t, "twice", db.Accounts.DeleteAccount(ctx, ana.ID), app.NotFound)

	if again := mustAccount(t, db, "ana", 512); again.ID == ana.ID {
		t.Errorf("the id %d was used again", again.ID)
	}
}

func TestTokens(t *testing.T) {
	db, clock := openTemp(t)
	ctx := t.Context()
	ana, bob := mustAccount(t, db, "ana", 512), mustAccount(t, db, "bob", 512)
	first, err := db.Accounts.InsertToken(ctx, [32]byte{1}, app.Token{Account: ana.ID, Label: "laptop"})
	must(t, err)
	second, err := db.Accounts.InsertToken(ctx, [32]byte{2}, app.Token{Account: ana.ID})
	must(t, err)

	want := app.Token{ID: first.ID, Account: ana.ID, Label: "laptop", CreatedAt: clock.now().Truncate(time.Millisecond)}
	if first != want {
		t.Errorf("inserted %+v, want %+v", first, want)
	}
	if got, err := db.Accounts.Tokens(ctx, ana.ID); err != nil || len(got) != 2 || got[0] != first || got[1] != second {
		t.Errorf("tokens: %+v, %v", got, err)
	}
	if got, err := db.Accounts.Tokens(ctx, bob.ID); err != nil || len(got) != 0 {
		t.Errorf("tokens of bob: %+v, %v", got, err)
	}
	if got, err := db.Accounts.Token(ctx, first.ID); err != nil || got != first {
		t.Errorf("token: %+v, %v", got, err)
	}
	if got, with, err := db.Accounts.AccountByToken(ctx, [32]byte{2}); err != nil || got != ana || with != second {
		t.Errorf("account: %+v, %v", got, err)
	}

	_, err = db.Accounts.InsertToken(ctx, [32]byte{3}, app.Token{Account: 99})
	wantKind(t, "a token for nobody", err, app.NotFound)
	_, _, err = db.Accounts.AccountByToken(ctx, [32]byte{3})
	wantKind(t, "an unknown token", err, app.NotFound)
	_, err = db.Accounts.Token(ctx, 99)
	wantKind(t, "an unknown token id", err, app.NotFound)
	wantKind(t, "somebody else's token", db.Accounts.DeleteToken(ctx, bob.ID, first.ID), app.NotFound)

	must(t, db.Accounts.DeleteToken(ctx, ana.ID, second.ID))
	_, _, err = db.Accounts.AccountByToken(ctx, [32]byte{2})
	wantKind(t, "a revoked token", err, app.NotFound)
	wantKind(t, "revoking twice", db.Accounts.DeleteToken(ctx, ana.ID, second.ID), app.NotFound)
	third, err := db.Accounts.InsertToken(ctx, [32]byte{4}, app.Token{Account: ana.ID})
	must(t, err)
	if third.ID == second.ID {
		t.Errorf("the id %d was used again", third.ID)
	}
}

// A bound token is made for applications that its account may use, and keeps those that are
// there. Nobody who takes the id of one later is meant.
func TestBoundTokens(t *testing.T) {
	db, _ := openTemp(t)
	ctx := t.Context()
	ana, bob := mustAccount(t, db, "ana", 512), mustAccount(t, db, "bob", 512)
	mustApp(t, db, ana.ID, "own", 32)
	mustApp(t, db, bob.ID, "helped", 32)
	mustApp(t, db, bob.ID, "foreign", 32)
	join := func(app.Account, app.Permissions) (app.Permissions, error) { return app.AllPermissions, nil }
	_, err := db.Teams.UpdateMember(ctx, bob.ID, "helped", ana.ID, join)
	must(t, err)

	may := app.Permissions(0).With(app.LogsApp).With(app.StatusApp)
	bound := func(hash byte, ids ...app.ID) (app.Token, error) {
		return db.Accounts.InsertToken(ctx, [32]byte{hash}, app.Token{Account: ana.ID, Bounds: &app.Bounds{Apps: ids, May: may}})
	}
	made, err := bound(1, "helped", "own")
	must(t, err)
	for _, ids := range [][]app.ID{{"own", "foreign"}, {"nobody"}} {
		_, err := bound(2, ids...)
		wantKind(t, fmt.Sprint(ids), err, app.NotFound)
	}
	if all, err := db.Accounts.Tokens(ctx, ana.ID); err != nil || len(all) != 1 || !reflect.DeepEqual(all[0], made) {
		t.Errorf("tokens: %+v, %v, want %+v", all, err, made)
	}
	look := func(want ...app.ID) {
		t.Helper()
		_, got, err := db.Accounts.AccountByToken(ctx, [32]byte{1})
		if err != nil || got.Bounds == nil || got.Bounds.May != may || !slices.Equal(got.Bounds.Apps, want) {
			t.Errorf("the bounds are %+v, %v, want %v", got.Bounds, err, want)
		}
	}
	remove := func(id app.ID) {
		must(t, errors.Join(db.Apps.DeleteApp(ctx, id), db.Allocations(pool).Release(ctx, id)))
	}
	look("helped", "own")
	remove("own")
	look("helped")
	mustApp(t, db, bob.ID, "own", 32)
	look("helped")
	remove("helped")
	look()
	must(t, db.Accounts.DeleteToken(ctx, ana.ID, made.ID))
}

func TestTokenUseIsNotedOnceAMinute(t *testing.T) {
	db, clock := openTemp(t)
	ctx := t.Context()
	ana := mustAccount(t, db, "ana", 512)
	token, err := db.Accounts.InsertToken(ctx, [32]byte{1}, app.Token{Account: ana.ID})
	must(t, err)
	used := func() time.Time {
		t.Helper()
		if _, _, err := db.Accounts.AccountByToken(ctx, [32]byte{1}); err != nil {
			t.Fatal(err)
		}
		got, err := db.Accounts.Token(ctx, token.ID)
		must(t, err)
		return got.LastUsed
	}
	start := clock.now().Truncate(time.Millisecond)
	if got := used(); !got.Equal(start) {
		t.Errorf("first use at %v, want %v", got, start)
	}
	clock.advance(59 * time.Second)
	if got := used(); !got.Equal(start) {
		t.Errorf("after 59 s: %v, want %v still", got, start)
	}
	clock.advance(time.Second)
	if got, want := used(), start.Add(time.Minute); !got.Equal(want) {
		t.Errorf("after a minute: %v, want %v", got, want)
	}
	clock.advance(-time.Hour)
	if got, want := used(), start.Add(time.Minute); !got.Equal(want) {
		t.Errorf("after the clock went back: %v, want %v", got, want)
	}

	clock.advance(2 * time.Hour)
	must(t, db.writer.Close()) // stands for any failure to write
	if got, _, err := db.Accounts.AccountByToken(ctx, [32]byte{1}); err != nil || got != ana {
		t.Errorf("when the use cannot be noted: %+v, %v; want the account", got, err)
	}
}

func BenchmarkAccountByToken(b *testing.B) {
	db, _ := openTemp(b)
	ana := mustAccount(b, db, "ana", 512)
	for i := range 200 {
		if _, err := db.Accounts.InsertToken(b.Context(), [32]byte{byte(i)}, app.Token{Account: ana.ID}); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if _, _, err := db.Accounts.AccountByToken(b.Context(), [32]byte{7}); err != nil {
				b.Error(err)
			}
		}
	})
}
