package watch

import (
	"context"
	"strings"
	"testing"
	"time"

	"berth/app"
)

// exact watches lines that say where they are.
func exact(w *world, from app.LineStart, logs app.LogChoice) *Subscription {
	return w.watch(app.Watch{Account: ana, App: "shop", Kinds: app.LogEvent, Exact: true, From: from, Logs: logs})
}

// heard gathers what there is to tell within a second, and the last position.
func heard(t *testing.T, s *Subscription) (run, build, pos string, ended bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	for {
		events, err := s.Next(ctx)
		if err != nil {
			return run, build, pos, ended
		}
		for _, e := range events {
			switch {
			case e.Kind == app.EndEvent:
				ended = true
			case e.Lines.Build:
				build, pos = build+e.Lines.Text, e.Lines.Pos
			default:
				run, pos = run+e.Lines.Text, e.Lines.Pos
			}
		}
	}
}

// A stream of lines goes on where another one was, for both logs at once, also where there
// was no log yet.
func TestExactLinesGoOn(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		s := exact(w, app.LineStart{Mark: true}, app.BothLogs)
		run, build, pos, _ := heard(t, s)
		if run+build != "" || pos != "_" {
			t.Fatalf("told %q %q, at %q", run, build, pos)
		}
		s.Close()
		w.log("shop", false).print("one\n") // while nobody watched
		s = exact(w, app.LineStart{Pos: pos, Mark: true}, app.BothLogs)
		run, build, pos, _ = heard(t, s)
		if run != "one\n" || build != "" || pos != "4_" {
			t.Fatalf("told %q %q, at %q", run, build, pos)
		}
		w.log("shop", true).print("npm installs\n") // which nobody saw begin
		w.state("shop", app.Preparing, false)
		w.log("shop", false).print("two\n" + strings.Repeat("three\n", 20))
		run, build, pos, _ = heard(t, s)
		if run != "two\n"+strings.Repeat("three\n", 20) || build != "npm installs\n" || pos != "128_13" {
			t.Fatalf("told %q %q, at %q", run, build, pos)
		}
		w.hub.Close()
		if _, err := s.Next(t.Context()); app.KindOf(err) != app.Unavailable {
			t.Errorf("the end is %v", err)
		}
	})
}

func TestExactLinesBeginAndEnd(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		w.log("shop", false).print("one\ntwo\nthree\n")
		w.log("shop", true).print("built\n")
		for name, tt := range map[string]struct {
			from       app.LineStart
			logs       app.LogChoice
			run, build string
			ended      bool
		}{
			"from now on":      {app.LineStart{}, app.BothLogs, "", "", false},
			"the last two":     {app.LineStart{Last: 2}, app.RunLog, "two\nthree\n", "", false},
			"of the build":     {app.LineStart{Last: 2}, app.BuildLog, "", "built\n", false},
			"of both":          {app.LineStart{Last: 1}, app.BothLogs, "three\n", "built\n", false},
			"all, once":        {app.LineStart{All: true, Once: true}, app.BothLogs, "one\ntwo\nthree\n", "built\n", true},
			"on from there":    {app.LineStart{Pos: "4_6", Once: true}, app.BothLogs, "two\nthree\n", "", true},
			"no more, once":    {app.LineStart{Pos: "14_6", Once: true}, app.BothLogs, "", "", true},
			"another log then": {app.LineStart{Pos: "8_"}, app.BothLogs, "three\n", "built\n", false},
		} {
			s := exact(w, tt.from, tt.logs)
			run, build, _, ended := heard(t, s)
			if run != tt.run || build != tt.build || ended != tt.ended {
				t.Errorf("%s: told %q %q, ended: %v", name, run, build, ended)
			}
			if tt.ended {
				if _, err := s.Next(t.Context()); err == nil {
					t.Errorf("%s: it goes on", name)
				}
			}
			s.Close()
		}
		none := w.watch(app.Watch{Account: bob, App: "blog", Kinds: app.LogEvent, Exact: true, From: app.LineStart{All: true, Once: true}})
		if run, build, _, ended := heard(t, none); run+build != "" || !ended {
			t.Errorf("without a log: %q %q, ended: %v", run, build, ended)
		}
		for _, pos := range []string{"4", "x_6", "4_x"} {
			s, err := w.hub.Watch(t.Context(), app.Watch{Account: ana, App: "shop", Kinds: app.LogEvent, Exact: true, From: app.LineStart{Pos: pos}})
			if app.KindOf(err) != app.Invalid {
				t.Errorf("%q: %v, %v", pos, s, err)
			}
		}
	})
}
