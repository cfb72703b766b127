package panel

import (
	"context"
	"io"
	"time"

	"berth/app"
)

// The methods below MUST be safe for concurrent use. Errors carry a kind of
// package app; any other error is shown as an internal one.

// SignIns knows who is signed in.
type SignIns interface {
	// SignIn begins a session and returns what its cookie holds: Unauthorized for a
	// wrong name or password, with the account if there is one of that name.
	SignIn(ctx context.Context, name, password string, from app.Visitor) (key string, a app.Account, err error)
	// Session returns Unauthorized for none, Forbidden when the account is disabled.
	Session(ctx context.Context, key string, from app.Visitor) (app.Account, app.Session, error)
	Sessions(ctx context.Context, id app.AccountID) ([]app.Session, error)
	// EndSession returns NotFound for the session of another account.
	EndSession(ctx context.Context, account app.AccountID, id int64) error
}

// Passwords changes them.
type Passwords interface {
	// ChangePassword ends all sessions but the one with the id keep. It returns
	// Forbidden when old is wrong.
	ChangePassword(ctx context.Context, a app.Account, old, password string, keep int64, from app.Visitor) error
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

// Accounts changes accounts.
type Accounts interface {
	// SetLocale returns NotFound when locale is not one of app.Locales.
	SetLocale(ctx context.Context, id app.AccountID, locale string) error
}

// Catalog reads applications. Another account's application is NotFound.
type Catalog interface {
	// Apps returns the applications of owner, oldest first. It does not block.
	Apps(owner app.AccountID) []app.Snapshot
	App(owner app.AccountID, id app.ID) (app.Snapshot, error)
	// Status measures, so it can take a moment.
	Status(ctx context.Context, owner app.AccountID, id app.ID) (app.Status, error)
}

// Control runs applications. Each method blocks until the change is made or
// refused: Already when the application is there already, Conflict when
// another operation on it is under way.
type Control interface {
	Start(ctx context.Context, owner app.AccountID, id app.ID) (app.Snapshot, error)
	Restart(ctx context.Context, owner app.AccountID, id app.ID) error
	Stop(ctx context.Context, owner app.AccountID, id app.ID) error
}

// Memberships knows which applications of others an account may use.
type Memberships interface {
	Memberships(ctx context.Context, member app.AccountID) ([]app.Membership, error)
	// Authorize returns the owner of an application when member may do with it
	// what p names: NotFound for who is no member, Forbidden without p.
	Authorize(ctx context.Context, member app.AccountID, id app.ID, p app.Permission) (app.AccountID, error)
}

// Memory changes how much RAM applications have.
type Memory interface {
	// SetRAM returns Exhausted when the account or the host has no room for ram.
	SetRAM(ctx context.Context, owner app.AccountID, id app.ID, ram app.MB) error
	// Room is the most that an application can have beside what else runs now.
	Room(id app.ID) app.MB
}

// History knows the deploys of an application.
type History interface {
	// Deploys returns them, newest first.
	Deploys(ctx context.Context, owner app.AccountID, id app.ID) ([]app.Deploy, error)
	// Rollback brings the code of one back: Already when it is the newest. It goes
	// on when ctx ends.
	Rollback(ctx context.Context, owner app.AccountID, id app.ID, number int) (app.Deployed, error)
}

// Chronicle knows what happened to applications.
type Chronicle interface {
	// Happenings returns the last ones, newest first: Conflict while the
	// application is deployed for the first time.
	Happenings(ctx context.Context, owner app.AccountID, id app.ID) ([]app.Happening, error)
}

// Metrics knows what applications used.
type Metrics interface {
	// Metrics returns stretches of step, or longer ones, oldest first; those of
	// which nothing is known are left out.
	Metrics(ctx context.Context, owner app.AccountID, id app.ID, from, to time.Time, step time.Duration) ([]app.Point, error)
}

// Logs are what applications, or their builds, have printed: lines, each with its
// stamp. They ask nobody who may read them.
type Logs interface {
	// Tail returns the last max bytes, "" when there is no log.
	Tail(id app.ID, build bool, max int) string
	// Open opens everything that is kept.
	Open(id app.ID, build bool) (io.ReadCloser, error)
}

// Feed tells what happens while it happens.
type Feed interface {
	// Watch returns NotFound and Forbidden for what the account may not see, Limited
	// and Unavailable when too many watch already. The caller closes the stream.
	Watch(ctx context.Context, w app.Watch) (Stream, error)
	// Last returns the ID of the newest event. Who reads everything after that,
	// and then watches from it, misses nothing.
	Last() int64
}

// Stream is one look at the Feed. Next and Check are for one goroutine.
type Stream interface {
	// Next blocks until something has happened, and returns that in order. It
	// fails with Unavailable when the daemon ends, or is upgraded.
	Next(ctx context.Context) ([]app.Event, error)
	// Check fails when the account may not see any more what it watches.
	Check(ctx context.Context) error
	Close()
}

// People knows accounts by their number.
type People interface {
	// Account returns NotFound for none.
	Account(ctx context.Context, id app.AccountID) (app.Account, error)
}

// Trail reads what was done.
type Trail interface {
	// Acts returns the newest that q chooses, oldest first.
	Acts(ctx context.Context, q app.ActQuery) ([]app.Act, error)
}

// Audit remembers who asked for what.
type Audit interface {
	// Record MUST NOT wait for a disk: it is called before each answer.
	Record(a app.Act)
}
