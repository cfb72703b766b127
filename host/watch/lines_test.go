package watch

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"berth/app"
)

// Lines come ten times a second at most, from whichever log, also from one that
// is made while somebody watches; and only to who follows.
func TestLines(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		s := w.watch(app.Watch{Account: ana, App: "shop", Kinds: app.LogEvent})
		w.log("shop", false)
		w.state("shop", app.Starting, true) // from here on there may be a log
		if events := told(t, s); len(events) != 0 {
			t.Errorf("told %s", describe(events))
		}
		stop := make(chan struct{})
		var printing sync.WaitGroup
		printing.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-stop:
					return
				case <-time.After(time.Millisecond):
					w.log("shop", false).print(fmt.Sprintln(n))
				}
			}
		})
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		var text strings.Builder
		frames := 0
		for {
			events, err := s.Next(ctx)
			if err != nil {
				break
			}
			for _, e := range events {
				frames++
				text.WriteString(e.Lines.Text)
			}
		}
		close(stop)
		printing.Wait()
		if frames < 90 || frames > 101 {
			t.Errorf("%d frames in ten seconds", frames)
		}
		for n, line := range strings.Fields(text.String()) {
			if line != fmt.Sprint(n) {
				t.Fatalf("line %d is %q", n, line)
			}
		}
		w.log("shop", true)
		w.hub.Publish(app.Event{Kind: app.DeployEvent, App: "shop", Owner: ana, Deploy: &app.DeployStep{Phase: app.DeployBuilding}})
		_ = told(t, s)
		w.log("shop", true).print("built\n")
		time.Sleep(linePace)
		events := told(t, s)
		if i := slices.IndexFunc(events, func(e app.Event) bool { return e.Lines.Build }); i < 0 || events[i].Lines.Text != "built\n" {
			t.Errorf("of the build: %s", describe(events))
		}
		s.Close()
		if n := len(w.log("shop", false).followers) + len(w.log("shop", true).followers); n != 0 {
			t.Errorf("%d followers are left", n)
		}
	})
}
