package host

import (
	"context"
	"fmt"
	"sync"

	"berth/app"
)

// Tally counts what the host does.
type Tally struct {
	Online  int // or starting
	Waiting int // for their next start
	Busy    int // being deployed, and not running
	Offline int
	RAM     app.MB // of what runs
	Total   app.MB // that may run
	Behind  int    // applications of which something waits for the disk to be recorded
}

// Tally returns the numbers of now.
func (h *Host) Tally() Tally {
	h.mu.RLock()
	units := h.all()
	h.mu.RUnlock()
	var t Tally
	for _, u := range units {
		if u.records.behind() {
			t.Behind++
		}
		v := u.view.Load()
		switch v.State {
		case app.Starting, app.Online, app.Stopping:
			if v.State == app.Starting && !v.Running {
				t.Waiting++ // for its turn after the boot
				break
			}
			t.Online++
		case app.Waiting:
			t.Waiting++
		case app.Preparing:
			t.Busy++
		case app.Stopped:
			t.Offline++
		}
	}
	h.capacity.mu.Lock()
	defer h.capacity.mu.Unlock()
	for _, mb := range h.capacity.running {
		t.RAM += mb
	}
	t.Total = h.capacity.total
	return t
}

// Bound gives every program that runs its limit of memory again, after the
// kernel's was taken away. It blocks until all have it.
func (h *Host) Bound(ctx context.Context) {
	h.mu.RLock()
	units := h.all()
	h.mu.RUnlock()
	for _, u := range units {
		_ = u.do(ctx, func(reply func(error)) { // told here; of a unit that has ended, nothing
			if u.run != nil {
				if err := u.run.SetMemory(u.app.RAM); err != nil {
					u.log.Error("cannot limit the program again", "error", err)
				}
			}
			reply(nil)
		})
	}
}

// Alive asks the goroutine of every application for an answer. It fails when
// one has not given it before ctx ends; that of an application that is deleted
// meanwhile is not missed.
func (h *Host) Alive(ctx context.Context) error {
	h.mu.RLock()
	units := h.all()
	h.mu.RUnlock()
	var asking sync.WaitGroup
	silent := make(chan app.ID, len(units))
	for _, u := range units {
		asking.Go(func() {
			if err := u.do(ctx, func(reply func(error)) { reply(nil) }); err != nil && ctx.Err() != nil {
				silent <- u.id
			}
		})
	}
	asking.Wait()
	close(silent)
	if id, some := <-silent; some {
		return fmt.Errorf("%d of %d applications do not answer, %s among them", len(silent)+1, len(units), id)
	}
	return nil
}
