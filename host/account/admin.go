package account

import (
	"context"

	"berth/app"
)

// Admin looks after the accounts of a host for its administrators. It is safe for
// concurrent use and keeps nothing in memory.
type Admin struct{ store Store }

// NewAdmin returns the administration of the accounts of store.
func NewAdmin(store Store) *Admin { return &Admin{store} }

// Accounts returns all accounts, oldest first, and what each has assigned to its
// applications.
func (ad *Admin) Accounts(ctx context.Context) ([]app.Account, []app.MB, error) {
	all, err := ad.store.Accounts(ctx)
	if err != nil {
		return nil, nil, err
	}
	used := make([]app.MB, len(all))
	for i, a := range all {
		if used[i], err = ad.store.SumRAM(ctx, a.ID); err != nil {
			return nil, nil, err
		}
	}
	return all, used, nil
}

// Create makes an account. It fails with app.Invalid for a bad name or RAM, and
// app.Conflict when the name is taken.
func (ad *Admin) Create(ctx context.Context, name string, ram app.MB) (app.Account, error) {
	a, err := NewAccount(name, ram)
	if err != nil {
		return app.Account{}, err
	}
	return ad.store.CreateAccount(ctx, a)
}

// SetTotal sets the RAM of an account. It fails with CheckTotal's errors, and
// app.NotFound.
func (ad *Admin) SetTotal(ctx context.Context, id app.AccountID, ram app.MB) (app.Account, error) {
	return ad.store.UpdateAccount(ctx, id, func(a *app.Account, assigned app.MB) error {
		a.TotalRAM = ram
		return CheckTotal(ram, assigned)
	})
}

// SetDisabled keeps an account from being used, or not; its programs go on. It
// fails with app.NotFound.
func (ad *Admin) SetDisabled(ctx context.Context, id app.AccountID, disabled bool) (app.Account, error) {
	return ad.store.UpdateAccount(ctx, id, func(a *app.Account, _ app.MB) error {
		a.Disabled = disabled
		return nil
	})
}
