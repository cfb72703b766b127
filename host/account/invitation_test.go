package account

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"berth/app"
	"berth/db"
	"berth/test/database"
)

// lobby is invitations on a real database: ana is an administrator with the application shop,
// bob is not, and has none.
type lobby struct {
	*Invitations
	store    *db.DB
	ana, bob app.Account
}

func newLobby(t *testing.T, capacity app.MB) lobby {
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
	l := lobby{store: store}
	signIns := NewSignIns(store.SignIns, time.Hour, []byte("key"))
	l.Invitations = NewInvitations(store.Invitations, signIns, func() app.MB { return capacity })
	for name, to := range map[string]*app.Account{"ana": &l.ana, "bob": &l.bob} {
		made, err := NewAccount(name, 512)
		made.Admin = name == "ana"
		if err == nil {
			*to, err = store.Accounts.CreateAccount(t.Context(), made)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	ids := db.IDRange{UIDBase: 70000, UIDCount: 10, PortFirst: 20000, PortLast: 20010}
	a := app.App{ID: "shop", Account: l.ana.ID, RAM: 100, Wanted: app.WantOnline}
	if a, err = store.Allocations(ids).Reserve(t.Context(), a, func(app.Account, app.Use) error { return nil }); err == nil {
		_, err = store.Apps.CreateApp(t.Context(), a, app.Deploy{Kind: app.DeployUpload})
	}
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// set changes ana.
func (l lobby) set(t *testing.T, change func(a *app.Account)) {
	t.Helper()
	_, err := l.store.Accounts.UpdateAccount(t.Context(), l.ana.ID, func(a *app.Account, _ app.MB) error {
		change(a)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

var logsOfShop = []app.Grant{{App: "shop", Permissions: app.Permissions(app.LogsApp)}}

func TestInvite(t *testing.T) {
	l := newLobby(t, 1000)
	owner, twice := app.Account{}, append(logsOfShop, logsOfShop...)
	for what, c := range map[string]struct {
		by    app.Account
		o     app.Offer
		lasts time.Duration
		kind  app.Kind
		says  string
	}{
		"too short":               {l.ana, app.Offer{RAM: 100}, LeastOffer - 1, app.Invalid, "15 minutes to 30 days"},
		"too long":                {l.ana, app.Offer{RAM: 100}, LongestOffer + 1, app.Invalid, "15 minutes to 30 days"},
		"nothing":                 {l.ana, app.Offer{}, time.Hour, app.Invalid, "needs RAM"},
		"a name without RAM":      {l.ana, app.Offer{For: "eve", Grants: logsOfShop}, time.Hour, app.Invalid, "need RAM"},
		"limits without RAM":      {l.ana, app.Offer{Apps: 3, Grants: logsOfShop}, time.Hour, app.Invalid, "need RAM"},
		"negative RAM":            {owner, app.Offer{RAM: -1}, time.Hour, app.Invalid, "from 1 to"},
		"negative disk":           {owner, app.Offer{RAM: 1, Disk: -1}, time.Hour, app.Invalid, "disk space"},
		"negative number":         {owner, app.Offer{RAM: 1, Apps: -1}, time.Hour, app.Invalid, "number of applications"},
		"a bad name":              {owner, app.Offer{RAM: 1, For: "Eve!"}, time.Hour, app.Invalid, "cannot be the name"},
		"RAM of no administrator": {l.bob, app.Offer{RAM: 100}, time.Hour, app.Forbidden, "only an administrator"},
		"an application twice":    {l.ana, app.Offer{Grants: twice}, time.Hour, app.Invalid, "named twice"},
		"no permission":           {l.ana, app.Offer{Grants: []app.Grant{{App: "shop"}}}, time.Hour, app.Invalid, "at least one permission"},
		"too many":                {l.ana, app.Offer{Grants: make([]app.Grant, maxBound+1)}, time.Hour, app.Invalid, "100 applications"},
		"another's application":   {l.bob, app.Offer{Grants: logsOfShop}, time.Hour, app.NotFound, "no application"},
		"more than there is":      {l.ana, app.Offer{RAM: 901}, time.Hour, app.Exhausted, "100 of the 1000 MB"},
		"what there is":           {l.ana, app.Offer{RAM: 900}, LeastOffer, 0, ""},
		"by the owner":            {owner, app.Offer{RAM: 900, Grants: logsOfShop}, LongestOffer, 0, ""},
	} {
		key, o, err := l.Invite(t.Context(), c.by, c.o, c.lasts)
		if c.kind != 0 {
			wantSentence(t, what, err, c.kind, c.says)
			continue
		}
		if got, failed := l.Offer(t.Context(), key); err != nil || failed != nil || got.ID != o.ID || o.Inviter != c.by.ID || len(key) < 40 {
			t.Errorf("%s: %+v, %v; %+v, %v", what, o, err, got, failed)
		}
	}
	for range maxOffers - 1 {
		if _, _, err := l.Invite(t.Context(), l.ana, app.Offer{Grants: logsOfShop}, time.Hour); err != nil {
			t.Fatal(err)
		}
	}
	_, _, err := l.Invite(t.Context(), l.ana, app.Offer{Grants: logsOfShop}, time.Hour)
	wantSentence(t, "one more", err, app.Exhausted, "50 open invitations", "revoke one")
	all, err := l.Invitations.Invitations(t.Context(), l.ana.ID)
	if err != nil || len(all) != maxOffers {
		t.Fatal(len(all), err)
	}
	wantKind(t, "revoked by another", l.Revoke(t.Context(), l.bob.ID, all[0].ID), app.NotFound)
	if err := l.Revoke(t.Context(), l.ana.ID, all[0].ID); err != nil {
		t.Error(err)
	}
	if _, _, err := l.Invite(t.Context(), l.ana, app.Offer{Grants: logsOfShop}, time.Hour); err != nil {
		t.Errorf("after one was revoked: %v", err)
	}
}

func TestAccept(t *testing.T) {
	l := newLobby(t, 1000)
	ctx := t.Context()
	invite := func(o app.Offer) string {
		t.Helper()
		key, _, err := l.Invite(ctx, l.ana, o, time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		return key
	}
	accept := func(key, name, password string) (app.SignedIn, error) {
		return l.AcceptWithPassword(ctx, key, name, password, app.Visitor{Address: "192.0.2.1", Key: "192.0.2.1"})
	}
	key := invite(app.Offer{For: "eve", RAM: 900, Disk: 2048, Apps: 2, Grants: logsOfShop})
	tampered := "A" + key[1:]
	if key[0] == 'A' {
		tampered = "B" + key[1:]
	}
	for what, c := range map[string]struct {
		key, name, password string
		kind                app.Kind
		says                string
	}{
		"tampered":           {tampered, "eve", "correct horse", app.NotFound, "used or revoked, or has expired"},
		"cut":                {key[:20], "eve", "correct horse", app.NotFound, ""},
		"longer":             {key + "A", "eve", "correct horse", app.NotFound, ""},
		"very long":          {strings.Repeat(key, 1000), "eve", "correct horse", app.NotFound, ""},
		"nothing":            {"", "eve", "correct horse", app.NotFound, ""},
		"a bad name":         {key, "1", "correct horse", app.Invalid, "name of an account"},
		"a short password":   {key, "eve", "horse", app.Invalid, "at least 10"},
		"the name":           {key, "evelina-eve", "evelina-eve", app.Invalid, "password"},
		"somebody's name":    {key, "bob", "correct horse", app.Conflict, ""},
		"without an account": {invite(app.Offer{Grants: logsOfShop}), "eve", "correct horse", app.Unusable, "sign in with yours"},
	} {
		_, err := accept(c.key, c.name, c.password)
		wantSentence(t, what, err, c.kind, c.says)
	}
	in, err := accept(key, "eve", "correct horse")
	if err != nil || in.Session == "" || in.Account.TotalRAM != 900 || in.Account.Limits != (app.Limits{Disk: 2048, Apps: 2}) || in.Account.Admin {
		t.Fatalf("%+v, %v", in, err)
	}
	if m, err := l.store.Teams.Membership(ctx, in.Account.ID, "shop"); err != nil || m.Permissions != logsOfShop[0].Permissions {
		t.Errorf("%+v, %v", m, err)
	}
	if _, err := l.signIns.SignIn(ctx, "eve", "correct horse", app.Visitor{}); err != nil {
		t.Error(err)
	}
	_, err = accept(key, "mallory", "correct horse")
	wantKind(t, "a second time", err, app.NotFound)

	revoked := invite(app.Offer{RAM: 100})
	o, err := l.Offer(ctx, revoked)
	if err != nil || l.Revoke(ctx, 0, o.ID) != nil {
		t.Fatal(err)
	}
	_, err = accept(revoked, "mallory", "correct horse")
	wantKind(t, "revoked", err, app.NotFound)
	late := invite(app.Offer{RAM: 900})
	l.capacity = func() app.MB { return 999 }
	_, err = accept(late, "mallory", "correct horse")
	wantSentence(t, "the RAM went meanwhile", err, app.Exhausted, "too little RAM left")
	l.capacity = func() app.MB { return 1000 }
	l.set(t, func(a *app.Account) { a.Admin = false })
	_, err = accept(late, "mallory", "correct horse")
	wantKind(t, "of an administrator who is none any more", err, app.NotFound)
	l.set(t, func(a *app.Account) { a.Admin, a.Disabled = true, true })
	_, err = accept(late, "mallory", "correct horse")
	wantKind(t, "of a disabled account", err, app.NotFound)
	l.set(t, func(a *app.Account) { a.Disabled = false })
	if _, err = accept(late, "mallory", "correct horse"); err != nil {
		t.Errorf("as it was: %v", err)
	}
	team := invite(app.Offer{Grants: logsOfShop})
	_, err = l.Join(ctx, team, l.ana.ID)
	wantSentence(t, "one's own", err, app.Unusable, "your own")
	if _, err := l.Join(ctx, team, l.bob.ID); err != nil {
		t.Error(err)
	}
	_, err = l.Join(ctx, team, l.bob.ID)
	wantKind(t, "joined twice", err, app.NotFound)
}

// Of many who accept at once, one succeeds, and the others leave nothing.
func TestAcceptAtOnce(t *testing.T) {
	l := newLobby(t, 1000)
	key, _, err := l.Invite(t.Context(), l.ana, app.Offer{RAM: 100, Grants: logsOfShop}, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	hash, err := l.signIns.hasher.hash(t.Context(), "correct horse")
	if err != nil {
		t.Fatal(err)
	}
	const many = 8
	errs := make([]error, 2*many)
	var wait sync.WaitGroup
	for i := range many {
		wait.Go(func() {
			_, errs[i] = l.Accept(context.WithoutCancel(t.Context()), key, "eve"+string(rune('a'+i)), app.Credential{Password: hash}, app.Visitor{})
		})
		wait.Go(func() { _, errs[many+i] = l.Join(context.WithoutCancel(t.Context()), key, l.bob.ID) })
	}
	wait.Wait()
	won := 0
	for _, err := range errs {
		if err == nil {
			won++
		} else {
			wantKind(t, "one of the others", err, app.NotFound)
		}
	}
	accounts, err := l.store.Accounts.Accounts(t.Context())
	members, failed := l.store.Teams.Members(t.Context(), l.ana.ID)
	if won != 1 || err != nil || failed != nil || len(members) != 1 || len(accounts) > 3 {
		t.Errorf("%d accepted, %+v, %+v, %v, %v", won, accounts, members, err, failed)
	}
}
