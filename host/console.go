package host

import (
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

// acquire gives an account a seat, or refuses with app.Unavailable. release gives
// it back.
func (s *seats) acquire(account app.AccountID) (release func(), err error) {
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
