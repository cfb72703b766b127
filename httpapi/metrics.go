package httpapi

import (
	"math"
	"net/url"
	"strconv"
	"time"

	"berth/app"
)

type metricsAnswer struct {
	Status  string  `json:"status"`
	Message string  `json:"message"`
	Step    int64   `json:"step"` // seconds
	Points  []point `json:"points"`
}

type point struct {
	At        string  `json:"at"`  // where the stretch begins
	Ran       float64 `json:"ran"` // seconds of it
	Memory    int64   `json:"memory"`
	MemoryMax int64   `json:"memoryMax"`
	Limit     int64   `json:"limit"`
	CPU       float64 `json:"cpu"`
	CPUMax    float64 `json:"cpuMax"`
	NetIn     int64   `json:"netIn"`
	NetOut    int64   `json:"netOut"`
	Starts    uint8   `json:"starts"`
	Exits     uint8   `json:"exits"`
	RAMKills  uint8   `json:"ramKills"`
	Deploys   uint8   `json:"deploys"`
}

// metrics answers with what an application used, the last day unless the request
// says otherwise.
func (s *server) metrics(c *call) (response, error) {
	query, err := url.ParseQuery(c.Request.URL.RawQuery)
	if err != nil {
		return response{}, app.Errorf(app.Invalid, "The parameters of the address are malformed.")
	}
	to, err := moment(query, "to", s.Now())
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
	if _, err := s.Applications.App(c.owner(), c.id); err != nil {
		return response{}, err
	}
	points, err := s.Metrics(c.id, s.Now(), from, to, time.Duration(step)*time.Second)
	if err != nil {
		return response{}, err
	}
	list := make([]point, len(points))
	for i, p := range points {
		step = int64(p.Step / time.Second)
		list[i] = point{
			timestamp(p.At), p.Ran.Seconds(), int64(p.Memory), int64(p.MemoryMax), int64(p.Limit), rounded(p.CPU), rounded(p.CPUMax),
			int64(p.NetIn), int64(p.NetOut), p.Starts, p.Exits, p.OOMs, p.Deploys,
		}
	}
	return ok(metricsAnswer{statusOK, c.say("The metrics of your application have been loaded."), step, list})
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

type happeningsAnswer struct {
	Status  string      `json:"status"`
	Message string      `json:"message"`
	Events  []happening `json:"events"`
}

type happening struct {
	Number int64                `json:"number"`
	Date   string               `json:"date"`
	Kind   app.HistoryEventKind `json:"kind"`
	Text   string               `json:"text"`
	Exit   *exit                `json:"exit"`   // of the kind exit
	Deploy *app.DeployKind      `json:"deploy"` // of deploy and deploy_failed
	By     *string              `json:"by"`     // the number of an account, of these two
}

func (s *server) happenings(c *call) (response, error) {
	all, err := s.Applications.EventLog(c.Request.Context(), c.owner(), c.id)
	if err != nil {
		return response{}, err
	}
	list := make([]happening, len(all))
	for i, p := range all {
		list[i] = happening{Number: p.Number, Date: timestamp(p.At), Kind: p.Kind, Text: p.Text}
		if p.Exit != nil {
			e := describeExit(*p.Exit)
			list[i].Exit = &e
		}
		if p.Deploy != "" {
			by := p.By.String()
			list[i].Deploy, list[i].By = &all[i].Deploy, &by
		}
	}
	return ok(happeningsAnswer{statusOK, c.say("The events of your application have been loaded."), list})
}
