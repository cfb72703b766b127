package host

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sync/semaphore"

	"berth/app"
)

// Config is what a Host is made of.
type Config struct {
	Launch Launch
	Adopt  Adopt // may be nil: nothing outlives the daemon
	Shell  Shell
	// Type sends a line to the program of a run, which was started to read it. It MUST NOT wait for that program.
	Type     func(ctx context.Context, id app.ID, run int, line string) error
	Plan     Planner
	Suggest  Suggester // nil: nothing is suggested
	Records  Records
	Registry Registry
	Staging  Staging
	Trees    Trees
	Edits    Edits
	Recover  Recover
	Quotas   Quotas
	Visits   Visits // nil: nobody brings requests to sites
	Memory   Memory // nil: nobody watches the host's memory
	Logs     Logs
	// Forget removes what was printed by, and is known of, an application that is no more.
	Forget func(id app.ID) error
	Log    *slog.Logger
	// Notify gets what happens, from many goroutines; it MUST NOT block. It may
	// be nil.
	Notify func(e app.Event)

	// Short is called when the host runs short of memory. It MUST NOT block. It may be nil.
	Short func(s app.Shortage)

	// History returns what an application used in the last day, by stretches of ten
	// minutes. It may be nil.
	History func(id app.ID) ([]app.Point, error)

	// Address returns where visitors find a site. It may be nil.
	Address func(id app.ID) app.SiteAddress
	// Account reads the account that an application belongs to, or fails with
	// app.NotFound.
	Account func(ctx context.Context, id app.AccountID) (app.Account, error)
	// ReadHold reads whether the host holds its programs. It may be nil: it does not.
	ReadHold func(ctx context.Context) (h app.Hold, held bool, err error)
	// LimitCPU bounds what runs in an application to so many percent of one processor,
	// from now on; 0 leaves it what the host's settings say. Where nothing runs it does
	// nothing.
	LimitCPU func(id app.ID, percent int) error
	// Stale is app.Snapshot.Stale of what runs. It may be nil: what runs is always known.
	Stale func(id app.ID) app.Text
	// CheckRAM judges an application's RAM against its account.
	CheckRAM func(total, used, want app.MB) error
	// CheckSubdomain judges what a site is to be called.
	CheckSubdomain func(name string) error

	// Wish reads a list of system packages, of which the host may lack some. It
	// fails with app.Invalid.
	Wish func(list []string) (app.Wishes, error)

	// NamesChanged is called when a site or an application with domains came or went. It
	// may be nil.
	NamesChanged func(ctx context.Context)

	// CodeChanged is called when the code of an application is new and in place. It may be nil.
	CodeChanged func(ctx context.Context, a app.App)

	MaxUpload     int64         // bytes; the edge has closer limits
	RAMDefault    app.MB        // of an application whose config names none
	Capacity      func() app.MB // the sum of the RAM of what may run at once; it MUST NOT block
	DiskLimit     app.MB        // of one application; 0 for none
	DiskEnforced  bool          // the kernel refuses what goes beyond; else measuring is all there is
	StopGrace     time.Duration // between SIGTERM and SIGKILL
	HealthTimeout time.Duration // a site's new run must be well by then, beside the old one
	DrainTimeout  time.Duration // the old one's last requests must be answered by then
	DailyStarts   int           // of an application by berth alone in 24 hours, 0 for any number
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
	disk      disk
	owners    *owners
	capacity  *capacity
	builds    *queue
	shortages shortages
	unpacks   *semaphore.Weighted // they fill the disk before anything else bounds them
	looks     *semaphore.Weighted // what is known of a ZIP takes memory
	backups   *semaphore.Weighted
	consoles  seats
	sessions  seats

	ctx    context.Context // of deployments: they outlive the request that asked
	cancel context.CancelFunc
	work   sync.WaitGroup // deployments and units
	waits  sync.WaitGroup // for the ends of programs

	mu     sync.RWMutex
	units  map[app.ID]*unit
	lastID int64 // the newest time-based id
	closed bool

	refusing atomic.Bool              // see RefuseUploads
	hold     atomic.Pointer[app.Hold] // as it was last read
}

// New returns a host without applications; see Boot.
func New(c Config) *Host {
	h := &Host{
		Config: c, disk: disk{c.Quotas, c.DiskLimit, c.Log}, capacity: newCapacity(c.Capacity), units: map[app.ID]*unit{},
		builds: newQueue(c.Builds, c.BuildQueue), unpacks: semaphore.NewWeighted(2), looks: semaphore.NewWeighted(2),
		backups: semaphore.NewWeighted(1), owners: newOwners(c.Account), shortages: shortages{habits: habits{history: c.History}},
	}
	h.capacity.changed = h.ran
	h.ctx, h.cancel = context.WithCancel(context.Background())
	return h
}

// Boot makes the world match the records: it repairs what a crash left, and goes on
// with the programs that an earlier daemon left running. What else is wanted online
// is started after it has returned, a few at a time, the oldest first; until its
// turn has come it is shown as starting, and takes commands. A start that failed is
// noted in the application's log and tried again. While the host holds its programs
// nothing starts, what runs ends, and what is wanted stays as it is.
func (h *Host) Boot(ctx context.Context) error {
	apps, err := h.Records.Apps(ctx)
	if err != nil {
		return err
	}
	if err := h.readHold(ctx); err != nil {
		return err
	}
	if hold := h.Held(); hold.Why != "" {
		h.Log.Warn("nothing starts: " + hold.Text().String())
	}
	starts, err := h.Records.Starts(ctx, time.Now().Add(-day))
	if err != nil {
		return err
	}
	mixed, left := h.Recover(ctx, apps)
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
		if _, err := h.owners.get(ctx, a.Account); err != nil { // nothing of one that is suspended starts
			return err
		}
		h.disk.limit(ctx, a, 1)
		u := newUnit(h, a)
		u.starts = starts[a.ID]
		u.mixedTree = slices.Contains(mixed, a.ID)
		h.register(u)
		if !u.mixedTree { // else another commit or boot mends it, as its log says
			units = append(units, u)
			adopting.Go(func() { u.call(whole, u.boot) })
		}
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
	h.work.Go(func() {
		var starts errgroup.Group
		starts.SetLimit(startsAtOnce)
		for _, u := range units {
			starts.Go(func() error {
				if h.ctx.Err() == nil {
					u.call(h.ctx, u.turn)
				}
				return nil
			})
		}
		_ = starts.Wait() // none fails
	})
}

// Leave ends all deployments and console commands and lets every program run
// on, for a later daemon to adopt. It blocks until nothing else runs.
func (h *Host) Leave() {
	h.end(context.Background(), detach)
}

// Shutdown stops every program, keeping what is wanted, and ends all
// deployments. It blocks until nothing runs; when ctx ends first, it kills.
func (h *Host) Shutdown(ctx context.Context) {
	h.end(ctx, shutdown)
}

// end takes no more deployments and ends those under way, and all units.
func (h *Host) end(ctx context.Context, how then) {
	h.mu.Lock()
	h.closed = true
	h.mu.Unlock()
	units := h.all()
	h.cancel()
	// Every unit is closed, however hurried: one that was not would take its
	// program's end for a crash. At once, for a unit may be busy with a start.
	var closing sync.WaitGroup
	each := func(f func(u *unit)) {
		for _, u := range units {
			closing.Go(func() { u.call(context.Background(), func() { f(u) }) })
		}
	}
	each(func(u *unit) { u.close(how, nil) })
	hurried := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(hurried)
		each((*unit).kill)
	})
	h.work.Wait()
	h.waits.Wait()
	if !stop() {
		<-hurried
	}
	closing.Wait()
}

// register makes a unit known and starts its goroutine.
func (h *Host) register(u *unit) {
	h.mu.Lock()
	h.units[u.id] = u
	closed := h.closed
	h.mu.Unlock()
	if closed { // by an upload that was under way: nobody else closes it
		u.close(shutdown, nil)
	}
	h.work.Go(u.loop)
}

func (h *Host) unregister(id app.ID) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.units, id)
}

// all returns the units, oldest application first.
func (h *Host) all() []*unit {
	h.mu.RLock()
	defer h.mu.RUnlock()
	return slices.SortedFunc(maps.Values(h.units), func(a, b *unit) int {
		return cmp.Or(a.created.Compare(b.created), cmp.Compare(a.id, b.id))
	})
}

func (h *Host) namesChanged() {
	if h.NamesChanged != nil {
		h.NamesChanged(context.Background())
	}
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

// Tally counts what the host does.
type Tally struct {
	Online  int // or starting
	Waiting int // for their next start
	Busy    int // being deployed, and not running
	Offline int
	RAM     app.MB // of what runs
	Total   app.MB // that may run
	Behind  int    // applications of which something waits for the disk to be recorded
	Short   bool   // the host is short of memory
}

// Tally returns the numbers of now.
func (h *Host) Tally() Tally {
	var t Tally
	for _, u := range h.all() {
		if u.records.behind() {
			t.Behind++
		}
		switch v := u.view.Load(); v.State {
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
	t.RAM, t.Total = h.capacity.use()
	t.Short = h.Shortage().Lasts()
	return t
}

// Bound gives every program that runs its limit of memory again, after the
// kernel's was taken away. It blocks until all have it.
func (h *Host) Bound(ctx context.Context) {
	for _, u := range h.all() {
		u.call(ctx, func() {
			if u.run == nil {
				return
			}
			if err := u.run.SetMemory(u.app.RAM); err != nil {
				u.log.Error("cannot limit the program again", "error", err)
			}
		})
	}
}

// Alive asks the goroutine of every application for an answer. It fails when
// one has not given it before ctx ends; that of an application that is deleted
// meanwhile is not missed.
func (h *Host) Alive(ctx context.Context) error {
	units := h.all()
	var asking sync.WaitGroup
	silent := make(chan app.ID, len(units))
	for _, u := range units {
		asking.Go(func() {
			if err := u.do(ctx, func() error { return nil }); err != nil && ctx.Err() != nil {
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

// Measure calls each for every program that runs, one after the other; those
// that only refuses are left out, none when it is nil. Sites of files have
// nothing to measure.
func (h *Host) Measure(ctx context.Context, only func(owner app.AccountID, id app.ID) bool, each func(m app.Measured)) {
	for _, u := range h.all() {
		v := u.view.Load()
		if !v.Running || v.run == nil || v.Code.Static() || only != nil && !only(u.owner, u.id) {
			continue
		}
		if ctx.Err() != nil {
			return
		}
		counts, err := v.run.Counts()
		switch {
		case err != nil && u.view.Load().run == v.run:
			u.log.Warn("cannot measure the program", "error", err)
		case err == nil && counts != app.Counts{}:
			if space, known := u.disk.known(); known {
				counts.DiskBytes = space.Bytes
			}
			each(app.Measured{App: u.id, Owner: u.owner, Run: v.LastRun, StartedAt: v.StartedAt, Counts: counts})
		}
	}
}

// Patrol measures the files of what runs until ctx ends, one application after
// the other and not all the time, and stops those that take more disk space
// than they may, or than their account may. What is offline cannot grow and is not
// measured; where no application has a limit, only what runs for an account with one is.
func (h *Host) Patrol(ctx context.Context) {
	tick := checkEvery
	if h.disk.most == 0 {
		tick = MeasureEvery
	}
	ticker := time.NewTicker(tick)
	defer ticker.Stop()
	last, evicted := time.Now(), map[app.AccountID]int64{}
	for {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
		accounts := h.limitsDisk()
		if h.disk.most == 0 && !accounts {
			continue
		}
		every := MeasureEvery
		if h.DiskEnforced && !accounts { // the kernel knows of no accounts
			every = auditEvery
		}
		since := time.Since(last)
		if since >= every || since >= urgentEvery && h.Quotas.CheckFree("go on") != nil {
			last = time.Now()
			h.round(ctx, evicted)
		}
	}
}

// round measures everything that runs once.
func (h *Host) round(ctx context.Context, evicted map[app.AccountID]int64) {
	for _, u := range h.all() {
		v := u.view.Load()
		if !v.Running && v.State != app.Waiting || h.disk.most == 0 && h.limits(u.owner).Disk == 0 {
			continue
		}
		begin := time.Now()
		s, err := u.disk.now(ctx)
		switch {
		case ctx.Err() != nil:
			return
		case app.KindOf(err) == app.NotFound: // deleted meanwhile
		case err != nil:
			u.log.Warn("cannot measure the application's files", "error", err)
		case h.disk.over(s):
			u.call(ctx, func() { u.overfull(s) })
		}
		if !sleep(ctx, gentle*time.Since(begin)) {
			return
		}
	}
	h.roundAccounts(ctx, evicted)
}
