package host

import (
	"strings"
	"testing"
	"time"

	"berth/app"
)

// feels lets the program that runs answer questions for its health so from now on.
func (w *world) feels(id app.ID, ill error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, r := range w.runs {
		if r.p.App == id && !r.ended() {
			r.b.ill = ill
		}
	}
}

// A site that does not answer three questions in a row is not well, until it answers again.
// Nothing restarts it whose owner has not asked for that.
func TestSiteThatDoesNotAnswer(t *testing.T) {
	visited(t, func(t *testing.T, w *world) {
		id := w.shop(",HEALTH=/up")
		unwell := func() bool { s := w.snapshot(id); return s.Unwell && s.Reachable() == app.SiteUnwell }
		time.Sleep(10 * time.Minute)
		if s, asked := w.snapshot(id), w.questions(); s.Unwell || asked < 18 || asked > 22 {
			t.Fatalf("after ten minutes: unwell %t, asked %d times, want about 20", s.Unwell, asked)
		}
		w.feels(id, errTest)
		time.Sleep(50 * time.Second) // two of three
		w.feels(id, nil)
		time.Sleep(time.Minute)
		w.feels(id, errTest)
		time.Sleep(50 * time.Second)
		if unwell() {
			t.Fatal("it is not well after less than three failures in a row")
		}
		time.Sleep(50 * time.Second)
		s := w.snapshot(id)
		if !unwell() || !s.Running || s.State != app.Online || !strings.Contains(s.Why.String(), "did not answer 3 questions for its health in a row: /up: it broke") {
			t.Fatalf("after three: %+v", s)
		}
		time.Sleep(10 * time.Minute)
		if n := w.happenings(id, app.HistoryUnwell); n != 1 || w.launches(id) != 1 {
			t.Errorf("told %d times, started %d times; want once each", n, w.launches(id))
		}
		w.feels(id, nil)
		time.Sleep(35 * time.Second)
		if s := w.snapshot(id); s.Unwell || !s.Why.IsZero() || !w.noted(id, "it answers the questions for its health again") {
			t.Errorf("once it answers: %+v", s)
		}
	})
}

// With AUTORESTART it is restarted, with the pauses of crashes, and within the budget of
// automatic starts.
func TestSiteThatDoesNotAnswerIsRestarted(t *testing.T) {
	visited(t, func(t *testing.T, w *world) {
		w.set(func(app.Program) behaviour { return behaviour{ill: errTest} })
		id := w.shop(",HEALTH=/up,AUTORESTART=true")
		time.Sleep(2 * time.Minute)
		if s := w.snapshot(id); w.launches(id) != 2 || s.Attempt != 1 || !s.Running || s.StartsByItself(time.Now()) != 1 {
			t.Fatalf("after two minutes: %d starts, %+v", w.launches(id), s)
		}
		time.Sleep(58 * time.Minute)
		s := w.snapshot(id)
		if n := w.launches(id); n < 10 || n > 25 { // each lives for 90 s, and then waits up to 5 minutes
			t.Errorf("%d starts in an hour", n)
		}
		if w.recorded(id).Wanted != app.WantOnline || w.happenings(id, app.HistoryUnwell) != w.launches(id)-b2i(s.Running) {
			t.Errorf("wanted %s, told %d times of %d runs", w.recorded(id).Wanted, w.happenings(id, app.HistoryUnwell), w.launches(id))
		}
		w.set(func(app.Program) behaviour { return behaviour{} })
		time.Sleep(time.Hour)
		if s := w.snapshot(id); s.State != app.Online || s.Unwell || s.Attempt != 0 {
			t.Errorf("once it is well: %+v", s)
		}
	})
}

// happenings counts what is remembered of a kind.
func (w *world) happenings(id app.ID, kind app.HistoryEventKind) (n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, e := range w.happened[id] {
		if e.Kind == kind {
			n++
		}
	}
	return n
}

// questions is how often sites were asked how they are.
func (w *world) questions() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.asked
}

func b2i(b bool) int {
	if b {
		return 1
	}
	return 0
}

// A stop, a commit and a delete come before the restart of a site that does not answer.
func TestStopBeforeTheRestartOfASite(t *testing.T) {
	visited(t, func(t *testing.T, w *world) {
		w.set(func(app.Program) behaviour { return behaviour{ill: errTest, onStop: 9 * time.Second} })
		id := w.shop(",HEALTH=/up,AUTORESTART=true")
		for w.snapshot(id).State != app.Stopping {
			time.Sleep(100 * time.Millisecond)
		}
		wantKind(t, w.host.Stop(t.Context(), owner, id), app.Conflict) // as beside every other stop
		time.Sleep(10 * time.Second)
		if err := w.host.Stop(t.Context(), owner, id); err != nil {
			t.Fatal(err)
		}
		launches := w.launches(id)
		time.Sleep(time.Hour)
		if s := w.snapshot(id); s.State != app.Stopped || w.launches(id) != launches || w.recorded(id).Wanted != app.WantStopped {
			t.Errorf("after a person's stop: %+v, %d starts", s, w.launches(id)-launches)
		}
	})
}

// Sites that name no path, or HEALTH=off, and bots are never asked.
func TestWhoIsNeverAsked(t *testing.T) {
	for _, more := range []string{"", ",HEALTH=off"} {
		visited(t, func(t *testing.T, w *world) {
			w.shop(more)
			w.mustUpload("MAIN=a")
			time.Sleep(24 * time.Hour)
			if asked := w.questions(); asked != 0 {
				t.Errorf("%q: asked %d times", more, asked)
			}
		})
	}
}
