package host

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"berth/app"
	"berth/app/exit"
	"berth/cli/command"
	"berth/daemon/settings"
	"berth/db"
)

// caller is a Caller with what the commands of the host share.
type caller struct{ *command.Caller }

// Commands returns the commands of the host, in the order of the help text. A
// command of the list that has no RunE is a group of others.
func Commands(of *command.Caller) []*cobra.Command {
	c := &caller{of}
	return []*cobra.Command{
		serve(c), install(c), upgrade(c), uninstall(c), move(c), moveReceive(c), resume(c), check(c), setupCommand(c), setupURL(c), examine(c), plan(c),
		command.Group("account", "manage the accounts of this host",
			accountCreate(c), accountList(c), accountShow(c), accountPassword(c), accountFactors(c), accountReset(c), accountSet(c),
			accountDisable(c), accountEnable(c), accountSuspend(c), accountUnsuspend(c), accountDelete(c)),
		command.Group("key", "keep the key that seals the secrets in the database", keyShow(c), keyRotate(c), keyAdd(c)),
		command.Group("invite", "invite people by a link that works once", inviteCreate(c), inviteList(c), inviteRevoke(c)),
		command.Group("host-token", "manage the tokens by which a billing panel keeps accounts", hostTokenCreate(c), hostTokenList(c), hostTokenRevoke(c)),
		command.Group("backup", "back up and restore the whole host", backupRun(c), backupStatus(c), backupList(c), backupRehearse(c), backupPrune(c), backupKey(c),
			backupCreate(c), backupVerify(c), backupRestore(c)),
		command.Group("runtime", "install runtimes of any version beside the distribution's", runtimeInstall(c), runtimeList(c), runtimeRemove(c), runtimeUpgrade(c)),
		command.Group("cluster", "list the machines of the cluster on which programs run, empty one, or give one up", clusterNodes(c), clusterDrain(c), clusterForget(c)),
		command.Group("engine", "run the programs on this machine or on a Kubernetes cluster", engineMove(c), engineForget(c)),
		audit(c),
		command.Group("proxy", "show how visitors reach sites", proxySnippet(c), proxyCertificates(c)),
	}
}

// Stored returns, by their names, the commands of the groups app and token that read and
// change the database, also while no daemon runs: the first token is made before the first
// start, and a daemon that does not start is looked into.
func Stored(of *command.Caller) map[string]*cobra.Command {
	c := &caller{of}
	return map[string]*cobra.Command{
		"env": appEnv(c), "deploys": appDeploys(c), "events": appEvents(c),
		"create": tokenCreate(c), "list": tokenList(c), "revoke": tokenRevoke(c),
	}
}

// withSettings lets a command read the settings, by flags for those that only names
// or for all, and do its work with them and its arguments.
func (c *caller) withSettings(
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
func (c *caller) withDB(
	cmd *cobra.Command, do func(context.Context, *db.DB, settings.Settings, []string) error, more ...string,
) *cobra.Command {
	return c.withSettings(cmd, func(ctx context.Context, s settings.Settings, args []string) (err error) {
		d, err := openDatabase(ctx, s)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, d.Close()) }()
		return do(ctx, d, s, args)
	}, append([]string{"data_dir"}, more...)...)
}

// settingFlags adds the flags of settings, with what a shell completes them to.
func (c *caller) settingFlags(cmd *cobra.Command, only ...string) *settings.Flags {
	from := settings.AddFlags(cmd.Flags(), only...)
	command.Choices(cmd, settings.Choices())
	command.Directories(cmd, "data-dir")
	_ = cmd.MarkFlagFilename("config", "toml") // it is there
	return from
}

// findAccount returns the account that a person means by a name or an id.
func findAccount(ctx context.Context, d *db.DB, nameOrID string) (app.Account, error) {
	a, err := d.Accounts.Find(ctx, nameOrID)
	if app.KindOf(err) == app.NotFound {
		return a, exit.NewProblem(exit.NotFound, err, "Hint: berth account list shows the accounts.")
	}
	return a, err
}

// onAccount is withDB for a command whose only argument names an account.
func (c *caller) onAccount(
	cmd *cobra.Command, do func(context.Context, *db.DB, settings.Settings, app.Account) error, more ...string,
) *cobra.Command {
	cmd.ValidArgsFunction = c.accounts
	return c.withDB(cmd, func(ctx context.Context, d *db.DB, s settings.Settings, args []string) error {
		a, err := findAccount(ctx, d, args[0])
		if err != nil {
			return err
		}
		return do(ctx, d, s, a)
	}, more...)
}

// findApp returns the id of the application that a person means by its id or its name,
// and says which one a name was. What nobody has is taken for an id: it may be that of an
// application that is no more.
//
// Names are their owners': one may be like another's. So an id goes before every name, and
// a name that several have is refused.
func (c *caller) findApp(ctx context.Context, d *db.DB, idOrName string) (app.ID, error) {
	all, err := d.Apps.Apps(ctx)
	if err != nil {
		return "", err
	}
	var found []app.App
	for _, a := range all {
		if a.ID == app.ID(idOrName) {
			return a.ID, nil
		}
		if a.Name == idOrName {
			found = append(found, a)
		}
	}
	if len(found) == 0 {
		return app.ID(idOrName), nil
	}
	owners := make([]string, len(found))
	for i, a := range found {
		owner, err := d.Accounts.Account(ctx, a.Account)
		if err != nil {
			return "", err
		}
		owners[i] = fmt.Sprintf("%s (account %s)", a.ID, owner.Name)
	}
	if len(found) > 1 {
		return "", exit.NewProblem(exit.Usage, fmt.Errorf("%d applications are named %q: %s", len(found), idOrName, strings.Join(owners, ", ")),
			"Hint: name one of them by its id.")
	}
	c.Tell("%q is the application %s", idOrName, owners[0])
	return found[0].ID, nil
}

// onApp is withDB for a command whose first argument means an application, by its id or
// name.
func (c *caller) onApp(
	cmd *cobra.Command, do func(context.Context, *db.DB, settings.Settings, app.ID, []string) error,
) *cobra.Command {
	return c.withDB(cmd, func(ctx context.Context, d *db.DB, s settings.Settings, args []string) error {
		id, err := c.findApp(ctx, d, args[0])
		if err != nil {
			return err
		}
		return do(ctx, d, s, id, args[1:])
	})
}

// record puts what the owner of the host did into the audit log. The change is
// made by then, so that a record which cannot be stored is said, and no failure.
func (c *caller) record(ctx context.Context, d *db.DB, of app.AccountID, operation string, id app.ID, detail string) {
	r := app.AuditRecord{At: time.Now(), Actor: app.Owner, Account: of, Operation: operation, App: id, Detail: detail}
	if err := d.Audit.Record(context.WithoutCancel(ctx), r); err != nil {
		c.Tell("berth: it was done, but the audit log does not have it: %v", err)
	}
}

// ramFlag adds --ram; the second result tells whether it was given.
func ramFlag(cmd *cobra.Command) (ram *app.MB, given func() bool) {
	ram = new(app.MB)
	v := settings.RAM(ram)
	cmd.Flags().Var(v, "ram", "RAM in `MB`, or such as 2GB, for all applications of the account together")
	return ram, v.Given
}

// mustBeRoot refuses any other user what a command does, for why.
func mustBeRoot(what, why string, command string) error {
	if os.Geteuid() == 0 {
		return nil
	}
	return exit.NewProblem(exit.Permission, fmt.Errorf("cannot %s: berth must run as root%s", what, why), "Hint: sudo berth "+command)
}

// unknownApp adds to an error that says so where applications are listed.
func unknownApp(err error) error {
	if app.KindOf(err) != app.NotFound {
		return err
	}
	return exit.NewProblem(exit.NotFound, err, "Hint: berth account show ACCOUNT names its applications.")
}
