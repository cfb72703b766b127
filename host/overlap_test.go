package host

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"berth/app"
)

// visited is play in a world whose sites are visited.
func visited(t *testing.T, f func(t *testing.T, w *world)) {
	t.Helper()
	play(t, func(t *testing.T, w *world) {
		w.visited = true
		w.host = w.open()
		f(t, w)
	})
}

// shop uploads a site whose program is online.
func (w *world) shop(more string) app.ID {
	w.t.Helper()
	id := w.mustUpload("MAIN=a,TYPE=site,ID=shop" + more)
	synctest.Wait()
	if s := w.snapshot(id); s.State != app.Online || s.Reach != loopback(s.Port) {
		w.t.Fatalf("the site is %s and reached at %s, want its port %d", s.State, s.Reach, s.Port)
	}
	return id
}

// committing is commit, under way.
func (w *world) committing(id app.ID, file string) <-chan error {
	done := make(chan error, 1)
	go func() {
		_, err := w.commit(id, file)
		done <- err
	}()
	synctest.Wait()
	return done
}

func TestCommitOfASiteHasNoPause(t *testing.T) {
	visited(t, func(t *testing.T, w *world) {
		id := w.shop(",AUTORESTART=true")
		before := w.snapshot(id)
		w.visit(before.Reach, 3, 1)
		done := w.committing(id, "MAIN=b")
		if all := w.running(id); len(all) != 2 || all[1].p.Port == before.Port || all[1].p.Journal != "journal-1" {
			t.Fatalf("%d programs run, the second as %+v", len(all), all[len(all)-1].p)
		}
		if s := w.snapshot(id); s.Reach != before.Reach || s.Code.Main != "a" || s.LastRun != 1 || w.recorded(id).LastRun != 1 {
			t.Errorf("on trial it is reached at %s, code %q, run %d", s.Reach, s.Code.Main, s.LastRun)
		}
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		s := w.snapshot(id)
		if s.Reach != loopback(before.Port+10_000) || s.Code.Main != "b" || s.LastRun != 2 || s.State != app.Online || w.recorded(id).LastRun != 2 || w.recorded(id).Code.Main != "b" {
			t.Errorf("then %+v, recorded %+v", s, w.recorded(id))
		}
		if len(w.running(id)) != 2 || w.host.Tally().RAM != 200 {
			t.Errorf("%d programs run with %d MB while requests are under way", len(w.running(id)), w.host.Tally().RAM)
		}
		w.visit(before.Reach, 0, 1) // a WebSocket is left
		time.Sleep(29 * time.Second)
		if len(w.running(id)) != 2 {
			t.Error("the WebSocket was cut before its time")
		}
		time.Sleep(2 * time.Second)
		if all := w.running(id); len(all) != 1 || all[0].p.Argv[1] != "b" || w.host.Tally().RAM != 100 || w.recorded(id).LastExit != nil {
			t.Errorf("%d programs with %d MB; the exit is %+v", len(all), w.host.Tally().RAM, w.recorded(id).LastExit)
		}
		if _, err := w.commit(id, "MAIN=c"); err != nil || w.snapshot(id).Reach != loopback(before.Port) {
			t.Errorf("the next one is reached at %s, %v", w.snapshot(id).Reach, err)
		}
	})
}

// New code that is not well changes nothing.
func TestUnwellCodeLeavesTheSiteAsItIs(t *testing.T) {
	crash := &app.Exit{Code: 3}
	for name, c := range map[string]struct {
		b      behaviour
		file   string
		says   string
		lasts  time.Duration
		broken string
	}{
		"dies":          {behaviour{exit: crash, life: time.Second}, "MAIN=b", "exited with code 3 after 1s): the program from before the commit goes on", 2 * time.Second, ""},
		"out of memory": {behaviour{exit: &app.Exit{Code: 137, OOM: true, LimitMB: 100}, life: time.Second}, "MAIN=b", "needed more than", 2 * time.Second, ""},
		"dies untold":   {behaviour{exit: crash, life: time.Second, late: 5 * time.Second}, "MAIN=b", "exited with code 3 after 1s): the program from before the commit goes on", 7 * time.Second, ""},
		"no port":       {behaviour{listen: func(app.Program, time.Duration) app.Listening { return app.Listening{} }}, "MAIN=b", "not well within 30s (it has opened no port", 31 * time.Second, ""},
		"wrong port":    {behaviour{listen: func(app.Program, time.Duration) app.Listening { return app.Listening{At: loopback(3000), Port: 3000} }}, "MAIN=b", "it listens on port 3000", 31 * time.Second, ""},
		"ill":           {behaviour{ill: errTest}, "MAIN=b,HEALTH=/up", "/up: it broke", 31 * time.Second, ""},
		"cannot start":  {behaviour{err: app.Errorf(app.Unusable, "no such interpreter")}, "MAIN=b", "no such interpreter", time.Second, ""},
		"not applied":   {behaviour{}, "MAIN=b", "it broke", time.Second, "Apply"},
		"not recorded":  {behaviour{}, "MAIN=b", "it broke", 3 * time.Second, "AddDeploy"},
	} {
		t.Run(name, func(t *testing.T) {
			visited(t, func(t *testing.T, w *world) {
				id := w.shop("")
				before := w.snapshot(id)
				w.set(by(map[string]behaviour{"b": c.b}))
				if c.broken != "" {
					w.breaks(c.broken, errTest)
				}
				begin := time.Now()
				_, err := w.commit(id, c.file)
				if err == nil || !strings.Contains(err.Error(), c.says) || time.Since(begin) > c.lasts {
					t.Errorf("after %s: %v, want %q", time.Since(begin), err, c.says)
				}
				s, all := w.snapshot(id), w.running(id)
				if len(all) != 1 || all[0].p.Run != 1 || s.Reach != before.Reach || s.Code != before.Code || s.State != app.Online || w.trees[id] != "a" || w.recorded(id).LastRun != 1 || s.LastExit != nil {
					t.Errorf("%d programs; it is %+v, tree %q", len(all), s, w.trees[id])
				}
				if w.host.Tally().RAM != 100 {
					t.Errorf("%d MB are counted", w.host.Tally().RAM)
				}
			})
		})
	}
}

// Where two may not run at once the first is stopped, its requests answered.
func TestSitesThatAreStoppedFirst(t *testing.T) {
	for name, c := range map[string]struct {
		set  func(w *world)
		more string
		file string
		note string
	}{
		"no RAM":     {func(w *world) { w.mayRun.Store(150) }, "", "MAIN=b", "do not fit"},
		"no port":    {func(w *world) { w.noPorts = true }, "", "MAIN=b", "no port is left"},
		"off":        {func(*world) {}, "", "MAIN=b,HEALTH=off", ""},
		"was off":    {func(*world) {}, ",HEALTH=off", "MAIN=b", ""},
		"wrong port": {func(w *world) { w.runs[0].b.listen = nil; w.host.units["shop"].run.listening.Own = false }, "", "MAIN=b", "process.env.PORT"},
	} {
		t.Run(name, func(t *testing.T) {
			visited(t, func(t *testing.T, w *world) {
				id := w.shop(c.more)
				c.set(w)
				port := w.snapshot(id).Port
				w.visit(loopback(port), 1, 5)
				done := w.committing(id, c.file)
				if s := w.snapshot(id); s.Running || len(w.running(id)) != 1 || s.State != app.Stopping {
					t.Errorf("with a request under way: %+v", s)
				}
				time.Sleep(time.Second)
				w.visit(loopback(port), 0, 5) // WebSockets are not waited for
				time.Sleep(100 * time.Millisecond)
				synctest.Wait()
				if all := w.running(id); len(all) != 1 || all[0].p.Argv[1] != "b" || all[0].p.Port != port {
					t.Errorf("then %d run", len(all))
				}
				if err := <-done; err != nil || c.note != "" && !w.noted(id, c.note) {
					t.Errorf("%v; notes %q", err, w.notes[id])
				}
			})
		})
	}
}
