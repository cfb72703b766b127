package host

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"berth/app"
)

// commit runs a commit and returns its error.
func (w *world) commit(id app.ID, file string) (app.Deployed, error) {
	return w.host.Commit(context.Background(), owner, id, file, false)
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

// A site is planned as one, whatever a commit says or leaves out.
func TestTheTypeStaysWithTheApplication(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		id := w.mustUpload("MAIN=a,TYPE=site,ID=shop")
		for _, file := range []string{"MAIN=b", ""} {
			if _, err := w.commit(id, file); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.host.Restart(t.Context(), owner, id); err != nil {
			t.Fatal(err)
		}
		if len(w.planned) < 7 || slices.Contains(w.planned, app.Bot) {
			t.Errorf("planned as %v", w.planned)
		}
	})
}

// What the packages were installed from is remembered with the code, for the
// next plan to compare.
func TestPackagesAreRemembered(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		w.set(by(nil))
		id := w.mustUpload("MAIN=a,BUILD=make")
		const first, second = "what make installed", "what pip installed"
		if got := w.recorded(id).Code.Packages; got != first || w.prepared != first {
			t.Errorf("after the upload: %q is recorded and the start was told %q, want %q", got, w.prepared, first)
		}
		if _, err := w.commit(id, "MAIN=b,BUILD=pip"); err != nil {
			t.Fatal(err)
		}
		if got := w.recorded(id).Code.Packages; got != second {
			t.Errorf("after the commit: %q is recorded, want %q", got, second)
		}
		if _, err := w.commit(id, "MAIN=missing"); err == nil || w.prepared != second {
			t.Errorf("the next plan was told %q, want %q", w.prepared, second)
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
		{"no copy", "MAIN=b,BUILD=make", func(w *world) { w.breaks("Prepare", errTest) }, app.Internal, false},
		{"build", "MAIN=b,BUILD=make", func(w *world) {
			w.set(func(p app.Program) behaviour {
				if p.Build {
					return behaviour{exit: &app.Exit{Code: 1}, life: time.Second}
				}
				return behaviour{}
			})
		}, app.Unusable, false},
		{"apply", "MAIN=b", func(w *world) { w.breaks("Apply", errTest) }, app.Internal, true},
		{"start", "MAIN=b", func(w *world) {
			w.set(by(map[string]behaviour{"b": {err: app.Errorf(app.Unusable, "no such program")}}))
		}, app.Unusable, true},
		{"the host fails", "MAIN=b", func(w *world) { w.set(by(map[string]behaviour{"b": {err: errTest}})) }, app.Internal, true},
		{"crash", "MAIN=b", func(w *world) {
			w.set(by(map[string]behaviour{"b": {exit: &app.Exit{Code: 1}, life: time.Second}}))
		}, app.Unusable, true},
		{"record", "MAIN=b", func(w *world) { w.breaks("AddDeploy", errTest) }, app.Internal, true},
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
		go func() { _, err := w.host.Commit(ctx, owner, id, "MAIN=b,BUILD=make", false); done <- err }()
		synctest.Wait()
		cancel()
		if err := <-done; err != nil || w.trees[id] != "b" || !w.snapshot(id).Running {
			t.Errorf("Commit() = %v, tree %q", err, w.trees[id])
		}
	})
}

// Until a deployment is recorded the records say what they said before it: a crash
// brings nothing online that was stopped. What a person wants meanwhile holds.
func TestCommitRecordsWhatIsWantedWithTheCode(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		w.set(by(map[string]behaviour{"a": {exit: &app.Exit{Code: 3}, life: time.Minute}, "ends": {exit: &app.Exit{}, life: time.Second}}))
		id := w.mustUpload("MAIN=a")
		time.Sleep(2 * time.Minute)
		before := w.recorded(id)
		if before.Wanted != app.WantStopped || before.LastExit == nil {
			t.Fatalf("the record is %+v", before)
		}
		looks := 0
		w.when("AddDeploy", func() {
			if a := w.recorded(id); a.Wanted != app.WantStopped || a.Code != before.Code || a.LastExit == nil || a.LastExit.Code != 3 {
				t.Errorf("before the deployment is recorded: %+v, %+v", a, a.LastExit)
			}
			looks++
		})
		w.when("AddDeploy after", func() {
			if a := w.recorded(id); a.Wanted != app.WantOnline || a.Code.Main != "b" || a.LastExit != nil {
				t.Errorf("once it is recorded: %+v, %+v", a, a.LastExit)
			}
			looks++
		})
		if _, err := w.commit(id, "MAIN=b"); err != nil {
			t.Fatal(err)
		}
		if s := w.snapshot(id); looks != 2 || !s.Running || s.Wanted != app.WantOnline {
			t.Errorf("after %d looks it is %+v", looks, s)
		}
		w.when("AddDeploy", nil)
		w.when("AddDeploy after", func() {
			if a := w.recorded(id); a.Wanted != app.WantStopped {
				t.Errorf("code that ended well is %s at the next boot", a.Wanted)
			}
		})
		if _, err := w.commit(id, "MAIN=ends"); err != nil || w.recorded(id).Wanted != app.WantStopped {
			t.Errorf("%v, %+v", err, w.recorded(id))
		}
	})
}

// A stop that is answered before the deployment is recorded is not undone by it.
func TestStopBeforeADeploymentIsRecorded(t *testing.T) {
	for _, when := range []string{"AddDeploy", "AddDeploy after"} {
		play(t, func(t *testing.T, w *world) {
			id := w.mustUpload("MAIN=a")
			if err := w.host.Stop(t.Context(), owner, id); err != nil {
				t.Fatal(err)
			}
			w.when(when, func() {
				if err := w.host.Stop(t.Context(), owner, id); err != nil {
					t.Error(err)
				}
			})
			w.when("Settle", func() {
				if a := w.recorded(id); a.Wanted != app.WantStopped {
					t.Errorf("%s: after the stop %s is recorded", when, a.Wanted)
				}
			})
			if _, err := w.commit(id, "MAIN=b"); err != nil {
				t.Fatal(err)
			}
			if s := w.snapshot(id); s.Running || s.Wanted != app.WantStopped || s.Code.Main != "b" || w.recorded(id).Wanted != app.WantStopped {
				t.Errorf("%s: it is %+v", when, s)
			}
		})
	}
}

// An exact commit says what it removed, what it left and what it could not know; the
// history has it, and the list of what deploys brought goes from deploy to deploy.
func TestExactCommit(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		w.set(func(p app.Program) behaviour {
			if p.Build {
				return behaviour{exit: &app.Exit{}, life: time.Second}
			}
			return behaviour{}
		})
		id := w.mustUpload("MAIN=a,BUILD=make")
		exact := func(file string) app.Deployed {
			d, err := w.host.Commit(context.Background(), owner, id, file, true)
			if err != nil {
				t.Fatal(err)
			}
			return d
		}
		d := exact("MAIN=b")
		for _, want := range []string{"that were removed: 2.", `stay as they are: "edited.js".`} {
			if !strings.Contains(d.Logs, want) {
				t.Errorf("%q is not in %q", want, d.Logs)
			}
		}
		if strings.Contains(d.Logs, "berth does not know") {
			t.Errorf("unknown: %q", d.Logs)
		}
		if _, err := w.rollback(id, 1); err != nil {
			t.Fatal(err)
		}
		if _, err := w.host.Restore(context.Background(), owner, id, "MAIN=c", false); err != nil {
			t.Fatal(err)
		}
		if d = exact("MAIN=d"); !strings.Contains(d.Logs, "berth does not know what each earlier deploy brought") {
			t.Errorf("after a restore: %q", d.Logs)
		}
		w.breaks("AddDeploy", errTest)
		if _, err := w.host.Commit(context.Background(), owner, id, "MAIN=e", true); err == nil {
			t.Error("not recorded: no error")
		}
		w.mends("AddDeploy")
		if _, err := w.commit(id, "MAIN=f"); err != nil {
			t.Fatal(err)
		}
		all, err := w.host.Deploys(t.Context(), owner, id)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, d := range all {
			got = append(got, fmt.Sprint(d.Number, " ", d.Kind, " ", d.Exact, " ", d.Removed, " ", d.Brought, ", ", d.Note))
		}
		want := []string{
			"6 commit false 0 list of stage-7, ", "5 commit true 2 list of stage-5, exact, 2 files removed", "4 restore false 0 , from a backup",
			"3 rollback false 0 list of stage-1 built, back to deploy 1", "2 commit true 2 list of stage-2, exact, 2 files removed",
		}
		if !slices.Equal(got, want) {
			t.Errorf("the history is\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
		if got := w.over["stage-2"]; got != (over{"list of stage-1 built", true}) {
			t.Errorf("the first was laid over %+v", got)
		}
	})
}

// The lists of deploys that nothing leads back to are forgotten.
func TestListsGoWithTheWayBack(t *testing.T) {
	h := &Host{Config: Config{DeploysKeep: 4, DeploysDisk: 1}}
	all := []app.Deploy{
		{Number: 5, Journal: "e", Kept: 1, Brought: "5"},
		{Number: 4, Journal: "d", Kept: 1, Brought: "4"},
		{Number: 3, Journal: "c", Kept: 1 << 20, Brought: "3"},
		{Number: 2, Journal: "b", Brought: "2"},
		{Number: 1, Brought: "1"},
	}
	var got []string
	for _, d := range h.retain(all) {
		got = append(got, d.Journal+d.Brought)
	}
	if want := []string{"e5", "d4", "3", ""}; !slices.Equal(got, want) {
		t.Errorf("kept %q, want %q", got, want)
	}
	got = nil
	for _, d := range forgotten(slices.Clone(all)) {
		got = append(got, d.Journal+d.Brought)
	}
	if want := []string{"e5", "", "", "", ""}; !slices.Equal(got, want) {
		t.Errorf("of a tree that is gone %q, want %q", got, want)
	}
}
