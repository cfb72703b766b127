package db

import (
	"testing"
	"time"

	"berth/app"
)

func TestSessions(t *testing.T) {
	db, clock := openTemp(t)
	ctx := t.Context()
	ana, bob := mustAccount(t, db, "ana", 512), mustAccount(t, db, "bob", 512)
	long := clock.now().Add(-time.Hour)
	one, err := db.SignIns.InsertSession(ctx, app.Session{Account: ana.ID, Agent: "Firefox", Address: "192.0.2.7"}, [32]byte{1}, long, 2)
	must(t, err)
	a, got, err := db.SignIns.AccountBySession(ctx, [32]byte{1}, "192.0.2.8", long)
	if err != nil || a != ana || got != one {
		t.Errorf("got %+v, %+v, %v", a, got, err)
	}
	clock.advance(useEvery)
	_, _, err = db.SignIns.AccountBySession(ctx, [32]byte{1}, "192.0.2.8", long)
	must(t, err)
	all, err := db.SignIns.Sessions(ctx, ana.ID, long)
	if err != nil || len(all) != 1 || all[0].Address != "192.0.2.8" || !all[0].LastSeen.Equal(one.LastSeen.Add(useEvery)) {
		t.Errorf("got %+v, %v", all, err)
	}
	for i := byte(2); i < 4; i++ { // more than are kept
		clock.advance(time.Second)
		_, err = db.SignIns.InsertSession(ctx, app.Session{Account: ana.ID}, [32]byte{i}, long, 2)
		must(t, err)
	}
	_, _, err = db.SignIns.AccountBySession(ctx, [32]byte{1}, "", long)
	wantKind(t, "one too many", err, app.NotFound)
	wantKind(t, "another's", db.SignIns.DeleteSession(ctx, bob.ID, 2), app.NotFound)
	must(t, db.SignIns.DeleteSession(ctx, ana.ID, 2))
	_, _, err = db.SignIns.AccountBySession(ctx, [32]byte{2}, "", long)
	wantKind(t, "an ended one", err, app.NotFound)
	clock.advance(2 * time.Hour)
	_, _, err = db.SignIns.AccountBySession(ctx, [32]byte{3}, "", clock.now().Add(-time.Hour))
	wantKind(t, "an old one", err, app.NotFound)
	_, err = db.SignIns.InsertSession(ctx, app.Session{Account: bob.ID}, [32]byte{4}, clock.now().Add(-time.Hour), 2)
	must(t, err)
	if all, err := db.SignIns.Sessions(ctx, ana.ID, time.Time{}); err != nil || len(all) != 0 {
		t.Errorf("old ones are kept: %+v, %v", all, err)
	}
	_, err = db.SignIns.InsertSession(ctx, app.Session{Account: 99}, [32]byte{5}, long, 2)
	wantKind(t, "nobody's", err, app.NotFound)
}

func TestDisablingEndsSessions(t *testing.T) {
	db, _ := openTemp(t)
	ctx := t.Context()
	ana, bob := mustAccount(t, db, "ana", 512), mustAccount(t, db, "bob", 512)
	for i, account := range []app.AccountID{ana.ID, bob.ID} {
		_, err := db.SignIns.InsertSession(ctx, app.Session{Account: account}, [32]byte{byte(i)}, time.Time{}, 9)
		must(t, err)
	}
	for _, disabled := range []bool{false, true, false} {
		_, err := db.Accounts.UpdateAccount(ctx, ana.ID, func(a *app.Account, _ app.MB) error {
			a.Disabled = disabled
			return nil
		})
		must(t, err)
		_, _, err = db.SignIns.AccountBySession(ctx, [32]byte{0}, "", time.Time{})
		if disabled {
			wantKind(t, "a session of a disabled account", err, app.NotFound)
		}
	}
	_, _, err := db.SignIns.AccountBySession(ctx, [32]byte{0}, "", time.Time{})
	wantKind(t, "enabled again", err, app.NotFound)
	_, _, err = db.SignIns.AccountBySession(ctx, [32]byte{1}, "", time.Time{})
	must(t, err)
}

func TestPasswordsEndSessions(t *testing.T) {
	db, clock := openTemp(t)
	ctx := t.Context()
	ana := mustAccount(t, db, "ana", 512)
	if a, hash, err := db.SignIns.PasswordByName(ctx, "ana"); err != nil || a != ana || hash != "" {
		t.Errorf("without one: %+v, %q, %v", a, hash, err)
	}
	_, _, err := db.SignIns.PasswordByName(ctx, "bob")
	wantKind(t, "nobody", err, app.NotFound)
	wantKind(t, "nobody's", db.SignIns.SetPassword(ctx, 99, "x", 0), app.NotFound)
	for i := byte(1); i < 4; i++ {
		_, err := db.SignIns.InsertSession(ctx, app.Session{Account: ana.ID}, [32]byte{i}, time.Time{}, 9)
		must(t, err)
	}
	must(t, db.SignIns.SetPassword(ctx, ana.ID, "one", 2))
	must(t, db.SignIns.SetPassword(ctx, ana.ID, "two", 2))
	if _, hash, err := db.SignIns.PasswordByName(ctx, "ana"); err != nil || hash != "two" {
		t.Errorf("got %q, %v", hash, err)
	}
	if all, err := db.SignIns.Sessions(ctx, ana.ID, time.Time{}); err != nil || len(all) != 1 || all[0].ID != 2 {
		t.Errorf("left are %+v, %v", all, err)
	}
	must(t, db.SignIns.InsertInvitation(ctx, [32]byte{9}, ana.ID, clock.now().Add(time.Minute)))
	must(t, db.SignIns.SetPassword(ctx, ana.ID, "three", 0))
	_, err = db.SignIns.Invitation(ctx, [32]byte{9})
	wantKind(t, "a link from before", err, app.NotFound)
}

func TestInvitations(t *testing.T) {
	db, clock := openTemp(t)
	ctx := t.Context()
	soon := moment(stamp(clock.now().Add(time.Minute)))
	must(t, db.SignIns.InsertInvitation(ctx, [32]byte{1}, 0, soon))
	must(t, db.SignIns.InsertInvitation(ctx, [32]byte{2}, 0, soon))
	_, err := db.SignIns.Invitation(ctx, [32]byte{1})
	wantKind(t, "one before the newest", err, app.NotFound)
	if i, err := db.SignIns.Invitation(ctx, [32]byte{2}); err != nil || i.Account.ID != 0 || !i.Expires.Equal(soon) {
		t.Errorf("got %+v, %v", i, err)
	}
	a, err := db.SignIns.Redeem(ctx, [32]byte{2}, app.Account{Name: "ana", TotalRAM: 512, Plan: "Diamond", Locale: "en-US"}, "hash")
	if err != nil || !a.Admin || a.Name != "ana" {
		t.Errorf("got %+v, %v", a, err)
	}
	_, err = db.SignIns.Redeem(ctx, [32]byte{2}, a, "hash")
	wantKind(t, "a second time", err, app.NotFound)
	wantKind(t, "a first account again", db.SignIns.InsertInvitation(ctx, [32]byte{3}, 0, soon), app.Conflict)
	wantKind(t, "nobody's", db.SignIns.InsertInvitation(ctx, [32]byte{3}, 99, soon), app.NotFound)
	must(t, db.SignIns.InsertInvitation(ctx, [32]byte{4}, a.ID, soon))
	clock.advance(time.Minute)
	_, err = db.SignIns.Redeem(ctx, [32]byte{4}, app.Account{}, "other")
	wantKind(t, "too late", err, app.NotFound)
	if _, hash, err := db.SignIns.PasswordByName(ctx, "ana"); err != nil || hash != "hash" {
		t.Errorf("got %q, %v", hash, err)
	}
}

func TestExpireToken(t *testing.T) {
	db, clock := openTemp(t)
	ctx := t.Context()
	ana := mustAccount(t, db, "ana", 512)
	soon := moment(stamp(clock.now().Add(time.Minute)))
	made, err := db.Accounts.InsertToken(ctx, [32]byte{1}, app.Token{Account: ana.ID})
	must(t, err)
	if !made.Expires.IsZero() || made.Expired(soon) {
		t.Errorf("got %+v", made)
	}
	must(t, db.Accounts.ExpireToken(ctx, ana.ID, made.ID, soon))
	must(t, db.Accounts.ExpireToken(ctx, ana.ID, made.ID, soon.Add(time.Hour)))
	if _, got, err := db.Accounts.AccountByToken(ctx, [32]byte{1}); err != nil || !got.Expires.Equal(soon) || !got.Expired(soon) || got.Expired(soon.Add(-1)) {
		t.Errorf("got %+v, %v", got, err)
	}
	wantKind(t, "another's", db.Accounts.ExpireToken(ctx, 99, made.ID, soon), app.NotFound)
}
