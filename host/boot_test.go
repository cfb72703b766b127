package host

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"berth/app"
)

func TestBoot(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		w.total = 10000
		on, off, big := w.mustUpload("MAIN=a"), w.mustUpload("MAIN=b"), w.mustUpload("MAIN=c,RAM=1500")
		if err := w.host.Stop(t.Context(), owner, off); err != nil {
			t.Fatal(err)
		}
		w.set(exits(9, time.Second))
		crashed := w.mustUpload("MAIN=d")
		w.host.Shutdown(context.Background())
		if w.recorded(on).Wanted != app.WantOnline || w.recorded(on).LastExit != nil {
			t.Errorf("after the shutdown the record is %+v", w.apps[on])
		}
		_, err := w.upload("MAIN=x")
		wantKind(t, err, app.Unavailable)
		_, err = w.host.Start(t.Context(), owner, on)
		wantKind(t, err, app.Unavailable)

		w.set(func(app.Program) behaviour { return behaviour{} })
		w.host = w.open()
		w.host.capacity.total = 1550 // the host has shrunk: one of two fits
		if err := w.host.Boot(t.Context()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(3 * time.Second)
		a, c := w.snapshot(on), w.snapshot(big)
		if a.Running == c.Running {
			t.Errorf("with room for one: %+v and %+v", a, c)
		}
		late := on
		if a.Running {
			late = big
		}
		if s := w.snapshot(late); s.State != app.Waiting || !w.noted(late, "do not fit") {
			t.Errorf("the other: %+v, %q", s, w.notes[late])
		}
		w.host.capacity.mu.Lock()
		w.host.capacity.total = 2000
		w.host.capacity.mu.Unlock()
		time.Sleep(6 * time.Minute)
		if !w.snapshot(late).Running {
			t.Error("it was not tried again")
		}
		if s := w.snapshot(off); s.Running || s.ExitCode() != 143 {
			t.Errorf("what was stopped: %+v", s)
		}
		if s := w.snapshot(crashed); s.Running || s.ExitCode() != 9 {
			t.Errorf("what had crashed: %+v", s)
		}
		if id := w.mustUpload("MAIN=e"); id <= crashed {
			t.Errorf("the new id %s is not above %s", id, crashed)
		}
	})
}

func TestBootErrors(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		w.breaks("Apps", errTest)
		if err := w.host.Boot(t.Context()); err == nil {
			t.Error("Boot did not tell that the records cannot be read")
		}
	})
}

func TestShutdownThatIsHurriedKills(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		w.set(func(app.Program) behaviour { return behaviour{onStop: time.Hour} })
		w.host.StopGrace = 2 * time.Hour
		w.mustUpload("MAIN=a")
		begin := time.Now()
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		w.host.Shutdown(ctx)
		if took := time.Since(begin); took != time.Second {
			t.Errorf("it took %s, want a second", took)
		}
	})
}

func TestShutdownDuringABuildAndATrial(t *testing.T) {
	for _, file := range []string{"MAIN=b,BUILD=make", "MAIN=b"} {
		play(t, func(t *testing.T, w *world) {
			id := w.mustUpload("MAIN=a")
			result := make(chan error)
			go func() { _, err := w.commit(id, file); result <- err }()
			synctest.Wait()
			go w.host.Shutdown(context.Background())
			err := <-result
			if err != nil && app.KindOf(err) != app.Unavailable {
				t.Errorf("the commit ended with %v", err)
			}
			w.host.work.Wait()
			if want := map[bool]string{true: "b", false: "a"}[err == nil]; w.trees[id] != want || w.recorded(id).Code.Main != want || w.recorded(id).Wanted != app.WantOnline {
				t.Errorf("err %v: tree %q, record %+v", err, w.trees[id], w.apps[id])
			}
		})
	}
}
