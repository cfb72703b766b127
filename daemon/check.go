package daemon

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"

	"berth/cgroup"
	"berth/daemon/settings"
	"berth/db"
	"berth/files"
)

// Check looks whether this binary could serve with these settings, and
// changes nothing.
func Check(ctx context.Context, s settings.Settings) (proof, error) {
	if err := checkStored(ctx, s.DataDir); err != nil {
		return proof{}, err
	}
	if _, err := cgroup.Detect(); err != nil {
		return proof{}, err
	}
	if _, _, err := readTLS(s, slog.New(slog.DiscardHandler)); err != nil {
		return proof{}, err
	}
	return proof{Version: settings.Version(), DataDir: s.DataDir, Listen: s.Listen}, nil
}

// checkStored looks at a data directory, which serve would make if it did not exist.
func checkStored(ctx context.Context, dir string) error {
	if err := files.Reachable(dir); err != nil {
		return err
	}
	info, err := os.Stat(dir)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return nil
	case err != nil:
		return fmt.Errorf("cannot use the data directory: %w", err)
	case !info.IsDir():
		return fmt.Errorf("cannot use the data directory %s: it is not a directory", dir)
	}
	if err := db.Usable(ctx, filepath.Join(dir, DatabaseName)); err != nil {
		return cmp.Or(databaseProblem(dir, err), err)
	}
	return LostDatabase(ctx, dir)
}

// LostDatabase refuses a data directory whose database is gone or cannot be used, and
// changes nothing.
func LostDatabase(ctx context.Context, dir string) error {
	anew, err := db.New(ctx, filepath.Join(dir, DatabaseName))
	if err != nil {
		return databaseProblem(dir, err) // nil for a newer one and the like: Open reports those
	}
	if !anew {
		return nil
	}
	return goneProblem(dir)
}

// proof is what a self check says of itself (berth check --json).
type proof struct {
	Version string `json:"version"`
	DataDir string `json:"dataDir"`
	Listen  string `json:"listen"`

	file identity // of what was checked
}
