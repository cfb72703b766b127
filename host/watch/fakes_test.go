package watch

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"berth/app"
)

const (
	ana app.AccountID = 1
	bob app.AccountID = 2
)

// world is everything outside the hub, in memory.
type world struct {
	t       testing.TB
	hub     *Hub
	sampler *Sampler

	mu       sync.Mutex
	apps     map[app.ID]app.AccountID
	members  map[app.AccountID]map[app.ID]app.Permissions
	asked    int
	logs     map[string]*output
	runs     map[app.ID]*app.Measured
	measured []time.Time // each call of Measure
	points   []app.PointOf
	stored   []time.Time
	fails    error // of keep
	answers  map[app.ID]app.Answers
	began    time.Time
	hosts    bool  // the host can be measured
	deaf     error // of authorize
}

func newWorld(t testing.TB) *world {
	w := &world{
		t: t, apps: map[app.ID]app.AccountID{"shop": ana, "blog": bob}, members: map[app.AccountID]map[app.ID]app.Permissions{},
		logs: map[string]*output{}, runs: map[app.ID]*app.Measured{},
	}
	w.hub = NewHub(Access{Find: w.find, Authorize: w.authorize, Memberships: w.memberships}, w)
	w.sampler = NewSampler(w.hub, w.Measure, w.also(), w.keep, slog.New(slog.DiscardHandler))
	return w
}

func (w *world) find(id app.ID) (app.Snapshot, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	owner, ok := w.apps[id]
	return app.Snapshot{App: app.App{ID: id, Account: owner}}, ok
}

func (w *world) authorize(_ context.Context, member app.AccountID, id app.ID, p app.Permission) (app.AccountID, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.asked++
	set, is := w.members[member][id]
	switch {
	case w.deaf != nil:
		return 0, w.deaf
	case !is:
		return 0, app.Errorf(app.NotFound, "no")
	case !set.Has(p):
		return 0, app.Errorf(app.Forbidden, "not that")
	}
	return w.apps[id], nil
}

func (w *world) memberships(_ context.Context, member app.AccountID) ([]app.Membership, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	var all []app.Membership
	for id, set := range w.members[member] {
		all = append(all, app.Membership{App: id, Permissions: set})
	}
	return all, nil
}

// join makes an account a member of an application's team, with no permission
// when there are none.
func (w *world) join(member app.AccountID, id app.ID, permissions ...app.Permission) {
	w.mu.Lock()
	defer w.mu.Unlock()
	var set app.Permissions
	for _, p := range permissions {
		set = set.With(p)
	}
	w.members[member] = map[app.ID]app.Permissions{id: set}
}

// output is a log.
type output struct {
	mu        sync.Mutex
	printed   string
	followers []*follower
}

type follower struct {
	of    *output
	ready chan struct{}
	text  strings.Builder
}

// cursor reads an output from a position, which is a number of bytes, a few at once.
type cursor struct {
	*follower
	at, until int
}

const cursorTakes = 16

func (w *world) Cursor(id app.ID, build bool, from app.LineStart) (app.LogCursor, error) {
	at, err := strconv.Atoi(from.Pos)
	if err != nil && from.Pos != "" {
		return nil, app.Errorf(app.Invalid, "no position")
	}
	f, err := w.Follow(id, build, 0)
	if err != nil {
		return nil, err
	}
	c := &cursor{follower: f.(*follower)}
	c.of.mu.Lock()
	defer c.of.mu.Unlock()
	if c.until = 1 << 30; from.Once {
		c.until = len(c.of.printed)
	}
	switch c.at = len(c.of.printed); {
	case from.Pos != "":
		c.at = at
	case from.All:
		c.at = 0
	case from.Last > 0:
		lines := strings.SplitAfter(c.of.printed, "\n")
		c.at -= len(strings.Join(lines[max(0, len(lines)-1-from.Last):], ""))
	}
	return c, nil
}

func (c *cursor) Position() string { return strconv.Itoa(c.at) }

func (c *cursor) Take() string {
	c.of.mu.Lock()
	defer c.of.mu.Unlock()
	end := min(len(c.of.printed), c.until)
	text := c.of.printed[c.at:min(end, c.at+cursorTakes)]
	if c.at += len(text); c.at < end {
		select {
		case c.ready <- struct{}{}:
		default:
		}
	}
	return text
}

func (w *world) log(id app.ID, build bool) *output {
	name := string(id)
	if build {
		name += "/build"
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.logs[name] == nil {
		w.logs[name] = &output{}
	}
	return w.logs[name]
}

func (o *output) print(text string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.printed += text
	for _, f := range o.followers {
		f.text.WriteString(text)
		select {
		case f.ready <- struct{}{}:
		default:
		}
	}
}

func (w *world) Follow(id app.ID, build bool, back int) (app.Follower, error) {
	name := string(id)
	if build {
		name += "/build"
	}
	w.mu.Lock()
	o := w.logs[name]
	w.mu.Unlock()
	if o == nil {
		return nil, errors.New("no log")
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	f := &follower{of: o, ready: make(chan struct{}, 1)}
	f.text.WriteString(o.printed[max(0, len(o.printed)-back):])
	o.followers = append(o.followers, f)
	return f, nil
}

func (f *follower) Ready() <-chan struct{} { return f.ready }

func (f *follower) Take() string {
	f.of.mu.Lock()
	defer f.of.mu.Unlock()
	defer f.text.Reset()
	return f.text.String()
}

func (f *follower) Close() {
	f.of.mu.Lock()
	defer f.of.mu.Unlock()
	f.of.followers = slices.DeleteFunc(f.of.followers, func(g *follower) bool { return g == f })
}

// starts makes a program run; it uses a second of a processor each ten seconds,
// and sends a byte each second.
func (w *world) starts(id app.ID, run int) {
	w.mu.Lock()
	w.runs[id] = &app.Measured{App: id, Owner: w.apps[id], Run: run, StartedAt: time.Now(), Counts: app.Counts{MemoryBytes: 1000, LimitBytes: 5000}}
	w.mu.Unlock()
	w.state(id, app.Starting, true)
	w.state(id, app.Online, true)
}

func (w *world) ends(id app.ID, e app.Exit) {
	w.mu.Lock()
	delete(w.runs, id)
	w.mu.Unlock()
	w.hub.Publish(app.Event{Kind: app.ExitEvent, App: id, Owner: w.apps[id], Exit: &e})
	w.state(id, app.Stopped, false)
}

func (w *world) uses(id app.ID, bytes int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.runs[id].MemoryBytes = bytes
}

func (w *world) state(id app.ID, s app.State, running bool) {
	w.hub.Publish(app.Event{Kind: app.StateEvent, App: id, Owner: w.apps[id], State: &app.StateChange{State: s, Running: running}})
}

func (w *world) Measure(_ context.Context, only func(app.AccountID, app.ID) bool, each func(app.Measured)) {
	w.mu.Lock()
	w.measured = append(w.measured, time.Now())
	var all []app.Measured
	for _, r := range w.runs {
		m := *r
		ran := time.Since(m.StartedAt)
		m.CPU, m.NetOut = ran/10, int64(ran.Seconds())
		all = append(all, m)
	}
	w.mu.Unlock()
	for _, m := range all {
		if only == nil || only(m.Owner, m.App) {
			each(m)
		}
	}
}

func (w *world) keep(now time.Time, points []app.PointOf) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.stored = append(w.stored, now)
	w.points = append(w.points, points...)
	return w.fails
}

// also counts the answers that a test gives, and a host that uses a quarter of its processors, and
// receives two bytes a second.
func (w *world) also() Also {
	w.began, w.answers = time.Now(), map[app.ID]app.Answers{}
	return Also{
		Answers: func(each func(app.ID, app.Answers)) {
			w.mu.Lock()
			defer w.mu.Unlock()
			for id, a := range w.answers {
				each(id, a)
			}
		},
		Host: func() (app.Counts, error) {
			if !w.hosts {
				return app.Counts{}, errors.New("no host")
			}
			up := time.Since(w.began)
			return app.Counts{MemoryBytes: 7000, LimitBytes: 9000, CPU: up / 4, NetIn: 2 * int64(up.Seconds()), DiskBytes: 8000}, nil
		},
	}
}

// visit lets a site answer.
func (w *world) visit(id app.ID, class, took int) {
	w.mu.Lock()
	a := w.answers[id]
	a.Classes[class]++
	a.Took[took]++
	w.answers[id] = a
	w.mu.Unlock()
	w.sampler.Visited()
}

// looks is how often programs were measured since the last call.
func (w *world) looks() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	defer func() { w.measured = nil }()
	return len(w.measured)
}

// taken are the points since the last call, by the time they were stored.
func (w *world) taken() []app.PointOf {
	w.mu.Lock()
	defer w.mu.Unlock()
	defer func() { w.points = nil }()
	return w.points
}

func (w *world) watch(x app.Watch) *Subscription {
	w.t.Helper()
	s, err := w.hub.Watch(context.Background(), x)
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(s.Close)
	return s.(*Subscription)
}

// told is what there is to tell now, without waiting for more.
func told(t testing.TB, s app.Stream) []app.Event {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Millisecond)
	defer cancel()
	events, err := s.Next(ctx)
	if err != nil && !errors.Is(err, context.DeadlineExceeded) {
		t.Fatal(err)
	}
	return events
}
