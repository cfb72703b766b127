package host

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"strconv"
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

// billingStore is an account.BillingStore.
type billingStore struct {
	db.HostTokens
	db.Accounts
}

func hostTokenCreate(c *caller) *cobra.Command {
	cmd := command.New("create [--label LABEL] [--data-dir DIR]", "create a token by which a billing panel keeps accounts, and print it, once only", 0, 0)
	label := command.Word(cmd, "label", "`LABEL` that distinguishes the token, such as the name of the billing panel")
	return c.withDB(cmd, func(ctx context.Context, d *db.DB, _ settings.Settings, _ []string) error {
		text, made, err := account.IssueHostToken(ctx, billingStore{d.HostTokens, d.Accounts}, *label)
		if app.KindOf(err) == app.Invalid {
			return exit.Misused("%w", err)
		}
		if err != nil {
			return err
		}
		c.record(ctx, d, 0, "host-token.create", "", fmt.Sprintf("token=%d label=%q", made.ID, made.Label))
		_, err = fmt.Fprintln(c.Stdout, text)
		return err
	})
}

// hostTokenView is a token of the host as it is printed.
type hostTokenView struct {
	ID        int64      `json:"id"`
	Label     string     `json:"label"`
	CreatedAt time.Time  `json:"createdAt"`
	LastUsed  *time.Time `json:"lastUsed"` // null: never
}

func hostTokenList(c *caller) *cobra.Command {
	cmd := command.New("list [--json] [--data-dir DIR]", "list the tokens of the host", 0, 0)
	cmd.Aliases = []string{"ls"}
	asJSON := command.JSON(cmd)
	return c.withDB(cmd, func(ctx context.Context, d *db.DB, _ settings.Settings, _ []string) error {
		tokens, err := d.HostTokens.HostTokens(ctx)
		if err != nil {
			return err
		}
		views := make([]hostTokenView, len(tokens))
		for i, t := range tokens {
			views[i] = hostTokenView{ID: t.ID, Label: t.Label, CreatedAt: t.CreatedAt}
			if !t.LastUsed.IsZero() {
				views[i].LastUsed = &t.LastUsed
			}
		}
		return c.Print(*asJSON, views, func(out io.Writer) {
			fmt.Fprintln(out, "ID\tLABEL\tCREATED\tLAST USED")
			for _, t := range tokens {
				fmt.Fprintf(out, "%d\t%s\t%s\t%s\n", t.ID, cmp.Or(screen.Word(t.Label), "-"), command.When(t.CreatedAt), command.LastUse(t.LastUsed, false))
			}
		})
	})
}

func hostTokenRevoke(c *caller) *cobra.Command {
	cmd := command.New("revoke TOKENID [--data-dir DIR]", "revoke a token of the host; berth refuses it from the next request on", 1, 1)
	cmd.Aliases = []string{"rm"}
	return c.withDB(cmd, func(ctx context.Context, d *db.DB, _ settings.Settings, args []string) error {
		id, err := strconv.ParseInt(args[0], 10, 64)
		if err != nil {
			return exit.Misused("%q is not the id of a token, which is a number: berth host-token list shows it", args[0])
		}
		err = d.HostTokens.DeleteHostToken(ctx, id)
		if app.KindOf(err) == app.NotFound {
			return exit.NewProblem(exit.NotFound, err, "Hint: berth host-token list shows the tokens of the host.")
		}
		if err != nil {
			return err
		}
		c.record(ctx, d, 0, "host-token.revoke", "", fmt.Sprintf("token=%d", id))
		c.Tell("token %d of the host is revoked", id)
		return nil
	})
}
