package host

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"berth/app/exit"
	"berth/cli/command"
	"berth/cli/screen"
	"berth/daemon"
	"berth/daemon/backup"
	"berth/daemon/settings"
	"berth/files"
	"berth/files/archive"
	"berth/files/bundle"
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
	is, err := d.Seals(ctx)
	if err != nil {
		return err
	}
	sealed, err := d.Secrets(ctx)
	if err != nil {
		return err
	}
	store, err := files.Open(s.DataDir, bundle.Limits{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	c.copyDatabases(store)
	from := backup.Source{DB: d, DataDir: s.DataDir, Trees: store, Config: config, Managed: settings.ManagedFile(config)}
	if with {
		if from.Keys, err = askWrapped(c, daemon.Keys(s.DataDir, s.KeyFiles()...)); err != nil {
			return err
		}
	}
	m, missing, err := createArchive(ctx, from, path)
	if err != nil {
		return err
	}
	fmt.Fprintln(c.Stdout, path)
	c.Tell("%s\n%s", describe(m), secretsIn(is, sealed, with))
	return lacks(missing, c.Tell)
}

// lacks warns of each application that a backup has no files of, and is an error
// when there is one.
func lacks(missing []backup.Failure, tell func(format string, args ...any)) error {
	for _, f := range missing {
		tell("warning: the files of the application %s are not in the backup: %v", f.App, f.Err)
	}
	if len(missing) == 0 {
		return nil
	}
	return exit.NewProblem(exit.Incomplete, fmt.Errorf("the backup is written, but without the files of %d of the applications", len(missing)),
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

// createArchive writes the archive beside its place and moves it there when it is
// whole and on the disk.
func createArchive(ctx context.Context, from backup.Source, path string) (m archive.Manifest, missing []backup.Failure, err error) {
	var random [8]byte
	_, _ = rand.Read(random[:]) // never fails, by its contract
	temp := path + ".part-" + hex.EncodeToString(random[:])
	f, err := os.OpenFile(temp, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return m, nil, fmt.Errorf("cannot write the backup: %w", err)
	}
	defer func() {
		if err != nil {
			_ = os.Remove(temp)
		}
	}()
	m, missing, err = from.WriteArchive(ctx, f)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return m, nil, fmt.Errorf("cannot write the backup: %w", err)
	}
	if err = unix.Renameat2(unix.AT_FDCWD, temp, unix.AT_FDCWD, path, unix.RENAME_NOREPLACE); err != nil {
		return m, nil, fmt.Errorf("cannot write the backup: %w", err)
	}
	return m, missing, syncDir(filepath.Dir(path))
}

func syncDir(path string) error {
	d, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
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
