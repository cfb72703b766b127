package host

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"berth/app"
)

// typed is a console command of the world. Its text is its script: "exit N
// after DURATION", or "wait" until somebody ends it. Any may begin with "slow",
// which takes a second to be killed, as a command that hangs in the kernel does,
// or with "held", whose output takes a second to be read after its end.
type typed struct {
	w     *world
	p     app.Program // of an offline application
	in    *instance   // nil when offline
	ended chan struct{}
	gone  chan struct{} // closed when nothing of it runs
	done  chan struct{} // and when its output was read
	shell app.Shell
	exec  *app.Exec // of a session
	open  bool      // its streams are
}

func (w *world) shell(_ context.Context, p app.Program, e *app.Exec) (Command, error) {
	if err := w.failing("Shell"); err != nil {
		return nil, err
	}
	return w.typed(p, nil, e), nil
}

// Shell implements Instance.
func (r *instance) Shell(argv []string, e *app.Exec) (Command, error) {
	if err := r.w.failing("Shell"); err != nil {
		return nil, err
	}
	p := r.p
	p.Argv = argv
	return r.w.typed(p, r, e), nil
}

func (w *world) typed(p app.Program, in *instance, e *app.Exec) *typed {
	w.mu.Lock()
	defer w.mu.Unlock()
	c := &typed{w: w, p: p, in: in, ended: make(chan struct{}, 8), gone: make(chan struct{}), done: make(chan struct{}), exec: e}
	for _, other := range w.commands {
		if other.p.App == p.App && !other.over() && (in == nil || other.in == nil || e == nil && other.exec == nil) {
			w.t.Errorf("a second console command of %s was started", p.App)
		}
	}
	w.commands = append(w.commands, c)
	go c.live()
	return c
}

func (c *typed) live() {
	defer close(c.done)
	begin := time.Now()
	script, slow := strings.CutPrefix(c.p.Argv[2], "slow ")
	script, held := strings.CutPrefix(script, "held ")
	var own <-chan time.Time
	var code int
	if f := strings.Fields(script); len(f) == 4 { // exit N after DURATION
		code, _ = strconv.Atoi(f[1])
		life, _ := time.ParseDuration(f[3])
		own = time.After(life)
	}
	var program <-chan struct{}
	if c.in != nil {
		program = c.in.done
	}
	c.shell = app.Shell{Online: c.in != nil, Exit: app.Exit{Code: 137, Signal: sigkill, LimitMB: 100}}
	select {
	case <-own:
		c.shell.Exit = app.Exit{Code: code}
	case <-program:
		e := c.in.exit
		c.shell.Program, c.shell.Exit.OOM = &e, e.OOM
	case <-c.ended:
		if slow {
			time.Sleep(time.Second)
		}
	}
	close(c.gone)
	if held {
		time.Sleep(time.Second)
	}
	c.shell.Exit.Ran = time.Since(begin)
	c.shell.Stdout.Text = fmt.Sprintf("%s as %d\n", script, c.p.UID)
}

func (c *typed) over() bool {
	select {
	case <-c.gone:
		return true
	default:
		return false
	}
}

func (c *typed) Wait() app.Shell { <-c.done; return c.shell }
func (c *typed) End()            { c.ended <- struct{}{} }

// Streams implements Command: nothing is read or written, but they must be closed.
func (c *typed) Streams() (app.Streams, func()) {
	if c.exec == nil {
		c.w.t.Error("somebody uses the streams of a console command")
	}
	c.open = true
	return app.Streams{Ended: c.done}, func() { c.open = false }
}

// checkNoConsole checks that the tree may change. The caller holds mu.
func (w *world) checkNoConsole(id app.ID) {
	for _, c := range w.commands {
		if c.p.App == id && c.in == nil && !c.over() {
			w.t.Errorf("the tree of %s was changed under a console command", id)
		}
	}
}

// awaitConsole returns when no command runs beside a program.
func (w *world) awaitConsole(in *instance) {
	w.mu.Lock()
	commands := slices.Clone(w.commands)
	w.mu.Unlock()
	for _, c := range commands {
		if c.in == in {
			<-c.gone
		}
	}
}

// closeConsoles checks that no command outlived the host. The caller holds mu.
func (w *world) closeConsoles() {
	for _, c := range w.commands {
		if !c.over() {
			w.t.Errorf("the console command %q of %s outlived the host", c.p.Argv[2], c.p.App)
		}
		if c.open {
			w.t.Errorf("the streams of %q are open", c.p.Argv[2])
		}
	}
	for _, s := range []*seats{&w.host.consoles, &w.host.sessions} {
		if s.taken > 0 || len(s.by) > 0 {
			w.t.Errorf("seats are left taken: %d, %v", s.taken, s.by)
		}
	}
	for id := range w.host.capacity.running {
		w.t.Errorf("memory is left taken by %q", id)
	}
}

// console runs a command; the channel gets what came of it.
type said struct {
	app.Shell
	err error
}

func (w *world) console(ctx context.Context, id app.ID, script string) <-chan said {
	done := make(chan said, 1)
	go func() {
		s, err := w.host.Console(ctx, owner, id, script)
		done <- said{s, err}
	}()
	return done
}
