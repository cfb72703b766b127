package host

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"berth/app"
)

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
		w.mayRun.Store(1550) // the host has shrunk: one of two fits
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
		w.mayRun.Store(2000)
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

// slowly makes each start take as long, and returns the most that went on at once.
func (w *world) slowly(long time.Duration) (most func() int64) {
	var now, max atomic.Int64
	w.host.Launch = func(ctx context.Context, p app.Program) (Instance, error) {
		defer now.Add(-1)
		if n := now.Add(1); n > max.Load() {
			max.Store(n) // nobody else is there between the two, in a bubble
		}
		time.Sleep(long)
		return w.launch(ctx, p)
	}
	return max.Load
}

// A boot is over before what it starts: those that wait for their turn are shown as
// what they are, and take commands.
func TestBootStartsInTheBackground(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		w.total = 10000
		var ids []app.ID
		for range 20 {
			ids = append(ids, w.mustUpload("MAIN=a"))
		}
		w.host.Shutdown(context.Background())
		w.host = w.open()
		most := w.slowly(time.Second)
		begin := time.Now()
		if err := w.host.Boot(t.Context()); err != nil || time.Since(begin) > 0 {
			t.Fatalf("after %s: %v", time.Since(begin), err)
		}
		start, stop, restart, gone, commit, last := ids[14], ids[15], ids[16], ids[17], ids[18], ids[19]
		if s := w.snapshot(last); s.State != app.Starting || s.Running || s.Wanted != app.WantOnline {
			t.Errorf("before its turn it is %+v", s)
		}
		if n := w.host.Tally(); n.Waiting != 20 || n.Online != 0 {
			t.Errorf("the tally is %+v", n)
		}
		ctx := t.Context()
		if s, err := w.host.Status(ctx, owner, last); err != nil || s.Running || s.Usage != (app.Usage{}) {
			t.Errorf("its status is %+v, %v", s, err)
		}
		if err := w.host.Stop(ctx, owner, stop); err != nil {
			t.Error(err)
		}
		if err := w.host.Delete(ctx, owner, gone); err != nil {
			t.Error(err)
		}
		if _, err := w.host.Start(ctx, owner, start); err != nil || !w.snapshot(start).Running {
			t.Errorf("a start before its turn: %v", err)
		}
		if err := w.host.Restart(ctx, owner, restart); err != nil || !w.snapshot(restart).Running {
			t.Errorf("a restart before its turn: %v", err)
		}
		if d, err := w.commit(commit, "MAIN=b"); err != nil || !d.Running {
			t.Errorf("a commit before its turn: %+v, %v", d, err)
		}
		time.Sleep(time.Minute)
		for _, id := range ids {
			want := map[app.ID]int{stop: 1, gone: 1}[id]
			if want == 0 {
				want = 2
			}
			if n := w.launches(id); n != want && (id != commit || n != 3) { // its turn may have come before the commit
				t.Errorf("%s was started %d times, want %d", id, n, want)
			}
			if id != gone && w.snapshot(id).Running != (id != stop) {
				t.Errorf("%s is %+v", id, w.snapshot(id))
			}
		}
		if n := most(); n > startsAtOnce+1 { // and one that a person asked for
			t.Errorf("%d were started at once", n)
		}
	})
}

// What waits for its turn keeps nobody from stopping, and is not started any more.
func TestShutdownDuringABoot(t *testing.T) {
	for name, end := range map[string]func(w *world){
		"shutdown": func(w *world) { w.host.Shutdown(context.Background()) },
		"leave":    func(w *world) { w.host.Leave() },
	} {
		play(t, func(t *testing.T, w *world) {
			w.total = 10000
			var ids []app.ID
			for range 20 {
				ids = append(ids, w.mustUpload("MAIN=a"))
			}
			w.host.Shutdown(context.Background())
			w.host = w.open()
			w.slowly(time.Second)
			if err := w.host.Boot(t.Context()); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Second / 2)
			end(w)
			started := 0
			for _, id := range ids {
				started += w.launches(id) - 1
				if w.recorded(id).Wanted != app.WantOnline {
					t.Errorf("%s: %s is not wanted online any more", name, id)
				}
			}
			if started > startsAtOnce {
				t.Errorf("%s: %d were started", name, started)
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
}

func TestBootErrors(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		w.breaks("Apps", errTest)
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

// A daemon that died between the end of a program and its next start, in a commit or a restart,
// leaves an exit that nobody is to take for the program's own; one of its own stays.
func TestBootForgetsTheExitBerthAskedFor(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		asked, own := w.mustUpload("MAIN=a"), w.mustUpload("MAIN=b")
		w.host.Shutdown(context.Background())
		w.mu.Lock()
		w.apps[asked].LastExit = &app.Exit{Run: 1, Code: 143, Asked: true}
		w.apps[own].LastExit = &app.Exit{Run: 1, Code: 9}
		w.mu.Unlock()
		w.host = w.open()
		if err := w.host.Boot(t.Context()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		if s := w.snapshot(asked); !s.Running || s.ExitCode() != 0 || w.recorded(asked).LastExit != nil {
			t.Errorf("berth had ended it: %+v, recorded %+v", s, w.recorded(asked).LastExit)
		}
		if s := w.snapshot(own); !s.Running || s.ExitCode() != 9 {
			t.Errorf("it had crashed: %+v", s)
		}
	})
}
