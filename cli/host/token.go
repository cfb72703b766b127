package host

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"strconv"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"berth/app"
	"berth/daemon/settings"
	"berth/db"
	"berth/host/account"
)

func tokenCreate(c *Caller) *cobra.Command {
	cmd := command("create ACCOUNT [--label LABEL] [--data-dir DIR]", "create a token for the API and print it, once only", 1, 1)
	label := wordFlag(cmd, "label", "`LABEL` that distinguishes the token, such as the name of a machine")
	return c.onAccount(cmd, func(ctx context.Context, d *db.DB, a app.Account) error {
		text, made, err := account.New(d).IssueToken(ctx, a.ID, *label)
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
	cmd := command("list ACCOUNT [--json] [--data-dir DIR]", "list the tokens of an account", 1, 1)
	cmd.Aliases = []string{"ls"}
	asJSON := jsonFlag(cmd)
	return c.onAccount(cmd, func(ctx context.Context, d *db.DB, a app.Account) error {
		tokens, err := d.Tokens(ctx, a.ID)
		if err != nil {
			return err
		}
		if *asJSON {
			views := make([]tokenView, len(tokens))
			for i, t := range tokens {
				views[i] = tokenView{ID: t.ID, Label: t.Label, CreatedAt: t.CreatedAt}
				if !t.LastUsed.IsZero() {
					views[i].LastUsed = &t.LastUsed
				}
			}
			return c.printJSON(views)
		}
		out := tabwriter.NewWriter(c.Stdout, 0, 0, 2, ' ', 0)
		fmt.Fprintln(out, "ID\tLABEL\tCREATED\tLAST USED")
		for _, t := range tokens {
			fmt.Fprintf(out, "%d\t%s\t%s\t%s\n", t.ID, cmp.Or(t.Label, "-"), when(t.CreatedAt), when(t.LastUsed))
		}
		return out.Flush()
	})
}

func tokenRevoke(c *Caller) *cobra.Command {
	cmd := command("revoke TOKENID... [--data-dir DIR]", "revoke tokens; berth refuses them from the next request on", 1, math.MaxInt)
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
			t, err := d.Token(ctx, id)
			if err == nil {
				err = d.DeleteToken(ctx, t.Account, id)
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
