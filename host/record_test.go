package host

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"berth/app"
)

// While the disk does not answer, changes are refused within patience, in any
// number, and done in order when it does; a stop ends its program all the same.
func TestDiskThatDoesNotAnswer(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		ctx := t.Context()
		id, other := w.mustUpload("MAIN=a"), w.mustUpload("MAIN=b")
		thaw := make(chan struct{})
		w.when("SetProfile", func() { <-thaw })
		w.when("SetWanted", func() { <-thaw })
		named := func(name string) error { return w.host.SetProfile(ctx, owner, id, app.Profile{Name: &name}) }

		began := time.Now()
		err := named("one")
		wantKind(t, err, app.Unavailable)
		if took := time.Since(began); took != patience || !strings.Contains(err.Error(), "cannot store the profile: "+app.DiskSilent) {
			t.Errorf("%v, after %s", err, took)
		}
		began = time.Now()
		wantKind(t, named("two"), app.Unavailable)
		wantKind(t, w.host.SetRAM(ctx, owner, id, 64), app.Unavailable)
		if took := time.Since(began); took != 0 {
			t.Errorf("what waits behind another took %s", took)
		}
		wantKind(t, w.host.Stop(ctx, owner, other), app.Unavailable)
		if s := w.snapshot(other); s.State != app.Stopped || s.Running {
			t.Errorf("it was stopped and is %+v", s)
		}
		if s := w.snapshot(id); !s.Running || s.Name == "one" || s.RAM == 64 {
			t.Errorf("nothing was stored, and it is %+v", s)
		}
		if n := w.host.Tally().Behind; n != 2 {
			t.Errorf("%d applications wait for the disk", n)
		}

		close(thaw)
		synctest.Wait()
		if s := w.snapshot(id); s.Name != "two" || s.RAM != 64 || !s.Running || w.launches(id) != 1 {
			t.Errorf("it is %+v", s)
		}
		if rec := w.recorded(id); rec.Name != "two" || rec.RAM != 64 {
			t.Errorf("recorded is %+v", rec)
		}
		if rec := w.recorded(other); rec.Wanted != app.WantStopped || rec.LastExit == nil {
			t.Errorf("recorded of the other is %+v", rec)
		}
		if n := w.host.Tally().Behind; n != 0 {
			t.Errorf("%d applications wait for a disk that answers", n)
		}
		if err := named("three"); err != nil || w.snapshot(id).Name != "three" {
			t.Errorf("afterwards: %v", err)
		}
	})
}

// A program that crashed is prepared while its exit is written, and begins after that; it
// does not wait for a disk that does not answer longer than anybody.
func TestRestartBesideTheRecord(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		w.set(exits(3, time.Minute))
		id := w.mustUpload("MAIN=a,AUTORESTART=true")
		thaw, prepared := make(chan struct{}), false
		w.when("RunEnded", func() { <-thaw })
		w.when("Launch", func() { prepared = true })
		time.Sleep(time.Minute)
		synctest.Wait()
		if !prepared || w.launches(id) != 1 || w.recorded(id).LastExit != nil || w.snapshot(id).LastExit != nil {
			t.Errorf("prepared: %t, %d launches, recorded %+v, shown %+v", prepared, w.launches(id), w.recorded(id), w.snapshot(id))
		}
		close(thaw)
		synctest.Wait()
		if w.launches(id) != 2 || w.recorded(id).LastExit == nil || w.snapshot(id).LastExit == nil {
			t.Errorf("once it is written: %d launches, recorded %+v", w.launches(id), w.recorded(id))
		}

		thaw = make(chan struct{})
		w.when("RunEnded", func() { <-thaw })
		began := time.Now()
		for w.launches(id) < 3 {
			time.Sleep(time.Second)
		}
		if took := time.Since(began); took < time.Minute+patience || took > time.Minute+patience+2*time.Second {
			t.Errorf("it began again after %s", took)
		}
		close(thaw)
	})
}

// Every program that runs gets its limit again.
func TestBound(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		id := w.mustUpload("MAIN=a")
		stopped := w.mustUpload("MAIN=b")
		if err := w.host.Stop(t.Context(), owner, stopped); err != nil {
			t.Fatal(err)
		}
		run, is := w.host.units[id].view.Load().run.Instance.(*instance)
		if !is {
			t.Fatal("it does not run")
		}
		run.ram.Store(0)
		w.host.Bound(t.Context())
		if now := app.MB(run.ram.Load()); now != w.snapshot(id).RAM {
			t.Errorf("its limit is %d MB", now)
		}
	})
}
