package account

import (
	"context"

	"berth/app"
)

// Keeper looks after the accounts of a host for its administrators. It is safe for
// concurrent use and keeps nothing in memory.
type Keeper struct {
	store   Store
	signIns *SignIns
}

// NewKeeper returns the keeper of the accounts of store; signIns makes its links.
func NewKeeper(store Store, signIns *SignIns) *Keeper { return &Keeper{store, signIns} }

// Accounts returns all accounts, oldest first, and what each has assigned to its
// applications.
func (k *Keeper) Accounts(ctx context.Context) ([]app.Account, []app.MB, error) {
	all, err := k.store.Accounts(ctx)
	if err != nil {
		return nil, nil, err
	}
	used := make([]app.MB, len(all))
	for i, a := range all {
		if used[i], err = k.store.SumRAM(ctx, a.ID); err != nil {
			return nil, nil, err
		}
	}
	return all, used, nil
}

// Create makes an account. It fails with app.Invalid for a bad name or RAM, and
// app.Conflict when the name is taken.
func (k *Keeper) Create(ctx context.Context, name string, ram app.MB) (app.Account, error) {
	a, err := NewAccount(name, ram)
	if err != nil {
		return app.Account{}, err
	}
	return k.store.CreateAccount(ctx, a)
}

// SetTotal sets the RAM of an account. It fails with CheckTotal's errors, and
// app.NotFound.
func (k *Keeper) SetTotal(ctx context.Context, id app.AccountID, ram app.MB) (app.Account, error) {
	return k.store.UpdateAccount(ctx, id, func(a *app.Account, assigned app.MB) error {
		a.TotalRAM = ram
		return CheckTotal(ram, assigned)
	})
}

// SetDisabled keeps an account from being used, or not; its programs go on. It
// fails with app.NotFound.
func (k *Keeper) SetDisabled(ctx context.Context, id app.AccountID, disabled bool) (app.Account, error) {
	return k.store.UpdateAccount(ctx, id, func(a *app.Account, _ app.MB) error {
		a.Disabled = disabled
		return nil
	})
}

// Invite makes a one-time link to a new password of an account, as SignIns.Invite
// does.
func (k *Keeper) Invite(ctx context.Context, id app.AccountID) (string, error) {
	return k.signIns.Invite(ctx, id)
}
