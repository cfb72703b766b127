package daemon

import (
	"context"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"berth/app"
	"berth/db"
)

// savedWord stands between the name of the database and the moment of a copy that the
// daemon made of it when its file was gone.
const savedWord = ".saved-"

// absence is what changes and watchDatabase know of a database that was removed or
// replaced. It is safe for concurrent use.
type absence struct {
	noticed  chan struct{} // wakes the watch; holds one
	away     atomic.Bool   // as the watch knows it
	returned atomic.Bool   // a change was let through since
}

// notice wakes the watch, which looks by itself only now and then: an idle daemon
// sleeps.
func (a *absence) notice() {
	select {
	case a.noticed <- struct{}{}:
	default:
	}
}

// changes refuses what is to change something while nobody would find it after the
// next start.
func (d *daemon) changes() error {
	if d.db.Moved() == nil {
		if d.absence.away.Load() {
			d.absence.returned.Store(true)
			d.absence.notice()
		}
		return nil
	}
	d.absence.notice()
	return app.Errorf(app.Unavailable, "Nothing can be changed now: %s.", app.Words(app.DatabaseMoved))
}

// watchDatabase tells when the database's file was removed or replaced, and when it is
// back, until ctx ends. Every change looks by itself (db.ErrMoved) and is refused
// meanwhile: nobody would find it after the next start. What is stored is in the open
// file alone then, so a copy of it is made.
func (d *daemon) watchDatabase(ctx context.Context, every time.Duration) {
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	file := filepath.Join(d.settings.DataDir, DatabaseName)
	away, saved := &d.absence.away, ""
	for {
		select {
		case <-ticker.C:
		case <-d.absence.noticed:
		case <-ctx.Done():
			return
		}
		moved := d.db.Moved()
		if back := d.absence.returned.Swap(false); away.Load() && (back || moved == nil) {
			d.log.Info("the database is back; changes are taken again", "file", file)
			_ = os.Remove(saved) // it is of a moment before, and nobody should take it for more
			saved = ""
			away.Store(false)
		}
		if moved != nil && away.CompareAndSwap(false, true) {
			d.log.Error("the database was removed or replaced while berth serves; changes are refused until it is back, or berth has started again", "file", file, "error", moved)
		}
		if away.Load() && saved == "" {
			saved = d.saveDatabase(ctx, file)
		}
	}
}

// saveDatabase copies what the open database holds and returns the name of the copy, ""
// when that failed.
func (d *daemon) saveDatabase(ctx context.Context, file string) string {
	parts, _ := filepath.Glob(file + savedWord + "*" + db.PartWord)
	for _, part := range parts { // of a daemon that was killed
		_ = os.Remove(part)
	}
	to := file + savedWord + time.Now().UTC().Format("20060102T150405Z")
	if err := d.db.Copy(ctx, to); err != nil {
		if ctx.Err() == nil {
			d.log.Error("cannot save what the database held; trying again", "error", err)
		}
		return ""
	}
	d.log.Warn("what the database held is saved; stop berth, put the copy in the place of the database, without the files -wal and -shm, and start berth again", "copy", to, "as", file)
	return to
}
