package panel

import (
	"context"
	"slices"
	"strings"
	"sync"

	"berth/app"
)

// appsPage is the data of apps.html.
type appsPage struct {
	live
	Apps                   []appRow // those that the address asks for
	All                    int      // how many there are
	Show, Query            string   // what it asks for: "online", "problem" or "", and a part of a name
	Online, Problems       int
	Assigned, Total        int64 // bytes of the account
	InUse                  int64
	AssignedShare, UseWide int // of Total, from 0 to 100
}

// appRow is one application of the list.
type appRow struct {
	app.Snapshot
	standing
	Owner    string // of the team, "" for one's own
	Measured bool   // the figures are known
	CPU      float64
	Used     int64
	Limit    int64
	Full     int // percent of Limit
	May      actions
	See, Log bool // the person may look at its page, and at its log
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

// measurers is how many applications are measured at once.
const measurers = 4

// apps lists what the account has and helps with, problems first.
func (s *server) apps(c *call) (answer, error) {
	rows := []appRow{}
	page := appsPage{live: s.liveOf(&call{}, "figures"), Total: c.account.TotalRAM.Bytes()}
	for _, snap := range s.Applications.Apps(c.account.ID) {
		page.Assigned += snap.RAM.Bytes()
		rows = append(rows, s.row(c, snap, app.AllPermissions, ""))
	}
	shared, err := s.Teams.Memberships(c.Request.Context(), c.account.ID)
	if err != nil {
		return answer{}, err
	}
	for _, m := range shared {
		snap, err := s.Applications.App(m.Owner.ID, m.App)
		if app.KindOf(err) == app.NotFound {
			continue // it was deleted meanwhile
		}
		if err != nil {
			return answer{}, err
		}
		may := m.Permissions
		if m.Owner.Disabled {
			may = 0
		}
		row := s.row(c, snap, may, m.Owner.Name)
		row.Measured = may.Has(app.StatusApp)
		rows = append(rows, row)
	}
	s.measure(c.Request.Context(), rows)
	for _, r := range rows {
		if r.Owner == "" {
			page.InUse += r.Used
		}
		switch r.Class {
		case "good":
			page.Online++
		case "bad":
			page.Problems++
		}
	}
	slices.SortStableFunc(rows, func(a, b appRow) int {
		if a.rank() != b.rank() {
			return a.rank() - b.rank()
		}
		return strings.Compare(strings.ToLower(a.Name), strings.ToLower(b.Name))
	})
	page.All, page.Show, page.Query = len(rows), c.Request.URL.Query().Get("show"), strings.TrimSpace(c.Request.URL.Query().Get("q"))
	page.Apps = slices.DeleteFunc(rows, func(r appRow) bool { return !page.shows(r) })
	page.AssignedShare, page.UseWide = share(page.Assigned, page.Total), share(page.InUse, page.Total)
	return show("apps", page)
}

// shows reports whether a row is one of those that the page is asked for.
func (p appsPage) shows(r appRow) bool {
	if p.Show == "online" && r.Class != "good" || p.Show == "problem" && r.Class != "bad" {
		return false
	}
	return strings.Contains(strings.ToLower(r.Name+" "+string(r.ID)+" "+r.Owner), strings.ToLower(p.Query))
}

// row is an application as the list has it, before it is measured.
func (s *server) row(c *call, snap app.Snapshot, may app.Permissions, owner string) appRow {
	r := appRow{Snapshot: snap, standing: standingOf(c.lang, snap, s.Now()), Owner: owner, Measured: true, Limit: snap.RAM.Bytes()}
	r.May, r.See, r.Log = actionsOf(snap, may), may.Has(app.StatusApp), may.Has(app.LogsApp)
	return r
}

// measure adds the figures of what runs. One that cannot be measured has none.
func (s *server) measure(ctx context.Context, rows []appRow) {
	var work sync.WaitGroup
	turns := make(chan struct{}, measurers)
	for i := range rows {
		r := &rows[i]
		if r.Measured = r.Measured && r.Running; !r.Measured {
			continue
		}
		turns <- struct{}{}
		work.Go(func() {
			defer func() { <-turns }()
			st, err := s.Applications.Status(ctx, r.Account, r.ID)
			if r.Measured = err == nil; err == nil {
				r.measured(st)
			}
		})
	}
	work.Wait()
}

func (s *server) start(c *call) (answer, error) {
	if _, err := s.Applications.Start(c.Request.Context(), c.owner, c.app.ID); err != nil {
		return answer{}, err
	}
	return done(c.back(), c.lang.Say("%s was started.", c.app.Name))
}

func (s *server) restart(c *call) (answer, error) {
	if err := s.Applications.Restart(c.Request.Context(), c.owner, c.app.ID); err != nil {
		return answer{}, err
	}
	return done(c.back(), c.lang.Say("%s was restarted.", c.app.Name))
}

func (s *server) stop(c *call) (answer, error) {
	if err := s.Applications.Stop(c.Request.Context(), c.owner, c.app.ID); err != nil {
		return answer{}, err
	}
	return done(c.back(), c.lang.Say("%s was stopped.", c.app.Name))
}
