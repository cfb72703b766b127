package db

import (
	"errors"
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
	_, err := db.Places(pool).Reserve(ctx, app.App{ID: "two", Account: ana.ID, RAM: 30}, anything)
	must(t, err)

	got, err := db.Accounts.UpdateAccount(ctx, ana.ID, func(a *app.Account, assigned app.MB) error {
		if assigned != 130 {
			t.Errorf("assigned is %d, want 130", assigned)
		}
		a.ID, a.CreatedAt = 77, time.Time{} // must not take effect
		a.Name, a.TotalRAM, a.Plan, a.Locale, a.Disabled = "anna", 1024, "Gold", "pt-BR", true
		return nil
	})
	want := app.Account{ID: ana.ID, Name: "anna", TotalRAM: 1024, Plan: "Gold", Locale: "pt-BR", Disabled: true, CreatedAt: ana.CreatedAt}
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
	_, err := db.Accounts.InsertToken(ctx, ana.ID, [32]byte{1}, "", time.Time{})
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
	must(t, db.Places(pool).Release(ctx, "one"))
	must(t, db.Places(pool).Release(ctx, "two"))

	_, err = db.Places(pool).Reserve(ctx, app.App{ID: "three", Account: ana.ID, RAM: 1, Wanted: app.WantOnline}, anything)
	must(t, err)
	wantKind(t, "with a deployment under way", db.Accounts.DeleteAccount(ctx, ana.ID), app.Conflict)
	must(t, db.Places(pool).Release(ctx, "three"))
	must(t, db.Accounts.DeleteAccount(ctx, ana.ID))
	_, _, err = db.Accounts.AccountByToken(ctx, [32]byte{1})
	wantKind(t, "its token", err, app.NotFound)
	wantKind(t, "twice", db.Accounts.DeleteAccount(ctx, ana.ID), app.NotFound)

	if again := mustAccount(t, db, "ana", 512); again.ID == ana.ID {
		t.Errorf("the id %d was used again", again.ID)
	}
}
