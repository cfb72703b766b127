package daemon

import (
	"context"
	"os"
	"path/filepath"
	"time"

	"berth/app"
)

// savedWord stands between the name of the database and the moment of a copy that the
// daemon made of it when its file was gone.
const savedWord = ".saved-"

// watchEvery is how often the daemon looks whether its database is where it was.
const watchEvery = 5 * time.Second

// changes refuses what is to change something while nobody would find it after the
// next start.
func (d *daemon) changes() error {
	if d.db.Moved() == nil {
		return nil
	}
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
	away, saved := false, ""
	for {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
		moved := d.db.Moved()
		switch {
		case moved == nil && away:
			d.log.Info("the database is back; changes are taken again", "file", file)
			_ = os.Remove(saved) // it is of a moment before, and nobody should take it for more
			away, saved = false, ""
		case moved != nil && !away:
			away = true
			d.log.Error("the database was removed or replaced while berth serves; changes are refused until it is back, or berth has started again", "file", file, "error", moved)
		}
		if away && saved == "" {
			saved = d.saveDatabase(ctx, file)
		}
	}
}

// saveDatabase copies what the open database holds and returns the name of the copy, ""
// when that failed.
func (d *daemon) saveDatabase(ctx context.Context, file string) string {
	to := file + savedWord + time.Now().UTC().Format("20060102T150405Z")
	if err := d.db.Copy(ctx, to); err != nil {
		if ctx.Err() == nil {
			d.log.Error("cannot save what the database held; trying again", "error", err)
		}
		return ""
	}
	d.log.Warn("what the database held is saved; put it back and start berth again", "copy", to, "as", file)
	return to
}
