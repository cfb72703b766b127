package host

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"time"

	"berth/app"
)

// web is the world's visitors.
type web struct {
	visited bool
	busy    map[netip.AddrPort]int // requests under way
	sockets map[netip.AddrPort]int // and WebSockets
	noPorts bool
	asked   int // for the health of programs
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
func (w *world) Healthy(_ context.Context, id app.ID, at netip.AddrPort, path string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.asked++
	for _, r := range w.runs {
		if r.p.App == id && loopback(r.p.Port) == at && !r.ended() {
			if r.b.ill != nil {
				return fmt.Errorf("%s: %w", path, r.b.ill)
			}
			return nil
		}
	}
	return errTest
}

// Drain implements Visits.
func (w *world) Drain(ctx context.Context, at netip.AddrPort, sockets bool) {
	for {
		w.mu.Lock()
		n := w.busy[at]
		if sockets {
			n += w.sockets[at]
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

// loopback is where a program of the world listens.
func loopback(port int) netip.AddrPort {
	return netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), uint16(port))
}

// visit changes how many requests and WebSockets are under way to an address.
func (w *world) visit(at netip.AddrPort, requests, sockets int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.busy == nil {
		w.busy, w.sockets = map[netip.AddrPort]int{}, map[netip.AddrPort]int{}
	}
	w.busy[at], w.sockets[at] = requests, sockets
}

// Listens implements Instance.
func (r *instance) Listens() (app.Listening, error) {
	if r.b.listen != nil {
		return r.b.listen(r.p, time.Since(r.born)), nil
	}
	return app.Listening{At: loopback(r.p.Port), Port: r.p.Port, Own: true}, nil
}

// Dial implements Instance.
func (r *instance) Dial(context.Context, netip.AddrPort) (net.Conn, error) { return nil, errTest }

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
