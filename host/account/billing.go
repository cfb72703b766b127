package account

import (
	"context"
	"crypto/sha256"
	"strings"
	"time"

	"berth/app"
)

// BillingStore is what a Billing needs to have remembered.
type BillingStore interface {
	InsertHostToken(ctx context.Context, hash [32]byte, label string) (app.HostToken, error)
	// HostTokenByHash returns app.NotFound for no token.
	HostTokenByHash(ctx context.Context, hash [32]byte) (app.HostToken, error)
	// AccountByExternal returns app.NotFound for an account that Create did not make.
	AccountByExternal(ctx context.Context, external string) (app.Account, error)
	// CreateAccount fails with app.Conflict when the name or the external id is taken.
	CreateAccount(ctx context.Context, a app.Account) (app.Account, error)
}

const (
	// hostTokenMark begins the text of a token of the host, which is no token of an account.
	hostTokenMark = "berth-host-"
	maxExternal   = 64
	// CustomerLinkTime is how long a customer's link to a first password works.
	CustomerLinkTime = 24 * time.Hour
)

// Billing keeps the accounts that a program of the host's owner makes, such as a billing
// panel. It reaches no other account. Every method can be called again with the same effect.
// It is safe for concurrent use.
type Billing struct {
	store   BillingStore
	admin   *Admin
	signIns *SignIns // nil without a panel
}

// NewBilling returns the billing of a store; signIns may be nil, and then there are no links.
func NewBilling(store BillingStore, admin *Admin, signIns *SignIns) *Billing {
	return &Billing{store, admin, signIns}
}

// IssueHostToken makes a token of the host and returns its text, which nobody can read again.
// It fails with app.Invalid for a label that is too long.
func IssueHostToken(ctx context.Context, store BillingStore, label string) (string, app.HostToken, error) {
	if len(label) > maxLabel {
		return "", app.HostToken{}, app.Errorf(app.Invalid, "the label of a token may have at most %d characters", maxLabel)
	}
	text := hostTokenMark + random()
	made, err := store.InsertHostToken(ctx, sha256.Sum256([]byte(text)), label)
	return text, made, err
}

// Authorize returns what is remembered of a token of the host, or app.Unauthorized.
func (b *Billing) Authorize(ctx context.Context, token string) (app.HostToken, error) {
	none := app.Errorf(app.Unauthorized, "this needs a token of the host; on the host, berth host-token create makes one")
	if !strings.HasPrefix(token, hostTokenMark) || len(token) > maxToken {
		return app.HostToken{}, none
	}
	t, err := b.store.HostTokenByHash(ctx, sha256.Sum256([]byte(token)))
	if app.KindOf(err) == app.NotFound {
		return app.HostToken{}, none
	}
	return t, err
}

// checkExternal fails with app.Invalid unless a program can call an account so.
func checkExternal(external string) error {
	const allowed = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-"
	if external == "" || len(external) > maxExternal || strings.Trim(external, allowed) != "" || strings.Trim(external, ".") == "" {
		return app.Errorf(app.Invalid, "the external id of an account has 1 to %d of a-z A-Z 0-9 . _ -", maxExternal)
	}
	return nil
}

// Create makes an account that has an external id, and reports whether it made it now: one of
// that id which has the same name and limits is returned as it is. It fails with app.Conflict
// when that has others, or the name is taken, and with app.Invalid.
func (b *Billing) Create(ctx context.Context, external, name string, c app.AccountChange) (_ app.Account, created bool, err error) {
	if err := checkExternal(external); err != nil {
		return app.Account{}, false, err
	}
	if c.RAM == nil {
		return app.Account{}, false, app.Errorf(app.Invalid, "an account needs RAM")
	}
	wanted, err := NewAccount(name, *c.RAM)
	if err == nil {
		err = Change(&wanted, 0, c)
	}
	if err != nil {
		return app.Account{}, false, err
	}
	wanted.External = external
	made, err := b.store.CreateAccount(ctx, wanted)
	if app.KindOf(err) != app.Conflict {
		return made, err == nil, err
	}
	is, failed := b.store.AccountByExternal(ctx, external)
	switch {
	case app.KindOf(failed) == app.NotFound: // the name is taken
		return app.Account{}, false, err
	case failed != nil:
		return app.Account{}, false, failed
	case is.Name != wanted.Name || is.TotalRAM != wanted.TotalRAM || is.Limits != wanted.Limits:
		return app.Account{}, false, app.Errorf(app.Conflict, "the account %q exists already, with another name or other limits; change it instead", external)
	}
	return is, false, nil
}

// Account returns the account of an external id, or app.NotFound.
func (b *Billing) Account(ctx context.Context, external string) (app.Account, error) {
	return b.store.AccountByExternal(ctx, external)
}

// Change has Admin.Change's errors.
func (b *Billing) Change(ctx context.Context, external string, c app.AccountChange) (app.Account, error) {
	return b.with(ctx, external, func(a app.Account) (app.Account, error) { return b.admin.Change(ctx, a.ID, c) })
}

// Suspend has Admin.Suspend's errors.
func (b *Billing) Suspend(ctx context.Context, external, why string) (app.Account, error) {
	return b.with(ctx, external, func(a app.Account) (app.Account, error) { return b.admin.Suspend(ctx, a.ID, why) })
}

// Unsuspend has Admin.Unsuspend's errors.
func (b *Billing) Unsuspend(ctx context.Context, external string) (app.Account, error) {
	return b.with(ctx, external, func(a app.Account) (app.Account, error) { return b.admin.Unsuspend(ctx, a.ID) })
}

func (b *Billing) with(ctx context.Context, external string, do func(app.Account) (app.Account, error)) (app.Account, error) {
	a, err := b.store.AccountByExternal(ctx, external)
	if err != nil {
		return app.Account{}, err
	}
	return do(a)
}

// Terminate removes an account with everything that it has, and blocks until nothing is
// left. One that is gone is no error: it returns the zero account.
func (b *Billing) Terminate(ctx context.Context, external string) (app.Account, error) {
	a, err := b.store.AccountByExternal(ctx, external)
	if err == nil {
		err = b.admin.Delete(ctx, a.ID)
	}
	if app.KindOf(err) == app.NotFound {
		return app.Account{}, nil
	}
	return a, err
}

// Link makes a one-time link by which the customer sets a first password, and returns its
// text; "" for an account that can be signed in to already, and without a panel. A program
// that keeps accounts gets into none that is in use.
func (b *Billing) Link(ctx context.Context, a app.Account) (string, error) {
	if b.signIns == nil {
		return "", nil
	}
	_, password, err := b.signIns.store.PasswordByName(ctx, a.Name)
	if err != nil || password != "" {
		return "", err
	}
	factors, err := b.signIns.factors.Factors(ctx, a.ID)
	if err != nil || factors.Any() {
		return "", err
	}
	key := random()
	return key, b.signIns.store.InsertInvitation(ctx, sha256.Sum256([]byte(key)), a.ID, time.Now().Add(CustomerLinkTime))
}
