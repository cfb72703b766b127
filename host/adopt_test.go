package host

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"berth/app"
)

// adopt gives the newest program of an application to another host.
func (w *world) adopt(p app.Program) (*Survivor, error) {
	if err := w.failing("Adopt"); err != nil {
		return nil, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.adopted = p
	for _, r := range slices.Backward(w.runs) {
		if r.p.App == p.App && !r.p.Build && !w.seen[r] {
			w.seen[r], r.left = true, make(chan struct{}) // nobody waits for it any more
			return &Survivor{r, r.p.Run, time.Now().Add(-time.Hour), r.p.Port}, nil
		}
	}
	return nil, nil
}

// succeed replaces the host by another, as after the daemon's end. left says
// whether the first could leave in order; else it was killed.
func (w *world) succeed(left bool) {
	w.t.Helper()
	if left {
		w.host.Leave()
	}
	w.mu.Lock()
	w.seen = map[*instance]bool{}
	for _, r := range w.runs { // a later daemon finds what nobody has waited for
		w.seen[r] = left && r.ended()
	}
	w.mu.Unlock()
	w.host = w.open()
	w.host.Adopt = w.adopt
	if err := w.host.Boot(context.Background()); err != nil {
		w.t.Fatal(err)
	}
}

func TestProgramsOutliveTheDaemon(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		runs, off := w.mustUpload("MAIN=a,RAM=300"), w.mustUpload("MAIN=b")
		if err := w.host.Stop(t.Context(), owner, off); err != nil {
			t.Fatal(err)
		}
		started := w.snapshot(runs).StartedAt
		time.Sleep(time.Hour)
		w.succeed(true)
		s := w.snapshot(runs)
		if w.launches(runs) != 1 || s.State != app.Online || !s.Running || s.LastRun != 1 || !s.StartedAt.Equal(started) {
			t.Errorf("%d launches; it is %+v", w.launches(runs), s)
		}
		if s := w.snapshot(off); s.Running || w.launches(off) != 1 {
			t.Errorf("what was stopped: %+v", s)
		}
		// It is the host's like any other: its RAM counts, it can be changed and stopped.
		w.mayRun.Store(350)
		_, err := w.host.Start(t.Context(), owner, off)
		wantKind(t, err, app.Exhausted)
		if free := w.host.AvailableRAM(off); free != 350-w.snapshot(runs).RAM {
			t.Errorf("%d MB are available", free)
		}
		if err := w.host.SetRAM(t.Context(), owner, runs, 200); err != nil {
			t.Error(err)
		}
		if err := w.host.Stop(t.Context(), owner, runs); err != nil || w.snapshot(runs).ExitCode() != 143 {
			t.Errorf("Stop() = %v, %+v", err, w.snapshot(runs))
		}
	})
}

// What ended while no daemon lived ends now, by the same policy.
func TestProgramsThatEndedMeanwhile(t *testing.T) {
	for _, c := range []struct {
		name, config string
		exit         app.Exit
		launches     int
		code         int
		note         string
	}{
		{"crash", "MAIN=a", app.Exit{Code: 3}, 1, 3, "exited with code 3"},
		{"crash with restart", "MAIN=a,AUTORESTART=true", app.Exit{Code: 3}, 2, 0, "exited with code 3"},
		{"unseen", "MAIN=a", app.Exit{Code: app.UnknownCode}, 1, app.UnknownCode, "ended while berth was not running, so its exit code is unknown"},
		{"unseen with restart", "MAIN=a,AUTORESTART=true", app.Exit{Code: app.UnknownCode}, 2, 0, "ended while berth was not running, so its exit code is unknown"},
		{"out of memory", "MAIN=a", app.Exit{Code: 137, OOM: true}, 1, 137, "killed: needed more than"},
		{"with its machine", "MAIN=a", app.Exit{Code: app.UnknownCode, Disrupted: true}, 2, 0, "ended with its machine, or was removed from it, not by itself"},
	} {
		t.Run(c.name, func(t *testing.T) {
			play(t, func(t *testing.T, w *world) {
				w.set(func(p app.Program) behaviour {
					if p.Run > 1 {
						return behaviour{}
					}
					return behaviour{exit: &c.exit, life: time.Hour}
				})
				id := w.mustUpload(c.config)
				w.host.Leave()
				time.Sleep(2 * time.Hour)
				w.succeed(false)
				time.Sleep(10 * time.Second)
				s := w.snapshot(id)
				if w.launches(id) != c.launches || s.Running != (c.launches == 2) || !w.noted(id, c.note) {
					t.Errorf("%d launches; it is %+v; notes %q", w.launches(id), s, w.notes[id])
				}
				if c.launches == 1 && s.ExitCode() != c.code || s.RAMKilled() != (c.exit.OOM && c.launches == 1) {
					t.Errorf("it is told as %+v", s.LastExit)
				}
			})
		})
	}
}

// A daemon that died between a start and its record, or within a stop, leaves
// what the next one puts right.
func TestAdoptionPutsRight(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		unrecorded, unstopped := w.mustUpload("MAIN=a"), w.mustUpload("MAIN=b")
		w.host.Leave()
		w.mu.Lock()
		w.apps[unrecorded].LastRun, w.apps[unrecorded].StartedAt = 0, time.Time{}
		w.apps[unstopped].Wanted = app.WantStopped
		w.mu.Unlock()
		w.succeed(false)
		if s := w.snapshot(unrecorded); s.LastRun != 1 || s.StartedAt.IsZero() || w.recorded(unrecorded).LastRun != 1 {
			t.Errorf("the run that was not recorded: %+v", s)
		}
		time.Sleep(time.Minute)
		if s := w.snapshot(unstopped); s.Running || w.launches(unstopped) != 1 || w.recorded(unstopped).Wanted != app.WantStopped {
			t.Errorf("what was to be stopped: %+v", s)
		}
	})
}

// What cannot be adopted is ended by who cannot, and started anew.
func TestAdoptionThatFails(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		id := w.mustUpload("MAIN=a")
		w.host.Leave()
		w.mu.Lock()
		w.runs[0].stop <- 0
		w.fail["Adopt"] = errors.New("test")
		w.mu.Unlock()
		synctest.Wait()
		w.succeed(false)
		synctest.Wait() // for its turn
		if s := w.snapshot(id); !s.Running || w.launches(id) != 2 || !w.noted(id, "could not go on with the program") {
			t.Errorf("%d launches; it is %+v", w.launches(id), s)
		}
	})
}

// A daemon that leaves calls deployments off, and waits for a stop that was
// asked for.
func TestLeaveEndsWhatIsUnderWay(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		slow, other := w.mustUpload("MAIN=a"), w.mustUpload("MAIN=b")
		w.set(endless)
		commit := make(chan error, 1)
		go func() {
			_, err := w.host.Commit(context.Background(), owner, other, "MAIN=c,BUILD=make", false)
			commit <- err
		}()
		synctest.Wait()
		w.runs[0].b.onStop = 5 * time.Second
		stopped := make(chan error, 1)
		go func() { stopped <- w.host.Stop(context.Background(), owner, slow) }()
		synctest.Wait()
		w.host.Leave()
		if err := <-commit; app.KindOf(err) != app.Unavailable {
			t.Errorf("the commit: %v", err)
		}
		if err := <-stopped; err != nil {
			t.Errorf("the stop: %v", err)
		}
		_, err := w.host.Start(t.Context(), owner, slow)
		wantKind(t, err, app.Unavailable)
		w.set(func(app.Program) behaviour { return behaviour{} })
		w.succeed(true)
		if s := w.snapshot(other); !s.Running || w.launches(other) != 1 || s.Code.Main != "b" {
			t.Errorf("the application of the commit: %d launches, %+v", w.launches(other), s)
		}
		if s := w.snapshot(slow); s.Running {
			t.Errorf("what was stopped: %+v", s)
		}
	})
}

// A daemon that died when it had recorded an end, and before it had removed what was left of the run, makes no second
// end of it.
func TestEndIsToldOnce(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		w.set(func(app.Program) behaviour { return behaviour{exit: &app.Exit{Code: 3}, life: time.Hour} })
		id := w.mustUpload("MAIN=a")
		time.Sleep(2 * time.Hour)
		if e := w.recorded(id).LastExit; e == nil || e.Code != 3 {
			t.Errorf("the end that is recorded: %+v", e)
		}
		w.host.Leave()
		w.succeed(false)
		time.Sleep(time.Minute)
		if s := w.snapshot(id); len(w.exits) != 1 || s.State != app.Stopped {
			t.Errorf("ends: %+v; it is %+v", w.exits, s)
		}
	})
}
