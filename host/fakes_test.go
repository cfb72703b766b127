package host

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"berth/app"
)

// world is everything outside the host, in memory. A test scripts what
// programs do by their order of launch.
type world struct {
	t  *testing.T
	mu sync.Mutex

	host *Host

	// Records.
	apps     map[app.ID]*app.App
	reserved map[app.ID]app.App
	exits    []app.Exit
	total    app.MB
	nextUID  int

	// Trees.
	stages  map[app.Stage]app.Config
	staged  int
	trees   map[app.ID]string // what the tree holds: the version
	undo    map[app.ID]string
	backups int

	broken    []app.ID      // what Recover cannot mend
	undoFrom  int           // which call of Undo from now on fails, 0 for none
	undoFails bool          // every call
	onRemove  func()        // called before a tree is removed
	discards  time.Duration // how long Discard takes

	notes map[app.ID][]string
	calls []string

	// Programs.
	runs   []*instance
	behave func(p app.Program) behaviour
	fail   map[string]error // by the name of the call
}

// behaviour is the script of one program.
type behaviour struct {
	err    error
	exit   *app.Exit // ends by itself after life
	life   time.Duration
	onStop time.Duration // how long it takes to heed Stop
	uses   app.MB
}

// instance is a program of the world.
type instance struct {
	w    *world
	p    app.Program
	b    behaviour
	stop chan time.Duration
	done chan struct{}
	exit app.Exit
	ram  atomic.Int64 // MB
}

func newWorld(t *testing.T) *world {
	w := &world{
		t: t, apps: map[app.ID]*app.App{}, reserved: map[app.ID]app.App{}, total: 1000, nextUID: 70000,
		stages: map[app.Stage]app.Config{}, trees: map[app.ID]string{}, undo: map[app.ID]string{},
		notes: map[app.ID][]string{}, fail: map[string]error{},
		behave: func(app.Program) behaviour { return behaviour{} },
	}
	w.host = w.open()
	return w
}

// open makes a host over what the world remembers, as a new daemon would.
func (w *world) open() *Host {
	return New(Config{
		Launch: w.launch, Plan: w.plan, Records: w, Registry: w, Settings: w, Staging: w, Trees: w, Disk: w, Logs: worldLogs{w},
		Log: slog.New(slog.DiscardHandler),
		CheckRAM: func(total, used, want app.MB) error {
			if used+want > total {
				return app.Errorf(app.Exhausted, "the account has %d MB", total)
			}
			return nil
		},
		RAMDefault: 100, Capacity: 2000, StopGrace: 10 * time.Second, OKDelay: 2 * time.Second,
		BuildRAM: 512, BuildTimeout: 10 * time.Minute, Builds: 1, BackupTTL: time.Hour,
	})
}

func (w *world) failing(call string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.calls = append(w.calls, call)
	return w.fail[call]
}

func (w *world) launch(_ context.Context, p app.Program) (Instance, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	b := w.behave(p)
	if b.err != nil {
		return nil, b.err
	}
	for _, r := range w.runs {
		if r.p.App == p.App && r.p.Build == p.Build && !r.ended() {
			w.t.Errorf("a second instance of %s was started", p.App)
		}
	}
	r := &instance{w: w, p: p, b: b, stop: make(chan time.Duration, 8), done: make(chan struct{})}
	r.ram.Store(int64(p.RAM))
	w.runs = append(w.runs, r)
	go r.live()
	return r, nil
}

func (r *instance) live() {
	defer close(r.done)
	start := time.Now()
	var own <-chan time.Time
	if r.b.exit != nil {
		own = time.After(r.b.life)
	}
	select {
	case <-own:
		r.exit = *r.b.exit
	case grace := <-r.stop:
		r.heed(grace)
	}
	r.exit.At, r.exit.Ran, r.exit.LimitMB = time.Now(), time.Since(start), app.MB(r.ram.Load())
}

// heed is the end that was asked for: by itself in time, or by force.
func (r *instance) heed(grace time.Duration) {
	r.exit = app.Exit{Code: 143, Signal: 15}
	if grace == 0 || r.b.onStop > grace {
		r.exit = app.Exit{Code: 137, Signal: 9}
	}
	timer := time.After(min(grace, r.b.onStop))
	for {
		select {
		case <-timer:
			return
		case again := <-r.stop:
			if again == 0 {
				r.exit = app.Exit{Code: 137, Signal: 9}
				return
			}
		}
	}
}

func (r *instance) ended() bool {
	select {
	case <-r.done:
		return true
	default:
		return false
	}
}

func (r *instance) Wait() app.Exit           { <-r.done; return r.exit }
func (r *instance) Stop(grace time.Duration) { r.stop <- grace }

func (r *instance) SetMemory(ram app.MB) error {
	if ram < r.b.uses {
		return app.Errorf(app.Exhausted, "the program uses %d MB, more than %d MB", r.b.uses, ram)
	}
	r.ram.Store(int64(ram))
	return nil
}

func (r *instance) Usage(context.Context) (app.Usage, error) {
	if err := r.w.failing("Usage"); err != nil {
		return app.Usage{}, err
	}
	return app.Usage{MemoryBytes: r.b.uses.Bytes(), LimitBytes: app.MB(r.ram.Load()).Bytes()}, nil
}

// plan reads the config's BUILD as "needs a preparation" and refuses a MAIN
// of "missing".
func (w *world) plan(cfg app.Config, found bool, _ app.Files) (app.Plan, error) {
	if !found || cfg.Main == "missing" {
		return app.Plan{}, app.Errorf(app.Unusable, "no MAIN")
	}
	p := app.Plan{Code: app.Code{Main: cfg.Main, Lang: "test", Build: cfg.Build, Version: cfg.Version}, Argv: []string{"run", cfg.Main}}
	if cfg.Build != "" {
		p.Prepare = []app.Step{{Argv: []string{"/bin/sh", "-c", cfg.Build}}}
	}
	return p, nil
}

// Records, Registry, Settings.

func (w *world) Apps(context.Context) ([]app.App, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	var list []app.App
	for _, a := range w.apps {
		list = append(list, *a)
	}
	return list, w.fail["Apps"]
}

func (w *world) change(id app.ID, f func(a *app.App)) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	a := w.apps[id]
	if a == nil {
		return noApp(id)
	}
	f(a)
	return nil
}

func (w *world) SetWanted(_ context.Context, id app.ID, wanted app.Wanted) error {
	if err := w.failing("SetWanted"); err != nil {
		return err
	}
	return w.change(id, func(a *app.App) { a.Wanted = wanted })
}

func (w *world) RunStarted(_ context.Context, id app.ID, run int, at time.Time) error {
	return w.change(id, func(a *app.App) { a.LastRun, a.StartedAt = run, at })
}

func (w *world) RunEnded(_ context.Context, id app.ID, e app.Exit) error {
	return w.change(id, func(a *app.App) { a.LastExit = &e; w.exits = append(w.exits, e) })
}

func (w *world) ClearExit(_ context.Context, id app.ID) error {
	return w.change(id, func(a *app.App) { a.LastExit = nil })
}

func (w *world) used(not app.ID) (n app.MB) {
	for id, a := range w.apps {
		if id != not {
			n += a.RAM
		}
	}
	for _, a := range w.reserved {
		n += a.RAM
	}
	return n
}

func (w *world) Reserve(_ context.Context, a app.App, admit Admit) (app.App, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := admit(w.total, w.used("")); err != nil {
		return a, err
	}
	if _, taken := w.reserved[a.ID]; taken || w.apps[a.ID] != nil {
		return a, app.Errorf(app.Conflict, "taken")
	}
	w.nextUID++
	a.UID, a.Port = w.nextUID, w.nextUID-50000
	w.reserved[a.ID] = a
	return a, nil
}

func (w *world) Release(_ context.Context, id app.ID) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.reserved, id)
	return nil
}

func (w *world) CreateApp(_ context.Context, a app.App) (app.App, error) {
	if err := w.failing("CreateApp"); err != nil {
		return a, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	a.CreatedAt = time.Now()
	delete(w.reserved, a.ID)
	w.apps[a.ID] = &a
	return a, nil
}

func (w *world) DeleteApp(_ context.Context, id app.ID) error {
	if err := w.failing("DeleteApp"); err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if a := w.apps[id]; a != nil {
		w.reserved[id] = *a
	}
	delete(w.apps, id)
	return nil
}

func (w *world) DropReservations(context.Context) (int, error) { return 0, nil }

func (w *world) SetRAM(_ context.Context, id app.ID, ram app.MB, admit Admit) error {
	w.mu.Lock()
	err := admit(w.total, w.used(id))
	w.mu.Unlock()
	if err != nil {
		return err
	}
	return w.change(id, func(a *app.App) { a.RAM = ram })
}

func (w *world) SetProfile(_ context.Context, id app.ID, p app.Profile) error {
	if err := w.failing("SetProfile"); err != nil {
		return err
	}
	return w.change(id, func(a *app.App) {
		if p.Name != nil {
			a.Name = *p.Name
		}
	})
}

func (w *world) SetCode(_ context.Context, id app.ID, c app.Code, auto bool) error {
	if err := w.failing("SetCode"); err != nil {
		return err
	}
	return w.change(id, func(a *app.App) { a.Code, a.AutoRestart = c, auto })
}

// Staging: a file's name is the config it holds, "main,build"; "bad" is no ZIP.

func (w *world) Spool(_ context.Context, r io.Reader) (string, error) {
	b, err := io.ReadAll(r)
	return string(b), err
}

func (w *world) DropSpool(string) {}

func (w *world) Unpack(_ context.Context, file string, over *app.Code, judge func(app.Config) error) (app.Stage, app.Config, bool, string, error) {
	if file == "bad" {
		return "", app.Config{}, false, "", app.Errorf(app.Unusable, "not a ZIP")
	}
	if over != nil && over.Main == "" {
		w.t.Error("a commit does not say what it is laid over")
	}
	cfg := parse(file)
	if err := judge(cfg); err != nil {
		return "", app.Config{}, false, "", err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.staged++
	stage := app.Stage(fmt.Sprintf("stage-%d", w.staged))
	w.stages[stage] = cfg
	return stage, cfg, len(cfg.Keys) > 0, "", nil
}

// parse reads "MAIN=a,BUILD=b,...".
func parse(file string) app.Config {
	var cfg app.Config
	for field := range strings.SplitSeq(file, ",") {
		key, value, ok := strings.Cut(field, "=")
		if !ok {
			continue
		}
		cfg.Keys = append(cfg.Keys, key)
		switch key {
		case "MAIN":
			cfg.Main = value
		case "BUILD":
			cfg.Build = value
		case "AUTORESTART":
			cfg.AutoRestart = value == "true"
		case "RAM":
			fmt.Sscan(value, &cfg.RAM)
		case "ID":
			cfg.ID = value
		case "TYPE":
			cfg.Type = app.Site
		}
	}
	return cfg
}

func (w *world) Files(app.Stage, app.ID) app.Files { return nil }

func (w *world) Discard(stage app.Stage) {
	time.Sleep(w.discards)
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.stages, stage)
}

// Trees and Disk.

func (w *world) Publish(_ context.Context, stage app.Stage, id app.ID, _ int) error {
	if err := w.failing("Publish"); err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.trees[id] = w.stages[stage].Main
	delete(w.stages, stage)
	return nil
}

func (w *world) Prepare(context.Context, app.Stage, app.ID, int) error { return w.failing("Prepare") }

func (w *world) Apply(_ context.Context, stage app.Stage, id app.ID, _ int) error {
	w.mu.Lock()
	for _, r := range w.runs {
		if r.p.App == id && !r.p.Build && !r.ended() {
			w.t.Errorf("the tree of %s was changed under a running program", id)
		}
	}
	w.undo[id] = w.trees[id]
	w.trees[id] = w.stages[stage].Main
	w.mu.Unlock()
	return w.failing("Apply")
}

func (w *world) Undo(_ context.Context, id app.ID, _ int) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.undoFails {
		return errTest
	}
	if w.undoFrom > 0 {
		if w.undoFrom--; w.undoFrom == 0 {
			return errTest
		}
	}
	if before, ok := w.undo[id]; ok {
		w.trees[id] = before
		delete(w.undo, id)
	}
	return nil
}

func (w *world) Settle(_ context.Context, id app.ID) error {
	if err := w.failing("Settle"); err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.undo, id)
	return nil
}

func (w *world) Size(context.Context, app.ID) (int64, error) { return 4096, w.failing("Size") }

func (w *world) Backup(context.Context, app.ID) (string, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.backups++
	return fmt.Sprintf("backup-%d.zip", w.backups), nil
}

func (w *world) DropBackups(time.Time) (int, error) { return 0, w.failing("DropBackups") }

func (w *world) Remove(_ context.Context, id app.ID) error {
	if w.onRemove != nil {
		w.onRemove()
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.trees, id)
	return nil
}

func (w *world) Recover(context.Context, []app.App) []app.ID { return w.broken }

// worldLogs gives Logs a Remove beside the one of Disk.
type worldLogs struct{ *world }

func (l worldLogs) Remove(id app.ID) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.notes, id)
	return nil
}

func (w *world) Note(id app.ID, text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.notes[id] = append(w.notes[id], text)
}

func (w *world) Tail(id app.ID, build bool, _ int) string {
	if build {
		return "build output\n"
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return "last words\n" + strings.Join(w.notes[id], "\n") + "\n"
}

func (w *world) Mark(id app.ID) func(int) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	from := len(w.notes[id])
	return func(int) string {
		w.mu.Lock()
		defer w.mu.Unlock()
		return "last words\n" + strings.Join(w.notes[id][from:], "\n") + "\n"
	}
}

func (w *world) BeginBuild(app.ID) error { return nil }

// What tests say and ask.

const owner app.AccountID = 1

func (w *world) upload(file string) (app.Deployed, error) {
	return w.host.Upload(context.Background(), app.Account{ID: owner, TotalRAM: w.total}, file)
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
	if len(w.stages) > 0 || len(w.reserved) > 0 || len(w.undo) > 0 {
		w.t.Errorf("left behind: stages %v, reservations %v, journals %v", w.stages, w.reserved, w.undo)
	}
	for id := range w.trees {
		if w.apps[id] == nil {
			w.t.Errorf("the tree of %s belongs to no application", id)
		}
	}
}

// exits makes a behaviour that ends by itself.
func exits(code int, life time.Duration) func(app.Program) behaviour {
	return func(app.Program) behaviour { return behaviour{exit: &app.Exit{Code: code}, life: life} }
}

func wantKind(t *testing.T, err error, kind app.Kind) {
	t.Helper()
	if err == nil || app.KindOf(err) != kind {
		t.Errorf("got %v (kind %d), want kind %d", err, app.KindOf(err), kind)
	}
}

var errTest = errors.New("it broke")
