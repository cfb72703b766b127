package host

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"berth/app"
	"berth/app/exit"
	"berth/cli/command"
	"berth/cli/screen"
	"berth/daemon/settings"
	"berth/db"
	"berth/host/account"
)

func accountCreate(c *caller) *cobra.Command {
	cmd := command.New("create NAME --ram MB [--data-dir DIR] [flags]", "create an account and print its id", 1, 1)
	ram, given := ramFlag(cmd)
	limits := limitFlags(cmd)
	return c.withDB(cmd, func(ctx context.Context, d *db.DB, _ settings.Settings, args []string) error {
		if !given() {
			return exit.Misused("the flag --ram is missing: how many MB may its applications have together?")
		}
		a, err := account.NewAccount(args[0], *ram)
		if err == nil {
			err = account.Change(&a, 0, limits())
		}
		if app.KindOf(err) == app.Invalid {
			return exit.Misused("%w", err)
		}
		if a, err = d.Accounts.CreateAccount(ctx, a); err != nil {
			return err
		}
		c.record(ctx, d, a.ID, "account.create", "", fmt.Sprintf("account=%s ramMB=%d%s", a.Name, a.TotalRAM, auditLimits(a.Limits)))
		_, err = fmt.Fprintln(c.Stdout, a.ID)
		return err
	})
}

// limitFlags adds the flags of an account's limits; the result says which were given.
func limitFlags(cmd *cobra.Command) func() app.AccountChange {
	disk := new(app.MB)
	diskFlag := settings.Disk(disk)
	cmd.Flags().Var(diskFlag, "disk", "disk space in `MB`, or such as 2GB, of all its files and backups together; 0: no limit")
	counts := []struct {
		name, help string
		to         *int
		set        func(c *app.AccountChange, n *int)
	}{
		{"apps", "`N` applications at most; 0: no limit", new(int), func(c *app.AccountChange, n *int) { c.Apps = n }},
		{"cpu", "`PERCENT` of one processor that all its programs together may use; 0: no limit", new(int), func(c *app.AccountChange, n *int) { c.CPU = n }},
		{"builds", "`N` builds at once at most, the others wait; 0: no limit", new(int), func(c *app.AccountChange, n *int) { c.Builds = n }},
		{"backups", "`N` backups of its applications that are kept at most; 0: no limit", new(int), func(c *app.AccountChange, n *int) { c.Backups = n }},
	}
	for _, f := range counts {
		cmd.Flags().IntVar(f.to, f.name, 0, f.help)
	}
	return func() (c app.AccountChange) {
		if diskFlag.Given() {
			c.Disk = disk
		}
		for _, f := range counts {
			if cmd.Flags().Changed(f.name) {
				f.set(&c, f.to)
			}
		}
		return c
	}
}

// auditLimits are the limits of an account in an audit record.
func auditLimits(l app.Limits) string {
	if l == (app.Limits{}) {
		return ""
	}
	return fmt.Sprintf(" diskMB=%d apps=%d cpu=%d builds=%d backups=%d", l.Disk, l.Apps, l.CPU, l.Builds, l.Backups)
}

// accountView is an account as it is printed; the JSON is for programs, so
// that its fields only ever become more.
type accountView struct {
	ID           app.AccountID `json:"id"`
	Name         string        `json:"name"`
	TotalRAM     app.MB        `json:"totalRamMb"`
	UsedRAM      app.MB        `json:"ramUsedMb"`
	Applications []app.ID      `json:"applications"`
	Tokens       int           `json:"tokens"`
	Plan         string        `json:"plan"`
	Locale       string        `json:"locale"`
	Disabled     bool          `json:"disabled"`
	CreatedAt    time.Time     `json:"createdAt"`
	Limits       limitsView    `json:"limits"`
	Suspended    bool          `json:"suspended"`
	SuspendedFor string        `json:"suspendedFor"` // "" when nobody said
}

// limitsView are the limits of an account; null is no limit.
type limitsView struct {
	Disk    *app.MB `json:"diskMb"`
	Apps    *int    `json:"applications"`
	CPU     *int    `json:"cpuPercent"`
	Builds  *int    `json:"builds"`
	Backups *int    `json:"backups"`
}

func viewLimits(l app.Limits) limitsView {
	return limitsView{limitOf(l.Disk), limitOf(l.Apps), limitOf(l.CPU), limitOf(l.Builds), limitOf(l.Backups)}
}

func limitOf[T comparable](limit T) *T {
	var none T
	if limit == none {
		return nil
	}
	return &limit
}

// limitText is a limit for people.
func limitText[T any](limit *T, unit string) string {
	if limit == nil {
		return "no limit"
	}
	return fmt.Sprint(*limit) + unit
}

func viewAccounts(ctx context.Context, d *db.DB, accounts []app.Account) ([]accountView, error) {
	apps, err := d.Apps.Apps(ctx)
	if err != nil {
		return nil, err
	}
	views := make([]accountView, 0, len(accounts))
	for _, a := range accounts {
		tokens, err := d.Accounts.Tokens(ctx, a.ID)
		if err != nil {
			return nil, err
		}
		used, err := d.Accounts.SumRAM(ctx, a.ID)
		if err != nil {
			return nil, err
		}
		views = append(views, accountView{
			a.ID, a.Name, a.TotalRAM, used, idsOf(apps, a.ID), len(tokens), a.Plan, a.Locale, a.Disabled, a.CreatedAt, viewLimits(a.Limits),
			a.Suspended.On, a.Suspended.Why,
		})
	}
	return views, nil
}

func idsOf(apps []app.App, owner app.AccountID) []app.ID {
	ids := []app.ID{} // an empty list in JSON, not null
	for _, a := range apps {
		if a.Account == owner {
			ids = append(ids, a.ID)
		}
	}
	return ids
}

func (v accountView) state() string {
	switch {
	case v.Suspended && v.Disabled:
		return "suspended, disabled"
	case v.Suspended:
		return "suspended"
	case v.Disabled:
		return "disabled"
	}
	return "enabled"
}

func accountList(c *caller) *cobra.Command {
	cmd := command.New("list [--json] [--data-dir DIR]", "list the accounts", 0, 0)
	cmd.Aliases = []string{"ls"}
	asJSON := command.JSON(cmd)
	return c.withDB(cmd, func(ctx context.Context, d *db.DB, _ settings.Settings, _ []string) error {
		accounts, err := d.Accounts.Accounts(ctx)
		if err != nil {
			return err
		}
		views, err := viewAccounts(ctx, d, accounts)
		if err != nil {
			return err
		}
		return c.Print(*asJSON, views, func(out io.Writer) {
			fmt.Fprintln(out, "ID\tNAME\tRAM\tASSIGNED\tAPPS\tPLAN\tSTATE")
			for _, v := range views {
				apps := strconv.Itoa(len(v.Applications))
				if v.Limits.Apps != nil {
					apps += " of " + strconv.Itoa(*v.Limits.Apps)
				}
				fmt.Fprintf(out, "%d\t%s\t%d MB\t%d MB\t%s\t%s\t%s\n", v.ID, v.Name, v.TotalRAM, v.UsedRAM, apps, v.Plan, v.state())
			}
		})
	})
}

func accountShow(c *caller) *cobra.Command {
	cmd := command.New("show ACCOUNT [--json] [--data-dir DIR]", "show one account", 1, 1)
	asJSON := command.JSON(cmd)
	return c.onAccount(cmd, func(ctx context.Context, d *db.DB, _ settings.Settings, a app.Account) error {
		views, err := viewAccounts(ctx, d, []app.Account{a})
		if err != nil {
			return err
		}
		v := views[0]
		return c.Print(*asJSON, v, func(out io.Writer) {
			fmt.Fprintf(out, "name\t%s\nid\t%d\nRAM\t%d MB, %d MB assigned\n", v.Name, v.ID, v.TotalRAM, v.UsedRAM)
			fmt.Fprintf(out, "applications\t%s\ntokens\t%d\n", cmp.Or(joinIDs(v.Applications), "none"), v.Tokens)
			l := v.Limits
			fmt.Fprintf(out, "disk\t%s\napplications at most\t%s\nprocessor\t%s\n", limitText(l.Disk, " MB"), limitText(l.Apps, ""), limitText(l.CPU, " % of one"))
			fmt.Fprintf(out, "builds at once\t%s\nbackups\t%s\n", limitText(l.Builds, ""), limitText(l.Backups, ""))
			if v.SuspendedFor != "" {
				fmt.Fprintf(out, "suspended for\t%s\n", screen.Word(v.SuspendedFor))
			}
			fmt.Fprintf(out, "plan\t%s\nlocale\t%s\nstate\t%s\ncreated\t%s\n", v.Plan, v.Locale, v.state(), command.When(v.CreatedAt))
		})
	})
}

func joinIDs(ids []app.ID) string {
	texts := make([]string, len(ids))
	for i, id := range ids {
		texts[i] = string(id)
	}
	return strings.Join(texts, ", ")
}

func accountSet(c *caller) *cobra.Command {
	cmd := command.New("set ACCOUNT [--ram MB] [--plan PLAN] [--locale LOCALE] [--admin true|false] [--data-dir DIR] [flags]",
		"change the RAM, limits, plan or locale of an account, or make it an administrator", 1, 1)
	ram, given := ramFlag(cmd)
	limits := limitFlags(cmd)
	plan := command.Word(cmd, "plan", "`PLAN` that clients show as a label: "+strings.Join(account.Plans, ", "))
	locale := command.Word(cmd, "locale", "`LOCALE` of the messages that the account sees: "+strings.Join(app.Locales, ", "))
	admin := command.Word(cmd, "admin", "`BOOL`: true makes the account an administrator, false makes it an ordinary account")
	command.Choices(cmd, map[string][]string{"plan": account.Plans, "locale": app.Locales, "admin": {"true", "false"}})
	return c.onAccount(cmd, func(ctx context.Context, d *db.DB, s settings.Settings, a app.Account) error {
		change := limits()
		if given() {
			change.RAM = ram
		}
		if change == (app.AccountChange{}) && *plan == "" && *locale == "" && *admin == "" {
			return exit.Misused("nothing to set: give --ram, --disk, --apps, --cpu, --builds, --backups, --plan, --locale or --admin")
		}
		if *admin != "" && !settings.SetToggle(&a.Admin, *admin) {
			return exit.Misused("bad value %q for --admin: expected true or false", *admin)
		}
		wanted := a.Admin
		after, err := d.Accounts.UpdateAccount(ctx, a.ID, func(a *app.Account, assigned app.MB) error {
			var planErr, localeErr error
			if *admin != "" {
				a.Admin = wanted
			}
			if *plan != "" {
				a.Plan, planErr = account.CheckPlan(*plan)
			}
			if *locale != "" {
				a.Locale, localeErr = *locale, account.CheckLocale(*locale)
			}
			if bad := cmp.Or(planErr, localeErr); bad != nil {
				return exit.Misused("%w", bad)
			}
			err := account.Change(a, assigned, change)
			if app.KindOf(err) == app.Invalid {
				return exit.Misused("%w", err)
			}
			return err
		})
		if err != nil {
			return err
		}
		c.record(ctx, d, a.ID, "account.set", "", fmt.Sprintf("account=%s ramMB=%d plan=%s locale=%s admin=%t%s",
			a.Name, after.TotalRAM, after.Plan, after.Locale, after.Admin, auditLimits(after.Limits)))
		return c.tellDaemon(ctx, s, a.ID)
	})
}

func accountDisable(c *caller) *cobra.Command {
	cmd := command.New("disable ACCOUNT [--data-dir DIR]", "refuse the tokens of an account (403) and its password; its programs keep running", 1, 1)
	return setDisabled(c, cmd, true, "account.disable", "its tokens are answered with 403 from now on; its programs keep running")
}

func accountEnable(c *caller) *cobra.Command {
	cmd := command.New("enable ACCOUNT [--data-dir DIR]", "accept the tokens and the password of an account again", 1, 1)
	return setDisabled(c, cmd, false, "account.enable", "its tokens work again")
}

func setDisabled(c *caller, cmd *cobra.Command, disabled bool, operation, note string) *cobra.Command {
	return c.onAccount(cmd, func(ctx context.Context, d *db.DB, _ settings.Settings, a app.Account) error {
		_, err := d.Accounts.UpdateAccount(ctx, a.ID, func(a *app.Account, _ app.MB) error {
			a.Disabled = disabled
			return nil
		})
		if err == nil {
			c.record(ctx, d, a.ID, operation, "", "account="+a.Name)
			c.Tell("account %q: %s", a.Name, note)
		}
		return err
	})
}

func accountSuspend(c *caller) *cobra.Command {
	cmd := command.New("suspend ACCOUNT [--reason TEXT] [--data-dir DIR]", "stop the programs of an account and refuse its tokens and its password; everything is kept", 1, 1)
	reason := command.Word(cmd, "reason", "`TEXT` that the account's owner reads when it is refused")
	return c.onAccount(cmd, func(ctx context.Context, d *db.DB, s settings.Settings, a app.Account) error {
		_, err := d.Accounts.UpdateAccount(ctx, a.ID, func(a *app.Account, _ app.MB) error {
			err := account.Suspend(a, *reason)
			if app.KindOf(err) == app.Invalid {
				return exit.Misused("%w", err)
			}
			return err
		})
		if err != nil {
			return err
		}
		c.record(ctx, d, a.ID, "account.suspend", "", fmt.Sprintf("account=%s reason=%q", a.Name, *reason))
		if err := c.tellDaemon(ctx, s, a.ID); err != nil {
			return err
		}
		c.Tell("account %q is suspended: its programs do not run, and everything of it is kept", a.Name)
		return nil
	})
}

func accountUnsuspend(c *caller) *cobra.Command {
	cmd := command.New("unsuspend ACCOUNT [--data-dir DIR]", "end the suspension of an account; what was online starts again", 1, 1)
	return c.onAccount(cmd, func(ctx context.Context, d *db.DB, s settings.Settings, a app.Account) error {
		after, err := d.Accounts.UpdateAccount(ctx, a.ID, func(a *app.Account, _ app.MB) error {
			a.Suspended = app.Suspension{}
			return nil
		})
		if err != nil {
			return err
		}
		c.record(ctx, d, a.ID, "account.unsuspend", "", "account="+a.Name)
		if err := c.tellDaemon(ctx, s, a.ID); err != nil {
			return err
		}
		c.Tell("account %q is not suspended any more: what was online starts again", a.Name)
		if after.Disabled {
			c.Tell("account %q is disabled as well: berth account enable %s lets it be used", a.Name, a.Name)
		}
		return nil
	})
}

func tokenCreate(c *caller) *cobra.Command {
	cmd := command.New("create ACCOUNT [--label LABEL] [--data-dir DIR]", "create a token for the API and print it, once only", 1, 1)
	label := command.Word(cmd, "label", "`LABEL` that distinguishes the token, such as the name of a machine")
	return c.onAccount(cmd, func(ctx context.Context, d *db.DB, _ settings.Settings, a app.Account) error {
		text, made, err := account.New(d.Accounts).IssueToken(ctx, app.Token{Account: a.ID, Label: *label})
		if app.KindOf(err) == app.Invalid {
			return exit.Misused("%w", err)
		}
		if err != nil {
			return err
		}
		c.record(ctx, d, a.ID, "token.create", "", fmt.Sprintf("account=%s token=%d label=%q", a.Name, made.ID, made.Label))
		if a.Disabled {
			c.Tell("account %q is disabled: the token works once berth account enable %s was called", a.Name, a.Name)
		}
		_, err = fmt.Fprintln(c.Stdout, text)
		return err
	})
}

// tokenView is a token as it is printed.
type tokenView struct {
	ID        int64      `json:"id"`
	Label     string     `json:"label"`
	CreatedAt time.Time  `json:"createdAt"`
	LastUsed  *time.Time `json:"lastUsed"` // null: never
	Unused    bool       `json:"unused"`   // nobody has used it for 90 days, or since it was made
}

func tokenList(c *caller) *cobra.Command {
	cmd := command.New("list ACCOUNT [--json] [--data-dir DIR]", "list the tokens of an account", 1, 1)
	cmd.Aliases = []string{"ls"}
	asJSON := command.JSON(cmd)
	return c.onAccount(cmd, func(ctx context.Context, d *db.DB, _ settings.Settings, a app.Account) error {
		tokens, err := d.Accounts.Tokens(ctx, a.ID)
		if err != nil {
			return err
		}
		views, now := make([]tokenView, len(tokens)), time.Now()
		for i, t := range tokens {
			views[i] = tokenView{ID: t.ID, Label: t.Label, CreatedAt: t.CreatedAt, Unused: t.Unused(now)}
			if !t.LastUsed.IsZero() {
				views[i].LastUsed = &t.LastUsed
			}
		}
		return c.Print(*asJSON, views, func(out io.Writer) {
			fmt.Fprintln(out, "ID\tLABEL\tCREATED\tLAST USED")
			for _, t := range tokens {
				fmt.Fprintf(out, "%d\t%s\t%s\t%s\n", t.ID, cmp.Or(screen.Word(t.Label), "-"), command.When(t.CreatedAt), command.LastUse(t.LastUsed, t.Unused(now)))
			}
		})
	})
}

func tokenRevoke(c *caller) *cobra.Command {
	cmd := command.New("revoke TOKENID... [--data-dir DIR]", "revoke tokens; berth refuses them from the next request on", 1, math.MaxInt)
	cmd.Aliases, cmd.ValidArgsFunction = []string{"rm"}, c.tokens
	return c.withDB(cmd, func(ctx context.Context, d *db.DB, _ settings.Settings, args []string) error {
		ids := make([]int64, len(args))
		for i, arg := range args { // all of them, before the first is revoked
			id, err := strconv.ParseInt(arg, 10, 64)
			if err != nil {
				return exit.Misused("%q is not the id of a token, which is a number: berth token list shows it", arg)
			}
			ids[i] = id
		}
		for _, id := range ids {
			t, err := d.Accounts.Token(ctx, id)
			if err == nil {
				err = d.Accounts.DeleteToken(ctx, t.Account, id)
			}
			if app.KindOf(err) == app.NotFound {
				return exit.NewProblem(exit.NotFound, err, "Hint: berth token list ACCOUNT shows the tokens of an account.")
			}
			if err != nil {
				return err
			}
			c.record(ctx, d, t.Account, "token.revoke", "", fmt.Sprintf("token=%d label=%q", id, t.Label))
			c.Tell("token %d %q is revoked", id, t.Label)
		}
		return nil
	})
}
