package panel

import (
	"strings"
	"time"

	"berth/app"
)

// appPage is the data of app.html.
type appPage struct {
	live
	Row    appRow
	Why    string // how it came to be so, and what comes next; may be empty
	Since  time.Time
	Disk   int64
	Known  bool // Disk is
	In     int64
	Out    int64
	Kills  *kills
	Charts charts
	Events []happening
}

// overview shows one application.
func (s *server) overview(c *call) (answer, error) {
	page := appPage{live: s.liveOf(c, "figures")}
	now, err := s.Applications.App(c.owner, c.app.ID) // after the feed was asked how far it is
	if err != nil {
		return answer{}, err
	}
	c.app = now
	can, owner, err := s.can(c)
	if err != nil {
		return answer{}, err
	}
	ctx := c.Request.Context()
	page.Row = s.row(c, now, can, owner)
	if st, err := s.Applications.Status(ctx, c.owner, c.app.ID); err == nil {
		page.Row.measured(st)
		page.Known, page.Disk, page.In, page.Out = true, st.DiskBytes, st.Usage.NetIn, st.Usage.NetOut
	}
	page.Why, page.Since = s.why(c)
	all, err := s.Applications.EventLog(ctx, c.owner, c.app.ID)
	if err != nil && app.KindOf(err) != app.Conflict { // in its first deployment nothing has happened yet
		return answer{}, err
	}
	if page.Kills, err = s.killsOf(c, all, can); err != nil {
		return answer{}, err
	}
	page.Events = s.happenings(c, all)
	if page.Charts, err = s.chartsOf(c, page.Row); err != nil {
		return answer{}, err
	}
	return show("app", page)
}

// why tells how the application of the call came to be as it is and what comes
// next, and since when it is so.
func (s *server) why(c *call) (string, time.Time) {
	a := c.app
	if a.Running && !a.StartedAt.IsZero() {
		return standingOf(c.lang, a, s.Now()).Detail, a.StartedAt
	}
	if a.State != app.Stopped || a.LastExit == nil {
		return standingOf(c.lang, a, s.Now()).Detail, time.Time{}
	}
	e := a.LastExit
	said := ending(c.lang, a) + "."
	switch who := s.stopper(c.Request.Context(), a); {
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

// measured adds the figures of a status.
func (r *appRow) measured(st app.Status) {
	if !st.Running {
		r.Measured = false
		return
	}
	r.Measured = true
	r.CPU, r.Used = st.Usage.CPUPercent, st.Usage.MemoryBytes
	if st.Usage.LimitBytes > 0 {
		r.Limit = st.Usage.LimitBytes
	}
	r.Full = share(r.Used, r.Limit)
}

// origin is the page that a button of an application was on, for its refusals.
func (s *server) origin(c *call) (answer, error) {
	rest, of := strings.CutPrefix(c.back(), "/apps/"+string(c.app.ID))
	if can, _, err := s.can(c); c.app.Account == 0 || !of || rest != "" || err != nil || !can.Has(app.StatusApp) {
		return s.apps(c)
	}
	return s.overview(c)
}
