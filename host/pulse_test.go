package host

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestTally(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		w.total = 10000
		w.mustUpload("MAIN=a,RAM=100")
		off := w.mustUpload("MAIN=b")
		if err := w.host.Stop(t.Context(), owner, off); err != nil {
			t.Fatal(err)
		}
		if got := w.host.Tally(); got.Online != 1 || got.Offline != 1 || got.Waiting != 0 || got.Busy != 0 || got.RAM != 100 || got.Total != w.host.Capacity() {
			t.Errorf("with one of two online: %+v", got)
		}
	})
}

// A unit that does nothing for long is missed, and no other.
func TestAlive(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		w.total = 10000
		id := w.mustUpload("MAIN=a")
		w.mustUpload("MAIN=b")
		if err := w.host.Alive(t.Context()); err != nil {
			t.Errorf("while all answer: %v", err)
		}
		u, err := w.host.find(owner, id)
		if err != nil {
			t.Fatal(err)
		}
		release, done := make(chan struct{}), make(chan error)
		go func() {
			done <- u.do(context.Background(), func() error { <-release; return nil })
		}()
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := w.host.Alive(ctx); err == nil || !strings.Contains(err.Error(), "1 of 2 applications do not answer, "+string(id)+" among them") {
			t.Errorf("while one hangs: %v", err)
		}
		close(release)
		if err := <-done; err != nil {
			t.Error(err)
		}
		if err := w.host.Alive(t.Context()); err != nil {
			t.Errorf("when it goes on: %v", err)
		}
	})
}
