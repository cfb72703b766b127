package host

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"berth/app"
)

// build gives builds this behaviour; programs run for ever.
func build(b behaviour) func(app.Program) behaviour {
	return func(p app.Program) behaviour {
		if p.Build {
			return b
		}
		return behaviour{}
	}
}

// endless is a build that somebody has to end.
var endless = build(behaviour{})

// only is the one application of the account.
func (w *world) only() app.Snapshot {
	w.t.Helper()
	list := w.host.Apps(owner)
	if len(list) != 1 {
		w.t.Fatalf("the account has %d applications, want one", len(list))
	}
	return list[0]
}

// wantNothing checks that nothing of any application is there.
func (w *world) wantNothing() {
	w.t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.apps)+len(w.trees)+len(w.reserved)+len(w.stages)+len(w.notes)+len(w.host.units) > 0 {
		w.t.Errorf("left: apps %v, trees %v, reserved %v, stages %v, logs %v, units %v",
			w.apps, w.trees, w.reserved, w.stages, w.notes, w.host.units)
	}
	for _, r := range w.runs {
		if !r.ended() {
			w.t.Errorf("%v runs", r.p.Argv)
		}
	}
}

// From the upload on an application is there, and its owner can read it.
func TestFirstDeploymentIsSeen(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		w.set(build(behaviour{exit: &app.Exit{}, life: time.Minute}))
		done := w.uploading(owner, "MAIN=a,BUILD=make,RAM=200")
		s := w.only()
		if s.State != app.Preparing || s.Running || s.Position != 0 || s.RAM != 200 || s.Code.Main != "a" || s.CreatedAt.IsZero() {
			t.Errorf("while it is built: %+v", s)
		}
		if !slices.Contains(w.calls, "DropSpool") {
			t.Error("its ZIP is kept")
		}
		if one, err := w.host.App(owner, s.ID); err != nil || one.State != app.Preparing {
			t.Errorf("App() = %+v, %v", one, err)
		}
		if st, err := w.host.Status(t.Context(), owner, s.ID); err != nil || st.State != app.Preparing || st.DiskBytes == 0 {
			t.Errorf("Status() = %+v, %v", st, err)
		}
		if _, err := w.host.Terminal(owner, s.ID); err != nil {
			t.Errorf("Terminal(): %v", err)
		}
		if _, err := w.host.App(2, s.ID); app.KindOf(err) != app.NotFound {
			t.Errorf("another account gets %v", err)
		}
		if log, err := w.host.OpenLog(s.ID, int64(s.UID)); err != nil || log.Close() != nil {
			t.Errorf("its log cannot be read: %v", err)
		}
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		if now := w.only(); now.ID != s.ID || !now.Running || now.Position != 0 || w.launches(s.ID) != 1 {
			t.Errorf("then %+v after %d launches", now, w.launches(s.ID))
		}
	})
}

// What cannot be done to it yet is refused, and changes nothing.
func TestFirstDeploymentIsBusy(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		w.set(build(behaviour{exit: &app.Exit{}, life: time.Minute}))
		done := w.uploading(owner, "MAIN=a,BUILD=make")
		id, name, ctx := w.only().ID, "new", t.Context()
		for what, do := range map[string]func() error{
			"start":   func() error { _, err := w.host.Start(ctx, owner, id); return err },
			"restart": func() error { return w.host.Restart(ctx, owner, id) },
			"commit":  func() error { _, err := w.commit(id, "MAIN=b"); return err },
			"ram":     func() error { return w.host.SetRAM(ctx, owner, id, 300) },
			"profile": func() error { return w.host.SetProfile(ctx, owner, id, app.Profile{Name: &name}) },
			"backup":  func() error { _, err := w.host.Backup(ctx, owner, id, false); return err },
		} {
			err := do()
			wantKind(t, err, app.Conflict)
			if err == nil || !strings.Contains(err.Error(), "being deployed for the first time") {
				t.Errorf("%s: %v", what, err)
			}
		}
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		if s := w.only(); !s.Running || s.RAM != 100 || s.Name == name || s.Code.Main != "a" || w.backups != 0 {
			t.Errorf("then %+v", s)
		}
	})
}

// Stop and delete of it answer when nothing of it is left, and the next build
// begins.
func TestFirstDeploymentIsCalledOff(t *testing.T) {
	for _, what := range []string{"stop", "delete"} {
		for _, waits := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, waits %t", what, waits), func(t *testing.T) {
				play(t, func(t *testing.T, w *world) {
					w.set(endless)
					other := make(<-chan error)
					if waits {
						other = w.uploading(2, "MAIN=a,BUILD=make")
					}
					done := w.uploading(owner, "MAIN=a,BUILD=make")
					s, begin := w.only(), time.Now()
					if (s.Position == 1) != waits || s.State != app.Preparing {
						t.Errorf("before: %+v", s)
					}
					call := w.host.Stop
					if what == "delete" {
						call = w.host.Delete
					}
					if err := call(t.Context(), owner, s.ID); err != nil || time.Since(begin) > 0 {
						t.Fatalf("%v after %s", err, time.Since(begin))
					}
					if !waits {
						w.wantNothing()
					} else if len(w.trees) != 1 || len(w.reserved) != 1 || len(w.notes) != 0 {
						t.Errorf("left: trees %v, reserved %v, logs %v", w.trees, w.reserved, w.notes)
					}
					wantKind(t, <-done, app.Conflict)
					wantKind(t, call(t.Context(), owner, s.ID), app.NotFound)
					if waits {
						if err := w.host.Stop(t.Context(), 2, w.host.Apps(2)[0].ID); err != nil {
							t.Error(err)
						}
						wantKind(t, <-other, app.Conflict)
					}
					w.wantNothing()
				})
			})
		}
	}
}

// Its last moment: the build is done, and the record is not made yet.
func TestFirstDeploymentIsCalledOffAtTheLastMoment(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		stopped := make(chan error, 1)
		w.when("Mark", func() {
			go func() { stopped <- w.host.Stop(context.Background(), owner, w.only().ID) }()
			time.Sleep(time.Second)
		})
		_, err := w.upload("MAIN=a")
		wantKind(t, err, app.Conflict)
		if err := <-stopped; err != nil || len(w.runs) != 0 {
			t.Errorf("Stop() = %v after %d launches", err, len(w.runs))
		}
		w.wantNothing()
	})
}

// A moment later it exists, and is stopped like any other.
func TestStopWhileTheRecordIsMade(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		stopped := make(chan error, 1)
		w.when("CreateApp", func() {
			go func() { stopped <- w.host.Stop(context.Background(), owner, w.only().ID) }()
			time.Sleep(time.Second)
		})
		d, err := w.upload("MAIN=a")
		if err != nil || d.Running {
			t.Errorf("Upload() = %+v, %v", d, err)
		}
		if err := <-stopped; err != nil {
			t.Fatal(err)
		}
		if s := w.only(); s.State != app.Stopped || w.recorded(s.ID).Wanted != app.WantStopped || w.launches(s.ID) != 1 {
			t.Errorf("then %+v after %d launches", s, w.launches(s.ID))
		}
	})
}

// The name of one that failed is free only when nothing of it is left.
func TestNameOfAFailedDeploymentIsTakenUntilItsFilesAreGone(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		w.set(build(behaviour{exit: &app.Exit{Code: 1}, life: time.Second}))
		done := w.uploading(owner, "MAIN=a,BUILD=make,TYPE=site,ID=shop")
		removing := make(chan struct{})
		w.when("Remove", func() {
			close(removing)
			time.Sleep(time.Minute)
		})
		<-removing
		_, err := w.upload("MAIN=b,TYPE=site,ID=shop")
		wantKind(t, err, app.Conflict)
		wantKind(t, w.host.Delete(t.Context(), owner, "shop"), app.NotFound)
		wantKind(t, <-done, app.Unusable)
		w.wantNothing()
		w.when("Remove", nil)
		w.mustUpload("MAIN=b,TYPE=site,ID=shop")
	})
}

func TestShutdownCallsFirstDeploymentsOff(t *testing.T) {
	for _, hurried := range []bool{false, true} {
		play(t, func(t *testing.T, w *world) {
			w.set(build(behaviour{onStop: time.Second}))
			var done []<-chan error
			for n := range 5 {
				done = append(done, w.uploading(app.AccountID(n%2+1), "MAIN=a,BUILD=make"))
			}
			ctx, cancel := context.WithCancel(context.Background())
			defer cancel()
			if hurried {
				cancel()
			}
			w.host.Shutdown(ctx)
			w.wantNothing()
			for _, d := range done {
				wantKind(t, <-d, app.Unavailable)
			}
		})
	}
}

// A shutdown that comes before the application is seen ends it as well.
func TestShutdownWhileTheTreeIsPublished(t *testing.T) {
	for _, file := range []string{"MAIN=a", "MAIN=a,BUILD=make"} {
		play(t, func(t *testing.T, w *world) {
			down := make(chan struct{})
			w.when("Publish", func() {
				go func() { w.host.Shutdown(context.Background()); close(down) }()
				time.Sleep(time.Second)
			})
			_, err := w.upload(file)
			wantKind(t, err, app.Unavailable)
			<-down
			w.wantNothing()
		})
	}
}

// The oldest application is the one that was uploaded first, however long its
// build took, before a restart of the daemon and after it.
func TestApplicationsKeepTheirOrder(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		w.set(build(behaviour{exit: &app.Exit{}, life: time.Minute}))
		done := w.uploading(owner, "MAIN=slow,BUILD=make")
		seen := w.only()
		time.Sleep(time.Second)
		w.mustUpload("MAIN=quick")
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		check := func(when string) {
			t.Helper()
			list := w.host.Apps(owner)
			if len(list) != 2 || list[0].ID != seen.ID || !list[0].CreatedAt.Equal(seen.CreatedAt) || !list[1].CreatedAt.After(seen.CreatedAt) {
				t.Errorf("%s: %+v", when, list)
			}
		}
		check("when both are there")
		w.host.Shutdown(context.Background())
		w.host = w.open()
		if err := w.host.Boot(t.Context()); err != nil {
			t.Fatal(err)
		}
		check("after a restart")
	})
}

// An upload that is wanted stopped is built and there, and its program runs when somebody
// starts it, not after a restart of the daemon.
func TestUploadWithoutAStart(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		w.set(build(behaviour{exit: &app.Exit{}, life: time.Minute}))
		ctx := app.WithWanted(t.Context(), app.WantStopped)
		d, err := w.host.Upload(ctx, app.Account{ID: owner, TotalRAM: w.total}, "MAIN=a,BUILD=make,AUTORESTART=true")
		if err != nil || d.State != app.Stopped || d.Running || d.LastExit != nil {
			t.Fatalf("Upload() = %+v, %v", d, err)
		}
		if a := w.recorded(d.ID); a.Wanted != app.WantStopped {
			t.Errorf("recorded as wanted %s", a.Wanted)
		}
		w.host.Shutdown(context.Background())
		w.host = w.open()
		if err := w.host.Boot(t.Context()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
		if s := w.snapshot(d.ID); s.State != app.Stopped || w.launches(d.ID) != 0 {
			t.Errorf("after a restart: %s, started %d times", s.State, w.launches(d.ID))
		}
		if _, err := w.host.Start(t.Context(), owner, d.ID); err != nil {
			t.Fatal(err)
		}
		if s := w.snapshot(d.ID); !s.Running || w.launches(d.ID) != 1 {
			t.Errorf("after a start: %s, started %d times", s.State, w.launches(d.ID))
		}
	})
}
