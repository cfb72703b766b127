package panel

import (
	"cmp"
	"context"
	"log/slog"
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
)

// hostPages are the administrators'.
type hostPages struct {
	admin    Admin
	signIns  SignIns
	apps     app.Applications
	records  func(ctx context.Context, q app.AuditQuery) ([]app.AuditRecord, error)
	examiner func(ctx context.Context) []app.Finding
	runtimes func() []app.Runtime
	beside   func(f func()) bool // Config.Go
	capacity app.MB              // that applications may have together
	exposed  app.Text            // Config.Exposed
	baseURL  string
	began    time.Time
	doctor   checkup
	log      *slog.Logger
}

// hostPage is the data of host.html.
type hostPage struct {
	Accounts []accountRow
	Capacity app.MB
	Assigned app.MB // of all accounts to their applications
	Promised app.MB // to accounts
	Share    int    // of Capacity that is assigned, from 0 to 100
	Apps     int
	Began    time.Time
	Doctor   findings
	Exposed  string // the warning, "" for none
	Runtimes []app.Runtime
	RAM      string // as typed
}

// accountRow is one account.
type accountRow struct {
	app.Account
	Used app.MB
	Apps int
}

func (p *hostPages) show(c *call) (answer, error) {
	all, used, err := p.admin.Accounts(c.ctx())
	page := hostPage{
		Capacity: p.capacity, Began: p.began, Doctor: p.doctor.last(), Runtimes: p.runtimes(), Exposed: c.lang.SayPhrase(p.exposed), RAM: "512",
	}
	for i, a := range all {
		row := accountRow{a, used[i], len(p.apps.Apps(a.ID))}
		page.Accounts = append(page.Accounts, row)
		page.Assigned += row.Used
		page.Promised += a.TotalRAM
		page.Apps += row.Apps
	}
	page.Share = share(int64(page.Assigned), int64(page.Capacity))
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
	name := strings.TrimSpace(f.Get("name"))
	c.audit.Note("account=%.40q ramMB=%d", name, ram)
	a, err := p.admin.Create(c.ctx(), name, ram)
	if err != nil {
		return answer{}, err
	}
	return p.invite(c, a, c.lang.Say("The account %s was made. Behind this link its password is set; it works once, for a short while.", a.Name))
}

// invite shows a one-time link for an account, once.
func (p *hostPages) invite(c *call, a app.Account, sentence string) (answer, error) {
	scheme := "http://"
	if c.Request.TLS != nil {
		scheme = "https://"
	}
	key, err := p.signIns.Invite(c.ctx(), a.ID)
	link := strings.TrimSuffix(cmp.Or(p.baseURL, scheme+c.Request.Host), "/") + "/setup/" + key
	return answer{to: "/host", flash: &flash{Text: sentence, Secret: link, Word: c.lang.Say("One-time link")}}, err
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
	_, err = p.admin.SetTotal(c.ctx(), a.ID, ram)
	return done("/host", c.lang.Say("The account %s has %d MB of RAM now.", a.Name, ram)), err
}

func (p *hostPages) disable(c *call, a app.Account) (answer, error) {
	if a.ID == c.account.ID {
		return answer{}, app.Errorf(app.Conflict, "you cannot disable your own account")
	}
	_, err := p.admin.SetDisabled(c.ctx(), a.ID, true)
	return done("/host", c.lang.Say("The account %s is disabled; its programs go on.", a.Name)), err
}

func (p *hostPages) enable(c *call, a app.Account) (answer, error) {
	_, err := p.admin.SetDisabled(c.ctx(), a.ID, false)
	return done("/host", c.lang.Say("The account %s is enabled.", a.Name)), err
}

func (p *hostPages) link(c *call, a app.Account) (answer, error) {
	return p.invite(c, a, c.lang.Say("Behind this link the password of %s is set anew; it works once, for a short while.", a.Name))
}

// findings are what the last examination has found.
type findings struct {
	Rows    []app.Finding
	At      time.Time // of its end; zero for none yet
	Running bool
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

// begin reports whether the caller is to examine.
func (d *checkup) begin() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	was := d.at.Running
	d.at.Running = true
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

// examine examines the host as berth doctor does, beside the request.
func (p *hostPages) examine(c *call) (answer, error) {
	if !p.doctor.begin() {
		return leadTo("/host"), nil
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
		return answer{}, app.Errorf(app.Unavailable, "the server is shutting down; try again in a minute")
	}
	return leadTo("/host#doctor"), nil
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
