package httpapi

import (
	"context"
	"io"
	"os"

	"berth/app"
)

// The methods below MUST be safe for concurrent use. Errors carry a kind of
// package app; any other error is answered as an internal one.

// Accounts knows who holds a token.
type Accounts interface {
	// Authenticate returns the account of token: Unauthorized when there is
	// none, Forbidden when it is disabled.
	Authenticate(ctx context.Context, token string) (app.Account, error)
	// SetLocale returns NotFound when locale is not one of app.Locales.
	SetLocale(ctx context.Context, id app.AccountID, locale string) error
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
}

// Settings changes or removes one application.
type Settings interface {
	SetRAM(ctx context.Context, owner app.AccountID, id app.ID, ram app.MB) error
	SetProfile(ctx context.Context, owner app.AccountID, id app.ID, p app.Profile) error
	Delete(ctx context.Context, owner app.AccountID, id app.ID) error
}

// Deployer takes code in. A file that Spool returned without an error is either
// handed over to exactly one call of Upload or Commit, which then owns it even
// when it fails, or given back exactly once with DropSpool.
type Deployer interface {
	// Spool keeps everything r yields. It returns no file when it fails.
	Spool(ctx context.Context, r io.Reader) (file string, err error)
	DropSpool(file string)
	// Upload makes a new application. It goes on when ctx ends.
	Upload(ctx context.Context, owner app.Account, file string) (app.Deployed, error)
	// Commit replaces the code of an application. It goes on when ctx ends.
	Commit(ctx context.Context, owner app.AccountID, id app.ID, file string) (app.Deployed, error)
}

// Downloads makes and opens what links point to. The caller closes.
type Downloads interface {
	// Backup makes a new ZIP file at each call and blocks until it is there.
	Backup(ctx context.Context, owner app.AccountID, id app.ID) (app.Backup, error)
	// OpenBackup returns NotFound when the file has expired.
	OpenBackup(file string) (*os.File, error)
	// OpenLog opens the whole log. It returns NotFound unless version is the
	// UID of the application that has the id now.
	OpenLog(id app.ID, version int64) (io.ReadCloser, error)
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
