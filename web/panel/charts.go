package panel

import (
	"encoding/json"
	"math"
	"net/http"
	"strconv"
	"time"

	"berth/app"
	"berth/app/text"
)

// reach is a stretch of time that charts can show, up to now.
type reach struct {
	Name, Word string
	Here       bool
	long, step time.Duration
	row        time.Duration // of the table
}

// reaches are those that there are; the first is shown unless asked otherwise.
func reaches(l text.Language) []reach {
	return []reach{
		{Name: "1h", Word: l.Say("1 hour"), long: time.Hour, step: time.Minute, row: 5 * time.Minute},
		{Name: "24h", Word: l.Say("24 hours"), long: 24 * time.Hour, step: 2 * time.Minute, row: time.Hour},
		{Name: "7d", Word: l.Say("7 days"), long: 7 * 24 * time.Hour, step: 20 * time.Minute, row: 6 * time.Hour},
	}
}

// reach returns all of them, and the one that the address asks for.
func (c *call) reach() ([]reach, reach) {
	all, asked := reaches(c.lang), 0
	for i, r := range all {
		if r.Name == c.Request.URL.Query().Get("range") {
			asked = i
		}
	}
	all[asked].Here = true
	return all, all[asked]
}

// charts is the part of a page with what an application used.
type charts struct {
	Reaches []reach
	Reach   string
	Known   bool // anything is
	RAM     peak
	CPU     peak
	Kills   int
	Rows    []chartRow // newest first
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

// chartRow is one of the tables that stand for the charts.
type chartRow struct {
	app.Point
	Ended bool
}

// chartsOf reads what an application used, up to now.
func (s *server) chartsOf(c *call, now appRow) (charts, error) {
	all, r := c.reach()
	page := charts{Reaches: all, Reach: r.Name}
	points, err := s.points(c, r, r.step)
	if err != nil {
		return page, err
	}
	if now.Measured {
		page.RAM.see(float64(now.Used), s.Now())
		page.CPU.see(now.CPU, s.Now())
	}
	for _, p := range points {
		page.RAM.see(p.MemoryMax, p.At)
		page.CPU.see(p.CPUMax, p.At)
		page.Kills += int(p.OOMs)
	}
	page.Known = len(points) > 0
	rows, err := s.points(c, r, r.row)
	for i := len(rows) - 1; i >= 0; i-- {
		page.Rows = append(page.Rows, chartRow{rows[i], rows[i].Exits > 0})
	}
	return page, err
}

func (s *server) points(c *call, r reach, step time.Duration) ([]app.Point, error) {
	now := s.Now()
	return s.Metrics(c.app.ID, now, now.Add(-r.long), now, step)
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
		v = math.Round(v*100) / 100
		return &v
	}
	const mb = 1 << 20
	p.At = append(p.At, at.Unix())
	p.RAM, p.Most = append(p.RAM, value(of.Memory/mb)), append(p.Most, value(of.MemoryMax/mb))
	p.Limit, p.CPU = append(p.Limit, value(of.Limit/mb)), append(p.CPU, value(of.CPU))
}

// plot answers with what the charts show.
func (s *server) plot(c *call) (answer, error) {
	_, r := c.reach()
	points, err := s.points(c, r, r.step)
	if err != nil {
		return answer{}, err
	}
	now := s.Now()
	body, err := json.Marshal(plotOf(points, now.Add(-r.long), now))
	if err != nil {
		return answer{}, err
	}
	return answer{stream: func(w http.ResponseWriter, r *http.Request) {
		_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(patience))
		w.Header().Set("Content-Type", "application/json")
		packed := packed(w.Header(), r, body)
		w.Header().Set("Content-Length", strconv.Itoa(len(packed)))
		if r.Method != http.MethodHead {
			_, _ = w.Write(packed) // a failed write means that the client has gone
		}
	}}, nil
}
