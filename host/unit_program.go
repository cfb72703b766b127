package host

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"berth/app"
)

// What happens to the program of a unit, and to what runs beside it. Everything here is
// on the unit's goroutine.

const (
	// freshFor is how long new code is watched at most while it is busy starting.
	freshFor = 15 * time.Second
	// judgeAgain is the pause between two looks at a program that starts, and
	// endedSoon that before the end of one which has ended is known.
	judgeAgain = 100 * time.Millisecond
	endedSoon  = 10 * time.Millisecond
	// drainFirst bounds the wait for requests under way before a program is stopped
	// that is to come back: those that come meanwhile are held for ten seconds.
	drainFirst = 2 * time.Second
)

// launch starts the program of the live tree; journal is that of the deployment that
// starts it, and auto says that nobody asked for the start. It changes the state only when it succeeds; a failure is returned and
// noted by the caller.
func (u *unit) launch(journal string, auto bool) error {
	if u.mixedTree {
		return mixed()
	}
	if err := u.h.barred(u.owner); err != nil {
		return err
	}
	p, err := u.program(u.app.Code)
	if err != nil {
		return err
	}
	if err := u.h.capacity.reserve(u.id, u.app.Charged()); err != nil {
		return err
	}
	u.interrupt(app.Textf("the application was started"))
	p.Run, p.Journal, p.Gate, p.CPU = u.nextNumber(), journal, u.gate, u.h.share(u.owner, u.id)
	if p.Beside = u.second.runs(); p.Beside && u.second.port == p.Port { // whose last requests are being answered
		if p.Port, err = u.h.Registry.Spare(context.Background(), u.id); err != nil {
			u.h.capacity.release(u.id)
			return err
		}
	}
	printed := u.h.Logs.Mark(u.id) // before it can have printed anything
	program, err := u.h.Launch(u.h.ctx, p)
	if err != nil {
		u.h.capacity.release(u.id)
		u.log.Error("cannot start the program", "error", err)
		return err
	}
	r := newRun(program, p.Run, p.Port, primary)
	r.printed = printed
	u.run, u.refusal = r, ""
	u.app.LastRun, u.app.StartedAt = p.Run, time.Now()
	u.recordStart(auto)
	u.log.Info("program started", "run", r.number, "ram", u.app.RAM)
	u.noteAddress()
	u.enter(app.Starting, max(u.h.OKDelay, 1))
	u.watchPort(r, u.app.StartedAt)
	u.watchHealth(r)
	u.waitFor(r)
	return nil
}

// noteAddress writes into the log of a site that starts where its visitors find it.
func (u *unit) noteAddress() {
	if u.app.Type != app.Site || u.h.Address == nil {
		return
	}
	at := u.h.Address(u.id)
	if len(at.URLs) == 0 {
		u.h.Logs.Note(u.id, at.Why.String())
		return
	}
	u.h.Logs.Note(u.id, "its visitors find it at "+strings.Join(at.URLs, ", "))
}

func (u *unit) recordStart(auto bool) {
	run, at := u.app.LastRun, u.app.StartedAt
	if auto {
		u.noteStart(at)
	}
	_ = u.records.record("the start", func(ctx context.Context) error { return u.h.Records.RunStarted(ctx, u.id, run, at, auto) })
}

// nextNumber returns the number of the next run, which no run had before.
func (u *unit) nextNumber() int {
	u.used = max(u.used, u.app.LastRun) + 1
	return u.used
}

// waitFor reports a program's end to the unit, if that is still there by then.
func (u *unit) waitFor(r *run) {
	u.h.waits.Go(func() {
		e := r.Wait()
		select {
		case u.exits <- programEnd{r, e}:
		case <-u.quit:
		}
	})
}

// program is what code of the live tree makes of the application now.
func (u *unit) program(code app.Code) (app.Program, error) {
	next := u.app
	next.Code = code
	plan, err := u.plan(next)
	if err != nil {
		return app.Program{}, err
	}
	if plan.Runs != "" && u.deploy == nil { // a deployment has said so
		u.h.Logs.Note(u.id, plan.Runs)
	}
	return u.programOf(plan)
}

func (u *unit) plan(a app.App) (app.Plan, error) {
	return u.h.Plan(ConfigOf(a), true, u.h.Staging.Files("", u.id), a.Code.Packages)
}

func (u *unit) programOf(plan app.Plan) (app.Program, error) {
	// At each start, for a command may have changed them beside the daemon.
	variables, err := u.h.Records.Variables(context.Background(), u.id)
	if u.deploy != nil && u.deploy.variables != nil {
		variables = u.deploy.variables
	}
	return app.Program{
		App: u.id, Account: u.app.Account, Run: u.app.LastRun, Code: plan.Code, Argv: plan.Argv,
		Runtime: plan.Runtime, Env: plan.Env, Variables: variables,
		UID: u.app.UID, Port: u.app.Port, RAM: u.app.RAM, Share: u.app.RAM, Warn: u.warn,
	}, err
}

// boot goes on with what runs, and queues up what else was online before the daemon was.
func (u *unit) boot() {
	u.resting = u.h.rests(u.owner)
	switch adopted := u.adopt(); {
	case adopted && u.resting: // as below
		u.stopRun(u.whyResting())
	case adopted && u.app.Wanted != app.WantOnline: // the daemon died while it stopped it
		u.stopRun(app.Textf("the application was stopped"))
	case !adopted && u.app.Wanted == app.WantOnline && !u.resting:
		// berth itself ended the program, and died before it could start it again: nobody is to take
		// that for the program's own end.
		if e := u.app.LastExit; e != nil && e.Asked {
			u.setExit(nil)
		}
		u.enter(app.Waiting, 0)
	}
}

// adopt goes on with the program that an earlier daemon left, if it did.
func (u *unit) adopt() bool {
	if u.h.Adopt == nil {
		return false
	}
	p, _ := u.programOf(app.Plan{}) // its variables are with it already
	p.Code.MemorySignal = u.app.Code.MemorySignal
	s, err := u.h.Adopt(p)
	if err != nil {
		u.log.Error("cannot go on with the program that an earlier daemon left running", "error", err)
		u.h.Logs.Note(u.id, "berth could not go on with the program after its own restart")
	}
	if s == nil {
		return false
	}
	if e := u.app.LastExit; e != nil && e.Run == s.Run && s.Ended() {
		u.h.waits.Go(func() { s.Wait() }) // which gives back what was held for it
		return false                      // the daemon died when it had recorded the end, and before it had removed what was left
	}
	u.run = newRun(s.Instance, s.Run, cmp.Or(s.Port, u.app.Port), primary)
	u.run.printed = u.h.Logs.Mark(u.id)
	if u.app.LastRun != s.Run { // the daemon died between the start and its record
		u.app.LastRun, u.app.StartedAt = s.Run, s.StartedAt
		u.recordStart(false)
	}
	u.h.capacity.force(u.id, u.app.Charged())
	u.log.Info("program adopted", "run", s.Run, "since", s.StartedAt)
	u.findPort()
	u.enter(app.Online, 0)
	u.watchPort(u.run, time.Now())
	u.watchHealth(u.run)
	u.waitFor(u.run)
	return true
}

// turn is the start of what waits for it since the boot. One that fails is tried
// again, whatever autoRestart says: its owner wants it online.
func (u *unit) turn() {
	if u.queued() && u.closing == stay {
		u.retry()
	}
}

// tick is the timer of the state.
func (u *unit) tick() {
	switch u.state {
	case app.Starting:
		u.judge()
	case app.Online:
		u.recovered()
	case app.Waiting:
		u.retry()
	case app.Stopped:
		u.resign()
	case app.Stopping, app.Preparing: // their timers never run
	}
}

// judge is the end of the ok delay: the program has started well, unless it has
// ended and the unit does not know yet, or new code is still busy starting.
func (u *unit) judge() {
	unsettled := u.proof != proven && u.unsettled()
	switch {
	case u.run.Ended(): // asked last: it may have ended while it was looked at, and then it is not busy
		u.enter(app.Starting, endedSoon)
	case unsettled:
		u.enter(app.Starting, judgeAgain)
	default:
		u.enter(app.Online, 0)
		if u.attempt > 0 {
			u.enter(app.Online, healthyAfter(u.waited))
		}
		u.verdict(nil)
	}
}

// unsettled reports whether new code has not shown yet how it goes. On a small or
// busy machine it may have done next to nothing in the ok delay: while one of its
// tasks could run it is on its way. A program that listens has arrived.
func (u *unit) unsettled() bool {
	if u.h.ctx.Err() != nil || time.Since(u.app.StartedAt) >= freshFor || u.run.listening.At.IsValid() || !u.run.Busy() {
		return false
	}
	l, err := u.run.Listens()
	return err != nil || !l.At.IsValid()
}

// verdict reports to those who wait how the start went; nil is well.
func (u *unit) verdict(e *app.Exit) {
	waiting := u.outcome
	u.outcome, u.proof = nil, proven
	if len(waiting) > 0 {
		u.settle()
	}
	for _, report := range waiting {
		report(e)
	}
}

// retry is an automatic start.
func (u *unit) retry() {
	if now := time.Now(); nextStart(u.starts, u.h.DailyStarts, now).After(now) { // after a boot
		u.wait("not started yet", 0)
		return
	}
	err := u.h.scarce()
	if err == nil {
		err = u.launch("", true)
	}
	if err != nil && u.h.rests(u.owner) { // rest comes, or has come
		u.resting = true
		u.enter(app.Stopped, 0)
		return
	}
	if err != nil {
		u.putOff(err)
	}
}

// putOff waits for the next automatic start after one that failed. Of several
// that fail for the same reason the event log gets one.
func (u *unit) putOff(err error) {
	u.attempt++
	if why := forUser(err); why != u.refusal {
		u.refusal = why
		u.logEvent(app.HistoryEvent{Kind: app.HistoryRefusal, Text: why})
	}
	u.wait("cannot start: "+forUser(err), max(backoff(u.attempt), time.Second))
}

// stopRun ends the program, and the second run. why is for whoever waits for a console
// command.
func (u *unit) stopRun(why app.Text) {
	u.interrupt(why)
	u.enter(app.Stopping, 0)
	u.run.stop(u.h.StopGrace)
	u.stopSecond()
}

// drainAndStop is stopRun for a program that is to come back: visitors who come from now
// on are held, and those who are there get their answers first.
func (u *unit) drainAndStop(why app.Text) {
	r := u.run
	if u.h.Visits == nil || !r.listening.At.IsValid() || u.h.ctx.Err() != nil {
		u.stopRun(why)
		return
	}
	u.interrupt(why)
	u.enter(app.Stopping, 0)
	u.publish() // before anybody counts the requests
	u.stopSecond()
	u.drain(r, drainFirst, false)
}

// drain waits for the requests under way to a run, and then stops it.
func (u *unit) drain(r *run, patience time.Duration, sockets bool) {
	at := r.listening.At
	u.h.waits.Go(func() {
		ctx, cancel := context.WithTimeout(u.h.ctx, patience)
		defer cancel()
		u.h.Visits.Drain(ctx, at, sockets)
		u.call(context.Background(), func() { // a unit that has ended has ended it
			if r.runs() {
				r.stop(u.h.StopGrace)
			}
		})
	})
}

// stopSecond ends the second run, and reports whether there is none.
func (u *unit) stopSecond() bool {
	if !u.second.runs() {
		return true
	}
	u.second.stop(u.h.StopGrace)
	return false
}

// warn is app.Program.Warn.
func (u *unit) warn(w app.MemoryWarning) { u.call(context.Background(), func() { u.warned(w) }) }

// warned says that a run needs nearly all of its RAM, unless it has ended meanwhile.
func (u *unit) warned(w app.MemoryWarning) {
	is := func(r *run) bool { return r.runs() && r.number == w.Run }
	if !is(u.run) && !is(u.second) {
		return
	}
	u.h.Logs.Note(u.id, warning(w).String())
	u.logEvent(app.HistoryEvent{At: w.At, Kind: app.HistoryMemory, Memory: &w})
	u.report.event(app.Event{At: w.At, Kind: app.MemoryEvent, Memory: &w})
}

// exited is the end of a run, with everything it left running.
func (u *unit) exited(x programEnd) {
	x.run.exit = x.exit
	x.run.end()
	u.consoles = slices.DeleteFunc(u.consoles, func(c *console) bool { return c.beside == x.run }) // they have ended with the program
	if x.run == u.second {
		u.secondExited()
		return
	}
	x.exit.Asked = u.state == app.Stopping
	x.exit.HeapFull, x.exit.HeapMB = heapFull(x.exit, x.run.printed)
	u.run = nil
	u.h.capacity.release(u.id)
	u.recordExit(&x)
	e := x.exit
	u.log.Info("program ended", "code", e.Code, "oom", e.OOM, "asked", e.Asked, "ran", e.Ran)
	switch u.state {
	case app.Stopping: // until the second run has ended too
		u.pendingExit = &x
	case app.Starting, app.Online:
		switch {
		case u.closing == shutdown: // killed in a hurry; what is wanted stays
			u.enter(app.Stopped, 0)
		case u.second.is(candidate): // which decides what follows
			u.pendingExit = &x
			fallthrough
		case u.proof == trial:
			u.h.Logs.Note(u.id, sentence(e).String())
			u.enter(app.Stopped, 0)
		default:
			u.endedByItself(x)
		}
		u.verdict(&e)
	case app.Stopped, app.Waiting, app.Preparing: // nothing runs in these
	}
}

// recordExit records and reports an exit of the application's program, unless the daemon
// ends it: that is none of the program's. It waits for neither; settle does.
func (u *unit) recordExit(x *programEnd) {
	x.exit.Run = u.app.LastRun
	if u.closing == shutdown {
		return
	}
	e := x.exit
	recorded := u.beginExit(&e)
	u.ending = func() {
		_ = recorded() // logged
		u.report.event(app.Event{Kind: app.ExitEvent, At: e.At, Exit: &e})
	}
}

// settle waits until the exit of the program is recorded, and reports it.
func (u *unit) settle() {
	if ending := u.ending; ending != nil {
		u.ending = nil
		ending()
	}
}

// gate is what a program waits for that is about to begin: the exit of the one before.
func (u *unit) gate() {
	if u.ending != nil {
		u.publish()
	}
}

// due reports whether the program is to start again at once. Its exit is recorded while
// that is prepared.
func (u *unit) due() bool {
	return u.ending != nil && u.state == app.Waiting && u.closing == stay && !u.retryAt.After(time.Now())
}

// secondExited is the end of the second run. It is no crash of the application.
func (u *unit) secondExited() {
	s := u.second
	u.h.capacity.release(secondOf(u.id))
	u.log.Info("second run ended", "run", s.number, "old", s.role == retiring, "code", s.exit.Code, "oom", s.exit.OOM, "ran", s.exit.Ran)
	if s.role == retiring {
		u.second = nil
		u.h.Logs.Note(u.id, "the program from before the commit has ended")
		return
	}
	u.h.Logs.Note(u.id, "the new program "+sentence(s.exit).String())
}

// endedByItself decides what follows when a program ended by itself.
func (u *unit) endedByItself(x programEnd) {
	e := x.exit
	if u.app.Type == app.Site && e.Code != 0 && inUse(x.run.printed(bigTail)) {
		u.h.Logs.Note(u.id, portInUse(x.run.port))
	}
	if restarts(u.app, e) {
		u.attempt++
		u.wait(sentence(e).String(), backoff(u.attempt))
		return
	}
	text := sentence(e).String()
	switch {
	case e.OOM:
		text += "; it stays offline: give it more RAM, or set AUTORESTART"
	case e.HeapFull != app.NoHeap:
		text += "; it stays offline: give it more RAM, keep less in memory, " + raised(e.HeapFull) + "or set AUTORESTART"
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
		_ = u.want(app.WantStopped) // logged; it has ended whatever is recorded
	}
}

// findPort looks once where an adopted program of a site takes its visitors, who may be
// waiting already. One that has listened for a while somewhere else goes on there.
func (u *unit) findPort() {
	if u.app.Type != app.Site || u.app.Code.Static() {
		return
	}
	l, err := u.run.Listens()
	if err != nil || l.Elsewhere() && time.Since(u.app.StartedAt) < freshFor {
		return // the watch goes on
	}
	if u.run.listening = l; !l.Own {
		u.run.noted = l.Port // as the daemon before has noted
	}
}

// watchPort looks for the port of a site's program, until that has opened the one it was
// given, or ended.
func (u *unit) watchPort(r *run, began time.Time) {
	if u.app.Type != app.Site || u.app.Code.Static() {
		return
	}
	known := r.listening
	u.h.waits.Go(func() {
		ctx, cancel := context.WithCancel(u.h.ctx)
		defer cancel()
		defer context.AfterFunc(r.life, cancel)()
		portWatch{u, r}.run(ctx, began, known)
	})
}

// consoleFree refuses a console command, or a session, beside those that run already.
func (u *unit) consoleFree(session bool) error {
	own := u.run == nil || u.app.Charged() == 0 // it gets RAM of its own, which is there once
	for _, c := range u.consoles {
		switch {
		case !session && !c.session:
			return app.Errorf(app.Conflict, "a console command of the application is running already; wait until it ends")
		case c.held || own:
			return app.Errorf(app.Conflict, "a console command or a session of the application is running already, and beside no program there is RAM for one; wait until it ends, or start the application")
		}
	}
	return nil
}

// startConsole starts a command, that of a session with e, on the unit's goroutine, so
// that every event comes before it or meets it.
func (u *unit) startConsole(line string, e *app.Exec) (*console, error) {
	if err := cmp.Or(u.refuse(), u.h.barred(u.owner)); err != nil {
		return nil, err
	}
	if err := u.consoleFree(e != nil); err != nil {
		return nil, err
	}
	plan, err := u.plan(u.app)
	if err != nil && app.KindOf(err) != app.Unusable { // a console may be what mends that
		return nil, err
	}
	argv := []string{"/bin/sh", "-c", plan.Prelude + line}
	switch {
	case u.state == app.Stopping:
		return nil, u.busy("being stopped")
	case u.run != nil:
		return u.startBesideRun(argv, e)
	case u.deploy != nil:
		return nil, u.busy("being deployed")
	case u.mixedTree:
		return nil, mixed()
	}
	p, err := u.programOf(plan)
	if err != nil {
		return nil, err
	}
	if err := u.h.capacity.reserve(consoleOf(u.id), u.app.RAM); err != nil {
		return nil, err
	}
	p.Argv, p.CPU = argv, u.h.share(u.owner, u.id)
	command, err := u.h.Shell(u.h.ctx, p, e)
	if err != nil {
		u.h.capacity.release(consoleOf(u.id))
		return nil, err
	}
	return u.entered(&console{command: command, session: e != nil, held: true}), nil
}

// entered makes a command known that was started.
func (u *unit) entered(c *console) *console {
	u.consoles = append(u.consoles, c)
	return c
}

// startBesideRun starts a command beside the program, whose RAM it has. Where no program
// runs, of a site of files, it has its own.
func (u *unit) startBesideRun(argv []string, e *app.Exec) (*console, error) {
	held := u.app.Charged() == 0
	if held {
		if err := u.h.capacity.reserve(consoleOf(u.id), u.app.RAM); err != nil {
			return nil, err
		}
	}
	command, err := u.run.Shell(argv, e)
	if err != nil {
		if held {
			u.h.capacity.release(consoleOf(u.id))
		}
		return nil, err
	}
	return u.entered(&console{command: command, session: e != nil, beside: u.run, held: held}), nil
}

// interrupt ends the commands that run, if any, and notes for their owner why. One
// beside the program is not ended here but as the program is, with its grace.
func (u *unit) interrupt(why app.Text) {
	for _, c := range u.consoles {
		if c.alone() {
			c.end(why)
		} else {
			c.blame(why)
		}
	}
}

// stopConsole ends a command that runs in place of the program, and reports whether
// there is none.
func (u *unit) stopConsole(why app.Text) bool {
	u.interrupt(why)
	return !slices.ContainsFunc(u.consoles, (*console).alone)
}
