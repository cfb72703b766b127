package host

import (
	"context"
	"errors"
	"io"

	"github.com/spf13/cobra"

	"berth/daemon"
	"berth/daemon/settings"
	"berth/db"
)

// Caller is what a command knows of the process around it.
type Caller struct {
	Args           []string // of the whole command line
	Getenv         func(string) string
	Stdin          io.Reader
	Stdout, Stderr io.Writer

	// Then is what a command leaves to be done when the command line is gone: a
	// daemon does not keep 250 flags in memory for its life.
	Then func(context.Context) error
}

// Commands returns the commands of the host, in the order of the help text. A
// command of the list that has no RunE is a group of others.
func Commands(c *Caller) []*cobra.Command {
	return []*cobra.Command{
		serve(c), install(c), uninstall(c), check(c), setupURL(c), examine(c),
		group("account", "manage the accounts of this host",
			accountCreate(c), accountList(c), accountShow(c), accountPassword(c), accountSet(c), accountDisable(c), accountEnable(c), accountDelete(c)),
		group("app", "show and change what berth stores of an application", appEnv(c), appDeploys(c), appEvents(c)),
		group("backup", "back up and restore the whole host", backupCreate(c), backupVerify(c), backupRestore(c)),
		group("token", "manage the API tokens of an account", tokenCreate(c), tokenList(c), tokenRevoke(c)),
		audit(c),
		group("proxy", "show how visitors reach sites", proxySnippet(c), proxyCertificates(c)),
	}
}

// command returns a command without its work. Use is its name and what follows it
// on the line; least and most bound its arguments.
func command(use, short string, least, most int) *cobra.Command {
	return &cobra.Command{
		Use: use, Short: short, DisableFlagsInUseLine: true, ValidArgsFunction: cobra.NoFileCompletions,
		Args: func(_ *cobra.Command, args []string) error {
			switch {
			case len(args) < least:
				return misuse("an argument is missing")
			case len(args) > most:
				return misuse("unexpected argument %q", args[most])
			}
			return nil
		},
	}
}

func group(name, short string, members ...*cobra.Command) *cobra.Command {
	g := &cobra.Command{Use: name, Short: short, DisableFlagsInUseLine: true}
	g.AddCommand(members...)
	return g
}

// misuse is an error in how the command was called; its usage goes with it.
func misuse(format string, args ...any) error { return settings.Misused(format, args...) }

// withSettings lets a command read the settings, by flags for those that only names
// or for all, and do its work with them and its arguments.
func (c *Caller) withSettings(
	cmd *cobra.Command, do func(context.Context, settings.Settings, []string) error, only ...string,
) *cobra.Command {
	from := c.settingFlags(cmd, only...)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		s, err := from.Load(c.Getenv)
		if err != nil {
			return err
		}
		return do(cmd.Context(), s, args)
	}
	return cmd
}

// withDB is withSettings for a command that works on the database of the data
// directory; more names settings beside data_dir.
func (c *Caller) withDB(
	cmd *cobra.Command, do func(context.Context, *db.DB, settings.Settings, []string) error, more ...string,
) *cobra.Command {
	return c.withSettings(cmd, func(ctx context.Context, s settings.Settings, args []string) (err error) {
		d, err := daemon.OpenDatabase(ctx, s.DataDir)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, d.Close()) }()
		return do(ctx, d, s, args)
	}, append([]string{"data_dir"}, more...)...)
}

// settingFlags adds the flags of settings, with what a shell completes them to.
func (c *Caller) settingFlags(cmd *cobra.Command, only ...string) *settings.Flags {
	from := settings.AddFlags(cmd.Flags(), only...)
	choices(cmd, settings.Choices())
	directories(cmd, "data-dir")
	_ = cmd.MarkFlagFilename("config", "toml") // it is there
	return from
}
