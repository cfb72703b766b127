package account

import (
	"context"
	"crypto/sha256"
	"time"

	"berth/app"
)

// Store is what accounts and their tokens need to have remembered.
type Store interface {
	// InsertToken remembers the hash of a token, or fails with app.NotFound.
	// It ends at expires, never when that is the zero time.
	InsertToken(ctx context.Context, account app.AccountID, hash [32]byte, label string, expires time.Time) (app.Token, error)
	// AccountByToken returns a token and its account, or app.NotFound.
	AccountByToken(ctx context.Context, hash [32]byte) (app.Account, app.Token, error)
	Tokens(ctx context.Context, account app.AccountID) ([]app.Token, error)
	// ExpireToken lets a token end at a time, unless it ends earlier anyway.
	ExpireToken(ctx context.Context, account app.AccountID, id int64, at time.Time) error
	DeleteToken(ctx context.Context, account app.AccountID, id int64) error
	Accounts(ctx context.Context) ([]app.Account, error)
	// SumRAM returns what the applications of an account have.
	SumRAM(ctx context.Context, id app.AccountID) (app.MB, error)
	// CreateAccount fails with app.Conflict when the name is taken.
	CreateAccount(ctx context.Context, a app.Account) (app.Account, error)
	// UpdateAccount stores what change makes of an account, or fails with app.NotFound.
	UpdateAccount(ctx context.Context, id app.AccountID, change func(a *app.Account, assigned app.MB) error) (app.Account, error)
}

// maxLabel bounds the label of a token, in bytes.
const maxLabel = 100

// Service answers for the accounts. It is safe for concurrent use, keeps
// nothing in memory, and blocks as long as its Store does.
type Service struct{ store Store }

// New returns a service on store.
func New(store Store) *Service { return &Service{store} }

// IssueToken makes a token for an account and returns its text, which nobody
// can read again: only its hash is stored, with what else it returns. It fails with app.NotFound when
// there is no such account, and app.Invalid when the label is too long.
func (s *Service) IssueToken(ctx context.Context, id app.AccountID, label string) (string, app.Token, error) {
	return issue(ctx, s.store, id, label, time.Time{})
}

// Authenticate returns the account that a token belongs to, and what is
// remembered of the token: app.Unauthorized when the token is missing, expired or
// unknown, app.Forbidden, with both, when the account is disabled. The hash
// makes a look-up by content safe: nothing about the text can be learned from
// how long it takes.
func (s *Service) Authenticate(ctx context.Context, token string) (app.Account, app.Token, error) {
	if token == "" {
		return app.Account{}, app.Token{}, app.Errorf(app.Unauthorized, "the api-token header is missing")
	}
	if len(token) > maxToken {
		return app.Account{}, app.Token{}, errToken()
	}
	a, t, err := s.store.AccountByToken(ctx, sha256.Sum256([]byte(token)))
	switch {
	case app.KindOf(err) == app.NotFound, err == nil && t.Expired(time.Now()):
		return app.Account{}, app.Token{}, errToken()
	case err != nil:
		return app.Account{}, app.Token{}, err
	case a.Disabled:
		return a, t, app.Errorf(app.Forbidden, "this account is disabled; ask the owner of the server")
	}
	return a, t, nil
}

func errToken() error {
	return app.Errorf(app.Unauthorized, "the api-token is not valid; it may have been revoked")
}

// SetLocale sets the locale of an account. It fails with app.NotFound when
// there is no such locale or account.
func (s *Service) SetLocale(ctx context.Context, id app.AccountID, locale string) error {
	if err := CheckLocale(locale); err != nil {
		return err
	}
	_, err := s.store.UpdateAccount(ctx, id, func(a *app.Account, _ app.MB) error {
		a.Locale = locale
		return nil
	})
	return err
}
