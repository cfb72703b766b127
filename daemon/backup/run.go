package backup

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"berth/app"
	"berth/db"
	"berth/files"
	"berth/files/archive"
	"berth/files/repository"
)

// Head names the snapshot of a backup that makes it one: settings, keys and the database.
const Head = "host"

// lockName is the file of the data directory that whoever works on the backups locks.
const lockName = "backup.lock"

// The labels of a snapshot.
const (
	uidLabel   = "uid"
	printLabel = "print" // the fingerprint of the tree, while that is settled
	hostLabel  = "of"    // Runner.ID of the host
	keyLabel   = "key"   // of a head: the KeyID of the backup key that opens its KeysPart
)

// ErrRunning is the error of work on backups while another process does some.
var ErrRunning = errors.New("a backup, or a rehearsal of one, is under way already")

// ErrOtherKey is the error of a repository whose newest backup needs another backup key.
var ErrOtherKey = errors.New("the backups there need another backup key")

// pruneEvery is how often a backup frees what the repository does not need any more, which
// may read and write much of it.
const pruneEvery = 7 * 24 * time.Hour

// Runner works on the backups of a host in its repository. It is for one goroutine; other
// processes are kept off by a lock.
type Runner struct {
	Source
	Repository repository.Repository
	// ID is that of the host's database, which a copy of it keeps: what another host keeps in the same
	// repository is none of this Runner's business.
	ID     string
	Policy app.BackupPolicy
	Where  *time.Location // of the policy's days
	// BackupKey opens the repository, and Source.Keys. If the key is new, it is on no disk yet, and StoreKey
	// stores it once the repository takes it. StoreKey is nil for a key that is stored.
	BackupKey string
	StoreKey  func() error
	// AcceptKey lets a backup be made with BackupKey although the newest one needs another key.
	AcceptKey bool
	// Note is told what the owner of the host should know, a sentence at a time.
	Note func(format string, args ...any)
}

// alone calls do while no other process works on the backups of this host, and remembers how
// that went: do fills what it gets. A failure is remembered in words.
func (r *Runner) alone(
	ctx context.Context, kind app.BackupKind, do func(run *app.BackupRun) ([]db.AppCopy, error),
) (run app.BackupRun, err error) {
	f, err := os.OpenFile(filepath.Join(r.DataDir, lockName), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return run, fmt.Errorf("cannot lock the backups: %w", err)
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if err := r.lock(ctx, f, kind); err != nil {
		return run, err
	}
	if err := r.DB.Backups.SetUp(ctx); err != nil {
		return run, err
	}
	if run, err = r.DB.Backups.BeginBackup(ctx, kind, r.Repository.Where()); err != nil {
		return run, err
	}
	copies, err := do(&run)
	run.Ended = time.Now()
	if err != nil {
		run.Error, copies = err.Error(), nil
		if ctx.Err() != nil {
			run.Error = db.CutShort
		}
	}
	// Also when ctx has ended: what is remembered is what happened.
	stored := r.DB.Backups.EndBackup(context.WithoutCancel(ctx), run, copies)
	return run, errors.Join(err, stored)
}

// lockAgain is the pause between two tries to get the lock.
const lockAgain = 100 * time.Millisecond

// lock takes the lock of the backups. It waits for a prune, because berth starts one by itself. It also waits
// for a process that has not stored yet what it does. If another backup or rehearsal runs, it fails with ErrRunning.
func (r *Runner) lock(ctx context.Context, f *os.File, kind app.BackupKind) error {
	for told, tries := false, 0; ; tries++ {
		err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if !errors.Is(err, unix.EWOULDBLOCK) {
			return err
		}
		st, err := r.DB.Backups.Status(ctx)
		if err != nil {
			return err
		}
		pruning := st.Running != nil && st.Running.Kind == app.BackupPruned && kind != app.BackupPruned
		if !pruning && (st.Running != nil || tries > 20) {
			return ErrRunning
		}
		if pruning && !told {
			told = true
			r.Note("old backups are being removed; the %s begins when that has ended", kind)
		}
		select {
		case <-time.After(lockAgain):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// Running reports whether a process works on the backups of the host with a data directory.
func Running(dataDir string) bool {
	f, err := os.Open(filepath.Join(dataDir, lockName))
	if err != nil {
		return false
	}
	defer f.Close()
	return errors.Is(unix.Flock(int(f.Fd()), unix.LOCK_SH|unix.LOCK_NB), unix.EWOULDBLOCK)
}

// Backup makes a backup, removes those that the policy does not keep, and returns what was done.
// Applications that are missing in it are in Missing, and are no error. It makes the repository if
// the last good backup was made elsewhere.
func (r *Runner) Backup(ctx context.Context) (app.BackupRun, error) {
	run, err := r.alone(ctx, app.BackupMade, func(run *app.BackupRun) ([]db.AppCopy, error) {
		// Where there was a good backup, a place without a repository is one whose disk is not mounted.
		st, err := r.DB.Backups.Status(ctx)
		if err != nil {
			return nil, err
		}
		all, err := r.open(ctx, st.Good == nil || st.Good.Place != run.Place)
		if err != nil {
			return nil, err
		}
		if run.Run, err = freeName(ctx, repository.Runs(all, Head)); err != nil {
			return nil, err
		}
		b := &set{Runner: r, all: all, run: run, saved: map[app.ID]repository.Snapshot{}, bytes: map[app.ID]int64{}}
		copies, err := b.save(ctx)
		if err == nil {
			if old := r.forget(ctx); old != nil { // the backup is good all the same
				r.Note("cannot remove old backups: %v", old)
			}
		}
		return copies, err
	})
	if err != nil {
		return run, err
	}
	due, err := r.pruneDue(ctx)
	if err == nil && due {
		_, err = r.Prune(ctx)
	}
	if err != nil {
		r.Note("cannot free what old backups took: %v", err)
	}
	return run, nil
}

// open opens the repository and returns its snapshots. With create it makes a missing repository. It refuses a
// repository whose newest backup needs another key. It stores a new key before the first snapshot needs it.
func (r *Runner) open(ctx context.Context, create bool) (all []repository.Snapshot, err error) {
	err = r.Repository.Open(ctx, false)
	none := create && errors.Is(err, repository.ErrNone)
	if err == nil {
		if all, err = r.list(ctx); err == nil {
			err = r.sameKey(ctx, all)
		}
	}
	if err != nil && !none {
		return nil, err
	}
	if r.StoreKey != nil {
		if err := r.StoreKey(); err != nil {
			return nil, err
		}
	}
	if none {
		return nil, r.Repository.Open(ctx, true)
	}
	return all, nil
}

// sameKey returns ErrOtherKey if the newest backup needs another key.
func (r *Runner) sameKey(ctx context.Context, all []repository.Snapshot) error {
	runs := repository.Runs(all, Head)
	if len(runs) == 0 || r.AcceptKey {
		return nil
	}
	head, _ := repository.Find(all, runs[0], Head)
	id, labelled := head.Labels[keyLabel]
	if labelled && id == KeyID(r.BackupKey) {
		return nil
	}
	if !labelled { // of a release before labels
		var wrapped []byte
		_, err := r.read(ctx, head, func(_ int, part string, _ archive.Entry, content io.Reader) (err error) {
			if part == KeysPart {
				wrapped, err = io.ReadAll(io.LimitReader(content, 1<<20))
			}
			return errors.Join(err, ctx.Err())
		})
		if err != nil {
			return fmt.Errorf("cannot tell which key the backup %s needs: %w", runs[0], err)
		}
		if _, err := UnwrapKeys(wrapped, r.BackupKey); wrapped == nil || err == nil {
			return nil
		}
	}
	return fmt.Errorf("%w than %s, which this host has", ErrOtherKey, KeyID(r.BackupKey))
}

// freeName returns the name of a backup that begins now. It waits while another one has it: names
// are whole seconds.
func freeName(ctx context.Context, taken []string) (string, error) {
	for {
		name := app.RunName(time.Now())
		if !slices.Contains(taken, name) {
			return name, nil
		}
		select {
		case <-time.After(time.Until(time.Now().Truncate(time.Second).Add(time.Second))):
		case <-ctx.Done():
			return "", ctx.Err()
		}
	}
}

// set is the snapshots of one backup that is being made.
type set struct {
	*Runner
	all   []repository.Snapshot // of before
	run   *app.BackupRun
	saved map[app.ID]repository.Snapshot
	bytes map[app.ID]int64 // of the contents of what is in saved
	was   map[app.ID]int64 // of the contents of what is in all
}

// save saves every application and the head, and makes them a backup.
func (b *set) save(ctx context.Context) (copies []db.AppCopy, err error) {
	if b.was, err = b.DB.Backups.CopyBytes(ctx); err != nil {
		return nil, err
	}
	temp, err := stagingDir(b.DataDir)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(temp)) }()
	copied := filepath.Join(temp, DatabasePart)
	uids := map[app.ID]app.App{}
	c := collector{db: b.DB, add: func(ctx context.Context, a app.App) error {
		uids[a.ID] = a
		return b.add(ctx, a)
	}, drop: func(id app.ID) { delete(b.saved, id) }}
	if err := c.collect(ctx, copied); err != nil {
		return nil, err
	}
	for _, f := range c.failures() {
		b.run.Missing = append(b.run.Missing, f.App)
		b.Note("the files of the application %s are not in the backup: %v", f.App, f.Err)
	}
	labels := map[string]string{hostLabel: b.ID, keyLabel: KeyID(b.BackupKey)}
	head, err := b.Repository.Save(ctx, Head, labels, func(to io.Writer) error { return b.writeHead(ctx, to, copied) })
	if err != nil {
		return nil, err
	}
	var others []repository.Snapshot
	for _, id := range slices.Sorted(maps.Keys(b.saved)) {
		others = append(others, b.saved[id])
		copies = append(copies, db.AppCopy{App: id, UID: uids[id].UID, Account: uids[id].Account, Bytes: b.bytes[id]})
		if len(b.saved[id].Runs) > 0 {
			b.run.Reused++
		}
		b.run.Apps++
		b.run.Bytes += b.bytes[id]
	}
	b.run.Stored, err = b.Repository.Commit(ctx, b.run.Run, head, others)
	return copies, err
}

func appName(id app.ID) string { return "apps/" + string(id) }

// add saves an application, unless an earlier backup has it as it is.
func (b *set) add(ctx context.Context, a app.App) error {
	print, settled, err := b.Trees.Fingerprint(ctx, a.ID, a.UID)
	if err != nil {
		if errors.Is(err, files.ErrBusy) {
			return err
		}
		return appError{err}
	}
	labels := map[string]string{hostLabel: b.ID, uidLabel: strconv.Itoa(a.UID)}
	if at := slices.IndexFunc(b.all, func(s repository.Snapshot) bool {
		return s.Name == appName(a.ID) && len(s.Runs) > 0 && s.Labels[uidLabel] == labels[uidLabel] && s.Labels[printLabel] == print
	}); at >= 0 {
		b.saved[a.ID], b.bytes[a.ID] = b.all[at], b.was[a.ID]
		return nil
	}
	if settled {
		labels[printLabel] = print
	}
	var failed error
	saved, err := b.Repository.Save(ctx, appName(a.ID), labels, func(to io.Writer) (err error) {
		b.bytes[a.ID], err = b.writeApp(ctx, to, a)
		failed = err
		return err
	})
	var its appError
	if errors.As(failed, &its) || errors.Is(failed, files.ErrBusy) {
		return failed // and not what the repository says of it
	}
	b.saved[a.ID] = saved
	return err
}

// writeApp writes the archive of one application, and returns the bytes of its files.
func (b *set) writeApp(ctx context.Context, to io.Writer, a app.App) (int64, error) {
	w, err := b.begin(to)
	if err != nil {
		return 0, err
	}
	if err := exported(w, b.Trees.Export(ctx, w, a.ID, a.UID)); err != nil {
		return 0, err
	}
	m, err := w.Close(0)
	var bytes int64
	for _, p := range m.Parts {
		bytes += p.Bytes
	}
	return bytes, err
}

// writeHead writes the archive of what is no application's.
func (b *set) writeHead(ctx context.Context, to io.Writer, copied string) error {
	w, err := b.begin(to)
	if err == nil {
		err = b.addHost(w)
	}
	if err != nil {
		return err
	}
	schema, err := addDatabase(ctx, w, copied)
	if err != nil {
		return err
	}
	_, err = w.Close(schema)
	return err
}

// forget removes the backups that the policy does not keep.
func (r *Runner) forget(ctx context.Context) error {
	all, err := r.list(ctx)
	if err != nil {
		return err
	}
	there := repository.Runs(all, Head)
	kept := r.Policy.Keep(there, r.Where)
	old := slices.DeleteFunc(there, func(run string) bool { return slices.Contains(kept, run) })
	if len(old) > 0 {
		if err := r.Repository.Drop(ctx, old); err != nil {
			return err
		}
	}
	return r.DB.Backups.ForgetBackups(ctx, kept)
}

// pruneDue reports whether the last Prune, or the first backup, was pruneEvery ago.
func (r *Runner) pruneDue(ctx context.Context) (bool, error) {
	runs, err := r.DB.Backups.BackupRuns(ctx, -1)
	var last time.Time
	for _, run := range slices.Backward(runs) {
		if last.IsZero() || run.Kind == app.BackupPruned && run.Good() {
			last = run.Began
		}
	}
	return err == nil && time.Since(last) >= pruneEvery, err
}

// Prune removes the backups that the policy does not keep, and what was saved for none, and frees what they took.
func (r *Runner) Prune(ctx context.Context) (app.BackupRun, error) {
	return r.alone(ctx, app.BackupPruned, func(*app.BackupRun) ([]db.AppCopy, error) {
		err := r.Repository.Open(ctx, false)
		if err == nil {
			err = r.forget(ctx)
		}
		if err == nil {
			err = r.Repository.Prune(ctx)
		}
		return nil, err
	})
}

// list returns the snapshots of this host, and every snapshot for a Runner without an ID.
func (r *Runner) list(ctx context.Context) ([]repository.Snapshot, error) {
	all, err := r.Repository.List(ctx)
	return slices.DeleteFunc(all, func(s repository.Snapshot) bool { return r.ID != "" && s.Labels[hostLabel] != r.ID }), err
}

// Backups returns the names of the backups in the repository, newest first, and every snapshot.
func (r *Runner) Backups(ctx context.Context) (runs []string, all []repository.Snapshot, err error) {
	if err := r.Repository.Open(ctx, false); err != nil {
		return nil, nil, err
	}
	all, err = r.list(ctx)
	return repository.Runs(all, Head), all, err
}

// read reads the archive in a snapshot to its end. Each sum is compared by then.
func (r *Runner) read(
	ctx context.Context, s repository.Snapshot, visit func(n int, part string, e archive.Entry, content io.Reader) error,
) (m archive.Manifest, err error) {
	err = r.Repository.Load(ctx, s, func(stream io.Reader) error {
		m, err = archive.Read(stream, visit)
		if err == nil {
			_, err = io.Copy(io.Discard, stream)
		}
		return err
	})
	return m, err
}
