package panel

import (
	"context"
	"log/slog"
	"math"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"berth/app"
)

const (
	auditPage  = 50          // records on one page
	doctorTime = time.Minute // for one examination
	doctorAge  = time.Hour   // of the last one, when the page begins another
)

// hostPages are the administrators'.
type hostPages struct {
	admin       Admin
	invitations Invitations
	signIns     SignIns
	factors     Factors
	apps        app.Applications
	records     func(ctx context.Context, q app.AuditQuery) ([]app.AuditRecord, error)
	examiner    func(ctx context.Context) []app.Finding
	runtimes    func() []app.Runtime
	beside      func(f func()) bool // Config.Go
	plan        func(ctx context.Context) (app.RAMPlan, error)
	shortage    func() app.Shortage
	backups     app.HostBackups // nil where the host can have none
	exposed     app.Text        // Config.Exposed
	baseURL     string
	began       time.Time
	doctor      checkup
	charts      chartPages
	log         *slog.Logger
}

// hostPage is the data of host.html.
type hostPage struct {
	Accounts    []accountRow
	Plan        app.RAMPlan
	Share       int // of its Capacity that is given, from 0 to 100
	Began       time.Time
	Doctor      findings
	Exposed     string // the warning, "" for none
	Shortage    shortage
	Backups     *hostBackups // nil: not shown
	Runtimes    []app.Runtime
	RAM         string         // as typed
	Required    bool           // everybody must have a second factor
	Invitations []app.Offer    // that wait
	Own         []app.Snapshot // applications of the administrator
	Charts      charts
}

// shortage is what the page says of the host's last shortage of memory.
type shortage struct {
	app.Shortage
	Lasted string
	Grown  []string // in the order of kills
}

// shortageAge is for how long a shortage is told that is over.
const shortageAge = 24 * time.Hour

// shortageOf is nothing where there was none for a day.
func shortageOf(c *call, last app.Shortage) (s shortage) {
	if !last.Lasts() && time.Since(last.Until) > shortageAge {
		return s
	}
	s.Shortage, s.Lasted = last, span(c.lang, last.Until.Sub(last.Since))
	for _, g := range last.Order {
		used := size(c.lang, g.Used)
		if g.Above() > 0 {
			s.Grown = append(s.Grown, c.lang.Say("%s (%s) used %s, %s more than expected of it", g.Name, g.App, used, size(c.lang, g.Above())))
		} else {
			s.Grown = append(s.Grown, c.lang.Say("%s (%s) used %s, not more than expected of it", g.Name, g.App, used))
		}
	}
	return s
}

// accountRow is one account.
type accountRow struct {
	app.Account
	Used    app.MB
	Apps    int
	Factors app.Factors
}

func (p *hostPages) show(c *call) (answer, error) {
	if p.doctor.old() {
		_ = p.look(c) // else the page shows the old one
	}
	all, used, err := p.admin.Accounts(c.ctx())
	page := hostPage{
		Began: p.began, Doctor: p.doctor.last(), Runtimes: p.runtimes(), Exposed: c.lang.SayPhrase(p.exposed), RAM: "512",
		Shortage: shortageOf(c, p.shortage()),
	}
	var apps []app.Snapshot
	for i, a := range all {
		own := p.apps.Apps(a.ID)
		apps = append(apps, own...)
		row := accountRow{Account: a, Used: used[i], Apps: len(own)}
		if err == nil {
			row.Factors, err = p.factors.Factors(c.ctx(), a.ID)
		}
		page.Accounts = append(page.Accounts, row)
	}
	if err == nil {
		page.Required, err = p.factors.FactorRequired(c.ctx())
	}
	if err == nil {
		page.Invitations, err = p.invitations.Invitations(c.ctx(), 0)
	}
	page.Own = p.apps.Apps(c.account.ID)
	if err == nil {
		page.Backups, err = p.backupsOf(c, apps)
	}
	if err == nil {
		page.Plan, err = p.plan(c.ctx())
	}
	if err == nil {
		page.Charts, err = p.charts.read(c, app.HostHistory)
	}
	page.Share = share(int64(page.Plan.Given), int64(page.Plan.Capacity))
	if c.Request.PostForm.Has("name") {
		page.RAM = c.Request.PostForm.Get("ram")
	}
	return show("host", page), err
}

func (p *hostPages) createAccount(c *call, f url.Values) (answer, error) {
	ram, err := ramOf(f)
	if err != nil {
		return answer{}, err
	}
	if _, err := c.base(p.baseURL); err != nil { // before there is an account that nobody can open
		return answer{}, err
	}
	name := strings.TrimSpace(f.Get("name"))
	c.audit.Note("account=%.40q ramMB=%d", name, ram)
	a, err := p.admin.Create(c.ctx(), name, ram)
	if err != nil {
		return answer{}, err
	}
	return p.invite(c, a, c.lang.Say("The account %s was created. Its owner sets a password with this link. The link works once, for a short time.", a.Name))
}

// invite shows a one-time link for an account, once.
func (p *hostPages) invite(c *call, a app.Account, sentence string) (answer, error) {
	base, err := c.base(p.baseURL)
	if err != nil {
		return answer{}, err
	}
	key, err := p.signIns.Invite(c.ctx(), a.ID)
	return answer{to: "/host", flash: c.linkFlash(base, "/setup/"+key, sentence)}, err
}

// find returns the account that meant is true for.
func (p *hostPages) find(c *call, meant func(app.Account) bool) (app.Account, error) {
	all, _, err := p.admin.Accounts(c.ctx())
	if err != nil {
		return app.Account{}, err
	}
	if i := slices.IndexFunc(all, meant); i >= 0 {
		return all[i], nil
	}
	return app.Account{}, app.Errorf(app.NotFound, "there is no such account")
}

// account is a handler that gets the account of the path.
func (p *hostPages) account(h func(c *call, a app.Account) (answer, error)) handler {
	return func(c *call) (answer, error) {
		id := app.AccountID(c.number("account"))
		a, err := p.find(c, func(a app.Account) bool { return a.ID == id })
		if err != nil {
			return answer{}, err
		}
		c.audit.Note("account=%s", a.Name)
		return h(c, a)
	}
}

func (p *hostPages) setRAM(c *call, a app.Account) (answer, error) {
	f, err := c.form()
	if err != nil {
		return answer{}, err
	}
	ram, err := ramOf(f)
	if err != nil {
		return answer{}, err
	}
	c.audit.Note("ramMB=%d", ram)
	_, err = p.admin.Change(c.ctx(), a.ID, app.AccountChange{RAM: &ram})
	return done("/host", c.lang.Say("The account %s has %d MB of RAM now.", a.Name, ram)), err
}

// limitOf is a limit in a form, 0 for an empty field, -1 for what is no number.
func limitOf(f url.Values, name string) int {
	if f.Get(name) == "" {
		return 0
	}
	return int(max(min(whole(f.Get(name)), math.MaxInt32), -1))
}

// setLimits sets all limits beside the RAM; an empty field is no limit.
func (p *hostPages) setLimits(c *call, a app.Account) (answer, error) {
	f, err := c.form()
	if err != nil {
		return answer{}, err
	}
	disk := app.MB(limitOf(f, "disk"))
	limit := func(name string) *int { return new(limitOf(f, name)) }
	change := app.AccountChange{Disk: &disk, Apps: limit("apps"), CPU: limit("cpu"), Builds: limit("builds"), Backups: limit("backups")}
	c.audit.Note("diskMB=%d apps=%d cpu=%d builds=%d backups=%d", disk, *change.Apps, *change.CPU, *change.Builds, *change.Backups)
	_, err = p.admin.Change(c.ctx(), a.ID, change)
	return done("/host", c.lang.Say("The limits of %s were changed.", a.Name)), err
}

func (p *hostPages) disable(c *call, a app.Account) (answer, error) {
	if a.ID == c.account.ID {
		return answer{}, app.Errorf(app.Conflict, "you cannot disable your own account")
	}
	_, err := p.admin.SetDisabled(c.ctx(), a.ID, true)
	return done("/host", c.lang.Say("The account %s is disabled. Its programs keep running.", a.Name)), err
}

func (p *hostPages) enable(c *call, a app.Account) (answer, error) {
	_, err := p.admin.SetDisabled(c.ctx(), a.ID, false)
	return done("/host", c.lang.Say("The account %s is enabled.", a.Name)), err
}

func (p *hostPages) suspend(c *call, a app.Account) (answer, error) {
	f, err := c.form()
	if err != nil {
		return answer{}, err
	}
	if a.ID == c.account.ID {
		return answer{}, app.Errorf(app.Conflict, "you cannot suspend your own account")
	}
	c.audit.Note("reason=%q", f.Get("reason"))
	_, err = p.admin.Suspend(c.ctx(), a.ID, strings.TrimSpace(f.Get("reason")))
	return done("/host", c.lang.Say("The account %s is suspended. Its programs do not run, and berth keeps everything of it.", a.Name)), err
}

func (p *hostPages) unsuspend(c *call, a app.Account) (answer, error) {
	_, err := p.admin.Unsuspend(c.ctx(), a.ID)
	return done("/host", c.lang.Say("The account %s is no longer suspended. Its applications that were online start again.", a.Name)), err
}

func (p *hostPages) link(c *call, a app.Account) (answer, error) {
	return p.invite(c, a, c.lang.Say("The owner of %s sets a new password with this link. The link works once, for a short time.", a.Name))
}

// requireFactor begins or ends that everybody must have a second factor. An administrator
// without one would be the first to reach nothing.
func (p *hostPages) requireFactor(c *call, f url.Values) (answer, error) {
	on := f.Get("on") == "true"
	c.audit.Note("required=%t", on)
	if !on {
		return done("/host", c.lang.Say("A second factor is optional now.")), p.factors.RequireFactor(c.ctx(), false)
	}
	own, err := p.factors.Factors(c.ctx(), c.account.ID)
	if err == nil && !own.Any() {
		err = app.Errorf(app.Conflict, "you have no second factor yourself; set one up on the page Account, then demand it of the others")
	}
	if err != nil {
		return answer{}, err
	}
	return done("/host", c.lang.Say("Everybody must have a second factor now.")), p.factors.RequireFactor(c.ctx(), true)
}

// findings are what the last examination has found.
type findings struct {
	Rows    []app.Finding
	At      time.Time // of its end; zero for none yet
	Running bool
	tried   time.Time // when the last one began, which may have come to nothing
}

// Verdict is what they come to.
func (f findings) Verdict() app.Text { return app.Verdict(f.Rows) }

// Worst is the worst verdict of one of them: FAIL, warn or ok.
func (f findings) Worst() string {
	worst := app.Good
	for _, row := range f.Rows {
		if row.Verdict == app.Bad || row.Verdict == app.Dubious && worst == app.Good {
			worst = row.Verdict
		}
	}
	return worst
}

// checkup lets one examination run at a time and keeps what it found. It is safe
// for concurrent use.
type checkup struct {
	mu sync.Mutex
	at findings
}

func (d *checkup) last() findings {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.at
}

// old reports whether it is time for an examination that nobody asked for.
func (d *checkup) old() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return time.Since(d.at.tried) >= doctorAge
}

// begin reports whether the caller is to examine.
func (d *checkup) begin() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	was := d.at.Running
	d.at.Running, d.at.tried = true, time.Now()
	return !was
}

// finish keeps what was found, unless there was no examination.
func (d *checkup) finish(found []app.Finding, examined bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.at.Running = false
	if examined {
		d.at.Rows, d.at.At = found, time.Now()
	}
}

// examine examines the host as berth doctor does.
func (p *hostPages) examine(c *call) (answer, error) { return leadTo("/host#doctor"), p.look(c) }

// look examines the host beside the request, unless that is under way.
func (p *hostPages) look(c *call) error {
	if !p.doctor.begin() {
		return nil
	}
	ctx := context.WithoutCancel(c.ctx())
	if !p.beside(func() {
		var found []app.Finding
		examined := false
		ctx, cancel := context.WithTimeout(ctx, doctorTime)
		defer cancel()
		guarded(p.log, c, func() { found, examined = p.examiner(ctx), true })
		p.doctor.finish(found, examined)
	}) {
		p.doctor.finish(nil, false)
		return app.Errorf(app.Unavailable, "the server is shutting down; try again in a minute")
	}
	return nil
}

// auditLogPage is the data of audit.html.
type auditLogPage struct {
	Records                 []app.AuditRecord // newest first
	Account, App, Operation string
	Older                   string // address of the next page, "" for none
}

// audit shows the newest records of the audit log, and pages of older ones.
func (p *hostPages) audit(c *call) (answer, error) {
	q := c.Request.URL.Query()
	page := auditLogPage{Account: q.Get("account"), App: q.Get("app"), Operation: q.Get("operation")}
	which := app.AuditQuery{App: app.ID(page.App), Operation: page.Operation, Limit: auditPage, Before: max(whole(q.Get("before")), 0)}
	// An account is meant by name or number; the number of a deleted one is good, for
	// the log remembers it.
	if id := whole(page.Account); id > 0 {
		which.Account = app.AccountID(id)
	} else if page.Account != "" {
		a, err := p.find(c, func(a app.Account) bool { return a.Name == page.Account })
		if err != nil {
			return answer{}, err
		}
		which.Account = a.ID
	}
	var err error
	page.Records, err = p.records(c.ctx(), which)
	if len(page.Records) == auditPage {
		before := strconv.FormatInt(page.Records[0].Seq, 10)
		page.Older = "/host/audit?" + query("account", page.Account, "app", page.App, "operation", page.Operation, "before", before)
	}
	slices.Reverse(page.Records)
	return show("audit", page), err
}
