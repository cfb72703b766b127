package db

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"berth/app"
)

// is matches every code, as one of a step.
func is(step int64) func([]byte) int64 { return func([]byte) int64 { return step } }

func TestTOTPCodesCountOnce(t *testing.T) {
	db, _ := openTemp(t)
	ctx, s := t.Context(), db.SignIns
	ana, bob := mustAccount(t, db, "ana", 512), mustAccount(t, db, "bob", 512)
	wantKind(t, "a code without an app", s.UseTOTP(ctx, ana.ID, is(9)), app.NotFound)
	wantKind(t, "the first code without an app", s.ConfirmTOTP(ctx, ana.ID, is(9), nil), app.NotFound)
	must(t, s.OfferTOTP(ctx, ana.ID, []byte("first")))
	must(t, s.OfferTOTP(ctx, ana.ID, []byte("seed")))
	if seed, err := s.OfferedTOTP(ctx, ana.ID); string(seed) != "seed" || err != nil {
		t.Errorf("what was offered: %q, %v", seed, err)
	}
	if f, err := s.Factors(ctx, ana.ID); f.Any() || err != nil {
		t.Errorf("before the first code: %+v, %v", f, err)
	}
	wantKind(t, "an app that is not confirmed", s.UseTOTP(ctx, ana.ID, is(9)), app.NotFound)
	wantKind(t, "codes without a factor", s.SetRecovery(ctx, ana.ID, [][32]byte{{1}}), app.Conflict)
	wantKind(t, "a wrong first code", s.ConfirmTOTP(ctx, ana.ID, is(0), [][32]byte{{1}}), app.Unauthorized)
	must(t, s.ConfirmTOTP(ctx, ana.ID, func(seed []byte) int64 { return int64(len(seed)) }, [][32]byte{{1}, {2}}))
	if f, err := s.Factors(ctx, ana.ID); f != (app.Factors{TOTP: true, Recovery: 2}) || err != nil {
		t.Errorf("got %+v, %v", f, err)
	}
	wantKind(t, "a second app", s.OfferTOTP(ctx, ana.ID, []byte("other")), app.Conflict)
	_, err := s.OfferedTOTP(ctx, ana.ID)
	wantKind(t, "the seed of an app that is on", err, app.NotFound)
	wantKind(t, "the code that turned it on", s.UseTOTP(ctx, ana.ID, is(4)), app.Unauthorized)
	must(t, s.UseTOTP(ctx, ana.ID, is(6)))
	for _, step := range []int64{0, 5, 6} {
		wantKind(t, "a wrong, an earlier or the same code", s.UseTOTP(ctx, ana.ID, is(step)), app.Unauthorized)
	}
	wantKind(t, "another account's", s.UseTOTP(ctx, bob.ID, is(7)), app.NotFound)
	must(t, s.RemoveTOTP(ctx, ana.ID))
	wantKind(t, "a second time", s.RemoveTOTP(ctx, ana.ID), app.NotFound)
	if f, err := s.Factors(ctx, ana.ID); f != (app.Factors{}) || err != nil {
		t.Errorf("recovery codes outlive the last factor: %+v, %v", f, err)
	}
}

// Of many who use one code at once, one wins.
func TestCodesAtOnce(t *testing.T) {
	db, _ := openTemp(t)
	ctx, s := t.Context(), db.SignIns
	ana := mustAccount(t, db, "ana", 512)
	must(t, s.OfferTOTP(ctx, ana.ID, []byte("seed")))
	must(t, s.ConfirmTOTP(ctx, ana.ID, is(1), [][32]byte{{1}, {2}}))
	for what, use := range map[string]func(context.Context) error{
		"a code of the app": func(ctx context.Context) error { return s.UseTOTP(ctx, ana.ID, is(2)) },
		"a recovery code":   func(ctx context.Context) error { return s.UseRecovery(ctx, ana.ID, [32]byte{1}) },
	} {
		var won atomic.Int32
		var all sync.WaitGroup
		for range 8 {
			all.Go(func() {
				err := use(ctx)
				if err == nil {
					won.Add(1)
				} else {
					wantKind(t, what, err, app.Unauthorized)
				}
			})
		}
		all.Wait()
		if won.Load() != 1 {
			t.Errorf("%s counted %d times", what, won.Load())
		}
	}
	if f, err := s.Factors(ctx, ana.ID); f.Recovery != 1 || err != nil {
		t.Errorf("got %+v, %v", f, err)
	}
	must(t, s.SetRecovery(ctx, ana.ID, [][32]byte{{3}}))
	wantKind(t, "a replaced code", s.UseRecovery(ctx, ana.ID, [32]byte{2}), app.Unauthorized)
}

func TestFactorsAreDemandedAndReset(t *testing.T) {
	db, _ := openTemp(t)
	ctx, s := t.Context(), db.SignIns
	ana, bob := mustAccount(t, db, "ana", 512), mustAccount(t, db, "bob", 512)
	must(t, s.OfferTOTP(ctx, ana.ID, []byte("seed")))
	must(t, s.ConfirmTOTP(ctx, ana.ID, is(1), [][32]byte{{1}}))
	for i, account := range []app.AccountID{ana.ID, bob.ID} {
		_, err := s.InsertSession(ctx, app.Session{Account: account}, [32]byte{byte(i)}, time.Time{}, 9)
		must(t, err)
	}
	bare := func() (of [2]bool) {
		for i := range of {
			_, session, err := s.AccountBySession(ctx, [32]byte{byte(i)}, "", time.Time{})
			must(t, err)
			of[i] = session.Bare
		}
		return of
	}
	if bare() != [2]bool{} {
		t.Error("nobody demands a factor")
	}
	must(t, s.RequireFactor(ctx, true))
	must(t, s.RequireFactor(ctx, true))
	if on, err := s.FactorRequired(ctx); !on || err != nil || bare() != [2]bool{false, true} {
		t.Errorf("demanded: %v, %v, %v", on, err, bare())
	}
	must(t, s.RequireFactor(ctx, false))
	must(t, s.RequireFactor(ctx, false))
	if on, err := s.FactorRequired(ctx); on || err != nil || bare() != [2]bool{} {
		t.Errorf("no more demanded: %v, %v, %v", on, err, bare())
	}
	wantKind(t, "nobody's", s.Reset(ctx, 99), app.NotFound)
	must(t, s.SetPassword(ctx, ana.ID, "hash", 1))
	must(t, s.LinkIdentity(ctx, app.Identity{Account: ana.ID, Issuer: "https://id.example.org", Subject: "1"}))
	must(t, s.Reset(ctx, ana.ID))
	_, _, _, err := s.UseIdentity(ctx, app.Identity{Issuer: "https://id.example.org", Subject: "1"})
	wantKind(t, "an identity of before", err, app.NotFound)
	if _, hash, err := s.PasswordByName(ctx, "ana"); hash != "" || err != nil {
		t.Errorf("the password is left: %v", err)
	}
	if f, err := s.Factors(ctx, ana.ID); f != (app.Factors{}) || err != nil {
		t.Errorf("after the reset: %+v, %v", f, err)
	}
	_, _, err = s.AccountBySession(ctx, [32]byte{0}, "", time.Time{})
	wantKind(t, "a session of before", err, app.NotFound)
	_, _, err = s.AccountBySession(ctx, [32]byte{1}, "", time.Time{})
	must(t, err)
}

func TestProvedSessionsHaveANewKey(t *testing.T) {
	db, clock := openTemp(t)
	ctx, s := t.Context(), db.SignIns
	ana, bob := mustAccount(t, db, "ana", 512), mustAccount(t, db, "bob", 512)
	made, err := s.InsertSession(ctx, app.Session{Account: ana.ID, ProvedFrom: "192.0.2.7"}, [32]byte{1}, time.Time{}, 9)
	must(t, err)
	clock.advance(time.Hour)
	wantKind(t, "another's", s.ProveSession(ctx, bob.ID, made.ID, [32]byte{2}, "192.0.2.8"), app.NotFound)
	must(t, s.ProveSession(ctx, ana.ID, made.ID, [32]byte{2}, "192.0.2.8"))
	_, _, err = s.AccountBySession(ctx, [32]byte{1}, "", time.Time{})
	wantKind(t, "the cookie of before", err, app.NotFound)
	_, session, err := s.AccountBySession(ctx, [32]byte{2}, "", time.Time{})
	if err != nil || session.ID != made.ID || !session.ProvedAt.Equal(made.ProvedAt.Add(time.Hour)) || session.ProvedFrom != "192.0.2.8" {
		t.Errorf("got %+v, %v", session, err)
	}
}

// The first sign-in of an account is no news; each later one in an unknown browser is, to
// every session but its own, until it is dismissed.
func TestNewSignIns(t *testing.T) {
	db, _ := openTemp(t)
	ctx, s := t.Context(), db.SignIns
	ana, bob := mustAccount(t, db, "ana", 512), mustAccount(t, db, "bob", 512)
	key := byte(0)
	signIn := func(of app.Account, isNew bool) int64 {
		t.Helper()
		key++
		made, err := s.InsertSession(ctx, app.Session{Account: of.ID, Agent: "Firefox", Address: "192.0.2.7", New: isNew}, [32]byte{key}, time.Time{}, 99)
		must(t, err)
		return made.ID
	}
	news := func(of app.Account, session int64) []app.NewSignIn {
		t.Helper()
		all, err := s.NewSignIns(ctx, of.ID, session)
		must(t, err)
		return all
	}
	first := signIn(ana, true)
	signIn(ana, false)
	if all := news(ana, 0); len(all) != 0 {
		t.Errorf("news of the first sign-in or of a known browser: %+v", all)
	}
	thief := signIn(ana, true)
	all := news(ana, first)
	if len(all) != 1 || all[0].Session != thief || all[0].Agent != "Firefox" || all[0].Address != "192.0.2.7" {
		t.Fatalf("got %+v", all)
	}
	if len(news(ana, thief)) != 0 || len(news(bob, 0)) != 0 {
		t.Error("the session itself, or another account, sees it")
	}
	wantKind(t, "dismissed by itself", s.DismissSignIn(ctx, ana.ID, all[0].ID, thief), app.NotFound)
	wantKind(t, "dismissed by another", s.DismissSignIn(ctx, bob.ID, all[0].ID, 0), app.NotFound)
	must(t, s.DeleteOtherSessions(ctx, ana.ID, first))
	if len(news(ana, first)) != 1 {
		t.Error("the end of the session has hidden it")
	}
	must(t, s.DismissSignIn(ctx, ana.ID, all[0].ID, first))
	if len(news(ana, first)) != 0 {
		t.Error("it is still shown")
	}
	for range keptNotices + 5 {
		signIn(ana, true)
	}
	if n := len(news(ana, first)); n != keptNotices {
		t.Errorf("%d are kept", n)
	}
}
