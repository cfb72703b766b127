package host

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"berth/app"
)

// commit runs a commit and returns its error.
func (w *world) commit(id app.ID, file string) (app.Deployed, error) {
	return w.host.Commit(context.Background(), owner, id, file)
}

// by gives programs a behaviour by what they run; builds succeed in a second.
func by(main map[string]behaviour) func(app.Program) behaviour {
	return func(p app.Program) behaviour {
		if p.Build {
			return behaviour{exit: &app.Exit{}, life: time.Second}
		}
		return main[p.Argv[1]]
	}
}

func TestCommit(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		id := w.mustUpload("MAIN=a")
		w.set(by(nil))
		d, err := w.commit(id, "MAIN=b,BUILD=make,AUTORESTART=true")
		if err != nil || !d.Running || d.Code.Main != "b" || !d.AutoRestart || !strings.Contains(d.Logs, "build output") {
			t.Fatalf("Commit() = %+v, %v", d, err)
		}
		if w.trees[id] != "b" || w.recorded(id).Code.Main != "b" || !w.recorded(id).AutoRestart {
			t.Errorf("the tree is %q, the record %+v", w.trees[id], w.apps[id])
		}
		build := w.runs[1].p
		if !build.Build || build.Stage == "" || build.RAM != 512 {
			t.Errorf("the build ran as %+v, want in a copy with 512 MB", build)
		}
	})
}

func TestCommitWithoutConfigKeepsTheOld(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		id := w.mustUpload("MAIN=a,AUTORESTART=true")
		d, err := w.commit(id, "")
		if err != nil || d.Code.Main != "a" || !d.AutoRestart || !d.Running {
			t.Errorf("Commit() = %+v, %v; want MAIN and AUTORESTART of before", d, err)
		}
	})
}

func TestCommitStartsWhatWasStopped(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		id := w.mustUpload("MAIN=a")
		if err := w.host.Stop(t.Context(), owner, id); err != nil {
			t.Fatal(err)
		}
		d, err := w.commit(id, "MAIN=b")
		if err != nil || !d.Running || d.Wanted != app.WantOnline {
			t.Errorf("Commit() = %+v, %v", d, err)
		}
	})
}

// Whatever fails, the old code is back exactly, and runs if it ran.
func TestCommitThatFailsGoesBack(t *testing.T) {
	fails := []struct {
		name, file string
		break_     func(w *world)
		kind       app.Kind
		touched    bool // the program had to be stopped
	}{
		{"bad ZIP", "bad", nil, app.Unusable, false},
		{"bad config", "MAIN=missing", nil, app.Unusable, false},
		{"no copy", "MAIN=b,BUILD=make", func(w *world) { w.fail["Prepare"] = errTest }, app.Internal, false},
		{"build", "MAIN=b,BUILD=make", func(w *world) {
			w.set(func(p app.Program) behaviour {
				if p.Build {
					return behaviour{exit: &app.Exit{Code: 1}, life: time.Second}
				}
				return behaviour{}
			})
		}, app.Unusable, false},
		{"apply", "MAIN=b", func(w *world) { w.fail["Apply"] = errTest }, app.Internal, true},
		{"start", "MAIN=b", func(w *world) {
			w.set(by(map[string]behaviour{"b": {err: app.Errorf(app.Unusable, "no such program")}}))
		}, app.Unusable, true},
		{"the host fails", "MAIN=b", func(w *world) { w.set(by(map[string]behaviour{"b": {err: errTest}})) }, app.Internal, true},
		{"crash", "MAIN=b", func(w *world) {
			w.set(by(map[string]behaviour{"b": {exit: &app.Exit{Code: 1}, life: time.Second}}))
		}, app.Unusable, true},
		{"journal", "MAIN=b", func(w *world) { w.fail["Settle"] = errTest }, app.Internal, true},
		{"record", "MAIN=b", func(w *world) { w.fail["SetCode"] = errTest }, app.Internal, true},
		{"out of memory", "MAIN=b,AUTORESTART=true", func(w *world) {
			w.set(by(map[string]behaviour{"b": {exit: &app.Exit{Code: 137, OOM: true}, life: time.Second}}))
		}, app.Unusable, true},
	}
	for _, tt := range fails {
		for _, ran := range []bool{true, false} {
			t.Run(tt.name+map[bool]string{true: " while online", false: " while stopped"}[ran], func(t *testing.T) {
				play(t, func(t *testing.T, w *world) {
					id := w.mustUpload("MAIN=a")
					if !ran {
						if err := w.host.Stop(t.Context(), owner, id); err != nil {
							t.Fatal(err)
						}
					}
					before := w.snapshot(id)
					if tt.break_ != nil {
						tt.break_(w)
					}
					_, err := w.commit(id, tt.file)
					wantKind(t, err, tt.kind)
					time.Sleep(time.Hour)
					s := w.snapshot(id)
					if s.Running != ran || s.Code != before.Code || s.AutoRestart != before.AutoRestart || s.Wanted != before.Wanted || w.trees[id] != "a" {
						t.Errorf("then %+v with tree %q; want it as before: %+v", s, w.trees[id], before)
					}
					if rec := w.recorded(id); !sameExit(s.LastExit, before.LastExit) || !sameExit(rec.LastExit, before.LastExit) {
						t.Errorf("the last exit is %+v, recorded %+v, want %+v", s.LastExit, rec.LastExit, before.LastExit)
					}
					if !tt.touched && ran && w.launches(id) != 1 {
						t.Errorf("the running program was restarted though nothing had changed")
					}
					if _, err := w.commit(id, "MAIN=c"); tt.break_ == nil && err != nil {
						t.Errorf("a commit after it: %v", err)
					}
				})
			})
		}
	}
}

func sameExit(a, b *app.Exit) bool {
	return a == b || a != nil && b != nil && *a == *b
}

func TestFailedCommitTellsWhatTheNewCodePrinted(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		id := w.mustUpload("MAIN=a")
		w.Note(id, "of the old code")
		w.set(by(map[string]behaviour{"b": {exit: &app.Exit{Code: 1}, life: time.Second}}))
		_, err := w.commit(id, "MAIN=b")
		var e *app.Error
		if !errors.As(err, &e) || strings.Contains(e.Logs, "old code") || !strings.Contains(e.Logs, "exited with code 1") {
			t.Errorf("got %+v", err)
		}
	})
}

func TestCommitThatEndsWellIsNoFailure(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		id := w.mustUpload("MAIN=a")
		w.set(by(map[string]behaviour{"job": {exit: &app.Exit{}, life: time.Second}}))
		d, err := w.commit(id, "MAIN=job")
		if err != nil || d.Running || w.trees[id] != "job" {
			t.Errorf("Commit() = %+v, %v", d, err)
		}
		if w.recorded(id).Wanted != app.WantStopped {
			t.Error("a job that is done would be started at the next boot")
		}
	})
}

func TestSecondDeploymentConflicts(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		id := w.mustUpload("MAIN=a")
		w.set(by(nil))
		first := make(chan error)
		go func() { _, err := w.commit(id, "MAIN=b,BUILD=make"); first <- err }()
		synctest.Wait()
		if s := w.snapshot(id); !s.Running {
			t.Errorf("the old program does not run during the build: %+v", s)
		}
		_, err := w.commit(id, "MAIN=c")
		wantKind(t, err, app.Conflict)
		wantKind(t, w.host.Restart(t.Context(), owner, id), app.Conflict)
		if err := <-first; err != nil {
			t.Error(err)
		}
		if w.trees[id] != "b" {
			t.Errorf("the tree is %q", w.trees[id])
		}
	})
}

func TestStopAndDeleteCallOffABuild(t *testing.T) {
	for _, what := range []string{"stop", "delete"} {
		for _, ran := range []bool{true, false} {
			t.Run(what+map[bool]string{true: " online", false: " offline"}[ran], func(t *testing.T) {
				play(t, func(t *testing.T, w *world) {
					id := w.mustUpload("MAIN=a")
					if !ran {
						if err := w.host.Stop(t.Context(), owner, id); err != nil {
							t.Fatal(err)
						}
					}
					w.set(func(p app.Program) behaviour { return behaviour{} }) // a build without end
					result := make(chan error)
					go func() { _, err := w.commit(id, "MAIN=b,BUILD=make"); result <- err }()
					synctest.Wait()
					if s := w.snapshot(id); !ran && s.State != app.Preparing {
						t.Errorf("during the build: %+v", s)
					}
					var err error
					if what == "stop" {
						err = w.host.Stop(t.Context(), owner, id)
					} else {
						err = w.host.Delete(t.Context(), owner, id)
					}
					if err != nil {
						t.Fatal(err)
					}
					wantKind(t, <-result, app.Conflict)
					if what == "stop" {
						if s := w.snapshot(id); s.Running || s.Wanted != app.WantStopped || w.trees[id] != "a" {
							t.Errorf("then %+v, tree %q", s, w.trees[id])
						}
					}
				})
			})
		}
	}
}

// A stop that comes when the new code is starting is obeyed, and the code stays.
func TestStopDuringTheTrial(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		id := w.mustUpload("MAIN=a")
		result := make(chan error)
		go func() { _, err := w.commit(id, "MAIN=b"); result <- err }()
		synctest.Wait()
		if err := w.host.Stop(t.Context(), owner, id); err != nil {
			t.Fatal(err)
		}
		if err := <-result; err != nil {
			t.Error(err)
		}
		if s := w.snapshot(id); s.Running || s.Wanted != app.WantStopped || w.trees[id] != "b" {
			t.Errorf("then %+v, tree %q", s, w.trees[id])
		}
	})
}

func TestStopWhileTheOldCodeEnds(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		w.set(func(app.Program) behaviour { return behaviour{onStop: 5 * time.Second} })
		id := w.mustUpload("MAIN=a")
		result := make(chan error)
		go func() { _, err := w.commit(id, "MAIN=b"); result <- err }()
		synctest.Wait()
		if err := w.host.Stop(t.Context(), owner, id); err != nil {
			t.Fatal(err)
		}
		if !w.runs[0].ended() {
			t.Error("it was answered while the program runs")
		}
		wantKind(t, <-result, app.Conflict)
		time.Sleep(time.Minute)
		if s := w.snapshot(id); s.Running || w.trees[id] != "a" {
			t.Errorf("then %+v, tree %q", s, w.trees[id])
		}
	})
}

func TestCommitWorkGoesOnWhenTheClientHangsUp(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		id := w.mustUpload("MAIN=a")
		w.set(by(nil))
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan error)
		go func() { _, err := w.host.Commit(ctx, owner, id, "MAIN=b,BUILD=make"); done <- err }()
		synctest.Wait()
		cancel()
		if err := <-done; err != nil || w.trees[id] != "b" || !w.snapshot(id).Running {
			t.Errorf("Commit() = %v, tree %q", err, w.trees[id])
		}
	})
}

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
		w.fail["Apps"] = errTest
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
