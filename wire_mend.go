package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"berth/db"
)

// lookEvery is how often the daemon looks whether its control groups are as it
// made them.
const lookEvery = 30 * time.Second

// mendGroups makes control groups again that somebody else took away, and looks
// every so often, until ctx ends. What it cannot mend is told once, until it changes.
func (d *daemon) mendGroups(ctx context.Context, every time.Duration) {
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	said := ""
	for {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
		missing, err := d.groups.Mend(int64(d.settings.Apps.PidsMax))
		if len(missing) > 0 {
			d.host.Bound(ctx)
		}
		text := ""
		switch {
		case err != nil:
			if text = fmt.Sprint(missing, err); text != said {
				d.log.Error("programs may run without limits: somebody else changed berth's control groups", "missing", missing, "error", err)
			}
		case len(missing) > 0:
			d.log.Warn("somebody else changed berth's control groups; they are as before", "missing", missing)
		}
		said = text
	}
}

// openRecords opens the database and reads from it, before anything that runs is
// touched: whoever cannot read what is to run must not end it.
func (d *daemon) openRecords(ctx context.Context) (err error) {
	dir := d.settings.DataDir
	if d.db, err = openDatabase(ctx, dir); err != nil {
		return err
	}
	d.undo = append(d.undo, d.db.Close)
	d.disk = newProber(dir)
	d.undo = append(d.undo, d.disk.wait)
	_, err = d.db.Apps(ctx)
	return cmp.Or(databaseProblem(dir, err), err)
}

// prober finds out whether a disk answers at all. It has one goroutine at a time,
// which may hang as the disk does. It is safe for concurrent use.
type prober struct {
	try  func() // writes something
	mu   sync.Mutex
	done chan struct{} // of the last try
	work sync.WaitGroup
}

// newProber returns a prober of the disk of dir.
func newProber(dir string) *prober {
	p := &prober{try: func() { _ = touch(dir) }, done: make(chan struct{})}
	close(p.done)
	return p
}

// wait blocks until no try is under way.
func (p *prober) wait() error {
	p.work.Wait()
	return nil
}

// hangs reports whether a file cannot be written within a time. An error is an
// answer.
func (p *prober) hangs(within time.Duration) bool {
	p.mu.Lock()
	select {
	case <-p.done:
		p.done = nil
	default:
	}
	if p.done == nil {
		done := make(chan struct{})
		p.done = done
		p.work.Go(func() {
			defer close(done)
			p.try()
		})
	}
	done := p.done
	p.mu.Unlock()
	timer := time.NewTimer(within)
	defer timer.Stop()
	select {
	case <-done:
		return false
	case <-timer.C:
		return true
	}
}

// touch writes a file without a name to the disk of dir.
func touch(dir string) error {
	fd, err := unix.Open(dir, unix.O_TMPFILE|unix.O_WRONLY|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return err
	}
	_, err = unix.Write(fd, []byte{0})
	return errors.Join(err, unix.Fsync(fd), unix.Close(fd))
}

// databaseProblem says what is to be done when the database cannot be used, and
// returns nil when err is none of that. Programs run on in every case. A disk may
// come back while the service is started again and again; a file that is damaged
// waits for a person.
func databaseProblem(dir string, err error) error {
	file := filepath.Join(dir, databaseName)
	switch {
	case err == nil:
		return nil
	case db.Damaged(err):
		return &problem{
			exitConfig, fmt.Errorf("cannot use the database %s: it is damaged: %w", file, err),
			"Hint: programs that run go on; restore a backup into a new directory (berth backup restore), or put a copy in its place (" + databaseName + ".schema-*), without the files -wal and -shm; then start berth again.",
		}
	case db.Failed(err):
		return &problem{
			exitFailure, fmt.Errorf("cannot use the database %s: its disk reports errors: %w", file, err),
			"Hint: programs that run go on; look in dmesg for what happened to the disk. As a service berth tries again until it works.",
		}
	case db.Unopened(err):
		if errors.Is(err, os.ErrPermission) && os.Geteuid() != 0 {
			return nil // it is who asks, not the file
		}
		return &problem{
			exitFailure, fmt.Errorf("cannot use the database %s: it cannot be opened: %w", file, err),
			"Hint: programs that run go on; look at the file and its directory. As a service berth tries again until it works.",
		}
	}
	return nil
}
