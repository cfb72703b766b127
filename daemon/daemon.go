package daemon

import (
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"sync/atomic"
	"time"

	"berth/app"
	"berth/cgroup"
	"berth/daemon/settings"
	"berth/db"
	"berth/host"
	"berth/host/account"
	"berth/host/domain"
	"berth/host/runtimes"
	"berth/host/watch"
	"berth/proc"
	"berth/web/provider"
)

// daemon is berth serving: what is open while it does.
type daemon struct {
	settings  settings.Settings
	args      []string // of serve
	log       *slog.Logger
	examine   func(context.Context, settings.Settings) []app.Finding
	handover  *handover // what outlives this image of the daemon
	undo      closers   // of all that follows
	data      *data
	groups    *cgroup.Tree
	survivors *survivors // of an earlier daemon, until they are adopted
	proc      *proc.Launcher
	engine    engine
	host      *host.Host
	hub       *watch.Hub
	sampler   *watch.Sampler
	icons     *icons
	pulse     *pulse
	notices   *notices
	monitor   *monitor
	backups   *backups
	providers []provider.Config // of sign-ins
	handler   http.Handler
	owner     http.Handler // of the local socket
	local     *ownerSocket
	listens   string                  // the address of the API, once it serves
	serving   atomic.Pointer[serving] // from begin on
	sites     *sites                  // nil: berth serves no sites
	leaving   bool                    // programs run on without the daemon
}

// open opens everything. What the handover has, or gets, stays open when it fails
// and when the daemon is closed.
func (d *daemon) open(ctx context.Context) (err error) {
	defer func() {
		if err != nil {
			err = errors.Join(err, d.undo.close())
		}
	}()
	if d.data, err = openData(ctx, d.settings, d.handover, &d.undo, d.log); err != nil {
		return err
	}
	if err = d.openGroups(ctx); err != nil {
		return err
	}
	if d.proc, err = openWalls(ctx, d.settings, d.groups, d.survivors.paths(), &d.undo, d.log); err != nil {
		return err
	}
	if err = d.openHost(ctx); err != nil {
		return err
	}
	return d.sites.open(ctx, d.handover, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		d.serving.Load().answer(w, r, d.handler) // sites are served by one that serves
	}))
}

// run opens the daemon, serves and closes it.
func (d *daemon) run(sig *stops, next *nextBinary) (err error) {
	if err := d.open(d.handover.lasting(sig.first)); err != nil {
		return err
	}
	defer func() {
		if failed := d.undo.close(); errors.Is(err, errUpgrade) && failed != nil {
			d.log.Error("cannot close everything for the upgrade", "error", failed) // the next image opens it
		} else {
			err = errors.Join(err, failed)
		}
	}()
	l, err := d.handover.listener(sig.first, d.settings.Listen)
	if err != nil {
		return err
	}
	d.handover.only(d.settings.Listens()...)
	d.handover.lend(d.settings.Listens()[1:], d.log)
	d.local.open(sig.first)
	defer func() {
		if !errors.Is(err, errUpgrade) {
			d.local.remove()
		}
	}()
	err = d.serve(sig.first, sig.second, l, &upgrader{
		settings: d.settings, log: d.log, db: d.data.db, hold: d.refuse, handover: d.handover, next: next, hangups: sig.hangups,
	})
	if err == nil || errors.Is(err, errUpgrade) {
		d.notices.ended()
	}
	return err
}

// refuse keeps what would outlast an upgrade from beginning, or lets it begin again.
func (d *daemon) refuse(on bool) {
	d.host.RefuseUploads(on)
	d.backups.pause(on)
}

// closers end what was opened.
type closers []func() error

func (c *closers) add(ends ...func() error) { *c = append(*c, ends...) }

// close ends the last first.
func (c *closers) close() error {
	var errs []error
	for _, end := range slices.Backward(*c) {
		errs = append(errs, end())
	}
	return errors.Join(errs...)
}

// openGroups opens the groups of programs, and takes over what an earlier daemon left
// in them.
func (d *daemon) openGroups(ctx context.Context) error {
	facts, err := cgroup.Detect()
	if err != nil {
		return err
	}
	p := &placement{dir: d.settings.DataDir, data: d.data, facts: facts, log: d.log}
	if d.groups, err = p.open(ctx); err != nil {
		return err
	}
	d.undo.add(func() error {
		if d.leaving { // leaves the watches of programs that run on to the kernel
			return d.groups.Release()
		}
		return d.groups.Close()
	})
	adopts, err := p.claim(ctx, d.groups)
	if err != nil {
		return err
	}
	d.survivors = &survivors{data: d.data, groups: d.groups, log: d.log}
	if err := d.survivors.takeOver(ctx, adopts, d.handover.handed); err != nil {
		return err
	}
	if _, err := d.groups.MaxCPU(); err != nil && d.settings.Apps.CPUMax > 0 {
		d.log.Warn("apps.cpu_max has no effect", "why", err)
	}
	return nil
}

func (d *daemon) openHost(ctx context.Context) error {
	info, err := proc.Host()
	if err != nil {
		return err
	}
	key, err := d.data.db.LinkKey(ctx)
	if err != nil {
		return err
	}
	s := d.settings
	if d.providers, err = readProviders(s); err != nil {
		return err
	}
	if d.engine, err = d.openEngine(ctx, info.RAM); err != nil {
		return err
	}
	teams := account.NewTeams(d.data.db.Teams)
	find := func(id app.ID) (app.Snapshot, bool) { return d.host.Find(id) } // it comes after those who need it
	d.hub = watch.NewHub(watch.Access{Find: find, Authorize: teams.Authorize, Memberships: teams.Memberships}, d.data.logs)
	dial := func(ctx context.Context, id string, at netip.AddrPort) (net.Conn, error) {
		return d.host.Dial(ctx, app.ID(id), at)
	}
	if d.monitor, err = newMonitor(d); err != nil {
		return err
	}
	d.sites = newSites(s, d.data, find, dial, d.monitor.traffic, &d.undo, d.log)
	d.notices = &notices{d: d, happens: make(chan app.Notice, 1)}
	d.icons = &icons{records: d.data.db.Icons, contents: d.data.trees, note: d.data.logs.Note, log: d.log}
	d.host = host.New(d.hostConfig())
	if err := d.openNotices(); err != nil {
		return err
	}
	d.backups = newBackups(d, d.args)
	also := watch.Also{Answers: d.monitor.answers, Host: func() (app.Counts, error) { return proc.HostUse(s.DataDir) }}
	d.sampler = watch.NewSampler(d.hub, d.measure, also, d.data.history.Append, d.log)
	d.monitor.traffic.Begins = d.sampler.Visited // before a site is served
	d.pulse = &pulse{path: "/" + rand.Text(), data: d.data, groups: d.groups, host: d.host, log: d.log}
	d.local = newOwnerSocket(s, d.handover, d.log)
	d.handler = d.newHandler(app.Services{
		Applications: d.host,
		Settings:     d.host,
		FileEdits:    d.host,
		Deployments:  d.host,
		Contents:     d.data.trees,
		Logs:         d.data.logs,
		Feed:         d.hub,
		Accounts:     account.New(d.data.db.Accounts),
		Tokens:       account.New(d.data.db.Accounts),
		Links:        account.NewLinks(key, time.Now),
		Teams:        teams,
		Names:        domain.New(namesConfig(s, d.data.db.Names, d.sites, d.log)),
		Notices:      d.notices,
		Snapshots:    d.backups,
		HostBackups:  d.backups,
		HostSettings: hostSettings{d.settings},
		Icons:        d.icons,
		Exec:         d.host.Exec,
		Type:         d.host.Type,
		Metrics:      d.data.history.Range,
		RightSize:    d.rightSize,
		RAMPlan:      d.ramPlan,
		DiskUse:      d.host.DiskUse,
		Address:      d.sites.address,
		Certificates: d.sites.certificate,
		Record:       d.data.audit.Record,
		Changes:      d.data.watch.changes,
		Shortage:     d.host.Shortage,
	}, key)
	return nil
}

// hostConfig gives the host its mechanisms and what the settings say.
func (d *daemon) hostConfig() host.Config {
	s, data := d.settings, d.data
	ids := db.IDRange{
		UIDBase: s.Apps.UIDBase, UIDCount: s.Apps.UIDCount, PortFirst: s.Apps.PortFirst, PortLast: s.Apps.PortLast,
		Start: startOf(s.DataDir),
	}
	allocations := data.db.Allocations(ids)
	tools := d.engine.tools
	return host.Config{
		Launch:  d.engine.launch,
		Adopt:   d.engine.adopt,
		Shell:   d.engine.shell,
		Type:    d.engine.typing,
		Plan:    planner(tools),
		Suggest: runtimes.Suggest,
		Records: data.db.Apps,
		Registry: struct {
			db.Allocations
			db.History
			db.Apps
		}{allocations, data.db.History, data.db.Apps},
		Staging: data.trees,
		Trees:   data.trees,
		Edits:   data.trees,
		Recover: recovery{data.trees, allocations, data.db.History, data.logs, data.history, d.log}.recover,
		Quotas:  data.trees,
		Visits:  d.sites.visits(),
		Address: d.sites.address,
		Logs:    data.logs,
		Memory:  d.engine.memory,
		History: data.lastDay,
		Forget: func(id app.ID) error {
			defer data.accesses.Remove(id)()
			d.monitor.traffic.Forget(string(id))
			return errors.Join(data.logs.Remove(id), data.history.Remove(id))
		},
		Account:        data.db.Accounts.Account,
		ReadHold:       data.db.Holds.HoldOf,
		LimitCPU:       d.engine.limitCPU,
		Stale:          d.engine.stale,
		Log:            d.log,
		Notify:         func(e app.Event) { d.monitor.Observe(e); d.hub.Publish(e) },
		Short:          d.notices.short,
		CheckRAM:       account.RAMRule{Least: s.Apps.RAMMin}.Check,
		Wish:           func(list []string) (app.Wishes, error) { return runtimes.Wish(list, tools) },
		CheckSubdomain: domain.CheckSubdomain,
		NamesChanged:   d.sites.changed,
		CodeChanged:    d.icons.bring,
		MaxUpload:      max(s.Upload.Max, s.Upload.MaxSocket).Bytes(),
		DiskLimit:      s.Apps.Disk,
		DiskEnforced:   data.trees.Quota().Enforced(),
		RAMDefault:     s.Apps.RAMDefault,
		Capacity:       d.capacity,
		StopGrace:      s.Apps.StopTimeout,
		OKDelay:        s.Apps.OKDelay,
		DailyStarts:    s.Apps.DailyStarts,
		HealthTimeout:  s.Proxy.HealthTimeout,
		DrainTimeout:   s.Proxy.DrainTimeout,
		BuildRAM:       BuildRAM(d.engine.ram(), s.Build.RAM),
		BuildTimeout:   s.Build.Timeout,
		Builds:         s.Build.Concurrency,
		BuildQueue:     s.Build.Queue,
		BackupTTL:      s.Backups.TTL,
		ConsoleTimeout: s.Console.Timeout,
		DeploysKeep:    s.Deploys.Keep,
		DeploysDisk:    s.Deploys.Disk,
	}
}

// planner plans with this host's runtimes.
func planner(tools runtimes.Tools) host.Planner {
	return func(cfg app.Config, found bool, files app.Files, prepared string) (app.Plan, error) {
		return runtimes.Plan(cfg, found, files, tools, prepared)
	}
}
