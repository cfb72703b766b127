package host

import (
	"context"
	"errors"
	"sync"

	"berth/app"
)

const (
	// consolesAtOnce is how many console commands run at a time on the host, and
	// consolesOfOne how many of one account: a few that keep theirs until the
	// timeout must not keep all others out.
	consolesAtOnce = 8
	consolesOfOne  = consolesAtOnce / 4

	// sessionsAtOnce is how many sessions are open at a time on the host, and
	// sessionsOfOne how many of one account: people leave terminals open.
	sessionsAtOnce = 32
	sessionsOfOne  = 4

	// interactive is the shell of a session without a command: the one that people expect,
	// where there is one.
	interactive = "if command -v bash >/dev/null 2>&1; then exec bash; fi; exec /bin/sh"

	// whyDeployed is why a command ends whose tree is about to change.
	whyDeployed = "the application was deployed"
)

// console is a console command under way, or that of a session.
type console struct {
	command Command
	session bool
	beside  *run // the program that it runs beside, and ends with; nil: in its place
	held    bool // it has RAM of its own in the host's capacity
	once    sync.Once

	mu  sync.Mutex
	cut app.Text // why it was ended
}

// consoleOf is the name under which a console command beside no program is
// counted in the host's memory: no id, for the application may be started while
// the command is ended.
func consoleOf(id app.ID) app.ID { return id + " console" }

// alone reports whether it runs in the place of the program.
func (c *console) alone() bool { return c.beside == nil }

// end ends the command for a reason.
func (c *console) end(why app.Text) {
	c.blame(why)
	c.once.Do(c.command.End)
}

// blame notes why the command ends; the first reason counts.
func (c *console) blame(why app.Text) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.cut.IsZero() {
		c.cut = why
	}
}

// use lets somebody use the streams of a session, and ends its command when they are done,
// or when ctx or the host's ends.
func (c *console) use(ctx, life context.Context, use func(context.Context, app.Streams)) {
	streams, release := c.command.Streams()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(life, func() { cancel(app.Errorf(app.Unavailable, "the server is shutting down")) })()
	end := func() {
		select {
		case <-streams.Ended:
			return // by itself: nobody is to blame
		default:
		}
		why := app.Textf("the client has gone")
		if said, is := errors.AsType[*app.Error](context.Cause(ctx)); is {
			why = said.Message
		}
		c.end(why)
	}
	defer context.AfterFunc(ctx, end)()
	defer release()
	defer end() // also after a panic
	use(ctx, streams)
}

// verdict says why a command was ended, no text when it ended by itself: a reason
// that came too late is none.
func (c *console) verdict(s app.Shell) app.Text {
	c.mu.Lock()
	defer c.mu.Unlock()
	killed := s.Exit.Signal == sigkill
	asked := s.Program != nil && s.Exit.Code != 0 // with the program, and did not care
	switch {
	case (killed || asked) && !c.cut.IsZero():
		return c.cut
	case killed && (s.Exit.OOM || s.Program != nil && s.Program.OOM):
		return app.Textf("the application needed more than %d MB of RAM", s.Exit.LimitMB)
	case killed && s.Program != nil:
		return app.Textf("the application's program %s", sentence(*s.Program))
	}
	return app.Text{}
}

// seats bounds how many console commands, or sessions, run at once. The zero value is
// ready; it is safe for concurrent use.
type seats struct {
	mu    sync.Mutex
	taken int
	by    map[app.AccountID]int
}

// forConsole gives an account a seat for a console command, or refuses with
// app.Unavailable. release gives it back.
func (s *seats) forConsole(account app.AccountID) (release func(), err error) {
	return s.acquire(account, consolesOfOne, consolesAtOnce,
		app.Errorf(app.Unavailable, "your account runs %d console commands, as many as one may; try again when one has ended", consolesOfOne),
		app.Errorf(app.Unavailable, "this host runs %d console commands, as many as it may; try again in a moment", consolesAtOnce))
}

// forSession is forConsole for a session.
func (s *seats) forSession(account app.AccountID) (release func(), err error) {
	return s.acquire(account, sessionsOfOne, sessionsAtOnce,
		app.Errorf(app.Unavailable, "your account has %d sessions open, as many as one may; try again when one has ended", sessionsOfOne),
		app.Errorf(app.Unavailable, "this host has %d sessions open, as many as it may; try again when one has ended", sessionsAtOnce))
}

// acquire gives an account one of the seats, or returns tooMany or full.
func (s *seats) acquire(account app.AccountID, ofOne, ofAll int, tooMany, full error) (release func(), err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.by[account] >= ofOne:
		return nil, tooMany
	case s.taken >= ofAll:
		return nil, full
	}
	if s.by == nil {
		s.by = map[app.AccountID]int{}
	}
	s.taken++
	s.by[account]++
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.taken--
		if s.by[account]--; s.by[account] == 0 {
			delete(s.by, account)
		}
	}, nil
}
