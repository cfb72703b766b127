package host

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"berth/app"
)

// deploying is by how much the limit of the kernel is wider while an
// application is deployed: beside its files there are the copy that is built
// in, the originals that a commit may need back, and what a build keeps in its
// temporary directory. What comes of it is measured before it goes live.
const deploying = 3

const (
	// MeasureEvery is how often the files of what runs are measured where
	// nothing but that holds applications to their disk space.
	MeasureEvery = 5 * time.Minute
	// auditEvery is the same where the kernel does. A program can take files of
	// its own out of their project (ioctl FS_IOC_FSSETXATTR, which asks for no
	// right but to the file).
	auditEvery = time.Hour
	// checkEvery is how often the free space of the disk is checked; when it
	// runs short, everything is measured at once, but not more often than
	// every urgentEvery.
	checkEvery  = 15 * time.Second
	urgentEvery = time.Minute
	// buildCheckEvery is the same for a build, which ends when the disk runs short.
	buildCheckEvery = 5 * time.Second
	// gentle is how many times as long as it measured the patrol rests.
	gentle = 4
)

// disk holds applications to their disk space.
type disk struct {
	Quotas
	most app.MB // of one application; 0 for no limit
	log  *slog.Logger
}

// limit sets the kernel's limit of an application to so many times the disk
// space it may have. That it cannot keeps nothing from running: the patrol
// measures too.
func (d disk) limit(ctx context.Context, a app.App, times int64) {
	// As long as it takes: a half is worse.
	if err := d.set(context.WithoutCancel(ctx), a, times*d.most.Bytes()); err != nil {
		d.log.Error("cannot limit the disk space of an application", "app", a.ID, "error", err)
	}
}

// set sets the kernel's limit, and charges what was there before the quotas.
func (d disk) set(ctx context.Context, a app.App, bytes int64) error {
	return errors.Join(d.Mark(ctx, a.ID, a.UID), d.SetLimit(a.UID, bytes))
}

// over reports whether an application may not have so much of the disk: bytes,
// files, or directories that nobody can measure.
func (d disk) over(s app.Space) bool {
	return d.most > 0 && (s.Bytes > d.most.Bytes() || s.Entries > d.Entries() || s.Deep)
}

// crowded reports whether what is over is over by the number of files alone.
func (d disk) crowded(s app.Space) bool { return s.Bytes <= d.most.Bytes() && !s.Deep }

// wide is a size for people, in MB and never less than it is: beside a limit it
// is to show that it is more.
func wide(bytes int64) app.MB { return app.MB((bytes + 1<<20 - 1) >> 20) }

// fits refuses a stage with which the application would take more of the disk
// than it may.
func (d disk) fits(ctx context.Context, stage app.Stage, id app.ID) error {
	return d.deployable(func() (app.Space, error) { return d.After(ctx, stage, id) })
}

// deployable refuses code with which the application would have the size that measure
// returns, if that is more than it may have.
func (d disk) deployable(measure func() (app.Space, error)) error {
	if d.most == 0 {
		return nil
	}
	s, err := measure()
	switch {
	case err != nil || !d.over(s):
		return err
	case s.Deep:
		return app.Errorf(app.Unusable, "cannot deploy the application: its directories would be nested too deep to be measured; make them fewer")
	case d.crowded(s):
		return app.Errorf(app.Unusable,
			"cannot deploy the application: it would have %d files and directories, and may have %d; make them fewer, or ask the owner of this host to raise upload.max_files",
			s.Entries, d.Entries())
	}
	return app.Errorf(app.Unusable,
		"cannot deploy the application: it would take %d MB of disk, and may take %d MB; make it smaller, or ask the owner of this host to raise apps.disk",
		wide(s.Bytes), d.most)
}

// startable refuses to start what takes more than it may.
func (d disk) startable(s app.Space) error {
	switch {
	case !d.over(s):
		return nil
	case s.Deep:
		return app.Errorf(app.Unusable, "cannot start the application: its directories are nested too deep to be measured; remove some with a console command")
	case d.crowded(s):
		return app.Errorf(app.Unusable,
			"cannot start the application: it has %d files and directories, and may have %d; remove some with a console command, or ask the owner of this host to raise upload.max_files",
			s.Entries, d.Entries())
	}
	return app.Errorf(app.Unusable,
		"cannot start the application: its files take %d MB of disk, and may take %d MB; remove some with a console command, or ask the owner of this host to raise apps.disk",
		wide(s.Bytes), d.most)
}

// stopping is why a program is stopped whose files take more than they may.
func (d disk) stopping(s app.Space) string {
	switch {
	case s.Deep:
		return "its directories are nested too deep to be measured"
	case d.crowded(s):
		return fmt.Sprintf("it has %d files and directories, and may have %d", s.Entries, d.Entries())
	}
	return fmt.Sprintf("its files take %d MB of disk, and may take %d MB", wide(s.Bytes), d.most)
}

// whileSpace returns a context that ends, with the refusal as its cause, when
// the disk runs short. The function MUST be called.
func (d disk) whileSpace(ctx context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	var checking sync.WaitGroup
	checking.Go(func() {
		for sleep(ctx, buildCheckEvery) {
			if err := d.CheckFree("finish the build"); err != nil {
				cancel(err)
				return
			}
		}
	})
	return ctx, func() {
		cancel(nil)
		checking.Wait()
	}
}

// diskUse is the last known size of an application's files, measured by whoever asks.
type diskUse struct {
	trees Trees
	id    app.ID
	view  *atomic.Pointer[view]
	log   *slog.Logger

	mu    sync.Mutex // one measures, the others wait for it
	space app.Space
	at    time.Time // zero: never
}

// get returns the size, and measures unless what is known will do.
func (d *diskUse) get(ctx context.Context, will func(s app.Space, at time.Time) bool) (app.Space, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.at.IsZero() && will(d.space, d.at) {
		return d.space, nil
	}
	s, err := d.measure(ctx)
	if err != nil {
		return app.Space{}, err
	}
	d.space, d.at = s, time.Now()
	return s, nil
}

// known is the size when it was last measured; false where it was not, or is just being.
func (d *diskUse) known() (app.Space, bool) {
	if !d.mu.TryLock() {
		return app.Space{}, false
	}
	defer d.mu.Unlock()
	return d.space, !d.at.IsZero()
}

// now measures.
func (d *diskUse) now(ctx context.Context) (app.Space, error) {
	return d.get(ctx, func(app.Space, time.Time) bool { return false })
}

// recent is the size, or what it was a moment ago.
func (d *diskUse) recent(ctx context.Context) (app.Space, error) {
	return d.get(ctx, func(_ app.Space, at time.Time) bool { return time.Since(at) < diskAge })
}

// add counts what was written.
func (d *diskUse) add(s app.Space) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.space = d.space.Plus(s)
}

// measure walks the tree, and adds what the program has open and removed.
func (d *diskUse) measure(ctx context.Context) (app.Space, error) {
	space, err := d.trees.Used(ctx, d.id)
	if err != nil {
		return app.Space{}, err
	}
	if v := d.view.Load(); v.Running && v.run != nil {
		held, err := v.run.Held(ctx)
		switch {
		case err == nil:
			space = space.Plus(held)
		case ctx.Err() != nil:
			return app.Space{}, err
		case d.view.Load().run == v.run: // it has not just ended
			d.log.Warn("cannot look for removed files that the program has open", "error", err)
		}
	}
	return space, nil
}

// checkDisk refuses to start what is known to take more than it may, or was not
// measured yet.
func (u *unit) checkDisk() error {
	if err := u.h.startable(u.owner); err != nil || u.h.disk.most == 0 {
		return err
	}
	s, err := u.disk.get(context.Background(), func(s app.Space, _ time.Time) bool { return !u.h.disk.over(s) })
	if err != nil {
		return err
	}
	return u.h.disk.startable(s)
}

// overfull stops a program whose files take more disk space than they may. It
// stays stopped: started again it would go on writing. A deployment is judged
// by itself.
func (u *unit) overfull(s app.Space) {
	u.evict(u.h.disk.stopping(s))
}

// evict stops a program for what is on the disk.
func (u *unit) evict(why string) {
	if u.closing != stay || u.deploy != nil || u.run == nil && u.state != app.Waiting || u.state == app.Stopping {
		return
	}
	u.log.Warn("stopping a program for its disk space", "why", why)
	text := why + ": it is stopped and stays offline; remove some with a console command, then start it"
	u.h.Logs.Note(u.id, text)
	u.logEvent(app.HistoryEvent{Kind: app.HistoryDisk, Text: text})
	_ = u.want(app.WantStopped) // logged
	if u.state == app.Waiting {
		u.recovered()
		u.enter(app.Stopped, 0)
		return
	}
	u.stopRun(app.Textf("the application was stopped: it takes too much disk space"))
}
