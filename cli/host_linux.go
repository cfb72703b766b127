package cli

import (
	"context"

	"github.com/spf13/cobra"

	"berth/cli/command"
	"berth/cli/host"
	"berth/daemon/backup"
	"berth/files/icon"
	"berth/proc"
	"berth/systemd/fdstore"
)

// Become makes this process one of the daemon's helpers, if its arguments, with the name
// of the program, ask for one. It returns in every other process.
func Become(args []string) {
	if len(args) == 2 && args[1] == proc.InitWord {
		proc.Init() // a program's first moments, where no helper can be executed from memory
	}
	if len(args) > 1 && args[1] == fdstore.Word {
		fdstore.Main() // keeps the programs' output while no daemon lives
	}
	if len(args) > 1 && args[1] == backup.DatabaseWord {
		backup.DatabaseMain() // copies a program's database as its user
	}
	if len(args) > 1 && args[1] == icon.Word {
		icon.Main() // decodes a picture as nobody
	}
}

// hostCommands are the commands of the host, which need Linux, and by their names those of
// the groups app and token that read its database.
func hostCommands(c *command.Caller) (all []*cobra.Command, stored map[string]*cobra.Command) {
	return host.Commands(c), host.Stored(c)
}

// hostHere is the berth that runs on this machine, nil if there is none or the user is not
// root.
func hostHere(ctx context.Context, c *command.Caller) (*command.Host, error) {
	return host.Here(ctx, c)
}
