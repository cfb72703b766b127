package daemon

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"berth/app"
	"berth/app/exit"
	"berth/daemon/mover"
	"berth/daemon/settings"
	"berth/db"
	"berth/files"
	"berth/files/bundle"
	"berth/host/watch/metrics"
	"berth/proc/logs"
	"berth/proc/sandbox"
	"berth/web/proxy"
)

// DatabaseName is the file in the data directory that the daemon and the
// commands share.
const DatabaseName = "berth.db"

// OpenDatabase opens the database in dir for a command of the host. It makes neither:
// who names the wrong directory is to hear of it, and what was there and is gone must
// not be taken for what never was.
func OpenDatabase(ctx context.Context, dir string, keys ...string) (*db.DB, error) {
	anew, err := neverMade(ctx, dir)
	if err != nil {
		return nil, err
	}
	if anew {
		return nil, exit.NewProblem(exit.NotFound, fmt.Errorf("cannot find a database in %s: berth has not been started there yet", dir),
			"Hint: start berth first (berth install --now, or berth serve), or name its directory with --data-dir.")
	}
	return openDatabase(ctx, dir, keys)
}

// MakeDatabase opens the database in dir. In an empty directory, or where there is
// none, it makes what is missing: anybody may pass through the directory, to files
// that are their own, and nobody may list it. It refuses to make a database beside
// what berth left of another one, which would belong to nobody.
func MakeDatabase(ctx context.Context, dir string, keys ...string) (*db.DB, error) {
	if err := MakeDataDir(dir); err != nil {
		return nil, openProblem(dir, err)
	}
	if _, err := neverMade(ctx, dir); err != nil {
		return nil, err
	}
	return openDatabase(ctx, dir, keys)
}

// neverMade reports whether dir never had a database. It refuses a directory that has
// lost its own, or in which a restore was cut short.
func neverMade(ctx context.Context, dir string) (bool, error) {
	if err := unfinishedProblem(dir); err != nil {
		return false, err
	}
	anew, err := db.New(ctx, filepath.Join(dir, DatabaseName))
	if err != nil {
		return false, openProblem(dir, err)
	}
	if anew {
		err = goneProblem(dir)
	}
	return anew, err
}

// unfinishedProblem refuses a directory in which a restore was cut short.
func unfinishedProblem(dir string) error {
	if _, err := os.Lstat(filepath.Join(dir, UnfinishedName)); err != nil {
		return nil
	}
	return exit.NewProblem(exit.Config, fmt.Errorf("cannot use the data directory %s: a restore into it was cut short", dir),
		"Hint: empty the directory and restore again.")
}

func openDatabase(ctx context.Context, dir string, keys []string) (*db.DB, error) {
	d, err := db.Open(ctx, filepath.Join(dir, DatabaseName), time.Now)
	if err != nil {
		return nil, openProblem(dir, err)
	}
	d.UseKeys(Keys(dir, keys...))
	return d, nil
}

// OpenCurrent opens the database in dir if it is there and of this berth's schema; else it
// returns nil. It changes nothing.
func OpenCurrent(ctx context.Context, dir string, keys ...string) (*db.DB, error) {
	file := filepath.Join(dir, DatabaseName)
	if current, err := db.Current(ctx, file); err != nil || !current {
		return nil, err
	}
	d, err := db.Open(ctx, file, time.Now)
	if err == nil {
		d.UseKeys(Keys(dir, keys...))
	}
	return d, err
}

// openProblem says what is to be done when a database cannot be opened. It is nil where
// err is.
func openProblem(dir string, err error) error {
	if refused := DiskProblem(dir, err); refused != nil {
		return refused
	}
	if errors.Is(err, db.ErrNewer) {
		return exit.NewProblem(exit.Config, err,
			"Hint: install that berth again, or stop the daemon and put the copy from before its migration ("+DatabaseName+".schema-N) in the place of "+DatabaseName+".")
	}
	if refused := databaseProblem(dir, err); refused != nil {
		return refused
	}
	if errors.Is(err, fs.ErrPermission) {
		return exit.NewProblem(exit.Permission, fmt.Errorf("cannot use the data directory %s: permission denied", dir),
			"Hint: run the command as root, or name another directory with --data-dir.")
	}
	return err
}

// goneProblem refuses a directory that has lost its database: with a new one, all
// that is in it would belong to nobody. It returns nil for one that berth has left
// nothing in.
func goneProblem(dir string) error {
	found := remains(dir)
	if found == "" {
		return nil
	}
	return exit.NewProblem(exit.Config, fmt.Errorf("cannot use the data directory %s: its database %s is gone, and %s is there", dir, DatabaseName, found),
		"Hint: programs that run go on; put "+DatabaseName+" back with its own files -wal and -shm, or a copy ("+DatabaseName+".saved-*, "+DatabaseName+".schema-*) without these two, or restore a backup into a new directory (berth backup restore). To begin anew, empty the directory.")
}

// remains names something in dir that only a berth with a database has made there,
// "" for nothing.
func remains(dir string) string {
	file := filepath.Join(dir, DatabaseName)
	names := append(files.Areas(), "logs", "metrics")
	if _, err := os.Lstat(file); err != nil { // else they are those of a start that was cut short
		names = append(names, DatabaseName+"-wal", DatabaseName+"-shm")
	}
	for _, name := range names {
		if _, err := os.Lstat(filepath.Join(dir, name)); err == nil {
			return name
		}
	}
	list, err := os.ReadDir(dir)
	if err != nil {
		return ""
	}
	for _, e := range list {
		if strings.HasPrefix(e.Name(), DatabaseName+".schema-") || strings.HasPrefix(e.Name(), DatabaseName+savedWord) {
			return e.Name()
		}
	}
	return ""
}

// MakeDataDir makes the data directory, if there is none: anybody may pass through
// it, to files that are their own, and nobody may list it.
func MakeDataDir(dir string) error {
	const mode = 0o711
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		return fmt.Errorf("cannot make the data directory: %w", err)
	}
	err := os.Mkdir(dir, mode)
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	if err == nil {
		err = os.Chmod(dir, mode) // the umask may have taken more
	}
	if err != nil {
		return fmt.Errorf("cannot make the data directory: %w", err)
	}
	return nil
}

// UnfinishedName is there while a backup is restored into a data directory: all
// it holds is in there until everything is whole.
const UnfinishedName = "restore.unfinished"

// DiskProblem says what is to be done when a data directory cannot be opened
// for its disk, and returns nil when that is not why. Room may be made while the service
// is started again and again; a read-only disk waits for a person.
func DiskProblem(dir string, err error) error {
	code, why, hint := exit.Failure, "", "Hint: make room on it, or name another directory with --data-dir."
	switch {
	case err == nil:
		return nil
	case errors.Is(err, unix.ENOSPC):
		why = "its disk is full, and a start needs about 100 KB"
	case errors.Is(err, unix.EDQUOT):
		why = "its disk quota is used up, and a start needs about 100 KB"
	case errors.Is(err, unix.EROFS), errors.Is(unix.Access(dir, unix.W_OK), unix.EROFS):
		code, why = exit.Config, "its disk is read-only"
		hint = "Hint: look in dmesg for what happened to the disk, then mount -o remount,rw its file system, or name another directory with --data-dir."
	default:
		return nil
	}
	return exit.NewProblem(code, fmt.Errorf("cannot use the data directory %s: %s", dir, why), hint)
}

// startOf is where a data directory begins in the ranges of uids and ports.
func startOf(dataDir string) int {
	n, err := strconv.ParseUint(pathGroupName(dataDir), 16, 32)
	if err != nil {
		return 0
	}
	return int(n >> 1) // also on 32 bits
}

// data is what is open of the data directory.
type data struct {
	dir      string
	db       *db.DB
	audit    *db.Auditor
	watch    *databaseWatch
	disk     *files.Prober
	trees    *files.Store
	logs     *logs.Book
	accesses *proxy.AccessLogs
	held     logs.Holder // keeps what programs print while no daemon lives
	history  *metrics.Store
}

// openData opens the data directory. It reads from the database before anything that
// runs is touched: whoever cannot read what is to run must not end it.
func openData(ctx context.Context, s settings.Settings, h *handover, undo *closers, log *slog.Logger) (d *data, err error) {
	dir := s.DataDir
	defer func() { err = cmp.Or(DiskProblem(dir, err), err) }()
	if err := files.Reachable(dir); err != nil {
		return nil, err
	}
	if err := MakeDataDir(dir); err != nil {
		return nil, err
	}
	if err := h.lock(dir); err != nil {
		return nil, err
	}
	if err := files.ReleaseReserve(dir); err != nil {
		return nil, err
	}
	if err := mover.Settle(dir, log); err != nil {
		return nil, err
	}
	d = &data{dir: dir}
	if d.db, err = MakeDatabase(ctx, dir, s.KeyFiles()...); err != nil {
		return nil, err
	}
	undo.add(d.db.Close)
	if err := sealSecrets(ctx, d.db, Keys(dir, s.KeyFiles()...), log); err != nil {
		return nil, openProblem(dir, err)
	}
	d.disk = files.NewProber(func() { _ = files.Touch(dir) })
	undo.add(d.disk.Wait)
	if _, err := d.apps(ctx); err != nil {
		return nil, err
	}
	d.watch = &databaseWatch{db: d.db, file: filepath.Join(dir, DatabaseName), log: log, noticed: make(chan struct{}, 1)}
	d.audit = db.NewAuditor(d.db, s.Audit.Keep, s.Audit.Age, func(problem error) {
		log.Error("the audit log has a problem", "error", problem)
	})
	undo.add(orLog(d.audit.Close, "the audit log is incomplete", log))
	limits := bundle.Limits{MaxEntries: s.Upload.MaxFiles, MaxUnpacked: s.Upload.MaxUnpacked.Bytes()}
	if d.trees, err = files.Open(dir, limits); err != nil {
		return nil, err
	}
	undo.add(d.trees.Close)
	d.trees.SetFloor(s.Host.DiskFloor.Bytes())
	if err := d.openQuota(ctx, s.Apps.Disk, log); err != nil {
		return nil, err
	}
	d.logs = logs.NewBook(filepath.Join(dir, "logs"), logs.Options{
		MaxFile: s.Logs.MaxFile.Bytes(), Keep: s.Logs.Keep, Rate: int64(s.Logs.RateKB) << 10, Burst: 4 * int64(s.Logs.RateKB) << 10,
	}, log)
	var handed sockets
	if d.held, handed, err = openHolder(dir, log); err != nil {
		return nil, err
	}
	h.use(s, handed, log)
	d.logs.HoldWith(d.held)
	d.accesses = proxy.NewAccessLogs(filepath.Join(dir, "logs"), s.Logs.MaxFile.Bytes(), s.Logs.Keep, log)
	undo.add(d.held.Close, d.logs.Close, d.accesses.Close)
	if d.history, err = metrics.Open(filepath.Join(dir, "metrics")); err != nil {
		return nil, err
	}
	undo.add(orLog(d.history.Close, "the metric history has a gap", log))
	return d, nil
}

// orLog lets an end that fails, such as for a full disk, make no stop fail.
func orLog(end func() error, problem string, log *slog.Logger) func() error {
	return func() error {
		if err := end(); err != nil {
			log.Error(problem, "error", err)
		}
		return nil
	}
}

// openQuota finds out what holds applications to their disk space, and tells when that
// is nothing but measuring.
func (d *data) openQuota(ctx context.Context, limit app.MB, log *slog.Logger) error {
	err := insist(ctx, "cannot look for disk quotas yet", log, func() error { return d.trees.ProbeQuota(sandbox.Passes) })
	if err != nil {
		return err
	}
	if q := d.trees.Quota(); limit > 0 && !q.Enforced() {
		log.Warn("the disk space of applications is measured now and then, no more; berth doctor tells what would be better", "why", q.Why)
	}
	return nil
}

// apps returns the applications that the records have.
func (d *data) apps(ctx context.Context) ([]app.App, error) {
	apps, err := d.db.Apps.Apps(ctx)
	return apps, cmp.Or(databaseProblem(d.dir, err), err)
}

// databaseProblem says what is to be done when the database cannot be used, and
// returns nil when err is none of that. Programs run on in every case. A disk may
// come back while the service is started again and again; a file that is damaged
// waits for a person.
func databaseProblem(dir string, err error) error {
	file := filepath.Join(dir, DatabaseName)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, db.ErrMoved):
		return exit.NewProblem(exit.Config, fmt.Errorf("cannot use the database %s: a berth serves whose database files were removed or replaced: %w", file, err),
			"Hint: stop that berth (systemctl stop berth): it writes what it holds into the file that it has open; then start it again.")
	case errors.Is(err, db.ErrOtherLog), db.Damaged(err) && db.LeftLog(file):
		return exit.NewProblem(exit.Config, fmt.Errorf("cannot use the database %s with the file %s-wal beside it: %w", file, DatabaseName, err),
			"Hint: programs that run go on. If "+DatabaseName+" is a copy that somebody put there, move "+DatabaseName+"-wal and "+DatabaseName+"-shm, which are of another database, away, and start berth again. Else restore a backup into a new directory (berth backup restore).")
	case db.Damaged(err):
		return exit.NewProblem(exit.Config, fmt.Errorf("cannot use the database %s: it is damaged: %w", file, err),
			"Hint: programs that run go on; restore a backup into a new directory (berth backup restore), or put a copy in its place ("+DatabaseName+".schema-*), without the files -wal and -shm; then start berth again.")
	case db.Failed(err):
		return exit.NewProblem(exit.Failure, fmt.Errorf("cannot use the database %s: its disk reports errors: %w", file, err),
			"Hint: programs that run go on; look in dmesg for what happened to the disk. As a service berth tries again until it works.")
	case db.Unopened(err):
		if errors.Is(err, os.ErrPermission) && os.Geteuid() != 0 {
			return nil // it is who asks, not the file
		}
		return exit.NewProblem(exit.Failure, fmt.Errorf("cannot use the database %s: it cannot be opened: %w", file, err),
			"Hint: programs that run go on; look at the file and its directory. As a service berth tries again until it works.")
	}
	return nil
}

// savedWord stands between the name of the database and the moment of a copy that the
// daemon made of it when its file was gone.
const savedWord = ".saved-"

// databaseWatch looks whether the database was removed or replaced, and refuses changes
// meanwhile. It is safe for concurrent use.
type databaseWatch struct {
	db       *db.DB
	file     string
	log      *slog.Logger
	noticed  chan struct{} // wakes the watch; holds one
	away     atomic.Bool   // as the watch knows it
	returned atomic.Bool   // a change was let through since
}

// notice wakes the watch, which looks by itself only now and then: an idle daemon
// sleeps.
func (w *databaseWatch) notice() {
	select {
	case w.noticed <- struct{}{}:
	default:
	}
}

// changes refuses what is to change something while nobody would find it after the
// next start.
func (w *databaseWatch) changes() error {
	if w.db.Moved() == nil {
		if w.away.Load() {
			w.returned.Store(true)
			w.notice()
		}
		return nil
	}
	w.notice()
	return app.Errorf(app.Unavailable, "Nothing can be changed now: %s.", app.Words(app.DatabaseMoved))
}

// run tells when the database's file was removed or replaced, and when it is
// back, until ctx ends. Every change looks by itself (db.ErrMoved) and is refused
// meanwhile: nobody would find it after the next start. What is stored is in the open
// file alone then, so a copy of it is made.
func (w *databaseWatch) run(ctx context.Context, every time.Duration) {
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	saved := ""
	for {
		select {
		case <-ticker.C:
		case <-w.noticed:
		case <-ctx.Done():
			return
		}
		moved := w.db.Moved()
		if back := w.returned.Swap(false); w.away.Load() && (back || moved == nil) {
			w.log.Info("the database is back; changes are taken again", "file", w.file)
			_ = os.Remove(saved) // it is of a moment before, and nobody should take it for more
			saved = ""
			w.away.Store(false)
		}
		if moved != nil && w.away.CompareAndSwap(false, true) {
			w.log.Error("the database was removed or replaced while berth serves; changes are refused until it is back, or berth has started again", "file", w.file, "error", moved)
		}
		if w.away.Load() && saved == "" {
			saved = w.save(ctx)
		}
	}
}

// save copies what the open database holds and returns the name of the copy, ""
// when that failed.
func (w *databaseWatch) save(ctx context.Context) string {
	parts, _ := filepath.Glob(w.file + savedWord + "*" + db.PartWord)
	for _, part := range parts { // of a daemon that was killed
		_ = os.Remove(part)
	}
	to := w.file + savedWord + time.Now().UTC().Format("20060102T150405Z")
	if err := w.db.Copy(ctx, to); err != nil {
		if ctx.Err() == nil {
			w.log.Error("cannot save what the database held; trying again", "error", err)
		}
		return ""
	}
	w.log.Warn("what the database held is saved; stop berth, put the copy in the place of the database, without the files -wal and -shm, and start berth again", "copy", to, "as", w.file)
	return to
}
