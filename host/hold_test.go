package host

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"berth/app"
)

// stored holds the programs in the records alone, or with the zero value ends that.
func (w *world) stored(hold app.Hold) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.onHold = hold
}

// holds holds the programs, or with the zero value ends that.
func (w *world) holds(hold app.Hold) {
	w.t.Helper()
	w.stored(hold)
	if err := w.host.HoldChanged(context.Background()); err != nil {
		w.t.Fatal(err)
	}
}

// idle fails unless nothing of the applications runs, and what is wanted is as it was.
func (w *world) idle(when string, wanted map[app.ID]app.Wanted) {
	w.t.Helper()
	synctest.Wait()
	for id, want := range wanted {
		if s := w.snapshot(id); s.Running || s.State != app.Stopped || s.Wanted != want || w.recorded(id).Wanted != want {
			w.t.Errorf("%s, %s is %v, wanted %v (recorded %v)", when, id, s.State, s.Wanted, w.recorded(id).Wanted)
		}
	}
}

var (
	restored = app.Hold{Why: app.HoldRestored, Peer: "old.example"}
	moved    = app.Hold{Why: app.HoldMoved, Peer: "new.example", At: time.Date(2026, 11, 26, 8, 0, 0, 0, time.UTC)}
)

func TestHoldText(t *testing.T) {
	for hold, want := range map[app.Hold]string{
		restored: "this host was restored from a backup of old.example and holds its programs: once those of old.example are stopped, run berth resume as its administrator",
		moved:    "the programs of this host moved to new.example on 2026-11-26: berth resume --force starts them here again, also if they run there",
		{}:       "",
	} {
		err := hold.Refusal()
		if got := hold.Text().String(); got != want || (err == nil) != (want == "") || err != nil && (err.Error() != want || app.KindOf(err) != app.Conflict) {
			t.Errorf("%v: %q, %v", hold, got, err)
		}
	}
}

// A host that boots with a hold starts nothing, refuses every start and deployment, and when
// the hold ends starts all that was wanted.
func TestHeldBoot(t *testing.T) {
	for _, hold := range []app.Hold{restored, moved} {
		play(t, func(t *testing.T, w *world) {
			ctx := t.Context()
			w.total = 10000
			wanted := map[app.ID]app.Wanted{}
			for range 10 {
				wanted[w.mustUpload("MAIN=a,RAM=10")] = app.WantOnline
			}
			one, off, gone := w.mustUpload("MAIN=a,RAM=10"), w.mustUpload("MAIN=a,RAM=10"), w.mustUpload("MAIN=a,RAM=10")
			if err := w.host.Stop(ctx, owner, off); err != nil {
				t.Fatal(err)
			}
			wanted[one], wanted[off] = app.WantOnline, app.WantStopped
			w.host.Shutdown(ctx)
			w.stored(hold)
			launches := len(w.runs)
			w.succeed(false)
			time.Sleep(time.Hour)
			w.idle("after the boot", wanted)

			said := hold.Text().String()
			for what, do := range map[string]func() error{
				"start":    func() error { _, err := w.host.Start(ctx, owner, one); return err },
				"restart":  func() error { return w.host.Restart(ctx, owner, one) },
				"commit":   func() error { _, err := w.commit(one, "MAIN=b"); return err },
				"upload":   func() error { _, err := w.upload("MAIN=a,RAM=10"); return err },
				"spool":    func() error { _, err := w.host.Spool(ctx, strings.NewReader("")); return err },
				"rollback": func() error { _, err := w.host.Rollback(ctx, owner, one, 0); return err },
				"console":  func() error { _, err := w.host.Console(ctx, owner, one, "ls"); return err },
			} {
				wantSaid(t, do(), app.Conflict, said)
				if t.Failed() {
					t.Fatal(what)
				}
			}
			// What starts nothing goes on.
			wantKind(t, w.host.Stop(ctx, owner, off), app.Already)
			if err := w.host.Delete(ctx, owner, gone); err != nil {
				t.Error(err)
			}
			if err := w.host.Stop(ctx, owner, one); app.KindOf(err) != app.Already || w.recorded(one).Wanted != app.WantStopped {
				t.Errorf("a stop: %v, and wanted is %v", err, w.recorded(one).Wanted)
			}
			wanted[one] = app.WantStopped
			w.suspend(true)
			w.suspend(false) // which must not start anything either
			time.Sleep(time.Hour)
			w.idle("with the hold", wanted)
			if n := len(w.runs) - launches; n != 0 {
				t.Errorf("%d programs were started", n)
			}

			most := w.slowly(time.Second)
			w.holds(app.Hold{})
			time.Sleep(time.Minute)
			for id, want := range wanted {
				if s := w.snapshot(id); s.Running != (want == app.WantOnline) {
					t.Errorf("afterwards %s is %v", id, s.State)
				}
			}
			if most() > startsAtOnce {
				t.Errorf("%d were started at once", most())
			}
			if _, err := w.upload("MAIN=a,RAM=10"); err != nil {
				t.Error(err)
			}
		})
	}
}

// A hold that is set while programs run ends all of them, those that wait for their next
// start too, and stays over restarts of the daemon.
func TestHoldStopsWhatRuns(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		online := w.mustUpload("MAIN=a,RAM=10")
		w.set(exits(9, time.Second))
		waits := w.mustUpload("MAIN=b,RAM=10,AUTORESTART=true")
		time.Sleep(10 * time.Second)
		if s := w.snapshot(waits).State; s != app.Waiting {
			t.Fatal(s)
		}
		wanted := map[app.ID]app.Wanted{online: app.WantOnline, waits: app.WantOnline}
		w.holds(moved)
		w.set(func(app.Program) behaviour { return behaviour{} })
		w.idle("at once", wanted)
		if !w.noted(online, "the programs of this host are held; the application is stopped until that ends") {
			t.Error("its log does not say why")
		}
		launches := len(w.runs)
		w.holds(moved) // again
		time.Sleep(time.Hour)
		w.idle("after the time of the restart", wanted)
		w.succeed(true)
		time.Sleep(time.Hour)
		w.idle("after a restart of the daemon", wanted)
		if n := len(w.runs) - launches; n != 0 {
			t.Errorf("%d programs were started", n)
		}
		w.holds(app.Hold{})
		time.Sleep(time.Minute)
		if !w.snapshot(online).Running || !w.snapshot(waits).Running {
			t.Error("they did not come back")
		}
	})
}

// A daemon that died between the hold and the ends of its programs leaves these to the next.
func TestHeldProgramsAreNotAdopted(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		id := w.mustUpload("MAIN=a")
		w.stored(moved)
		w.succeed(true)
		time.Sleep(time.Minute)
		w.idle("after the restart", map[app.ID]app.Wanted{id: app.WantOnline})
		w.holds(app.Hold{})
		time.Sleep(time.Minute)
		if !w.snapshot(id).Running {
			t.Error("it did not come back")
		}
	})
}

// What is under way when a hold is set ends: builds, commits in every phase, first deployments.
func TestHoldCallsOff(t *testing.T) {
	for after := range 12 {
		play(t, func(t *testing.T, w *world) {
			w.behave = func(p app.Program) behaviour {
				if p.Build {
					return behaviour{exit: &app.Exit{}, life: 5 * time.Second}
				}
				return behaviour{onStop: time.Second}
			}
			id := w.mustUpload("MAIN=a")
			done := w.committing(id, "MAIN=b,BUILD=make")
			time.Sleep(time.Duration(after) * time.Second)
			first := w.uploading(owner, "MAIN=c,BUILD=make")
			time.Sleep(time.Second)
			w.holds(restored)
			if err := <-first; err == nil || len(w.apps) != 1 {
				t.Errorf("after %d s: an upload ended with %v, and there are %d applications", after, err, len(w.apps))
			}
			<-done // whichever code is there
			w.idle("afterwards", map[app.ID]app.Wanted{id: app.WantOnline})
			w.holds(app.Hold{})
			time.Sleep(10 * time.Second)
			if !w.snapshot(id).Running {
				t.Errorf("after %d s: it did not come back: %v", after, w.notes[id])
			}
		})
	}
}

// A host that cannot read whether it holds its programs starts none.
func TestHoldThatCannotBeRead(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		w.mustUpload("MAIN=a")
		w.breaks("ReadHold", errTest)
		if err := w.host.HoldChanged(t.Context()); err == nil {
			t.Error("no error")
		}
		w.host.Shutdown(t.Context())
		w.host = w.open()
		if err := w.host.Boot(t.Context()); err == nil {
			t.Error("it boots")
		}
	})
}
