package panel

import (
	"encoding/json"
	"math"
	"net/http"
	"slices"
	"time"

	"berth/app"
	"berth/app/text"
)

// chartPages show what applications and the host used; the function is app.Services.Metrics.
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
	{"30d", 30 * 24 * time.Hour, time.Hour, 24 * time.Hour},
}

// timeRangeOf returns the one that the address names.
func timeRangeOf(c *call) timeRange {
	name := c.Request.URL.Query().Get("range")
	return timeRanges[max(slices.IndexFunc(timeRanges, func(r timeRange) bool { return r.name == name }), 0)]
}

// charts is the part of a page with what was used.
type charts struct {
	Range   string
	Step    string // how long the stretch is that a point of a curve stands for
	Known   bool   // anything is
	Ran     bool   // a program did, so there is more than answers
	RAM     peak
	CPU     peak
	In, Out peak    // bytes a second, the mean of a stretch
	Disk    peak    // the last that was seen, and when
	Starts  int     // of the program
	Kills   int     // for its memory
	Answers answers // of a site
	Busy    peak    // answers a minute
	Rows    []row   // of the table that stands for the charts, newest first
}

// row is one row of the table.
type row struct {
	app.Point
	Answers answers
}

// In is how many bytes a second were received, the mean of the time it ran.
func (r row) In() float64 { return perSecond(r.Point, r.NetIn) }

// Out is how many were sent.
func (r row) Out() float64 { return perSecond(r.Point, r.NetOut) }

// answers is what a site has answered, as pages say it.
type answers struct {
	All    uint64
	Groups [4]uint64 // 1xx and 2xx, 3xx, 4xx, 5xx
	P95    string    // within which 95 % came; "" for none
}

// slowest is the share of answers that the charts tell the time of.
const slowest = 0.95

func answersOf(l text.Language, a app.Answers) answers {
	r := answers{All: a.All(), Groups: groupsOf(a)}
	if took, ok := a.Within(slowest); ok {
		r.P95 = lasting(l, took)
	}
	return r
}

// groupsOf are answers by class; a connection that became a WebSocket went well.
func groupsOf(a app.Answers) [4]uint64 {
	return [4]uint64{a.Classes[0] + a.Classes[1], a.Classes[2], a.Classes[3], a.Classes[4]}
}

// lasting is a short time for people.
func lasting(l text.Language, d time.Duration) string {
	last := app.AnswerBounds[len(app.AnswerBounds)-1]
	switch {
	case d >= last:
		return l.Say("more than %d s", int(last.Seconds()))
	case d >= time.Second:
		return l.Say("%s s", l.Number(d.Seconds(), 1))
	}
	return l.Say("%d ms", int(max(math.Round(d.Seconds()*1000), 1)))
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

// perSecond is what a count of a stretch is a second, of the time that it was measured.
func perSecond(of app.Point, count float64) float64 {
	if of.Ran <= 0 {
		return 0
	}
	return count / of.Ran.Seconds()
}

// of reads what an application used, up to now.
func (p chartPages) of(c *call, now appRow) (charts, error) {
	page, err := p.read(c, c.app.ID)
	if now.Measured {
		page.RAM.see(float64(now.Used), time.Now())
		page.CPU.see(now.CPU, time.Now())
	}
	return page, err
}

// read reads what an application or the host used, up to now.
func (p chartPages) read(c *call, id app.ID) (charts, error) {
	r := timeRangeOf(c)
	page := charts{Range: r.name, Step: span(c.lang, r.step)}
	points, err := p.points(id, r, r.step)
	if err != nil {
		return page, err
	}
	var all app.Answers
	for _, of := range points {
		page.RAM.see(of.MemoryMax, of.At)
		page.CPU.see(of.CPUMax, of.At)
		page.In.see(perSecond(of, of.NetIn), of.At)
		page.Out.see(perSecond(of, of.NetOut), of.At)
		if of.Disk > 0 {
			page.Disk = peak{of.Disk, of.At}
		}
		page.Busy.see(float64(of.Answers.All())/of.Step.Minutes(), of.At)
		page.Starts += int(of.Starts)
		page.Kills += int(of.OOMs)
		all = all.With(of.Answers)
		// A run that ends before it is measured leaves points in which there is nothing to draw.
		page.Ran = page.Ran || of.Ran > 0 || of.MemoryMax > 0 || of.CPUMax > 0
	}
	page.Answers = answersOf(c.lang, all)
	page.Known = page.Ran || page.Answers.All > 0
	rows, err := p.points(id, r, r.row)
	for _, of := range slices.Backward(rows) {
		page.Rows = append(page.Rows, row{of, answersOf(c.lang, of.Answers)})
	}
	return page, err
}

func (p chartPages) points(id app.ID, r timeRange, step time.Duration) ([]app.Point, error) {
	now := time.Now()
	return p.metrics(id, now, now.Add(-r.long), now, step)
}

// plot is what the script draws: columns of the same length, seconds since 1970
// first. null is a moment at which the program did not run.
type plot struct {
	From   int64         `json:"from"`
	To     int64         `json:"to"`
	At     []int64       `json:"at"`
	RAM    []*float64    `json:"ram"` // MB
	Most   []*float64    `json:"most"`
	Limit  []*float64    `json:"limit"`
	CPU    []*float64    `json:"cpu"` // percent of one core
	Top    []*float64    `json:"top"` // of CPU, the highest mean of a shorter stretch
	In     []*float64    `json:"in"`  // bytes a second
	Out    []*float64    `json:"out"`
	Disk   []*float64    `json:"disk"`   // MB
	Starts []*float64    `json:"starts"` // in the stretch
	Groups [4][]*float64 `json:"groups"` // answers a minute
	P95    []*float64    `json:"p95"`    // milliseconds
	Kills  []int64       `json:"kills"`
}

func plotOf(points []app.Point, from, to time.Time) plot {
	p := plot{From: from.Unix(), To: to.Unix(), At: []int64{}, Kills: []int64{}}
	for _, column := range p.columns() {
		*column = []*float64{}
	}
	for i, of := range points {
		if i > 0 && of.At.Sub(points[i-1].At) > points[i-1].Step*3/2 { // nothing ran between them, and nobody visited
			last := points[i-1].At.Add(points[i-1].Step)
			p.add(last, app.Point{Step: of.Step})
			if next := of.At.Add(-of.Step); next.After(last) {
				p.add(next, app.Point{Step: of.Step})
			}
		}
		p.add(of.At, of)
		if of.OOMs > 0 {
			p.Kills = append(p.Kills, of.At.Unix())
		}
	}
	return p
}

// columns are those with values.
func (p *plot) columns() []*[]*float64 {
	return []*[]*float64{
		&p.RAM, &p.Most, &p.Limit, &p.CPU, &p.Top, &p.In, &p.Out, &p.Disk, &p.Starts,
		&p.Groups[0], &p.Groups[1], &p.Groups[2], &p.Groups[3], &p.P95,
	}
}

func (p *plot) add(at time.Time, of app.Point) {
	value := func(v float64, known bool) *float64 {
		if !known {
			return nil
		}
		return new(math.Round(v*100) / 100)
	}
	ran := func(v float64) *float64 { return value(v, of.Ran > 0 || v > 0) } // of a run between two samples only its peak is known
	const mb = 1 << 20
	p.At = append(p.At, at.Unix())
	took, answered := of.Answers.Within(slowest)
	row := []*float64{
		ran(of.Memory / mb), ran(of.MemoryMax / mb), ran(of.Limit / mb), ran(of.CPU), ran(of.CPUMax),
		ran(perSecond(of, of.NetIn)), ran(perSecond(of, of.NetOut)), value(of.Disk/mb, of.Disk > 0), value(float64(of.Starts), true),
	}
	for _, n := range groupsOf(of.Answers) {
		row = append(row, value(float64(n)/of.Step.Minutes(), of.Step > 0))
	}
	row = append(row, value(took.Seconds()*1000, answered))
	for i, column := range p.columns() {
		*column = append(*column, row[i])
	}
}

// plot answers with what the charts of an application show.
func (p chartPages) plot(c *call) (answer, error) { return p.answer(c, c.app.ID) }

// plotHost answers with what the charts of the host show.
func (p chartPages) plotHost(c *call) (answer, error) { return p.answer(c, app.HostHistory) }

func (p chartPages) answer(c *call, id app.ID) (answer, error) {
	r, now := timeRangeOf(c), time.Now()
	points, err := p.points(id, r, r.step)
	if err != nil {
		return answer{}, err
	}
	body, err := json.Marshal(plotOf(points, now.Add(-r.long), now))
	return answer{stream: func() { c.sendBody(http.StatusOK, "application/json", body) }}, err
}
