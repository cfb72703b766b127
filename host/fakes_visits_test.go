package host

import (
	"context"
	"fmt"
	"time"

	"berth/app"
)

// web is the world's visitors.
type web struct {
	visited bool
	busy    map[int]int // requests under way by port
	sockets map[int]int // and WebSockets
	noPorts bool
}

// Spare implements Registry.
func (w *world) Spare(_ context.Context, id app.ID) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.noPorts {
		return 0, app.Errorf(app.Exhausted, "no port is left")
	}
	return w.apps[id].Port + 10_000, nil
}

// Healthy implements Visits.
func (w *world) Healthy(_ context.Context, id app.ID, port int, path string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, r := range w.runs {
		if r.p.App == id && r.p.Port == port && !r.ended() {
			if r.b.ill != nil {
				return fmt.Errorf("%s: %w", path, r.b.ill)
			}
			return nil
		}
	}
	return errTest
}

// Drain implements Visits.
func (w *world) Drain(ctx context.Context, port int, sockets bool) {
	for {
		w.mu.Lock()
		n := w.busy[port]
		if sockets {
			n += w.sockets[port]
		}
		w.mu.Unlock()
		timer := time.NewTimer(10 * time.Millisecond)
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-timer.C:
		}
		if n == 0 {
			return
		}
	}
}

// visit changes how many requests and WebSockets are under way at a port.
func (w *world) visit(port, requests, sockets int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.busy == nil {
		w.busy, w.sockets = map[int]int{}, map[int]int{}
	}
	w.busy[port], w.sockets[port] = requests, sockets
}

// Listens implements Instance.
func (r *instance) Listens() (app.Listening, error) {
	if r.b.listen != nil {
		return r.b.listen(r.p, time.Since(r.born)), nil
	}
	return app.Listening{Port: r.p.Port, Own: true}, nil
}

// Held implements Instance.
func (r *instance) Held(context.Context) (app.Space, error) {
	if err := r.w.failing("Held"); err != nil {
		return app.Space{}, err
	}
	r.w.mu.Lock()
	defer r.w.mu.Unlock()
	return app.Space{Bytes: r.w.held[r.p.App]}, nil
}

// running returns the programs of an application that run, oldest first.
func (w *world) running(id app.ID) []*instance {
	w.mu.Lock()
	defer w.mu.Unlock()
	var all []*instance
	for _, r := range w.runs {
		if r.p.App == id && !r.p.Build && !r.ended() {
			all = append(all, r)
		}
	}
	return all
}
