package account

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"slices"
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

const (
	maxLabel  = 100 // of a token, in bytes
	maxTokens = 100 // of an account, that its owner may make
	// maxOverlap is how long an old token may go on beside its successor.
	maxOverlap = 30 * 24 * time.Hour
)

// Service answers for the accounts and their tokens. It is safe for concurrent use,
// keeps nothing in memory, and blocks as long as its Store does.
type Service struct{ store Store }

// New returns a service on store.
func New(store Store) *Service { return &Service{store} }

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
		return a, t, errDisabled()
	}
	return a, t, nil
}

func errToken() error {
	return app.Errorf(app.Unauthorized, "the api-token is not valid; it may have been revoked")
}

func errDisabled() error {
	return app.Errorf(app.Forbidden, "this account is disabled; ask the owner of the server")
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

// IssueToken makes a token for an account and returns its text, which nobody
// can read again: only its hash is stored, with what else it returns. It works until
// expires, for ever when that is the zero time. It fails with app.NotFound when
// there is no such account, and app.Invalid when the label is too long. It is for whoever
// owns the host: an account may have any number of these.
func (s *Service) IssueToken(ctx context.Context, id app.AccountID, label string, expires time.Time) (string, app.Token, error) {
	if len(label) > maxLabel {
		return "", app.Token{}, app.Errorf(app.Invalid, "the label of a token may have at most %d characters", maxLabel)
	}
	text := newToken(id)
	t, err := s.store.InsertToken(ctx, id, sha256.Sum256([]byte(text)), label, expires)
	if err != nil {
		return "", app.Token{}, err
	}
	return text, t, nil
}

// Tokens returns those of an account that work, oldest first.
func (s *Service) Tokens(ctx context.Context, id app.AccountID) ([]app.Token, error) {
	all, err := s.store.Tokens(ctx, id)
	now := time.Now()
	return slices.DeleteFunc(all, func(t app.Token) bool { return t.Expired(now) }), err
}

// Issue is IssueToken for the holder of an account: the token works for lasts, for ever
// when that is 0. It fails with app.Exhausted when the account has many, and forgets those
// that have expired.
func (s *Service) Issue(ctx context.Context, id app.AccountID, label string, lasts time.Duration) (string, app.Token, error) {
	all, err := s.store.Tokens(ctx, id)
	if err != nil {
		return "", app.Token{}, err
	}
	now, left := time.Now(), 0
	for _, old := range all {
		if !old.Expired(now) {
			left++
		} else if err := s.store.DeleteToken(ctx, id, old.ID); err != nil && app.KindOf(err) != app.NotFound {
			return "", app.Token{}, err
		}
	}
	if left >= maxTokens {
		return "", app.Token{}, app.Errorf(app.Exhausted, "the account has %d tokens, as many as it may have; revoke some", left)
	}
	var expires time.Time
	if lasts > 0 {
		expires = now.Add(lasts)
	}
	return s.IssueToken(ctx, id, label, expires)
}

// Rotate makes a successor of a token, with its label and as long a life, and ends
// the token after overlap, at once when that is 0. It fails with app.NotFound,
// also for the token of another account or one that has expired, and app.Invalid.
func (s *Service) Rotate(ctx context.Context, account app.AccountID, id int64, overlap time.Duration) (string, app.Token, error) {
	if overlap < 0 || overlap > maxOverlap {
		return "", app.Token{}, app.Errorf(app.Invalid, "a token may go on for at most %d days beside its successor", int(maxOverlap.Hours()/24))
	}
	all, err := s.Tokens(ctx, account)
	if err != nil {
		return "", app.Token{}, err
	}
	i := slices.IndexFunc(all, func(t app.Token) bool { return t.ID == id })
	if i < 0 {
		return "", app.Token{}, app.Errorf(app.NotFound, "there is no token %d", id)
	}
	old, lasts := all[i], time.Duration(0)
	if !old.Expires.IsZero() {
		lasts = old.Expires.Sub(old.CreatedAt)
	}
	text, made, err := s.Issue(ctx, account, old.Label, lasts)
	if err != nil {
		return "", app.Token{}, err
	}
	if overlap == 0 {
		err = s.store.DeleteToken(ctx, account, id)
	} else {
		err = s.store.ExpireToken(ctx, account, id, time.Now().Add(overlap))
	}
	return text, made, err
}

// Revoke ends a token of an account at once, or fails with app.NotFound.
func (s *Service) Revoke(ctx context.Context, account app.AccountID, id int64) error {
	return s.store.DeleteToken(ctx, account, id)
}

// maxToken bounds the text of a token, in bytes; berth's own have less than 200.
const maxToken = 1 << 10

// tokenHeader is {"alg":"HS256","typ":"JWT"}.
const tokenHeader = "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9"

// newToken makes the text of a token. It has the shape of a JWT only because
// clients decode it on their side and want "id" and "key" in it. The server
// believes none of it: the 256 random bits at the end are the secret, and the
// hash of the whole is what it looks up.
func newToken(id app.AccountID) string {
	payload := fmt.Sprintf(`{"id":"%d","key":"%s"}`, id, random())
	return tokenHeader + "." + base64.RawURLEncoding.EncodeToString([]byte(payload)) + "." + random()
}

// random returns 256 random bits in 43 url-safe characters.
func random() string {
	var b [32]byte
	_, _ = rand.Read(b[:]) // never fails, see crypto/rand
	return base64.RawURLEncoding.EncodeToString(b[:])
}
