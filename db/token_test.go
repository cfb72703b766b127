package db

import (
	"testing"
	"time"

	"berth/app"
)

func TestTokens(t *testing.T) {
	db, clock := openTemp(t)
	ctx := t.Context()
	ana, bob := mustAccount(t, db, "ana", 512), mustAccount(t, db, "bob", 512)
	first, err := db.Accounts.InsertToken(ctx, ana.ID, [32]byte{1}, "laptop", time.Time{})
	must(t, err)
	second, err := db.Accounts.InsertToken(ctx, ana.ID, [32]byte{2}, "", time.Time{})
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

	_, err = db.Accounts.InsertToken(ctx, 99, [32]byte{3}, "", time.Time{})
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
	third, err := db.Accounts.InsertToken(ctx, ana.ID, [32]byte{4}, "", time.Time{})
	must(t, err)
	if third.ID == second.ID {
		t.Errorf("the id %d was used again", third.ID)
	}
}

func TestTokenUseIsNotedOnceAMinute(t *testing.T) {
	db, clock := openTemp(t)
	ctx := t.Context()
	ana := mustAccount(t, db, "ana", 512)
	token, err := db.Accounts.InsertToken(ctx, ana.ID, [32]byte{1}, "", time.Time{})
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
		if _, err := db.Accounts.InsertToken(b.Context(), ana.ID, [32]byte{byte(i)}, "", time.Time{}); err != nil {
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
