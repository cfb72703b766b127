package panel

import (
	"cmp"
	"context"
	"log/slog"
	"net/url"
	"slices"
	"strconv"
	"time"

	"berth/app"
	"berth/app/text"
)

// appPages are the list of applications, and what one of them is and does.
type appPages struct {
	apps     app.Applications
	settings app.Settings
	teams    app.Teams
	feed     app.Feed
	address  func(app.ID) app.SiteAddress
	certs    func(name string) (app.Certificate, bool)
	account  func(ctx context.Context, id app.AccountID) (app.Account, error)
	records  func(ctx context.Context, q app.AuditQuery) ([]app.AuditRecord, error)
	logs     app.Logs
	charts   chartPages
	log      *slog.Logger

	rightSize func(ctx context.Context, a app.Snapshot) (app.RightSize, error)
	batches   *batches
	beside    func(f func()) bool      // Config.Go
	record    func(c *call, err error) // what came of an application, for the audit log
	steps     *stepPages
	icons     iconPages
}

// appRow is an application as pages show it. It is also what all pages of one have in
// common: the part "appbar", which their templates begin with.
type appRow struct {
	app.Snapshot
	standing
	Owner    string          // of the team, "" for one's own
	Address  app.SiteAddress // of a site
	Own      bool            // it is the person's own
	Can      app.Permissions // what the person may do with it
	May      actions
	Measured bool // what it uses is known
	CPU      float64
	Used     int64
	Limit    int64
	Full     int    // percent of Limit
	Starts   int    // by berth alone in the last 24 hours
	Spark    sparks // of the table
	Crash    *crash // why it ended; nil when it did not crash, or is not read
	Picture  string // the sum of its icon; "" for the letters of its language
}

// rowOf is an application before it is measured.
func rowOf(c *call, snap app.Snapshot, can app.Permissions, owner string) appRow {
	return appRow{
		Snapshot: snap, standing: standingOf(c.lang, snap), Owner: owner, Own: snap.Account == c.account.ID,
		Can: can, May: actionsOf(snap, can), Limit: snap.RAM.Bytes(), Starts: snap.StartsByItself(time.Now()),
	}
}

// row is rowOf with the address of a site.
func (p *appPages) row(c *call, snap app.Snapshot, can app.Permissions, owner string) appRow {
	r := rowOf(c, snap, can, owner)
	if snap.Type == app.Site {
		r.Address = p.address(snap.ID)
	}
	return r
}

// measured adds what a status has measured.
func (r *appRow) measured(st app.Status) {
	if r.Measured = st.Running; !r.Measured {
		return
	}
	r.CPU, r.Used = st.Usage.CPUPercent, st.Usage.MemoryBytes
	r.Limit = cmp.Or(max(st.Usage.LimitBytes, 0), r.Limit)
	r.Full = share(r.Used, r.Limit)
}

// actions are the buttons that a person has.
type actions struct{ Start, Restart, Stop bool }

// actionsOf are the buttons that lead somewhere now, and that may allows.
func actionsOf(snap app.Snapshot, may app.Permissions) actions {
	runs := snap.Running || snap.State == app.Waiting
	return actions{
		Start:   !snap.Running && snap.State != app.Preparing && may.Has(app.StartApp),
		Restart: runs && may.Has(app.RestartApp),
		Stop:    (runs || snap.State == app.Starting || snap.State == app.Preparing) && may.Has(app.StopApp),
	}
}

// permissions is what the person may do with the application of the call, and whose it
// is, "" for one's own.
func permissions(c *call, teams app.Teams) (app.Permissions, string, error) {
	if c.own() {
		return app.AllPermissions, "", nil
	}
	all, err := teams.Memberships(c.ctx(), c.account.ID)
	for _, m := range all {
		if m.App == c.app.ID && m.Owner.Closed() == nil {
			return m.Permissions, m.Owner.Name, nil
		}
	}
	return 0, "", err // it ended just now
}

func (p *appPages) start(c *call) (answer, error) {
	_, err := p.apps.Start(c.ctx(), c.owner, c.app.ID)
	return done(c.back(), c.lang.Say("%s was started.", c.app.Name)), err
}

func (p *appPages) restart(c *call) (answer, error) {
	err := p.apps.Restart(c.ctx(), c.owner, c.app.ID)
	return done(c.back(), c.lang.Say("%s was restarted.", c.app.Name)), err
}

func (p *appPages) stop(c *call) (answer, error) {
	err := p.apps.Stop(c.ctx(), c.owner, c.app.ID)
	return done(c.back(), c.lang.Say("%s was stopped.", c.app.Name)), err
}

// origin is the page that a button of an application was on, for its refusals.
func (p *appPages) origin(c *call) (answer, error) {
	can, _, err := permissions(c, p.teams)
	if c.back() != "/apps/"+string(c.app.ID) || c.app.Account == 0 || err != nil || !can.Has(app.StatusApp) {
		return p.list(c)
	}
	return p.overview(c)
}

// overviewPage is the data of app.html.
type overviewPage struct {
	live
	Row    appRow
	Visits []visit // of a site
	Why    string  // how it came to be so, and what comes next; may be empty
	Since  time.Time
	Starts int         // by berth alone in the last 24 hours
	Status *app.Status // nil when it cannot be measured
	Kills  *kills
	Size   app.RightSize
	Charts charts
	Events []happened
}

// overview shows one application.
func (p *appPages) overview(c *call) (answer, error) {
	page := overviewPage{live: liveOf(p.feed, "figures", c.app.ID)}
	now, err := p.apps.App(c.owner, c.app.ID) // after the number of the newest event was read
	if err != nil {
		return answer{}, err
	}
	c.app = now
	can, owner, err := permissions(c, p.teams)
	if err != nil {
		return answer{}, err
	}
	page.Row = p.row(c, now, can, owner)
	if st, err := p.apps.Status(c.ctx(), c.owner, c.app.ID); err == nil {
		page.Row.measured(st)
		page.Status = &st
	}
	page.Row.Crash = crashOf(c.lang, p.logs, now, can, page.Row.Own)
	page.Visits = visitsOf(c.lang, page.Row.Address, p.certs)
	page.Why, page.Since = p.why(c)
	page.Starts = now.StartsByItself(time.Now())
	all, err := p.apps.EventLog(c.ctx(), c.owner, c.app.ID)
	if err != nil && app.KindOf(err) != app.Conflict { // in its first deployment nothing has happened yet
		return answer{}, err
	}
	if page.Size, err = p.rightSize(c.ctx(), now); err != nil {
		return answer{}, err
	}
	if page.Kills, err = p.killsOf(c, all, page.Size, can); err != nil {
		return answer{}, err
	}
	names := namer(c, p.account)
	for _, h := range all {
		page.Events = append(page.Events, happenedOf(c.lang, h, names))
	}
	page.Charts, err = p.charts.of(c, page.Row)
	return show("app", page), err
}

// why is how the application of the call came to be as it is and what comes next, and
// since when it is so.
func (p *appPages) why(c *call) (string, time.Time) {
	a := c.app
	if a.Running && !a.StartedAt.IsZero() {
		return standingOf(c.lang, a).Detail, a.StartedAt
	}
	e := a.LastExit
	if a.State != app.Stopped || e == nil {
		return standingOf(c.lang, a).Detail, time.Time{}
	}
	said := ending(c.lang, e) + "."
	switch who := p.stopper(c.ctx(), a); {
	case e.OOM && e.PeakBytes > 0:
		said += " " + c.lang.Say("Its peak was %s.", size(c.lang, e.PeakBytes))
	case who != "":
		said = c.lang.Say("It was stopped by %s.", who)
	}
	if !e.Asked {
		said += " " + c.lang.Say("It stays so until somebody starts it.")
	}
	return said, e.At
}

// stopperRecords is how many records stopper searches.
const stopperRecords = 50

// stopper is who requested the stop that ended the last run, "" when that is not
// known. It never fails a page.
func (p *appPages) stopper(ctx context.Context, a app.Snapshot) string {
	if !a.LastExit.Asked {
		return ""
	}
	all, err := p.records(ctx, app.AuditQuery{App: a.ID, Since: a.LastExit.At.Add(-time.Minute), Limit: stopperRecords})
	if err != nil {
		p.log.Error("cannot read who stopped an application", "app", a.ID, "cause", err)
	}
	for _, r := range slices.Backward(all) {
		if r.Operation != "app.stop" || r.Refusal != "" || r.Name == "" {
			continue
		}
		if r.Label != "" && r.Label != "panel" {
			return r.Name + " (" + r.Label + ")"
		}
		return r.Name
	}
	return ""
}

// happened is a row of what happened to an application. Its Detail is what else is
// known.
type happened struct {
	At time.Time
	standing
	Deploy bool
	Who    string // who sent a deploy
}

func happenedOf(l text.Language, h app.HistoryEvent, names func(app.AccountID) string) happened {
	r := happened{At: h.At, standing: standing{"bad", "cross", "", h.Text}}
	switch h.Kind {
	case app.HistoryExit:
		if h.Exit != nil {
			r.standing = endingStanding(l, h.Exit)
		}
	case app.HistoryDeploy:
		r.Class, r.Icon, r.Word, r.Deploy = "good", "up", deployWord(l, h.Deploy), true
	case app.HistoryFailure:
		r.Word, r.Deploy = failureWord(l, h.Deploy), true
	case app.HistoryRefusal:
		r.Word = l.Say("It could not be started")
	case app.HistorySpent:
		r.Word = l.Say("Started too often")
	case app.HistorySilent:
		r.Word = l.Say("Not listening")
	case app.HistoryUnwell:
		r.Word = l.Say("Not answering")
	case app.HistoryDisk:
		r.Word = l.Say("Disk space used up")
	case app.HistoryMemory:
		if h.Memory != nil {
			r.standing = warningStanding(l, h.Memory)
		}
	}
	if r.Deploy {
		r.Who = names(h.By)
	}
	return r
}

// namer returns the names of accounts, and loads each once.
func namer(c *call, account func(context.Context, app.AccountID) (app.Account, error)) func(app.AccountID) string {
	known := map[app.AccountID]string{c.account.ID: c.account.Name, 0: ""}
	return func(id app.AccountID) string {
		name, ok := known[id]
		if !ok {
			name = c.lang.Say("account %d", id)
			if a, err := account(c.ctx(), id); err == nil {
				name = a.Name
			}
			known[id] = name
		}
		return name
	}
}

const (
	// ramStep is what less than the right size is a multiple of, where that does not fit.
	ramStep app.MB = 32
	// killsSpan is how far the banner looks back.
	killsSpan = 24 * time.Hour
)

// kills is what the banner says of an application that was killed for its RAM.
type kills struct {
	Count int
	Peak  int64  // bytes
	Limit app.MB // that it had at the last one
	Raise app.MB // what to raise it to, 0 when no more is free
	Start bool   // it is started with that, for it is not running
	Grows bool   // more RAM only puts the next kill off
}

// raiseTo is how much RAM to suggest for what was killed: what fits, or what is left of most
// in steps of ramStep; 0 when that is no more than it has.
func raiseTo(s app.RightSize, most app.MB) app.MB {
	want := s.Fit
	if want > most {
		want = most / ramStep * ramStep
	}
	if want <= s.RAM {
		return 0
	}
	return want
}

// killsOf finds the kills of the last day; nil for none since it got more RAM.
func (p *appPages) killsOf(c *call, all []app.HistoryEvent, size app.RightSize, can app.Permissions) (*kills, error) {
	var k *kills
	for _, h := range all { // newest first
		if h.Exit == nil || !h.Exit.OOM || time.Since(h.At) > killsSpan {
			continue
		}
		if k == nil {
			k = &kills{Limit: h.Exit.LimitMB}
		}
		k.Count++
		k.Peak = max(k.Peak, h.Exit.PeakBytes)
	}
	if k == nil || c.app.RAM > k.Limit {
		return nil, nil
	}
	account, err := p.account(c.ctx(), c.owner)
	if err != nil {
		return nil, err
	}
	most := account.TotalRAM // what it can have in its account
	for _, other := range p.apps.Apps(c.owner) {
		if other.ID != c.app.ID {
			most -= other.Charged()
		}
	}
	k.Raise = raiseTo(size, min(most, p.apps.AvailableRAM(c.app.ID)))
	k.Grows = size.Verdict == app.SizeGrows
	k.Start = mayRevive(c.app, can)
	return k, nil
}

// mayRevive reports whether a, which was killed, can be brought back at once.
func mayRevive(a app.Snapshot, can app.Permissions) bool {
	return a.RAMKilled() && !a.Running &&
		(a.State == app.Stopped && can.Has(app.StartApp) || a.State == app.Waiting && can.Has(app.RestartApp))
}

// raise sets the RAM of an application to that of the form, and starts it with that if it was
// killed for the lack of it.
func (p *appPages) raise(c *call, f url.Values) (answer, error) {
	ram, err := strconv.ParseInt(f.Get("ram"), 10, 32)
	if err != nil {
		return answer{}, app.Errorf(app.Invalid, "the RAM must be a number of MB")
	}
	c.audit.Note("ram=%d", ram)
	if err := p.settings.SetRAM(c.ctx(), c.owner, c.app.ID, app.MB(ram)); err != nil {
		return answer{}, err
	}
	can, _, err := permissions(c, p.teams)
	if err != nil {
		return answer{}, err
	}
	page := "/"
	if can.Has(app.StatusApp) {
		page = "/apps/" + string(c.app.ID)
	}
	now, err := p.apps.App(c.owner, c.app.ID)
	if err != nil {
		return answer{}, err
	}
	if !mayRevive(now, can) {
		return gotRAM(c, page, app.MB(ram)), nil
	}
	c.audit.Note("and started")
	if now.State == app.Waiting {
		err = p.apps.Restart(c.ctx(), c.owner, c.app.ID)
	} else {
		_, err = p.apps.Start(c.ctx(), c.owner, c.app.ID)
	}
	if app.KindOf(err) == app.Already { // it may have come back by itself meanwhile
		err = nil
	}
	return done(page, c.lang.Say("%s has %d MB of RAM now, and was started.", c.app.Name, ram)), err
}
