package host

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"

	"github.com/spf13/cobra"

	"berth/app"
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
		serve(c), install(c), upgrade(c), uninstall(c), check(c), setupCommand(c), setupURL(c), examine(c),
		group("account", "manage the accounts of this host",
			accountCreate(c), accountList(c), accountShow(c), accountPassword(c), accountSet(c), accountDisable(c), accountEnable(c), accountDelete(c)),
		group("app", "show and change what berth stores of an application", appEnv(c), appDeploys(c), appEvents(c)),
		group("backup", "back up and restore the whole host", backupCreate(c), backupVerify(c), backupRestore(c)),
		group("runtime", "install runtimes of any version beside the distribution's", runtimeInstall(c), runtimeList(c), runtimeRemove(c), runtimeUpgrade(c)),
		group("token", "manage the API tokens of an account", tokenCreate(c), tokenList(c), tokenRevoke(c)),
		audit(c),
		group("proxy", "show how visitors reach sites", proxySnippet(c), proxyCertificates(c)),
	}
}

// NewCommand returns a command without its work. Use is its name and what follows it
// on the line; least and most bound its arguments.
func NewCommand(use, short string, least, most int) *cobra.Command {
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
		d, err := openDatabase(ctx, s)
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

// findAccount returns the account that a person means by a name or an id.
func findAccount(ctx context.Context, d *db.DB, nameOrID string) (app.Account, error) {
	a, err := d.Accounts.Find(ctx, nameOrID)
	if app.KindOf(err) == app.NotFound {
		return a, settings.NewProblem(settings.ExitNotFound, err, "Hint: berth account list shows the accounts.")
	}
	return a, err
}

// onAccount is withDB for a command whose only argument names an account.
func (c *Caller) onAccount(
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
func (c *Caller) findApp(ctx context.Context, d *db.DB, idOrName string) (app.ID, error) {
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
		return "", settings.NewProblem(settings.ExitUsage, fmt.Errorf("%d applications are named %q: %s", len(found), idOrName, strings.Join(owners, ", ")),
			"Hint: name one of them by its id.")
	}
	fmt.Fprintf(c.Stderr, "%q is the application %s\n", idOrName, owners[0])
	return found[0].ID, nil
}

// onApp is withDB for a command whose first argument means an application, by its id or
// name.
func (c *Caller) onApp(
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

// print prints v as JSON, or the rows that table writes in columns.
func (c *Caller) print(asJSON bool, v any, table func(out io.Writer)) error {
	if asJSON {
		out := json.NewEncoder(c.Stdout)
		out.SetIndent("", "  ")
		return out.Encode(v)
	}
	out := tabwriter.NewWriter(c.Stdout, 0, 0, 2, ' ', 0)
	table(out)
	return out.Flush()
}

// record puts what the owner of the host did into the audit log. The change is
// made by then, so that a record which cannot be stored is said, and no failure.
func (c *Caller) record(ctx context.Context, d *db.DB, of app.AccountID, operation string, id app.ID, detail string) {
	r := app.AuditRecord{At: time.Now(), Actor: app.Owner, Account: of, Operation: operation, App: id, Detail: detail}
	if err := d.Audit.Record(context.WithoutCancel(ctx), r); err != nil {
		fmt.Fprintf(c.Stderr, "berth: it was done, but the audit log does not have it: %v\n", err)
	}
}

// ramFlag adds --ram; the second result tells whether it was given.
func ramFlag(cmd *cobra.Command) (ram *app.MB, given func() bool) {
	ram = new(app.MB)
	v := settings.RAM(ram)
	cmd.Flags().Var(v, "ram", "RAM in `MB`, or such as 2GB, for all applications of the account together")
	return ram, v.Given
}

func jsonFlag(cmd *cobra.Command) *bool { return toggleFlag(cmd, "json", "print JSON") }

func toggleFlag(cmd *cobra.Command, name, help string) *bool {
	wanted := new(bool)
	settings.AddToggle(cmd.Flags(), wanted, name, help)
	return wanted
}

func wordFlag(cmd *cobra.Command, name, help string) *string {
	word := new(string)
	cmd.Flags().Var(settings.Word(word), name, help)
	return word
}

// mustBeRoot refuses any other user what a command does, for why.
func mustBeRoot(what, why string, command string) error {
	if os.Geteuid() == 0 {
		return nil
	}
	return settings.NewProblem(settings.ExitPermission, fmt.Errorf("cannot %s: berth must run as root%s", what, why), "Hint: sudo berth "+command)
}

// unknownApp adds to an error that says so where applications are listed.
func unknownApp(err error) error {
	if app.KindOf(err) != app.NotFound {
		return err
	}
	return settings.NewProblem(settings.ExitNotFound, err, "Hint: berth account show ACCOUNT names its applications.")
}

// when is a time for people; the offset makes it unambiguous.
func when(t time.Time) string {
	if t.IsZero() {
		return "never"
	}
	return t.Format("2006-01-02 15:04:05 MST")
}

// printable quotes what would move a terminal's cursor, or hide: it may be an
// account holder's, and the terminal is root's.
func printable(s string) string {
	if strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return strconv.Quote(s)
	}
	return s
}
