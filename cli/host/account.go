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
	"berth/daemon/settings"
	"berth/db"
	"berth/host/account"
)

func accountCreate(c *Caller) *cobra.Command {
	cmd := NewCommand("create NAME --ram MB [--data-dir DIR]", "create an account and print its id", 1, 1)
	ram, given := ramFlag(cmd)
	return c.withDB(cmd, func(ctx context.Context, d *db.DB, _ settings.Settings, args []string) error {
		if !given() {
			return misuse("the flag --ram is missing: how many MB may its applications have together?")
		}
		a, err := account.NewAccount(args[0], *ram)
		if app.KindOf(err) == app.Invalid {
			return misuse("%w", err)
		}
		if a, err = d.Accounts.CreateAccount(ctx, a); err != nil {
			return err
		}
		c.record(ctx, d, a.ID, "account.create", "", fmt.Sprintf("account=%s ramMB=%d", a.Name, a.TotalRAM))
		_, err = fmt.Fprintln(c.Stdout, a.ID)
		return err
	})
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
			a.ID, a.Name, a.TotalRAM, used, idsOf(apps, a.ID), len(tokens), a.Plan, a.Locale, a.Disabled, a.CreatedAt,
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
	if v.Disabled {
		return "disabled"
	}
	return "enabled"
}

func accountList(c *Caller) *cobra.Command {
	cmd := NewCommand("list [--json] [--data-dir DIR]", "list the accounts", 0, 0)
	cmd.Aliases = []string{"ls"}
	asJSON := jsonFlag(cmd)
	return c.withDB(cmd, func(ctx context.Context, d *db.DB, _ settings.Settings, _ []string) error {
		accounts, err := d.Accounts.Accounts(ctx)
		if err != nil {
			return err
		}
		views, err := viewAccounts(ctx, d, accounts)
		if err != nil {
			return err
		}
		return c.print(*asJSON, views, func(out io.Writer) {
			fmt.Fprintln(out, "ID\tNAME\tRAM\tASSIGNED\tAPPS\tPLAN\tSTATE")
			for _, v := range views {
				fmt.Fprintf(out, "%d\t%s\t%d MB\t%d MB\t%d\t%s\t%s\n", v.ID, v.Name, v.TotalRAM, v.UsedRAM, len(v.Applications), v.Plan, v.state())
			}
		})
	})
}

func accountShow(c *Caller) *cobra.Command {
	cmd := NewCommand("show ACCOUNT [--json] [--data-dir DIR]", "show one account", 1, 1)
	asJSON := jsonFlag(cmd)
	return c.onAccount(cmd, func(ctx context.Context, d *db.DB, _ settings.Settings, a app.Account) error {
		views, err := viewAccounts(ctx, d, []app.Account{a})
		if err != nil {
			return err
		}
		v := views[0]
		return c.print(*asJSON, v, func(out io.Writer) {
			fmt.Fprintf(out, "name\t%s\nid\t%d\nRAM\t%d MB, %d MB assigned\n", v.Name, v.ID, v.TotalRAM, v.UsedRAM)
			fmt.Fprintf(out, "applications\t%s\ntokens\t%d\n", cmp.Or(joinIDs(v.Applications), "none"), v.Tokens)
			fmt.Fprintf(out, "plan\t%s\nlocale\t%s\nstate\t%s\ncreated\t%s\n", v.Plan, v.Locale, v.state(), when(v.CreatedAt))
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

func accountSet(c *Caller) *cobra.Command {
	cmd := NewCommand("set ACCOUNT [--ram MB] [--plan PLAN] [--locale LOCALE] [--admin true|false] [--data-dir DIR]",
		"change the RAM, plan or locale of an account, or make it an administrator", 1, 1)
	ram, given := ramFlag(cmd)
	plan := wordFlag(cmd, "plan", "`PLAN` that clients show as a label: "+strings.Join(account.Plans, ", "))
	locale := wordFlag(cmd, "locale", "`LOCALE` of the messages that the account sees: "+strings.Join(app.Locales, ", "))
	admin := wordFlag(cmd, "admin", "`BOOL`: true makes the account an administrator, false makes it an ordinary account")
	choices(cmd, map[string][]string{"plan": account.Plans, "locale": app.Locales, "admin": {"true", "false"}})
	return c.onAccount(cmd, func(ctx context.Context, d *db.DB, _ settings.Settings, a app.Account) error {
		if !given() && *plan == "" && *locale == "" && *admin == "" {
			return misuse("nothing to set: give --ram, --plan, --locale or --admin")
		}
		if *admin != "" && !settings.SetToggle(&a.Admin, *admin) {
			return misuse("bad value %q for --admin: expected true or false", *admin)
		}
		wanted := a.Admin
		after, err := d.Accounts.UpdateAccount(ctx, a.ID, func(a *app.Account, assigned app.MB) error {
			var planErr, localeErr, ramErr error
			if *admin != "" {
				a.Admin = wanted
			}
			if *plan != "" {
				a.Plan, planErr = account.CheckPlan(*plan)
			}
			if *locale != "" {
				a.Locale, localeErr = *locale, account.CheckLocale(*locale)
			}
			if given() {
				a.TotalRAM, ramErr = *ram, account.CheckTotal(*ram, assigned)
			}
			if bad := cmp.Or(planErr, localeErr); bad != nil {
				return misuse("%w", bad)
			}
			return ramErr
		})
		if err == nil {
			c.record(ctx, d, a.ID, "account.set", "", fmt.Sprintf("account=%s ramMB=%d plan=%s locale=%s admin=%t", a.Name, after.TotalRAM, after.Plan, after.Locale, after.Admin))
		}
		return err
	})
}

func accountDisable(c *Caller) *cobra.Command {
	cmd := NewCommand("disable ACCOUNT [--data-dir DIR]", "refuse the tokens of an account (403) and its password; its programs keep running", 1, 1)
	return setDisabled(c, cmd, true, "account.disable", "its tokens are answered with 403 from now on; its programs keep running")
}

func accountEnable(c *Caller) *cobra.Command {
	cmd := NewCommand("enable ACCOUNT [--data-dir DIR]", "accept the tokens and the password of an account again", 1, 1)
	return setDisabled(c, cmd, false, "account.enable", "its tokens work again")
}

func setDisabled(c *Caller, cmd *cobra.Command, disabled bool, operation, note string) *cobra.Command {
	return c.onAccount(cmd, func(ctx context.Context, d *db.DB, _ settings.Settings, a app.Account) error {
		_, err := d.Accounts.UpdateAccount(ctx, a.ID, func(a *app.Account, _ app.MB) error {
			a.Disabled = disabled
			return nil
		})
		if err == nil {
			c.record(ctx, d, a.ID, operation, "", "account="+a.Name)
			fmt.Fprintf(c.Stderr, "account %q: %s\n", a.Name, note)
		}
		return err
	})
}

func accountDelete(c *Caller) *cobra.Command {
	cmd := NewCommand("delete ACCOUNT [--data-dir DIR]", "delete an account and its tokens; the account must own no applications", 1, 1)
	cmd.Aliases = []string{"rm"}
	return c.onAccount(cmd, func(ctx context.Context, d *db.DB, s settings.Settings, a app.Account) error {
		err := d.Accounts.DeleteAccount(ctx, a.ID)
		if err == nil {
			c.record(ctx, d, a.ID, "account.delete", "", "account="+a.Name)
		}
		if app.KindOf(err) != app.Conflict {
			return err
		}
		apps, listErr := d.Apps.Apps(ctx)
		if listErr != nil {
			return listErr
		}
		hint := ""
		if ids := idsOf(apps, a.ID); len(ids) > 0 {
			hint = fmt.Sprintf("Hint: delete %s first, with a token of the account: curl -X DELETE -H 'api-token: TOKEN' %s/v2/app/ID/delete",
				joinIDs(ids), cmp.Or(s.BaseURL, "http://"+s.Listen))
		}
		return settings.NewProblem(settings.ExitFailure, fmt.Errorf("cannot delete %q: %w", a.Name, err), hint)
	})
}

func tokenCreate(c *Caller) *cobra.Command {
	cmd := NewCommand("create ACCOUNT [--label LABEL] [--data-dir DIR]", "create a token for the API and print it, once only", 1, 1)
	label := wordFlag(cmd, "label", "`LABEL` that distinguishes the token, such as the name of a machine")
	return c.onAccount(cmd, func(ctx context.Context, d *db.DB, _ settings.Settings, a app.Account) error {
		text, made, err := account.New(d.Accounts).IssueToken(ctx, a.ID, *label, time.Time{})
		if app.KindOf(err) == app.Invalid {
			return misuse("%w", err)
		}
		if err != nil {
			return err
		}
		c.record(ctx, d, a.ID, "token.create", "", fmt.Sprintf("account=%s token=%d label=%q", a.Name, made.ID, made.Label))
		if a.Disabled {
			fmt.Fprintf(c.Stderr, "account %q is disabled: the token works once berth account enable %s was called\n", a.Name, a.Name)
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
}

func tokenList(c *Caller) *cobra.Command {
	cmd := NewCommand("list ACCOUNT [--json] [--data-dir DIR]", "list the tokens of an account", 1, 1)
	cmd.Aliases = []string{"ls"}
	asJSON := jsonFlag(cmd)
	return c.onAccount(cmd, func(ctx context.Context, d *db.DB, _ settings.Settings, a app.Account) error {
		tokens, err := d.Accounts.Tokens(ctx, a.ID)
		if err != nil {
			return err
		}
		views := make([]tokenView, len(tokens))
		for i, t := range tokens {
			views[i] = tokenView{ID: t.ID, Label: t.Label, CreatedAt: t.CreatedAt}
			if !t.LastUsed.IsZero() {
				views[i].LastUsed = &t.LastUsed
			}
		}
		return c.print(*asJSON, views, func(out io.Writer) {
			fmt.Fprintln(out, "ID\tLABEL\tCREATED\tLAST USED")
			for _, t := range tokens {
				fmt.Fprintf(out, "%d\t%s\t%s\t%s\n", t.ID, cmp.Or(t.Label, "-"), when(t.CreatedAt), when(t.LastUsed))
			}
		})
	})
}

func tokenRevoke(c *Caller) *cobra.Command {
	cmd := NewCommand("revoke TOKENID... [--data-dir DIR]", "revoke tokens; berth refuses them from the next request on", 1, math.MaxInt)
	cmd.Aliases, cmd.ValidArgsFunction = []string{"rm"}, c.tokens
	return c.withDB(cmd, func(ctx context.Context, d *db.DB, _ settings.Settings, args []string) error {
		ids := make([]int64, len(args))
		for i, arg := range args { // all of them, before the first is revoked
			id, err := strconv.ParseInt(arg, 10, 64)
			if err != nil {
				return misuse("%q is not the id of a token, which is a number: berth token list shows it", arg)
			}
			ids[i] = id
		}
		for _, id := range ids {
			t, err := d.Accounts.Token(ctx, id)
			if err == nil {
				err = d.Accounts.DeleteToken(ctx, t.Account, id)
			}
			if app.KindOf(err) == app.NotFound {
				return settings.NewProblem(settings.ExitNotFound, err, "Hint: berth token list ACCOUNT shows the tokens of an account.")
			}
			if err != nil {
				return err
			}
			c.record(ctx, d, t.Account, "token.revoke", "", fmt.Sprintf("token=%d label=%q", id, t.Label))
			fmt.Fprintf(c.Stderr, "token %d %q is revoked\n", id, t.Label)
		}
		return nil
	})
}
