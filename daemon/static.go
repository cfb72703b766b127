package daemon

import (
	"context"
	"errors"
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

// still is a site of files that is online: nothing runs, so it ends when it is
// asked to, and not before the console command that was started beside it.
type still struct {
	starter *starter
	program app.Program
	began   time.Time
	stopped chan struct{}

	mu      sync.Mutex
	ended   bool
	command host.Command // the last one; nil when there was none
}

// still starts a site of files, or says that it has no first page.
func (s *starter) still(p app.Program) (host.Instance, error) {
	switch err := staticSite(s.trees, p.App, p.Code).Ready(); {
	case errors.Is(err, os.ErrNotExist):
		return nil, app.Errorf(app.Unusable, "cannot find MAIN=%q in the application: BUILD has not made it", p.Code.Main)
	case err != nil:
		return nil, err
	}
	return &still{starter: s, program: p, began: time.Now(), stopped: make(chan struct{})}, nil
}

// Wait implements host.Instance.
func (i *still) Wait() app.Exit {
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
func (i *still) Stop(time.Duration) {
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
func (i *still) Leave() bool {
	i.mu.Lock()
	over := i.ended
	i.mu.Unlock()
	i.Stop(0)
	return !over
}

// Ended implements host.Instance.
func (i *still) Ended() bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.ended
}

// Busy implements host.Instance.
func (i *still) Busy() bool { return false }

// SetMemory implements host.Instance: from the next console command on.
func (i *still) SetMemory(ram app.MB) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.program.RAM, i.program.Share = ram, ram
	return nil
}

// Usage implements host.Instance.
func (i *still) Usage(context.Context) (app.Usage, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	return app.Usage{LimitBytes: i.program.RAM.Bytes()}, nil
}

// Shell implements host.Instance.
func (i *still) Shell(argv []string) (host.Command, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.ended {
		return nil, app.Errorf(app.Conflict, "the application is being stopped; try again in a moment")
	}
	p := i.program
	p.Argv = argv
	c, err := i.starter.shell(context.Background(), p)
	if err == nil {
		i.command = c
	}
	return c, err
}

// Counts implements host.Limited: nothing runs.
func (i *still) Counts() (app.Counts, error) { return app.Counts{}, nil }

// Listens implements host.Instance: berth itself answers.
func (i *still) Listens() (app.Listening, error) { return app.Listening{}, nil }

// Held implements host.Instance.
func (i *still) Held(context.Context) (app.Space, error) { return app.Space{}, nil }
