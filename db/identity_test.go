package db

import (
	"strconv"
	"testing"
	"time"

	"berth/app"
)

func TestIdentities(t *testing.T) {
	db, clock := openTemp(t)
	ctx, s := t.Context(), db.SignIns
	ana, bob := mustAccount(t, db, "ana", 512), mustAccount(t, db, "bob", 512)
	who := app.Identity{Account: ana.ID, Issuer: "https://id.example.org", Subject: "1", Name: "Ana"}
	must(t, s.LinkIdentity(ctx, who))
	wantKind(t, "twice", s.LinkIdentity(ctx, who), app.Conflict)
	who.Account = bob.ID
	wantKind(t, "another's", s.LinkIdentity(ctx, who), app.Conflict)
	wantKind(t, "nobody's", s.LinkIdentity(ctx, app.Identity{Account: 99, Issuer: "x", Subject: "1"}), app.NotFound)
	clock.advance(5 * time.Second)
	who.Name = "Ana Maria"
	a, hash, id, err := s.UseIdentity(ctx, who)
	if a.ID != ana.ID || hash != "" || id != 1 || err != nil {
		t.Errorf("got %+v, %q, %d, %v", a, hash, id, err)
	}
	list, err := s.Identities(ctx, ana.ID)
	if err != nil || len(list) != 1 || list[0].Name != "Ana Maria" || !list[0].LastUsed.After(list[0].CreatedAt) {
		t.Errorf("got %+v, %v", list, err)
	}
	for _, other := range []app.Identity{{Issuer: "https://id.example.org", Subject: "2"}, {Issuer: "https://id.example.org/", Subject: "1"}} {
		_, _, _, err := s.UseIdentity(ctx, other)
		wantKind(t, "somebody else", err, app.NotFound)
	}

	wantKind(t, "the only entrance", s.UnlinkIdentity(ctx, ana.ID, 1), app.Conflict)
	must(t, s.SetFirstPassword(ctx, ana.ID, "hash", 0))
	wantKind(t, "a second first password", s.SetFirstPassword(ctx, ana.ID, "other", 0), app.Conflict)
	wantKind(t, "another's", s.UnlinkIdentity(ctx, bob.ID, 1), app.NotFound)
	must(t, s.UnlinkIdentity(ctx, ana.ID, 1))
	for i := range maxIdentities {
		must(t, s.LinkIdentity(ctx, app.Identity{Account: ana.ID, Issuer: "x", Subject: strconv.Itoa(i)}))
	}
	wantKind(t, "one too many", s.LinkIdentity(ctx, app.Identity{Account: ana.ID, Issuer: "x", Subject: "more"}), app.Exhausted)

	made, err := s.SignUp(ctx, app.Identity{Issuer: "y", Subject: "1"}, func(promised app.MB) (app.Account, error) {
		if promised != 1024 {
			t.Errorf("the accounts have %d MB", promised)
		}
		return app.Account{Name: "eve", TotalRAM: 256, Plan: "Free", Locale: app.Locales[0]}, nil
	})
	must(t, err)
	_, err = s.SignUp(ctx, app.Identity{Issuer: "x", Subject: "1"}, func(app.MB) (app.Account, error) {
		return app.Account{Name: "mallory", TotalRAM: 256, Plan: "Free", Locale: app.Locales[0]}, nil
	})
	wantKind(t, "another's identity", err, app.Conflict)
	if _, err := db.Accounts.AccountByName(ctx, "mallory"); app.KindOf(err) != app.NotFound {
		t.Errorf("what failed has left an account: %v", err)
	}
	must(t, db.Accounts.DeleteAccount(ctx, made.ID))
	_, _, _, err = s.UseIdentity(ctx, app.Identity{Issuer: "y", Subject: "1"})
	wantKind(t, "of a deleted account", err, app.NotFound)
}
