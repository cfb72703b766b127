package httpapi

import (
	"context"
	"io"
	"os"
	"time"

	"berth/app"
)

// The methods below MUST be safe for concurrent use. Errors carry a kind of
// package app; any other error is answered as an internal one.

// Accounts knows who holds a token.
type Accounts interface {
	// Authenticate returns the account of token, and what is known of the token:
	// Unauthorized when there is none, Forbidden, with both, when the account is
	// disabled.
	Authenticate(ctx context.Context, token string) (app.Account, app.Token, error)
	// SetLocale returns NotFound when locale is not one of app.Locales.
	SetLocale(ctx context.Context, id app.AccountID, locale string) error
}

// Audit remembers who asked for what.
type Audit interface {
	// Record MUST NOT wait for a disk: it is called before each answer.
	Record(a app.Act)
}

// Links makes the addresses of downloads that need no token.
type Links interface {
	// Sign returns a text that is safe as one segment of a path.
	Sign(l app.Link) string
	// Verify returns NotFound when token was forged or has expired.
	Verify(token string) (app.Link, error)
}

// Catalog reads applications. Another account's application is NotFound.
type Catalog interface {
	// Apps returns the applications of owner, oldest first. It does not block.
	Apps(owner app.AccountID) []app.Snapshot
	App(owner app.AccountID, id app.ID) (app.Snapshot, error)
	// Status measures, so it can take a moment.
	Status(ctx context.Context, owner app.AccountID, id app.ID) (app.Status, error)
	Terminal(owner app.AccountID, id app.ID) (app.Terminal, error)
}

// Control runs applications. Each method blocks until the change is made or
// refused: Already when the application is there already, Conflict when
// another operation on it is under way.
type Control interface {
	Start(ctx context.Context, owner app.AccountID, id app.ID) (app.Snapshot, error)
	Restart(ctx context.Context, owner app.AccountID, id app.ID) error
	Stop(ctx context.Context, owner app.AccountID, id app.ID) error
	// Outcome blocks until a start has shown how it goes, or ctx ends, and returns
	// the application as it is then. After Start or Restart its LastExit is nil
	// unless the program has ended since.
	Outcome(ctx context.Context, owner app.AccountID, id app.ID) (app.Snapshot, error)
}

// Settings changes or removes one application.
type Settings interface {
	SetRAM(ctx context.Context, owner app.AccountID, id app.ID, ram app.MB) error
	SetProfile(ctx context.Context, owner app.AccountID, id app.ID, p app.Profile) error
	Delete(ctx context.Context, owner app.AccountID, id app.ID) error
}

// Teams knows who else may use the applications of an account. Another
// account's application is NotFound; names of permissions that are none are
// Invalid.
type Teams interface {
	// Members returns the members of all applications of owner, by application
	// and account.
	Members(ctx context.Context, owner app.AccountID) ([]app.Member, error)
	// AddMember returns NotFound for an unknown account, Conflict for a member.
	AddMember(ctx context.Context, owner app.AccountID, id app.ID, member app.AccountID, permissions []string) (app.Member, error)
	// SetMember and RemoveMember return NotFound for who is no member.
	SetMember(ctx context.Context, owner app.AccountID, id app.ID, member app.AccountID, permissions []string) (app.Member, error)
	RemoveMember(ctx context.Context, owner app.AccountID, id app.ID, member app.AccountID) error
}

// Memberships knows which applications of others an account may use.
type Memberships interface {
	Memberships(ctx context.Context, member app.AccountID) ([]app.Membership, error)
	// Authorize returns the owner of an application when member may do with it
	// what p names: NotFound for who is no member, Forbidden without p.
	Authorize(ctx context.Context, member app.AccountID, id app.ID, p app.Permission) (app.AccountID, error)
}

// Environment is what surrounds the program of an application: variables, in
// effect from its next start, and the system packages that it asks for.
type Environment interface {
	// Variables returns them by name. Their values are secrets.
	Variables(ctx context.Context, owner app.AccountID, id app.ID) ([]app.Variable, error)
	// SetVariables sets those with a value and removes the others.
	SetVariables(ctx context.Context, owner app.AccountID, id app.ID, change map[string]*string) error
	// RemoveVariable returns NotFound when there is none of that name.
	RemoveVariable(ctx context.Context, owner app.AccountID, id app.ID, name string) error
	// AddApts returns what the host lacks of these; nothing is installed.
	AddApts(ctx context.Context, owner app.AccountID, id app.ID, list []string) (app.Wishes, error)
	// DropApts returns their names, or Already when none was asked for.
	DropApts(ctx context.Context, owner app.AccountID, id app.ID, list []string) ([]string, error)
}

// Deployer takes code in. A file that Spool returned without an error is either
// handed over to exactly one call of Upload, Commit or Restore, which then owns it even
// when it fails, or given back exactly once with DropSpool.
type Deployer interface {
	// Spool keeps everything r yields. It returns no file when it fails.
	Spool(ctx context.Context, r io.Reader) (file string, err error)
	DropSpool(file string)
	// Upload makes a new application. It goes on when ctx ends.
	Upload(ctx context.Context, owner app.Account, file string) (app.Deployed, error)
	// Commit replaces the code of an application. It goes on when ctx ends.
	Commit(ctx context.Context, owner app.AccountID, id app.ID, file string) (app.Deployed, error)
	// Restore makes the files of an application what the ZIP holds, and the
	// variables too withVariables. It goes on when ctx ends.
	Restore(ctx context.Context, owner app.AccountID, id app.ID, file string, withVariables bool) (app.Deployed, error)
}

// History knows the earlier deploys of an application.
type History interface {
	// Deploys returns them, newest first.
	Deploys(ctx context.Context, owner app.AccountID, id app.ID) ([]app.Deploy, error)
	// Rollback brings the code of one back, of the one before the newest when
	// number is 0: Already when it is the newest. It goes on when ctx ends.
	Rollback(ctx context.Context, owner app.AccountID, id app.ID, number int) (app.Deployed, error)
}

// Console runs commands in the place of applications.
type Console interface {
	// Console blocks until nothing of the command runs any more, which ctx
	// brings about. A command that fails is no error.
	Console(ctx context.Context, owner app.AccountID, id app.ID, command string) (app.Shell, error)
}

// Downloads makes and opens what links point to. The caller closes.
type Downloads interface {
	// Backup makes a new ZIP file at each call and blocks until it is there;
	// withVariables puts the environment variables into it, in plain.
	Backup(ctx context.Context, owner app.AccountID, id app.ID, withVariables bool) (app.Backup, error)
	// BackupOf returns the application that a backup was made of, by its file.
	BackupOf(file string) (id app.ID, ok bool)
	// OpenBackup returns NotFound when the file has expired.
	OpenBackup(file string) (*os.File, error)
	// OpenLog opens the whole log. It returns NotFound unless version is the
	// UID of the application that has the id now.
	OpenLog(id app.ID, version int64) (io.ReadCloser, error)
}

// Names knows the names of an account.
type Names interface {
	// Names returns all of them, oldest first.
	Names(ctx context.Context, owner app.AccountID) (app.Names, error)
	// Subdomain returns Invalid when there can be no such name, NotFound when
	// nobody has it, and Forbidden when another account has.
	Subdomain(ctx context.Context, owner app.AccountID, id app.ID) (app.Subdomain, error)
	// ReserveSubdomain fails with Conflict when somebody has the name.
	ReserveSubdomain(ctx context.Context, owner app.AccountID, id app.ID) (app.Subdomain, error)
	// ReleaseSubdomain has Subdomain's errors, and Conflict while a site has it.
	ReleaseSubdomain(ctx context.Context, owner app.AccountID, id app.ID) error
}

// Domains knows the domains that accounts bring; name is as somebody wrote it.
// Another account's is NotFound.
type Domains interface {
	Domain(ctx context.Context, owner app.AccountID, name string) (app.Domain, error)
	// ClaimDomain fails with Conflict when the domain is taken.
	ClaimDomain(ctx context.Context, owner app.AccountID, id app.ID, name string) (app.Domain, error)
	// AssignDomain leads a domain to another application.
	AssignDomain(ctx context.Context, owner app.AccountID, name string, to app.ID) (app.Domain, error)
	RemoveDomain(ctx context.Context, owner app.AccountID, name string) error
	// VerifyDomain asks the DNS, so it can take seconds; the status tells what
	// came of it. It fails with Unavailable when the DNS does not answer.
	VerifyDomain(ctx context.Context, owner app.AccountID, name string) (app.Domain, error)
}

// Builds shows the output of builds while they run.
type Builds interface {
	// FollowBuild follows the log of an application's build from now on. The
	// caller closes the follower.
	FollowBuild(id app.ID) (Follower, error)
}

// Follower reads an output at its own pace. Whatever it does, or fails to do,
// the output does not wait for it.
type Follower interface {
	// Ready receives when there may be something to take.
	Ready() <-chan struct{}
	// Take returns whole lines that came since the last call, as they were
	// printed; what it missed is told in a line. It does not block.
	Take() string
	Close()
}

// Feed tells what happens while it happens.
type Feed interface {
	// Watch fails with NotFound and Forbidden for what the account may not see,
	// Invalid for lines of all applications, Limited and Unavailable when too many
	// watch already. The caller closes the stream.
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

// Metrics knows what applications used.
type Metrics interface {
	// Metrics returns stretches of step, or longer ones, oldest first, 2000 at
	// most; those of which nothing is known are left out.
	Metrics(ctx context.Context, owner app.AccountID, id app.ID, from, to time.Time, step time.Duration) ([]app.Point, error)
}

// Chronicle knows what happened to applications.
type Chronicle interface {
	// Happenings returns the last ones, newest first.
	Happenings(ctx context.Context, owner app.AccountID, id app.ID) ([]app.Happening, error)
}
