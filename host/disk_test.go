package host

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"berth/app"
)

// spacious is play with 100 MB of disk for each application.
func spacious(t *testing.T, f func(t *testing.T, w *world)) {
	t.Helper()
	play(t, func(t *testing.T, w *world) {
		w.space = 100
		w.host = w.open()
		f(t, w)
	})
}

// patrol lets the host patrol until the returned function is called.
func (w *world) patrol() (end func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		w.host.Patrol(ctx)
	}()
	return func() {
		cancel()
		<-done
	}
}

// wantSaid fails unless err is a sentence of that kind.
func wantSaid(t *testing.T, err error, kind app.Kind, sentence string) {
	t.Helper()
	wantKind(t, err, kind)
	if err != nil && !strings.Contains(err.Error(), sentence) {
		t.Errorf("said %q, want %q", err, sentence)
	}
}

// wantLimits fails unless these limits, in MB, were set for id.
func (w *world) wantLimits(id app.ID, want ...int64) {
	w.t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	if !slices.Equal(w.limits[id], want) {
		w.t.Errorf("the limits of %s were %v MB, want %v", id, w.limits[id], want)
	}
}

const tooWideSaid = "cannot deploy the application: it would take 101 MB of disk, and may take 100 MB; make it smaller, or ask the owner of this host to raise apps.disk"

func TestDiskLimitIsWiderWhileDeploying(t *testing.T) {
	spacious(t, func(t *testing.T, w *world) {
		id := w.mustUpload("MAIN=a")
		w.wantLimits(id, 300, 100)
		if _, err := w.commit(id, "MAIN=b"); err != nil {
			t.Error(err)
		}
		w.wantLimits(id, 300, 100, 300, 100)
		w.takes(id, 100, 101)
		_, err := w.commit(id, "MAIN=c")
		wantSaid(t, err, app.Unusable, tooWideSaid)
		w.wantLimits(id, 300, 100, 300, 100, 300, 100)
		if err := w.host.Delete(t.Context(), owner, id); err != nil {
			t.Error(err)
		}
		w.wantLimits(id, 300, 100, 300, 100, 300, 100, 0)
	})
}

// A host that cannot set limits measures, and runs what it ran.
func TestLimitThatCannotBeSet(t *testing.T) {
	spacious(t, func(t *testing.T, w *world) {
		w.breaks("Limit", errTest)
		id := w.mustUpload("MAIN=a")
		if !w.snapshot(id).Running {
			t.Error("it does not run")
		}
		w.mends("Limit")
	})
}

func TestBootBounds(t *testing.T) {
	spacious(t, func(t *testing.T, w *world) {
		id := w.mustUpload("MAIN=a")
		w.host.Shutdown(context.Background())
		w.space = 200
		w.host = w.open()
		if err := w.host.Boot(t.Context()); err != nil {
			t.Fatal(err)
		}
		w.wantLimits(id, 300, 100, 200)
	})
}

func TestUploadThatIsTooWide(t *testing.T) {
	spacious(t, func(t *testing.T, w *world) {
		w.takes("", 0, 100)
		w.mustUpload("MAIN=a") // exactly what it may
		w.after[""]++
		_, err := w.upload("MAIN=a")
		wantSaid(t, err, app.Unusable, tooWideSaid)
		w.breaks("After", errTest)
		_, err = w.upload("MAIN=a")
		wantKind(t, err, app.Internal)
		w.mends("After")
		if len(w.apps) != 1 || len(w.stages) != 0 || len(w.reserved) != 0 {
			t.Errorf("left %v %v %v", w.apps, w.stages, w.reserved)
		}
	})
}

func TestFirstBuildThatGrowsTooWide(t *testing.T) {
	spacious(t, func(t *testing.T, w *world) {
		w.set(by(nil))
		w.when("Size", func() { w.takes("", 101, 0) })
		_, err := w.upload("MAIN=a,BUILD=make")
		wantSaid(t, err, app.Unusable, tooWideSaid)
		if len(w.apps) != 0 || len(w.trees) != 0 {
			t.Errorf("left %v %v", w.apps, w.trees)
		}
		for id, set := range w.limits {
			if set[len(set)-1] != 0 {
				t.Errorf("%s is left with a limit: %v", id, set)
			}
		}
	})
}

func TestCommitWhoseBuildGrowsTooWide(t *testing.T) {
	spacious(t, func(t *testing.T, w *world) {
		w.set(by(nil))
		id := w.mustUpload("MAIN=a")
		w.when("Prepare", func() { w.takes(id, 50, 101) })
		_, err := w.commit(id, "MAIN=b,BUILD=make")
		wantSaid(t, err, app.Unusable, tooWideSaid)
		if s := w.snapshot(id); !s.Running || s.Code.Main != "a" || w.trees[id] != "a" || w.launches(id) != 1 {
			t.Errorf("after it: %+v, %q", s, w.trees[id])
		}
	})
}

func TestBuildWithoutRoom(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		w.set(func(p app.Program) behaviour {
			if p.Build {
				return behaviour{exit: &app.Exit{}, life: time.Minute}
			}
			return behaviour{}
		})
		id := w.mustUpload("MAIN=a")
		w.full("build the application", true)
		const said = "cannot build the application: the host's disk is nearly full"
		_, err := w.upload("MAIN=a,BUILD=make")
		wantSaid(t, err, app.NoSpace, said)
		_, err = w.commit(id, "MAIN=b,BUILD=make")
		wantSaid(t, err, app.NoSpace, said)
		if len(w.runs) != 1 {
			t.Errorf("%d programs were started", len(w.runs))
		}
		if _, err := w.commit(id, "MAIN=b"); err != nil {
			t.Errorf("a commit without a build: %v", err)
		}
		w.full("build the application", false)
		failed := w.uploading(owner, "MAIN=a,BUILD=make")
		time.Sleep(2 * buildCheckEvery)
		w.full("finish the build", true)
		begin := time.Now()
		wantSaid(t, <-failed, app.NoSpace, "cannot finish the build: the host's disk is nearly full")
		if took := time.Since(begin); took > buildCheckEvery {
			t.Errorf("it went on for %s", took)
		}
	})
}

func TestPatrolStopsWhatTakesTooMuch(t *testing.T) {
	const (
		noted   = "its files take 101 MB of disk, and may take 100 MB: it is stopped and stays offline; remove some with a console command, then start it"
		refused = "cannot start the application: its files take 101 MB of disk, and may take 100 MB; remove some with a console command, or ask the owner of this host to raise apps.disk"
	)
	spacious(t, func(t *testing.T, w *world) {
		wide, narrow := w.mustUpload("MAIN=a,AUTORESTART=true"), w.mustUpload("MAIN=b")
		defer w.patrol()()
		w.takes(wide, 101, 0)
		w.takes(narrow, 100, 0)
		time.Sleep(MeasureEvery - time.Minute)
		if !w.snapshot(wide).Running {
			t.Error("it was stopped before its time")
		}
		time.Sleep(2 * time.Minute)
		if s := w.snapshot(wide); s.Running || s.State != app.Stopped || w.recorded(wide).Wanted != app.WantStopped || !w.noted(wide, noted) {
			t.Errorf("it is %+v with %q", s, w.notes[wide])
		}
		if !w.snapshot(narrow).Running {
			t.Error("another was stopped")
		}
		_, err := w.host.Start(t.Context(), owner, wide)
		wantSaid(t, err, app.Unusable, refused)
		time.Sleep(time.Hour)
		if w.launches(wide) != 1 {
			t.Errorf("it was started %d times", w.launches(wide))
		}
		w.takes(wide, 99, 0)
		if _, err := w.host.Start(t.Context(), owner, wide); err != nil {
			t.Errorf("with less: %v", err)
		}
	})
}

// Files that are many or nested too deep are as wide ones, and so are those that
// no name leads to.
func TestPatrolHeedsMoreThanBytes(t *testing.T) {
	const many = "it has 1001 files and directories, and may have 1000"
	for name, tt := range map[string]struct {
		grow                     func(w *world, id app.ID)
		noted, refused, deployed string
	}{
		"many": {func(w *world, id app.ID) { w.files[id] = 1001 }, many, many, "it would have 1001 files and directories, and may have 1000"},
		"deep": {
			func(w *world, id app.ID) { w.deep[id] = true }, "its directories are nested too deep to be measured",
			"its directories are nested too deep to be measured", "its directories would be nested too deep to be measured",
		},
		"held": {func(w *world, id app.ID) { w.sizes[id], w.held[id] = 60<<20, 41<<20 }, "its files take 101 MB of disk, and may take 100 MB", "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			spacious(t, func(t *testing.T, w *world) {
				id := w.mustUpload("MAIN=a")
				defer w.patrol()()
				w.mu.Lock()
				w.files[id] = 1000
				w.sizes[id], w.held[id] = 60<<20, 40<<20
				w.mu.Unlock()
				time.Sleep(MeasureEvery + time.Minute)
				if !w.snapshot(id).Running {
					t.Fatal("what it may have was too much")
				}
				w.mu.Lock()
				tt.grow(w, id)
				w.mu.Unlock()
				time.Sleep(MeasureEvery + time.Minute)
				if w.snapshot(id).Running || !w.noted(id, tt.noted+": it is stopped and stays offline") {
					t.Errorf("it is %+v with %q", w.snapshot(id), w.notes[id])
				}
				_, err := w.host.Start(t.Context(), owner, id)
				if tt.refused == "" { // they went with the program
					if err != nil {
						t.Error(err)
					}
					return
				}
				wantSaid(t, err, app.Unusable, "cannot start the application: "+tt.refused)
				_, err = w.commit(id, "MAIN=b")
				wantSaid(t, err, app.Unusable, "cannot deploy the application: "+tt.deployed)
			})
		})
	}
}

// A program of which that cannot be asked is measured by its files.
func TestHeldThatCannotBeAsked(t *testing.T) {
	spacious(t, func(t *testing.T, w *world) {
		id := w.mustUpload("MAIN=a")
		w.breaks("Held", errTest)
		defer w.patrol()()
		w.takes(id, 100, 100)
		time.Sleep(MeasureEvery + time.Minute)
		if !w.snapshot(id).Running {
			t.Error("it was stopped for no reason")
		}
		w.takes(id, 101, 100)
		time.Sleep(MeasureEvery + time.Minute)
		if w.snapshot(id).Running {
			t.Error("it runs on")
		}
		w.mends("Held")
	})
}

// A crash loop is stopped, a deployment is left alone, and what cannot be
// measured is tried again.
func TestPatrolMeetsOtherStates(t *testing.T) {
	spacious(t, func(t *testing.T, w *world) {
		w.set(func(p app.Program) behaviour {
			switch {
			case p.Build:
				return behaviour{exit: &app.Exit{}, life: 9 * time.Minute}
			case p.Argv[1] == "loops":
				return behaviour{exit: &app.Exit{Code: 1}}
			}
			return behaviour{}
		})
		loops, built := w.mustUpload("MAIN=loops,AUTORESTART=true"), w.mustUpload("MAIN=a")
		off := w.mustUpload("MAIN=b")
		if err := w.host.Stop(t.Context(), owner, off); err != nil {
			t.Fatal(err)
		}
		w.breaks("Size", errors.New("unreadable"))
		defer w.patrol()()
		time.Sleep(MeasureEvery + time.Minute)
		w.mends("Size")
		for _, id := range []app.ID{loops, built, off} {
			w.takes(id, 101, 0)
		}
		w.after[built] = 1
		done := make(chan error)
		go func() {
			_, err := w.commit(built, "MAIN=c,BUILD=make")
			done <- err
		}()
		time.Sleep(MeasureEvery)
		if s := w.snapshot(loops); s.State != app.Stopped || w.recorded(loops).Wanted != app.WantStopped {
			t.Errorf("the crash loop is %+v", s)
		}
		if !w.snapshot(built).Running {
			t.Error("it was stopped while it was deployed")
		}
		if w.noted(off, "its files take") {
			t.Error("what is offline was told of")
		}
		w.takes(built, 50, 50)
		if err := <-done; err != nil {
			t.Errorf("the commit: %v", err)
		}
	})
}

func TestPatrolPeriods(t *testing.T) {
	for _, tt := range []struct {
		name           string
		enforced, full bool
		within, not    time.Duration
	}{
		{"by measuring alone", false, false, MeasureEvery + checkEvery, MeasureEvery - checkEvery},
		{"behind the kernel", true, false, auditEvery + checkEvery, auditEvery - checkEvery},
		{"on a disk that runs short", true, true, urgentEvery + checkEvery, urgentEvery - checkEvery},
	} {
		t.Run(tt.name, func(t *testing.T) {
			spacious(t, func(t *testing.T, w *world) {
				w.host.DiskEnforced = tt.enforced
				id := w.mustUpload("MAIN=a")
				w.full("go on", tt.full)
				begin := time.Now()
				defer w.patrol()()
				w.takes(id, 101, 0)
				for w.snapshot(id).Running {
					time.Sleep(time.Second)
				}
				if took := time.Since(begin); took > tt.within || took < tt.not {
					t.Errorf("it was stopped after %s", took)
				}
			})
		})
	}
}

func TestNoPatrolWithoutALimit(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		id := w.mustUpload("MAIN=a")
		w.takes(id, 1<<30, 1<<30)
		end := w.patrol()
		time.Sleep(2 * auditEvery)
		end()
		if !w.snapshot(id).Running {
			t.Error("it was stopped")
		}
		if err := w.host.Restart(t.Context(), owner, id); err != nil {
			t.Error(err)
		}
		if _, err := w.commit(id, "MAIN=b"); err != nil {
			t.Error(err)
		}
	})
}
