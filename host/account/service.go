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
	// InsertToken remembers the hash of a token of wanted's account, with the label, the end
	// and the bounds of wanted. It fails with app.NotFound, also for bounds with an
	// application that the account may not use.
	InsertToken(ctx context.Context, hash [32]byte, wanted app.Token) (app.Token, error)
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
	// DeleteAccount fails with app.Conflict while the account has applications.
	DeleteAccount(ctx context.Context, id app.AccountID) error
}

const (
	maxLabel  = 100 // of a token, in bytes
	maxTokens = 100 // of an account, that its owner may make
	maxBound  = 100 // applications that one token can be bound to
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
// unknown, app.Forbidden, with both, when the account is closed. The hash
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
	case a.Closed() != nil:
		return a, t, a.Closed()
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

// IssueToken makes a token of wanted's account, with its label, its end and its bounds, and
// returns the token's text, which nobody can read again: only its hash is stored, with
// what else it returns. It fails with app.NotFound when there is no such account, or when
// the bounds hold an application that the account may not use, and with app.Invalid when the
// label is too long or the bounds allow nothing. It is for the owner of the host: an
// account may have any number of these.
func (s *Service) IssueToken(ctx context.Context, wanted app.Token) (string, app.Token, error) {
	if len(wanted.Label) > maxLabel {
		return "", app.Token{}, app.Errorf(app.Invalid, "the label of a token may have at most %d characters", maxLabel)
	}
	if err := checkBounds(wanted.Bounds); err != nil {
		return "", app.Token{}, err
	}
	text := newToken(wanted.Account)
	t, err := s.store.InsertToken(ctx, sha256.Sum256([]byte(text)), wanted)
	if err != nil {
		return "", app.Token{}, err
	}
	return text, t, nil
}

// checkBounds refuses bounds within which a token could do nothing.
func checkBounds(b *app.Bounds) error {
	if b == nil {
		return nil
	}
	slices.Sort(b.Apps)
	b.Apps = slices.Compact(b.Apps)
	if len(b.Apps) == 0 || len(b.Apps) > maxBound {
		return app.Errorf(app.Invalid, "name between 1 and %d applications that the token may use", maxBound)
	}
	_, err := app.ParsePermissions(b.May.Names())
	return err
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
func (s *Service) Issue(ctx context.Context, wanted app.Token, lasts time.Duration) (string, app.Token, error) {
	id := wanted.Account
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
	wanted.Expires = time.Time{}
	if lasts > 0 {
		wanted.Expires = now.Add(lasts)
	}
	return s.IssueToken(ctx, wanted)
}

// Rotate makes a successor of a token, with its label, its bounds and as long a life, and
// ends the token after overlap, at once when that is 0. It fails with app.NotFound,
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
	if old.Bounds != nil && len(old.Bounds.Apps) == 0 {
		return "", app.Token{}, app.Errorf(app.Conflict, "the applications of this token were deleted; revoke it and make another")
	}
	text, made, err := s.Issue(ctx, old, lasts)
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
