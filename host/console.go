package host

import (
	"context"
	"sync"

	"berth/app"
)

const (
	// consolesAtOnce is how many console commands run at a time on the host, and
	// consolesOfOne how many of one account: a few that keep theirs until the
	// timeout must not keep all others out.
	consolesAtOnce = 8
	consolesOfOne  = consolesAtOnce / 4

	// whyDeployed is why a command ends whose tree is about to change.
	whyDeployed = "the application was deployed"
)

// console is a console command under way.
type console struct {
	command Command
	online  bool     // beside the program; it then ends with it
	run     Instance // that program

	mu  sync.Mutex
	cut app.Text // why it was ended
}

// Console runs one shell command as the application's user: beside its program
// and with the program's RAM when it is online, else in place of the program,
// counted as a run. It blocks until nothing of the command runs any more: when
// it ends, at the latest after the timeout, when the program ends, when the
// application's state or code changes, or when ctx does, which it returns the
// error of. A command that fails is no error. It fails with app.NotFound; with
// app.Conflict while another one of the application runs, or when it is being
// stopped or deployed; with app.Exhausted when the host has no memory left for
// it; and with app.Unavailable when too many run.
func (h *Host) Console(ctx context.Context, owner app.AccountID, id app.ID, command string) (app.Shell, error) {
	u, err := h.find(owner, id)
	if err != nil {
		return app.Shell{}, err
	}
	done, err := h.begin()
	if err != nil {
		return app.Shell{}, err
	}
	defer done()
	leave, err := h.consoles.take(owner)
	if err != nil {
		return app.Shell{}, err
	}
	defer leave()
	var c *console
	if err := u.do(context.WithoutCancel(ctx), u.openConsole(command, &c)); err != nil {
		return app.Shell{}, err
	}
	limited, cancel := context.WithTimeout(ctx, h.ConsoleTimeout)
	defer cancel()
	stop := context.AfterFunc(limited, func() {
		c.end(app.Textf("it took longer than %s, the most it may", lasted(h.ConsoleTimeout)))
	})
	shell := c.command.Wait()
	stop()
	if !c.online {
		h.capacity.give(besides(id))
	}
	_ = u.do(context.Background(), u.closeConsole(c)) // of a unit that has ended, nothing
	shell.Cut = c.verdict(shell)
	u.log.Info("console command ended", "account", owner, "online", c.online, "code", shell.Exit.Code, "ms", shell.Exit.Ran.Milliseconds())
	return shell, ctx.Err()
}

// besides is the name under which an offline application's console command is
// counted in the host's memory: no id, for the application may be started while
// the command is ended.
func besides(id app.ID) app.ID { return id + " console" }

// openConsole starts a command, on the unit's goroutine, so that every event
// comes before it or meets it.
func (u *unit) openConsole(command string, c **console) func(func(error)) {
	return func(reply func(error)) {
		opened, err := u.startConsole(command)
		if err == nil {
			*c, u.console = opened, opened
		}
		reply(err)
	}
}

func (u *unit) startConsole(line string) (*console, error) {
	if err := u.refuse(); err != nil {
		return nil, err
	}
	if u.console != nil {
		return nil, app.Errorf(app.Conflict, "a console command of the application is running already; wait until it ends")
	}
	plan, err := u.h.Plan(configOf(u.app), true, u.h.Staging.Files("", u.id), u.app.Code.Packages)
	if err != nil && app.KindOf(err) != app.Unusable { // a console may be what mends that
		return nil, err
	}
	argv := []string{"/bin/sh", "-c", plan.Prelude + line}
	switch u.state {
	case app.Stopping:
		return nil, u.busy("being stopped")
	case app.Starting, app.Online:
		command, err := u.run.Shell(argv)
		return &console{command: command, online: true, run: u.run}, err
	case app.Stopped, app.Waiting, app.Preparing:
	}
	switch {
	case u.deploy != nil:
		return nil, u.busy("being deployed")
	case u.broken:
		return nil, halves()
	}
	p, err := u.program(plan)
	if err != nil {
		return nil, err
	}
	p.Argv = argv
	if err := u.h.capacity.take(besides(u.id), u.app.RAM); err != nil {
		return nil, err
	}
	command, err := u.h.Shell(u.h.ctx, p)
	if err != nil {
		u.h.capacity.give(besides(u.id))
		return nil, err
	}
	return &console{command: command}, nil
}

// closeConsole is the end of a command.
func (u *unit) closeConsole(c *console) func(func(error)) {
	return func(reply func(error)) {
		reply(nil)
		if u.console != c {
			return
		}
		u.console = nil
		then := u.hushed
		u.hushed = nil
		for _, f := range then {
			f()
		}
	}
}

// interrupt ends the command that runs, if any, and tells its owner why. One
// beside the program is not ended here but as the program is, with its grace.
func (u *unit) interrupt(why app.Text) {
	switch c := u.console; {
	case c == nil:
	case c.online:
		c.blame(why)
	default:
		c.end(why)
	}
}

// hush ends a command that runs in place of the program, and then runs then.
func (u *unit) hush(why app.Text, then func()) {
	u.interrupt(why)
	if u.console == nil || u.console.online {
		then()
		return
	}
	u.hushed = append(u.hushed, then)
}

// leaveConsole forgets a command that has ended with the program.
func (u *unit) leaveConsole(run Instance) {
	if u.console != nil && u.console.online && u.console.run == run {
		u.console = nil
	}
}

// end ends the command for a reason.
func (c *console) end(why app.Text) {
	c.blame(why)
	c.command.End()
}

// blame notes why the command ends; the first reason counts.
func (c *console) blame(why app.Text) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.cut.IsZero() {
		c.cut = why
	}
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

// seats bounds how many console commands run at once. The zero value is ready;
// it is safe for concurrent use.
type seats struct {
	mu    sync.Mutex
	taken int
	by    map[app.AccountID]int
}

// take gives an account a seat, or refuses with app.Unavailable. leave gives it
// back.
func (s *seats) take(account app.AccountID) (leave func(), err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.by[account] >= consolesOfOne:
		return nil, app.Errorf(app.Unavailable, "your account runs %d console commands, as many as one may; try again when one has ended", consolesOfOne)
	case s.taken >= consolesAtOnce:
		return nil, app.Errorf(app.Unavailable, "this host runs %d console commands, as many as it may; try again in a moment", consolesAtOnce)
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
