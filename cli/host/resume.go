package host

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"berth/app"
	"berth/app/exit"
	"berth/cli/command"
	"berth/cli/screen"
	"berth/daemon/mover"
	"berth/daemon/settings"
	"berth/db"
	"berth/files"
	"berth/web/local"
)

// resume is "resume": it ends the hold of the host.
func resume(c *caller) *cobra.Command {
	cmd := command.New("resume [--force] [--data-dir DIR]", "start the programs that this host holds after a restore or a move", 0, 0)
	force := command.Toggle(cmd, "force", "start them although they moved to another host, also if they run there")
	return c.withDB(cmd, func(ctx context.Context, d *db.DB, s settings.Settings, _ []string) error {
		if err := mustBeRoot("start the programs", ", for it decides for every account", "resume"); err != nil {
			return err
		}
		end, err := mover.Lock(s.DataDir, 0) // a move that is under way starts them elsewhere
		if err != nil {
			return exit.NewProblem(exit.Failure, fmt.Errorf("cannot start the programs: %w", err), "Hint: wait until berth move has ended, or end it.")
		}
		defer end()
		hold, held, err := d.Holds.HoldOf(ctx)
		switch {
		case err != nil:
			return err
		case !held:
			c.Tell("this host holds no programs")
			return nil
		case hold.Why == app.HoldMoved && !*force:
			return exit.NewProblem(exit.Failure, fmt.Errorf("cannot start the programs: they moved to %s on %s", screen.Word(hold.Peer), hold.At.UTC().Format("2006-01-02")),
				"Hint: stop berth there for good first; berth resume --force then starts them here, also if they run there.")
		}
		if err := d.Holds.DropHold(ctx); err != nil {
			return err
		}
		c.record(ctx, d, 0, "host.resume", "", fmt.Sprintf("why=%s peer=%q", hold.Why, hold.Peer))
		runs, err := c.tellHold(ctx, s)
		if err != nil {
			return err
		}
		if !runs {
			c.Tell("the programs are not held any more: those that were online start with berth")
			return nil
		}
		c.Tell("the programs are not held any more: those that were online start now")
		return nil
	})
}

// tellHold lets the daemon that serves a data directory, if one does, read the hold anew, and
// waits until nothing runs that is held. It reports whether a daemon does.
func (c *caller) tellHold(ctx context.Context, s settings.Settings) (runs bool, err error) {
	d, err := local.Ask(ctx, s.RuntimeDir)
	if err == nil && sameDir(d.DataDir, s.DataDir) {
		if err = local.HoldChanged(ctx, s.RuntimeDir); err == nil {
			return true, nil
		}
	} else if pid := files.LockedBy(s.DataDir); pid == 0 {
		return false, nil
	} else if err == nil || errors.Is(err, local.ErrNobody) {
		err = fmt.Errorf("the berth with the process id %d does not listen on %s", pid, local.Path(s.RuntimeDir))
	}
	return true, exit.NewProblem(exit.Failure, fmt.Errorf("the change is stored, and cannot reach what runs: %w", err),
		"Hint: systemctl restart berth brings it there.")
}
