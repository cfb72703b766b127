package host

import (
	"context"
	"fmt"
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
	// lookEvery is how often the free space of the disk is looked at; when it
	// runs short, everything is measured at once, but not more often than
	// every urgentEvery.
	lookEvery   = 15 * time.Second
	urgentEvery = time.Minute
	// roomEvery is the same for a build, which ends when the disk runs short.
	roomEvery = 5 * time.Second
	// gentle is how many times as long as it measured the patrol rests.
	gentle = 4
)

// bound sets the kernel's limit of an application to so many times the disk
// space it may have. That it cannot keeps nothing from running: the patrol
// measures too.
func (h *Host) bound(ctx context.Context, a app.App, times int64) {
	// As long as it takes: a half is worse.
	if err := h.Quotas.Limit(context.WithoutCancel(ctx), a.ID, a.UID, times*h.DiskLimit.Bytes()); err != nil {
		h.Log.Error("cannot limit the disk space of an application", "app", a.ID, "error", err)
	}
}

// over reports whether an application may not have so much of the disk: bytes,
// files, or directories that nobody can measure.
func (h *Host) over(s app.Space) bool {
	return h.DiskLimit > 0 && (s.Bytes > h.DiskLimit.Bytes() || s.Entries > h.Quotas.Entries() || s.Deep)
}

// crowded reports whether what is over is over by the number of files alone.
func (h *Host) crowded(s app.Space) bool { return s.Bytes <= h.DiskLimit.Bytes() && !s.Deep }

// wide is a size for people, in MB and never less than it is: beside a limit it
// is to show that it is more.
func wide(bytes int64) app.MB { return app.MB((bytes + 1<<20 - 1) >> 20) }

// fits refuses a stage with which the application would take more of the disk
// than it may.
func (h *Host) fits(ctx context.Context, stage app.Stage, id app.ID) error {
	if h.DiskLimit == 0 {
		return nil
	}
	s, err := h.Quotas.After(ctx, stage, id)
	if err == nil && h.over(s) {
		err = h.tooWide(s)
	}
	return err
}

func (h *Host) tooWide(s app.Space) error {
	switch {
	case s.Deep:
		return app.Errorf(app.Unusable, "cannot deploy the application: its directories would be nested too deep to be measured; make them fewer")
	case h.crowded(s):
		return app.Errorf(app.Unusable,
			"cannot deploy the application: it would have %d files and directories, and may have %d; make them fewer, or ask the owner of this host to raise upload.max_files",
			s.Entries, h.Quotas.Entries())
	}
	return app.Errorf(app.Unusable,
		"cannot deploy the application: it would take %d MB of disk, and may take %d MB; make it smaller, or ask the owner of this host to raise apps.disk",
		wide(s.Bytes), h.DiskLimit)
}

// grown is fits for a first deployment, whose build was in the live tree.
func (u *unit) grown(ctx context.Context) error {
	if u.h.DiskLimit == 0 {
		return nil
	}
	s, err := u.measureDisk(ctx)
	if err == nil && u.h.over(s) {
		err = u.h.tooWide(s)
	}
	return err
}

// roomy refuses to start what is known to take more than it may, or was not
// measured yet.
func (u *unit) roomy() error {
	if u.h.DiskLimit == 0 {
		return nil
	}
	u.disk.mu.Lock()
	defer u.disk.mu.Unlock()
	if !u.disk.at.IsZero() && !u.h.over(u.disk.space) {
		return nil
	}
	s, err := u.walkDisk(context.Background())
	switch {
	case err != nil:
		return err
	case !u.h.over(s):
		return nil
	case s.Deep:
		return app.Errorf(app.Unusable, "cannot start the application: its directories are nested too deep to be measured; remove some with a console command")
	case u.h.crowded(s):
		return app.Errorf(app.Unusable,
			"cannot start the application: it has %d files and directories, and may have %d; remove some with a console command, or ask the owner of this host to raise upload.max_files",
			s.Entries, u.h.Quotas.Entries())
	}
	return app.Errorf(app.Unusable,
		"cannot start the application: its files take %d MB of disk, and may take %d MB; remove some with a console command, or ask the owner of this host to raise apps.disk",
		wide(s.Bytes), u.h.DiskLimit)
}

// measureDisk measures now.
func (u *unit) measureDisk(ctx context.Context) (app.Space, error) {
	u.disk.mu.Lock()
	defer u.disk.mu.Unlock()
	return u.walkDisk(ctx)
}

// whileRoom returns a context that ends, with the refusal as its cause, when
// the disk runs short. The function MUST be called.
func (h *Host) whileRoom(ctx context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		ticker := time.NewTicker(roomEvery)
		defer ticker.Stop()
		for {
			select {
			case <-ticker.C:
			case <-ctx.Done():
				return
			}
			if err := h.Quotas.Room("finish the build"); err != nil {
				cancel(err)
				return
			}
		}
	}()
	return ctx, func() {
		cancel(nil)
		<-done
	}
}

// Patrol measures the files of what runs until ctx ends, one application after
// the other and not all the time, and stops those that take more disk space
// than they may. What is offline cannot grow and is not measured. It returns at
// once when there is no limit.
func (h *Host) Patrol(ctx context.Context) {
	if h.DiskLimit == 0 {
		return
	}
	every := MeasureEvery
	if h.Quotas.Enforced() {
		every = auditEvery
	}
	ticker := time.NewTicker(lookEvery)
	defer ticker.Stop()
	last := time.Now()
	for {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
		since := time.Since(last)
		if since >= every || since >= urgentEvery && h.Quotas.Room("go on") != nil {
			last = time.Now()
			h.round(ctx)
		}
	}
}

// round measures everything that runs once.
func (h *Host) round(ctx context.Context) {
	h.mu.RLock()
	units := h.all()
	h.mu.RUnlock()
	for _, u := range units {
		v := u.view.Load()
		if !v.Running && v.State != app.Waiting {
			continue
		}
		begin := time.Now()
		s, err := u.measureDisk(ctx)
		switch {
		case ctx.Err() != nil:
			return
		case app.KindOf(err) == app.NotFound: // deleted meanwhile
		case err != nil:
			u.log.Warn("cannot measure the application's files", "error", err)
		case h.over(s):
			_ = u.do(ctx, u.overfull(s)) // told in its log; of a unit that has ended, nothing
		}
		rest := time.NewTimer(gentle * time.Since(begin))
		select {
		case <-rest.C:
		case <-ctx.Done():
			rest.Stop()
			return
		}
	}
}

// overfull stops a program whose files take more disk space than they may. It
// stays stopped: started again it would go on writing. A deployment is judged
// by itself.
func (u *unit) overfull(s app.Space) func(func(error)) {
	return func(reply func(error)) {
		defer reply(nil)
		if u.closing != open || u.deploy != nil {
			return
		}
		switch u.state {
		case app.Starting, app.Online:
			u.noteOverfull(s)
			u.halt(app.Textf("the application was stopped: it takes too much disk space"), func() {})
		case app.Waiting:
			u.noteOverfull(s)
			u.attempt = 0
			u.enter(app.Stopped, 0)
		case app.Stopped, app.Stopping, app.Preparing:
		}
	}
}

func (u *unit) noteOverfull(s app.Space) {
	u.log.Warn("stopping a program that takes too much disk space", "mb", wide(s.Bytes), "limit", u.h.DiskLimit,
		"files", s.Entries, "most", u.h.Quotas.Entries(), "deep", s.Deep)
	said := fmt.Sprintf("its files take %d MB of disk, and may take %d MB", wide(s.Bytes), u.h.DiskLimit)
	switch {
	case s.Deep:
		said = "its directories are nested too deep to be measured"
	case u.h.crowded(s):
		said = fmt.Sprintf("it has %d files and directories, and may have %d", s.Entries, u.h.Quotas.Entries())
	}
	u.h.Logs.Note(u.id, said+": it is stopped and stays offline; remove some with a console command, then start it")
	_ = u.want(app.WantStopped) // told in the log
}
