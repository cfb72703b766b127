package proxy

import (
	"context"
	"sync"
	"time"
)

const (
	// holdFor is how long a request waits for a site that is starting, and
	// holdEvery how often it looks.
	holdFor   = 10 * time.Second
	holdEvery = 20 * time.Millisecond
	// heldOfOne is how many requests wait for one site, and heldInAll for all.
	heldOfOne = 64
	heldInAll = 512
)

// holds bounds the requests that wait. It is safe for concurrent use.
type holds struct {
	patience time.Duration
	released chan struct{} // closed when nobody is to wait any more
	once     sync.Once

	mu  sync.Mutex
	all int
	of  map[string]int
}

// enter takes a place for a request to a site, if there is one.
func (h *holds) enter(id string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.all >= heldInAll || h.of[id] >= heldOfOne {
		return false
	}
	h.all++
	h.of[id]++
	return true
}

func (h *holds) leave(id string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.all--
	if h.of[id]--; h.of[id] == 0 {
		delete(h.of, id)
	}
}

// Release lets all requests that wait for a site go on, to the page that says
// that it is starting, and holds none from then on.
func (p *Proxy) Release() { p.holds.once.Do(func() { close(p.holds.released) }) }

// awaited reports whether a request for the site is worth a wait: it will be
// there in a moment, and nobody knows of a later one.
func (s Site) awaited() bool {
	return s.State == Starting && s.Port == 0 && s.Retry == 0
}

// hold blocks while a site is starting, and returns it as it is then.
func (p *Proxy) hold(ctx context.Context, s Site) Site {
	h := &p.holds
	if !h.enter(s.ID) {
		return s
	}
	defer h.leave(s.ID)
	ctx, cancel := context.WithTimeout(ctx, h.patience)
	defer cancel()
	ticker := time.NewTicker(holdEvery)
	defer ticker.Stop()
	for s.awaited() {
		select {
		case <-ticker.C:
		case <-ctx.Done(): // of a visitor who has gone too
			return s
		case <-h.released:
			return s
		}
		now, ok := p.Look(s.ID)
		if !ok {
			return Site{ID: s.ID, State: Stopped}
		}
		s = now
	}
	return s
}

// admit waits until the site of a request is there, and counts the request for
// its program. The function it returns MUST be called when that is answered.
func (p *Proxy) admit(ctx context.Context, a *asked, socket bool) (leave func()) {
	if a.site.awaited() {
		a.site = p.hold(ctx, a.site)
	}
	for range 8 { // a site does not move that often
		if a.site.Port == 0 {
			break
		}
		leave := p.flights.enter(a.site.Port, socket)
		// Whoever moved the site to another port has told that before asking for
		// the requests that are under way: so it sees this one, or this sees that.
		now, ok := p.Look(a.site.ID)
		if ok && now.Port == a.site.Port {
			return leave
		}
		leave()
		if !ok {
			now = Site{ID: a.site.ID, State: Stopped}
		}
		if a.site = now; now.awaited() {
			a.site = p.hold(ctx, now)
		}
	}
	return func() {}
}

// flights counts the requests under way by the port they went to. It is safe for
// concurrent use; the zero value is ready.
type flights struct {
	mu sync.Mutex
	by map[int]flight
}

type flight struct{ requests, sockets int }

func (f *flights) enter(port int, socket bool) (leave func()) {
	f.add(port, socket, 1)
	return func() { f.add(port, socket, -1) }
}

func (f *flights) add(port int, socket bool, n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.by == nil {
		f.by = map[int]flight{}
	}
	now := f.by[port]
	if socket {
		now.sockets += n
	} else {
		now.requests += n
	}
	if f.by[port] = now; now == (flight{}) {
		delete(f.by, port)
	}
}

// drainEvery is how often Drain looks.
const drainEvery = 5 * time.Millisecond

// Drain blocks until no request is under way to a port, or ctx ends; with
// sockets WebSockets are requests too.
func (p *Proxy) Drain(ctx context.Context, port int, sockets bool) {
	ticker := time.NewTicker(drainEvery)
	defer ticker.Stop()
	for {
		p.flights.mu.Lock()
		now := p.flights.by[port]
		p.flights.mu.Unlock()
		if now.requests == 0 && (!sockets || now.sockets == 0) {
			return
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
	}
}
