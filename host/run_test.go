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

// play runs a test under virtual time in a world of its own.
func play(t *testing.T, f func(t *testing.T, w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		f(t, w)
		w.close()
	})
}

func TestUploadRuns(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		begin := time.Now()
		d, err := w.upload("MAIN=a,RAM=200")
		if err != nil || d.State != app.Online || !d.Running || d.RAM != 200 || d.Logs != "" {
			t.Fatalf("Upload() = %+v, %v; want it online with 200 MB", d, err)
		}
		if took := time.Since(begin); took != 2*time.Second {
			t.Errorf("the answer took %s, want the ok delay", took)
		}
		if len(d.ID) < 13 || strings.Trim(string(d.ID), "0123456789") != "" {
			t.Errorf("the id is %q, want 13 or more digits", d.ID)
		}
		if p := w.runs[0].p; p.RAM != 200 || p.UID < 70000 || p.Port == 0 || p.Run != 1 || p.Argv[1] != "a" {
			t.Errorf("it was started as %+v", p)
		}
		other, err := w.upload("MAIN=b")
		if err != nil || other.ID == d.ID || other.RAM != 100 {
			t.Errorf("a second upload: %+v, %v; want another id and the default RAM", other, err)
		}
		if list := w.host.Apps(owner); len(list) != 2 || list[0].ID != d.ID {
			t.Errorf("Apps() = %v, want both, oldest first", list)
		}
		if list := w.host.Apps(2); len(list) != 0 {
			t.Errorf("another account sees %v", list)
		}
	})
}

func TestUploadThatDiesIsThere(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		w.set(exits(1, 50*time.Millisecond))
		d, err := w.upload("MAIN=a")
		if err != nil || d.Running || d.ExitCode() != 1 || !strings.Contains(d.Logs, "last words") {
			t.Fatalf("Upload() = %+v, %v; want it offline with code 1 and its last lines", d, err)
		}
		if s := w.snapshot(d.ID); s.State != app.Stopped || s.Wanted != app.WantStopped || w.recorded(d.ID).Wanted != app.WantStopped {
			t.Errorf("then it is %+v", s)
		}
		if !w.noted(d.ID, "exited with code 1 after 100ms") {
			t.Errorf("its log says %q", w.notes[d.ID])
		}
	})
}

func TestUploadThatCannotStartIsThere(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		w.set(func(app.Program) behaviour { return behaviour{err: errTest} })
		d, err := w.upload("MAIN=a")
		if err != nil || d.Running || !strings.Contains(d.Logs, "did not start") {
			t.Errorf("Upload() = %+v, %v; want it there, offline, and why", d, err)
		}
	})
}

func TestUploadRefusals(t *testing.T) {
	tests := []struct {
		name, file string
		prepare    func(w *world)
		kind       app.Kind
		says       string
	}{
		{"not a ZIP", "bad", nil, app.Unusable, "not a ZIP"},
		{"no config", "", nil, app.Unusable, "no MAIN"},
		{"no MAIN", "MAIN=missing", nil, app.Unusable, "no MAIN"},
		{"over the account", "MAIN=a,RAM=1001", nil, app.Exhausted, "discloud.config: RAM=1001: the account"},
		{"site without ID", "MAIN=a,TYPE=site", nil, app.Unusable, "TYPE=site needs ID"},
		{"site with a bad ID", "MAIN=a,TYPE=site,ID=a_b", nil, app.Unusable, `ID="a_b"`},
		{"site called all", "MAIN=a,TYPE=site,ID=all", nil, app.Unusable, `ID="all"`},
		{"site of digits", "MAIN=a,TYPE=site,ID=1745338954955", nil, app.Unusable, "with a letter"},
		{"publish fails", "MAIN=a", func(w *world) { w.fail["Publish"] = errTest }, app.Internal, "it broke"},
		{"the record fails", "MAIN=a", func(w *world) { w.fail["CreateApp"] = errTest }, app.Internal, "it broke"},
		{"build fails", "MAIN=a,BUILD=make", func(w *world) { w.set(exits(2, time.Second)) }, app.Unusable, `"make" failed with exit code 2`},
		{"build cannot start", "MAIN=a,BUILD=make", func(w *world) {
			w.set(func(app.Program) behaviour { return behaviour{err: errTest} })
		}, app.Internal, "it broke"},
		{"build takes too much memory", "MAIN=a,BUILD=make", func(w *world) {
			w.set(func(app.Program) behaviour {
				return behaviour{exit: &app.Exit{Code: 137, OOM: true}, life: time.Second}
			})
		}, app.Unusable, "needed more than 512 MB"},
		{"build takes too long", "MAIN=a,BUILD=make", nil, app.Unusable, "took longer than 10m0s"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			play(t, func(t *testing.T, w *world) {
				if tt.prepare != nil {
					tt.prepare(w)
				}
				_, err := w.upload(tt.file)
				wantKind(t, err, tt.kind)
				if err != nil && !strings.Contains(err.Error(), tt.says) {
					t.Errorf("the sentence is %q, want %q in it", err, tt.says)
				}
				if len(w.host.Apps(owner)) != 0 || len(w.apps) != 0 {
					t.Errorf("an application is there: %v", w.apps)
				}
			})
		})
	}
}

func TestBuildErrorsCarryTheOutput(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		w.set(exits(2, time.Second))
		_, err := w.upload("MAIN=a,BUILD=make")
		var e *app.Error
		if !errors.As(err, &e) || e.Logs != "build output\n" {
			t.Errorf("got %#v, want the build's output with it", err)
		}
	})
}

func TestBuildsTakeTurns(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		w.set(func(p app.Program) behaviour {
			if !p.Build {
				return behaviour{}
			}
			for _, r := range w.runs {
				if r.p.Build && !r.ended() {
					t.Error("two builds at once")
				}
			}
			return behaviour{exit: &app.Exit{}, life: time.Minute}
		})
		begin := time.Now()
		done := make(chan error, 3)
		for range 3 {
			go func() { _, err := w.upload("MAIN=a,BUILD=make"); done <- err }()
		}
		for range 3 {
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
		if took := time.Since(begin); took < 3*time.Minute {
			t.Errorf("three builds of a minute took %s", took)
		}
	})
}

func TestStartStopRestart(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		ctx := t.Context()
		id := w.mustUpload("MAIN=a")
		_, err := w.host.Start(ctx, owner, id)
		wantKind(t, err, app.Already)
		if err := w.host.Restart(ctx, owner, id); err != nil || w.launches(id) != 2 {
			t.Errorf("Restart() = %v after %d launches", err, w.launches(id))
		}
		if err := w.host.Stop(ctx, owner, id); err != nil {
			t.Fatal(err)
		}
		s := w.snapshot(id)
		if s.State != app.Stopped || s.Running || s.Wanted != app.WantStopped || s.LastExit == nil || !s.LastExit.Asked {
			t.Errorf("after Stop: %+v", s)
		}
		wantKind(t, w.host.Stop(ctx, owner, id), app.Already)
		wantKind(t, w.host.Restart(ctx, owner, id), app.Already)
		s, err = w.host.Start(ctx, owner, id)
		if err != nil || !s.Running || s.ExitCode() != 0 || s.LastExit != nil {
			t.Errorf("Start() = %+v, %v; want it online with its last exit forgotten", s, err)
		}
		_, err = w.host.Start(ctx, 2, id)
		wantKind(t, err, app.NotFound)
		wantKind(t, w.host.Stop(ctx, owner, "nothing"), app.NotFound)
	})
}

func TestStoppingIsBusy(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		w.set(func(app.Program) behaviour { return behaviour{onStop: time.Minute} })
		id := w.mustUpload("MAIN=a")
		stopped := make(chan error)
		begin := time.Now()
		go func() { stopped <- w.host.Stop(context.Background(), owner, id) }()
		synctest.Wait()
		if s := w.snapshot(id); s.State != app.Stopping || s.Running {
			t.Errorf("while stopping: %+v", s)
		}
		_, err := w.host.Start(t.Context(), owner, id)
		wantKind(t, err, app.Conflict)
		wantKind(t, w.host.Stop(t.Context(), owner, id), app.Conflict)
		wantKind(t, w.host.Restart(t.Context(), owner, id), app.Conflict)
		_, err = w.host.Commit(t.Context(), owner, id, "MAIN=b")
		wantKind(t, err, app.Conflict)
		if err := <-stopped; err != nil || time.Since(begin) != 10*time.Second {
			t.Errorf("Stop() = %v after %s, want the grace of 10 s", err, time.Since(begin))
		}
		if s := w.snapshot(id); s.ExitCode() != 137 || s.RAMKilled() {
			t.Errorf("after the kill: %+v", s.LastExit)
		}
	})
}

func TestCrashLoopBacksOff(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		w.set(exits(3, 10*time.Second))
		id := w.mustUpload("MAIN=a,AUTORESTART=true")
		time.Sleep(8*time.Second + time.Millisecond) // the first life ends at 10 s
		if s := w.snapshot(id); !s.Running || s.Attempt != 1 || s.ExitCode() != 3 || w.launches(id) != 2 {
			t.Fatalf("the first restart is not at once: %+v", s)
		}
		for n, pause := range []time.Duration{1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300} {
			time.Sleep(10 * time.Second) // it lives and crashes again
			s := w.snapshot(id)
			if s.State != app.Waiting || s.Running || s.Attempt != n+2 || time.Until(s.RetryAt).Round(time.Second) != pause*time.Second {
				t.Fatalf("crash %d: %+v, retry in %s; want %s", n+2, s, time.Until(s.RetryAt), pause*time.Second)
			}
			time.Sleep(pause * time.Second)
			if !w.snapshot(id).Running {
				t.Fatalf("restart %d did not happen", n+2)
			}
		}
		if !w.noted(id, "exited with code 3 after 10s; restart 2 follows in 1s") {
			t.Errorf("the log says %q", w.notes[id])
		}
	})
}

func TestHealthyMinuteResetsTheCount(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		w.set(exits(3, time.Second))
		id := w.mustUpload("MAIN=a,AUTORESTART=true")
		time.Sleep(20 * time.Second)
		if s := w.snapshot(id); s.Attempt < 3 {
			t.Fatalf("attempt %d, want several", s.Attempt)
		}
		w.set(exits(3, 2*time.Minute))
		time.Sleep(15*time.Second + 70*time.Second)
		if s := w.snapshot(id); !s.Running || s.Attempt != 0 {
			t.Errorf("after a healthy minute: %+v", s)
		}
	})
}

func TestOOMIsRestartedTheSameWay(t *testing.T) {
	oom := func(app.Program) behaviour {
		return behaviour{exit: &app.Exit{Code: 137, Signal: 9, OOM: true}, life: 5 * time.Second}
	}
	play(t, func(t *testing.T, w *world) {
		w.set(oom)
		id := w.mustUpload("MAIN=a,AUTORESTART=true")
		time.Sleep(4 * time.Second)
		if s := w.snapshot(id); !s.Running || !s.RAMKilled() || s.ExitCode() != 137 {
			t.Errorf("after an automatic restart: %+v; want it online and the kill still told", s)
		}
		if !w.noted(id, "killed: needed more than 100 MB") {
			t.Errorf("the log says %q", w.notes[id])
		}
	})
	play(t, func(t *testing.T, w *world) {
		w.set(oom)
		id := w.mustUpload("MAIN=a")
		time.Sleep(time.Hour)
		if s := w.snapshot(id); s.Running || !s.RAMKilled() || s.ExitCode() != 137 || w.launches(id) != 1 {
			t.Errorf("without autoRestart: %+v", s)
		}
		w.set(func(app.Program) behaviour { return behaviour{} })
		if s, err := w.host.Start(t.Context(), owner, id); err != nil || s.RAMKilled() || s.ExitCode() != 0 {
			t.Errorf("a person's start: %+v, %v; want the kill forgotten", s, err)
		}
	})
}

func TestCleanExitStaysOffline(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		w.set(exits(0, time.Minute))
		id := w.mustUpload("MAIN=a,AUTORESTART=true")
		time.Sleep(time.Hour)
		if s := w.snapshot(id); s.State != app.Stopped || w.launches(id) != 1 || s.ExitCode() != 0 {
			t.Errorf("%+v after %d launches", s, w.launches(id))
		}
	})
}

func TestWaitingObeys(t *testing.T) {
	tests := []struct {
		name string
		do   func(w *world, id app.ID) error
		runs bool
	}{
		{"start", func(w *world, id app.ID) error { _, err := w.host.Start(context.Background(), owner, id); return err }, true},
		{"restart", func(w *world, id app.ID) error { return w.host.Restart(context.Background(), owner, id) }, true},
		{"stop", func(w *world, id app.ID) error { return w.host.Stop(context.Background(), owner, id) }, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			play(t, func(t *testing.T, w *world) {
				w.set(exits(1, time.Second))
				id := w.mustUpload("MAIN=a,AUTORESTART=true")
				for w.snapshot(id).State != app.Waiting || w.snapshot(id).Attempt < 6 {
					time.Sleep(100 * time.Millisecond)
				}
				w.set(func(app.Program) behaviour { return behaviour{} })
				n := w.launches(id)
				if err := tt.do(w, id); err != nil {
					t.Fatal(err)
				}
				time.Sleep(time.Hour)
				if s := w.snapshot(id); s.Running != tt.runs || s.Attempt != 0 {
					t.Errorf("then %+v, want running %t", s, tt.runs)
				}
				if got := w.launches(id) - n; (got == 1) != tt.runs {
					t.Errorf("%d more launches", got)
				}
			})
		})
	}
}

func TestDelete(t *testing.T) {
	for _, state := range []string{"online", "waiting", "stopped"} {
		t.Run(state, func(t *testing.T) {
			play(t, func(t *testing.T, w *world) {
				if state == "waiting" {
					w.set(exits(1, time.Second))
				}
				id := w.mustUpload("MAIN=a,AUTORESTART=true")
				switch state {
				case "waiting":
					for w.snapshot(id).State != app.Waiting {
						time.Sleep(100 * time.Millisecond)
					}
				case "stopped":
					if err := w.host.Stop(t.Context(), owner, id); err != nil {
						t.Fatal(err)
					}
				}
				if err := w.host.Delete(t.Context(), owner, id); err != nil {
					t.Fatal(err)
				}
				_, err := w.host.App(owner, id)
				wantKind(t, err, app.NotFound)
				wantKind(t, w.host.Delete(t.Context(), owner, id), app.NotFound)
				if len(w.apps) != 0 || len(w.trees) != 0 {
					t.Errorf("left behind: %v %v", w.apps, w.trees)
				}
			})
		})
	}
}

func TestDeleteThatFailsCanBeRepeated(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		id := w.mustUpload("MAIN=a")
		w.fail["DeleteApp"] = errTest
		wantKind(t, w.host.Delete(t.Context(), owner, id), app.Internal)
		w.mu.Lock()
		delete(w.fail, "DeleteApp")
		w.mu.Unlock()
		if err := w.host.Delete(t.Context(), owner, id); err != nil {
			t.Error(err)
		}
	})
}

func TestCapacity(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		w.total = 10000
		one := w.mustUpload("MAIN=a,RAM=1500")
		d, err := w.upload("MAIN=b,RAM=600")
		if err != nil || d.Running || !strings.Contains(d.Logs, "2000 MB") || !strings.Contains(d.Logs, "600 MB more do not fit") {
			t.Fatalf("Upload() = %+v, %v; want it there, offline, with the numbers", d, err)
		}
		_, err = w.host.Start(t.Context(), owner, d.ID)
		wantKind(t, err, app.Exhausted)
		wantKind(t, w.host.SetRAM(t.Context(), owner, one, 2001), app.Exhausted)
		if s := w.snapshot(one); s.RAM != 1500 || w.recorded(one).RAM != 1500 {
			t.Errorf("a refused RAM was kept: %d, recorded %d", s.RAM, w.recorded(one).RAM)
		}
		if err := w.host.Stop(t.Context(), owner, one); err != nil {
			t.Fatal(err)
		}
		if _, err := w.host.Start(t.Context(), owner, d.ID); err != nil {
			t.Errorf("with room again: %v", err)
		}
	})
}

func TestSetRAM(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		w.set(func(app.Program) behaviour { return behaviour{uses: 80} })
		id := w.mustUpload("MAIN=a")
		if err := w.host.SetRAM(t.Context(), owner, id, 300); err != nil || w.runs[0].ram.Load() != 300 || w.snapshot(id).RAM != 300 || w.launches(id) != 1 {
			t.Errorf("SetRAM(300) = %v; the program has %d", err, w.runs[0].ram.Load())
		}
		wantKind(t, w.host.SetRAM(t.Context(), owner, id, 50), app.Exhausted)
		wantKind(t, w.host.SetRAM(t.Context(), owner, id, 1001), app.Exhausted)
		if s := w.snapshot(id); s.RAM != 300 || w.recorded(id).RAM != 300 || w.runs[0].ram.Load() != 300 {
			t.Errorf("a refusal changed something: %d %d %d", s.RAM, w.recorded(id).RAM, w.runs[0].ram.Load())
		}
		if err := w.host.Stop(t.Context(), owner, id); err != nil {
			t.Fatal(err)
		}
		if err := w.host.SetRAM(t.Context(), owner, id, 50); err != nil || w.snapshot(id).RAM != 50 {
			t.Errorf("offline: %v", err)
		}
	})
}

func TestSetProfile(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		id := w.mustUpload("MAIN=a")
		name, avatar := "new", "https://x/y.png"
		if err := w.host.SetProfile(t.Context(), owner, id, app.Profile{Name: &name, AvatarURL: &avatar}); err != nil {
			t.Fatal(err)
		}
		if s := w.snapshot(id); s.Name != name || s.AvatarURL != avatar {
			t.Errorf("%+v", s.App)
		}
		w.fail["SetProfile"] = errTest
		other := "other"
		wantKind(t, w.host.SetProfile(t.Context(), owner, id, app.Profile{Name: &other}), app.Internal)
		if s := w.snapshot(id); s.Name != name {
			t.Errorf("a failed change is shown: %q", s.Name)
		}
	})
}

func TestStatusAndTerminal(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		w.set(func(app.Program) behaviour { return behaviour{uses: 40} })
		id := w.mustUpload("MAIN=a")
		s, err := w.host.Status(t.Context(), owner, id)
		if err != nil || s.Usage.MemoryBytes != 40<<20 || s.DiskBytes != 4096 {
			t.Errorf("Status() = %+v, %v", s, err)
		}
		w.mu.Lock()
		w.fail["Size"] = errTest
		w.mu.Unlock()
		if _, err := w.host.Status(t.Context(), owner, id); err != nil {
			t.Errorf("a size of this minute is measured again: %v", err)
		}
		time.Sleep(2 * time.Minute)
		_, err = w.host.Status(t.Context(), owner, id)
		wantKind(t, err, app.Internal)
		_, err = w.host.Status(t.Context(), 2, id)
		wantKind(t, err, app.NotFound)
		if term, err := w.host.Terminal(owner, id); err != nil || !strings.Contains(term.Small, "last words") || term.Big == "" {
			t.Errorf("Terminal() = %+v, %v", term, err)
		}
		_, err = w.host.Terminal(2, id)
		wantKind(t, err, app.NotFound)
		b, err := w.host.Backup(t.Context(), owner, id)
		if err != nil || b.File != "backup-1.zip" || time.Until(b.Expires) != time.Hour {
			t.Errorf("Backup() = %+v, %v", b, err)
		}
		_, err = w.host.Backup(t.Context(), 2, id)
		wantKind(t, err, app.NotFound)
	})
}
