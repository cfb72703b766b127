package host

import (
	"context"
	"errors"
	"flag"
	"strconv"

	"berth/app"
	"berth/daemon"
	"berth/daemon/settings"
	"berth/db"
)

// withDB parses the arguments, opens the database that the settings name, and
// runs do with both. set may hold more flags.
func (c *call) withDB(ctx context.Context, set *flag.FlagSet, least, most int, do func(*db.DB, settings.Settings, []string) error) error {
	return c.withDBAnd(ctx, set, nil, least, most, do)
}

// withDBAnd is withDB with the flags of some more settings.
func (c *call) withDBAnd(ctx context.Context, set *flag.FlagSet, more []string, least, most int, do func(*db.DB, settings.Settings, []string) error) (err error) {
	from := settings.AddFlags(set, append([]string{"data_dir"}, more...)...)
	args, err := c.parse(set, least, most)
	if err != nil {
		return err
	}
	s, err := from.Load(c.getenv)
	if err != nil {
		return err
	}
	remembered, err := daemon.OpenDatabase(ctx, s.DataDir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, remembered.Close()) }()
	return do(remembered, s, args)
}

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

// onAccount runs do on the account that the only argument names.
func (c *call) onAccount(ctx context.Context, set *flag.FlagSet, do func(*db.DB, app.Account) error) error {
	return c.withDB(ctx, set, 1, 1, func(d *db.DB, _ settings.Settings, args []string) error {
		a, err := findAccount(ctx, d, args[0])
		if err != nil {
			return err
		}
		return do(d, a)
	})
}
