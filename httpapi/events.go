package httpapi

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"berth/app"
	"berth/web"
)

// eventNames are the words of the parameter types; see also frameOf.
var eventNames = []struct {
	name string
	kind app.EventKind
}{
	{"state", app.StateEvent},
	{"exit", app.ExitEvent},
	{"deploy", app.DeployEvent},
	{"metric", app.MetricEvent},
	{"log", app.LogEvent},
}

// events is a stream of what happens (WHATWG HTML, server-sent events).
func (s *server) events(c *call) (response, error) {
	w, err := c.watch()
	if err != nil {
		return response{}, err
	}
	first := fmt.Sprintf("retry: %d\n\n", web.StreamRetry)
	if w.Last == 0 { // so that nothing is missed if it breaks before the first event
		w.Last = s.Feed.Last()
		first = fmt.Sprintf("id: %d\n", w.Last) + first
	}
	stream, err := s.Feed.Watch(c.Request.Context(), w)
	if err != nil {
		return response{}, err
	}
	return response{stream: func(http.ResponseWriter) {
		defer stream.Close()
		web.BeginStream(c)
		if !c.head() {
			c.Stream(stream, []byte(first), frames, func(ctx context.Context) error {
				if _, _, err := s.Accounts.Authenticate(ctx, c.Request.Header.Get(tokenHeader)); err != nil {
					return err
				}
				return stream.Check(ctx)
			})
		}
	}}, nil
}

// watch reads what is to be told.
func (c *call) watch() (app.Watch, error) {
	w := app.Watch{Account: c.account.ID, App: app.All, Kinds: app.StateEvent | app.ExitEvent | app.DeployEvent}
	query, err := url.ParseQuery(c.Request.URL.RawQuery)
	if err != nil {
		return w, app.Errorf(app.Invalid, "The parameters of the address are malformed.")
	}
	if query.Has("app") {
		w.App = app.ID(query.Get("app"))
	}
	if w.App != app.All && !app.ValidID(string(w.App)) {
		return w, app.Errorf(app.NotFound, "You have no application with this ID.")
	}
	if query.Has("types") {
		w.Kinds = 0
		for name := range strings.SplitSeq(query.Get("types"), ",") {
			kind := kindOf(name)
			if kind == 0 {
				return w, app.Errorf(app.Invalid, "The parameter types must be words of state, exit, deploy, metric and log, with commas between them.")
			}
			w.Kinds |= kind
		}
	}
	if last := c.Request.Header.Get("Last-Event-ID"); last != "" {
		if w.Last, err = strconv.ParseInt(last, 10, 64); err != nil || w.Last <= 0 {
			w.Last = -1 // of another server, perhaps: nothing is known since
		}
	}
	return w, nil
}

func kindOf(name string) app.EventKind {
	for _, e := range eventNames {
		if e.name == name {
			return e.kind
		}
	}
	return 0
}

// frames writes events as they cross the wire.
func frames(events []app.Event) []byte {
	var b bytes.Buffer
	for _, e := range events {
		if e.ID != 0 {
			fmt.Fprintf(&b, "id: %d\n", e.ID)
		}
		name, data := frameOf(e)
		fmt.Fprintf(&b, "event: %s\ndata: %s\n\n", name, encode(data)) // which has no line end in it
	}
	return b.Bytes()
}

type stateFrame struct {
	ID      app.ID    `json:"id"`
	At      string    `json:"at"`
	State   app.State `json:"state"`
	Online  bool      `json:"online"`
	Name    string    `json:"name"`
	RAM     app.MB    `json:"ram"`
	Attempt int       `json:"attempt"`
	RetryAt string    `json:"retryAt"` // "" for never
}

type exitFrame struct {
	ID app.ID `json:"id"`
	At string `json:"at"`
	exit
}

// exit is how a program ended, for clients.
type exit struct {
	ExitCode  int     `json:"exitCode"`
	Signal    int     `json:"signal"`
	RAMKilled bool    `json:"ramKilled"`
	Asked     bool    `json:"asked"`
	Peak      int64   `json:"peak"` // bytes, 0 where the kernel does not tell
	LimitMB   app.MB  `json:"limitMb"`
	Ran       float64 `json:"ran"` // seconds
}

func describeExit(e app.Exit) exit {
	return exit{e.Code, e.Signal, e.OOM, e.Asked, e.PeakBytes, e.LimitMB, e.Ran.Round(time.Millisecond).Seconds()}
}

type deployFrame struct {
	ID       app.ID          `json:"id"`
	At       string          `json:"at"`
	Kind     app.DeployKind  `json:"kind"`
	Phase    app.DeployPhase `json:"phase"`
	Position int             `json:"position"`
	Message  string          `json:"message"`
}

type metricFrame struct {
	ID     app.ID  `json:"id"`
	At     string  `json:"at"`
	CPU    float64 `json:"cpu"` // percent of one core
	Memory int64   `json:"memory"`
	Limit  int64   `json:"limit"`
	NetIn  int64   `json:"netIn"`
	NetOut int64   `json:"netOut"`
}

type logFrame struct {
	ID    app.ID `json:"id"`
	At    string `json:"at"`
	Build bool   `json:"build"`
	Text  string `json:"text"`
}

type removedFrame struct {
	ID app.ID `json:"id"`
	At string `json:"at"`
}

type gapFrame struct {
	Missed int `json:"missed"`
}

// frameOf returns the name and the data of an event.
func frameOf(e app.Event) (name string, data any) {
	at := timestamp(e.At)
	switch e.Kind {
	case app.StateEvent:
		s := e.State
		return "app.state", stateFrame{e.App, at, s.State, s.Running, s.Name, s.RAM, s.Attempt, timestamp(s.RetryAt)}
	case app.ExitEvent:
		return "app.exit", exitFrame{e.App, at, describeExit(*e.Exit)}
	case app.DeployEvent:
		d := e.Deploy
		return "app.deploy", deployFrame{e.App, at, d.Kind, d.Phase, d.Position, d.Why}
	case app.MetricEvent:
		u := e.Usage
		return "app.metrics", metricFrame{e.App, at, rounded(u.CPUPercent), u.MemoryBytes, u.LimitBytes, u.NetIn, u.NetOut}
	case app.LogEvent:
		return "app.log", logFrame{e.App, at, e.Lines.Build, e.Lines.Text}
	case app.RemovedEvent:
		return "app.removed", removedFrame{e.App, at}
	case app.GapEvent:
		return "gap", gapFrame{e.Missed}
	default:
		return "reset", struct{}{}
	}
}
