package httpapi

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"berth/app"
)

func snapshots(ids ...app.ID) []app.Snapshot {
	var list []app.Snapshot
	for _, id := range ids {
		list = append(list, bot(id))
	}
	return list
}

func TestEachKeepsTheOrderAndLeavesOutTheDeleted(t *testing.T) {
	results := each(t.Context(), snapshots("aa", "bb", "cc"), 2, func(s app.Snapshot) (string, error) {
		if s.ID == "bb" {
			return "", app.Errorf(app.NotFound, "gone")
		}
		return "value of " + string(s.ID), nil
	})
	if len(results) != 2 || results[0].value != "value of aa" || results[1].value != "value of cc" {
		t.Errorf("got %+v", results)
	}
}

func TestEachTurnsAPanicIntoAnError(t *testing.T) {
	results := each(t.Context(), snapshots("aa", "bb"), 8, func(s app.Snapshot) (int, error) {
		if s.ID == "aa" {
			panic("boom")
		}
		return 1, nil
	})
	if len(results) != 2 || results[0].of.ID != "aa" || results[0].err == nil || results[1].err != nil {
		t.Errorf("got %+v", results)
	}
	if kind := app.KindOf(results[0].err); kind != app.Internal {
		t.Errorf("kind %v, want Internal", kind)
	}
}

func TestEachStopsWhenTheContextEnds(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	calls := 0
	results := each(ctx, snapshots("aa", "bb", "cc"), 1, func(app.Snapshot) (int, error) {
		calls++
		cancel()
		return 0, nil
	})
	if calls != 1 || !errors.Is(results[2].err, context.Canceled) {
		t.Errorf("%d calls, last error %v", calls, results[2].err)
	}
}

func TestEachOfNothing(t *testing.T) {
	if got := each(t.Context(), nil, 8, func(app.Snapshot) (int, error) { return 0, nil }); len(got) != 0 {
		t.Errorf("got %v", got)
	}
}

// What takes its time is done side by side, as wide as it may be.
func TestEachWorksSideBySide(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const width = 4
		var busy, most atomic.Int64
		begin := time.Now()
		each(t.Context(), snapshots("aa", "bb", "cc", "dd", "ee", "ff", "gg", "hh"), width, func(app.Snapshot) (int, error) {
			n := busy.Add(1)
			for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
			}
			time.Sleep(time.Second)
			busy.Add(-1)
			return 0, nil
		})
		if took := time.Since(begin); most.Load() != width || took > 2*time.Second {
			t.Errorf("%d at once, in %s", most.Load(), took)
		}
	})
}
