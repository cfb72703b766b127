package host

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"berth/app"
	"berth/app/exit"
	"berth/cli/screen"
	"berth/daemon"
	"berth/daemon/backup"
	"berth/daemon/settings"
	"berth/files"
	"berth/files/archive"
	"berth/files/repository"
)

// restoreRun restores a backup of the repository that the settings name, the newest one for "".
func (c *caller) restoreRun(ctx context.Context, s settings.Settings, run string, start bool) error {
	key, typed, err := c.backupKeyFor(s)
	if err != nil {
		return err
	}
	repo, err := daemon.OpenRepositoryWith(s, key)
	if err != nil {
		return err
	}
	runs, all, err := (&backup.Runner{Repository: repo}).Backups(ctx)
	if err != nil {
		return runnerProblem("restore", err)
	}
	if len(runs) == 0 {
		return exit.NewProblem(exit.NotFound, fmt.Errorf("cannot restore: there is no backup in %s", repo.Where()), "")
	}
	run = cmp.Or(run, runs[0])
	head, ok := repository.Find(all, run, backup.Head)
	if !ok {
		return exit.NewProblem(exit.NotFound, fmt.Errorf("cannot restore: there is no backup %q in %s", run, repo.Where()), "Hint: berth backup list shows the backups.")
	}
	f := &fromRepository{repo: repo, run: run, head: head, all: all, key: key}
	r := &restoring{c: c, settings: s}
	if !start {
		r.hold = app.Hold{Why: app.HoldRestored, Peer: "another host", At: time.Now()}
	}
	r.fill = func(dir string) (err error) {
		if err := f.fill(ctx, dir); err != nil {
			return runnerProblem("restore", err)
		}
		if r.hold.Why != "" {
			r.hold.Peer = cmp.Or(f.manifest.Host, r.hold.Peer)
		}
		if f.wrapped == nil {
			return nil
		}
		if r.keys, err = backup.UnwrapKeys(f.wrapped, key); err != nil {
			return runnerProblem("restore", repository.ErrPassword)
		}
		return nil
	}
	if err := r.run(ctx, f.describe); err != nil {
		return err
	}
	if !typed {
		return nil
	}
	// Backups go on with the same key. The person who typed it has seen it.
	if err := backup.StoreKey(s.BackupKey, key); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	d, err := openDatabase(ctx, s)
	if err != nil {
		return err
	}
	return errors.Join(d.Backups.ShownKey(ctx, backup.KeyID(key)), d.Close())
}

// backupKeyFor returns the key that opens the backups: that of this host, or one that is asked for, which is
// to be stored.
func (c *caller) backupKeyFor(s settings.Settings) (key string, asked bool, err error) {
	key, err = backup.ReadKey(s.BackupKey)
	if err == nil || !errors.Is(err, fs.ErrNotExist) {
		return key, false, err
	}
	text, err := readHidden(c.Stdin, c.Stderr, "backup key", "Backup key (berth backup key printed it on the old host): ")
	if err == nil {
		key, err = backup.CheckKey(text)
	}
	if err != nil {
		return "", false, exit.NewProblem(exit.Usage, fmt.Errorf("cannot restore: %w", err), "Hint: nothing was restored.")
	}
	return key, true, nil
}

// fromRepository is a backup that is being restored.
type fromRepository struct {
	repo     repository.Repository
	run      string
	head     repository.Snapshot
	all      []repository.Snapshot
	key      string
	manifest archive.Manifest // of the head
	wrapped  []byte           // the keys of the secrets
	apps     int
	bytes    int64
}

// fill puts the backup into an empty directory. Each sum is compared when its stream has ended.
func (f *fromRepository) fill(ctx context.Context, dir string) error {
	to, err := files.NewImporter(dir)
	if err != nil {
		return err
	}
	defer to.Close()
	put := func(_ int, part string, e archive.Entry, content io.Reader) (err error) {
		if part == backup.KeysPart {
			f.wrapped, err = io.ReadAll(io.LimitReader(content, 1<<20))
			return err
		}
		return errors.Join(ctx.Err(), putPart(dir, to, part, e, content))
	}
	if f.manifest, err = f.read(ctx, f.head, put); err != nil {
		return fmt.Errorf("the database and settings of the backup %s: %w", f.run, err)
	}
	if _, err := os.Lstat(filepath.Join(dir, daemon.DatabaseName)); err != nil {
		return fmt.Errorf("%w: the backup %s has no database", archive.ErrDamaged, f.run)
	}
	for _, s := range f.all {
		if !s.Of(f.run) || s.ID == f.head.ID {
			continue
		}
		m, err := f.read(ctx, s, put)
		if err != nil {
			return fmt.Errorf("%s of the backup %s: %w", s.Name, f.run, err)
		}
		f.apps++
		for _, p := range m.Parts {
			f.bytes += p.Bytes
		}
	}
	return to.Sync()
}

func (f *fromRepository) read(
	ctx context.Context, s repository.Snapshot, visit func(int, string, archive.Entry, io.Reader) error,
) (m archive.Manifest, err error) {
	err = f.repo.Load(ctx, s, func(stream io.Reader) (err error) {
		m, err = archive.Read(stream, visit)
		return err
	})
	return m, err
}

// describe is the backup in one line.
func (f *fromRepository) describe() string {
	return fmt.Sprintf("backup %s of %s: %s, %s; berth %s, schema %d",
		f.run, screen.Word(f.manifest.Host), counted(f.apps, "application"), megabytes(f.bytes), screen.Word(f.manifest.Berth), f.manifest.Schema)
}
