package daemon

import (
	"context"
	"os"
	"sync"
	"time"

	"berth/app"
	"berth/files"
	"berth/host"
	"berth/web/proxy"
)

// staticSite is the files of a site without a program. Its directory stands in
// one of root's alone; all below is reached through its descriptor.
func staticSite(trees *files.Store, id app.ID, c app.Code) *proxy.Static {
	return &proxy.Static{
		Open: func() (*os.Root, error) { return os.OpenRoot(trees.Dir(id)) },
		Main: c.Main, Built: c.Build != "",
	}
}

// staticInstance is a site of files that is online: nothing runs, so it ends when it is
// asked to, and not before the console command that was started beside it.
type staticInstance struct {
	launcher *launcher
	program  app.Program
	began    time.Time
	stopped  chan struct{}

	mu      sync.Mutex
	ended   bool
	command host.Command // the last one; nil when there was none
}

// Wait implements host.Instance.
func (i *staticInstance) Wait() app.Exit {
	<-i.stopped
	i.mu.Lock()
	c := i.command
	i.mu.Unlock()
	if c != nil {
		c.Wait()
	}
	now := time.Now()
	return app.Exit{At: now, Ran: now.Sub(i.began), LimitMB: i.program.RAM}
}

// Stop implements host.Instance.
func (i *staticInstance) Stop(time.Duration) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.ended {
		return
	}
	i.ended = true
	if i.command != nil {
		i.command.End()
	}
	close(i.stopped)
}

// Leave implements host.Instance: there is nothing to go on, and the next daemon
// starts it anew, for it is wanted.
func (i *staticInstance) Leave() bool {
	i.mu.Lock()
	over := i.ended
	i.mu.Unlock()
	i.Stop(0)
	return !over
}

// Ended implements host.Instance.
func (i *staticInstance) Ended() bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.ended
}

// Busy implements host.Instance.
func (i *staticInstance) Busy() bool { return false }

// SetMemory implements host.Instance: from the next console command on.
func (i *staticInstance) SetMemory(ram app.MB) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.program.RAM, i.program.Share = ram, ram
	return nil
}

// Usage implements host.Instance.
func (i *staticInstance) Usage(context.Context) (app.Usage, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	return app.Usage{LimitBytes: i.program.RAM.Bytes()}, nil
}

// Shell implements host.Instance.
func (i *staticInstance) Shell(argv []string) (host.Command, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.ended {
		return nil, app.Errorf(app.Conflict, "the application is being stopped; try again in a moment")
	}
	p := i.program
	p.Argv = argv
	c, err := i.launcher.shell(context.Background(), p)
	if err == nil {
		i.command = c
	}
	return c, err
}

// Counts implements host.Limited: nothing runs.
func (i *staticInstance) Counts() (app.Counts, error) { return app.Counts{}, nil }

// Listens implements host.Instance: berth itself answers.
func (i *staticInstance) Listens() (app.Listening, error) { return app.Listening{}, nil }

// Held implements host.Instance.
func (i *staticInstance) Held(context.Context) (app.Space, error) { return app.Space{}, nil }
