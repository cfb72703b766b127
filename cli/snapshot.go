package cli

import (
	"context"
	"fmt"
	"io"
	"slices"

	"github.com/spf13/cobra"

	"berth/app/exit"
	"berth/cli/command"
	"berth/cli/screen"
	"berth/client"
	"berth/files/bundle"
)

// snapshotGroup is "berth app snapshot": the copies of one application in the nightly backup
// of the host.
func (c *caller) snapshotGroup() *cobra.Command {
	return command.Group("snapshot", "list and restore the nightly snapshots of an application", c.snapshotList(), c.snapshotRestore())
}

// snapshotList is "berth app snapshot ls APP".
func (c *caller) snapshotList() *cobra.Command {
	cmd := command.New("ls APP [--json]", "list the nightly snapshots of an application, the newest first", 1, 1)
	cmd.Aliases = []string{"list"}
	asJSON := jsonFlag[[]client.Snapshot](cmd)
	return c.onApp(cmd, 0, func(ctx context.Context, w *way, a client.App, _ []string) error {
		all, err := w.Snapshots(ctx, a)
		if err != nil {
			return err
		}
		return c.Print(*asJSON, all, func(out io.Writer) {
			fmt.Fprintln(out, "SNAPSHOT\tMADE\tSIZE")
			for _, s := range all {
				fmt.Fprintf(out, "%s\t%s\t%s\n", screen.Word(s.Name), command.When(s.Date), bundle.SizeText(s.Size))
			}
		})
	})
}

// snapshotRestore is "berth app snapshot restore APP [SNAPSHOT]".
func (c *caller) snapshotRestore() *cobra.Command {
	cmd := command.New("restore APP [SNAPSHOT] [--with-variables] [--as-new] [--yes] [--json]",
		"make the files of an application what they were in a nightly snapshot, by default the newest, or make a new application of it", 1, 2)
	withVariables := command.Toggle(cmd, "with-variables", "bring the environment variables of the snapshot back too")
	asNew := command.Toggle(cmd, "as-new", "make a new application of it, and leave this one as it is")
	yes := command.Toggle(cmd, "yes", "do not ask for the application's name")
	asJSON := jsonFlag[deployLine](cmd)
	c.onApp(cmd, 0, func(ctx context.Context, w *way, a client.App, rest []string) error {
		s, err := w.snapshot(ctx, a, rest)
		if err != nil {
			return err
		}
		d := &deployment{caller: c, way: w, asJSON: *asJSON}
		if !*asNew {
			d.app = &a
			if !*yes {
				err := c.confirm(a, "restore", fmt.Sprintf("This replaces all files of %s (%s) by those of %s, also those that its program made since.",
					screen.Word(a.Name), screen.Word(a.ID), command.When(s.Date)))
				if err != nil {
					return err
				}
			}
			if err := d.newest(ctx); err != nil {
				return err
			}
		}
		d.show = newProgress(c, *asJSON)
		defer d.show.end()
		done, err := w.Deploy(ctx, client.Upload{App: &a, Restore: !*asNew, Env: *withVariables, Snapshot: s.Name, Each: d.each})
		return d.conclude(ctx, done, err)
	})
	cmd.ValidArgsFunction = c.completeSnapshots
	return cmd
}

// snapshot returns the snapshot of a name, or the newest.
func (w *way) snapshot(ctx context.Context, a client.App, name []string) (client.Snapshot, error) {
	all, err := w.Snapshots(ctx, a)
	if err != nil {
		return client.Snapshot{}, err
	}
	if len(all) == 0 {
		return client.Snapshot{}, exit.NewProblem(exit.NotFound, fmt.Errorf("%s has no snapshot", screen.Word(a.ID)),
			"Hint: they come with the backup of the host, which its administrator sets up; berth app backup make "+screen.Word(a.ID)+" makes a backup of your own.")
	}
	if len(name) == 0 {
		return all[0], nil
	}
	i := slices.IndexFunc(all, func(s client.Snapshot) bool { return s.Name == name[0] })
	if i < 0 {
		return client.Snapshot{}, exit.NewProblem(exit.NotFound, fmt.Errorf("%s has no snapshot %q", screen.Word(a.ID), name[0]),
			"Hint: berth app snapshot ls "+screen.Word(a.ID)+" lists them.")
	}
	return all[i], nil
}

// completeSnapshots completes an application, and then its snapshots.
func (c *caller) completeSnapshots(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) != 1 {
		return c.completeApps(cmd, args, "")
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), completionTime)
	defer cancel()
	w, a, err := c.find(ctx, cmd, args[0])
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	defer w.Close()
	all, _ := w.Snapshots(ctx, a) // none where they cannot be read
	var words []string
	for _, s := range all {
		words = append(words, cobra.CompletionWithDesc(screen.Word(s.Name), bundle.SizeText(s.Size)))
	}
	return words, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveKeepOrder
}
