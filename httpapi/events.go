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
	"memory": app.MemoryEvent,
}

// feed is the route of what happens while it happens.
type feed struct{ app.Feed }

// stream answers with a stream of events (WHATWG HTML, server-sent events).
func (f feed) stream(c *call) (response, error) {
	w, err := watch(c)
	if err == nil {
		err = checkWatch(c, w)
	}
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
			now := c.token
			c.Stream(stream, []byte(first), func(all []app.Event) []byte {
				seen := c.visible(all)
				c.token = now // an application that was deleted has left its bounds; that it was is still seen
				return frames(seen)
			}, func(ctx context.Context) error {
				next, err := c.reauthenticate(ctx)
				if err != nil {
					return err
				}
				now = next
				return stream.Check(ctx)
			})
		}
	}}, nil
}

// watch reads what the client wants to know.
func watch(c *call) (app.Watch, error) {
	w := app.Watch{Account: c.account.ID, App: app.All, Kinds: app.StateEvent | app.ExitEvent | app.DeployEvent | app.MemoryEvent}
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
				return w, app.Errorf(app.Invalid, "The parameter types must be words of state, exit, deploy, memory, metric and log, with commas between them.")
			}
			w.Kinds |= kind
		}
	}
	if err := lines(&w, query, c.now()); err != nil {
		return w, err
	}
	if last := c.Request.Header.Get("Last-Event-ID"); last != "" {
		if w.Last, err = strconv.ParseInt(last, 10, 64); err != nil || w.Last <= 0 {
			w.Last = -1 // of another server, perhaps: nothing is known since
		}
	}
	return w, nil
}

// lines reads which lines the client wants, and from where on.
func lines(w *app.Watch, query url.Values, now time.Time) (err error) {
	w.Exact = w.Kinds.Has(app.LogEvent)
	for _, name := range []string{"since", "tail", "build", "follow"} {
		if query.Has(name) && !w.Exact {
			return app.Errorf(app.Invalid, "The parameter %s is for lines: it needs log among the types.", name)
		}
	}
	if query.Has("since") && query.Has("tail") {
		return app.Errorf(app.Invalid, "Send the parameter since or the parameter tail, not both.")
	}
	if build, err := truth(query, "build"); err != nil {
		return err
	} else if query.Has("build") {
		w.Logs = app.RunLog
		if build {
			w.Logs = app.BuildLog
		}
	}
	follow, err := truth(query, "follow")
	if err != nil {
		return err
	}
	w.From.Once = query.Has("follow") && !follow
	w.From.Mark = w.From.Once || query.Has("since") || query.Has("tail")
	switch {
	case query.Has("tail"):
		if w.From.Last, err = strconv.Atoi(query.Get("tail")); err != nil || w.From.Last < 0 {
			return app.Errorf(app.Invalid, "The parameter tail must be a number of lines.")
		}
	case query.Has("since"):
		return begins(&w.From, query.Get("since"), now)
	case w.From.Once:
		w.From.All = true
	}
	return nil
}

// truth reads a parameter that is true or false.
func truth(query url.Values, name string) (bool, error) {
	is, err := strconv.ParseBool(query.Get(name))
	if err != nil && query.Has(name) {
		return false, app.Errorf(app.Invalid, "The parameter %s must be true or false.", name)
	}
	return is, nil
}

// begins reads where lines begin: a position, a time, or how long ago.
func begins(from *app.LineStart, text string, now time.Time) error {
	if strings.Contains(text, "_") { // which no time has
		from.Pos = text
		return nil
	}
	if days, is := strings.CutSuffix(text, "d"); is {
		if n, err := strconv.ParseUint(days, 10, 16); err == nil {
			from.Time = now.AddDate(0, 0, -int(n))
			return nil
		}
	}
	if ago, err := time.ParseDuration(text); err == nil && ago > 0 {
		from.Time = now.Add(-ago)
		return nil
	}
	at, err := moment(url.Values{"since": {text}}, "since", now)
	if err != nil {
		return app.Errorf(app.Invalid,
			"The parameter since must be the pos of a line, a time such as 2026-11-20T09:31:02Z, or how long ago, such as 10m, 2h or 3d.")
	}
	from.Time = at
	return nil
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
		{"hostRamKilled", e.HostOOM},
		{"heapFull", e.HeapFull.String()},
		{"heapMb", e.HeapMB},
		{"asked", e.Asked},
		{"peak", e.PeakBytes},
		{"limitMb", e.LimitMB},
		{"ran", e.Ran.Round(time.Millisecond).Seconds()},
	}
}

// describeWarning shows that a program needs nearly all of its RAM: amounts in bytes,
// and the time until it needs all in seconds, 0 where it did not grow steadily.
func describeWarning(w app.MemoryWarning) object {
	return object{
		{"level", w.Level},
		{"held", w.HeldBytes},
		{"limit", w.LimitBytes},
		{"fullIn", int64(w.FullIn.Seconds())},
		{"squeezed", w.Squeezed},
		{"memorySignal", w.Signal},
		{"sent", w.Sent},
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
	case app.MemoryEvent:
		return "app.memory", append(data, describeWarning(*e.Memory)...)
	case app.MetricEvent:
		u := e.Usage
		return "app.metrics", append(data, object{
			{"cpu", rounded(u.CPUPercent)}, {"memory", u.MemoryBytes}, {"limit", u.LimitBytes}, {"netIn", u.NetIn}, {"netOut", u.NetOut},
		}...)
	case app.LogEvent:
		return "app.log", append(data, object{{"build", e.Lines.Build}, {"text", e.Lines.Text}, {"pos", e.Lines.Pos}}...)
	case app.RemovedEvent:
		return "app.removed", data
	case app.GapEvent:
		return "gap", object{{"missed", e.Missed}}
	case app.EndEvent:
		return "end", object{}
	default:
		return "reset", object{}
	}
}
