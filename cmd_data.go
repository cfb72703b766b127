package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"berth/db"
)

// withDB parses the arguments, opens the database that the settings name, and
// runs do with both. set may hold more flags.
func (c *call) withDB(ctx context.Context, set *flag.FlagSet, least, most int, do func(*db.DB, Settings, []string) error) error {
	return c.withDBAnd(ctx, set, nil, least, most, do)
}

// withDBAnd is withDB with the flags of some more settings.
func (c *call) withDBAnd(ctx context.Context, set *flag.FlagSet, more []string, least, most int, do func(*db.DB, Settings, []string) error) (err error) {
	from := addSettingFlags(set, append([]string{"data_dir"}, more...)...)
	args, err := c.parse(set, least, most)
	if err != nil {
		return err
	}
	settings, err := from.load(c.getenv)
	if err != nil {
		return err
	}
	remembered, err := openDatabase(ctx, settings.DataDir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, remembered.Close()) }()
	return do(remembered, settings, args)
}

// openDatabase opens the database in dir, and makes dir when there is none:
// anybody may pass through it, to files that are their own, and nobody may list it.
func openDatabase(ctx context.Context, dir string) (*db.DB, error) {
	if err := refuseUnfinished(dir); err != nil {
		return nil, err
	}
	err := makeDataDir(dir)
	var opened *db.DB
	if err == nil {
		opened, err = db.Open(ctx, filepath.Join(dir, databaseName), time.Now)
	}
	if refused := cmp.Or(diskProblem(dir, err), newerProblem(err), databaseProblem(dir, err)); refused != nil {
		return nil, refused
	}
	if errors.Is(err, fs.ErrPermission) {
		return nil, &problem{
			exitPermission, fmt.Errorf("cannot use the data directory %s: permission denied", dir),
			"Hint: run the command as root, or name another directory with --data-dir.",
		}
	}
	return opened, err
}

func makeDataDir(dir string) error {
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
