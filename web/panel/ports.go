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
	// Remember returns by what a browser is known in which the account has just
	// signed in, "" when it is to be by nothing.
	Remember(ctx context.Context, a app.Account) (string, error)
}

// Passwords changes them.
type Passwords interface {
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
	// RoomOf is the most that an application can have beside what else runs now.
	RoomOf(id app.ID) app.MB
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

// Settings changes or removes one application.
type Settings interface {
	SetRAM(ctx context.Context, owner app.AccountID, id app.ID, ram app.MB) error
	SetProfile(ctx context.Context, owner app.AccountID, id app.ID, p app.Profile) error
	SetAutoRestart(ctx context.Context, owner app.AccountID, id app.ID, on bool) error
	Delete(ctx context.Context, owner app.AccountID, id app.ID) error
}

// Teams knows who else may use the applications of an account.
type Teams interface {
	// Members returns the members of all applications of owner.
	Members(ctx context.Context, owner app.AccountID) ([]app.Member, error)
	// AddMember returns NotFound for an unknown account, Conflict for a member.
	AddMember(ctx context.Context, owner app.AccountID, id app.ID, member app.AccountID, permissions []string) (app.Member, error)
	// SetMember and RemoveMember return NotFound for who is no member.
	SetMember(ctx context.Context, owner app.AccountID, id app.ID, member app.AccountID, permissions []string) (app.Member, error)
	RemoveMember(ctx context.Context, owner app.AccountID, id app.ID, member app.AccountID) error
}

// Environment is the variables of an application, in effect from its next start.
type Environment interface {
	// Variables returns them by name. Their values are secrets.
	Variables(ctx context.Context, owner app.AccountID, id app.ID) ([]app.Variable, error)
	// SetVariables sets those with a value and removes the others.
	SetVariables(ctx context.Context, owner app.AccountID, id app.ID, change map[string]*string) error
	// RemoveVariable returns NotFound when there is none of that name.
	RemoveVariable(ctx context.Context, owner app.AccountID, id app.ID, name string) error
}

// Deployer takes code in. A file that Spool returned without an error is either
// handed over to exactly one call of Upload, Commit or Restore, which then owns it
// even when it fails, or given back exactly once with DropSpool. The three go on
// when ctx ends, and tell their progress (app.WithProgress).
type Deployer interface {
	// Spool keeps everything r yields. It returns no file when it fails.
	Spool(ctx context.Context, r io.Reader) (file string, err error)
	DropSpool(file string)
	Upload(ctx context.Context, owner app.Account, file string) (app.Deployed, error)
	Commit(ctx context.Context, owner app.AccountID, id app.ID, file string) (app.Deployed, error)
	Restore(ctx context.Context, owner app.AccountID, id app.ID, file string, withVariables bool) (app.Deployed, error)
}

// BuildLog shows what builds print.
type BuildLog interface {
	// Tail returns the last max bytes of the output of an application's program,
	// or of its last build.
	Tail(id app.ID, build bool, max int) string
}

// Backups makes and opens backups.
type Backups interface {
	// Backup blocks until the file is there; withVariables puts the environment
	// variables into it, in plain.
	Backup(ctx context.Context, owner app.AccountID, id app.ID, withVariables bool) (app.Backup, error)
	// Backups returns those that can be downloaded, the newest first.
	Backups(owner app.AccountID, id app.ID) ([]app.Backup, error)
	// OpenBackup returns NotFound when the file has expired. The caller closes.
	OpenBackup(file string) (io.ReadCloser, error)
	// Sign returns the part of an address of /d that opens a backup.
	Sign(l app.Link) string
}

// Domains knows the domains that accounts bring. Another account's is NotFound.
type Domains interface {
	// Names returns all names of an account, oldest first.
	Names(ctx context.Context, owner app.AccountID) (app.Names, error)
	Domain(ctx context.Context, owner app.AccountID, name string) (app.Domain, error)
	// ClaimDomain fails with Conflict when the domain is taken.
	ClaimDomain(ctx context.Context, owner app.AccountID, id app.ID, name string) (app.Domain, error)
	RemoveDomain(ctx context.Context, owner app.AccountID, name string) error
	// VerifyDomain asks the DNS, so it can take seconds; the status tells what
	// came of it. It fails with Unavailable when the DNS does not answer.
	VerifyDomain(ctx context.Context, owner app.AccountID, name string) (app.Domain, error)
}

// Files are those of an application, by paths below its tree; "." is the tree. No
// link is followed, and what is not a file or directory of the application's own
// is NotFound.
type Files interface {
	// List returns what is in a directory, and whether there is more.
	List(owner app.AccountID, id app.ID, path string) (list []app.Entry, more bool, err error)
	// OpenFile returns a file and its size. The caller closes it.
	OpenFile(owner app.AccountID, id app.ID, path string) (io.ReadCloser, int64, error)
	// WriteFile fails with Conflict while the application is deployed, NoSpace
	// beyond its disk space.
	WriteFile(ctx context.Context, owner app.AccountID, id app.ID, path string, data []byte) error
}

// Keeper looks after the accounts of the host.
type Keeper interface {
	// Accounts returns all of them, oldest first, and the RAM that each has assigned.
	Accounts(ctx context.Context) ([]app.Account, []app.MB, error)
	Create(ctx context.Context, name string, ram app.MB) (app.Account, error)
	SetTotal(ctx context.Context, id app.AccountID, ram app.MB) (app.Account, error)
	SetDisabled(ctx context.Context, id app.AccountID, disabled bool) (app.Account, error)
	// Invite makes a one-time link to a new password and returns its text.
	Invite(ctx context.Context, id app.AccountID) (string, error)
}
