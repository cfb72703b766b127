package host

import (
	"context"
	"math/rand/v2"
	"time"

	"berth/app"
)

const (
	// askEvery is the pause between two questions for the health of a site, give or take a
	// tenth: those of many sites do not come at once.
	askEvery = 30 * time.Second
	// unwellAfter is how many questions in a row must fail before a site is not well.
	unwellAfter = 3
)

// healthWatch asks the program of a site for its HEALTH path while it is online.
type healthWatch struct {
	u    *unit
	r    *run
	path string
}

// watchHealth asks a run how it is until it ends, if its code says where.
func (u *unit) watchHealth(r *run) {
	path := u.app.Code.Health
	if u.app.Type != app.Site || u.app.Code.Static() || path == "" || path == app.HealthOff || u.h.Visits == nil {
		return
	}
	u.h.waits.Go(func() {
		ctx, cancel := context.WithCancel(u.h.ctx)
		defer cancel()
		defer context.AfterFunc(r.life, cancel)()
		healthWatch{u, r, path}.run(ctx)
	})
}

func (w healthWatch) run(ctx context.Context) {
	failed := 0
	for sleep(ctx, askEvery*9/10+rand.N(askEvery/5)) {
		v := w.u.view.Load()
		if v.run != w.r || v.State != app.Online || !v.Reach.IsValid() {
			failed = 0 // it is being started or stopped, or has no port, which is told apart
			continue
		}
		why := w.u.h.Visits.Healthy(ctx, w.u.id, v.Reach, w.path)
		switch {
		case ctx.Err() != nil:
			return
		case why != nil:
			if failed++; failed == unwellAfter {
				w.u.call(ctx, func() { w.unwell(why) })
			}
		case failed >= unwellAfter:
			w.u.call(ctx, w.well)
			fallthrough
		default:
			failed = 0
		}
	}
}

// unwell is the event that a site does not answer any more. Its owner wants it online:
// with AUTORESTART it is restarted as after a crash.
func (w healthWatch) unwell(why error) {
	u, r := w.u, w.r
	if u.run != r || u.state != app.Online || u.closing != stay {
		return
	}
	r.unwell, r.hint = true, app.Textf("its program did not answer %d questions for its health in a row: %v", unwellAfter, why)
	text := r.hint.String()
	u.log.Info("a site does not answer", "run", r.number, "why", why)
	u.logEvent(app.HistoryEvent{Kind: app.HistoryUnwell, Text: text})
	if !u.app.AutoRestart || u.deploy != nil || u.second.runs() {
		u.h.Logs.Note(u.id, text)
		return
	}
	u.h.Logs.Note(u.id, text+"; it is restarted")
	u.stopRun(app.Textf("the application was restarted: it did not answer"))
	u.after(again, func(error) {}, nil)
}

// well is the event that a site answers again.
func (w healthWatch) well() {
	if w.u.run != w.r || !w.r.unwell {
		return
	}
	w.r.unwell, w.r.hint = false, app.Text{}
	w.u.h.Logs.Note(w.u.id, "it answers the questions for its health again")
}
