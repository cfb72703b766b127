package backup

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"berth/app"
	"berth/daemon/keyring"
	"berth/db"
	"berth/files"
	"berth/files/archive"
	"berth/files/repository"
)

// checkParts is how many rehearsals read every file of the repository once, also those of older backups.
const checkParts = 12

// Rehearse proves the newest backup: the repository is whole, the database in it can be used,
// every sum of every application is compared, and one application, another one each time, is restored whole
// beside the others, if there is room for it, and removed again. Nothing is started.
func (r *Runner) Rehearse(ctx context.Context) (app.BackupRun, error) {
	return r.alone(ctx, app.BackupRehearsed, func(run *app.BackupRun) ([]db.AppCopy, error) { return nil, r.rehearse(ctx, run) })
}

func (r *Runner) rehearse(ctx context.Context, run *app.BackupRun) (err error) {
	runs, all, err := r.Backups(ctx)
	if err != nil {
		return err
	}
	if len(runs) == 0 {
		return errors.New("there is no backup to rehearse")
	}
	run.Run = runs[0]
	known, err := r.DB.Backups.BackupRuns(ctx, -1)
	if err != nil {
		return err
	}
	turn := 0 // how many good rehearsals there were: one that failed looks at the same again
	for _, b := range known {
		if b.Kind == app.BackupRehearsed && b.Good() {
			turn++
		}
	}
	if err := r.Repository.Check(ctx, turn%checkParts, checkParts); err != nil {
		return err
	}
	temp, err := stagingDir(r.DataDir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(temp)) }()
	d, err := r.database(ctx, all, run.Run, temp)
	if err != nil {
		return err
	}
	apps, err := d.Apps.Apps(ctx)
	if err = errors.Join(err, d.Close()); err != nil {
		return err
	}
	var missing []app.ID // those that the backup said it lacks
	for _, b := range known {
		if b.Kind == app.BackupMade && b.Run == run.Run {
			missing = b.Missing
		}
	}
	whole, err := r.candidate(ctx, apps, turn)
	if err != nil {
		return err
	}
	for _, a := range apps {
		s, there := repository.Find(all, run.Run, appName(a.ID))
		switch {
		case !there && slices.Contains(missing, a.ID):
			run.Missing = append(run.Missing, a.ID)
			continue
		case !there:
			return fmt.Errorf("the backup %s has no files of the application %s", run.Run, a.ID)
		}
		bytes, err := r.prove(ctx, s, a.ID, a.ID == whole, temp)
		if err != nil {
			return fmt.Errorf("the files of the application %s in the backup %s: %w", a.ID, run.Run, err)
		}
		run.Apps++
		run.Bytes += bytes
	}
	run.Whole = whole
	return nil
}

// candidate is the application that is restored whole: the next one of those for which there
// is room; "" for none.
func (r *Runner) candidate(ctx context.Context, apps []app.App, turn int) (app.ID, error) {
	bytes, err := r.DB.Backups.CopyBytes(ctx)
	var st unix.Statfs_t
	if err == nil {
		err = unix.Statfs(r.DataDir, &st)
	}
	if err != nil {
		return "", err
	}
	room := int64(st.Bavail) * st.Bsize / 2
	for n := range apps {
		if a := apps[(turn+n)%len(apps)]; bytes[a.ID] < room && r.Trees.CheckFree("rehearse a backup") == nil {
			return a.ID, nil
		}
	}
	return "", nil
}

// prove reads an application's archive to its end, restores it whole below dir if it is to, and
// returns the bytes of its files.
func (r *Runner) prove(ctx context.Context, s repository.Snapshot, id app.ID, whole bool, dir string) (bytes int64, err error) {
	visit := func(int, string, archive.Entry, io.Reader) error { return ctx.Err() }
	if whole {
		to := filepath.Join(dir, "whole")
		if err := os.Mkdir(to, 0o700); err != nil {
			return 0, err
		}
		defer func() { err = errors.Join(err, os.RemoveAll(to)) }()
		importer, err := files.NewImporter(to)
		if err != nil {
			return 0, err
		}
		defer importer.Close()
		visit = func(_ int, part string, e archive.Entry, content io.Reader) error {
			return errors.Join(ctx.Err(), importer.Put(part, e, content))
		}
	}
	m, err := r.read(ctx, s, visit)
	if err == nil && !slices.ContainsFunc(m.Parts, func(p archive.Part) bool { return p.Name == appName(id) && !p.Void }) {
		err = fmt.Errorf("%w: it is of another application", archive.ErrDamaged)
	}
	for _, p := range m.Parts {
		bytes += p.Bytes
	}
	return bytes, err
}

// database takes the database of a backup out of its head into a file below dir, proves it, and opens it.
func (r *Runner) database(ctx context.Context, all []repository.Snapshot, run, dir string) (*db.DB, error) {
	head, ok := repository.Find(all, run, Head)
	if !ok {
		return nil, noRun(run)
	}
	file := filepath.Join(dir, DatabasePart)
	m, err := r.read(ctx, head, func(_ int, part string, _ archive.Entry, content io.Reader) error {
		if part != DatabasePart {
			return ctx.Err()
		}
		return writeFile(file, content)
	})
	if err != nil {
		return nil, fmt.Errorf("the database in the backup %s: %w", run, err)
	}
	schema, err := db.Check(ctx, file)
	if err == nil && schema != m.Schema {
		err = fmt.Errorf("it has schema %d, and the backup says %d", schema, m.Schema)
	}
	if err != nil {
		return nil, fmt.Errorf("the database in the backup %s: %w", run, err)
	}
	return db.Open(ctx, file, time.Now)
}

func noRun(run string) error { return app.Errorf(app.NotFound, "there is no backup %q", run) }

func writeFile(path string, content io.Reader) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, content)
	return errors.Join(err, f.Close())
}

// Application gives the archive of an application in a backup to read: of the application that has uid.
func (r *Runner) Application(ctx context.Context, run string, id app.ID, uid int, read func(io.Reader) error) error {
	_, all, err := r.Backups(ctx)
	if err != nil {
		return err
	}
	s, ok := repository.Find(all, run, appName(id))
	if !ok || s.Labels[uidLabel] != fmt.Sprint(uid) {
		return app.Errorf(app.NotFound, "the backup %q has no files of this application", run)
	}
	return r.Repository.Load(ctx, s, read)
}

// Variables returns the environment variables that an application had when a backup was made. The
// ring opens them.
func (r *Runner) Variables(ctx context.Context, run string, id app.ID, ring *keyring.Ring) (vars []app.Variable, err error) {
	_, all, err := r.Backups(ctx)
	if err != nil {
		return nil, err
	}
	temp, err := stagingDir(r.DataDir)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(temp)) }()
	d, err := r.database(ctx, all, run, temp)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, d.Close()) }()
	d.UseKeys(ring)
	return d.Apps.Variables(ctx, id)
}
