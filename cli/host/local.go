package host

import (
	"context"
	"errors"
	"os"

	"berth/app"
	"berth/cli/command"
	"berth/daemon"
	"berth/daemon/settings"
	"berth/db"
	"berth/web/local"
)

// Here returns the berth that runs on this host, as its owner reaches it: by the local
// socket. It returns nil for any other user than root, and where no daemon listens.
func Here(ctx context.Context, of *command.Caller) (*command.Host, error) {
	if os.Geteuid() != 0 {
		return nil, nil
	}
	s, err := settings.Load(of.Getenv)
	if err != nil {
		return nil, err
	}
	d, err := local.Ask(ctx, s.RuntimeDir)
	if errors.Is(err, local.ErrNobody) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	s.DataDir, s.Listen, s.BaseURL = d.DataDir, d.Listen, d.BaseURL
	return &command.Host{
		HTTP: local.NewClient(s.RuntimeDir),
		URL:  panelURL(s),
		Accounts: func(ctx context.Context) ([]string, error) {
			return served(ctx, s.DataDir, func(d *db.DB) ([]string, error) {
				all, err := d.Accounts.Accounts(ctx)
				return wordsOf(all, func(a app.Account) string { return a.Name }), err
			})
		},
		Apps: func(ctx context.Context) ([]command.HostApp, error) {
			return served(ctx, s.DataDir, func(d *db.DB) ([]command.HostApp, error) {
				accounts, err := d.Accounts.Accounts(ctx)
				if err != nil {
					return nil, err
				}
				names := map[app.AccountID]string{}
				for _, a := range accounts {
					names[a.ID] = a.Name
				}
				apps, err := d.Apps.Apps(ctx)
				all := make([]command.HostApp, len(apps))
				for i, a := range apps {
					all[i] = command.HostApp{ID: string(a.ID), Name: a.Name, Account: names[a.Account]}
				}
				return all, err
			})
		},
	}, nil
}

// served is what list finds in the database of a data directory that is served.
func served[T any](ctx context.Context, dir string, list func(*db.DB) ([]T, error)) (all []T, err error) {
	d, err := daemon.OpenDatabase(ctx, dir)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, d.Close()) }()
	return list(d)
}
