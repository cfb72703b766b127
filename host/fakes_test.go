package host

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"berth/app"
)

// world is everything outside the host, in memory. A test scripts what
// programs do by their order of launch.
type world struct {
	mayRun atomic.Int64 // MB, at once
	t      *testing.T
	mu     sync.Mutex

	host *Host

	// Records.
	apps     map[app.ID]*app.App
	prepared string // what the last plan was told of the tree
	planned  []app.Type
	reserved map[app.ID]app.App
	exits    []app.Exit
	starts   map[app.ID][]time.Time // by berth alone
	told     []app.Event
	adopted  app.Program                   // that Adopt was asked for last
	happened map[app.ID][]app.HistoryEvent // newest first
	total    app.MB
	nextUID  int
	env      map[app.ID]map[string]string

	// Trees.
	stages   map[app.Stage]app.Config
	over     map[app.Stage]over // of commits
	staged   int
	trees    map[app.ID]string // what the tree holds: the version
	undo     map[string]string // by journal: what was there before
	applied  map[app.ID]string // the journal that is pending
	journals int
	weighs   int64    // the next journal
	stays    []string // what the program changed
	history  map[app.ID][]app.Deploy
	zipped   app.PackedVariables // in uploads
	left     []string
	backups  int
	packed   []app.Variable // with the last of them

	broken    []app.ID      // what Recover cannot mend
	undoFrom  int           // which call of Settle from now on fails, 0 for none
	undoFails bool          // every call
	discards  time.Duration // how long Discard takes

	may       map[app.AccountID]app.Limits
	suspended map[app.AccountID]app.Suspension
	onHold    app.Hold       // as it is recorded
	shares    map[app.ID]int // of a processor, as they were dealt last
	kept      []app.Backup
	backup    app.BackupRoom // of the last backup

	diskSpace
	web    // who visits
	notes  map[app.ID][]string
	calls  []string
	seen   map[*instance]bool // adopted, or waited for
	runs   []*instance
	behave func(p app.Program) behaviour

	commands []*typed
	upgraded bool

	heldOften bool // a hold comes and goes
	heldSince int  // how many runs there were when it came

	fail map[string]error  // by the name of the call
	on   map[string]func() // called first
}

// behaviour is the script of one program.
type behaviour struct {
	err    error
	exit   *app.Exit // ends by itself after life
	life   time.Duration
	late   time.Duration // how long its own end is not told
	busy   time.Duration // how long it is busy starting
	look   time.Duration // how long Busy looks at it while it is not
	onStop time.Duration // how long it takes to heed Stop
	uses   app.MB
	listen func(p app.Program, lived time.Duration) app.Listening // nil: at its own port at once
	ill    error                                                  // what it answers to a question for its health
}

// instance is a program of the world.
type instance struct {
	w    *world
	p    app.Program
	b    behaviour
	stop chan time.Duration
	done chan struct{}
	left chan struct{}
	exit app.Exit
	ram  atomic.Int64 // MB
	dead atomic.Bool  // and perhaps not told
	born time.Time
}

func newWorld(t *testing.T) *world {
	w := &world{
		t: t, apps: map[app.ID]*app.App{}, reserved: map[app.ID]app.App{}, total: 1000, nextUID: 70000, env: map[app.ID]map[string]string{}, happened: map[app.ID][]app.HistoryEvent{}, starts: map[app.ID][]time.Time{},
		stages: map[app.Stage]app.Config{}, over: map[app.Stage]over{}, trees: map[app.ID]string{}, undo: map[string]string{}, applied: map[app.ID]string{}, history: map[app.ID][]app.Deploy{},
		may: map[app.AccountID]app.Limits{}, suspended: map[app.AccountID]app.Suspension{}, shares: map[app.ID]int{},
		diskSpace: newDiskSpace(), notes: map[app.ID][]string{}, fail: map[string]error{}, on: map[string]func(){},
		behave: func(app.Program) behaviour { return behaviour{} },
	}
	w.mayRun.Store(2000)
	w.host = w.open()
	return w
}

// open makes a host over what the world remembers, as a new daemon would.
func (w *world) open() *Host {
	c := Config{
		Launch: w.launch, Shell: w.shell, Plan: w.plan, Records: w, Registry: w, Wish: wish, Staging: w, Trees: w, Edits: w, Recover: w.recover, Quotas: worldQuotas{w}, Notify: w.tell, DiskLimit: w.space, Logs: w, Forget: w.forget,
		Log: slog.New(slog.DiscardHandler), Account: w.account, LimitCPU: w.limitCPU, ReadHold: w.readHold,
		CheckRAM: func(total, used, want app.MB) error {
			if used+want > total {
				return app.Errorf(app.Exhausted, "the account has %d MB", total)
			}
			return nil
		},
		CheckSubdomain: func(name string) error {
			if !app.ValidID(name) || strings.Trim(name, "0123456789") == "" {
				return app.Errorf(app.Invalid, "%q cannot be a subdomain: it needs a name with a letter", name)
			}
			return nil
		},
		RAMDefault: 100, Capacity: func() app.MB { return app.MB(w.mayRun.Load()) }, StopGrace: 10 * time.Second, OKDelay: 2 * time.Second,
		BuildRAM: 512, BuildTimeout: 10 * time.Minute, Builds: 1, BuildQueue: 32, BackupTTL: time.Hour,
		ConsoleTimeout: 30 * time.Second, DeploysKeep: 5, DeploysDisk: 100,
		HealthTimeout: 30 * time.Second, DrainTimeout: 30 * time.Second,
	}
	if w.visited {
		c.Visits = w
	}
	return New(c)
}

func (w *world) failing(call string) error {
	w.mu.Lock()
	on := w.on[call]
	w.mu.Unlock()
	if on != nil {
		on()
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.calls = append(w.calls, call)
	return w.fail[call]
}

func (w *world) launch(_ context.Context, p app.Program) (Instance, error) {
	w.mu.Lock()
	b := w.behave(p)
	w.mu.Unlock()
	if b.err != nil {
		return nil, b.err
	}
	if err := w.failing("Launch"); err != nil {
		return nil, err
	}
	if p.Gate != nil {
		p.Gate()
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, r := range w.runs {
		if r.p.App == p.App && r.p.Build == p.Build && !r.ended() && (!p.Beside || r.p.Port == p.Port) {
			w.t.Errorf("a second instance of %s was started", p.App)
		}
	}
	r := &instance{w: w, p: p, b: b, stop: make(chan time.Duration, 8), done: make(chan struct{}), left: make(chan struct{}), born: time.Now()}
	r.ram.Store(int64(p.RAM))
	w.runs = append(w.runs, r)
	go r.live()
	return r, nil
}

// plan reads the config's BUILD as "needs a preparation" and refuses a MAIN
// of "missing".
func (w *world) plan(cfg app.Config, found bool, _ app.Files, prepared string) (app.Plan, error) {
	w.mu.Lock()
	w.prepared, w.planned = prepared, append(w.planned, cfg.Type)
	w.mu.Unlock()
	if !found || cfg.Main == "missing" {
		return app.Plan{}, app.Errorf(app.Unusable, "no MAIN")
	}
	p := app.Plan{Apts: cfg.APT, Code: app.Code{Main: cfg.Main, Lang: "test", Build: cfg.Build, Version: cfg.Version, Health: cfg.Health, MemorySignal: cfg.MemorySignal, Stdin: cfg.Stdin}, Argv: []string{"run", cfg.Main}}
	if strings.HasSuffix(cfg.Main, ".html") {
		p.Code.Lang, p.Argv = app.StaticLang, nil
	}
	if cfg.Version == "22" {
		p.Runs = "VERSION=22 was asked for; this host runs 18"
		p.Notes = []string{p.Runs}
	}
	if runtime, ok := strings.CutPrefix(cfg.Main, "on "); ok {
		p.Runtime = runtime
	}
	if cfg.Main == "packaged" {
		p.Prelude = "PATH=there:$PATH; "
	}
	if cfg.Build != "" {
		p.Prepare = []app.Step{{Argv: []string{"/bin/sh", "-c", cfg.Build}, Text: cfg.Build}}
		p.Code.Packages = "what " + cfg.Build + " installed"
	}
	return p, nil
}

// What tests say and ask.

// parse reads "MAIN=a,BUILD=b,...".
const owner app.AccountID = 1

func (w *world) upload(file string) (app.Deployed, error) {
	return w.host.Upload(context.Background(), app.Account{ID: owner, TotalRAM: w.total}, file)
}

// uploading is upload by an account, under way; the channel gets its error.
func (w *world) uploading(by app.AccountID, file string) <-chan error {
	done := make(chan error, 1)
	go func() {
		_, err := w.host.Upload(context.Background(), app.Account{ID: by, TotalRAM: w.total}, file)
		done <- err
	}()
	synctest.Wait()
	return done
}

func (w *world) mustUpload(file string) app.ID {
	w.t.Helper()
	d, err := w.upload(file)
	if err != nil {
		w.t.Fatalf("upload of %s: %v", file, err)
	}
	return d.ID
}

func (w *world) snapshot(id app.ID) app.Snapshot {
	w.t.Helper()
	s, err := w.host.App(owner, id)
	if err != nil {
		w.t.Fatal(err)
	}
	return s
}

// recorded is what the database holds of an application.
func (w *world) recorded(id app.ID) app.App {
	w.mu.Lock()
	defer w.mu.Unlock()
	return *w.apps[id]
}

// launches counts the programs started for an application, builds apart.
func (w *world) launches(id app.ID) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := 0
	for _, r := range w.runs {
		if r.p.App == id && !r.p.Build {
			n++
		}
	}
	return n
}

func (w *world) noted(id app.ID, part string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.ContainsFunc(w.notes[id], func(s string) bool { return strings.Contains(s, part) })
}

// when calls f before a call of this name does anything.
func (w *world) when(call string, f func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.on[call] = f
}

func (w *world) set(f func(p app.Program) behaviour) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.behave = f
}

// close shuts the host down and checks that nothing runs and nothing is left.
func (w *world) close() {
	w.t.Helper()
	w.host.Shutdown(context.Background())
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, r := range w.runs {
		if !r.ended() {
			w.t.Errorf("run %d of %s outlived the host", r.p.Run, r.p.App)
		}
	}
	w.closeConsoles()
	if len(w.stages) > 0 || len(w.reserved) > 0 || len(w.applied) > 0 {
		w.t.Errorf("left behind: stages %v, reservations %v, journals %v", w.stages, w.reserved, w.applied)
	}
	for id := range w.trees {
		if w.apps[id] == nil {
			w.t.Errorf("the tree of %s belongs to no application", id)
		}
	}
	for id := range w.notes {
		if w.apps[id] == nil {
			w.t.Errorf("the log of %s belongs to no application", id)
		}
	}
	if q := w.host.builds; q.free != w.host.Builds || len(q.waiting) > 0 {
		w.t.Errorf("%d of %d places for builds are free, %d wait", q.free, w.host.Builds, len(q.waiting))
	}
}
