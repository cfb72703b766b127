package host

import (
	"cmp"
	"context"
	"log/slog"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"berth/app"
)

// Config is what a Host is made of.
type Config struct {
	Launch   Launch
	Adopt    Adopt // may be nil: nothing outlives the daemon
	Shell    Shell
	Plan     Planner
	Records  Records
	Registry Registry
	Staging  Staging
	Trees    Trees
	Quotas   Quotas
	Visits   Visits // nil: nobody brings requests to sites
	Logs     Logs
	Log      *slog.Logger
	// Tell is told what happens, by many goroutines; it MUST NOT block. It may
	// be nil.
	Tell func(e app.Event)

	// CheckRAM judges an application's RAM against its account.
	CheckRAM func(total, used, want app.MB) error
	// CheckSubdomain judges what a site is to be called.
	CheckSubdomain func(name string) error

	// Wish reads a list of system packages, of which the host may lack some. It
	// fails with app.Invalid.
	Wish func(list []string) (app.Wishes, error)

	RAMDefault    app.MB        // of an application whose config names none
	Capacity      app.MB        // the sum of the RAM of what may run at once
	DiskLimit     app.MB        // of one application; 0 for none
	StopGrace     time.Duration // between SIGTERM and SIGKILL
	HealthTimeout time.Duration // a site's new run must be well by then, beside the old one
	DrainTimeout  time.Duration // the old one's last requests must be answered by then
	OKDelay       time.Duration // a program that lives this long has started well
	BuildRAM      app.MB
	BuildTimeout  time.Duration
	Builds        int // at once
	BuildQueue    int // builds that may wait
	BackupTTL     time.Duration

	DeploysKeep int    // deploys of an application that are remembered
	DeploysDisk app.MB // that their journals may take together

	ConsoleTimeout time.Duration // of a console command
}

// Host holds the applications. Its methods are safe for concurrent use.
type Host struct {
	Config
	capacity *capacity
	builds   *queue
	unpacks  places // they fill the disk before anything else bounds them
	backups  places
	consoles seats

	ctx    context.Context // of deployments: they outlive the request that asked
	cancel context.CancelFunc
	work   sync.WaitGroup // deployments and units
	waits  sync.WaitGroup // for the ends of programs

	mu     sync.RWMutex
	units  map[app.ID]*unit
	lastID int64 // the newest time-based id
	closed bool

	held atomic.Bool // see Hold
}

// New returns a host without applications; see Boot.
func New(c Config) *Host {
	h := &Host{
		Config: c, capacity: newCapacity(c.Capacity), units: map[app.ID]*unit{},
		builds: newQueue(c.Builds, c.BuildQueue), unpacks: make(places, 2), backups: make(places, 1),
	}
	h.ctx, h.cancel = context.WithCancel(context.Background())
	return h
}

// Boot makes the world match the records: it repairs what a crash left, and goes on
// with the programs that an earlier daemon left running. What else is wanted online
// is started after it has returned, a few at a time, the oldest first; until its
// turn has come it is shown as starting, and takes commands. A start that failed is
// told in the application's log and tried again.
func (h *Host) Boot(ctx context.Context) error {
	apps, err := h.Records.Apps(ctx)
	if err != nil {
		return err
	}
	broken, left := h.Trees.Recover(ctx, apps)
	if left == nil {
		if _, err := h.Registry.DropReservations(ctx); err != nil {
			return err
		}
	} else {
		// Nobody gets a uid, a name or a port while files may have them.
		h.Log.Warn("the places of applications that are no more stay taken until a start of berth that can remove all of their files")
	}
	// What runs is taken over whole, also when the daemon is to stop meanwhile.
	whole := context.WithoutCancel(ctx)
	units := make([]*unit, 0, len(apps))
	var adopting sync.WaitGroup
	for _, a := range apps {
		if n, err := strconv.ParseInt(string(a.ID), 10, 64); err == nil {
			h.lastID = max(h.lastID, n)
		}
		h.bound(ctx, a, 1)
		u := newUnit(h, a)
		h.register(u)
		if slices.Contains(broken, a.ID) {
			_ = u.do(whole, u.whole(false)) // told in its log; another commit or boot mends it
			continue
		}
		units = append(units, u)
		adopting.Go(func() { _ = u.do(whole, u.boot) }) // told in the log
	}
	adopting.Wait()
	h.startQueued(units)
	return nil
}

// startsAtOnce is how many programs a boot starts at a time: requests are answered
// meanwhile, and programs that were started need the processors too.
const startsAtOnce = 4

// startQueued starts those of the units that wait for it, in the background.
func (h *Host) startQueued(units []*unit) {
	var next atomic.Int64
	for range min(startsAtOnce, len(units)) {
		h.work.Go(func() {
			for i := next.Add(1) - 1; i < int64(len(units)) && h.ctx.Err() == nil; i = next.Add(1) - 1 {
				_ = units[i].do(h.ctx, units[i].turn) // told in its log
			}
		})
	}
}

// Leave ends all deployments and console commands and lets every program run
// on, for a later daemon to adopt. It blocks until nothing else runs.
func (h *Host) Leave() {
	units := h.close()
	var telling sync.WaitGroup
	for _, u := range units {
		telling.Go(func() { _ = u.do(context.Background(), u.leave) })
	}
	h.work.Wait()
	h.waits.Wait()
	telling.Wait()
}

// close takes no more deployments, ends those under way, and returns the units.
func (h *Host) close() []*unit {
	h.mu.Lock()
	h.closed = true
	units := h.all()
	h.mu.Unlock()
	h.cancel()
	return units
}

// Shutdown stops every program, keeping what is wanted, and ends all
// deployments. It blocks until nothing runs; when ctx ends first, it kills.
func (h *Host) Shutdown(ctx context.Context) {
	units := h.close()
	// Every unit is told, however hurried: one that was not would take its
	// program's end for a crash. At once, for a unit may be busy with a start.
	var telling sync.WaitGroup
	tell := func(what func(*unit, func(error))) {
		for _, u := range units {
			telling.Go(func() {
				_ = u.do(context.Background(), func(reply func(error)) { what(u, reply) })
			})
		}
	}
	tell((*unit).shutdown)
	hurried := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(hurried)
		tell((*unit).kill)
	})
	h.work.Wait()
	h.waits.Wait()
	if !stop() {
		<-hurried
	}
	telling.Wait()
}

// register makes a unit known and starts its goroutine.
func (h *Host) register(u *unit) {
	h.mu.Lock()
	h.units[u.id] = u
	closed := h.closed
	h.mu.Unlock()
	if closed { // by an upload that was under way: nobody else tells it
		u.shutdown(func(error) {})
	}
	h.work.Go(u.loop)
}

func (h *Host) unregister(id app.ID) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.units, id)
}

// all returns the units, oldest application first. The caller holds mu.
func (h *Host) all() []*unit {
	units := make([]*unit, 0, len(h.units))
	for _, u := range h.units {
		units = append(units, u)
	}
	slices.SortFunc(units, func(a, b *unit) int {
		return cmp.Or(a.created.Compare(b.created), cmp.Compare(a.id, b.id))
	})
	return units
}

// find returns the unit of an application of the account: another account's
// does not exist for it.
func (h *Host) find(owner app.AccountID, id app.ID) (*unit, error) {
	h.mu.RLock()
	defer h.mu.RUnlock()
	u := h.units[id]
	if u == nil || u.owner != owner {
		return nil, noApp(id)
	}
	return u, nil
}

func noApp(id app.ID) error {
	return app.Errorf(app.NotFound, "you have no application %q", id)
}

// begin registers a deployment, or refuses because the daemon is stopping.
// The returned function ends it.
func (h *Host) begin() (func(), error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return nil, app.Errorf(app.Unavailable, "the server is shutting down; try again in a minute")
	}
	h.work.Add(1)
	return h.work.Done, nil
}

// firstID has thirteen digits, which ids have even where the clock is not
// set yet: clients tell them from subdomains by that.
const firstID = 1_000_000_000_000

// newID returns a time-based id that no application ever had.
func (h *Host) newID() app.ID {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.lastID = max(h.lastID+1, time.Now().UnixMilli(), firstID)
	return app.ID(strconv.FormatInt(h.lastID, 10))
}
