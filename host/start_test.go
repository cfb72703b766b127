package host

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"berth/app"
)

// nowhere is a program that takes no connections.
func nowhere(app.Program, time.Duration) app.Listening { return app.Listening{} }

// A program that has ended when the ok delay is over is not taken for one that has
// started well, however long its end takes to be told.
func TestDeadBeforeTheTimer(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		dead := behaviour{exit: &app.Exit{Code: 9}, life: 1900 * time.Millisecond, late: 3 * time.Second}
		w.set(by(map[string]behaviour{"dies": dead}))
		d, err := w.upload("MAIN=dies")
		if err != nil || d.Running || d.ExitCode() != 9 {
			t.Errorf("Upload() = %+v, %v", d, err)
		}
		id := w.mustUpload("MAIN=a")
		_, err = w.commit(id, "MAIN=dies")
		wantKind(t, err, app.Unusable)
		if s := w.snapshot(id); !s.Running || s.Code.Main != "a" || w.trees[id] != "a" || w.recorded(id).Code.Main != "a" {
			t.Errorf("after the commit it is %+v", s)
		}
		if _, err := w.host.Start(t.Context(), owner, d.ID); err != nil {
			t.Fatal(err)
		}
		if s, err := w.host.Outcome(t.Context(), owner, d.ID); err != nil || s.Running || s.ExitCode() != 9 {
			t.Errorf("Outcome() = %+v, %v", s, err)
		}
	})
}

// New code is watched while it is busy starting: a machine may have given it next
// to nothing in the ok delay.
func TestNewCodeIsWatchedWhileItIsBusy(t *testing.T) {
	crash := &app.Exit{Code: 1}
	for name, c := range map[string]struct {
		b     behaviour
		lasts time.Duration
		fails bool
	}{
		"idle":               {behaviour{listen: nowhere}, 2 * time.Second, false},
		"dies while busy":    {behaviour{listen: nowhere, busy: 5 * time.Second, exit: crash, life: 4 * time.Second}, 4 * time.Second, true},
		"dies at the end":    {behaviour{listen: nowhere, busy: time.Hour, exit: crash, life: 14 * time.Second}, 14 * time.Second, true},
		"dies under a look":  {behaviour{listen: nowhere, exit: crash, life: 2*time.Second + 20*time.Millisecond, look: 40 * time.Millisecond}, 2 * time.Second, true},
		"busy for a while":   {behaviour{listen: nowhere, busy: 5 * time.Second}, 5 * time.Second, false},
		"busy for ever":      {behaviour{listen: nowhere, busy: time.Hour}, 15 * time.Second, false},
		"busy, and listens":  {behaviour{busy: time.Hour}, 2 * time.Second, false},
		"listens in a while": {behaviour{busy: time.Hour, listen: soon}, 6 * time.Second, false},
	} {
		t.Run(name, func(t *testing.T) {
			play(t, func(t *testing.T, w *world) {
				w.set(by(map[string]behaviour{"b": c.b}))
				begin := time.Now()
				d, err := w.upload("MAIN=b")
				if took := time.Since(begin).Round(time.Second); err != nil || d.Running == c.fails || took != c.lasts {
					t.Errorf("after %s: %+v, %v; want %s", took, d, err, c.lasts)
				}
				id := w.mustUpload("MAIN=a")
				begin = time.Now()
				_, err = w.commit(id, "MAIN=b")
				if took := time.Since(begin).Round(time.Second); (err != nil) != c.fails || took != c.lasts {
					t.Errorf("the commit after %s: %v; want %s", took, err, c.lasts)
				}
				if main := w.snapshot(id).Code.Main; (main == "b") == c.fails || !w.snapshot(id).Running {
					t.Errorf("then the code is %q", main)
				}
			})
		})
	}
}

// soon is a program that listens after six seconds.
func soon(p app.Program, lived time.Duration) app.Listening {
	if lived < 6*time.Second {
		return app.Listening{}
	}
	return app.Listening{At: loopback(p.Port), Port: p.Port, Own: true}
}

// A start that a person asked for is watched for the ok delay and not longer.
func TestOutcome(t *testing.T) {
	for name, c := range map[string]struct {
		file  string
		b     behaviour
		after time.Duration
		is    func(s app.Snapshot) bool
	}{
		"lives": {"MAIN=a", behaviour{}, 2 * time.Second, func(s app.Snapshot) bool { return s.Running && s.State == app.Online && s.LastExit == nil }},
		"busy": {
			"MAIN=a",
			behaviour{busy: time.Hour, listen: nowhere},
			2 * time.Second,
			func(s app.Snapshot) bool { return s.Running && s.State == app.Online },
		},
		"dies": {
			"MAIN=a",
			behaviour{exit: &app.Exit{Code: 5}, life: time.Second},
			time.Second,
			func(s app.Snapshot) bool { return !s.Running && s.State == app.Stopped && s.ExitCode() == 5 },
		},
		"restarts": {
			"MAIN=a,AUTORESTART=true",
			behaviour{exit: &app.Exit{Code: 5}, life: time.Second},
			time.Second,
			func(s app.Snapshot) bool { return !s.Running && s.State == app.Waiting && s.ExitCode() == 5 },
		},
		"out of memory": {
			"MAIN=a",
			behaviour{exit: &app.Exit{Code: 137, OOM: true}, life: time.Second},
			time.Second,
			func(s app.Snapshot) bool { return !s.Running && s.RAMKilled() },
		},
	} {
		t.Run(name, func(t *testing.T) {
			play(t, func(t *testing.T, w *world) {
				ctx := t.Context()
				id := w.mustUpload(c.file)
				for _, restart := range []bool{false, true} {
					w.set(func(app.Program) behaviour { return behaviour{} })
					if !restart {
						if err := w.host.Stop(ctx, owner, id); err != nil {
							t.Fatal(err)
						}
					}
					w.set(func(app.Program) behaviour { return c.b })
					begin := time.Now()
					ask := func() error { _, err := w.host.Start(ctx, owner, id); return err }
					if restart {
						w.set(func(app.Program) behaviour { return behaviour{} })
						_, _ = w.host.Start(ctx, owner, id) // it may run already
						w.set(func(app.Program) behaviour { return c.b })
						ask = func() error { return w.host.Restart(ctx, owner, id) }
						begin = time.Now()
					}
					if err := ask(); err != nil || time.Since(begin) > 0 {
						t.Fatalf("restart %t: after %s: %v", restart, time.Since(begin), err)
					}
					s, err := w.host.Outcome(ctx, owner, id)
					if took := time.Since(begin); err != nil || took != c.after || !c.is(s) {
						t.Errorf("restart %t: after %s %+v, %v", restart, took, s, err)
					}
				}
				if _, err := w.host.Outcome(ctx, 2, id); app.KindOf(err) != app.NotFound {
					t.Errorf("for a stranger: %v", err)
				}
			})
		})
	}
}

// Who waits no longer, or meets a stop, is told how it is then.
func TestOutcomeThatIsCutShort(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		id := w.mustUpload("MAIN=a")
		if err := w.host.Restart(t.Context(), owner, id); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		begin := time.Now()
		if s, err := w.host.Outcome(ctx, owner, id); err != nil || !s.Running || time.Since(begin) != time.Second {
			t.Errorf("after %s: %+v, %v", time.Since(begin), s, err)
		}
		waits := make(chan app.Snapshot)
		go func() {
			s, err := w.host.Outcome(t.Context(), owner, id)
			if err != nil {
				t.Error(err)
			}
			waits <- s
		}()
		synctest.Wait()
		if err := w.host.Stop(t.Context(), owner, id); err != nil {
			t.Fatal(err)
		}
		if s := <-waits; s.Running || s.LastExit == nil || !s.LastExit.Asked {
			t.Errorf("after a stop: %+v", s)
		}
	})
}

// A daemon that leaves tells those who wait for a start that it goes on.
func TestLeaveTellsThoseWhoWaitForAStart(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		old := w.mustUpload("MAIN=a")
		if err := w.host.Restart(t.Context(), owner, old); err != nil {
			t.Fatal(err)
		}
		waits := make(chan app.Snapshot, 1)
		go func() {
			s, err := w.host.Outcome(t.Context(), owner, old)
			if err != nil {
				t.Error(err)
			}
			waits <- s
		}()
		done := w.uploading(owner, "MAIN=new")
		left := make(chan struct{})
		begin := time.Now()
		go func() {
			w.host.Leave()
			close(left)
		}()
		select {
		case <-left:
		case <-time.After(time.Hour):
			t.Fatal("it waits for ever")
		}
		if took := time.Since(begin); took > 0 {
			t.Errorf("it took %s", took)
		}
		if err := <-done; err != nil {
			t.Error(err)
		}
		if s := <-waits; !s.Running {
			t.Errorf("%+v", s)
		}
		w.mu.Lock()
		for _, r := range w.runs {
			if !r.ended() {
				r.Stop(0)
				w.host.capacity.release(r.p.App)
			}
		}
		w.mu.Unlock()
		synctest.Wait()
	})
}

// What the owner reads of an upload that died while it was watched.
func TestUploadTellsOfADeathAfterTheDelay(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		w.set(func(app.Program) behaviour {
			return behaviour{listen: nowhere, busy: time.Hour, exit: &app.Exit{Code: 1}, life: 2500 * time.Millisecond}
		})
		d, err := w.upload("MAIN=a")
		if err != nil || d.State != app.Stopped || d.ExitCode() != 1 || !strings.Contains(d.Logs, "last words") {
			t.Errorf("Upload() = %+v, %v", d, err)
		}
	})
}

// A program that runs on another version than it asks for says so at each start: once in
// what a deployment says, and then in its log.
func TestOtherVersionIsNotedAtEachStart(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		notes := func(id app.ID) (n int) {
			for _, note := range w.notes[id] {
				n += strings.Count(note, "this host runs 18")
			}
			return n
		}
		id := w.mustUpload("MAIN=a,VERSION=22")
		first := notes(id)
		for range 2 {
			if err := w.host.Restart(t.Context(), owner, id); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			time.Sleep(time.Minute)
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		if first > 1 || notes(id) != first+2 {
			t.Errorf("%d after the upload, then %q", first, w.notes[id])
		}
	})
}
