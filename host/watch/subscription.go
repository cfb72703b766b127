package watch

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"berth/app"
)

const (
	// queued is how many events wait for a reader that is slow.
	queued = 256
	// linePace is the least time between two frames of lines, unless one has so many that
	// there are more.
	linePace = 100 * time.Millisecond
	manyLine = 32 << 10
)

// errOver is what Next and Watch return when the daemon ends, or another image
// of it takes over.
var errOver = app.Errorf(app.Unavailable, "the server is shutting down; try again in a minute")

// errPosition is the answer to a position that no stream has given.
var errPosition = app.Errorf(app.Invalid, "cannot go on from there: this is no position of a log")

// Subscription is one stream of events. Next and Check are for one goroutine at
// a time; Close may be called by any, and again.
type Subscription struct {
	hub    *Hub
	watch  app.Watch
	ready  chan struct{}
	closed chan struct{}
	once   sync.Once

	mu     sync.Mutex // taken with the hub's held, never the other way
	queue  []app.Event
	missed int
	others map[app.ID]bool // applications of others that it concerns, as Check found them
	notice bool            // something happened after which there may be a log

	// The reader's own.
	logs   [2]app.Follower // of the program and of the build, nil while there is none
	more   [2]bool         // there may be something to take
	next   time.Time       // when lines may be sent again
	places [2]string       // where they are, of lines that are exact
	begun  bool            // a log that is there from now on has nothing that was there before
	told   bool            // an event has said where it is
	over   bool            // everything was sent that was asked for
}

// concerns reports whether an application is among those that it is about: a
// quick look at what Check found, before allowed decides.
func (s *Subscription) concerns(owner app.AccountID, id app.ID) bool {
	if s.watch.App != app.All && s.watch.App != id {
		return false
	}
	if owner == s.watch.Account {
		return true
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.others[id]
}

// figures reports whether what an application uses is meant.
func (s *Subscription) figures(id app.ID) bool {
	return s.watch.Figures == nil || s.watch.Figures(id)
}

// offer queues an event that concerns it, or counts it as missed. It does
// not wait.
func (s *Subscription) offer(e app.Event) {
	lines := s.watch.Kinds.Has(app.LogEvent) && e.Kind.Kept()
	wanted := s.watch.Kinds.Has(e.Kind)
	if !lines && !wanted || !s.concerns(e.Owner, e.App) || e.Kind == app.MetricEvent && !s.figures(e.App) {
		return
	}
	s.mu.Lock()
	s.notice = s.notice || lines
	switch {
	case !wanted:
	case len(s.queue) >= queued || s.missed > 0:
		s.missed++
	default:
		s.queue = append(s.queue, e)
	}
	s.mu.Unlock()
	s.wake()
}

func (s *Subscription) wake() {
	select {
	case s.ready <- struct{}{}:
	default: // it knows
	}
}

// Check asks again whether the account may see what it watches. It fails with
// app.NotFound or app.Forbidden when that is no longer so; callers who stay
// long call it now and then, for it also finds applications that the account
// has come to share.
func (s *Subscription) Check(ctx context.Context) error {
	w := s.watch
	if w.App == app.All {
		all, err := s.hub.access.Memberships(ctx, w.Account)
		if err != nil {
			return err
		}
		others := make(map[app.ID]bool, len(all))
		for _, m := range all {
			others[m.App] = m.Permissions.Has(app.StatusApp)
		}
		s.mu.Lock()
		s.others = others
		s.mu.Unlock()
		return nil
	}
	for _, p := range permissions(w.Kinds) {
		if err := s.allowed(ctx, w.App, p); err != nil {
			return err
		}
	}
	s.mu.Lock()
	s.others = map[app.ID]bool{w.App: true}
	s.mu.Unlock()
	return nil
}

// permissions are those that a member of a team needs for these kinds.
func permissions(kinds app.EventKind) []app.Permission {
	var all []app.Permission
	if kinds&^(app.LogEvent|app.RemovedEvent) != 0 {
		all = append(all, app.StatusApp)
	}
	if kinds.Has(app.LogEvent) {
		all = append(all, app.LogsApp)
	}
	return all
}

// allowed fails unless the account may do what p names with an application now.
func (s *Subscription) allowed(ctx context.Context, id app.ID, p app.Permission) error {
	snap, there := s.hub.access.Find(id)
	if there && snap.Account == s.watch.Account {
		return nil
	}
	if !there {
		return app.Errorf(app.NotFound, "you have no application %q", id)
	}
	_, err := s.hub.access.Authorize(ctx, s.watch.Account, id, p)
	return err
}

// Next returns what has happened since the last call, at least one event, in
// order. It blocks until something has, or ctx ends, or the hub closes
// (app.Unavailable). Events of other accounts' applications are returned only while
// the account may see them.
func (s *Subscription) Next(ctx context.Context) ([]app.Event, error) {
	for {
		select {
		case <-s.closed:
			return nil, errOver
		default:
		}
		if s.over {
			return nil, errOver
		}
		events := s.permitted(ctx, s.drain())
		lines, due := s.lines(ctx)
		if events = append(events, lines...); len(events) > 0 {
			return events, nil
		}
		if err := s.rest(ctx, due); err != nil {
			return nil, err
		}
	}
}

// drain empties the queue.
func (s *Subscription) drain() []app.Event {
	s.mu.Lock()
	defer s.mu.Unlock()
	events := s.queue
	s.queue = nil
	if s.missed > 0 {
		events = append(events, app.Event{Kind: app.GapEvent, At: time.Now(), Missed: s.missed})
		s.missed = 0
	}
	return events
}

// permitted leaves out what the account may not see any more, and counts as
// missed what nobody could say of whether it may.
func (s *Subscription) permitted(ctx context.Context, events []app.Event) []app.Event {
	may, missed := map[app.ID]error{}, 0
	events = slices.DeleteFunc(events, func(e app.Event) bool {
		if e.App == "" || e.Owner == s.watch.Account {
			return false
		}
		if e.Kind == app.RemovedEvent { // there is no team to ask; that it is gone is all it says
			return false
		}
		err, asked := may[e.App]
		if !asked {
			_, err = s.hub.access.Authorize(ctx, s.watch.Account, e.App, app.StatusApp)
			may[e.App] = err
		}
		if kind := app.KindOf(err); err != nil && kind != app.NotFound && kind != app.Forbidden {
			missed++
		}
		return err != nil
	})
	if missed > 0 {
		events = append(events, app.Event{Kind: app.GapEvent, At: time.Now(), Missed: missed})
	}
	return events
}

// lines returns what was printed, and when to look again if that is too early.
func (s *Subscription) lines(ctx context.Context) (events []app.Event, due <-chan time.Time) {
	s.mu.Lock()
	notice := s.notice
	s.notice = false
	s.mu.Unlock()
	if notice {
		_ = s.followLogs() // its position was good at first
	}
	from := s.watch.From
	if !s.more[0] && !s.more[1] && !from.Once && (s.told || !from.Mark) {
		return nil, nil
	}
	now := time.Now()
	if wait := s.next.Sub(now); wait > 0 {
		return nil, time.After(wait)
	}
	add := func(build bool, text string) {
		lines := &app.Lines{Build: build, Text: text, Pos: s.place()}
		events = append(events, app.Event{Kind: app.LogEvent, At: now, App: s.watch.App, Lines: lines})
		s.told = true
	}
	for i, f := range s.logs {
		if !s.more[i] || f == nil {
			continue
		}
		text := f.Take()
		s.more[i] = from.Once && text != ""
		if c, exact := f.(app.LogCursor); exact {
			s.places[i] = c.Position()
		}
		if text != "" && s.allowed(ctx, s.watch.App, app.LogsApp) == nil {
			if len(text) < manyLine || !s.watch.Exact {
				s.next = now.Add(linePace)
			}
			add(i == 1, text)
		}
	}
	if !s.told && from.Mark { // so that nothing is missed if it breaks before the first line
		add(s.watch.Logs == app.BuildLog, "")
	}
	if from.Once {
		s.next = now
		if s.over = !s.more[0] && !s.more[1]; s.over {
			events = append(events, app.Event{Kind: app.EndEvent, At: now})
		}
	}
	return events, nil
}

// place is the position of both logs in one word, "" unless lines are exact.
func (s *Subscription) place() string {
	if !s.watch.Exact {
		return ""
	}
	return s.places[0] + "_" + s.places[1]
}

// followLogs follows those logs that are meant, are there, and are not followed yet. It
// fails with app.Invalid for a position that is none.
func (s *Subscription) followLogs() error {
	if !s.watch.Kinds.Has(app.LogEvent) {
		return nil
	}
	from := s.watch.From
	if from.Pos != "" && !s.begun {
		run, build, ok := strings.Cut(from.Pos, "_")
		if !ok {
			return errPosition
		}
		s.places = [2]string{run, build}
	}
	for i := range s.logs {
		if s.logs[i] != nil || i == 0 && s.watch.Logs == app.BuildLog || i == 1 && s.watch.Logs == app.RunLog {
			continue
		}
		f, err := s.open(i)
		if app.KindOf(err) == app.Invalid {
			return err
		}
		if err == nil { // else there is none yet
			s.logs[i], s.more[i] = f, true
		}
	}
	s.begun = true
	return nil
}

// open opens the log of the program or of the build.
func (s *Subscription) open(i int) (app.Follower, error) {
	if !s.watch.Exact {
		return s.hub.outputs.Follow(s.watch.App, i == 1, s.watch.Tail)
	}
	from := s.watch.From
	if from.Pos = s.places[i]; s.begun || from.Pos == "" && s.watch.From.Pos != "" { // there was no log
		from = app.LineStart{All: true, Once: from.Once}
	}
	c, err := s.hub.outputs.Cursor(s.watch.App, i == 1, from)
	if err != nil {
		return nil, err
	}
	s.places[i] = c.Position()
	return c, nil
}

// rest blocks until there may be something to return.
func (s *Subscription) rest(ctx context.Context, due <-chan time.Time) error {
	var ready [2]<-chan struct{}
	for i, f := range s.logs {
		if f != nil && due == nil { // else it would wake at each line of a flood
			ready[i] = f.Ready()
		}
	}
	select {
	case <-s.ready:
	case <-ready[0]:
		s.more[0] = true
	case <-ready[1]:
		s.more[1] = true
	case <-due:
	case <-s.closed:
		return errOver
	case <-ctx.Done():
		return ctx.Err()
	}
	return nil
}

// end lets Next return. The hub's lock is held.
func (s *Subscription) end() { s.once.Do(func() { close(s.closed) }) }

// Close ends the subscription. No call of Next may be under way.
func (s *Subscription) Close() {
	h := s.hub
	h.mu.Lock()
	if _, open := h.subs[s]; open {
		delete(h.subs, s)
		if h.of[s.watch.Account]--; h.of[s.watch.Account] == 0 {
			delete(h.of, s.watch.Account)
		}
	}
	s.end()
	h.mu.Unlock()
	for i, f := range s.logs {
		if f != nil {
			f.Close()
			s.logs[i] = nil
		}
	}
}
