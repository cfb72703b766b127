package proc

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path"
	"sync"
	"syscall"
	"time"

	"berth/app"
	"berth/cgroup"
	"berth/proc/sandbox"
)

// Console is one command that was started beside a program, or in place of one:
// its output is kept apart from the program's, or somebody's who is there (Streams). Its methods are safe for
// concurrent use.
type Console struct {
	main    *process
	group   *cgroup.Group
	in      *Run                 // nil when it is alone
	network *sandbox.Enclosure   // the run's own when it is not alone, and nil here
	sockets *sandbox.SocketCount // the same
	log     *slog.Logger
	started time.Time
	before  cgroup.Memory
	out     *capture // nil for a session
	errs    *capture
	session *session // nil where the output is captured
	done    chan struct{}
	shell   app.Shell // valid once done is closed
}

// begin makes the group and starts the command in it.
func (c *Console) begin(l *Launcher, s Spec, e *app.Exec) error {
	var err error
	if c.in != nil {
		c.group, err = c.in.group.Child(path.Base(s.Group))
	} else {
		c.group, err = l.Tree.Create(s.Group, limitsOf(s))
	}
	if err != nil {
		return err
	}
	if c.before, err = c.group.Memory(); err == nil {
		if e != nil {
			err = c.attach(l, s, *e)
		} else {
			err = c.capture(l, s)
		}
	}
	if err != nil {
		l.discard(c.group, s.Group)
		err = errors.Join(err, c.network.Close(), c.sockets.Close())
	}
	return err
}

// capture starts the command with its output going into two captures.
func (c *Console) capture(l *Launcher, s Spec) error {
	out, w, err := newCapture(s.UID)
	if err != nil {
		return err
	}
	defer w.Close() // the command has its own
	errs, ew, err := newCapture(s.UID)
	if err != nil {
		out.abandon()
		return err
	}
	defer ew.Close()
	s.Output, s.Errors, s.Input = w, ew, nil
	if err := c.start(l, s); err != nil {
		out.abandon()
		errs.abandon()
		return err
	}
	c.out, c.errs = out, errs
	return nil
}

// attach starts the command of a session.
func (c *Console) attach(l *Launcher, s Spec, e app.Exec) error {
	var size *app.Size
	if e.TTY {
		size = &e.Size
	}
	its, session, err := newSession(&s, size)
	if err != nil {
		return err
	}
	defer closeAll(its) // the command has its own
	if err := c.start(l, s); err != nil {
		if size == nil {
			session.close()
		}
		return err
	}
	session.begun()
	session.ended, c.session = c.done, session
	return nil
}

// start starts the command with the streams of s.
func (c *Console) start(l *Launcher, s Spec) (err error) {
	c.started = time.Now()
	c.main, err = l.start(s, c.group, func(dir *os.File) (err error) {
		if c.in == nil {
			c.network, c.sockets, err = l.enclose(dir, s)
		}
		return err
	})
	return err
}

// Streams returns what a session reads and writes, with a function that closes it, which
// MUST be called; both are zero where the output is captured.
func (c *Console) Streams() (streams app.Streams, release func()) {
	if c.session == nil {
		return app.Streams{}, nil
	}
	return c.session.streams(), c.session.close
}

// Wait blocks until nothing of the command runs any more, not even in the
// background, and returns what came of it. It may be called any number of times.
func (c *Console) Wait() app.Shell {
	<-c.done
	return c.shell
}

// End kills everything of the command, and nothing else. It does not wait.
func (c *Console) End() {
	if err := c.group.Kill(); err != nil {
		c.log.Error("cannot kill a console command", "error", err)
	}
}

// wait reaps the shell and ends what it left running: else a process in the
// background would keep the output open. The counters are read while the group
// that has them is still there.
func (c *Console) wait() {
	defer close(c.done)
	if err := c.main.ended(); err != nil {
		c.log.Warn("cannot wait for the command by its descriptor", "error", err)
		c.main.watch(nil)
	}
	status, _ := c.main.reap() // a child of ours
	e := app.Exit{At: time.Now()}
	e.Ran = e.At.Sub(c.started)
	left := errors.Join(c.group.Kill(), c.group.WaitEmpty(killTimeout))
	m, merr := c.group.Memory()
	if left = errors.Join(left, merr, c.group.Remove(), c.network.Close(), c.sockets.Close()); left != nil {
		c.log.Error("cannot clean up after a console command", "error", left)
	}
	e.Code, e.Signal = exitCode(status)
	// Whichever process of the group it hit: it is one application's RAM.
	e.OOM = m.Kills > c.before.Kills && m.OOMs > c.before.OOMs
	e.HostOOM = m.Kills > c.before.Kills && m.OOMs == c.before.OOMs
	e.PeakBytes, e.LimitMB = m.Peak, app.MB(m.Limit>>20)
	c.shell = app.Shell{Online: c.in != nil, Exit: e}
	if c.in != nil {
		c.shell.Program = c.programsEnd()
	}
	if c.session != nil {
		c.session.over()
		return
	}
	c.shell.Stdout, c.shell.Stderr = c.out.finish(), c.errs.finish()
}

// programsEnd waits for the end of a program that is ending too, and returns it;
// nil when it runs on. A kill for RAM that takes the whole group may have taken
// the command first.
func (c *Console) programsEnd() *app.Exit {
	switch e := c.shell.Exit; {
	case c.in.consoles.leave(c):
		<-c.in.done
	case e.OOM && c.in.spec.OOMGroup:
		select {
		case <-c.in.done:
		case <-time.After(killTimeout):
			return nil
		}
	default:
		return nil
	}
	program := c.in.exit
	return &program
}

// consoles are the commands in the group of a run. The run ends them, and
// waits for them before it removes its group.
type consoles struct {
	mu   sync.Mutex
	busy int // commands that entered and have not left
	all  map[*Console]struct{}
	none chan struct{} // nil until closing; then closed when all have left
}

// enter announces a command that is about to be started; leave is its end.
func (c *consoles) enter() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.none != nil {
		return app.Errorf(app.Conflict, "the application's program is ending; try again in a moment")
	}
	c.busy++
	return nil
}

// add makes a command known that was started; one that the end of the run
// missed meanwhile is ended here.
func (c *consoles) add(console *Console) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.all == nil {
		c.all = map[*Console]struct{}{}
	}
	c.all[console] = struct{}{}
	if c.none != nil {
		console.End()
	}
}

// leave is called once, when nothing of the command is left. It reports whether
// the run is ending too.
func (c *consoles) leave(console *Console) (closing bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.all, console)
	c.busy--
	c.settle()
	return c.none != nil
}

// close lets no more commands in. The channel is closed when all have left.
func (c *consoles) close() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.none == nil {
		c.none = make(chan struct{})
		c.settle()
	}
	return c.none
}

// end ends those there are, lets no more in and waits until all have left.
func (c *consoles) end() {
	none := c.close()
	c.mu.Lock()
	for console := range c.all {
		console.End()
	}
	c.mu.Unlock()
	<-none
}

// settle tells when the last has left. The caller holds mu.
func (c *consoles) settle() {
	if c.none != nil && c.busy == 0 {
		close(c.none)
	}
}

// stop lets no more commands in, and asks those there are to end. A shell at a terminal
// ignores SIGTERM; that its terminal is gone it takes as that of all it has started.
func (c *consoles) stop() error {
	c.close()
	c.mu.Lock()
	defer c.mu.Unlock()
	var errs []error
	for console := range c.all {
		err := console.group.Signal(syscall.SIGTERM)
		if console.session != nil && console.session.terminal != nil {
			err = errors.Join(err, console.group.Signal(syscall.SIGHUP))
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("a console command: %w", err))
		}
	}
	return errors.Join(errs...)
}
