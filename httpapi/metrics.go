package httpapi

import (
	"context"
	"math"
	"net/url"
	"strconv"
	"time"

	"berth/app"
)

// records are the routes of what an application used, and what happened to it.
type records struct {
	apps   app.Applications
	points func(id app.ID, now, from, to time.Time, step time.Duration) ([]app.Point, error)
	right  func(ctx context.Context, a app.Snapshot) (app.RightSize, error)
}

// size answers with which RAM fits an application.
func (r records) size(c *call) (response, error) {
	snap, err := r.apps.App(c.owner(), c.id)
	if err != nil {
		return response{}, err
	}
	s, err := r.right(c.Request.Context(), snap)
	if err != nil {
		return response{}, err
	}
	return ok(c.translate(s.Why), member{"apps", c.describeSize(snap.ID, s)})
}

func (r records) sizeOfAll(c *call) (response, error) {
	list := make([]object, len(c.all))
	for i, snap := range c.all {
		s, err := r.right(c.Request.Context(), snap)
		if err != nil {
			return response{}, err
		}
		list[i] = c.describeSize(snap.ID, s)
	}
	return ok(c.say("The right sizes of your applications have been loaded."), member{"apps", list})
}

func (c *call) describeSize(id app.ID, s app.RightSize) object {
	return object{
		{"id", id},
		{"verdict", s.Verdict},
		{"ramMB", s.RAM},
		{"fitMB", s.Fit},
		{"days", s.Days},
		{"peak", s.Peak},
		{"ramKills", s.Kills},
		{"killDays", s.KillDays},
		{"message", c.translate(s.Why)},
	}
}

// metrics answers with what an application used, the last day unless the request
// says otherwise.
func (r records) metrics(c *call) (response, error) {
	query, err := url.ParseQuery(c.Request.URL.RawQuery)
	if err != nil {
		return response{}, app.Errorf(app.Invalid, "The parameters of the address are malformed.")
	}
	to, err := moment(query, "to", c.now())
	if err != nil {
		return response{}, err
	}
	from, err := moment(query, "from", to.Add(-24*time.Hour))
	if err != nil {
		return response{}, err
	}
	step := int64(60)
	if query.Has("step") {
		if step, err = strconv.ParseInt(query.Get("step"), 10, 64); err != nil || step < 1 || step > 30*86400 {
			return response{}, app.Errorf(app.Invalid, "The parameter step must be a number of seconds, from 1 to 2592000.")
		}
	}
	if !from.Before(to) {
		return response{}, app.Errorf(app.Invalid, "The parameter from must be a time before that of to.")
	}
	if _, err := r.apps.App(c.owner(), c.id); err != nil {
		return response{}, err
	}
	points, err := r.points(c.id, c.now(), from, to, time.Duration(step)*time.Second)
	if err != nil {
		return response{}, err
	}
	list := make([]object, len(points))
	for i, p := range points {
		step = int64(p.Step / time.Second)
		list[i] = object{
			{"at", timestamp(p.At)},
			{"ran", p.Ran.Seconds()},
			{"memory", int64(p.Memory)},
			{"memoryMax", int64(p.MemoryMax)},
			{"limit", int64(p.Limit)},
			{"cpu", rounded(p.CPU)},
			{"cpuMax", rounded(p.CPUMax)},
			{"netIn", int64(p.NetIn)},
			{"netOut", int64(p.NetOut)},
			{"disk", int64(p.Disk)},
			{"requests", p.Answers.All()},
			{"answers", answersOf(p.Answers)},
			{"p95", slowest(p.Answers)},
			{"starts", p.Starts},
			{"exits", p.Exits},
			{"ramKills", p.OOMs},
			{"deploys", p.Deploys},
		}
	}
	return ok(c.say("The metrics of your application have been loaded."), member{"step", step}, member{"points", list})
}

// answersOf are the answers of a site by the class of their status.
func answersOf(a app.Answers) object {
	by := make(object, len(a.Classes))
	for i, n := range a.Classes {
		by[i] = member{strconv.Itoa(i+1) + "xx", n}
	}
	return by
}

// slowest is within how many milliseconds 95 percent of the answers came; null of none.
func slowest(a app.Answers) any {
	d, some := a.Within(0.95)
	if !some {
		return nil
	}
	return rounded(d.Seconds() * 1000)
}

// moment reads a time, as RFC 3339 or in seconds since 1970.
func moment(query url.Values, name string, otherwise time.Time) (time.Time, error) {
	text := query.Get(name)
	if !query.Has(name) {
		return otherwise, nil
	}
	if n, err := strconv.ParseInt(text, 10, 64); err == nil && n >= 0 && n <= math.MaxUint32 {
		return time.Unix(n, 0), nil
	}
	t, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return t, app.Errorf(app.Invalid, "The parameter %s must be a time, as 2026-11-20T09:31:02Z or in seconds since 1970.", name)
	}
	return t, nil
}

// rounded is a figure for clients, with two decimals.
func rounded(f float64) float64 { return math.Round(f*100) / 100 }

func (r records) events(c *call) (response, error) {
	all, err := r.apps.EventLog(c.Request.Context(), c.owner(), c.id)
	if err != nil {
		return response{}, err
	}
	list := make([]object, len(all))
	for i, p := range all {
		var exit, deploy, by, memory any // null where the event is of another kind
		if p.Exit != nil {
			exit = describeExit(*p.Exit)
		}
		if p.Memory != nil {
			memory = describeWarning(*p.Memory)
		}
		if p.Deploy != "" {
			deploy, by = p.Deploy, p.By.String()
		}
		list[i] = object{
			{"number", p.Number},
			{"date", timestamp(p.At)},
			{"kind", p.Kind},
			{"text", p.Text},
			{"exit", exit},
			{"deploy", deploy},
			{"by", by},
			{"memory", memory},
		}
	}
	return ok(c.say("The events of your application have been loaded."), member{"events", list})
}
