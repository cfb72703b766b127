package account

import (
	"context"
	"crypto/sha256"
	"slices"
	"time"

	"berth/app"
)

const (
	maxTokens = 100 // of an account, that its owner may make
	// maxOverlap is how long an old token may go on beside its successor.
	maxOverlap = 30 * 24 * time.Hour
)

// Tokens are those that the holders of accounts make and revoke for themselves.
// It is safe for concurrent use and keeps nothing in memory.
type Tokens struct{ store Store }

// NewTokens returns the tokens on store.
func NewTokens(store Store) *Tokens { return &Tokens{store} }

// Tokens returns those of an account that work, oldest first.
func (t *Tokens) Tokens(ctx context.Context, id app.AccountID) ([]app.Token, error) {
	all, err := t.store.Tokens(ctx, id)
	now := time.Now()
	return slices.DeleteFunc(all, func(t app.Token) bool { return t.Expired(now) }), err
}

// Issue makes a token that works for lasts, for ever when that is 0, as
// Service.IssueToken does. It fails with app.Exhausted when the account has many,
// and forgets those that have expired.
func (t *Tokens) Issue(ctx context.Context, id app.AccountID, label string, lasts time.Duration) (string, app.Token, error) {
	all, err := t.store.Tokens(ctx, id)
	if err != nil {
		return "", app.Token{}, err
	}
	now, left := time.Now(), 0
	for _, old := range all {
		if !old.Expired(now) {
			left++
		} else if err := t.store.DeleteToken(ctx, id, old.ID); err != nil && app.KindOf(err) != app.NotFound {
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
	return issue(ctx, t.store, id, label, expires)
}

// Rotate makes a successor of a token, with its label and as long a life, and ends
// the token after overlap, at once when that is 0. It fails with app.NotFound,
// also for the token of another account or one that has expired, and app.Invalid.
func (t *Tokens) Rotate(ctx context.Context, account app.AccountID, id int64, overlap time.Duration) (string, app.Token, error) {
	if overlap < 0 || overlap > maxOverlap {
		return "", app.Token{}, app.Errorf(app.Invalid, "a token may go on for at most %d days beside its successor", int(maxOverlap.Hours()/24))
	}
	all, err := t.Tokens(ctx, account)
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
	text, made, err := t.Issue(ctx, account, old.Label, lasts)
	if err != nil {
		return "", app.Token{}, err
	}
	if overlap == 0 {
		err = t.store.DeleteToken(ctx, account, id)
	} else {
		err = t.store.ExpireToken(ctx, account, id, time.Now().Add(overlap))
	}
	return text, made, err
}

// Revoke ends a token of an account at once, or fails with app.NotFound.
func (t *Tokens) Revoke(ctx context.Context, account app.AccountID, id int64) error {
	return t.store.DeleteToken(ctx, account, id)
}

// issue makes a token that works until expires.
func issue(ctx context.Context, store Store, id app.AccountID, label string, expires time.Time) (string, app.Token, error) {
	if len(label) > maxLabel {
		return "", app.Token{}, app.Errorf(app.Invalid, "the label of a token may have at most %d characters", maxLabel)
	}
	text := newToken(id)
	t, err := store.InsertToken(ctx, id, sha256.Sum256([]byte(text)), label, expires)
	if err != nil {
		return "", app.Token{}, err
	}
	return text, t, nil
}
