package account

import (
	"errors"
	"path/filepath"
	"testing"
	"time"

	"berth/app"
	"berth/db"
)

func TestAdmin(t *testing.T) {
	store, err := db.Open(t.Context(), filepath.Join(t.TempDir(), "berth.db"), time.Now)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
	ctx := t.Context()
	signIns := NewSignIns(store.SignIns, time.Hour, nil)
	admin := NewAdmin(store.Accounts)
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
		"RAM of nobody":  {second(admin.SetTotal(ctx, 99, 512)), app.NotFound},
		"too much RAM":   {second(admin.SetTotal(ctx, ana.ID, MaxRAM+1)), app.Invalid},
		"nobody":         {second(admin.SetDisabled(ctx, 99, true)), app.NotFound},
		"link of nobody": {second(signIns.Invite(ctx, 99)), app.NotFound},
	} {
		if app.KindOf(c.err) != c.kind {
			t.Errorf("%s: %v", what, c.err)
		}
	}
	if a, err := admin.SetTotal(ctx, ana.ID, 1024); err != nil || a.TotalRAM != 1024 {
		t.Errorf("%+v, %v", a, err)
	}
	reserved := app.App{ID: "shop", Account: ana.ID, RAM: 600}
	ids := db.IDRange{UIDBase: 70000, UIDCount: 10, PortFirst: 20000, PortLast: 20010}
	if _, err := store.Allocations(ids).Reserve(ctx, reserved, func(app.MB, app.MB) error { return nil }); err != nil {
		t.Fatal(err)
	}
	if err := second(admin.SetTotal(ctx, ana.ID, 599)); app.KindOf(err) != app.Conflict {
		t.Errorf("less than what is assigned: %v", err)
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
