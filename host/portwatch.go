package host

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"berth/app"
)

// portWatch looks where the program of a site takes its visitors.
type portWatch struct {
	u *unit
	r *run
}

const (
	// silence is how long a site may open no port before its log says so.
	silence = time.Minute
	// The port of a new run is looked for often at first, for visitors wait.
	watchFirst, watchFor = 50 * time.Millisecond, 10 * time.Second
	watchThen            = 500 * time.Millisecond
	watchLate            = 2 * time.Second // after silence, and while it may move
	// settle is how long a program listens on a port that nobody could know before its
	// visitors are brought there: it may be about to open the one that is meant for them.
	settle = 2 * time.Second
)

// portInUse is what a program's log says that could not have the port it asked for, as
// its output says; port is its own.
func portInUse(port int) string {
	return fmt.Sprintf("the port that it asked for is in use: listen on process.env.PORT, which is %d; "+
		"if it does, somebody else on this host has that port: start it again in a minute", port)
}

// inUse reports whether a program says that a port it asked for is taken.
func inUse(printed string) bool {
	return strings.Contains(printed, "EADDRINUSE") || strings.Contains(strings.ToLower(printed), "address already in use")
}

// hintOf is what the owner of a site can do that listens so, and nobody can visit.
func hintOf(l app.Listening) app.Text {
	switch {
	case len(l.Open) > 1:
		return app.Textf("its program listens on the ports %s, and berth does not know which is for visitors: let that one be process.env.PORT, or 8080", numbers(l.Open))
	case len(l.Private) > 0:
		return app.Textf("its program listens on %s at one address alone, such as 127.0.0.1, which stays private: listen on process.env.PORT, or on 8080, at all addresses (0.0.0.0)", numbers(l.Private))
	}
	return app.Textf("its program has opened no port: listen on process.env.PORT, or on 8080, at all addresses (0.0.0.0)")
}

// numbers writes ports as a list, not all of many.
func numbers(ports []int) string {
	const most = 5
	var all []string
	for _, port := range ports[:min(len(ports), most)] {
		all = append(all, strconv.Itoa(port))
	}
	if len(ports) > most {
		all = append(all, "...")
	}
	return strings.Join(all, ", ")
}

// run looks until ctx ends, or visitors are where they stay; last is what the unit knows.
func (w portWatch) run(ctx context.Context, began time.Time, last app.Listening) {
	u := w.u
	var first time.Time // that it was seen at port
	port, quiet, reported := last.Port, began, false
	for {
		l, err := w.r.Listens()
		if err != nil {
			u.log.Debug("cannot tell where a site listens", "error", err)
			l = last
		}
		if l.Port != port {
			port, first = l.Port, time.Now()
		}
		if l.Elsewhere() && l.Port != last.Port && time.Since(first) < settle {
			l = app.Listening{}
		}
		if l.At != last.At {
			u.call(ctx, func() { w.listens(l) }) // or it has ended
			last, quiet, reported = l, time.Now(), false
		}
		switch {
		case l.At.IsValid() && !l.Elsewhere():
			return
		case !l.At.IsValid() && !reported && time.Since(quiet) >= silence:
			reported = true
			u.call(ctx, func() { w.quiet(l) })
		}
		if !sleep(ctx, watchAgain(l, time.Since(quiet))) {
			return
		}
	}
}

// watchAgain is the pause until the next look at a program that has been as it is for so
// long.
func watchAgain(l app.Listening, since time.Duration) time.Duration {
	switch {
	case l.At.IsValid() || since >= silence:
		return watchLate
	case since >= watchFor:
		return min(watchThen, silence-since)
	}
	return watchFirst
}

// listens is the event that a site's program takes connections elsewhere than before, or
// takes none any more.
func (w portWatch) listens(l app.Listening) {
	u, r := w.u, w.r
	if u.run != r {
		return
	}
	if r.silent && l.At.IsValid() {
		u.h.Logs.Note(u.id, fmt.Sprintf("it has opened its port after %s", lasted(time.Since(u.app.StartedAt))))
	}
	if r.listening = l; !l.At.IsValid() {
		return
	}
	r.silent, r.hint = false, app.Text{}
	if l.Own || r.noted == l.Port {
		return
	}
	r.noted = l.Port
	text := fmt.Sprintf("it listens on port %d, where its visitors are brought; ", l.Port)
	if !l.Guarded {
		text += "on this host other programs may take that port: "
	}
	text += fmt.Sprintf("listen on process.env.PORT, which is %d", r.port)
	if l.Guarded {
		text += ", and a commit needs no pause"
	}
	if len(l.Private) > 0 {
		text += fmt.Sprintf("; what it has at one address alone, such as 127.0.0.1, stays private: %s", numbers(l.Private))
	}
	u.h.Logs.Note(u.id, text)
}

// quiet is the event that a site's program has opened no port for long.
func (w portWatch) quiet(l app.Listening) {
	u, r := w.u, w.r
	if u.run != r {
		return
	}
	r.silent, r.hint = true, hintOf(l)
	text := fmt.Sprintf("nobody has been able to visit it for %s: %s", lasted(silence), r.hint)
	if len(l.Open)+len(l.Private) == 0 && inUse(r.printed(bigTail)) {
		text += "; " + portInUse(r.port)
	}
	u.h.Logs.Note(u.id, text)
	u.logEvent(app.HistoryEvent{Kind: app.HistorySilent, Text: text})
}
