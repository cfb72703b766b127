package app

import (
	"context"
	"io"
	"time"
)

// Services are what both edges ask for: the API and the panel. An owner is the account
// that has an application; another account's application is NotFound. Errors carry a
// Kind; any other error is answered as an internal one. All MUST be safe for concurrent
// use.
type Services struct {
	Applications Applications
	Settings     Settings
	Deployments  Deployments
	Contents     Contents
	Logs         Logs
	Feed         Feed
	Accounts     Accounts
	Tokens       Tokens
	Links        Links
	Teams        Teams
	FileEdits    FileEdits
	Names        Names
	Notices      Notices
	Snapshots    Snapshots
	HostBackups  HostBackups
	HostSettings HostSettings
	Icons        Icons

	// Exec runs the command of a session. It asks nobody who may, but that owner has the
	// application.
	Exec ExecService
	// Type sends a line, without its end, to the input of a program that reads it (Code.Stdin), and
	// waits for nothing. It asks nobody who may, but that owner has the application. It fails with Invalid for
	// what is no line, Unusable for an application that reads none, Conflict when no program reads it
	// now, and Unavailable while too much waits to be read.
	Type func(ctx context.Context, owner AccountID, id ID, line string) error
	// Metrics returns what an application used, in stretches of step, or longer ones,
	// oldest first, 2000 at most; those of which nothing is known are left out. It asks
	// nobody who may see them.
	Metrics func(id ID, now, from, to time.Time, step time.Duration) ([]Point, error)
	// RightSize returns which RAM fits an application, by what is remembered of it. It reads
	// the disk, and asks nobody who may know.
	RightSize func(ctx context.Context, a Snapshot) (RightSize, error)
	// RAMPlan measures what all applications use, and reads what they used in 30 days: about a
	// millisecond for each of them.
	RAMPlan func(ctx context.Context) (RAMPlan, error)
	// DiskUse measures what an account has on the disk, but for what was measured a minute
	// ago.
	DiskUse func(ctx context.Context, owner AccountID) (DiskUse, error)
	// Address returns where visitors find a site. It asks nobody who may know.
	Address func(id ID) SiteAddress
	// Certificates returns the certificate of a name, or false if there is nothing to
	// report. It may be nil: then there never is.
	Certificates func(name string) (Certificate, bool)
	// Record remembers who asked for what. It MUST NOT wait for a disk: it is called
	// before each answer. It may be nil: then nothing is recorded.
	Record func(AuditRecord)
	// Shortage returns the host's shortage of memory that lasts, or the last one.
	Shortage func() Shortage

	// Changes refuses every request that is to change something, before its handler
	// runs, while it returns an error. It may be nil: then it refuses none.
	Changes func() error
}

// Applications reads applications and runs them. Methods that start or stop block until
// the change is made or refused: Already when the application is there already,
// Conflict when another operation on it is under way.
type Applications interface {
	// Apps returns the applications of owner, oldest first. It does not block.
	Apps(owner AccountID) []Snapshot
	App(owner AccountID, id ID) (Snapshot, error)
	// Status measures, so it can take a moment.
	Status(ctx context.Context, owner AccountID, id ID) (Status, error)
	// AvailableRAM is the most RAM that an application can have beside what else runs now.
	AvailableRAM(id ID) MB
	Terminal(owner AccountID, id ID) (Terminal, error)
	// OpenLog opens the whole log. It returns NotFound unless version is the
	// UID of the application that has the id now. The caller closes.
	OpenLog(id ID, version int64) (io.ReadCloser, error)
	// EventLog returns what happened last, newest first: Conflict while the
	// application is deployed for the first time.
	EventLog(ctx context.Context, owner AccountID, id ID) ([]HistoryEvent, error)
	Start(ctx context.Context, owner AccountID, id ID) (Snapshot, error)
	Restart(ctx context.Context, owner AccountID, id ID) error
	Stop(ctx context.Context, owner AccountID, id ID) error
	// Outcome blocks until a start has shown how it goes, or ctx ends, and returns
	// the application as it is then. After Start or Restart its LastExit is nil
	// unless the program has ended since.
	Outcome(ctx context.Context, owner AccountID, id ID) (Snapshot, error)
	// Console runs a command in the place of an application, and blocks until nothing
	// of it runs any more, which ctx brings about. A command that fails is no error.
	Console(ctx context.Context, owner AccountID, id ID, command string) (Shell, error)
}

// Settings changes or removes one application. Variables, whose values are secrets, are
// in effect from its next start.
type Settings interface {
	// SetRAM returns Exhausted when the account or the host has not enough RAM free.
	SetRAM(ctx context.Context, owner AccountID, id ID, ram MB) error
	SetProfile(ctx context.Context, owner AccountID, id ID, p Profile) error
	SetAutoRestart(ctx context.Context, owner AccountID, id ID, on bool) error
	Delete(ctx context.Context, owner AccountID, id ID) error
	// Variables returns them by name.
	Variables(ctx context.Context, owner AccountID, id ID) ([]Variable, error)
	// SetVariables sets those with a value and removes the others.
	SetVariables(ctx context.Context, owner AccountID, id ID, change map[string]*string) error
	// RemoveVariable returns NotFound when there is none of that name.
	RemoveVariable(ctx context.Context, owner AccountID, id ID, name string) error
	// AddApts returns what the host lacks of these system packages; nothing is installed.
	AddApts(ctx context.Context, owner AccountID, id ID, list []string) (Wishes, error)
	// DropApts returns their names, or Already when none was asked for.
	DropApts(ctx context.Context, owner AccountID, id ID, list []string) ([]string, error)
}

// Icons keeps the icons of applications. It asks nobody who may.
type Icons interface {
	// IconSums returns the sums of all icons, by application.
	IconSums(ctx context.Context) (map[ID]string, error)
	// Icon returns NotFound for none.
	Icon(ctx context.Context, id ID) (Icon, error)
	// SetIcon makes an icon of a picture: TooLarge and Unusable for one that cannot be, Conflict while the
	// application is deployed for the first time.
	SetIcon(ctx context.Context, id ID, picture []byte) error
	// RemoveIcon takes an icon away, if there is one. An icon that the code brings comes back with new code.
	RemoveIcon(ctx context.Context, id ID) error
}

// FileEdits change files of an application by hand, by their paths below the tree. They fail
// with Conflict while the application is deployed and where something has the name already, with
// NotFound for what is not there, or not the program's own. They replace nothing but by WriteFile and Unzip, and follow no
// link.
type FileEdits interface {
	// WriteFile makes one file hold data: NoSpace beyond the application's disk space, Conflict where
	// over does not allow what has the name.
	WriteFile(ctx context.Context, owner AccountID, id ID, path string, data []byte, over Over) error
	MakeDir(ctx context.Context, owner AccountID, id ID, path string) error
	MoveFile(ctx context.Context, owner AccountID, id ID, from, to string) error
	// DeleteFiles deletes files and directories with all that is in them, up to the first that
	// fails. Their names are free when it returns.
	DeleteFiles(ctx context.Context, owner AccountID, id ID, paths []string) error
	// Unzip unpacks a ZIP, a file of Deployments.Spool, into a directory, and takes it over. Without replace it
	// writes nothing when a file has a name already.
	Unzip(ctx context.Context, owner AccountID, id ID, path, file string, replace bool) (Unzipped, error)
}

// Deployments takes code in, remembers it, and brings it back. A file that Spool returned
// without an error is either handed over to exactly one call of Upload, Commit or Restore,
// which then owns it even when it fails, or given back exactly once with DropSpool. Those
// three and Rollback go on when ctx ends, and report their progress (WithProgress).
type Deployments interface {
	// Spool keeps everything r yields. It returns no file when it fails.
	Spool(ctx context.Context, r io.Reader) (file string, err error)
	DropSpool(file string)
	// Draft judges a file of Spool, which stays the caller's, as Upload would without unpacking it.
	// fields take the place of what its discloud.config says of them; nil changes nothing. It
	// fails when the file is no ZIP that can be unpacked.
	Draft(ctx context.Context, owner Account, file string, fields ConfigField) (Draft, error)
	// Upload makes a new application, and starts it unless WithWanted says otherwise. It has what
	// WithFirst says from its first start on.
	Upload(ctx context.Context, owner Account, file string) (Deployed, error)
	// Commit replaces the code of an application: exact also removes what earlier deploys
	// brought and the ZIP does not have, unless it has changed since.
	Commit(ctx context.Context, owner AccountID, id ID, file string, exact bool) (Deployed, error)
	// Restore makes the files of an application what the ZIP holds, and the variables
	// too withVariables.
	Restore(ctx context.Context, owner AccountID, id ID, file string, withVariables bool) (Deployed, error)
	// Deploys returns the earlier deploys, newest first.
	Deploys(ctx context.Context, owner AccountID, id ID) ([]Deploy, error)
	// Rollback brings the code of one back, of the one before the newest when number is
	// 0: Already when it is the newest.
	Rollback(ctx context.Context, owner AccountID, id ID, number int) (Deployed, error)
	// Backup makes a new ZIP file at each call and blocks until it is there;
	// withVariables puts the environment variables into it, in plain.
	Backup(ctx context.Context, owner AccountID, id ID, withVariables bool) (Backup, error)
}

// Contents are the files of applications, by paths below the tree, "." being the tree, and
// backups, by their file. They ask nobody who may read them. The caller closes.
//
// No link is followed, and what is not a file or directory of uid is NotFound. A uid is
// never another application's soon, so what was deleted meanwhile shows nothing of what
// has its id now.
type Contents interface {
	// List returns what is in a directory, and whether there is more.
	List(id ID, uid int, path string) (list []Entry, more bool, err error)
	// OpenFile returns a file and its size.
	OpenFile(id ID, uid int, path string) (io.ReadCloser, int64, error)
	// PackDir writes what is in a directory as a ZIP, as far as one can hold it. What it has written is void when it fails.
	PackDir(ctx context.Context, id ID, uid int, path string, w io.Writer) error
	// Backups returns those that are younger than ttl, the newest first.
	Backups(id ID, ttl time.Duration) ([]Backup, error)
	// OpenBackup returns a backup and when it was made: NotFound when it has expired.
	OpenBackup(file string) (io.ReadSeekCloser, time.Time, error)
}

// Logs are what applications, or their builds, have printed: lines, each with its stamp.
// They ask nobody who may read them.
type Logs interface {
	// Tail returns the last max bytes, "" when there is no log.
	Tail(id ID, build bool, max int) string
	// Open opens everything that is kept. The caller closes.
	Open(id ID, build bool) (io.ReadCloser, error)
	// FollowBuild follows the log of an application's build from now on, its lines
	// without their stamps. The caller closes the follower.
	FollowBuild(id ID) (Follower, error)
}

// Follower reads an output at its own pace. Whatever it does, or fails to do,
// the output does not wait for it.
type Follower interface {
	// Ready receives when there may be something to take.
	Ready() <-chan struct{}
	// Take returns whole lines that came since the last call; a line says what it
	// missed. It does not block.
	Take() string
	Close()
}

// LogCursor reads a log at its own pace and knows where it is. It is for one goroutine.
type LogCursor interface {
	Follower
	// Position names the place behind what was taken, for LineStart.
	Position() string
}

// Feed streams what happens while it happens.
type Feed interface {
	// Watch fails with NotFound and Forbidden for what the account may not see, Invalid
	// for lines of all applications, Limited and Unavailable when too many watch
	// already. The caller closes the stream.
	Watch(ctx context.Context, w Watch) (Stream, error)
	// Last returns the ID of the newest event. Who reads everything after that, and then
	// watches from it, misses nothing.
	Last() int64
}

// Stream is one reader of the Feed. Next and Check are for one goroutine.
type Stream interface {
	// Next blocks until something has happened, and returns that in order. It
	// fails with Unavailable when the daemon ends, or is upgraded.
	Next(ctx context.Context) ([]Event, error)
	// Check fails when the account may not see any more what it watches.
	Check(ctx context.Context) error
	Close()
}

// Accounts knows who holds an API token.
type Accounts interface {
	// Authenticate returns the account of token, and what is known of the token:
	// Unauthorized when there is none, Forbidden, with both, when the account is
	// disabled.
	Authenticate(ctx context.Context, token string) (Account, Token, error)
	// SetLocale returns NotFound when locale is not one of Locales.
	SetLocale(ctx context.Context, id AccountID, locale string) error
}

// Tokens are the API tokens of an account.
type Tokens interface {
	// Tokens returns those that work, oldest first.
	Tokens(ctx context.Context, id AccountID) ([]Token, error)
	// Issue makes a token of wanted's account with its label and its bounds, which works
	// for lasts, for ever when that is 0. Its text is never returned again. It fails with
	// Invalid, NotFound for bounds with an application that the account may not use, and
	// Exhausted.
	Issue(ctx context.Context, wanted Token, lasts time.Duration) (string, Token, error)
	// Rotate makes a successor, with the same bounds, and ends the old one after overlap.
	Rotate(ctx context.Context, account AccountID, id int64, overlap time.Duration) (string, Token, error)
	// Revoke returns NotFound for who has no such token.
	Revoke(ctx context.Context, account AccountID, id int64) error
}

// Links makes the addresses of downloads that need no token.
type Links interface {
	// Sign returns a text that is safe as one segment of a path.
	Sign(l Link) string
	// Verify returns NotFound when token was forged or has expired.
	Verify(token string) (Link, error)
}

// Teams knows who else may use the applications of an account. Names of permissions that
// are none are Invalid.
type Teams interface {
	// Members returns the members of all applications of owner, by application
	// and account.
	Members(ctx context.Context, owner AccountID) ([]Member, error)
	// AddMember returns NotFound for an unknown account, Conflict for a member.
	AddMember(ctx context.Context, owner AccountID, id ID, member AccountID, permissions []string) (Member, error)
	// AddNamed is AddMember for the name of an account. Both return Limited after many
	// accounts that there are not.
	AddNamed(ctx context.Context, owner AccountID, id ID, name string, permissions []string) (Member, error)
	// SetMember and RemoveMember return NotFound for who is no member.
	SetMember(ctx context.Context, owner AccountID, id ID, member AccountID, permissions []string) (Member, error)
	RemoveMember(ctx context.Context, owner AccountID, id ID, member AccountID) error
	// Memberships returns the applications of others that member may use.
	Memberships(ctx context.Context, member AccountID) ([]Membership, error)
	// Authorize returns the owner of an application when member may do with it
	// what p names: NotFound for who is no member, Forbidden without p.
	Authorize(ctx context.Context, member AccountID, id ID, p Permission) (AccountID, error)
}

// Notices are the channels of an account and what goes through them. Another account's
// channel, or delivery, is NotFound. Channels are returned with a Target and Secrets that are
// masked, but where it says otherwise; the Recipient is in a Target that has one.
type Notices interface {
	// Channels returns them, oldest first.
	Channels(ctx context.Context, owner AccountID) ([]Channel, error)
	Channel(ctx context.Context, owner AccountID, id int64) (Channel, error)
	// AddChannel makes a channel of c.Account, whose c.Owner the caller knows, with a secret, which is returned, if it is a
	// Webhook. An Email channel gets the link that confirms it, and nothing else before that
	// was followed. It fails with Invalid, Conflict for a name that is taken, Exhausted for
	// too many channels, or links in an hour, and Unusable where the host has no mail server.
	AddChannel(ctx context.Context, c Channel) (Channel, error)
	// SetChannel changes the channel c.ID of c.Account: its Target where that is not "", the
	// Secrets of an Ntfy where there are any, and everything else that an owner decides but the
	// Service. Where it was stopped, and is On now, it is sent to again. It has the errors of
	// AddChannel.
	SetChannel(ctx context.Context, c Channel) (Channel, error)
	RemoveChannel(ctx context.Context, owner AccountID, id int64) error
	// TurnSecret gives a Webhook a new secret, which is returned, beside the newest that it
	// has: messages are signed with both until EndSecret.
	TurnSecret(ctx context.Context, owner AccountID, id int64) (Channel, error)
	// EndSecret ends all secrets of a Webhook but the newest. It fails with Already if it has
	// no other.
	EndSecret(ctx context.Context, owner AccountID, id int64) error
	// TestChannel sends a message now and blocks until that is known to have arrived: at most 15
	// seconds. Its error says why it has not, Unusable; Exhausted after too many in an hour. For an Email
	// channel that is not confirmed it sends the link again.
	TestChannel(ctx context.Context, owner AccountID, id int64) error
	// Confirm confirms the Email channel that token was sent to, and Leave switches the channel off that has it in
	// its messages. Both return NotFound for what is no such token.
	Confirm(ctx context.Context, token string) (Channel, error)
	Leave(ctx context.Context, token string) (Channel, error)
	// Deliveries returns the last ones of a channel, newest first.
	Deliveries(ctx context.Context, owner AccountID, channel int64) ([]Delivery, error)
	// SendAgain sends a message that was sent, or failed, again: with the same ID. It fails
	// with Already while that waits for its next try.
	SendAgain(ctx context.Context, owner AccountID, delivery int64) error
}

// Snapshots are the copies of applications in the backup of the host. Where the host has no
// backup there are none.
type Snapshots interface {
	// Snapshots returns those of an application, newest first. What was copied of another
	// application that had the ID before is not among them.
	Snapshots(ctx context.Context, owner AccountID, id ID) ([]BackupSnapshot, error)
	// RestoreSnapshot makes the files of an application what they were when the backup run was made, as
	// Deployments.Restore does, and the variables too withVariables. It fails with NotFound where there is no
	// such copy, and with Unavailable when the repository cannot be read.
	RestoreSnapshot(ctx context.Context, owner AccountID, id ID, run string, withVariables bool) (Deployed, error)
	// CopySnapshot makes a new application of one, as Deployments.Upload does. A site needs
	// a free ID; it is refused while the site that it was copied from has that.
	CopySnapshot(ctx context.Context, owner Account, id ID, run string, withVariables bool) (Deployed, error)
}

// HostBackups is the backup of the whole host, for those who administer it. It asks nobody
// who may.
type HostBackups interface {
	BackupStatus(ctx context.Context) (BackupStatus, error)
	// SetBackupPolicy stores the policy and lets it hold from now on. It fails with Invalid, and
	// with Forbidden for what the settings file decides.
	SetBackupPolicy(ctx context.Context, p BackupPolicy) error
	// StartBackup starts a backup, or with rehearse a rehearsal, and does not wait for its end.
	// It fails with Already while one is under way, and with Unusable where none is set up.
	StartBackup(ctx context.Context, rehearse bool) error
}

// HostSettings are the settings of the host that an administrator may change, for those who administer it.
// It asks nobody whether they may.
type HostSettings interface {
	// HostSettings returns all of them, by section.
	HostSettings(ctx context.Context) ([]HostSetting, error)
	// SetHostSettings stores values by their keys, and returns those that changed, each with the value of before as its
	// Default. They hold from the next start or reload of the daemon. It fails with Invalid for a bad value, and Forbidden for
	// what the panel may not change or something else decides; then nothing changed.
	SetHostSettings(ctx context.Context, values map[string]string) ([]HostSetting, error)
}

// Names knows the subdomains of an account, and the domains that it brings; name is as
// somebody wrote it. Another account's domain is NotFound.
type Names interface {
	// Names returns all of them, oldest first.
	Names(ctx context.Context, owner AccountID) (NameList, error)
	// Subdomain returns Invalid when there can be no such name, NotFound when
	// nobody has it, and Forbidden when another account has.
	Subdomain(ctx context.Context, owner AccountID, id ID) (Subdomain, error)
	// ReserveSubdomain fails with Conflict when somebody has the name.
	ReserveSubdomain(ctx context.Context, owner AccountID, id ID) (Subdomain, error)
	// ReleaseSubdomain has Subdomain's errors, and Conflict while a site has it.
	ReleaseSubdomain(ctx context.Context, owner AccountID, id ID) error
	Domain(ctx context.Context, owner AccountID, name string) (Domain, error)
	// ClaimDomain fails with Conflict when the domain is taken.
	ClaimDomain(ctx context.Context, owner AccountID, id ID, name string) (Domain, error)
	// AssignDomain leads a domain to another application.
	AssignDomain(ctx context.Context, owner AccountID, name string, to ID) (Domain, error)
	RemoveDomain(ctx context.Context, owner AccountID, name string) error
	// VerifyDomain asks the DNS, so it can take seconds; the status says what
	// came of it. It fails with Unavailable when the DNS does not answer.
	VerifyDomain(ctx context.Context, owner AccountID, name string) (Domain, error)
}
