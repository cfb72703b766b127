package watch

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"berth/app"
)

const (
	// every is how often all programs are measured: at each full minute.
	every = time.Minute
	// closely is how often those are that somebody watches.
	closely = 2 * time.Second
	// soon is when programs are measured for the first time that ran before the
	// daemon did: what they use is the difference between two looks.
	soon = time.Second
)

// Measure calls each for the programs that run; those that only refuses are left out,
// none when it is nil.
type Measure func(ctx context.Context, only func(owner app.AccountID, id app.ID) bool, each func(m app.Measured))

// Also is what is measured at each full minute beside the programs. Both functions may be nil.
type Also struct {
	// Answers calls each with what every site has answered since the daemon began.
	Answers func(each func(id app.ID, all app.Answers))
	// Host measures the host itself: the processor time of a mean processor, and bytes since it
	// was started.
	Host func() (app.Counts, error)
}

// Sampler measures programs. Its methods but Run are safe for concurrent use.
type Sampler struct {
	hub     *Hub
	measure Measure
	also    Also
	keep    func(now time.Time, points []app.PointOf) error
	log     *slog.Logger
	kick    chan struct{}

	mu     sync.Mutex
	active bool // a program may run
	visits bool // a site has answered since the last look
	fresh  bool // it does since a moment ago
	apps   map[app.ID]*account
	closed []app.PointOf // of minutes that are over

	// Run's own.
	measured time.Time // when all were last
	looked   time.Time // when those were that are watched
	failing  bool      // keep did at the last call
	answers  map[app.ID]app.Answers
	answered time.Time  // when those were counted last
	host     app.Counts // at hosted
	hosted   time.Time  // zero when it was not measured
}

// account is what is known of one application between two points.
type account struct {
	state app.State
	run   int // that last is of
	at    time.Time
	last  app.Counts
	point app.Point // of the minute that has begun; At is zero while there is none
}

// NewSampler returns the sampler of a hub. keep stores points, those of the past
// minutes, once a minute at most; it may fail.
func NewSampler(h *Hub, m Measure, also Also, keep func(now time.Time, points []app.PointOf) error, log *slog.Logger) *Sampler {
	s := &Sampler{
		hub: h, measure: m, also: also, keep: keep, log: log, kick: make(chan struct{}, 1),
		apps: map[app.ID]*account{}, answers: map[app.ID]app.Answers{},
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.sampler = s
	return s
}

// Run measures until ctx ends. It sleeps while nothing runs.
func (s *Sampler) Run(ctx context.Context) {
	timer := time.NewTimer(every)
	defer timer.Stop()
	for {
		timer.Stop()
		if due := s.due(time.Now()); !due.IsZero() {
			timer.Reset(time.Until(due))
		}
		select {
		case <-timer.C:
			s.tick(ctx, time.Now())
		case <-s.kick:
		case <-ctx.Done():
			s.flush(time.Now(), true)
			return
		}
	}
}

// due is when the next look is, zero for none.
func (s *Sampler) due(now time.Time) (due time.Time) {
	s.mu.Lock()
	active, fresh := s.active || s.visits, s.fresh
	pending := len(s.closed) > 0
	for _, a := range s.apps {
		pending = pending || !a.point.At.IsZero()
	}
	s.mu.Unlock()
	if active || pending {
		due = now.Truncate(every).Add(every)
	}
	if at := now.Add(soon); fresh && at.Before(due) {
		due = at
	}
	if at := s.looked.Add(closely); active && at.Before(due) && s.hub.watched() != nil {
		due = at
	}
	return due
}

// wake lets Run see that somebody watches.
func (s *Sampler) wake() {
	select {
	case s.kick <- struct{}{}:
	default: // it will
	}
}

// Visited lets the next full minute count what sites have answered, where nothing else is measured:
// sites of files have no program. It does not block.
func (s *Sampler) Visited() {
	s.mu.Lock()
	was := s.visits
	s.visits = true
	s.mu.Unlock()
	if !was {
		s.wake()
	}
}

// observe takes from an event what belongs to the history. It does not wait for
// the measuring.
func (s *Sampler) observe(e app.Event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var piece app.Point
	a := s.of(e.App)
	switch e.Kind {
	case app.StateEvent:
		if e.State.Running && !s.active {
			s.active, s.fresh = true, true
			s.wake()
		}
		if e.State.State == app.Starting && a.state != app.Starting {
			piece.Starts = 1
		}
		a.state = e.State.State
	case app.ExitEvent:
		piece.Exits = 1
		if e.Exit.OOM { // it reached its limit, whenever it was measured last
			piece.OOMs, piece.MemoryMax = 1, float64(e.Exit.PeakBytes)
		}
	case app.DeployEvent:
		if e.Deploy.Phase == app.DeployDone {
			piece.Deploys = 1
		}
	case app.RemovedEvent:
		delete(s.apps, e.App)
		return
	default:
		return
	}
	if piece != (app.Point{}) {
		s.add(e.App, a, e.At, piece)
		s.wake()
	}
}

// of returns the account of an application. The caller holds mu.
func (s *Sampler) of(id app.ID) *account {
	a := s.apps[id]
	if a == nil {
		a = &account{}
		s.apps[id] = a
	}
	return a
}

// add joins a piece with the minute it belongs to. The caller holds mu.
func (s *Sampler) add(id app.ID, a *account, at time.Time, piece app.Point) {
	minute := at.UTC().Truncate(every)
	if !a.point.At.Equal(minute) {
		s.shut(id, a)
		a.point = app.Point{At: minute, Step: every}
	}
	a.point = a.point.With(piece)
}

// shut ends the minute that has begun. The caller holds mu.
func (s *Sampler) shut(id app.ID, a *account) {
	if !a.point.At.IsZero() {
		s.closed = append(s.closed, app.PointOf{App: id, Point: a.point})
		a.point = app.Point{}
	}
}

// tick measures what is due, and stores the points of the minutes before.
func (s *Sampler) tick(ctx context.Context, now time.Time) {
	watched := s.hub.watched()
	s.mu.Lock()
	all := s.fresh || !s.measured.Truncate(every).Equal(now.Truncate(every))
	active := s.active
	if all {
		s.active, s.fresh, s.visits = false, false, false // an event that comes meanwhile sets it again
	}
	s.mu.Unlock()
	only := watched
	if all {
		only, s.measured = nil, now
	} else if watched == nil {
		return
	}
	s.looked = now
	found := false
	if active {
		s.measure(ctx, only, func(m app.Measured) {
			found = true
			u := s.count(m, time.Now())
			if watched != nil && watched(m.Owner, m.App) {
				s.hub.Publish(app.Event{Kind: app.MetricEvent, App: m.App, Owner: m.Owner, Usage: &u})
			}
		})
	}
	if !all {
		return
	}
	s.mu.Lock()
	s.active = s.active || found
	s.mu.Unlock()
	s.countAnswers(now)
	s.countHost(now)
	s.flush(now, false)
}

// countAnswers makes of what sites have answered what they answered since the last look, which
// was a minute ago at most, or nothing was answered before that.
func (s *Sampler) countAnswers(now time.Time) {
	if s.also.Answers == nil {
		return
	}
	from := s.answered
	if from.Before(now.Add(-every)) {
		from = now.Add(-every)
	}
	s.answered = now
	all := make(map[app.ID]app.Answers, len(s.answers))
	s.also.Answers(func(id app.ID, total app.Answers) {
		all[id] = total
		if fresh := total.Since(s.answers[id]); fresh != (app.Answers{}) {
			s.mu.Lock()
			s.add(id, s.of(id), from.Add(now.Sub(from)/2), app.Point{Answers: fresh})
			s.mu.Unlock()
		}
	})
	s.answers = all // what was forgotten begins anew
}

// countHost makes a point of what the host used since the last look. One look alone, as after a
// pause in which nothing ran, tells only what it has.
func (s *Sampler) countHost(now time.Time) {
	if s.also.Host == nil {
		return
	}
	c, err := s.also.Host()
	if err != nil {
		s.hosted = time.Time{}
		return
	}
	passed := now.Sub(s.hosted)
	if !s.hosted.IsZero() && passed > 0 && passed < 2*every {
		used := float64(c.MemoryBytes)
		piece := app.Point{
			Ran: min(passed, every), Memory: used, MemoryMax: used, Limit: float64(c.LimitBytes), Disk: float64(c.DiskBytes),
			CPU:   100 * float64(max(c.CPU-s.host.CPU, 0)) / float64(passed),
			NetIn: float64(max(c.NetIn-s.host.NetIn, 0)), NetOut: float64(max(c.NetOut-s.host.NetOut, 0)),
		}
		piece.CPUMax = piece.CPU
		s.mu.Lock()
		s.add(app.HostHistory, s.of(app.HostHistory), s.hosted.Add(passed/2), piece)
		s.mu.Unlock()
	}
	s.host, s.hosted = c, now
}

// count makes of the counters of a run what it used since the last look.
func (s *Sampler) count(m app.Measured, now time.Time) app.Usage {
	s.mu.Lock()
	defer s.mu.Unlock()
	a := s.of(m.App)
	if a.run != m.Run || now.Before(a.at) {
		a.run, a.at, a.last = m.Run, m.StartedAt, app.Counts{}
		if now.Sub(a.at) > every+closely { // it ran before anybody looked
			a.at, a.last = now, m.Counts
		}
	}
	passed := now.Sub(a.at)
	piece := app.Point{
		Ran:    min(passed, every),
		Memory: float64(m.MemoryBytes), MemoryMax: float64(m.MemoryBytes), Limit: float64(m.LimitBytes),
		NetIn: float64(max(m.NetIn-a.last.NetIn, 0)), NetOut: float64(max(m.NetOut-a.last.NetOut, 0)),
		Disk: float64(m.DiskBytes),
	}
	if passed > 0 {
		piece.CPU = 100 * float64(max(m.CPU-a.last.CPU, 0)) / float64(passed)
		piece.CPUMax = piece.CPU
	}
	s.add(m.App, a, a.at.Add(passed/2), piece)
	a.at, a.last = now, m.Counts
	return app.Usage{MemoryBytes: m.MemoryBytes, LimitBytes: m.LimitBytes, CPUPercent: piece.CPU, NetIn: m.NetIn, NetOut: m.NetOut}
}

// flush stores the points of the minutes that are over, or of all that have begun.
func (s *Sampler) flush(now time.Time, all bool) {
	s.mu.Lock()
	for id, a := range s.apps {
		if all || a.point.At.Before(now.Truncate(every)) {
			s.shut(id, a)
		}
		if a.point.At.IsZero() && a.at.Before(s.measured) { // it does not run
			delete(s.apps, id)
		}
	}
	points := s.closed
	s.closed = nil
	s.mu.Unlock()
	if len(points) == 0 {
		return
	}
	err := s.keep(now, points)
	if err != nil && !s.failing {
		s.log.Error("the metric history has a gap", "error", err)
	}
	s.failing = err != nil
}
