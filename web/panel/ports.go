package panel

import (
	"context"
	"time"

	"berth/app"
)

// The methods below MUST be safe for concurrent use. Errors carry a kind of
// package app; any other error is shown as an internal one.

// SignIns knows who is signed in, and changes passwords.
type SignIns interface {
	// SignIn begins a session and returns what its cookie holds: Unauthorized for a
	// wrong name or password, with the account if there is one of that name.
	SignIn(ctx context.Context, name, password string, from app.Visitor) (key string, a app.Account, err error)
	// Session returns Unauthorized for none, Forbidden when the account is disabled.
	Session(ctx context.Context, key string, from app.Visitor) (app.Account, app.Session, error)
	Sessions(ctx context.Context, id app.AccountID) ([]app.Session, error)
	// EndSession returns NotFound for the session of another account.
	EndSession(ctx context.Context, account app.AccountID, id int64) error
	// Remember returns by what a browser is known in which the account has just
	// signed in, "" when it is to be by nothing.
	Remember(ctx context.Context, a app.Account) (string, error)
	// ChangePassword ends all sessions but the one with the id keep. It returns
	// Forbidden when old is wrong.
	ChangePassword(ctx context.Context, a app.Account, old, password string, keep int64) error
	// Invitation returns NotFound for a one-time link that is none any more.
	Invitation(ctx context.Context, key string) (app.Invitation, error)
	// Redeem uses a one-time link up and begins a session, as SignIn does. name and
	// ram are of the first account, which the link may make.
	Redeem(ctx context.Context, key, name, password string, ram app.MB, from app.Visitor) (session string, a app.Account, err error)
}

// Tokens are the API tokens of an account.
type Tokens interface {
	// Tokens returns those that work, oldest first.
	Tokens(ctx context.Context, id app.AccountID) ([]app.Token, error)
	// Issue makes one, for ever when lasts is 0. Its text is never told again.
	Issue(ctx context.Context, id app.AccountID, label string, lasts time.Duration) (string, app.Token, error)
	// Rotate makes a successor and ends the old one after overlap.
	Rotate(ctx context.Context, account app.AccountID, id int64, overlap time.Duration) (string, app.Token, error)
	Revoke(ctx context.Context, account app.AccountID, id int64) error
}

// Admin looks after the accounts of the host.
type Admin interface {
	// Accounts returns all of them, oldest first, and the RAM that each has assigned.
	Accounts(ctx context.Context) ([]app.Account, []app.MB, error)
	Create(ctx context.Context, name string, ram app.MB) (app.Account, error)
	SetTotal(ctx context.Context, id app.AccountID, ram app.MB) (app.Account, error)
	SetDisabled(ctx context.Context, id app.AccountID, disabled bool) (app.Account, error)
	// Invite makes a one-time link to a new password and returns its text.
	Invite(ctx context.Context, id app.AccountID) (string, error)
}
