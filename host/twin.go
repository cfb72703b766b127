package host

import (
	"context"
	"time"

	"berth/app"
)

// Visits are the requests that the web brings to sites. It is safe for
// concurrent use.
type Visits interface {
	// Healthy asks a program for a path, once, and returns why it is not well.
	Healthy(ctx context.Context, id app.ID, port int, path string) error
	// Drain blocks until no request is under way to a port, or ctx ends. New ones
	// MUST go elsewhere by now. Sockets says whether to wait for WebSockets too.
	Drain(ctx context.Context, port int, sockets bool)
}

// yielding bounds the wait for requests under way before a program is stopped
// that is to come back: those that come meanwhile are held for ten seconds.
const yielding = 2 * time.Second

// twin is a second run of an application, beside unit.run: the new code on
// trial, or the old code whose last requests are being answered. Only the
// unit's goroutine reads and writes it, but for ended and what is said to be
// read after that.
type twin struct {
	run     Instance // nil until it is started
	number  int
	port    int
	started time.Time
	old     bool
	printed func(max int) string
	over    bool // it has ended
	gone    []func()
	ended   chan struct{} // closed once exit is set
	exit    app.Exit
}

// runs reports whether a program of it runs. Of nil, it does not.
func (t *twin) runs() bool { return t != nil && t.run != nil && !t.over }

// trial reports whether t is new code that is not the application's yet. Of nil,
// it is not.
func (t *twin) trial() bool { return t != nil && !t.old }

// twinOf is the name under which a second run is counted in the host's memory.
func twinOf(id app.ID) app.ID { return id + " twin" }

// number returns the number of the next run, which no run had before.
func (u *unit) number() int {
	u.used = max(u.used, u.app.LastRun) + 1
	return u.used
}

// twinEnded is the end of the second run. It is no crash of the application.
func (u *unit) twinEnded(e app.Exit) {
	t := u.twin
	t.over, t.exit = true, e
	close(t.ended)
	u.h.capacity.give(twinOf(u.id))
	u.leaveConsole(t.run)
	u.log.Info("second run ended", "run", t.number, "old", t.old, "code", e.Code, "oom", e.OOM, "ran", e.Ran)
	if t.old {
		u.twin = nil
		u.h.Logs.Note(u.id, "the program from before the commit has ended")
	} else {
		u.h.Logs.Note(u.id, "the new program "+sentence(e).String())
	}
	if u.state == app.Stopping && u.halted != nil {
		e := *u.halted
		u.halted = nil
		u.atRest(e)
	}
	for _, then := range t.gone {
		then()
	}
}

// without ends the second run, if there is one, and then runs then.
func (u *unit) without(then func()) {
	if !u.twin.runs() {
		then()
		return
	}
	u.twin.run.Stop(u.h.StopGrace)
	u.twin.gone = append(u.twin.gone, then)
}

// endTwin replies when no second run goes on.
func (u *unit) endTwin(reply func(error)) { u.without(func() { reply(nil) }) }

// yield is halt for a program that is to come back: visitors who come from now
// on are held, and those who are there get their answers first.
func (u *unit) yield(why app.Text, after func()) {
	port := u.listening.Port
	if u.h.Visits == nil || port == 0 || u.h.ctx.Err() != nil {
		u.halt(why, after)
		return
	}
	u.interrupt(why)
	u.after = after
	u.enter(app.Stopping, 0)
	u.publish() // before anybody counts the requests
	if u.twin.runs() {
		u.twin.run.Stop(u.h.StopGrace)
	}
	run := u.run
	u.drain(port, yielding, false, func() {
		if u.run == run {
			run.Stop(u.h.StopGrace)
		}
	})
}

// drain waits for the requests at a port, and then runs then on the unit's
// goroutine.
func (u *unit) drain(port int, patience time.Duration, sockets bool, then func()) {
	u.h.waits.Go(func() {
		ctx, cancel := context.WithTimeout(u.h.ctx, patience)
		defer cancel()
		u.h.Visits.Drain(ctx, port, sockets)
		_ = u.do(context.Background(), func(reply func(error)) { // a unit that has ended has ended them
			then()
			reply(nil)
		})
	})
}
