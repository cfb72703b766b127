package host

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"strconv"
	"text/tabwriter"
	"time"

	"berth/app"
	"berth/daemon/settings"
	"berth/db"
	"berth/host/account"
)

func tokenCreate(ctx context.Context, c *call) error {
	set := c.flags()
	label := wordFlag(set, "label", "`LABEL` to tell it from others, such as the name of a machine")
	return c.onAccount(ctx, set, func(d *db.DB, a app.Account) error {
		text, made, err := account.New(d).IssueToken(ctx, a.ID, *label)
		if app.KindOf(err) == app.Invalid {
			return c.misuse("%w", err)
		}
		if err != nil {
			return err
		}
		c.record(ctx, d, a.ID, "token.create", "", fmt.Sprintf("account=%s token=%d label=%q", a.Name, made.ID, made.Label))
		if a.Disabled {
			fmt.Fprintf(c.stderr, "account %q is disabled: the token works once berth account enable %s was called\n", a.Name, a.Name)
		}
		_, err = fmt.Fprintln(c.stdout, text)
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

func tokenList(ctx context.Context, c *call) error {
	set := c.flags()
	asJSON := jsonFlag(set)
	return c.onAccount(ctx, set, func(d *db.DB, a app.Account) error {
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
		out := tabwriter.NewWriter(c.stdout, 0, 0, 2, ' ', 0)
		fmt.Fprintln(out, "ID\tLABEL\tCREATED\tLAST USED")
		for _, t := range tokens {
			fmt.Fprintf(out, "%d\t%s\t%s\t%s\n", t.ID, cmp.Or(t.Label, "-"), when(t.CreatedAt), when(t.LastUsed))
		}
		return out.Flush()
	})
}

func tokenRevoke(ctx context.Context, c *call) error {
	return c.withDB(ctx, c.flags(), 1, math.MaxInt, func(d *db.DB, _ settings.Settings, args []string) error {
		ids := make([]int64, len(args))
		for i, arg := range args { // all of them, before the first is revoked
			id, err := strconv.ParseInt(arg, 10, 64)
			if err != nil {
				return c.misuse("%q is not the id of a token, which is a number: berth token list shows it", arg)
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
			fmt.Fprintf(c.stderr, "token %d %q is revoked\n", id, t.Label)
		}
		return nil
	})
}
