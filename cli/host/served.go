package host

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"berth/app"
	"berth/app/exit"
	"berth/daemon"
	"berth/daemon/settings"
	"berth/db"
	"berth/files"
	"berth/web/local"
)

// openDatabase opens the database of the data directory, unless the daemon of this host
// serves another directory.
func openDatabase(ctx context.Context, s settings.Settings) (*db.DB, error) {
	if err := servedElsewhere(ctx, s); err != nil {
		return nil, err
	}
	return daemon.OpenDatabase(ctx, s.DataDir, s.KeyFiles()...)
}

// servedElsewhere refuses a data directory that is not the one which the daemon at the local
// socket serves: who names the wrong one would change, or read, what nobody serves. It makes
// nothing. A directory is fine where no daemon runs, and where another daemon has it.
func servedElsewhere(ctx context.Context, s settings.Settings) error {
	d, err := local.Ask(ctx, s.RuntimeDir)
	switch {
	case errors.Is(err, local.ErrNobody),
		errors.Is(err, fs.ErrPermission), // the database says to this user what the socket would say
		err == nil && sameDir(d.DataDir, s.DataDir),
		files.LockedBy(s.DataDir) != 0:
		return nil
	case err != nil:
		return exit.NewProblem(exit.Failure, fmt.Errorf("cannot find out which data directory is served: %w", err),
			"Hint: systemctl status berth tells how the daemon is; with BERTH_RUNTIME_DIR=/none the command asks no daemon.")
	}
	return exit.NewProblem(exit.Config,
		fmt.Errorf("cannot use the data directory %s: the berth that runs here (pid %d) serves %s", s.DataDir, d.PID, d.DataDir),
		fmt.Sprintf("Hint: --data-dir %s names that one. For a berth that does not run, set BERTH_RUNTIME_DIR=/none: the command then asks no daemon.", d.DataDir))
}

// tellDaemon lets the daemon that serves a data directory, if one does, look at an account
// that was changed in its database, and waits until the change holds for what runs.
func (c *caller) tellDaemon(ctx context.Context, s settings.Settings, id app.AccountID) error {
	d, err := local.Ask(ctx, s.RuntimeDir)
	if err == nil && sameDir(d.DataDir, s.DataDir) {
		err = local.Changed(ctx, s.RuntimeDir, id)
		if err == nil {
			return nil
		}
	} else if pid := files.LockedBy(s.DataDir); pid == 0 {
		return nil
	} else if err == nil || errors.Is(err, local.ErrNobody) {
		err = fmt.Errorf("the berth with the process id %d does not listen on %s", pid, local.Path(s.RuntimeDir))
	}
	return exit.NewProblem(exit.Failure, fmt.Errorf("the change is stored, and cannot reach what runs: %w", err),
		"Hint: systemctl restart berth brings it there; programs go on meanwhile.")
}

// sameDir reports whether two paths lead to one directory.
func sameDir(a, b string) bool {
	if a == b {
		return true
	}
	is, err := os.Stat(a)
	other, failed := os.Stat(b)
	return err == nil && failed == nil && os.SameFile(is, other)
}
