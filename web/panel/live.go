package panel

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
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
//	begun      there is a stream
//	changed    the page's parts are to be fetched again
//	elsewhere  the same, but what changed is on another page of a list, so that is not urgent
//	figures    what an application uses now, in words, and as numbers for the charts
//	lines      of a log, made by the same template as those of the page
//	refused    why there is no stream, in words
//
// The page carries the number of the newest event from before it was made, and the
// stream begins there: what happens between the two is sent.

// live is what a page needs to follow what happens; the zero value is a page that
// does not. The part "live" writes it.
type live struct {
	Stream string // address of the stream
	Last   int64  // the newest event that the page knows
}

// liveOf is for a page of an application, or of all when id is "". It MUST be
// called before the data of the page is read. what is "figures", "log", "build" or "".
func liveOf(feed app.Feed, what string, id app.ID) live {
	pairs := []string{"what", what}
	if id != "" {
		pairs = append(pairs, "app", string(id))
	}
	return live{"/events?" + query(pairs...), feed.Last()}
}

// livePages are the streams of pages.
type livePages struct {
	feed    app.Feed
	signIns SignIns
	account func(ctx context.Context, id app.AccountID) (app.Account, error)
}

// viewer is one stream of a page.
type viewer struct {
	livePages
	c      *call
	stream app.Stream
	shown  func(app.ID) bool // the page shows an application; nil for all
	build  bool              // the lines are those of the build
	begun  bool              // some were sent
	sieve  sieve
}

// events streams what happens to the applications of a page.
func (p livePages) events(c *call) (answer, error) {
	w, what, err := watchOf(c)
	if err != nil {
		return answer{}, err
	}
	filter, err := logFilterOf(c.Request.URL.Query(), time.Now())
	if err != nil {
		return answer{}, err
	}
	stream, err := p.feed.Watch(c.ctx(), w)
	if app.KindOf(err) == app.Forbidden && w.Kinds.Has(app.LogEvent) { // a member who may read the log alone
		w.Kinds = app.LogEvent
		stream, err = p.feed.Watch(c.ctx(), w)
	}
	switch kind := app.KindOf(err); {
	case kind == app.Limited:
		return standsStill(c, c.lang.Say("This page is not live: too many pages of your account are open at once. The page tries again by itself.")), nil
	case kind == app.Unavailable:
		return standsStill(c, c.lang.Say("This page is not live: the server cannot send its updates now. The page tries again by itself.")), nil
	case err != nil:
		return answer{}, err
	}
	v := &viewer{livePages: p, c: c, stream: stream, shown: w.Figures, build: what == "build", sieve: sieve{logFilter: filter}}
	return answer{stream: func() {
		defer stream.Close()
		web.BeginStream(c)
		if c.Request.Method != http.MethodHead {
			first := append(fmt.Appendf(nil, "retry: %d\n\n", web.StreamRetry), frame("begun", max(w.Last, 0), nil)...)
			c.Stream(stream, first, v.frames, v.mayStill)
		}
	}}, nil
}

// standsStill says why there is no stream: scripts cannot read the body of an error.
func standsStill(c *call, said string) answer {
	return answer{stream: func() {
		web.BeginStream(c)
		_ = http.NewResponseController(c).SetWriteDeadline(time.Now().Add(web.StreamPatience))
		if c.Request.Method != http.MethodHead {
			_, _ = c.Write(frame("refused", 0, map[string]string{"text": said}))
		}
	}}
}

// watchOf is what a page wants to follow.
func watchOf(c *call) (w app.Watch, what string, err error) {
	query := c.Request.URL.Query()
	what = query.Get("what")
	w = app.Watch{Account: c.account.ID, App: app.All, Kinds: app.StateEvent | app.ExitEvent | app.DeployEvent | app.MemoryEvent}
	if query.Has("app") {
		w.App = app.ID(query.Get("app"))
	}
	if w.App != app.All && !app.ValidID(string(w.App)) {
		return w, what, errNoApp()
	}
	switch what {
	case "log", "build":
		w.Kinds |= app.LogEvent
		w.Tail = shownTail
	case "figures":
		w.Kinds |= app.MetricEvent
	}
	if query.Has("shown") {
		if w.Figures, err = parseShown(query.Get("shown")); err != nil {
			return w, what, err
		}
	}
	last := cmp.Or(c.Request.Header.Get("Last-Event-ID"), query.Get("last")) // the browser comes again by itself
	if w.Last, err = strconv.ParseInt(last, 10, 64); err != nil || w.Last <= 0 {
		w.Last = -1 // nothing is known since
	}
	return w, what, nil
}

// mayStill checks again who watches, which is no visit: a session is not kept alive by
// a page that nobody reads.
func (v *viewer) mayStill(ctx context.Context) error {
	if err := v.stillSignedIn(ctx, v.c); err != nil {
		return err
	}
	return v.stream.Check(ctx)
}

// stillSignedIn fails when the session of a call has ended, or its account may do nothing any more.
func (p livePages) stillSignedIn(ctx context.Context, c *call) error {
	a, err := p.account(ctx, c.account.ID)
	if err == nil {
		err = a.Closed()
	}
	if err != nil {
		return err
	}
	sessions, err := p.signIns.Sessions(ctx, c.account.ID)
	if err == nil && !slices.ContainsFunc(sessions, func(s app.Session) bool { return s.ID == c.session.ID }) {
		err = app.Errorf(app.Unauthorized, "you are not signed in")
	}
	return err
}

// frames writes events as the page's script reads them.
func (v *viewer) frames(events []app.Event) []byte {
	var b bytes.Buffer
	for _, e := range events {
		switch e.Kind {
		case app.MetricEvent:
			b.Write(frame("figures", 0, usageFrameOf(v.c.lang, e)))
		case app.LogEvent:
			if e.Lines.Build == v.build {
				b.Write(v.lines(v.sieve.sift(e.Lines.Text)))
			}
		default:
			if e.Kind == app.DeployEvent && v.build && e.Deploy.Phase == app.DeployBuilding { // its log is empty from here on
				v.begun = false
				v.sieve = sieve{logFilter: v.sieve.logFilter}
				b.Write(frame("lines", 0, map[string]any{"fresh": true, "empty": true, "html": ""}))
				v.begun = true
			}
			name := "changed"
			if v.shown != nil && e.App != "" && !v.shown(e.App) {
				name = "elsewhere"
			}
			b.Write(frame(name, e.ID, nil))
		}
	}
	return b.Bytes()
}

// lines writes lines of a log. The first frame begins with some from before: the
// page has those already, all or some of them. Where the filter lets none through there is no
// frame.
func (v *viewer) lines(text string) []byte {
	if text == "" {
		v.begun = true
		return nil
	}
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

// usageFrame is what an application uses now.
type usageFrame struct {
	App   app.ID  `json:"app"`
	At    int64   `json:"at"`
	CPU   float64 `json:"cpu"` // percent of one core
	RAM   float64 `json:"ram"` // MB
	Limit float64 `json:"limit"`
	Full  int     `json:"full"`
	In    int64   `json:"in"` // bytes since the start
	Out   int64   `json:"out"`
	// Words are put in the place of those of the page, by name.
	Words map[string]string `json:"words"`
}

func usageFrameOf(l text.Language, e app.Event) usageFrame {
	u := e.Usage
	full := share(u.MemoryBytes, u.LimitBytes)
	const mb = 1 << 20
	return usageFrame{
		App: e.App, At: e.At.Unix(), CPU: u.CPUPercent, RAM: float64(u.MemoryBytes) / mb, Limit: float64(u.LimitBytes) / mb, Full: full,
		In: u.NetIn, Out: u.NetOut,
		Words: map[string]string{
			"cpu": l.Say("CPU %s %%", l.Number(u.CPUPercent, 1)), "ram": l.Say("RAM %s of %s", size(l, u.MemoryBytes), size(l, u.LimitBytes)),
			"cpu-now": l.Number(u.CPUPercent, 1) + " %", "ram-now": size(l, u.MemoryBytes), "ram-limit": size(l, u.LimitBytes),
			"full": l.Say("RAM %d %% full", full), "in": size(l, u.NetIn), "out": size(l, u.NetOut),
		},
	}
}
