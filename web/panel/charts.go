package panel

import (
	"encoding/json"
	"math"
	"net/http"
	"slices"
	"time"

	"berth/app"
)

// chartPages show what applications used; the function is app.Services.Metrics.
type chartPages struct {
	metrics func(id app.ID, now, from, to time.Time, step time.Duration) ([]app.Point, error)
}

// timeRange is a stretch of time that charts can show, up to now.
type timeRange struct {
	name       string
	long, step time.Duration
	row        time.Duration // of the table
}

// timeRanges are those that there are; the first is the default.
var timeRanges = []timeRange{
	{"1h", time.Hour, time.Minute, 5 * time.Minute},
	{"24h", 24 * time.Hour, 2 * time.Minute, time.Hour},
	{"7d", 7 * 24 * time.Hour, 20 * time.Minute, 6 * time.Hour},
}

// timeRangeOf returns the one that the address names.
func timeRangeOf(c *call) timeRange {
	name := c.Request.URL.Query().Get("range")
	return timeRanges[max(slices.IndexFunc(timeRanges, func(r timeRange) bool { return r.name == name }), 0)]
}

// charts is the part of a page with what an application used.
type charts struct {
	Range string
	Known bool // anything is
	RAM   peak
	CPU   peak
	Kills int
	Rows  []app.Point // of the table that stands for the charts, newest first
}

// peak is the highest value of a chart, and when it was.
type peak struct {
	Value float64
	At    time.Time
}

// Megabytes is a value of bytes, as scripts compare it.
func (p peak) Megabytes() float64 { return p.Value / (1 << 20) }

func (p *peak) see(value float64, at time.Time) {
	if value > p.Value {
		p.Value, p.At = value, at
	}
}

// of reads what an application used, up to now.
func (p chartPages) of(c *call, now appRow) (charts, error) {
	r := timeRangeOf(c)
	page := charts{Range: r.name}
	points, err := p.points(c, r, r.step)
	if err != nil {
		return page, err
	}
	if now.Measured {
		page.RAM.see(float64(now.Used), time.Now())
		page.CPU.see(now.CPU, time.Now())
	}
	for _, of := range points {
		page.RAM.see(of.MemoryMax, of.At)
		page.CPU.see(of.CPUMax, of.At)
		page.Kills += int(of.OOMs)
	}
	// A run that ends before it is measured leaves points in which there is nothing to draw.
	page.Known = slices.ContainsFunc(points, func(of app.Point) bool { return of.Ran > 0 || of.MemoryMax > 0 || of.CPUMax > 0 })
	page.Rows, err = p.points(c, r, r.row)
	slices.Reverse(page.Rows)
	return page, err
}

func (p chartPages) points(c *call, r timeRange, step time.Duration) ([]app.Point, error) {
	now := time.Now()
	return p.metrics(c.app.ID, now, now.Add(-r.long), now, step)
}

// plot is what the script draws: columns of the same length, seconds since 1970
// first. null is a moment at which the program did not run.
type plot struct {
	From  int64      `json:"from"`
	To    int64      `json:"to"`
	At    []int64    `json:"at"`
	RAM   []*float64 `json:"ram"` // MB
	Most  []*float64 `json:"most"`
	Limit []*float64 `json:"limit"`
	CPU   []*float64 `json:"cpu"` // percent of one core
	Kills []int64    `json:"kills"`
}

func plotOf(points []app.Point, from, to time.Time) plot {
	p := plot{
		From: from.Unix(), To: to.Unix(), At: []int64{},
		RAM: []*float64{}, Most: []*float64{}, Limit: []*float64{}, CPU: []*float64{}, Kills: []int64{},
	}
	for i, of := range points {
		if i > 0 && of.At.Sub(points[i-1].At) > points[i-1].Step*3/2 {
			p.add(points[i-1].At.Add(points[i-1].Step), app.Point{}) // nothing ran between them
		}
		p.add(of.At, of)
		if of.OOMs > 0 {
			p.Kills = append(p.Kills, of.At.Unix())
		}
	}
	return p
}

func (p *plot) add(at time.Time, of app.Point) {
	value := func(v float64) *float64 {
		if of.Ran <= 0 && v <= 0 { // of a run between two samples only its peak is known
			return nil
		}
		return new(math.Round(v*100) / 100)
	}
	const mb = 1 << 20
	p.At = append(p.At, at.Unix())
	p.RAM, p.Most = append(p.RAM, value(of.Memory/mb)), append(p.Most, value(of.MemoryMax/mb))
	p.Limit, p.CPU = append(p.Limit, value(of.Limit/mb)), append(p.CPU, value(of.CPU))
}

// plot answers with what the charts show.
func (p chartPages) plot(c *call) (answer, error) {
	r, now := timeRangeOf(c), time.Now()
	points, err := p.points(c, r, r.step)
	if err != nil {
		return answer{}, err
	}
	body, err := json.Marshal(plotOf(points, now.Add(-r.long), now))
	return answer{stream: func() { c.sendBody(http.StatusOK, "application/json", body) }}, err
}
