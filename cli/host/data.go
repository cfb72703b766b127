package host

import (
	"context"
	"strconv"

	"github.com/spf13/cobra"

	"berth/app"
	"berth/daemon/settings"
	"berth/db"
)

// findAccount returns the account that a person means by a name or an id.
// A name begins with a letter, so that the two are never confused.
func findAccount(ctx context.Context, d *db.DB, nameOrID string) (app.Account, error) {
	var a app.Account
	id, err := strconv.ParseInt(nameOrID, 10, 64)
	if err == nil {
		a, err = d.Account(ctx, app.AccountID(id))
	} else {
		a, err = d.AccountByName(ctx, nameOrID)
	}
	if app.KindOf(err) == app.NotFound {
		return a, settings.NewProblem(settings.ExitNotFound, err, "Hint: berth account list shows the accounts.")
	}
	return a, err
}

// onAccount is withDB for a command whose only argument names an account.
func (c *Caller) onAccount(cmd *cobra.Command, do func(context.Context, *db.DB, app.Account) error) *cobra.Command {
	cmd.ValidArgsFunction = c.accounts
	return c.withDB(cmd, func(ctx context.Context, d *db.DB, _ settings.Settings, args []string) error {
		a, err := findAccount(ctx, d, args[0])
		if err != nil {
			return err
		}
		return do(ctx, d, a)
	})
}
