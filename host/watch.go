package host

import (
	"context"
	"fmt"
	"time"

	"berth/app"
)

const (
	// silence is how long a site may open no port before it is told so.
	silence = time.Minute
	// The port of a new run is looked for often at first, for visitors wait.
	watchFirst, watchFor = 50 * time.Millisecond, 10 * time.Second
	watchThen            = 500 * time.Millisecond
	watchLate            = 2 * time.Second // after silence
)

// portInUse is what a program is told that could not have the port it asked for, as
// its output says; port is its own.
func portInUse(port int) string {
	return fmt.Sprintf("the port that it asked for is in use: listen on process.env.PORT, which is %d; "+
		"if it does, somebody else on this host has that port: start it again in a minute", port)
}

// watchPort looks for the port of the program that was started, until that has
// opened one or ended.
func (u *unit) watchPort(began time.Time) {
	u.unwatch()
	u.listening, u.silent = app.Listening{}, false
	if u.app.Type != app.Site || u.app.Code.Static() {
		return
	}
	u.printed = u.h.Logs.Mark(u.id)
	ctx, cancel := context.WithCancel(u.h.ctx)
	u.cancelWatch = cancel
	run := u.run
	u.h.waits.Go(func() {
		defer cancel()
		u.lookForPort(ctx, run, began)
	})
}

// unwatch ends watchPort.
func (u *unit) unwatch() {
	if u.cancelWatch != nil {
		u.cancelWatch()
		u.cancelWatch = nil
	}
}

func (u *unit) lookForPort(ctx context.Context, run Instance, began time.Time) {
	told := false
	for {
		l, err := run.Listens()
		if err != nil {
			u.log.Debug("cannot tell where a site listens", "error", err)
		}
		if l.Port > 0 {
			_ = u.do(ctx, u.opened(run, l)) // or it has ended
			return
		}
		since := time.Since(began)
		if since >= silence && !told {
			told = true
			_ = u.do(ctx, u.quiet(run, l.Several))
		}
		pause := watchFirst
		switch {
		case since >= silence:
			pause = watchLate
		case since >= watchFor:
			pause = min(watchThen, silence-since)
		}
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return
		}
	}
}

// opened is the event that a site's program takes connections.
func (u *unit) opened(run Instance, l app.Listening) func(func(error)) {
	return func(reply func(error)) {
		defer reply(nil)
		if u.run != run {
			return
		}
		if u.silent {
			u.h.Logs.Note(u.id, fmt.Sprintf("it has opened its port after %s", lasted(time.Since(u.app.StartedAt))))
		}
		u.listening, u.silent = l, false
		if !l.Own {
			u.h.Logs.Note(u.id, fmt.Sprintf(
				"it listens on port %d, where its visitors are brought; on this host other programs may take that port: listen on process.env.PORT, which is %d", l.Port, u.port))
		}
	}
}

// quiet is the event that a site's program has opened no port for long.
func (u *unit) quiet(run Instance, several bool) func(func(error)) {
	return func(reply func(error)) {
		defer reply(nil)
		if u.run != run {
			return
		}
		u.silent = true
		text := fmt.Sprintf("it has opened no port for %s, so nobody can visit it: listen on process.env.PORT, or on 8080", lasted(silence))
		switch {
		case several:
			text = "it listens on several ports and none of them is PORT or 8080, so nobody can visit it: listen on process.env.PORT"
		case inUse(u.printed(bigTail)):
			text += "; " + portInUse(u.port)
		}
		u.h.Logs.Note(u.id, text)
	}
}
