package account

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"berth/app"
	"berth/db"
)

type billingDB struct {
	db.HostTokens
	db.Accounts
}

func newBilling(t *testing.T) (*Billing, *db.DB, *fakePrograms) {
	store, programs := openStore(t), &fakePrograms{}
	signIns := NewSignIns(store.SignIns, time.Hour, nil)
	return NewBilling(billingDB{store.HostTokens, store.Accounts}, NewAdmin(store.Accounts, programs), signIns), store, programs
}

func ofRAM(ram app.MB) app.AccountChange { return app.AccountChange{RAM: &ram} }

// Every operation can be repeated, and none reaches an account that Create did not make.
func TestBilling(t *testing.T) {
	b, store, _ := newBilling(t)
	ctx := t.Context()
	owner, err := store.Accounts.CreateAccount(ctx, app.Account{Name: "owner", TotalRAM: 1, Admin: true})
	if err != nil {
		t.Fatal(err)
	}
	apps := 2
	limited := ofRAM(512)
	limited.Apps = &apps
	made, created, err := b.Create(ctx, "7", "ana", limited)
	if err != nil || !created || made.External != "7" || made.Limits.Apps != 2 || made.Admin {
		t.Fatalf("%+v, %t, %v", made, created, err)
	}
	again, created, err := b.Create(ctx, "7", "ana", limited)
	if err != nil || created || again != made {
		t.Errorf("again: %+v, %t, %v", again, created, err)
	}
	for what, c := range map[string]struct {
		external, name string
		change         app.AccountChange
		kind           app.Kind
		says           string
	}{
		"other limits":     {"7", "ana", ofRAM(512), app.Conflict, `the account "7" exists already, with another name or other limits; change it instead`},
		"another name":     {"7", "anna", limited, app.Conflict, "with another name"},
		"a taken name":     {"8", "ana", limited, app.Conflict, `an account called "ana" exists already`},
		"the owner's name": {"8", "owner", limited, app.Conflict, `an account called "owner" exists already`},
		"no external id":   {"", "bob", limited, app.Invalid, "the external id of an account has 1 to 64"},
		"a path":           {"../x", "bob", limited, app.Invalid, "the external id"},
		"dots":             {"..", "bob", limited, app.Invalid, "the external id"},
		"a long one":       {strings.Repeat("x", 65), "bob", limited, app.Invalid, "the external id"},
		"a bad name":       {"8", "Bob!", limited, app.Invalid, "cannot be the name of an account"},
		"no RAM":           {"8", "bob", app.AccountChange{}, app.Invalid, "an account needs RAM"},
		"bad RAM":          {"8", "bob", ofRAM(0), app.Invalid, "the RAM of an account must be"},
	} {
		if _, _, err := b.Create(ctx, c.external, c.name, c.change); app.KindOf(err) != c.kind || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v", what, err)
		}
	}
	for range 2 {
		if a, err := b.Change(ctx, "7", ofRAM(256)); err != nil || a.TotalRAM != 256 || a.Limits.Apps != 2 {
			t.Errorf("change: %+v, %v", a, err)
		}
		if a, err := b.Suspend(ctx, "7", "unpaid"); err != nil || a.Suspended.Why != "unpaid" {
			t.Errorf("suspend: %+v, %v", a, err)
		}
	}
	for range 2 {
		if a, err := b.Unsuspend(ctx, "7"); err != nil || a.Suspended.On {
			t.Errorf("unsuspend: %+v, %v", a, err)
		}
	}
	for _, external := range []string{"", "8", "owner", owner.ID.String()} {
		for what, err := range map[string]error{
			"show": second(b.Account(ctx, external)), "change": second(b.Change(ctx, external, ofRAM(1))),
			"suspend": second(b.Suspend(ctx, external, "")), "unsuspend": second(b.Unsuspend(ctx, external)),
		} {
			if app.KindOf(err) != app.NotFound {
				t.Errorf("%s of %q: %v", what, external, err)
			}
		}
		if a, err := b.Terminate(ctx, external); err != nil || a.ID != 0 {
			t.Errorf("terminate of %q: %+v, %v", external, a, err)
		}
	}
	if a, err := b.Terminate(ctx, "7"); err != nil || a.Name != "ana" {
		t.Errorf("terminate: %+v, %v", a, err)
	}
	if a, err := b.Terminate(ctx, "7"); err != nil || a.ID != 0 {
		t.Errorf("terminate again: %+v, %v", a, err)
	}
	all, err := store.Accounts.Accounts(ctx)
	if err != nil || len(all) != 1 || all[0] != owner {
		t.Errorf("left are %+v, %v", all, err)
	}
}

// Many requests at once to make one account make one.
func TestBillingCreatesOnce(t *testing.T) {
	b, store, _ := newBilling(t)
	var mu sync.Mutex
	var wg sync.WaitGroup
	made, ids := 0, map[app.AccountID]bool{}
	for range 20 {
		wg.Go(func() {
			a, created, err := b.Create(context.Background(), "7", "ana", ofRAM(512))
			mu.Lock()
			defer mu.Unlock()
			if ids[a.ID] = true; err != nil {
				t.Error(err)
			}
			if created {
				made++
			}
		})
	}
	wg.Wait()
	if all, err := store.Accounts.Accounts(t.Context()); err != nil || len(all) != 1 || made != 1 || len(ids) != 1 {
		t.Errorf("%d were made, with the ids %v: %+v, %v", made, ids, all, err)
	}
}

// A customer's link sets a first password, and gets nobody into an account that is in use.
func TestBillingLink(t *testing.T) {
	b, store, _ := newBilling(t)
	ctx := t.Context()
	a, _, err := b.Create(ctx, "7", "ana", ofRAM(512))
	if err != nil {
		t.Fatal(err)
	}
	key, err := b.Link(ctx, a)
	if err != nil || key == "" {
		t.Fatalf("%q, %v", key, err)
	}
	i, err := b.signIns.Invitation(ctx, key)
	if left := time.Until(i.Expires); err != nil || i.Account.ID != a.ID || left > CustomerLinkTime || left < CustomerLinkTime-time.Minute {
		t.Errorf("%+v, %v", i, err)
	}
	if err := store.SignIns.SetPassword(ctx, a.ID, "a hash", 0); err != nil {
		t.Fatal(err)
	}
	if key, err := b.Link(ctx, a); key != "" || err != nil {
		t.Errorf("with a password: %q, %v", key, err)
	}
	if key, err := NewBilling(b.store, b.admin, nil).Link(ctx, a); key != "" || err != nil {
		t.Errorf("without a panel: %q, %v", key, err)
	}
}

func TestHostTokens(t *testing.T) {
	b, store, _ := newBilling(t)
	ctx := t.Context()
	text, made, err := IssueHostToken(ctx, b.store, "whmcs")
	if err != nil || !strings.HasPrefix(text, "berth-host-") || len(text) < 50 {
		t.Fatalf("%q, %v", text, err)
	}
	if got, err := b.Authorize(ctx, text); err != nil || got.ID != made.ID || got.Label != "whmcs" {
		t.Errorf("%+v, %v", got, err)
	}
	for _, other := range []string{"", "berth-host-", text + "x", text[:len(text)-1], "berth-host-" + strings.Repeat("x", 1<<11), strings.TrimPrefix(text, "berth-host-")} {
		if _, err := b.Authorize(ctx, other); app.KindOf(err) != app.Unauthorized {
			t.Errorf("%.60q: %v", other, err)
		}
	}
	if _, _, err := New(store.Accounts).Authenticate(ctx, text); app.KindOf(err) != app.Unauthorized {
		t.Errorf("as a token of an account: %v", err)
	}
	if _, _, err := IssueHostToken(ctx, b.store, strings.Repeat("x", 101)); app.KindOf(err) != app.Invalid {
		t.Errorf("a long label: %v", err)
	}
	if all, err := store.HostTokens.HostTokens(ctx); err != nil || len(all) != 1 || all[0].LastUsed.IsZero() {
		t.Errorf("%+v, %v", all, err)
	}
	if err := store.HostTokens.DeleteHostToken(ctx, made.ID); err != nil {
		t.Error(err)
	}
	if err := store.HostTokens.DeleteHostToken(ctx, made.ID); app.KindOf(err) != app.NotFound {
		t.Errorf("again: %v", err)
	}
	if _, err := b.Authorize(ctx, text); app.KindOf(err) != app.Unauthorized {
		t.Errorf("revoked: %v", err)
	}
}
