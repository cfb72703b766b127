package host

import (
	"context"
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
		_, err = w.host.Commit(t.Context(), owner, id, "MAIN=b", false)
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

func TestALongLifeResetsTheCount(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		w.set(exits(3, time.Second))
		id := w.mustUpload("MAIN=a,AUTORESTART=true")
		time.Sleep(20 * time.Second)
		if s := w.snapshot(id); s.Attempt < 3 {
			t.Fatalf("attempt %d, want several", s.Attempt)
		}
		w.set(exits(3, 20*time.Minute))
		time.Sleep(15*time.Second + 9*time.Minute)
		if s := w.snapshot(id); !s.Running || s.Attempt == 0 {
			t.Errorf("after nine minutes: %+v", s)
		}
		time.Sleep(2 * time.Minute)
		if s := w.snapshot(id); !s.Running || s.Attempt != 0 {
			t.Errorf("after ten minutes: %+v", s)
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

// A bot that lives for a minute each time is started 200 times in 24 hours and no more,
// also by later daemons; a person may start it at any time.
func TestDailyStarts(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		w.set(exits(1, 62*time.Second))
		w.host.DailyStarts = 200
		id := w.mustUpload("MAIN=a,AUTORESTART=true")
		began := time.Now()
		time.Sleep(24*time.Hour - time.Minute)
		s := w.snapshot(id)
		if s.State != app.Waiting || s.StartsByItself(time.Now()) != 200 || w.launches(id) != 201 {
			t.Fatalf("after a day: %s, %d starts by itself, %d in all; want 200 and 201", s.State, s.StartsByItself(time.Now()), w.launches(id))
		}
		if first := began.Add(62 * time.Second); s.RetryAt.Sub(first) < day-2*time.Second || s.RetryAt.Sub(first) > day+2*time.Second {
			t.Errorf("it waits until %s; want a day after %s", s.RetryAt, first)
		}
		if told := w.happenings(id, app.HistorySpent); told != 1 || !w.noted(id, "berth has started it 200 times in 24 hours and waits until "+s.RetryAt.UTC().Format("2006-01-02 15:04 UTC")) {
			t.Errorf("told %d times", told)
		}
		if _, err := w.host.Start(t.Context(), owner, id); err != nil {
			t.Fatalf("a person's start: %v", err)
		}
		time.Sleep(63 * time.Second)
		if s := w.snapshot(id); s.State != app.Waiting || s.Attempt != 1 {
			t.Errorf("after its crash: %s, attempt %d; want it to wait again", s.State, s.Attempt)
		}
		w.host.Shutdown(t.Context())
		w.host = w.open()
		w.host.DailyStarts = 200
		time.Sleep(time.Second)
		if err := w.host.Boot(t.Context()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		if now := w.snapshot(id); now.State != app.Waiting || now.Running || !now.RetryAt.Equal(s.RetryAt) {
			t.Errorf("after a boot: %s until %s; want it to wait until %s", now.State, now.RetryAt, s.RetryAt)
		}
		time.Sleep(time.Until(s.RetryAt) + time.Second)
		if s := w.snapshot(id); !s.Running || s.StartsByItself(time.Now()) != 200 {
			t.Errorf("a day after the first start: %s, %d starts by itself", s.State, s.StartsByItself(time.Now()))
		}
	})
}

// A start is free once the one before it by a whole budget is a day old.
func TestNextStart(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	at := func(hours ...int) (all []time.Time) {
		for _, h := range hours {
			all = append(all, now.Add(time.Duration(-h)*time.Hour))
		}
		return all
	}
	for _, c := range []struct {
		started []time.Time
		budget  int
		want    time.Duration
	}{
		{nil, 3, 0},
		{at(5, 4), 3, 0},
		{at(5, 4, 3), 3, 19 * time.Hour},
		{at(6, 5, 4, 3), 3, 19 * time.Hour},
		{at(30, 5, 4), 3, 0},
		{at(24, 5, 4), 3, 0},
		{at(5, 4, 3), 0, 0},
	} {
		if got := nextStart(c.started, c.budget, now).Sub(now); got != c.want {
			t.Errorf("%d starts, %d allowed: in %s, want %s", len(c.started), c.budget, got, c.want)
		}
	}
}
