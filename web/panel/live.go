package panel

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"berth/app"
	"berth/app/text"
	"berth/web"
)

// A page that follows what happens has one stream (WHATWG HTML, server-sent events).
// Its frames are:
//
//	begun    there is a stream
//	changed  the page's parts are to be fetched again
//	figures  what an application uses now, in words, and as numbers for the charts
//	lines    of a log, made by the same template as those of the page
//	refused  why there is no stream, in words
//
// The page carries the number of the newest event from before it was made, and the
// stream begins there: what happens between the two is told.

// live is what a page needs to follow what happens; the zero value is a page that
// does not. The part "live" writes it.
type live struct {
	Stream string // address of the stream
	Last   int64  // the newest event that the page knows
}

// liveOf is for a page of the application of the call, or of all. It MUST be asked
// for before the data of the page. what is "figures", "log", "build" or "".
func (s *server) liveOf(c *call, what string) live {
	query := url.Values{"what": {what}}
	if c.app.ID != "" {
		query.Set("app", string(c.app.ID))
	}
	return live{"/events?" + query.Encode(), s.Feed.Last()}
}

// viewer is one stream of a page.
type viewer struct {
	s      *server
	c      *call
	stream app.Stream
	build  bool // the lines are those of the build
	begun  bool // some were told
}

// events streams what happens to the applications of a page.
func (s *server) events(c *call) (answer, error) {
	w, what, err := c.watch()
	if err != nil {
		return answer{}, err
	}
	stream, err := s.Feed.Watch(c.Request.Context(), w)
	if app.KindOf(err) == app.Forbidden && what.lines() { // a member who may read the log alone
		w.Kinds = app.LogEvent
		stream, err = s.Feed.Watch(c.Request.Context(), w)
	}
	first := append(fmt.Appendf(nil, "retry: %d\n\n", web.StreamRetry), frame("begun", max(w.Last, 0), nil)...)
	switch app.KindOf(err) {
	case app.Limited:
		return standsStill(c.lang.Say("This page stands still: too many pages of your account are open at once. It tries again by itself.")), nil
	case app.Unavailable:
		return standsStill(c.lang.Say("This page stands still: the server cannot serve its updates now. It tries again by itself.")), nil
	default:
		if err != nil {
			return answer{}, err
		}
	}
	v := &viewer{s: s, c: c, stream: stream, build: what == "build"}
	return answer{stream: func(http.ResponseWriter, *http.Request) {
		defer stream.Close()
		web.BeginStream(c)
		if c.Request.Method != http.MethodHead {
			c.Stream(stream, first, v.frames, v.mayStill)
		}
	}}, nil
}

// standsStill tells why there is no stream: scripts cannot read the body of an error.
func standsStill(said string) answer {
	return answer{stream: func(w http.ResponseWriter, r *http.Request) {
		web.BeginStream(w)
		_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(web.StreamPatience))
		if r.Method != http.MethodHead {
			_, _ = w.Write(frame("refused", 0, map[string]string{"text": said}))
		}
	}}
}

// viewed is the parameter what of a stream.
type viewed string

func (v viewed) lines() bool { return v == "log" || v == "build" }

// watch reads what a page wants to be told.
func (c *call) watch() (app.Watch, viewed, error) {
	query := c.Request.URL.Query()
	what := viewed(query.Get("what"))
	w := app.Watch{Account: c.account.ID, App: app.All, Kinds: app.StateEvent | app.ExitEvent | app.DeployEvent}
	if query.Has("app") {
		w.App = app.ID(query.Get("app"))
	}
	if w.App != app.All && !app.ValidID(string(w.App)) {
		return w, what, app.Errorf(app.NotFound, "You have no application with this ID.")
	}
	switch {
	case what.lines():
		w.Kinds |= app.LogEvent
		w.Tail = shownTail
	case what == "figures":
		w.Kinds |= app.MetricEvent
	}
	last := query.Get("last")
	if told := c.Request.Header.Get("Last-Event-ID"); told != "" { // the browser comes again by itself
		last = told
	}
	var err error
	if w.Last, err = strconv.ParseInt(last, 10, 64); err != nil || w.Last <= 0 {
		w.Last = -1 // nothing is known since
	}
	return w, what, nil
}

// mayStill asks again who watches, which is no visit: a session is not kept alive by
// a page that nobody reads.
func (v *viewer) mayStill(ctx context.Context) error {
	sessions, err := v.s.SignIns.Sessions(ctx, v.c.account.ID)
	if err != nil {
		return err
	}
	if !slices.ContainsFunc(sessions, func(s app.Session) bool { return s.ID == v.c.session.ID }) {
		return &app.Error{Kind: app.Unauthorized}
	}
	a, err := v.s.Account(ctx, v.c.account.ID)
	if app.KindOf(err) == app.NotFound {
		return err
	}
	if err == nil && a.Disabled {
		return &app.Error{Kind: app.Forbidden}
	}
	return v.stream.Check(ctx)
}

// frames writes events as the page's script reads them.
func (v *viewer) frames(events []app.Event) []byte {
	var b bytes.Buffer
	for _, e := range events {
		switch e.Kind {
		case app.MetricEvent:
			b.Write(frame("figures", 0, figuresOf(v.c.lang, e)))
		case app.LogEvent:
			if e.Lines.Build == v.build {
				b.Write(v.lines(e.Lines.Text))
			}
		case app.DeployEvent:
			if v.build && e.Deploy.Phase == app.DeployBuilding { // its log is empty from here on
				v.begun = false
				b.Write(v.lines(""))
			}
			b.Write(frame("changed", e.ID, nil))
		default:
			b.Write(frame("changed", e.ID, nil))
		}
	}
	return b.Bytes()
}

// lines writes lines of a log. The first frame begins with some from before: the
// page has those already, all or some of them.
func (v *viewer) lines(text string) []byte {
	var b bytes.Buffer
	page := templates[v.c.lang.Tag()]()["logs"]
	if err := page.ExecuteTemplate(&b, "lines", linesOf(text)); err != nil {
		panic(err) // a mistake in a template, which its tests find
	}
	fresh := !v.begun
	v.begun = true
	return frame("lines", 0, map[string]any{"fresh": fresh, "html": b.String()})
}

// frame writes one frame; its data has no line end in it.
func frame(name string, id int64, data any) []byte {
	var b bytes.Buffer
	if id != 0 {
		fmt.Fprintf(&b, "id: %d\n", id)
	}
	text, err := json.Marshal(data)
	if err != nil {
		panic(err) // strings and numbers alone
	}
	fmt.Fprintf(&b, "event: %s\ndata: %s\n\n", name, text)
	return b.Bytes()
}

// figures are what an application uses now.
type figures struct {
	App   app.ID  `json:"app"`
	At    int64   `json:"at"`
	CPU   float64 `json:"cpu"` // percent of one core
	RAM   float64 `json:"ram"` // MB
	Limit float64 `json:"limit"`
	Full  int     `json:"full"`
	// Words are put in the place of those of the page, by name.
	Words map[string]string `json:"words"`
}

func figuresOf(l text.Language, e app.Event) figures {
	u := e.Usage
	full := share(u.MemoryBytes, u.LimitBytes)
	const mb = 1 << 20
	return figures{
		App: e.App, At: e.At.Unix(), CPU: u.CPUPercent, RAM: float64(u.MemoryBytes) / mb, Limit: float64(u.LimitBytes) / mb, Full: full,
		Words: map[string]string{
			"cpu": l.Say("CPU %s %%", l.Number(u.CPUPercent, 1)), "ram": l.Say("RAM %s of %s", size(l, u.MemoryBytes), size(l, u.LimitBytes)),
			"cpu-now": l.Number(u.CPUPercent, 1) + " %", "ram-now": size(l, u.MemoryBytes), "ram-limit": size(l, u.LimitBytes),
			"full": l.Say("RAM %d %% full", full), "in": size(l, u.NetIn), "out": size(l, u.NetOut),
		},
	}
}
