package panel

import (
	"context"
	"strconv"
	"time"

	"berth/app"
)

const (
	// ramStep is what suggestions are multiples of.
	ramStep app.MB = 32
	// killsSpan is how far the banner looks back.
	killsSpan = 24 * time.Hour
	// oftenKilled is from how many times on the suggestion is a larger one.
	oftenKilled = 3
)

// kills is what the banner tells of an application that was killed for its RAM.
type kills struct {
	Count int
	Peak  int64  // bytes
	Limit app.MB // that it had at the last one
	Raise app.MB // what to give it, 0 when there is no room
	Start bool   // it is started with that, for it is not running
	May   bool   // the person may do that
}

// suggestRAM is how much RAM to give to what was killed so many times: a quarter
// more than it had or needed, half more when that happens again and again, in steps
// of ramStep and not above most. 0 when that is no more than it has.
func suggestRAM(peak int64, limit app.MB, times int, most app.MB) app.MB {
	need := max(limit, app.MB((peak+1<<20-1)>>20))
	want := need + need/4
	if times >= oftenKilled {
		want = need + need/2
	}
	want = (max(want, limit+1) + ramStep - 1) / ramStep * ramStep
	if want > most {
		want = most / ramStep * ramStep
	}
	if want <= limit {
		return 0
	}
	return want
}

// killsOf looks for kills of the last day; nil for none since it got more RAM.
func (s *server) killsOf(c *call, all []app.HistoryEvent, can app.Permissions) (*kills, error) {
	var k *kills
	for _, h := range all { // newest first
		if h.Exit == nil || !h.Exit.OOM || s.Now().Sub(h.At) > killsSpan {
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
	most, err := s.mostRAM(c.Request.Context(), c.owner, c.app)
	if err != nil {
		return nil, err
	}
	k.Raise = suggestRAM(k.Peak, c.app.RAM, k.Count, most)
	k.Start = mayRevive(c.app, can)
	k.May = can.Has(app.EditRAM)
	return k, nil
}

// mayRevive reports whether a, which was killed, can be brought back at once.
func mayRevive(a app.Snapshot, can app.Permissions) bool {
	if !a.RAMKilled() || a.Running {
		return false
	}
	return a.State == app.Stopped && can.Has(app.StartApp) || a.State == app.Waiting && can.Has(app.RestartApp)
}

// mostRAM is what an application can have in its account and on this host.
func (s *server) mostRAM(ctx context.Context, owner app.AccountID, a app.Snapshot) (app.MB, error) {
	account, err := s.Account(ctx, owner)
	if err != nil {
		return 0, err
	}
	most := account.TotalRAM
	for _, other := range s.Applications.Apps(owner) {
		if other.ID != a.ID {
			most -= other.RAM
		}
	}
	return min(most, s.Applications.RoomOf(a.ID)), nil
}

// raise gives an application the RAM of the form, and starts it with that if it was
// killed for the lack of it.
func (s *server) raise(c *call) (answer, error) {
	form, err := c.form()
	if err != nil {
		return answer{}, err
	}
	ram, err := strconv.ParseInt(form.Get("ram"), 10, 32)
	if err != nil {
		return answer{}, app.Errorf(app.Invalid, "the RAM must be a number of MB")
	}
	c.audit.Note("ram=%d", ram)
	if err := s.Settings.SetRAM(c.Request.Context(), c.owner, c.app.ID, app.MB(ram)); err != nil {
		return answer{}, err
	}
	can, _, err := s.can(c)
	if err != nil {
		return answer{}, err
	}
	page := "/"
	if can.Has(app.StatusApp) {
		page = "/apps/" + string(c.app.ID)
	}
	now, err := s.Applications.App(c.owner, c.app.ID)
	if err != nil {
		return answer{}, err
	}
	if !mayRevive(now, can) {
		return done(page, c.lang.Say("%s has %d MB of RAM now.", c.app.Name, ram))
	}
	c.audit.Note("and started")
	if now.State == app.Waiting {
		err = s.Applications.Restart(c.Request.Context(), c.owner, c.app.ID)
	} else {
		_, err = s.Applications.Start(c.Request.Context(), c.owner, c.app.ID)
	}
	if err != nil && app.KindOf(err) != app.Already { // it may have come back by itself meanwhile
		return answer{}, err
	}
	return done(page, c.lang.Say("%s has %d MB of RAM now, and was started.", c.app.Name, ram))
}
