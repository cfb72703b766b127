package daemon

import (
	"context"
	"errors"
	"time"

	"berth/app"
	"berth/host/sizing"
)

// rightSize is app.Services.RightSize.
func (d *daemon) rightSize(ctx context.Context, a app.Snapshot) (app.RightSize, error) {
	now := time.Now()
	points, err := d.data.history.Range(a.ID, now, now.Add(-sizing.Span), now, sizing.Step)
	if err != nil {
		return app.RightSize{}, err
	}
	events, err := d.data.db.History.EventLog(ctx, a.ID)
	return sizing.Right(now, a.App, d.settings.Apps.RAMMin, points, events), err
}

// ramPlan is app.Services.RAMPlan.
func (d *daemon) ramPlan(ctx context.Context) (app.RAMPlan, error) {
	s := d.settings.Host
	p := app.RAMPlan{Host: d.engine.ram(), Reserve: s.Reserve, Overcommit: s.Overcommit, Capacity: d.capacity()}
	accounts, err := d.data.db.Accounts.Accounts(ctx)
	if err != nil {
		return p, err
	}
	var busiest sizing.Busiest
	for _, account := range accounts {
		p.Promised += account.TotalRAM
		for _, a := range d.host.Apps(account.ID) {
			p.Apps++
			p.Given += a.Charged()
			if a.Running {
				p.Running += a.Charged()
			}
			points, err := d.pointsOf(a.ID)
			if err != nil {
				return p, err
			}
			busiest.Add(points)
		}
	}
	d.host.Measure(ctx, nil, func(m app.Measured) { p.Used += m.MemoryBytes })
	p.Worst, p.Days = busiest.Moment()
	return sizing.Plan(p), ctx.Err()
}

// pointsOf returns the points of an application in the last 30 days, as fine as they are kept:
// one answer of the history has fewer.
func (d *daemon) pointsOf(id app.ID) (all []app.Point, err error) {
	const part = sizing.Span / 3
	now := time.Now()
	end := now.Truncate(sizing.Step).Add(sizing.Step)
	for from := end.Add(-sizing.Span); from.Before(end); from = from.Add(part) {
		points, failed := d.data.history.Range(id, now, from, from.Add(part), sizing.Step)
		all, err = append(all, points...), errors.Join(err, failed)
	}
	return all, err
}
