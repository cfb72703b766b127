package host

import (
	"context"
	"fmt"
	"time"

	"berth/app"
)

// Each event is a method; each switches over all states. They run on the
// unit's goroutine.

func (u *unit) already(word string) error {
	return app.Errorf(app.Already, "the application is already %s", app.Words(word))
}

func (u *unit) busy(what string) error {
	return app.Errorf(app.Conflict, "the application is %s; try again in a moment", app.Words(what))
}

// refuse returns why no command is taken now, nil when they are.
func (u *unit) refuse() error {
	switch u.closing {
	case byShutdown, byLeave:
		return app.Errorf(app.Unavailable, "the server is shutting down; try again in a minute")
	case byDelete, ended:
		return noApp(u.id)
	case open:
	}
	if u.unborn {
		return app.Errorf(app.Conflict, "the application is being deployed for the first time; wait until that is done, or stop it")
	}
	return nil
}

// start is a person's start.
func (u *unit) start(reply func(error)) {
	if err := u.refuse(); err != nil {
		reply(err)
		return
	}
	switch u.state {
	case app.Starting, app.Online:
		reply(u.already("online"))
	case app.Stopping:
		reply(u.busy("being stopped"))
	case app.Stopped, app.Waiting, app.Preparing:
		if u.deploy != nil {
			reply(u.busy("being deployed"))
			return
		}
		if u.state == app.Waiting {
			reply(u.again())
			return
		}
		reply(u.byPerson())
	}
}

// byPerson launches because somebody asked: the last exit is no longer told,
// crashes are counted anew. A start that failed leaves it stopped.
func (u *unit) byPerson() error { return u.asked(func(error) bool { return false }) }

// again is byPerson for what is wanted online already: a start that fails for the
// host's reasons, its disk, its memory or a moment without processes, is tried
// again like one at boot.
func (u *unit) again() error { return u.asked(hosts) }

// hosts reports whether a start failed for the host's reasons, which pass. A
// program that cannot be started fails the same way again.
func hosts(err error) bool {
	kind := app.KindOf(err)
	return kind != app.Unusable && kind != app.Invalid
}

// asked is byPerson, or again for errors that pass. What is wanted is recorded
// once: a crash meets what it was before, or what it is from here on.
func (u *unit) asked(passes func(error) bool) error {
	u.attempt = 0
	u.forgetExit()
	err := u.roomy()
	if err == nil {
		err = u.launch()
	}
	switch {
	case err == nil:
		return u.want(app.WantOnline)
	case passes(err):
		_ = u.want(app.WantOnline) // told in the log; the start's own error is the answer
		u.putOff(err)
	default:
		u.enter(app.Stopped, 0)
		_ = u.want(app.WantStopped) // as above
	}
	return err
}

func (u *unit) forgetExit() {
	if u.app.LastExit == nil {
		return
	}
	u.app.LastExit = nil
	_ = u.record("the exit", func(ctx context.Context) error { return u.h.Records.ClearExit(ctx, u.id) })
}

// boot goes on with what runs, and queues up what else was online before the
// daemon was.
func (u *unit) boot(reply func(error)) {
	switch adopted := u.adopt(); {
	case adopted && u.app.Wanted != app.WantOnline: // the daemon died while it stopped it
		u.halt(app.Textf("the application was stopped"), func() {})
		fallthrough
	case adopted, u.app.Wanted != app.WantOnline:
		reply(nil)
		return
	}
	u.enter(app.Waiting, 0)
	u.queued = true
	reply(nil)
}

// turn is the start of what waits for it since the boot. One that fails is tried
// again, whatever autoRestart says: its owner wants it online.
func (u *unit) turn(reply func(error)) {
	if u.queued && u.closing == open {
		u.retry()
	}
	reply(nil)
}

// restart is a person's restart.
func (u *unit) restart(reply func(error)) {
	if err := u.refuse(); err != nil {
		reply(err)
		return
	}
	if u.deploy != nil {
		reply(u.busy("being deployed"))
		return
	}
	switch u.state {
	case app.Starting, app.Online:
		u.yield(app.Textf("the application was restarted"), func() { reply(u.again()) })
	case app.Waiting:
		reply(u.again())
	case app.Stopping:
		reply(u.busy("being stopped"))
	case app.Stopped, app.Preparing:
		reply(app.Errorf(app.Already, "the application is offline; start it instead"))
	}
}

// stop is a person's stop. It calls off a deployment under way; of a first
// one nothing stays.
func (u *unit) stop(reply func(error)) {
	if u.unborn {
		u.remove(reply)
		return
	}
	if err := u.refuse(); err != nil {
		reply(err)
		return
	}
	deploying := u.deploy != nil
	if deploying {
		u.deploy()
		u.stopped = true
	}
	var unrecorded error
	record := deploying || u.state != app.Stopping && u.app.Wanted == app.WantOnline
	running := u.state == app.Starting || u.state == app.Online
	if running { // first, for the record may have to wait for the disk
		u.halt(app.Textf("the application was stopped"), func() { reply(unrecorded) })
	}
	if record {
		unrecorded = u.want(app.WantStopped)
	}
	if running {
		return
	}
	switch u.state {
	case app.Starting, app.Online: // see above
	case app.Waiting:
		u.attempt = 0
		u.enter(app.Stopped, 0)
		u.h.Logs.Note(u.id, "stopped; it is not started again")
		u.without(func() { reply(unrecorded) })
	case app.Stopping:
		if deploying { // between the old code and the new
			u.follow(func() { reply(unrecorded) })
			return
		}
		reply(u.busy("being stopped"))
	case app.Stopped, app.Preparing:
		err := unrecorded
		if !deploying {
			err = app.Errorf(app.Already, "the application is already offline")
		}
		u.without(func() { reply(err) })
	}
}

// halt ends the program and then runs after. Only one thing can follow. why is
// for whoever waits for a console command.
func (u *unit) halt(why app.Text, after func()) {
	u.interrupt(why)
	u.after = after
	u.enter(app.Stopping, 0)
	u.run.Stop(u.h.StopGrace)
	if u.twin.runs() {
		u.twin.run.Stop(u.h.StopGrace)
	}
}

// follow runs then after what follows the end of the program already.
func (u *unit) follow(then func()) {
	before := u.after
	u.after = func() {
		before()
		then()
	}
}

// tick is the timer of the state.
func (u *unit) tick() {
	switch u.state {
	case app.Starting:
		u.judge()
	case app.Online:
		u.attempt = 0 // a healthy minute
	case app.Waiting:
		u.retry()
	case app.Stopped:
		u.resign()
	case app.Stopping, app.Preparing: // their timers never run
	}
}

// retry is an automatic start.
func (u *unit) retry() {
	if err := u.launch(); err != nil {
		u.putOff(err)
	}
}

// putOff waits for the next automatic start after one that failed. Of several
// that fail for the same reason the chronicle gets one.
func (u *unit) putOff(err error) {
	u.attempt++
	if why := forUser(err); why != u.refusal {
		u.refusal = why
		u.chronicle(app.HistoryEvent{Kind: app.HistoryRefusal, Text: why})
	}
	u.wait("cannot start: "+forUser(err), max(backoff(u.attempt), time.Second))
}

// wait puts off the next automatic start.
func (u *unit) wait(why string, pause time.Duration) {
	u.retryAt = time.Now().Add(pause)
	u.enter(app.Waiting, max(pause, 1))
	if pause == 0 {
		u.h.Logs.Note(u.id, why+"; restarting now")
		return
	}
	u.h.Logs.Note(u.id, fmt.Sprintf("%s; restart %d follows in %s", why, u.attempt, lasted(pause)))
}

// exited is the end of the program, with everything it left running.
func (u *unit) exited(x end) {
	if u.twin.runs() && u.twin.run == x.run {
		u.twinEnded(x.exit)
		return
	}
	e := x.exit
	e.Run, e.Asked = u.app.LastRun, u.state == app.Stopping
	u.run = nil
	u.unwatch()
	u.leaveConsole(x.run)
	u.h.capacity.give(u.id)
	if u.closing != byShutdown { // berth's own end is none of the program's
		u.app.LastExit = &e
		_ = u.record("the exit", func(ctx context.Context) error { return u.h.Records.RunEnded(ctx, u.id, e) })
		u.tell(app.Event{Kind: app.ExitEvent, At: e.At, Exit: &e})
	}
	u.log.Info("program ended", "code", e.Code, "oom", e.OOM, "asked", e.Asked, "ran", e.Ran)
	switch u.state {
	case app.Stopping:
		if u.twin.runs() { // until that has ended too
			u.halted = &e
			return
		}
		u.atRest(e)
	case app.Starting, app.Online:
		switch {
		case u.closing == byShutdown: // killed in a hurry; what is wanted stays
			u.enter(app.Stopped, 0)
		case u.twin.trial(): // which decides what follows
			u.lost = &e
			u.h.Logs.Note(u.id, sentence(e).String())
			u.enter(app.Stopped, 0)
		case u.trial:
			u.h.Logs.Note(u.id, sentence(e).String())
			u.enter(app.Stopped, 0)
		default:
			u.ended(e)
		}
		u.verdict(&e)
		if u.closing == byLeave && u.deploy == nil {
			u.part()
		}
	case app.Stopped, app.Waiting, app.Preparing: // nothing runs in these
	}
}

// atRest is the end of Stopping: nothing runs any more.
func (u *unit) atRest(e app.Exit) {
	u.h.Logs.Note(u.id, stopped(e, u.h.StopGrace))
	u.enter(app.Stopped, 0)
	u.verdict(&e)
	after := u.after
	u.after = nil
	after()
}

// ended decides what follows when a program ended by itself.
func (u *unit) ended(e app.Exit) {
	if u.app.Type == app.Site && e.Code != 0 && u.printed != nil && inUse(u.printed(bigTail)) {
		u.h.Logs.Note(u.id, portInUse(u.port))
	}
	if restarts(u.app, e) {
		u.attempt++
		u.wait(sentence(e).String(), backoff(u.attempt))
		return
	}
	text := sentence(e).String()
	if e.OOM {
		text += "; it stays offline: give it more RAM, or set AUTORESTART"
	}
	u.h.Logs.Note(u.id, text)
	if obeys(e) {
		u.enter(app.Stopped, settling)
		return
	}
	u.enter(app.Stopped, 0)
	u.resign()
}

// resign gives up on a program that ended by itself: the next boot does not
// start it.
func (u *unit) resign() {
	if u.app.Wanted == app.WantOnline {
		_ = u.want(app.WantStopped) // told in the log; it has ended whatever is recorded
	}
}

// verdict tells those who wait how the start went; nil is well.
func (u *unit) verdict(e *app.Exit) {
	watch := u.watch
	u.watch, u.trial, u.fresh = nil, false, false
	for _, told := range watch {
		told(e)
	}
}
