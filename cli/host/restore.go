package host

import (
	"bufio"
	"cmp"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"berth/app"
	"berth/app/exit"
	"berth/cli/command"
	"berth/cli/screen"
	"berth/daemon"
	"berth/daemon/backup"
	"berth/daemon/mover"
	"berth/daemon/settings"
	"berth/db"
	"berth/files"
	"berth/files/archive"
)

// backupVerify is "backup verify FILE".
func backupVerify(c *caller) *cobra.Command {
	cmd := command.New("verify FILE", "check that an archive is complete and undamaged", 1, 1)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		m, err := verifyBackup(cmd.Context(), args[0])
		if err != nil {
			return err
		}
		// A restore does without: it needs the content alone, which is proved.
		if err := sealedFile(args[0], m); err != nil {
			return backupProblem("verify", args[0], err)
		}
		fmt.Fprintln(c.Stdout, describe(m))
		return nil
	}
	return cmd
}

// verifyBackup reads a whole archive and proves that its database can be used.
func verifyBackup(ctx context.Context, path string) (m archive.Manifest, err error) {
	temp, err := os.MkdirTemp("", "berth-verify-")
	if err != nil {
		return m, fmt.Errorf("cannot verify the backup: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(temp)) }()
	copied := filepath.Join(temp, daemon.DatabaseName)
	m, err = readArchive(ctx, path, func(_ int, part string, _ archive.Entry, content io.Reader) error {
		if part != daemon.DatabaseName {
			return nil
		}
		return writeFile(copied, content)
	})
	if err != nil {
		return m, backupProblem("verify", path, err)
	}
	schema, err := db.Check(ctx, copied)
	if errors.Is(err, fs.ErrNotExist) {
		err = errors.New("it holds no database")
	}
	if err == nil && schema != m.Schema {
		err = fmt.Errorf("its database has schema %d, and it says %d", schema, m.Schema)
	}
	if err != nil {
		return m, backupProblem("verify", path, err)
	}
	return m, nil
}

// sealedFile is archive.Sealed of a file.
func sealedFile(path string, m archive.Manifest) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	return archive.Sealed(f, info.Size(), m)
}

// backupProblem says what is wrong with an archive.
func backupProblem(verb, path string, err error) error {
	code, hint := exit.Failure, ""
	switch {
	case errors.Is(err, db.ErrNewer), errors.Is(err, archive.ErrFormat):
		code, hint = exit.Config, "Hint: use the berth that made it, or a newer one."
	case errors.Is(err, fs.ErrPermission):
		code, hint = exit.Permission, "Hint: run the command as root."
	case errors.Is(err, fs.ErrNotExist):
		code = exit.NotFound
	}
	return exit.NewProblem(code, fmt.Errorf("cannot %s %s: %w", verb, path, err), hint)
}

// readArchive is archive.Read of a compressed file.
func readArchive(
	ctx context.Context, path string, visit func(int, string, archive.Entry, io.Reader) error,
) (m archive.Manifest, err error) {
	f, err := os.Open(path)
	if err != nil {
		return m, err
	}
	defer f.Close()
	in := bufio.NewReaderSize(f, 1<<20)
	zip, err := gzip.NewReader(in)
	if err != nil {
		return m, fmt.Errorf("%w: it is not compressed with gzip", archive.ErrFormat)
	}
	zip.Multistream(false)
	m, err = archive.Read(zip, func(n int, part string, e archive.Entry, content io.Reader) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		return visit(n, part, e, content)
	})
	if err != nil {
		return m, err
	}
	if _, err := io.Copy(io.Discard, zip); err != nil { // what follows must be its checksum
		return m, fmt.Errorf("%w: %w", archive.ErrDamaged, err)
	}
	return m, archive.Rest(in)
}

// writeFile makes a private file and makes it durable.
func writeFile(path string, content io.Reader) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, content)
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

// backupRestore is "backup restore FILE --data-dir DIR".
func backupRestore(c *caller) *cobra.Command {
	cmd := command.New("restore [FILE] [--run NAME] [--start] [--config FILE] [--data-dir DIR] [flags]", "restore an archive, or a backup of the repository, onto a host without applications; the programs start after berth resume", 0, 1)
	start := command.Toggle(cmd, "start", "let the programs start at once, because they run nowhere else")
	run := command.Word(cmd, "run", "`NAME` of the backup in the repository; without it the newest")
	from := c.settingFlags(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		s, err := from.Load(c.Getenv)
		if err != nil {
			return err
		}
		if err := mustBeRoot("restore", ", for it gives every application's files to a user of its own", "backup restore"); err != nil {
			return err
		}
		if len(args) == 0 {
			return c.restoreRun(cmd.Context(), s, *run, *start)
		}
		ctx := cmd.Context()
		// Before anything is touched: a backup that is not whole restores nothing.
		m, err := verifyBackup(ctx, args[0])
		if err != nil {
			return err
		}
		keys, err := unwrapKeys(ctx, c, args[0], m)
		if err != nil {
			return err
		}
		var hold app.Hold
		if !*start {
			hold = app.Hold{Why: app.HoldRestored, Peer: cmp.Or(m.Host, "another host"), At: time.Now()}
		}
		r := &restoring{c: c, settings: s, keys: keys, hold: hold, fill: func(dir string) error {
			if err := extractBackup(ctx, args[0], dir, m); err != nil {
				return backupProblem("restore", args[0], err)
			}
			return nil
		}}
		return r.run(ctx, func() string { return describe(m) })
	}
	return cmd
}

// restoring is one restore.
type restoring struct {
	c        *caller
	settings settings.Settings
	fill     func(dir string) error // puts everything into an empty directory
	keys     []db.Key               // of the secrets, that came along
	hold     app.Hold               // the zero value lets the programs start
}

// run restores into an empty data directory, or in place of a berth without applications, and tells
// what else there is to do. what describes the backup, once fill has returned.
func (r *restoring) run(ctx context.Context, what func() string) error {
	c, s := r.c, r.settings
	err := r.into(ctx, s.DataDir)
	if refused := daemon.DiskProblem(s.DataDir, err); refused != nil {
		return refused
	}
	if err != nil {
		return err
	}
	c.Tell("restored into %s: %s", s.DataDir, what())
	if err := putBack(ctx, c, s, r.keys); err != nil {
		return err
	}
	if _, err := os.Stat(filepath.Join(s.DataDir, backup.SettingsPart)); err == nil {
		c.Tell("the settings of that host are in %s: compare them with this one's, or use --config", filepath.Join(s.DataDir, backup.SettingsPart))
	}
	if r.hold.Why != "" {
		c.Tell("the programs are held, so that they do not run here and on %s: once those are stopped, berth resume starts them", screen.Word(r.hold.Peer))
	}
	return warnOfApps(ctx, s, c.Tell)
}

// into fills a data directory. Until everything is there it is in a directory of its own, which no
// daemon serves from.
func (r *restoring) into(ctx context.Context, dir string) (err error) {
	if err := files.Reachable(dir); err != nil {
		return err
	}
	if err := daemon.MakeDataDir(dir); err != nil {
		return err
	}
	installed, err := bare(ctx, dir)
	if err != nil {
		return err
	}
	if installed {
		return r.inPlaceOf(ctx, dir)
	}
	if err := mustBeEmpty(dir); err != nil {
		return err
	}
	lock, err := files.Lock(dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, lock.Close()) }()
	temp := filepath.Join(dir, daemon.UnfinishedName)
	if err := r.fillNew(ctx, temp); err != nil {
		return err
	}
	return unwrap(temp, dir)
}

// fillNew makes a directory and fills it; nothing stays of an error.
func (r *restoring) fillNew(ctx context.Context, temp string) error {
	if err := os.Mkdir(temp, 0o700); err != nil {
		return fmt.Errorf("cannot restore: %w", err)
	}
	err := r.fill(temp)
	if err == nil {
		err = holdIn(ctx, temp, r.hold)
	}
	// A daemon that does not find the keys at its start makes another one.
	ring := daemon.Keys(r.settings.DataDir, r.settings.KeyFiles()...)
	for _, key := range r.keys {
		if err == nil {
			err = ring.Add(key)
		}
	}
	if err != nil {
		return errors.Join(err, os.RemoveAll(temp))
	}
	return nil
}

// bare reports whether dir is that of a berth which nobody uses yet: it has no application, and one
// account at most.
func bare(ctx context.Context, dir string) (_ bool, err error) {
	d, err := daemon.OpenCurrent(ctx, dir)
	if err != nil || d == nil {
		return false, nil //nolint:nilerr // then it is not empty, which is said
	}
	defer func() { err = errors.Join(err, d.Close()) }()
	_, what, err := mover.InUse(ctx, d)
	return what == "", err
}

// inPlaceOf restores in place of a berth that nobody uses yet: its next start puts everything into
// place, and a daemon that serves begins anew at once.
func (r *restoring) inPlaceOf(ctx context.Context, dir string) (err error) {
	end, err := mover.Lock(dir, 0)
	if err != nil {
		return fmt.Errorf("cannot restore: %w", err)
	}
	defer end()
	temp := filepath.Join(dir, mover.Unfinished)
	if err := os.RemoveAll(temp); err != nil { // of a move or a restore that was cut short
		return fmt.Errorf("cannot restore: %w", err)
	}
	if err := r.fillNew(ctx, temp); err != nil {
		return err
	}
	if still, err := bare(ctx, dir); err != nil || !still {
		return errors.Join(err, fmt.Errorf("cannot restore into %s: it is in use meanwhile", dir), os.RemoveAll(temp))
	}
	if err := mover.MakeReady(dir); err != nil {
		return err
	}
	if files.LockedBy(dir) != 0 {
		return beginAnew(ctx, r.settings, "this host")
	}
	lock, err := files.Lock(dir)
	if err != nil {
		return err
	}
	return errors.Join(mover.Settle(dir, slog.New(slog.DiscardHandler)), lock.Close())
}

// mustBeEmpty refuses a directory with anything but a lock, and what restic remembers, in it.
func mustBeEmpty(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("cannot restore: %w", err)
	}
	for _, e := range entries {
		if e.Name() != files.LockName && e.Name() != daemon.BackupCacheName {
			return exit.NewProblem(exit.Failure, fmt.Errorf("cannot restore into %s: it is not empty, %s is in it", dir, e.Name()),
				"Hint: name a new directory with --data-dir, or empty this one.")
		}
	}
	return nil
}

// extractBackup takes everything that counts out of an archive, durably.
func extractBackup(ctx context.Context, file, dir string, m archive.Manifest) error {
	to, err := files.NewImporter(dir)
	if err != nil {
		return err
	}
	defer to.Close()
	_, err = readArchive(ctx, file, func(n int, part string, e archive.Entry, content io.Reader) error {
		switch {
		case n >= len(m.Parts) || m.Parts[n].Name != part:
			return fmt.Errorf("%w: it is another one than was verified", archive.ErrDamaged)
		case m.Parts[n].Void:
			return nil
		}
		return putPart(dir, to, part, e, content)
	})
	if err != nil {
		return err
	}
	return to.Sync()
}

// putPart puts one entry of a backup below a directory.
func putPart(dir string, to *files.Importer, part string, e archive.Entry, content io.Reader) error {
	switch {
	case part == backup.ManagedPart:
		below := filepath.Join(dir, filepath.Dir(part))
		if err := os.Mkdir(below, 0o755); err != nil {
			return err
		}
		if err := writeFile(filepath.Join(dir, part), content); err != nil {
			return err
		}
		return syncDir(below)
	case part == backup.KeysPart:
		return nil // they go to a file of this host
	case part == daemon.DatabaseName || part == backup.SettingsPart:
		return writeFile(filepath.Join(dir, part), content)
	case files.IsPart(part):
		return to.Put(part, e, content)
	}
	return fmt.Errorf("%w: nobody knows what %q is", archive.ErrDamaged, part)
}

// holdIn holds the programs of a database that is not in its place yet. The zero value ends the
// hold that the host had of which the backup is.
func holdIn(ctx context.Context, dir string, hold app.Hold) error {
	d, err := db.Open(ctx, filepath.Join(dir, daemon.DatabaseName), time.Now)
	if err != nil {
		return err
	}
	if hold.Why == "" {
		err = d.Holds.DropHold(ctx)
	} else {
		err = d.Holds.SetHold(ctx, hold)
	}
	return errors.Join(err, d.Close())
}

// unwrap moves what was restored into place, the database last, and then drops
// the sign that something is missing.
func unwrap(temp, dir string) error {
	entries, err := os.ReadDir(temp)
	if err != nil {
		return fmt.Errorf("cannot restore: %w", err)
	}
	var names []string
	for _, e := range entries {
		if e.Name() != daemon.DatabaseName {
			names = append(names, e.Name())
		}
	}
	for _, name := range append(names, daemon.DatabaseName) {
		if err := os.Rename(filepath.Join(temp, name), filepath.Join(dir, name)); err != nil {
			return fmt.Errorf("cannot restore: %w", err)
		}
	}
	if err := syncDir(dir); err != nil {
		return fmt.Errorf("cannot restore: %w", err)
	}
	if err := unix.Rmdir(temp); err != nil {
		return fmt.Errorf("cannot restore: %w", err)
	}
	return syncDir(dir)
}

// warnOfApps tells of applications whose files the backup did not have, and of users
// of this host that have an application's uid.
func warnOfApps(ctx context.Context, s settings.Settings, tell func(format string, args ...any)) (err error) {
	d, err := db.Open(ctx, filepath.Join(s.DataDir, daemon.DatabaseName), time.Now)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.Close()) }()
	apps, err := d.Apps.Apps(ctx)
	if err != nil {
		return err
	}
	for _, a := range apps {
		if _, err := os.Lstat(filepath.Join(s.DataDir, "apps", string(a.ID))); errors.Is(err, fs.ErrNotExist) {
			tell("warning: the backup has no files of the application %s: upload it anew, or delete it", a.ID)
		}
	}
	users, err := os.ReadFile("/etc/passwd")
	if err != nil {
		return fmt.Errorf("cannot look for users with the ids of applications: %w", err)
	}
	for _, line := range collisions(apps, string(users)) {
		tell("%s", line)
	}
	return nil
}

// collisions says which users of a passwd file have the uid of an application.
func collisions(apps []app.App, passwd string) []string {
	byUID := map[int]app.ID{}
	for _, a := range apps {
		byUID[a.UID] = a.ID
	}
	var lines []string
	for user := range strings.SplitSeq(passwd, "\n") {
		fields := strings.Split(user, ":")
		if len(fields) < 3 {
			continue
		}
		uid, err := strconv.Atoi(fields[2])
		if id, taken := byUID[uid]; err == nil && taken {
			lines = append(lines, fmt.Sprintf("warning: the user %s of this host has the id %d, as the application %s has: each can read the files of the other; remove that user, or upload the application anew", screen.Word(fields[0]), uid, id))
		}
	}
	return lines
}
