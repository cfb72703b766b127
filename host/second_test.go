package host

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"berth/app"
)

// Everything else that may happen on trial.
func TestEventsOnTrial(t *testing.T) {
	pending := behaviour{listen: func(p app.Program, _ time.Duration) app.Listening { return app.Listening{} }}
	for name, c := range map[string]struct {
		do      func(w *world, id app.ID) error
		kind    app.Kind // of do's error; 0 for none
		commit  app.Kind // of the commit's
		running int
	}{
		"stop":     {func(w *world, id app.ID) error { return w.host.Stop(context.Background(), owner, id) }, 0, app.Conflict, 0},
		"delete":   {func(w *world, id app.ID) error { return w.host.Delete(context.Background(), owner, id) }, 0, app.Conflict, 0},
		"restart":  {func(w *world, id app.ID) error { return w.host.Restart(context.Background(), owner, id) }, app.Conflict, app.Unusable, 1},
		"commit":   {func(w *world, id app.ID) error { _, err := w.commit(id, "MAIN=c"); return err }, app.Conflict, app.Unusable, 1},
		"ram":      {func(w *world, id app.ID) error { return w.host.SetRAM(context.Background(), owner, id, 50) }, app.Conflict, app.Unusable, 1},
		"start":    {func(w *world, id app.ID) error { _, err := w.host.Start(context.Background(), owner, id); return err }, app.Already, app.Unusable, 1},
		"shutdown": {func(w *world, _ app.ID) error { w.host.Shutdown(context.Background()); return nil }, 0, app.Unavailable, 0},
		"leave":    {func(w *world, _ app.ID) error { w.succeed(true); return nil }, 0, app.Unavailable, 1},
	} {
		t.Run(name, func(t *testing.T) {
			visited(t, func(t *testing.T, w *world) {
				id := w.shop("")
				w.set(by(map[string]behaviour{"b": pending}))
				done := w.committing(id, "MAIN=b")
				time.Sleep(5 * time.Second)
				err := c.do(w, id)
				if c.kind == 0 && err != nil || c.kind != 0 && app.KindOf(err) != c.kind {
					t.Errorf("%s: %v", name, err)
				}
				if name == "stop" && len(w.running(id)) != 0 {
					t.Error("the stop is answered while something runs")
				}
				wantKind(t, <-done, c.commit)
				synctest.Wait()
				if all := w.running(id); len(all) != c.running || len(all) == 1 && all[0].p.Run != 1 {
					t.Errorf("%d run", len(all))
				}
				if a := w.apps[id]; a != nil && (w.trees[id] != "a" || a.Code.Main != "a" || (a.Wanted == app.WantOnline) != (name != "stop")) {
					t.Errorf("tree %q, record %+v", w.trees[id], a)
				}
			})
		})
	}
}

// An old program that ends on trial is no reason to give up; when the new one is
// not well either, it gets what it would have got.
func TestOldProgramThatEndsOnTrial(t *testing.T) {
	for _, well := range []bool{true, false} {
		for _, auto := range []string{"true", "false"} {
			visited(t, func(t *testing.T, w *world) {
				w.set(func(p app.Program) behaviour {
					switch {
					case p.Run == 1:
						return behaviour{exit: &app.Exit{Code: 7}, life: 10 * time.Second}
					case p.Argv[1] == "b":
						return behaviour{listen: func(p app.Program, lived time.Duration) app.Listening {
							if !well || lived < 10*time.Second {
								return app.Listening{}
							}
							return app.Listening{At: loopback(p.Port), Port: p.Port, Own: true}
						}}
					}
					return behaviour{}
				})
				id := w.shop(",AUTORESTART=" + auto)
				done := w.committing(id, "MAIN=b")
				time.Sleep(9 * time.Second)
				if s := w.snapshot(id); s.Running || s.State != app.Preparing || s.ExitCode() != 7 || len(w.running(id)) != 1 {
					t.Errorf("between the two: %+v", s)
				}
				err := <-done
				time.Sleep(time.Millisecond)
				s, all := w.snapshot(id), w.running(id)
				switch {
				case well && (err != nil || len(all) != 1 || s.Code.Main != "b" || s.State != app.Online || s.LastExit != nil || s.Wanted != app.WantOnline):
					t.Errorf("well: %v, %d run, %+v", err, len(all), s)
				case !well && auto == "true" && (err == nil || len(all) != 1 || all[0].p.Argv[1] != "a" || s.Code.Main != "a"):
					t.Errorf("not well: %v, %d run, %+v", err, len(all), s)
				case !well && auto == "false" && (err == nil || len(all) != 0 || s.State != app.Stopped || s.ExitCode() != 7 || s.Wanted != app.WantStopped):
					t.Errorf("not well, and not to be restarted: %v, %d run, %+v", err, len(all), s)
				}
				if w.host.Tally().RAM != app.MB(100*len(all)) {
					t.Errorf("%d MB are counted", w.host.Tally().RAM)
				}
			})
		}
	}
}

// What happens while the old program's last requests are answered.
func TestEventsInADrain(t *testing.T) {
	for name, c := range map[string]struct {
		do      func(w *world, id app.ID) error
		running []string // the code of what runs then
	}{
		"stop":    {func(w *world, id app.ID) error { return w.host.Stop(context.Background(), owner, id) }, nil},
		"delete":  {func(w *world, id app.ID) error { return w.host.Delete(context.Background(), owner, id) }, nil},
		"restart": {func(w *world, id app.ID) error { return w.host.Restart(context.Background(), owner, id) }, []string{"b"}},
		"commit":  {func(w *world, id app.ID) error { _, err := w.commit(id, "MAIN=c"); return err }, []string{"b", "c"}},
		"rollback": {func(w *world, id app.ID) error {
			w.when("Apply", func() {
				if n := len(w.running(id)); n > 0 {
					w.t.Errorf("the tree changes under %d programs", n)
				}
			})
			_, err := w.host.Rollback(context.Background(), owner, id, 0)
			return err
		}, []string{"a"}},
		"ram":      {func(w *world, id app.ID) error { return w.host.SetRAM(context.Background(), owner, id, 50) }, []string{"a", "b"}},
		"shutdown": {func(w *world, _ app.ID) error { w.host.Shutdown(context.Background()); return nil }, nil},
		"leave":    {func(w *world, _ app.ID) error { w.succeed(true); return nil }, []string{"b"}},
		"old ends": {func(w *world, _ app.ID) error { w.runs[0].Stop(time.Second); time.Sleep(time.Second); return nil }, []string{"b"}},
		"crash":    {func(w *world, _ app.ID) error { w.runs[1].Stop(0); time.Sleep(time.Second); return nil }, []string{"a", "b"}},
	} {
		t.Run(name, func(t *testing.T) {
			visited(t, func(t *testing.T, w *world) {
				id := w.shop(",AUTORESTART=true")
				port := w.snapshot(id).Reach
				w.visit(port, 1, 0)
				w.visit(loopback(int(port.Port())+10_000), 1, 0)
				if _, err := w.commit(id, "MAIN=b"); err != nil {
					t.Fatal(err)
				}
				w.runs[0].b.onStop = 5 * time.Second // longer than the new program
				if err := c.do(w, id); err != nil {
					t.Error(err)
				}
				synctest.Wait()
				var codes []string
				for _, r := range w.running(id) {
					codes = append(codes, r.p.Argv[1])
				}
				if !slices.Equal(codes, c.running) {
					t.Errorf("then %q run, want %q", codes, c.running)
				}
				if a := w.apps[id]; a != nil && name != "stop" && (a.Wanted != app.WantOnline || name != "crash" && name != "restart" && a.LastExit != nil) {
					t.Errorf("it is recorded as %+v", a)
				}
			})
		})
	}
}

// A commit that was recorded is good, whatever comes before its visitors do.
func TestEventsBetweenRecordAndPromotion(t *testing.T) {
	for name, c := range map[string]struct {
		do      func(w *world, id app.ID)
		running []string
	}{
		"stop": {func(w *world, id app.ID) {
			go func() { _ = w.host.Stop(context.Background(), owner, id) }()
			synctest.Wait()
		}, nil},
		"old ends": {func(w *world, _ app.ID) { w.runs[0].Stop(time.Second); time.Sleep(time.Second) }, []string{"b"}},
		"new ends": {func(w *world, _ app.ID) { w.runs[1].Stop(0); time.Sleep(time.Second) }, []string{"a"}},
		"both end": {func(w *world, _ app.ID) { w.runs[1].Stop(0); w.runs[0].Stop(0); time.Sleep(time.Second) }, nil},
	} {
		t.Run(name, func(t *testing.T) {
			visited(t, func(t *testing.T, w *world) {
				id := w.shop("")
				w.visit(w.snapshot(id).Reach, 1, 0)
				w.when("AddDeploy after", func() { c.do(w, id) })
				if _, err := w.commit(id, "MAIN=b"); err != nil {
					t.Fatal(err)
				}
				w.when("AddDeploy after", nil)
				synctest.Wait()
				var codes []string
				for _, r := range w.running(id) {
					codes = append(codes, r.p.Argv[1])
				}
				s := w.snapshot(id)
				if !slices.Equal(codes, c.running) || s.Code.Main != "b" || w.trees[id] != "b" || w.recorded(id).Code.Main != "b" || s.Running != slices.Contains(codes, "b") {
					t.Errorf("then %q run; it is %+v", codes, s)
				}
				time.Sleep(time.Minute)
				if got, want := len(w.running(id)), map[bool]int{true: 1}[s.Running]; got != want {
					t.Errorf("a minute later %d run, want %d", got, want)
				}
			})
		})
	}
}

// A kill for its RAM of a program that is drained, or of new code on trial, is no
// crash of the application.
func TestKillsOfASecondRunAreNoCrash(t *testing.T) {
	oom := &app.Exit{Code: 137, OOM: true, LimitMB: 100}
	for code, lives := range map[string]time.Duration{"a": 15 * time.Second, "b": time.Second} {
		visited(t, func(t *testing.T, w *world) {
			w.set(by(map[string]behaviour{code: {exit: oom, life: lives}}))
			id := w.shop(",AUTORESTART=true")
			w.visit(w.snapshot(id).Reach, 0, 1)
			_, err := w.commit(id, "MAIN=b")
			if (err == nil) != (code == "a") {
				t.Errorf("%s: the commit: %v", code, err)
			}
			wait := 12 * time.Second // of a, which is drained by then
			if code == "b" {
				wait = 2 * time.Second
			}
			time.Sleep(wait)
			s := w.snapshot(id)
			if s.State != app.Online || s.RAMKilled() || s.Attempt != 0 || w.recorded(id).LastExit != nil || len(w.running(id)) != 1 {
				t.Errorf("%s: %d run; it is %+v", code, len(w.running(id)), s)
			}
			if code == "b" && !w.noted(id, "the new program killed: needed more than 100 MB of RAM") {
				t.Errorf("notes %q", w.notes[id])
			}
		})
	}
}
