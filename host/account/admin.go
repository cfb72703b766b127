package account

import (
	"context"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"berth/app"
)

// Admin looks after the accounts of a host for its administrators. It is safe for
// concurrent use and keeps nothing in memory.
type Admin struct {
	store    Store
	programs Programs
}

// Programs are the applications of accounts, where they run.
type Programs interface {
	// AccountChanged makes a change of an account hold for what runs of it, and blocks
	// until it does.
	AccountChanged(ctx context.Context, id app.AccountID) error
	Apps(owner app.AccountID) []app.Snapshot
	// Delete ends the program of an application and removes everything of it.
	Delete(ctx context.Context, owner app.AccountID, id app.ID) error
}

// NewAdmin returns the administration of the accounts of store, whose applications are
// programs.
func NewAdmin(store Store, programs Programs) *Admin { return &Admin{store, programs} }

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

// Change changes what an account may have. It fails with Change's errors, and
// app.NotFound.
func (ad *Admin) Change(ctx context.Context, id app.AccountID, c app.AccountChange) (app.Account, error) {
	return ad.update(ctx, id, func(a *app.Account, assigned app.MB) error { return Change(a, assigned, c) })
}

// SetDisabled keeps an account from being used, or not; its programs go on. It
// fails with app.NotFound.
func (ad *Admin) SetDisabled(ctx context.Context, id app.AccountID, disabled bool) (app.Account, error) {
	return ad.store.UpdateAccount(ctx, id, func(a *app.Account, _ app.MB) error {
		a.Disabled = disabled
		return nil
	})
}

// maxWhy bounds why an account is suspended, in bytes.
const maxWhy = 200

// Suspend changes an account so that its programs do not run and nobody uses it, until
// Unsuspend. One that is suspended gets the new reason. It fails with app.Invalid for a
// reason that is no line of text.
func Suspend(a *app.Account, why string) error {
	if len(why) > maxWhy || !utf8.ValidString(why) || strings.ContainsFunc(why, unicode.IsControl) {
		return app.Errorf(app.Invalid, "the reason of a suspension is one line of at most %d characters", maxWhy)
	}
	a.Suspended = app.Suspension{On: true, Why: why}
	return nil
}

// Suspend is Suspend for a stored account. It blocks until nothing of the account runs any
// more. It fails with app.Invalid and app.NotFound.
func (ad *Admin) Suspend(ctx context.Context, id app.AccountID, why string) (app.Account, error) {
	return ad.update(ctx, id, func(a *app.Account, _ app.MB) error { return Suspend(a, why) })
}

// Unsuspend ends the suspension of an account: what was wanted online starts, soon. It
// fails with app.NotFound.
func (ad *Admin) Unsuspend(ctx context.Context, id app.AccountID) (app.Account, error) {
	return ad.update(ctx, id, func(a *app.Account, _ app.MB) error {
		a.Suspended = app.Suspension{}
		return nil
	})
}

// update changes a stored account, and what runs of it.
func (ad *Admin) update(ctx context.Context, id app.AccountID, change func(*app.Account, app.MB) error) (app.Account, error) {
	after, err := ad.store.UpdateAccount(ctx, id, change)
	if err == nil {
		err = ad.programs.AccountChanged(context.WithoutCancel(ctx), id)
	}
	return after, err
}

const (
	// goneTime bounds how long Delete waits for deployments that were called off.
	goneTime  = 20 * time.Second
	gonePause = 100 * time.Millisecond
)

// Delete removes an account with its applications and everything else of it, and blocks
// until nothing is left. It suspends the account first, so that nothing new begins; where it
// fails, the account stays suspended, and Delete can be called again. It fails with
// app.NotFound.
func (ad *Admin) Delete(ctx context.Context, id app.AccountID) error {
	ctx = context.WithoutCancel(ctx)
	if _, err := ad.Suspend(ctx, id, "it is being deleted"); err != nil {
		return err
	}
	for until := time.Now().Add(goneTime); ; time.Sleep(gonePause) {
		for _, a := range ad.programs.Apps(id) {
			if err := ad.programs.Delete(ctx, id, a.ID); err != nil && app.KindOf(err) != app.NotFound {
				return err
			}
		}
		err := ad.store.DeleteAccount(ctx, id)
		if app.KindOf(err) != app.Conflict || !time.Now().Before(until) {
			return err
		}
	}
}
