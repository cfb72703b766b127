package main

import (
	"log/slog"
	"os"
	"testing"

	"berth/app"
	"berth/logs"
)

// A request that found the application a moment ago still reads: it does not
// bring back a log that is being removed.
func TestLogsAreRemovedWhileSomebodyReads(t *testing.T) {
	dir, id := t.TempDir(), app.ID("shop")
	b := newLogbook(dir, logs.Options{}, slog.New(slog.DiscardHandler))
	for range 200 {
		b.Note(id, "here")
		removed, read := make(chan struct{}), make(chan struct{})
		go func() {
			defer close(read)
			for {
				b.Tail(id, false, 100)
				select {
				case <-removed:
					return
				default:
				}
			}
		}()
		err := b.Remove(id)
		close(removed)
		<-read
		if err != nil || len(b.open) > 0 || len(b.removing) > 0 {
			t.Fatalf("Remove() = %v; open are %v, being removed %v", err, b.open, b.removing)
		}
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
	b.Note(id, "again")
	if got := b.Tail(id, false, 100); got == "" {
		t.Error("the next one of this name has no log")
	}
	if err := b.close(); err != nil {
		t.Error(err)
	}
}
