package local

import (
	"context"
	"net/http"
	"time"

	"berth/app"
)

// PlanPath is where a daemon says how much RAM is sold, and how much of it is used.
const PlanPath = HostPath + "/plan"

// Plan is an app.RAMPlan. Fields are only ever added.
type Plan struct {
	HostMB     app.MB  `json:"hostMB"`
	ReserveMB  app.MB  `json:"reserveMB"`
	Overcommit float64 `json:"overcommit"`
	CapacityMB app.MB  `json:"capacityMB"` // that running applications may have together
	PromisedMB app.MB  `json:"promisedMB"` // to accounts
	GivenMB    app.MB  `json:"givenMB"`    // to applications
	Apps       int     `json:"applications"`
	RunningMB  app.MB  `json:"runningMB"` // of givenMB, of the running ones
	Used       int64   `json:"used"`      // bytes, now
	Days       int     `json:"days"`      // of the last 30, with measurements
	Worst      *Moment `json:"worst"`     // null where nothing was measured
	Offers     []Offer `json:"offers"`
	Message    string  `json:"message"`
}

// Moment is an app.RAMMoment.
type Moment struct {
	At    time.Time `json:"at"`
	Used  int64     `json:"used"` // bytes
	HadMB app.MB    `json:"hadMB"`
	Apps  int       `json:"applications"`
}

// Offer is an app.RAMOffer.
type Offer struct {
	Overcommit float64        `json:"overcommit"`
	CapacityMB app.MB         `json:"capacityMB"`
	MoreMB     app.MB         `json:"moreMB"`
	Worst      int            `json:"worstPercent"`
	Verdict    app.RAMVerdict `json:"verdict"`
}

// PlanOf returns a plan as it crosses the socket.
func PlanOf(p app.RAMPlan) Plan {
	plan := Plan{
		HostMB: p.Host, ReserveMB: p.Reserve, Overcommit: p.Overcommit, CapacityMB: p.Capacity, PromisedMB: p.Promised, GivenMB: p.Given,
		Apps: p.Apps, RunningMB: p.Running, Used: p.Used, Days: p.Days, Message: p.Why.String(),
	}
	if w := p.Worst; !w.At.IsZero() {
		plan.Worst = &Moment{w.At, w.Used, w.Had, w.Apps}
	}
	for _, o := range p.Offers {
		plan.Offers = append(plan.Offers, Offer{o.Overcommit, o.Capacity, o.More, o.Worst, o.Verdict})
	}
	return plan
}

// AskPlan asks the daemon whose runtime directory is dir for its plan, as Changed.
func AskPlan(ctx context.Context, dir string) (p Plan, err error) {
	return p, call(ctx, dir, http.MethodGet, PlanPath, &p)
}
