package db

import (
	"testing"
	"time"

	"berth/app"
)

func TestHolds(t *testing.T) {
	db, _ := openTemp(t)
	if h, held, err := db.Holds.HoldOf(t.Context()); err != nil || held || h != (app.Hold{}) {
		t.Errorf("at first %v, %t, %v", h, held, err)
	}
	for _, want := range []app.Hold{
		{Why: app.HoldRestored, Peer: "old", At: time.UnixMilli(1_700_000_000_123)},
		{Why: app.HoldEngine, Peer: "kubernetes", At: time.UnixMilli(1_700_000_000_500)},
		{Why: app.HoldMoved, Peer: "new", At: time.UnixMilli(1_700_000_001_000)},
	} {
		if err := db.Holds.SetHold(t.Context(), want); err != nil {
			t.Fatal(err)
		}
		if h, held, err := db.Holds.HoldOf(t.Context()); err != nil || !held || h.Why != want.Why || h.Peer != want.Peer || !h.At.Equal(want.At) {
			t.Errorf("%v, %t, %v", h, held, err)
		}
	}
	if err := db.Holds.SetHold(t.Context(), app.Hold{Why: "x"}); err == nil {
		t.Error("a hold for no reason was stored")
	}
	if h, _, err := db.Holds.HoldOf(t.Context()); err != nil || h.Peer != "new" {
		t.Errorf("after one that was refused: %v, %v", h, err)
	}
	for range 2 {
		if err := db.Holds.DropHold(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if _, held, err := db.Holds.HoldOf(t.Context()); err != nil || held {
		t.Errorf("in the end %t, %v", held, err)
	}
}
