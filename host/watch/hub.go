package watch

import (
	"context"
	"slices"
	"sync"
	"time"

	"berth/app"
)

const (
	// perAccount and most bound the subscriptions that are open at a time.
	perAccount = 32
	most       = 256

	// mostKept is how many events of an application are kept, and allKept of all
	// together; each keeps leastKept whatever the others do.
	mostKept  = 256
	allKept   = 2048
	leastKept = 8
)

// Access says who may see what.
type Access struct {
	// Find returns an application, whoever has it.
	Find func(id app.ID) (app.Snapshot, bool)
	// Authorize fails unless an account may do what p names with an application of
	// another: with app.NotFound for who is no member, app.Forbidden without p.
	Authorize func(ctx context.Context, member app.AccountID, id app.ID, p app.Permission) (app.AccountID, error)
	// Memberships lists the applications of others that an account may use.
	Memberships func(ctx context.Context, member app.AccountID) ([]app.Membership, error)
}

// Outputs are the logs of applications, and of their builds. Both methods fail while there
// is no log.
type Outputs interface {
	// Follow follows a log from at most back bytes before now on.
	Follow(id app.ID, build bool, back int) (app.Follower, error)
	// Cursor reads a log from a place on: app.Invalid for a position that is none.
	Cursor(id app.ID, build bool, from app.LineStart) (app.LogCursor, error)
}

// Hub publishes events to those who watch. It is safe for concurrent use.
type Hub struct {
	access  Access
	outputs Outputs
	sampler *Sampler // gets all events; may be nil

	mu    sync.Mutex
	over  bool
	rings map[app.ID]*ring
	kept  int   // events in all rings
	began int64 // no event before is known
	last  int64 // the newest ID that was given
	subs  map[*Subscription]struct{}
	of    map[app.AccountID]int
}

// ring is the last events of one application.
type ring struct {
	owner   app.AccountID
	events  []app.Event
	dropped int64 // the newest ID that is kept no more
}

// NewHub returns a hub without events.
func NewHub(a Access, o Outputs) *Hub {
	now := time.Now().UnixMicro()
	return &Hub{
		access: a, outputs: o, rings: map[app.ID]*ring{}, began: now, last: now,
		subs: map[*Subscription]struct{}{}, of: map[app.AccountID]int{},
	}
}

// Publish sends an event of an application to those who watch it, and keeps it if
// its kind is kept. It gives it its ID and, unless it has one, its time.
// It never waits.
func (h *Hub) Publish(e app.Event) {
	if e.At.IsZero() {
		e.At = time.Now()
	}
	h.mu.Lock()
	if e.Kind.Kept() {
		// Microseconds since 1970, so that IDs grow over restarts; one more at least.
		h.last = max(h.last+1, time.Now().UnixMicro())
		e.ID = h.last
		h.keep(e)
	}
	for s := range h.subs {
		s.offer(e)
	}
	sampler := h.sampler
	h.mu.Unlock()
	if sampler != nil {
		sampler.observe(e)
	}
}

// keep puts an event into its ring. The caller holds mu.
func (h *Hub) keep(e app.Event) {
	r := h.rings[e.App]
	if r == nil {
		r = &ring{dropped: h.began}
		h.rings[e.App] = r
	}
	r.owner = e.Owner
	r.events = append(r.events, e)
	h.kept++
	h.trim(r)
	if h.kept <= 2*allKept {
		return
	}
	for _, r := range h.rings { // there are more applications than when these were kept
		h.trim(r)
	}
	if h.kept > 2*allKept {
		h.dropRemoved()
	}
}

// trim drops the oldest events of a ring that has more than its share. The
// caller holds mu.
func (h *Hub) trim(r *ring) {
	share := min(max(allKept/len(h.rings), leastKept), mostKept)
	if n := len(r.events) - share; n > 0 {
		r.dropped = r.events[n-1].ID
		r.events = slices.Delete(r.events, 0, n)
		h.kept -= n
	}
}

// dropRemoved forgets the applications that are no more. Who was away since
// then gets a reset, and reads everything anew. The caller holds mu.
func (h *Hub) dropRemoved() {
	for id, r := range h.rings {
		if n := len(r.events); n > 0 && r.events[n-1].Kind == app.RemovedEvent {
			h.began = max(h.began, r.events[n-1].ID)
			h.kept -= n
			delete(h.rings, id)
		}
	}
}

// missed returns what s would have got since last, oldest first; false
// when that is not known any more. The caller holds mu.
func (h *Hub) missed(s *Subscription, last int64) ([]app.Event, bool) {
	if last < h.began || last > h.last {
		return nil, false
	}
	var all []app.Event
	for id, r := range h.rings {
		if s.watch.App != app.All && id != s.watch.App {
			continue
		}
		if s.concerns(r.owner, id) && last < r.dropped {
			return nil, false
		}
		for _, e := range r.events {
			if e.ID > last && s.watch.Kinds.Has(e.Kind) && s.concerns(e.Owner, id) {
				all = append(all, e)
			}
		}
	}
	slices.SortFunc(all, func(a, b app.Event) int { return int(a.ID - b.ID) })
	if len(all) > queued {
		return nil, false
	}
	return all, true
}

// Watch subscribes an account. It fails with app.NotFound and app.Forbidden for
// what the account may not see, app.Invalid for lines of more than one
// application, app.Limited and app.Unavailable when too many watch already. The
// caller MUST Close the subscription.
func (h *Hub) Watch(ctx context.Context, w app.Watch) (app.Stream, error) {
	if w.App == app.All && w.Kinds.Has(app.LogEvent) {
		return nil, app.Errorf(app.Invalid, "cannot show the lines of all applications at once: name one")
	}
	w.Kinds |= app.RemovedEvent
	s := &Subscription{hub: h, watch: w, ready: make(chan struct{}, 1), closed: make(chan struct{})}
	if err := s.Check(ctx); err != nil {
		return nil, err
	}
	h.mu.Lock()
	switch {
	case h.over:
		h.mu.Unlock()
		return nil, errOver
	case h.of[w.Account] >= perAccount:
		h.mu.Unlock()
		return nil, app.Errorf(app.Limited, "cannot watch more: your account has %d streams of events open, as many as one account gets", perAccount)
	case len(h.subs) >= most:
		h.mu.Unlock()
		return nil, app.Errorf(app.Unavailable, "cannot watch now: all %d places for streams of events are taken; try again in a minute", most)
	}
	h.subs[s] = struct{}{}
	h.of[w.Account]++
	if w.Last != 0 {
		if events, known := h.missed(s, w.Last); known {
			s.queue = events
		} else {
			s.queue = []app.Event{{ID: h.last, Kind: app.ResetEvent, At: time.Now()}}
		}
		s.wake()
	}
	sampler := h.sampler
	h.mu.Unlock()
	if err := s.followLogs(); err != nil {
		s.Close()
		return nil, err
	}
	if sampler != nil {
		sampler.wake()
	}
	return s, nil
}

// Last returns the newest ID. Who reads everything and then watches with it as
// app.Watch.Last misses nothing.
func (h *Hub) Last() int64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.last
}

// watched returns a function that reports whose figures somebody watches, nil when
// nobody does.
func (h *Hub) watched() func(owner app.AccountID, id app.ID) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	var subs []*Subscription
	for s := range h.subs {
		if s.watch.Kinds.Has(app.MetricEvent) {
			subs = append(subs, s)
		}
	}
	if len(subs) == 0 {
		return nil
	}
	return func(owner app.AccountID, id app.ID) bool {
		return slices.ContainsFunc(subs, func(s *Subscription) bool { return s.figures(id) && s.concerns(owner, id) })
	}
}

// Close ends all subscriptions, and lets no other begin.
func (h *Hub) Close() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.over = true
	for s := range h.subs {
		s.end()
	}
}
