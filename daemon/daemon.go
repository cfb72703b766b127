package daemon

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"time"

	"berth/app"
	"berth/cgroup"
	"berth/daemon/settings"
	"berth/db"
	"berth/files"
	"berth/files/bundle"
	"berth/host"
	"berth/host/account"
	"berth/host/domain"
	"berth/host/runtimes"
	"berth/host/watch"
	"berth/host/watch/metrics"
	"berth/httpapi"
	"berth/proc"
	"berth/proc/logs"
	"berth/proc/sandbox"
	"berth/systemd"
	"berth/web/proxy"
)

// daemon is berth serving: everything that is open while it does.
type daemon struct {
	settings    settings.Settings
	log         *slog.Logger
	examine     func(context.Context, settings.Settings) []app.Finding
	db          *db.DB
	audit       *db.Auditor
	trees       *files.Store
	logs        *logs.Book
	accesses    *proxy.AccessLogs
	absence     absence
	held        logs.Holder // keeps what programs print while no daemon lives
	groups      *cgroup.Tree
	meter       *sandbox.Meter   // nil where nothing counts
	sockets     *sandbox.Sockets // nil where nobody counts them, for the reason that is
	uncounted   error
	network     *sandbox.Network // nil where programs have the host's, for the reason that is
	unnetworked error
	walls       proc.Walls
	survivors   survivors     // of an earlier daemon, until they are adopted
	socket      *os.File      // of the API, from systemd; nil once it is used, or for none
	pulsePath   string        // where the daemon asks itself whether it lives
	leaving     bool          // programs run on without the daemon
	disk        *files.Prober // of the data directory
	host        *host.Host
	history     *metrics.Store
	hub         *watch.Hub
	sampler     *watch.Sampler
	handler     http.Handler
	serving     atomic.Pointer[serving] // from begin on
	sites       *sites                  // nil: berth serves no sites
	undo        []func() error          // closes what was opened, in reverse

	baton   *baton          // what outlives this image of the daemon
	next    *successor      // nil when hangups is
	hangups <-chan struct{} // ask for an upgrade; nil when nothing does
	quiet   bool            // no request had to be interrupted for it
}

// openDaemon opens everything and leaves nothing open when it fails, nor when the
// daemon is closed.
func openDaemon(ctx context.Context, s settings.Settings, log *slog.Logger) (*daemon, error) {
	b := newBaton()
	d := &daemon{settings: s, log: log, baton: b, undo: []func() error{b.close}}
	if err := d.open(ctx); err != nil {
		return nil, err
	}
	return d, nil
}

// open opens everything. What the baton has, or gets, stays open when it fails
// and when the daemon is closed.
func (d *daemon) open(ctx context.Context) error {
	d.pulsePath = "/" + rand.Text()
	d.absence.noticed = make(chan struct{}, 1)
	for _, open := range []func(context.Context) error{d.openData, d.openGroups, d.openWalls, d.openHost, d.openProxy} {
		if err := open(ctx); err != nil {
			return errors.Join(err, d.close())
		}
	}
	return nil
}

func (d *daemon) close() error {
	var errs []error
	for i := len(d.undo) - 1; i >= 0; i-- {
		errs = append(errs, d.undo[i]())
	}
	return errors.Join(errs...)
}

func (d *daemon) openData(ctx context.Context) (err error) {
	dir := d.settings.DataDir
	defer func() {
		if refused := DiskProblem(dir, err); refused != nil {
			err = refused
		}
	}()
	if err := files.Reachable(dir); err != nil {
		return err
	}
	if err := MakeDataDir(dir); err != nil {
		return err
	}
	if err := d.baton.lock(dir); err != nil {
		return err
	}
	if err := files.TakeReserve(dir); err != nil {
		return err
	}
	if err := d.openRecords(ctx); err != nil {
		return err
	}
	d.audit = db.NewAuditor(d.db, d.settings.Audit.Keep, d.settings.Audit.Age, func(problem error) {
		d.log.Error("the audit log has a problem", "error", problem)
	})
	d.undo = append(d.undo, func() error {
		if err := d.audit.Close(); err != nil { // a full disk, which is told, and makes no stop fail
			d.log.Error("the audit log is incomplete", "error", err)
		}
		return nil
	})
	up := d.settings.Upload
	if d.trees, err = files.Open(dir, bundle.Limits{MaxEntries: up.MaxFiles, MaxUnpacked: up.MaxUnpacked.Bytes()}); err != nil {
		return err
	}
	d.undo = append(d.undo, d.trees.Close)
	d.trees.SetFloor(d.settings.Host.DiskFloor.Bytes())
	if err := d.openQuota(ctx); err != nil {
		return err
	}
	l := d.settings.Logs
	d.logs = logs.NewBook(filepath.Join(dir, "logs"), logs.Options{
		MaxFile: l.MaxFile.Bytes(), Keep: l.Keep, Rate: int64(l.RateKB) << 10, Burst: 4 * int64(l.RateKB) << 10,
	}, d.log)
	if d.held, d.socket, err = openHolder(dir, d.log); err != nil {
		return err
	}
	d.logs.HoldWith(d.held)
	d.accesses = proxy.NewAccessLogs(filepath.Join(dir, "logs"), l.MaxFile.Bytes(), l.Keep, d.log)
	d.undo = append(d.undo, d.closeSocket, d.held.Close, d.logs.Close, d.accesses.Close)
	return d.openHistory()
}

func (d *daemon) openHost(ctx context.Context) error {
	info, err := proc.Host()
	if err != nil {
		return err
	}
	key, err := d.db.LinkKey(ctx)
	if err != nil {
		return err
	}
	s := d.settings
	capacity := Capacity(info.RAM, s.Host.Reserve, s.Host.Overcommit)
	teams := account.NewTeams(d.db)
	d.openHub(teams)
	d.host = host.New(d.hostConfig(capacity))
	d.sampler = watch.NewSampler(d.hub, d.host, d.history.Append, d.log)
	d.handler = d.front(app.Services{
		Applications: d.host,
		Settings:     d.host,
		Deployments:  d.host,
		Contents:     d.trees,
		Logs:         d.logs,
		Feed:         d.hub,
		Accounts:     account.New(d.db),
		Links:        account.NewLinks(key, time.Now),
		Teams:        teams,
		Names:        domain.New(d.names()),
		Metrics:      d.history.Range,
		Record:       d.audit.Record,
		Changes:      d.changes,
	}, key, capacity)
	return nil
}

// hostConfig gives the host its mechanisms and what the settings say.
func (d *daemon) hostConfig(capacity app.MB) host.Config {
	s := d.settings
	ids := db.IDRange{
		UIDBase: s.Apps.UIDBase, UIDCount: s.Apps.UIDCount, PortFirst: s.Apps.PortFirst, PortLast: s.Apps.PortLast,
		Start: startOf(s.DataDir),
	}
	store := registry{d.db, ids, d.renamed}
	files := trees{d.trees, d.db, store.ids, max(s.Upload.Max, s.Upload.MaxSocket).Bytes(), d.logs, d.history, d.log}
	tools := proc.FindTools()
	if slices.Contains(d.walls.Layers, sandbox.Mounts) {
		tools.Only(d.walls.Paths)
	}
	start := &launcher{
		adopts: d.survivors.take,
		path:   tools.Path(), trees: d.trees, logs: d.logs,
		proc: &proc.Launcher{Tree: d.groups, Log: d.log, Meter: d.meter, Network: d.network, Sockets: d.sockets, Walls: d.walls},
		pids: int64(s.Apps.PidsMax), cpu: int64(s.Apps.CPUMax), oomGroup: s.Apps.OOMGroup,
	}
	if !d.trees.Quota().Enforced() { // a quota says EDQUOT, this kills
		start.fileSize = s.Apps.Disk.Bytes()
	}
	return host.Config{
		Launch:    start.launch,
		Adopt:     start.adopt,
		Shell:     start.shell,
		Plan:      planner(tools),
		Records:   store,
		Registry:  store,
		Staging:   files,
		Trees:     files,
		Quotas:    files,
		Visits:    d.visits(),
		DiskLimit: s.Apps.Disk,
		Logs:      keepsakes{d.logs, d.accesses, d.history},
		Log:       d.log,
		Tell:      d.hub.Tell,
		CheckRAM: func(total, used, want app.MB) error {
			return account.CheckRAM(total, used, want, s.Apps.RAMMin)
		},
		Wish:           func(list []string) (app.Wishes, error) { return runtimes.Wish(list, tools) },
		CheckSubdomain: domain.CheckSubdomain,
		RAMDefault:     s.Apps.RAMDefault,
		Capacity:       capacity,
		StopGrace:      s.Apps.StopTimeout,
		OKDelay:        s.Apps.OKDelay,
		HealthTimeout:  s.Proxy.HealthTimeout,
		DrainTimeout:   s.Proxy.DrainTimeout,
		BuildRAM:       s.Build.RAM,
		BuildTimeout:   s.Build.Timeout,
		Builds:         s.Build.Concurrency,
		BuildQueue:     s.Build.Queue,
		BackupTTL:      s.Backups.TTL,
		ConsoleTimeout: s.Console.Timeout,
		DeploysKeep:    s.Deploys.Keep,
		DeploysDisk:    s.Deploys.Disk,
	}
}

// apiConfig gives the API its services and what the settings say.
func (d *daemon) apiConfig(services app.Services) httpapi.Config {
	s := d.settings
	return httpapi.Config{
		Services:     services,
		BackupOf:     files.BackupOf,
		Certificates: d.certificate,
		RateLimit:    s.RateLimit,
		BaseURL:      s.BaseURL,
		MaxUpload:    s.Upload.Max.Bytes() + multipartRoom,
		MaxFile:      s.Upload.Max.Bytes(),
		MaxSocket:    s.Upload.MaxSocket.Bytes(),
		Version:      settings.Version(),
		Log:          d.log,
		Now:          time.Now,
	}
}

// lastAnswers is how long requests under way may take once nothing runs.
const lastAnswers = 5 * time.Second

// multipartRoom is what the body of an upload may have around the ZIP.
const multipartRoom = 64 << 10

// planner plans with this host's runtimes.
func planner(tools *proc.Tools) host.Planner {
	return func(cfg app.Config, found bool, files app.Files, prepared string) (app.Plan, error) {
		return runtimes.Plan(cfg, found, files, tools, prepared)
	}
}

// server bounds what strangers can hold: 10 seconds for the headers of a request,
// 64 KB of them, and two minutes between requests. The handler bounds the rest.
func (d *daemon) server(life context.Context, v *serving) *http.Server {
	return &http.Server{
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if d.knocked(w, r) {
				return
			}
			v.answer(w, r, d.handler)
		}),
		ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 64 << 10,
		BaseContext:                  func(net.Listener) context.Context { return life },
		DisableGeneralOptionsHandler: true, ErrorLog: slog.NewLogLogger(d.log.Handler(), slog.LevelWarn),
	}
}

// serve answers on l until ctx ends, then stops everything; hurry makes it
// stop at once. It returns when nothing of berth runs any more. A hang-up lets
// the next binary take over: then it is errUpgrade, and programs run on.
func (d *daemon) serve(ctx, hurry context.Context, l net.Listener) error {
	d.endStrangers()
	if err := d.host.Boot(d.baton.lasting(ctx)); err != nil {
		_ = l.Close()
		return err
	}
	d.endUntaken()
	v := d.begin(ctx, l)
	d.log.Info("listening on http://"+l.Addr().String(), "data", d.settings.DataDir, "groups", d.groups.Root(), "version", settings.Version())
	d.tell(d.baton.ready)
	if d.await(ctx, v) != nil {
		return cmp.Or(d.depart(hurry, v), errUpgrade)
	}
	d.tell(systemd.Stopping)
	// Deployments under way are called off, then their requests get an answer.
	d.end(hurry)
	d.hub.Close() // streams have told the end of the programs
	last, cancel := context.WithTimeout(hurry, lastAnswers)
	defer cancel()
	if err := v.shutdown(last); err != nil {
		_ = v.server.Close() // cuts those who do not take their answer or end their upload
	}
	d.sites.shutdown(last)
	v.end(nil) // Shutdown knows nothing of WebSockets
	v.handlers.Close()
	return v.work.Wait()
}

// sweep removes expired backups now and then, and keeps room for the next start.
func (d *daemon) sweep(ctx context.Context) error {
	ticker := time.NewTicker(sweepEvery)
	defer ticker.Stop()
	for {
		if err := d.host.DropBackups(); err != nil {
			d.log.Error("cannot remove expired backups", "error", err)
		}
		if err := files.KeepReserve(d.settings.DataDir); err != nil {
			d.log.Warn("a start on a full disk may fail", "error", err)
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// sweepEvery is how often sweep does what it does.
const sweepEvery = 10 * time.Minute
