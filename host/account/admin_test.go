package account

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"berth/app"
	"berth/db"
	"berth/test/database"
)

func TestAdmin(t *testing.T) {
	store := openStore(t)
	ctx := t.Context()
	signIns := NewSignIns(store.SignIns, time.Hour, nil)
	programs := &fakePrograms{}
	admin := NewAdmin(store.Accounts, programs)
	ram := func(mb app.MB) app.AccountChange { return app.AccountChange{RAM: &mb} }
	ana, err := admin.Create(ctx, "ana", 512)
	if err != nil || ana.ID == 0 || ana.Admin || ana.Plan != DefaultPlan {
		t.Fatalf("%+v, %v", ana, err)
	}
	for what, c := range map[string]struct {
		err  error
		kind app.Kind
	}{
		"a taken name":   {second(admin.Create(ctx, "ana", 512)), app.Conflict},
		"a bad name":     {second(admin.Create(ctx, "Ana!", 512)), app.Invalid},
		"no RAM":         {second(admin.Create(ctx, "bob", 0)), app.Invalid},
		"RAM of nobody":  {second(admin.Change(ctx, 99, ram(512))), app.NotFound},
		"too much RAM":   {second(admin.Change(ctx, ana.ID, ram(MaxRAM+1))), app.Invalid},
		"nobody":         {second(admin.SetDisabled(ctx, 99, true)), app.NotFound},
		"link of nobody": {second(signIns.Invite(ctx, 99)), app.NotFound},
	} {
		if app.KindOf(c.err) != c.kind {
			t.Errorf("%s: %v", what, c.err)
		}
	}
	if a, err := admin.Change(ctx, ana.ID, ram(1024)); err != nil || a.TotalRAM != 1024 {
		t.Errorf("%+v, %v", a, err)
	}
	reserved := app.App{ID: "shop", Account: ana.ID, RAM: 600}
	ids := db.IDRange{UIDBase: 70000, UIDCount: 10, PortFirst: 20000, PortLast: 20010}
	if _, err := store.Allocations(ids).Reserve(ctx, reserved, func(app.Account, app.Use) error { return nil }); err != nil {
		t.Fatal(err)
	}
	if err := second(admin.Change(ctx, ana.ID, ram(599))); app.KindOf(err) != app.Conflict {
		t.Errorf("less than what is assigned: %v", err)
	}
	if fmt.Sprint(programs.changed) != fmt.Sprint([]app.AccountID{ana.ID}) {
		t.Errorf("told of changes of %v", programs.changed)
	}
	for _, off := range []bool{true, false} {
		if a, err := admin.SetDisabled(ctx, ana.ID, off); err != nil || a.Disabled != off {
			t.Errorf("%+v, %v", a, err)
		}
	}
	all, used, err := admin.Accounts(ctx)
	if err != nil || len(all) != 1 || all[0].TotalRAM != 1024 || used[0] != 600 {
		t.Errorf("%+v, %v, %v", all, used, err)
	}
	key, err := signIns.Invite(ctx, ana.ID)
	if i, failed := signIns.Invitation(ctx, key); errors.Join(err, failed) != nil || i.Account.ID != ana.ID {
		t.Errorf("the link is for %+v: %v, %v", i, err, failed)
	}
}

func second[T any](_ T, err error) error { return err }

// fakePrograms are applications of every account, which are gone after a moment.
type fakePrograms struct {
	changed []app.AccountID
	apps    []app.Snapshot
	deleted []app.ID
	err     error
	release func(id app.ID) // called for each application that is deleted
}

func (p *fakePrograms) AccountChanged(_ context.Context, id app.AccountID) error {
	p.changed = append(p.changed, id)
	return p.err
}

func (p *fakePrograms) Apps(app.AccountID) []app.Snapshot { return p.apps }

func (p *fakePrograms) Delete(_ context.Context, _ app.AccountID, id app.ID) error {
	p.deleted, p.apps = append(p.deleted, id), p.apps[1:]
	p.release(id)
	return p.err
}

// An account goes with what it has, also with what is still being called off; where that fails
// it stays suspended.
func TestAdminDeletes(t *testing.T) {
	store := openStore(t)
	ctx := t.Context()
	ids := store.Allocations(db.IDRange{UIDBase: 70000, UIDCount: 10, PortFirst: 20000, PortLast: 20010})
	programs := &fakePrograms{}
	programs.release = func(id app.ID) {
		if id == "two" && len(programs.deleted) < 4 { // its deployment is being called off
			programs.apps = append(programs.apps, app.Snapshot{App: app.App{ID: "two"}})
			return
		}
		if err := ids.Release(ctx, id); err != nil {
			t.Error(err)
		}
	}
	admin := NewAdmin(store.Accounts, programs)
	ana, err := admin.Create(ctx, "ana", 512)
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range []app.ID{"one", "two"} {
		if _, err := ids.Reserve(ctx, app.App{ID: id, Account: ana.ID, RAM: 10}, func(app.Account, app.Use) error { return nil }); err != nil {
			t.Fatal(err)
		}
		programs.apps = append(programs.apps, app.Snapshot{App: app.App{ID: id}})
	}
	programs.err = errors.New("no disk")
	if err := admin.Delete(ctx, ana.ID); err == nil || err.Error() != "no disk" {
		t.Errorf("with a fault: %v", err)
	}
	if a, err := store.Accounts.Account(ctx, ana.ID); err != nil || a.Suspended != (app.Suspension{On: true, Why: "it is being deleted"}) {
		t.Errorf("with a fault it is %+v, %v", a, err)
	}
	programs.err = nil
	if err := admin.Delete(ctx, ana.ID); err != nil {
		t.Error(err)
	}
	if _, err := store.Accounts.Account(ctx, ana.ID); app.KindOf(err) != app.NotFound || len(programs.apps) > 0 {
		t.Errorf("left: %v, %v", err, programs.apps)
	}
	if err := admin.Delete(ctx, ana.ID); app.KindOf(err) != app.NotFound {
		t.Errorf("again: %v", err)
	}
}

func TestAdminSuspends(t *testing.T) {
	store := openStore(t)
	ctx := t.Context()
	programs := &fakePrograms{}
	admin := NewAdmin(store.Accounts, programs)
	ana, err := admin.Create(ctx, "ana", 512)
	if err != nil {
		t.Fatal(err)
	}
	for _, why := range []string{strings.Repeat("x", 201), "two\nlines", "\xff"} {
		if err := second(admin.Suspend(ctx, ana.ID, why)); app.KindOf(err) != app.Invalid {
			t.Errorf("%q: %v", why, err)
		}
	}
	if len(programs.changed) > 0 {
		t.Errorf("told of %v", programs.changed)
	}
	for _, why := range []string{"", "unpaid"} {
		a, err := admin.Suspend(ctx, ana.ID, why)
		if err != nil || a.Suspended != (app.Suspension{On: true, Why: why}) || app.KindOf(a.Closed()) != app.Forbidden {
			t.Errorf("%+v, %v", a, err)
		}
	}
	if a, err := admin.SetDisabled(ctx, ana.ID, true); err != nil || !a.Suspended.On {
		t.Errorf("disabled as well: %+v, %v", a, err)
	}
	if a, err := admin.Unsuspend(ctx, ana.ID); err != nil || a.Suspended.On || a.Suspended.Why != "" || a.Closed() == nil {
		t.Errorf("%+v, %v: it is disabled still", a, err)
	}
	if err := second(admin.Suspend(ctx, 99, "")); app.KindOf(err) != app.NotFound {
		t.Errorf("nobody: %v", err)
	}
	if fmt.Sprint(programs.changed) != fmt.Sprint([]app.AccountID{ana.ID, ana.ID, ana.ID}) {
		t.Errorf("told of %v", programs.changed)
	}
}

func openStore(t *testing.T) *db.DB {
	t.Helper()
	store, err := db.Open(t.Context(), database.Path(t), time.Now)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
	return store
}
