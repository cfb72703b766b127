package panel

import (
	"context"
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

// hostPage is the data of host.html.
type hostPage struct {
	Accounts      []accountRow
	Room          app.MB // that applications may have together
	Assigned      app.MB // of all accounts to their applications
	Promised      app.MB // to accounts
	AssignedShare int
	Apps          int
	Up            string
	Doctor        findings
	Name, RAM     string // as typed
}

// accountRow is one account.
type accountRow struct {
	app.Account
	Used app.MB
	Apps int
	Self bool
}

// host shows what administrators look after.
func (s *server) host(c *call) (answer, error) {
	all, used, err := s.Admin.Accounts(c.Request.Context())
	if err != nil {
		return answer{}, err
	}
	page := hostPage{Room: s.FirstRAM, Up: span(c.lang, s.Now().Sub(s.began)), Doctor: s.doctor.last(), RAM: "512"}
	for i, a := range all {
		row := accountRow{Account: a, Used: used[i], Apps: len(s.Applications.Apps(a.ID)), Self: a.ID == c.account.ID}
		page.Accounts = append(page.Accounts, row)
		page.Assigned += row.Used
		page.Promised += a.TotalRAM
		page.Apps += row.Apps
	}
	page.AssignedShare = share(int64(page.Assigned), int64(page.Room))
	if c.problem != "" && c.Request.PostForm != nil && c.Request.PostForm.Has("name") {
		page.Name, page.RAM = c.Request.PostForm.Get("name"), c.Request.PostForm.Get("ram")
	}
	return show("host", page)
}

// ramOf reads the RAM of an account from a form.
func (c *call) ramOf() (app.MB, error) {
	f, err := c.form()
	if err != nil {
		return 0, err
	}
	mb := whole(f.Get("ram"))
	if mb < 1 {
		return 0, app.Errorf(app.Invalid, "the RAM must be a whole number of MB")
	}
	return app.MB(mb), nil
}

func (s *server) createAccount(c *call) (answer, error) {
	ram, err := c.ramOf()
	if err != nil {
		return answer{}, err
	}
	name := strings.TrimSpace(c.Request.PostForm.Get("name"))
	c.audit.Note("account=%.40q ramMB=%d", name, ram)
	a, err := s.Admin.Create(c.Request.Context(), name, ram)
	if err != nil {
		return answer{}, err
	}
	return s.invite(c, a, c.lang.Say("The account %s was made. Behind this link its password is set; it works once, for a short while.", a.Name))
}

// invite shows a one-time link for an account, once.
func (s *server) invite(c *call, a app.Account, sentence string) (answer, error) {
	key, err := s.Admin.Invite(c.Request.Context(), a.ID)
	if err != nil {
		return answer{}, err
	}
	base := s.BaseURL
	if base == "" {
		scheme := "http://"
		if c.Request.TLS != nil {
			scheme = "https://"
		}
		base = scheme + c.Request.Host
	}
	return answer{to: "/host", flash: &flash{Text: sentence, Secret: strings.TrimSuffix(base, "/") + "/setup/" + key, Word: c.lang.Say("One-time link")}}, nil
}

// meantAccount is the account of the path.
func (s *server) meantAccount(c *call) (app.Account, error) {
	all, _, err := s.Admin.Accounts(c.Request.Context())
	if err != nil {
		return app.Account{}, err
	}
	id := app.AccountID(c.number("account"))
	for _, a := range all {
		if a.ID == id {
			c.audit.Note("account=%s", a.Name)
			return a, nil
		}
	}
	return app.Account{}, app.Errorf(app.NotFound, "there is no such account")
}

func (s *server) setAccountRAM(c *call) (answer, error) {
	a, err := s.meantAccount(c)
	if err != nil {
		return answer{}, err
	}
	ram, err := c.ramOf()
	if err != nil {
		return answer{}, err
	}
	c.audit.Note("ramMB=%d", ram)
	if _, err := s.Admin.SetTotal(c.Request.Context(), a.ID, ram); err != nil {
		return answer{}, err
	}
	return done("/host", c.lang.Say("The account %s has %d MB of RAM now.", a.Name, ram))
}

func (s *server) disableAccount(c *call) (answer, error) { return s.setDisabled(c, true) }

func (s *server) enableAccount(c *call) (answer, error) { return s.setDisabled(c, false) }

func (s *server) setDisabled(c *call, disabled bool) (answer, error) {
	a, err := s.meantAccount(c)
	if err != nil {
		return answer{}, err
	}
	if disabled && a.ID == c.account.ID {
		return answer{}, app.Errorf(app.Conflict, "you cannot disable your own account")
	}
	if _, err := s.Admin.SetDisabled(c.Request.Context(), a.ID, disabled); err != nil {
		return answer{}, err
	}
	if disabled {
		return done("/host", c.lang.Say("The account %s is disabled; its programs go on.", a.Name))
	}
	return done("/host", c.lang.Say("The account %s is enabled.", a.Name))
}

func (s *server) linkAccount(c *call) (answer, error) {
	a, err := s.meantAccount(c)
	if err != nil {
		return answer{}, err
	}
	return s.invite(c, a, c.lang.Say("Behind this link the password of %s is set anew; it works once, for a short while.", a.Name))
}

// findings are what the last examination has found.
type findings struct {
	Rows    []app.Finding
	At      time.Time // of its end; zero for none yet
	Took    time.Duration
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

func (d *checkup) end(at findings) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if at.At.IsZero() {
		at = d.at
	}
	at.Running = false
	d.at = at
}

// examine looks at the host as berth doctor does, beside the request.
func (s *server) examine(c *call) (answer, error) {
	if !s.doctor.begin() {
		return leadTo("/host"), nil
	}
	ctx := context.WithoutCancel(c.Request.Context())
	if !s.Go(func() {
		found := findings{}
		defer func() { s.doctor.end(found) }()
		ctx, cancel := context.WithTimeout(ctx, doctorTime)
		defer cancel()
		began := s.Now()
		s.guarded(c, func() {
			rows := s.Examine(ctx)
			found = findings{Rows: rows, At: s.Now(), Took: s.Now().Sub(began)}
		})
	}) {
		s.doctor.end(findings{})
		return answer{}, app.Errorf(app.Unavailable, "the server is shutting down; try again in a minute")
	}
	return leadTo("/host#doctor"), nil
}

// logPage is the data of audit.html.
type logPage struct {
	Acts                    []actRow
	Account, App, Operation string
	Older                   string // address of the next page, "" for none
}

// actRow is one record.
type actRow struct {
	app.AuditRecord
	Who string
}

// auditLog shows the newest records of the audit log, and pages of older ones.
func (s *server) auditLog(c *call) (answer, error) {
	q := c.Request.URL.Query()
	page := logPage{Account: q.Get("account"), App: q.Get("app"), Operation: q.Get("operation")}
	ask := app.AuditQuery{App: app.ID(page.App), Operation: page.Operation, Limit: auditPage, Before: max(whole(q.Get("before")), 0)}
	if page.Account != "" {
		id, err := s.accountBy(c, page.Account)
		if err != nil {
			return answer{}, err
		}
		ask.Account = id
	}
	acts, err := s.AuditRecords(c.Request.Context(), ask)
	if err != nil {
		return answer{}, err
	}
	for i := len(acts) - 1; i >= 0; i-- {
		row := actRow{acts[i], acts[i].Name}
		switch acts[i].Actor {
		case app.Owner:
			row.Who = c.lang.Say("owner of the host")
		case app.Stranger:
			row.Who = c.lang.Say("somebody unknown")
		}
		page.Acts = append(page.Acts, row)
	}
	if len(acts) == auditPage {
		page.Older = "/host/audit?" + query("account", page.Account, "app", page.App, "operation", page.Operation, "before", strconv.FormatInt(acts[0].Seq, 10))
	}
	return show("audit", page)
}

// accountBy finds an account by name or number; the number of a deleted one is
// good, for the log remembers it.
func (s *server) accountBy(c *call, text string) (app.AccountID, error) {
	if id := whole(text); id > 0 {
		return app.AccountID(id), nil
	}
	all, _, err := s.Admin.Accounts(c.Request.Context())
	if err != nil {
		return 0, err
	}
	for _, a := range all {
		if a.Name == text {
			return a.ID, nil
		}
	}
	return 0, app.Errorf(app.NotFound, "there is no such account")
}
