package host

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"berth/app"
)

// What runs goes on, and what is wanted stays; who waited for a deployment is
// told.
func TestLeave(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		id := w.mustUpload("MAIN=a")
		result := make(chan error)
		go func() { _, err := w.commit(id, "MAIN=b,BUILD=make"); result <- err }()
		synctest.Wait()
		w.host.RefuseUploads(true)
		if _, err := w.host.Spool(t.Context(), nil); app.KindOf(err) != app.Unavailable {
			t.Errorf("an upload that begins: %v", err)
		}
		w.host.RefuseUploads(false)
		go w.host.Leave()
		wantKind(t, <-result, app.Unavailable)
		w.host.work.Wait()
		w.host.waits.Wait()
		if r := w.runs[0]; r.ended() || w.trees[id] != "a" {
			t.Errorf("the program ended: %t, tree %q", r.ended(), w.trees[id])
		}
		if a := w.recorded(id); a.Wanted != app.WantOnline || a.LastExit != nil {
			t.Errorf("the record is %+v", a)
		}
		_, err := w.host.Start(t.Context(), owner, id)
		wantKind(t, err, app.Unavailable)
		w.runs[0].Stop(0)
		<-w.runs[0].done
		w.host.capacity.release(id)
	})
}

// A program that ended while it was left is told of as ever.
func TestLeaveOfOneThatEnds(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		w.set(exits(9, time.Minute))
		id := w.mustUpload("MAIN=a")
		time.Sleep(time.Minute - time.Second)
		r := w.runs[0]
		w.host.Launch = nil
		<-r.done // its end is on its way to the unit, or there
		w.host.Leave()
		if a := w.recorded(id); a.LastExit == nil || a.LastExit.Code != 9 || a.Wanted != app.WantStopped {
			t.Errorf("the record is %+v, %+v", a, a.LastExit)
		}
	})
}

// A stop under way is waited for.
func TestLeaveWaitsForAStop(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		w.set(func(app.Program) behaviour { return behaviour{onStop: 5 * time.Second} })
		id := w.mustUpload("MAIN=a")
		go func() { _ = w.host.Stop(context.Background(), owner, id) }()
		synctest.Wait()
		w.host.Leave()
		if a := w.recorded(id); !w.runs[0].ended() || a.LastExit == nil || !a.LastExit.Asked {
			t.Errorf("ended %t, %+v", w.runs[0].ended(), a)
		}
	})
}
