package host

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"berth/app"
)

// suspend suspends the owner's account, or ends that.
func (w *world) suspend(on bool) {
	w.t.Helper()
	w.mu.Lock()
	w.suspended[owner] = app.Suspension{On: on}
	w.mu.Unlock()
	if err := w.host.AccountChanged(context.Background(), owner); err != nil {
		w.t.Fatal(err)
	}
}

const suspendedSaid = "the account that owns this application is suspended, and nothing of it runs; ask the owner of the server"

// resting fails unless nothing of the applications runs, and what is wanted is as it was.
func (w *world) resting(when string, wanted map[app.ID]app.Wanted) {
	w.t.Helper()
	synctest.Wait()
	for id, want := range wanted {
		if s := w.snapshot(id); s.Running || s.State != app.Stopped || !s.Suspended || s.Wanted != want || w.recorded(id).Wanted != want {
			w.t.Errorf("%s, %s is %v, suspended %t, wanted %v (recorded %v)", when, id, s.State, s.Suspended, s.Wanted, w.recorded(id).Wanted)
		}
	}
}

// A suspended account keeps what it wanted, over a restart of the daemon and an upgrade, and
// has it again afterwards.
func TestSuspendedAccount(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		ctx := t.Context()
		online, off := w.mustUpload("MAIN=a,RAM=10"), w.mustUpload("MAIN=a,RAM=10")
		w.set(exits(9, time.Second))
		waits := w.mustUpload("MAIN=b,RAM=10,AUTORESTART=true")
		time.Sleep(10 * time.Second)
		if err := w.host.Stop(ctx, owner, off); err != nil || w.snapshot(waits).State != app.Waiting {
			t.Fatalf("%v, %v", err, w.snapshot(waits).State)
		}
		wanted := map[app.ID]app.Wanted{online: app.WantOnline, off: app.WantStopped, waits: app.WantOnline}
		w.suspend(true)
		w.set(func(app.Program) behaviour { return behaviour{} })
		w.resting("at once", wanted)
		if !w.noted(online, "the account is suspended; the application is stopped until that ends") {
			t.Error("its log does not say why")
		}
		launches := w.launches(online) + w.launches(off) + w.launches(waits)
		for what, do := range map[string]func() error{
			"start":   func() error { _, err := w.host.Start(ctx, owner, online); return err },
			"commit":  func() error { _, err := w.commit(online, "MAIN=b"); return err },
			"console": func() error { _, err := w.host.Console(ctx, owner, online, "ls"); return err },
		} {
			if err := do(); app.KindOf(err) != app.Forbidden || err.Error() != suspendedSaid {
				t.Errorf("%s: %v", what, err)
			}
		}
		wantKind(t, w.host.Restart(ctx, owner, online), app.Already)
		_, err := w.upload("MAIN=a,RAM=10")
		wantSaid(t, err, app.Forbidden, "this account is suspended; ask the owner of the server")
		w.suspend(true) // again
		time.Sleep(time.Hour)
		w.resting("after an hour", wanted)
		w.succeed(true)
		time.Sleep(time.Hour)
		w.resting("after a restart of the daemon", wanted)
		w.host.Shutdown(context.Background())
		w.succeed(false)
		time.Sleep(time.Hour)
		w.resting("after a restart of the host", wanted)
		if n := w.launches(online) + w.launches(off) + w.launches(waits); n != launches {
			t.Errorf("%d programs were started meanwhile", n-launches)
		}

		w.suspend(false)
		time.Sleep(10 * time.Second)
		for id, want := range wanted {
			if s := w.snapshot(id); s.Running != (want == app.WantOnline) || s.Suspended {
				t.Errorf("afterwards %s is %v", id, s.State)
			}
		}
	})
}

// A daemon that died before it had stopped everything leaves it to the next.
func TestSuspendedProgramsAreNotAdopted(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		id := w.mustUpload("MAIN=a")
		w.suspended[owner] = app.Suspension{On: true}
		w.succeed(true)
		time.Sleep(time.Minute)
		w.resting("after the restart", map[app.ID]app.Wanted{id: app.WantOnline})
		w.suspend(false)
		time.Sleep(10 * time.Second)
		if !w.snapshot(id).Running {
			t.Error("it did not come back")
		}
	})
}

// What is under way ends: builds, commits in every phase, sessions.
func TestSuspensionCallsOff(t *testing.T) {
	for after := range 12 { // seconds: before, in and behind the build, and the start of the new code
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
			w.suspend(true)
			if err := <-first; err == nil || len(w.apps) != 1 {
				t.Errorf("after %d s: an upload ended with %v, and there are %d applications", after, err, len(w.apps))
			}
			<-done // whichever code is there
			w.resting("afterwards", map[app.ID]app.Wanted{id: app.WantOnline})
			w.suspend(false)
			time.Sleep(10 * time.Second)
			if !w.snapshot(id).Running {
				t.Errorf("after %d s: it did not come back: %v", after, w.notes[id])
			}
		})
	}
}

// A site that is replaced without a pause rests too, whole.
func TestSuspensionDuringAnOverlap(t *testing.T) {
	for after := range 8 {
		visited(t, func(t *testing.T, w *world) {
			id := w.shop("")
			done := w.committing(id, "TYPE=site,ID=shop,MAIN=b")
			time.Sleep(time.Duration(after) * 500 * time.Millisecond)
			w.suspend(true)
			<-done
			w.resting("afterwards", map[app.ID]app.Wanted{id: app.WantOnline})
			if n := len(w.running(id)); n > 0 {
				t.Errorf("%d programs run", n)
			}
			w.suspend(false)
			time.Sleep(10 * time.Second)
			if !w.snapshot(id).Running {
				t.Errorf("it did not come back: %v", w.notes[id])
			}
		})
	}
}

// What ended by itself a moment before is not wanted any more, and a change of limits starts
// nothing.
func TestSuspensionForgetsNoEnd(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		w.set(exits(0, 10*time.Second))
		id := w.mustUpload("MAIN=a")
		time.Sleep(10 * time.Second)
		if err := w.host.AccountChanged(t.Context(), owner); err != nil {
			t.Fatal(err)
		}
		w.suspend(true)
		w.suspend(false)
		time.Sleep(time.Minute)
		if s := w.snapshot(id); s.Running || s.Wanted != app.WantStopped || w.launches(id) != 1 {
			t.Errorf("it is %v, wanted %v", s.State, s.Wanted)
		}
	})
}

// Another account's applications go on.
func TestSuspensionIsOfOneAccount(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		id := w.mustUpload("MAIN=a")
		w.suspended[owner+1] = app.Suspension{On: true}
		if err := w.host.AccountChanged(t.Context(), owner+1); err != nil {
			t.Fatal(err)
		}
		if s := w.snapshot(id); !s.Running || s.Suspended {
			t.Errorf("it is %v", s.State)
		}
		wantKind(t, <-w.uploading(owner+1, "MAIN=a"), app.Forbidden)
	})
}

// A program that heeds nothing is ended by force, and the suspension waits for it.
func TestSuspensionWaitsForPrograms(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		w.set(func(app.Program) behaviour { return behaviour{onStop: time.Hour} })
		id := w.mustUpload("MAIN=a")
		began := time.Now()
		w.suspend(true)
		if took := time.Since(began); took != w.host.StopGrace {
			t.Errorf("it took %s", took)
		}
		w.resting("then", map[app.ID]app.Wanted{id: app.WantOnline})
		w.fail["Account"] = app.Errorf(app.Internal, "no disk")
		wantKind(t, w.host.AccountChanged(t.Context(), owner), app.Internal)
		delete(w.fail, "Account")
	})
}
