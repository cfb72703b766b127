package host

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"berth/app"
	"berth/app/build"
	"berth/app/exit"
	"berth/cli/command"
	"berth/cli/screen"
	"berth/daemon"
	"berth/daemon/settings"
	"berth/db"
	"berth/files"
	"berth/files/archive"
	"berth/files/bundle"
)

// settingsName is the settings file in an archive, and in a data directory that
// one was restored into.
const settingsName = "berth.toml"

// managedName is the same of the file beside it that berth writes itself.
var managedName = settings.ManagedFile(settingsName)

const (
	backupTries = 20 // rounds over what is deployed meanwhile
	backupPause = 500 * time.Millisecond
)

// backupCreate is "backup create --to FILE|DIR": an archive of everything, while
// everything runs.
func backupCreate(c *caller) *cobra.Command {
	cmd := command.New("create --to FILE|DIR [--with-secrets] [--data-dir DIR]", "write a backup of the whole host into one archive; programs keep running", 0, 0)
	from := c.settingFlags(cmd, "data_dir")
	to := command.Word(cmd, "to", "new `FILE` for the archive, or an existing directory")
	with := command.Toggle(cmd, "with-secrets", "add the key of the secrets, under a passphrase that is asked for or read from the standard input")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if *to == "" {
			return exit.Misused("the flag --to is missing: where is the backup to go?")
		}
		s, err := from.Load(c.Getenv)
		if err != nil {
			return err
		}
		config, _ := from.File(c.Getenv)
		return backUp(cmd.Context(), c, s, config, *to, *with)
	}
	return cmd
}

// backUp writes an archive of what the settings name, to a file or into a
// directory.
func backUp(ctx context.Context, c *caller, s settings.Settings, config, to string, with bool) (err error) {
	if err := mustBeRoot("write the backup", ", for it reads the files of every application", "backup create"); err != nil {
		return err
	}
	path, err := target(to, time.Now())
	if err != nil {
		return err
	}
	d, err := openDatabase(ctx, s)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.Close()) }()
	b := &hostBackup{db: d, settings: s, config: config, done: map[app.ID]int{}, failed: map[app.ID]failure{}}
	is, err := d.Seals(ctx)
	if err != nil {
		return err
	}
	if with {
		if b.keys, err = wrapKeys(c, daemon.Keys(s.DataDir, s.KeyFiles()...)); err != nil {
			return err
		}
	}
	m, err := b.create(ctx, path)
	if err != nil {
		return err
	}
	fmt.Fprintln(c.Stdout, path)
	c.Tell("%s\n%s", describe(m), secretsIn(is, with))
	return b.lacks(c.Tell)
}

// lacks warns of each application that the archive has no files of, and is an error
// when there is one.
func (b *hostBackup) lacks(tell func(format string, args ...any)) error {
	for _, id := range slices.Sorted(maps.Keys(b.failed)) {
		tell("warning: the files of the application %s are not in the backup: %v", id, b.failed[id].err)
	}
	if len(b.failed) == 0 {
		return nil
	}
	return exit.NewProblem(exit.Incomplete, fmt.Errorf("the backup is written, but without the files of %d of the applications", len(b.failed)),
		"Hint: the warnings say why; the rest of it is whole and can be restored.")
}

// target is the file to write: what to names, or a new one in it.
func target(to string, now time.Time) (string, error) {
	if info, err := os.Stat(to); err == nil && info.IsDir() {
		host, err := os.Hostname()
		if err != nil {
			return "", fmt.Errorf("cannot name the backup: %w", err)
		}
		to = filepath.Join(to, fmt.Sprintf("berth-%s-%s.tar.gz", strings.ReplaceAll(host, "/", "-"), now.UTC().Format("20060102T150405Z")))
	}
	path, err := filepath.Abs(to)
	if err != nil {
		return "", fmt.Errorf("cannot write the backup: %w", err)
	}
	if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("cannot write the backup: %s exists already", path)
	}
	return path, nil
}

// hostBackup is a backup of the whole host that is being written.
type hostBackup struct {
	db       *db.DB
	settings settings.Settings
	config   string
	keys     []byte         // of the secrets, under a passphrase; nil leaves them out
	done     map[app.ID]int // the deploy whose files are in the archive
	failed   map[app.ID]failure
}

// failure is why the files of an application are not in the archive.
type failure struct {
	deploy int // the newest then; another one is tried again
	err    error
}

// create writes the archive beside its place and moves it there when it is
// whole and on the disk.
func (b *hostBackup) create(ctx context.Context, path string) (m archive.Manifest, err error) {
	var random [8]byte
	_, _ = rand.Read(random[:]) // never fails, by its contract
	temp := path + ".part-" + hex.EncodeToString(random[:])
	f, err := os.OpenFile(temp, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return m, fmt.Errorf("cannot write the backup: %w", err)
	}
	defer func() {
		if err != nil {
			_ = os.Remove(temp)
		}
	}()
	m, err = b.write(ctx, f)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return m, fmt.Errorf("cannot write the backup: %w", err)
	}
	if err = unix.Renameat2(unix.AT_FDCWD, temp, unix.AT_FDCWD, path, unix.RENAME_NOREPLACE); err != nil {
		return m, fmt.Errorf("cannot write the backup: %w", err)
	}
	return m, syncDir(filepath.Dir(path))
}

func syncDir(path string) error {
	d, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// write writes the archive as a stream.
func (b *hostBackup) write(ctx context.Context, f io.Writer) (archive.Manifest, error) {
	host, err := os.Hostname()
	if err != nil {
		return archive.Manifest{}, err
	}
	store, err := files.Open(b.settings.DataDir, bundle.Limits{})
	if err != nil {
		return archive.Manifest{}, err
	}
	defer func() { _ = store.Close() }() // never fails
	out := bufio.NewWriterSize(f, 1<<20)
	sealed := archive.NewSealer(out)
	zip, err := gzip.NewWriterLevel(sealed, gzip.BestSpeed)
	if err != nil {
		return archive.Manifest{}, err
	}
	m := archive.Manifest{Berth: build.Version(), Made: time.Now().UTC(), Host: host}
	own := settings.ManagedFile(b.config)
	if !missing(own) {
		m.Format = archive.Format // an older berth would not know the part
	}
	w, err := archive.NewWriter(zip, m)
	if err != nil {
		return archive.Manifest{}, err
	}
	if err := addSettings(w, settingsName, b.config); err != nil {
		return archive.Manifest{}, err
	}
	if err := addSettings(w, managedName, own); err != nil {
		return archive.Manifest{}, err
	}
	if b.keys != nil {
		w.Begin(keysName)
		if err := w.Add(archive.Plain(0o600, int64(len(b.keys))), bytes.NewReader(b.keys)); err != nil {
			return archive.Manifest{}, err
		}
	}
	schema, err := b.addAll(ctx, w, store)
	if err != nil {
		return archive.Manifest{}, err
	}
	m, err = w.Close(schema)
	return m, errors.Join(err, zip.Close(), sealed.Close(), out.Flush())
}

// addSettings adds a settings file, if there is one.
func addSettings(w *archive.Writer, part, path string) error {
	content, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	w.Begin(part)
	return w.Add(archive.Plain(0o600, int64(len(content))), strings.NewReader(string(content)))
}

// addAll adds the files of every application, and then a copy of the database
// that tells of the same deploys: who was deployed meanwhile comes again.
func (b *hostBackup) addAll(ctx context.Context, w *archive.Writer, store *files.Store) (schema int, err error) {
	// For the copy: where there is room for it, and a boot removes what a crash
	// leaves.
	temp, err := os.MkdirTemp(filepath.Join(b.settings.DataDir, "staging"), "backup-")
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(temp)) }()
	copied := filepath.Join(temp, daemon.DatabaseName)
	var behind []app.ID
	for try := range backupTries {
		if try > 0 {
			select {
			case <-time.After(backupPause):
			case <-ctx.Done():
				return 0, ctx.Err()
			}
		}
		if err := b.addApps(ctx, w, store); err != nil {
			return 0, err
		}
		if err := errors.Join(os.RemoveAll(copied), b.db.Copy(ctx, copied)); err != nil {
			return 0, err
		}
		if behind, err = b.compare(ctx, w, copied); err != nil {
			return 0, err
		}
		if len(behind) == 0 {
			break
		}
	}
	for _, id := range behind {
		b.drop(w, id)
		b.failed[id] = failure{err: errors.New("it is deployed again and again; try again when it is not")}
	}
	return addDatabase(ctx, w, copied)
}

// addApps adds the applications whose newest deploy is not in the archive. One
// that cannot be added keeps no other from being in it: programs own their files,
// and can make them unreadable.
func (b *hostBackup) addApps(ctx context.Context, w *archive.Writer, store *files.Store) error {
	apps, err := b.db.Apps.Apps(ctx)
	if err != nil {
		return err
	}
	for _, a := range apps {
		before, err := newest(ctx, b.db, a.ID)
		if err != nil {
			return err
		}
		if b.tried(a.ID, before) {
			continue
		}
		delete(b.failed, a.ID)
		err = store.Export(ctx, w, a.ID, a.UID)
		switch {
		case err == nil:
			b.done[a.ID] = before
			continue
		case ctx.Err() != nil || w.Err() != nil: // the archive itself
			return errors.Join(err, w.Err())
		}
		b.drop(w, a.ID)
		if !errors.Is(err, files.ErrBusy) { // else it is deployed, and comes again
			b.failed[a.ID] = failure{before, err}
		}
	}
	return nil
}

// tried reports whether the archive has what there is to have of a deploy.
func (b *hostBackup) tried(id app.ID, deploy int) bool {
	done, is := b.done[id]
	failed, was := b.failed[id]
	return is && done == deploy || was && failed.deploy == deploy
}

// drop makes void what the archive has of an application.
func (b *hostBackup) drop(w *archive.Writer, id app.ID) {
	w.Void("apps/" + string(id))
	w.Void("rollback/" + string(id))
	delete(b.done, id)
}

// newest is the number of an application's newest deploy.
func newest(ctx context.Context, d *db.DB, id app.ID) (int, error) {
	all, err := d.History.Deploys(ctx, id)
	if err != nil || len(all) == 0 {
		return 0, err
	}
	return all[0].Number, nil
}

// compare returns the applications of which a copy of the database tells
// another deploy than is in the archive. Of those it does not tell, which were deleted
// meanwhile, what is there is void.
func (b *hostBackup) compare(ctx context.Context, w *archive.Writer, path string) (behind []app.ID, err error) {
	d, err := db.Open(ctx, path, time.Now)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, d.Close()) }()
	apps, err := d.Apps.Apps(ctx)
	if err != nil {
		return nil, err
	}
	for _, a := range apps {
		number, err := newest(ctx, d, a.ID)
		if err != nil {
			return nil, err
		}
		if !b.tried(a.ID, number) {
			behind = append(behind, a.ID)
		}
	}
	for _, id := range slices.Concat(slices.Collect(maps.Keys(b.done)), slices.Collect(maps.Keys(b.failed))) {
		if !slices.ContainsFunc(apps, func(a app.App) bool { return a.ID == id }) {
			b.drop(w, id)
			delete(b.failed, id)
		}
	}
	return behind, nil
}

// addDatabase adds the copy, proved to be whole.
func addDatabase(ctx context.Context, w *archive.Writer, path string) (int, error) {
	schema, err := db.Check(ctx, path)
	if err != nil {
		return 0, err
	}
	f, err := os.Open(path)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	w.Begin(daemon.DatabaseName)
	return schema, w.Add(archive.Plain(0o600, info.Size()), f)
}

// describe is an archive in one line.
func describe(m archive.Manifest) string {
	var apps, files int
	var bytes int64
	for _, p := range m.Parts {
		if p.Void {
			continue
		}
		if strings.HasPrefix(p.Name, "apps/") {
			apps++
		}
		files += p.Entries
		bytes += p.Bytes
	}
	return fmt.Sprintf("backup of %s from %s: %d applications, %d entries, %d bytes; berth %s, schema %d",
		screen.Word(m.Host), m.Made.Format(time.RFC3339), apps, files, bytes, screen.Word(m.Berth), m.Schema)
}
