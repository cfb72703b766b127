package watch

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"berth/app"
)

const kept = app.StateEvent | app.ExitEvent | app.DeployEvent

// play runs a test in virtual time.
func play(t *testing.T, f func(t *testing.T, w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { f(t, newWorld(t)) })
}

func describe(events []app.Event) string {
	var all []string
	for _, e := range events {
		text := map[app.EventKind]string{
			app.StateEvent: "state", app.ExitEvent: "exit", app.DeployEvent: "deploy", app.RemovedEvent: "removed", app.MemoryEvent: "memory",
			app.MetricEvent: "metric", app.LogEvent: "log", app.GapEvent: "gap", app.ResetEvent: "reset", app.EndEvent: "end",
		}[e.Kind]
		switch {
		case e.Lines != nil:
			text += fmt.Sprintf(":%q", e.Lines.Text)
		case e.State != nil:
			text += ":" + string(e.App) + ":" + string(e.State.State)
		case e.Missed > 0:
			text += fmt.Sprint(":", e.Missed)
		}
		all = append(all, text)
	}
	return strings.Join(all, " ")
}

// Who is told what: by application, by kind, by owner and team.
func TestWhoIsTold(t *testing.T) {
	for name, tt := range map[string]struct {
		watch app.Watch
		join  []app.Permission
		want  string
	}{
		"the owner":             {app.Watch{Account: ana, App: "shop", Kinds: kept}, nil, "state:shop:online exit"},
		"all of the owner's":    {app.Watch{Account: ana, App: app.All, Kinds: kept}, nil, "state:shop:online exit"},
		"one kind":              {app.Watch{Account: ana, App: app.All, Kinds: app.ExitEvent}, nil, "exit"},
		"all of a stranger's":   {app.Watch{Account: bob, App: app.All, Kinds: kept}, nil, "state:blog:online"},
		"a member":              {app.Watch{Account: bob, App: "shop", Kinds: kept}, []app.Permission{app.StatusApp}, "state:shop:online exit"},
		"all of a member's":     {app.Watch{Account: bob, App: app.All, Kinds: kept}, []app.Permission{app.StatusApp}, "state:shop:online state:blog:online exit"},
		"a member who may less": {app.Watch{Account: bob, App: app.All, Kinds: kept}, []app.Permission{app.StartApp}, "state:blog:online"},
	} {
		t.Run(name, func(t *testing.T) {
			play(t, func(t *testing.T, w *world) {
				if tt.join != nil {
					w.join(bob, "shop", tt.join...)
				}
				s := w.watch(tt.watch)
				w.state("shop", app.Online, true)
				w.state("blog", app.Online, true)
				w.hub.Publish(app.Event{Kind: app.ExitEvent, App: "shop", Owner: ana, Exit: &app.Exit{Code: 1}})
				if got := describe(told(t, s)); got != tt.want {
					t.Errorf("told %q, want %q", got, tt.want)
				}
			})
		})
	}
}

func TestWhoMayNotWatch(t *testing.T) {
	w := newWorld(t)
	for name, tt := range map[string]struct {
		watch app.Watch
		join  []app.Permission
		want  app.Kind
	}{
		"a stranger":           {app.Watch{Account: bob, App: "shop", Kinds: kept}, nil, app.NotFound},
		"nobody's":             {app.Watch{Account: bob, App: "none", Kinds: kept}, nil, app.NotFound},
		"a member who may not": {app.Watch{Account: bob, App: "shop", Kinds: kept}, []app.Permission{app.LogsApp}, app.Forbidden},
		"lines without":        {app.Watch{Account: bob, App: "shop", Kinds: app.LogEvent}, []app.Permission{app.StatusApp}, app.Forbidden},
		"lines of all":         {app.Watch{Account: ana, App: app.All, Kinds: app.LogEvent}, nil, app.Invalid},
	} {
		w.join(bob, "blog")
		if tt.join != nil {
			w.join(bob, "shop", tt.join...)
		}
		if s, err := w.hub.Watch(t.Context(), tt.watch); err == nil || app.KindOf(err) != tt.want {
			t.Errorf("%s: %v, %v", name, s, err)
		}
	}
	if len(w.hub.subs) != 0 || len(w.hub.of) != 0 {
		t.Errorf("%d subscriptions are left", len(w.hub.subs))
	}
}

// Who is removed from a team is told nothing more, not even what waits already.
func TestAMemberLeaves(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		w.join(bob, "shop", app.StatusApp, app.LogsApp)
		w.log("shop", false)
		one := w.watch(app.Watch{Account: bob, App: "shop", Kinds: kept | app.LogEvent})
		all := w.watch(app.Watch{Account: bob, App: app.All, Kinds: kept})
		w.state("shop", app.Online, true)
		w.log("shop", false).print("secret\n")
		w.join(bob, "blog") // instead
		w.state("shop", app.Stopped, false)
		if a, b := told(t, one), told(t, all); len(a)+len(b) != 0 {
			t.Errorf("told %s and %s", describe(a), describe(b))
		}
		if err := one.Check(t.Context()); app.KindOf(err) != app.NotFound {
			t.Errorf("the check: %v", err)
		}
		if err := all.Check(t.Context()); err != nil {
			t.Error(err)
		}
		w.join(bob, "shop", app.StatusApp)
		if err := all.Check(t.Context()); err != nil {
			t.Error(err)
		}
		w.state("shop", app.Online, true)
		if got := describe(told(t, all)); got != "state:shop:online" {
			t.Errorf("a member again is told %q", got)
		}
	})
}

// What nobody could say of whether a member may know it is told as missed.
func TestNobodySaysWhetherAMemberMay(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		w.join(bob, "shop", app.StatusApp)
		all := w.watch(app.Watch{Account: bob, App: app.All, Kinds: kept})
		w.mu.Lock()
		w.deaf = context.DeadlineExceeded
		w.mu.Unlock()
		w.state("shop", app.Online, true)
		w.state("shop", app.Stopped, false)
		w.state("blog", app.Online, true) // one's own
		got := told(t, all)
		if last := got[len(got)-1]; len(got) != 2 || last.Kind != app.GapEvent || last.Missed != 2 || got[0].App != "blog" {
			t.Errorf("told %s", describe(got))
		}
	})
}

// Who comes back is told what was missed, or that it is not known.
func TestLastEventID(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		watch := func(id app.ID, last int64) string {
			s, err := w.hub.Watch(t.Context(), app.Watch{Account: ana, App: id, Kinds: kept, Last: last})
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			return describe(told(t, s))
		}
		began := w.hub.Last()
		w.state("shop", app.Starting, true)
		middle := w.hub.Last()
		w.state("shop", app.Online, true)
		w.state("blog", app.Online, true)
		for _, tt := range []struct {
			name string
			id   app.ID
			last int64
			want string
		}{
			{"from the start", "shop", began, "state:shop:starting state:shop:online"},
			{"from the middle", "shop", middle, "state:shop:online"},
			{"all from the middle", app.All, middle, "state:shop:online"},
			{"up to date", "shop", w.hub.Last(), ""},
			{"first look", "shop", 0, ""},
			{"from an earlier daemon", "shop", began - 1, "reset"},
			{"nonsense", "shop", -1, "reset"},
			{"to come", "shop", w.hub.Last() + 1, "reset"},
		} {
			if got := watch(tt.id, tt.last); got != tt.want {
				t.Errorf("%s: told %q, want %q", tt.name, got, tt.want)
			}
		}
		for range mostKept { // the first are forgotten
			w.state("shop", app.Online, true)
		}
		if got := watch("shop", middle); got != "reset" {
			t.Errorf("after too many: %q", got)
		}
		// A later daemon knows nothing, and its IDs are higher.
		last := w.hub.Last()
		time.Sleep(time.Second)
		later := newWorld(t)
		if later.hub.Last() <= last {
			t.Errorf("IDs begin anew: %d after %d", later.hub.Last(), last)
		}
	})
}

// Who reads too slowly misses events and is told; nobody waits for that.
func TestASlowReader(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		s := w.watch(app.Watch{Account: ana, App: "shop", Kinds: kept})
		for range queued + 7 {
			w.state("shop", app.Online, true)
		}
		events := told(t, s)
		if len(events) != queued+1 || describe(events[queued:]) != "gap:7" {
			t.Errorf("%d events, the last is %s", len(events), describe(events[len(events)-1:]))
		}
		w.state("shop", app.Stopped, false)
		if got := describe(told(t, s)); got != "state:shop:stopped" {
			t.Errorf("afterwards %q", got)
		}
	})
}

func TestPlacesForStreams(t *testing.T) {
	w := newWorld(t)
	var all []app.Stream
	for range perAccount {
		all = append(all, w.watch(app.Watch{Account: ana, App: app.All, Kinds: kept}))
	}
	if _, err := w.hub.Watch(t.Context(), app.Watch{Account: ana, App: app.All, Kinds: kept}); app.KindOf(err) != app.Limited {
		t.Errorf("one more: %v", err)
	}
	all[0].Close()
	all[0].Close()
	w.watch(app.Watch{Account: ana, App: app.All, Kinds: kept})
	for n := range most - perAccount {
		w.watch(app.Watch{Account: app.AccountID(10 + n), App: app.All, Kinds: kept})
	}
	if _, err := w.hub.Watch(t.Context(), app.Watch{Account: bob, App: app.All, Kinds: kept}); app.KindOf(err) != app.Unavailable {
		t.Errorf("one more of all: %v", err)
	}
}

// When the daemon ends every stream does, and no other begins.
func TestTheHubCloses(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		s := w.watch(app.Watch{Account: ana, App: "shop", Kinds: kept})
		ended := make(chan error, 1)
		go func() {
			_, err := s.Next(context.Background())
			ended <- err
		}()
		synctest.Wait()
		w.hub.Close()
		if err := <-ended; !errors.Is(err, errOver) {
			t.Errorf("ended with %v", err)
		}
		if _, err := w.hub.Watch(t.Context(), app.Watch{Account: ana, App: "shop", Kinds: kept}); !errors.Is(err, errOver) {
			t.Errorf("a new one: %v", err)
		}
		w.state("shop", app.Online, true)
	})
}

// However many applications come and go, what is kept is bounded.
func TestWhatIsKeptIsBounded(t *testing.T) {
	w := newWorld(t)
	for n := range 3000 {
		id := app.ID(fmt.Sprint("app-", n))
		for range 1 + n%20 {
			w.hub.Publish(app.Event{Kind: app.StateEvent, App: id, Owner: ana, State: &app.StateChange{}})
		}
		if n%10 > 0 {
			w.hub.Publish(app.Event{Kind: app.RemovedEvent, App: id, Owner: ana})
		}
	}
	sum := 0
	for _, r := range w.hub.rings {
		sum += len(r.events)
	}
	if sum != w.hub.kept || sum > 2*allKept+300*leastKept {
		t.Errorf("%d events are kept, %d counted", sum, w.hub.kept)
	}
}

// Readers, writers and the end, all at once.
func TestAllAtOnce(t *testing.T) {
	w := newWorld(t)
	w.log("shop", false)
	var work sync.WaitGroup
	for range 8 {
		work.Go(func() {
			for range 50 {
				s, err := w.hub.Watch(context.Background(), app.Watch{Account: ana, App: "shop", Kinds: kept | app.LogEvent, Last: w.hub.Last() - rand.Int64N(3)})
				if err != nil {
					return
				}
				last := int64(0)
				ctx, cancel := context.WithTimeout(context.Background(), 5*time.Millisecond)
				for {
					events, err := s.Next(ctx)
					if err != nil {
						break
					}
					for _, e := range events {
						if e.ID != 0 && e.ID <= last {
							t.Errorf("event %d after %d", e.ID, last)
						}
						last = max(last, e.ID)
					}
				}
				cancel()
				s.Close()
			}
		})
		work.Go(func() {
			for range 500 {
				w.state("shop", app.Online, true)
				w.log("shop", false).print("line\n")
			}
		})
	}
	work.Wait()
	w.hub.Close()
	if len(w.hub.subs) != 0 {
		t.Errorf("%d subscriptions are left", len(w.hub.subs))
	}
}
