package db

import (
	"fmt"
	"testing"
	"time"

	"berth/app"
)

// anyOffer lets everything pass.
func anyOffer(int, app.MB) error { return nil }

// mustOffer stores an offer for an hour; its link has the byte.
func mustOffer(t *testing.T, db *DB, clock *clock, link byte, o app.Offer) app.Offer {
	t.Helper()
	o.Expires = clock.now().Add(time.Hour)
	made, err := db.Invitations.InsertOffer(t.Context(), [32]byte{link}, o, anyOffer)
	must(t, err)
	return made
}

// taking builds an account of that name.
func taking(name string) func(app.Offer, app.MB) (app.Account, error) {
	return func(o app.Offer, _ app.MB) (app.Account, error) {
		return app.Account{Name: name, TotalRAM: o.RAM, Plan: "Diamond", Locale: "en-US", Limits: app.Limits{Disk: o.Disk, Apps: o.Apps}}, nil
	}
}

func TestOffers(t *testing.T) {
	db, clock := openTemp(t)
	ctx := t.Context()
	ana, bob := mustAccount(t, db, "ana", 1000), mustAccount(t, db, "bob", 1000)
	mustApp(t, db, ana.ID, "shop", 100)
	mustApp(t, db, bob.ID, "other", 50)
	seen := ""
	logs := app.Permissions(0).With(app.LogsApp)
	o := app.Offer{Inviter: ana.ID, Grants: []app.Grant{{App: "shop", Permissions: logs}}, Expires: clock.now().Add(time.Hour)}
	made, err := db.Invitations.InsertOffer(ctx, [32]byte{1}, o, func(offers int, assigned app.MB) error {
		seen = fmt.Sprint(offers, assigned)
		return nil
	})
	if err != nil || made.ID != 1 || seen != "0 150" || made.Grants[0].Name == "" {
		t.Fatalf("%+v, %v, %q", made, err, seen)
	}
	host := mustOffer(t, db, clock, 2, app.Offer{For: "eve", RAM: 512, Disk: 1024, Apps: 3, Grants: []app.Grant{{App: "shop", Permissions: logs}, {App: "other", Permissions: logs}}})
	got, err := db.Invitations.Offer(ctx, [32]byte{2})
	if want := fmt.Sprint(host); err != nil || fmt.Sprint(got) != want {
		t.Errorf("got %v, %v; want %v", got, err, want)
	}
	for inviter, want := range map[app.AccountID]string{0: "12", ana.ID: "1", bob.ID: ""} {
		list, err := db.Invitations.Offers(ctx, inviter)
		ids := ""
		for _, o := range list {
			ids += fmt.Sprint(o.ID)
		}
		if err != nil || ids != want {
			t.Errorf("of %d are %q, %v; want %q", inviter, ids, err, want)
		}
	}
	for what, grants := range map[string][]app.Grant{
		"another's": {{App: "shop", Permissions: logs}, {App: "other", Permissions: logs}}, "none": {{App: "nothing", Permissions: logs}},
	} {
		_, err := db.Invitations.InsertOffer(ctx, [32]byte{3}, app.Offer{Inviter: ana.ID, Grants: grants, Expires: clock.now().Add(time.Hour)}, anyOffer)
		wantKind(t, what, err, app.NotFound)
		_, err = db.Invitations.Offer(ctx, [32]byte{3})
		wantKind(t, what+", stored", err, app.NotFound)
	}
	_, err = db.Invitations.InsertOffer(ctx, [32]byte{3}, o, func(int, app.MB) error { return app.Errorf(app.Exhausted, "no") })
	wantKind(t, "refused", err, app.Exhausted)
	wantKind(t, "another's invitation", db.Invitations.DeleteOffer(ctx, bob.ID, made.ID), app.NotFound)
	must(t, db.Invitations.DeleteOffer(ctx, ana.ID, made.ID))
	wantKind(t, "twice", db.Invitations.DeleteOffer(ctx, 0, made.ID), app.NotFound)
	must(t, db.Invitations.DeleteOffer(ctx, 0, host.ID))
	clock.advance(time.Hour)
	mustOffer(t, db, clock, 4, o)
	clock.advance(time.Hour)
	mustOffer(t, db, clock, 5, o)
	if n, err := get(ctx, db, "count", func(t tx) (int, error) { return number(t, "SELECT count(*) FROM offer") }); err != nil || n != 1 {
		t.Errorf("%d are kept, %v", n, err)
	}
}

// An offer ends with what stands behind it.
func TestOffersThatNobodyCanAccept(t *testing.T) {
	db, clock := openTemp(t)
	ctx := t.Context()
	ana, bob := mustAccount(t, db, "ana", 1000), mustAccount(t, db, "bob", 1000)
	change := func(f func(a *app.Account)) {
		t.Helper()
		_, err := db.Accounts.UpdateAccount(ctx, ana.ID, func(a *app.Account, _ app.MB) error { f(a); return nil })
		must(t, err)
	}
	mustApp(t, db, ana.ID, "shop", 100)
	change(func(a *app.Account) { a.Admin = true })
	grants := []app.Grant{{App: "shop", Permissions: app.AllPermissions}}
	mustOffer(t, db, clock, 1, app.Offer{Inviter: ana.ID, RAM: 100})
	mustOffer(t, db, clock, 2, app.Offer{Inviter: ana.ID, Grants: grants})
	mustOffer(t, db, clock, 3, app.Offer{RAM: 100, Grants: grants})
	usable := func() (links string) {
		for link := byte(1); link <= 3; link++ {
			if _, err := db.Invitations.Offer(ctx, [32]byte{link}); err == nil {
				links += fmt.Sprint(link)
				continue
			}
			_, err := db.Invitations.Accept(ctx, [32]byte{link}, app.Credential{Password: "x"}, taking("eve"))
			wantKind(t, "accept", err, app.NotFound)
			_, err = db.Invitations.Join(ctx, [32]byte{link}, bob.ID)
			wantKind(t, "join", err, app.NotFound)
		}
		return links
	}
	for _, tt := range []struct {
		what   string
		change func(a *app.Account)
		want   string
	}{
		{"an administrator", func(*app.Account) {}, "123"},
		{"none any more", func(a *app.Account) { a.Admin = false }, "23"},
		{"disabled", func(a *app.Account) { a.Admin, a.Disabled = true, true }, "3"},
		{"suspended", func(a *app.Account) { a.Disabled, a.Suspended.On = false, true }, "3"},
		{"again", func(a *app.Account) { a.Suspended.On = false }, "123"},
	} {
		change(tt.change)
		if got := usable(); got != tt.want {
			t.Errorf("%s: %q can be accepted, want %q", tt.what, got, tt.want)
		}
	}
	must(t, db.Apps.DeleteApp(ctx, "shop"))
	if got := usable(); got != "13" {
		t.Errorf("without the application %q can be accepted", got)
	}
	must(t, db.Allocations(pool).Release(ctx, "shop"))
	must(t, db.Accounts.DeleteAccount(ctx, ana.ID))
	if got := usable(); got != "3" {
		t.Errorf("without the inviter %q can be accepted", got)
	}
	clock.advance(time.Hour)
	if got := usable(); got != "" {
		t.Errorf("after their time %q can be accepted", got)
	}
}

// All that is offered is given at once, or nothing is and the link goes on.
func TestAcceptIsWhole(t *testing.T) {
	db, clock := openTemp(t)
	ctx := t.Context()
	ana := mustAccount(t, db, "ana", 1000)
	mustApp(t, db, ana.ID, "shop", 100)
	mustApp(t, db, ana.ID, "bot", 100)
	logs, start := app.Permissions(0).With(app.LogsApp), app.Permissions(0).With(app.StartApp)
	o := app.Offer{RAM: 512, Disk: 1024, Apps: 3, Grants: []app.Grant{{App: "shop", Permissions: logs}, {App: "bot", Permissions: start}}}
	mustOffer(t, db, clock, 1, o)
	_, err := db.Invitations.Accept(ctx, [32]byte{1}, app.Credential{Password: "hash"}, taking("ana"))
	wantKind(t, "a taken name", err, app.Conflict)
	_, err = db.Invitations.Accept(ctx, [32]byte{1}, app.Credential{Password: "hash"}, func(app.Offer, app.MB) (app.Account, error) {
		return app.Account{}, app.Errorf(app.Exhausted, "no")
	})
	wantKind(t, "refused", err, app.Exhausted)
	if _, err := db.Invitations.Accept(ctx, [32]byte{1}, app.Credential{}, taking("eve")); err == nil {
		t.Error("an account that nobody can sign in to")
	}
	if all, _ := db.Accounts.Accounts(ctx); len(all) != 1 {
		t.Fatalf("left are %+v", all)
	}
	eve, err := db.Invitations.Accept(ctx, [32]byte{1}, app.Credential{Password: "hash"}, taking("eve"))
	must(t, err)
	if stored, err := db.Accounts.Account(ctx, eve.ID); err != nil || stored != eve || eve.TotalRAM != 512 || eve.Limits != (app.Limits{Disk: 1024, Apps: 3}) || eve.Admin {
		t.Errorf("%+v, %v", stored, err)
	}
	if _, hash, err := db.SignIns.PasswordByName(ctx, "eve"); err != nil || hash != "hash" {
		t.Errorf("%q, %v", hash, err)
	}
	may := func(account app.AccountID, id app.ID) app.Permissions {
		m, _ := db.Teams.Membership(ctx, account, id)
		return m.Permissions
	}
	if may(eve.ID, "shop") != logs || may(eve.ID, "bot") != start {
		t.Errorf("it may %v and %v", may(eve.ID, "shop").Names(), may(eve.ID, "bot").Names())
	}
	_, err = db.Invitations.Accept(ctx, [32]byte{1}, app.Credential{Password: "hash"}, taking("mallory"))
	wantKind(t, "twice", err, app.NotFound)

	mustOffer(t, db, clock, 2, app.Offer{Inviter: ana.ID, Grants: []app.Grant{{App: "bot", Permissions: logs}, {App: "shop", Permissions: start}}})
	_, err = db.Invitations.Join(ctx, [32]byte{2}, ana.ID)
	wantKind(t, "one's own", err, app.Unusable)
	_, err = db.Invitations.Join(ctx, [32]byte{2}, 99)
	wantKind(t, "nobody", err, app.NotFound)
	_, err = db.Accounts.UpdateAccount(ctx, eve.ID, func(a *app.Account, _ app.MB) error { a.Disabled = true; return nil })
	must(t, err)
	_, err = db.Invitations.Join(ctx, [32]byte{2}, eve.ID)
	wantKind(t, "disabled", err, app.Forbidden)
	_, err = db.Accounts.UpdateAccount(ctx, eve.ID, func(a *app.Account, _ app.MB) error { a.Disabled = false; return nil })
	must(t, err)
	_, err = db.Invitations.Join(ctx, [32]byte{2}, eve.ID)
	must(t, err)
	if both := logs.With(app.StartApp); may(eve.ID, "shop") != both || may(eve.ID, "bot") != both {
		t.Errorf("it may %v and %v", may(eve.ID, "shop").Names(), may(eve.ID, "bot").Names())
	}
	_, err = db.Invitations.Join(ctx, [32]byte{2}, eve.ID)
	wantKind(t, "joined twice", err, app.NotFound)
	mustOffer(t, db, clock, 3, app.Offer{RAM: 512})
	_, err = db.Invitations.Join(ctx, [32]byte{3}, eve.ID)
	wantKind(t, "for a new account", err, app.Unusable)
}
