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

// eventKinds are the words of the parameter types; see also frameOf.
var eventKinds = map[string]app.EventKind{
	"state": app.StateEvent, "exit": app.ExitEvent, "deploy": app.DeployEvent, "metric": app.MetricEvent, "log": app.LogEvent,
}

// feed is the route of what happens while it happens.
type feed struct{ app.Feed }

// stream answers with a stream of events (WHATWG HTML, server-sent events).
func (f feed) stream(c *call) (response, error) {
	w, err := watch(c)
	if err != nil {
		return response{}, err
	}
	first := fmt.Sprintf("retry: %d\n\n", web.StreamRetry)
	if w.Last == 0 { // so that nothing is missed if it breaks before the first event
		w.Last = f.Last()
		first = fmt.Sprintf("id: %d\n", w.Last) + first
	}
	stream, err := f.Watch(c.Request.Context(), w)
	if err != nil {
		return response{}, err
	}
	return response{stream: func(http.ResponseWriter) {
		defer stream.Close()
		web.BeginStream(c)
		if !c.head() {
			c.Stream(stream, []byte(first), frames, func(ctx context.Context) error {
				if err := c.reauthenticate(ctx); err != nil {
					return err
				}
				return stream.Check(ctx)
			})
		}
	}}, nil
}

// watch reads what the client wants to know.
func watch(c *call) (app.Watch, error) {
	w := app.Watch{Account: c.account.ID, App: app.All, Kinds: app.StateEvent | app.ExitEvent | app.DeployEvent}
	query, err := url.ParseQuery(c.Request.URL.RawQuery)
	if err != nil {
		return w, app.Errorf(app.Invalid, "The parameters of the address are malformed.")
	}
	if query.Has("app") {
		w.App = app.ID(query.Get("app"))
	}
	if w.App != app.All && !app.ValidID(string(w.App)) {
		return w, errNoApp
	}
	if query.Has("types") {
		w.Kinds = 0
		for name := range strings.SplitSeq(query.Get("types"), ",") {
			kind, known := eventKinds[name]
			if !known {
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

// describeExit shows how a program ended: the peak in bytes, 0 where the kernel does not
// report it, and the time that it ran in seconds.
func describeExit(e app.Exit) object {
	return object{
		{"exitCode", e.Code},
		{"signal", e.Signal},
		{"ramKilled", e.OOM},
		{"asked", e.Asked},
		{"peak", e.PeakBytes},
		{"limitMb", e.LimitMB},
		{"ran", e.Ran.Round(time.Millisecond).Seconds()},
	}
}

// frameOf returns the name and the data of an event.
func frameOf(e app.Event) (name string, data object) {
	data = object{{"id", e.App}, {"at", timestamp(e.At)}}
	switch e.Kind {
	case app.StateEvent:
		s := e.State
		return "app.state", append(data, object{
			{"state", s.State},
			{"online", s.Running},
			{"name", s.Name},
			{"ram", s.RAM},
			{"attempt", s.Attempt},
			{"retryAt", timestamp(s.RetryAt)}, // "" for never
			{"listening", s.Reach},            // "" for a bot
		}...)
	case app.ExitEvent:
		return "app.exit", append(data, describeExit(*e.Exit)...)
	case app.DeployEvent:
		d := e.Deploy
		return "app.deploy", append(data, object{{"kind", d.Kind}, {"phase", d.Phase}, {"position", d.Position}, {"message", d.Why}}...)
	case app.MetricEvent:
		u := e.Usage
		return "app.metrics", append(data, object{
			{"cpu", rounded(u.CPUPercent)}, {"memory", u.MemoryBytes}, {"limit", u.LimitBytes}, {"netIn", u.NetIn}, {"netOut", u.NetOut},
		}...)
	case app.LogEvent:
		return "app.log", append(data, object{{"build", e.Lines.Build}, {"text", e.Lines.Text}}...)
	case app.RemovedEvent:
		return "app.removed", data
	case app.GapEvent:
		return "gap", object{{"missed", e.Missed}}
	default:
		return "reset", object{}
	}
}
