package host

import (
	"context"
	"io"
	"net"
	"net/netip"
	"time"

	"berth/app"
)

// Launch starts a program and returns once it runs. What it cannot start, it
// leaves nothing of. This is the seam to whatever runs programs.
type Launch func(ctx context.Context, p app.Program) (Instance, error)

// Survivor is a program that an earlier daemon started and nobody has waited
// for: it runs, or has ended while nobody looked.
type Survivor struct {
	Instance
	Run       int
	StartedAt time.Time
	Port      int // that it was given; 0 for the application's
}

// Adopt goes on with what an earlier daemon left of an application's program;
// nil when that is nothing. What it cannot adopt, it ends. Of p only what an
// application keeps between runs counts.
type Adopt func(p app.Program) (*Survivor, error)

// Shell starts a console command, or that of a session with e, in place of a program,
// and returns once it runs. What it cannot start, it leaves nothing of. p.Argv is the
// command; all else is as the program's would be.
type Shell func(ctx context.Context, p app.Program, e *app.Exec) (Command, error)

// Command is a console command that was started, or that of a session. Its methods are
// safe for concurrent use.
type Command interface {
	// Wait blocks until nothing of the command runs any more, not even in the
	// background; beside a program that is ending, until that has ended too. It
	// may be called more than once.
	Wait() app.Shell
	// End ends everything of it now, and nothing else. It does not wait.
	End()
	// Streams returns what a session reads and writes, and closes them by release, which
	// MUST be called. It MUST NOT be called for a console command.
	Streams() (streams app.Streams, release func())
}

// Instance is a program that was started. Its methods are safe for concurrent
// use.
type Instance interface {
	// Wait blocks until nothing of the program runs any more and its output
	// is in the log. It may be called more than once.
	Wait() app.Exit
	// Stop asks the program to end and ends it after grace, at once when
	// grace is 0. It does not wait.
	Stop(grace time.Duration)
	// Leave lets the program go on for a later daemon to adopt: Wait returns,
	// and what it returns says nothing. It returns false when the program has
	// ended already: Wait returns how.
	Leave() bool
	// Shell starts a console command beside the program, or that of a session with e:
	// within its limits, and ended with it at the latest. It fails with app.Conflict when the
	// program is ending.
	Shell(argv []string, e *app.Exec) (Command, error)
	// SetMemory changes the limit of the running program and its share of the
	// processor, or refuses with app.Exhausted when it uses more.
	SetMemory(ram app.MB) error
	// Usage returns what it uses now.
	Usage(ctx context.Context) (app.Usage, error)
	// Counts returns what it has used up to now, without waiting; nothing once it
	// has ended.
	Counts() (app.Counts, error)
	// Listens returns where the program takes connections now. It may block for a
	// second.
	Listens() (app.Listening, error)
	// Dial connects to an address of Listens that is not the program's own port, to a
	// socket of the program's alone.
	Dial(ctx context.Context, at netip.AddrPort) (net.Conn, error)
	// Ended reports whether the program has ended, also while Wait has not returned
	// yet. It does not wait.
	Ended() bool
	// Busy reports whether something of the program runs, or waits for a processor
	// or the disk. It may block for a tenth of a second.
	Busy() bool
	// Held returns what the program holds of the disk that no name leads to any
	// more: files that were removed, and are open.
	Held(ctx context.Context) (app.Space, error)
}

// HostMemory is what memory the host has, in bytes.
type HostMemory struct {
	Available int64 // of the RAM, without swapping
	RAM       int64
	All       int64 // with the swap
}

// Memory is the host's memory. It is safe for concurrent use.
type Memory interface {
	// Wait blocks until programs have waited for memory since it was called last, until
	// d has passed unless that is 0, or until ctx ends. It fails where the kernel does
	// not tell.
	Wait(ctx context.Context, d time.Duration) (waited bool, err error)
	Free() (HostMemory, error)
	// Keep keeps what berth itself has in memory there, or lets the kernel take it again.
	Keep(keep bool) error
	// Rank sets the oom_score_adj of every process of a run, console commands beside it
	// included, to what score makes of the bytes that the largest has in memory. A run
	// that has ended is no error.
	Rank(id app.ID, run int, score func(largest int64) int) error
}

// Records is what is remembered of each application that exists: what is wanted of it,
// its runs, what its owner can change of it, and what surrounds its program.
type Records interface {
	Apps(ctx context.Context) ([]app.App, error)
	SetWanted(ctx context.Context, id app.ID, wanted app.Wanted) error
	// RunStarted records a start; auto says that nobody asked for it.
	RunStarted(ctx context.Context, id app.ID, run int, at time.Time, auto bool) error
	// Starts returns when berth started applications by itself since then, oldest first.
	Starts(ctx context.Context, since time.Time) (map[app.ID][]time.Time, error)
	RunEnded(ctx context.Context, id app.ID, e app.Exit) error
	ClearExit(ctx context.Context, id app.ID) error
	SetRAM(ctx context.Context, id app.ID, ram app.MB, admit Admit) error
	SetProfile(ctx context.Context, id app.ID, p app.Profile) error
	SetAutoRestart(ctx context.Context, id app.ID, on bool) error
	// Variables returns those of an application that exists, by name, or fails
	// with app.NotFound. Commands of the owner of the host change them too.
	Variables(ctx context.Context, id app.ID) ([]app.Variable, error)
	// ChangeVariables stores what change makes of them, unless it refuses.
	ChangeVariables(ctx context.Context, id app.ID, change func(set map[string]string) error) error
	SetApts(ctx context.Context, id app.ID, apts []string) error
}

// Registry makes applications exist and forgets them, and remembers what happened to
// them: deploys, and what else there was. Exits and successful deployments get among the
// happenings with their records.
type Registry interface {
	// Reserve puts the id, a uid, a port and the RAM aside, or refuses. From
	// then on the application's age counts.
	Reserve(ctx context.Context, a app.App, admit func(owner app.Account, used app.Use) error) (app.App, error)
	Release(ctx context.Context, id app.ID) error
	// CreateApp makes the application exist, with d as its first deploy, and with variables.
	CreateApp(ctx context.Context, a app.App, d app.Deploy, variables ...app.Variable) (app.App, error)
	// DeleteApp forgets the application; its place stays reserved.
	DeleteApp(ctx context.Context, id app.ID) error
	DropReservations(ctx context.Context) (int, error)
	// Spare returns the port of a second run of an application that exists. It
	// fails with app.Exhausted.
	Spare(ctx context.Context, id app.ID) (int, error)
	// AddDeploy records one, and in the same transaction the code, autoRestart, its
	// run, what is wanted and, unless they are nil, the variables. From then on its
	// journal is good. wanted is asked within the transaction: what SetWanted stores
	// after its answer comes after the deploy. admit judges the RAM of code that is
	// charged it where that of before was not; what it returns fails the call. retain gets the history, newest first,
	// and returns what is to stay of it.
	AddDeploy(
		ctx context.Context, id app.ID, d app.Deploy, variables []app.Variable,
		wanted func() app.Wanted, admit Admit, retain func([]app.Deploy) []app.Deploy,
	) (app.Deploy, error)
	// DropJournal forgets a journal, not its deploy.
	DropJournal(ctx context.Context, id app.ID, journal string) error
	// Deploys returns the history, newest first.
	Deploys(ctx context.Context, id app.ID) ([]app.Deploy, error)
	// Journals returns those that are good, and the lists of what deploys brought.
	Journals(ctx context.Context, id app.ID) ([]string, error)
	AddHistoryEvent(ctx context.Context, id app.ID, p app.HistoryEvent) error
	// EventLog returns the last ones, newest first.
	EventLog(ctx context.Context, id app.ID) ([]app.HistoryEvent, error)
}

// Admit judges whether an account with total RAM, of which used is assigned
// to others, may have what is asked.
type Admit = func(total, used app.MB) error

// Staging takes uploads in and unpacks them, apart from what runs, and makes stages of
// states from before.
type Staging interface {
	// Spool keeps an upload of at most max bytes.
	Spool(ctx context.Context, r io.Reader, max int64) (file string, err error)
	DropSpool(file string) error
	// Unpack checks a ZIP, shows its config to judge, and extracts it unless
	// judge refuses. over is the code that a commit lays it over, nil for a new
	// application.
	Unpack(ctx context.Context, file string, over *app.Code, judge func(app.Config) error) (app.Unpacked, error)
	// UnpackAs is Unpack for a new application with config in the place of the ZIP's own.
	UnpackAs(ctx context.Context, file, config string, judge func(app.Config) error) (app.Unpacked, error)
	// Look begins the Draft of a ZIP and shows it to judge, with what its config says and its
	// files. It unpacks nothing.
	Look(file string, fields app.ConfigField, judge func(d *app.Draft, cfg app.Config, files app.Files) error) (app.Draft, error)
	// Files shows the stage's tree over the live one (no live one when id is "").
	Files(stage app.Stage, id app.ID) app.Files
	// Over says that a stage is a commit, and shows what the tree will hold once it is
	// laid. before is Deploy.Brought of the deploy before. exact removes what those
	// deploys brought and the stage does not, unless the program has changed it.
	Over(ctx context.Context, stage app.Stage, id app.ID, before string, exact bool) (app.Files, error)
	Discard(stage app.Stage) error
	// PrepareRestore is Trees.Prepare for a stage that stands for all the files
	// there are to be.
	PrepareRestore(ctx context.Context, stage app.Stage, id app.ID, uid int) error
	// Remains shows what such a stage will leave.
	Remains(stage app.Stage, id app.ID) app.Files
	// Rollback makes a stage that takes commits back, by their journals, newest
	// first, and returns the files that stay because the program has made or
	// changed them since. Nothing of the application may run until it is applied.
	Rollback(ctx context.Context, id app.ID, uid int, journals []string) (stage app.Stage, stays []string, err error)
}

// Trees changes, measures, copies and removes the live trees of applications.
type Trees interface {
	// Publish makes the tree of a new application, and names the list of what it
	// brought (Deploy.Brought).
	Publish(ctx context.Context, stage app.Stage, id app.ID, uid int) (brought string, err error)
	// Relist names that list as it is after the first build.
	Relist(ctx context.Context, id app.ID, brought string) (string, error)
	Prepare(ctx context.Context, stage app.Stage, id app.ID, uid int) error
	// Apply lays a stage over the tree and names the journal that takes it back.
	Apply(ctx context.Context, stage app.Stage, id app.ID, uid int) (app.Applied, error)
	// Settle takes back what was applied and is not among good, the journals and
	// lists that the records name.
	Settle(ctx context.Context, id app.ID, uid int, good []string) error
	// Renew makes a live tree that is gone anew, empty, if it may, and reports
	// whether it was gone, or empty.
	Renew(ctx context.Context, id app.ID, uid int, may bool) (gone bool, err error)
	// Used returns what counts against the application's disk space.
	Used(ctx context.Context, id app.ID) (app.Space, error)
	// Backup writes a ZIP of a tree, with the variables unless they are nil, and removes
	// the oldest ones that there is no room for.
	Backup(ctx context.Context, id app.ID, variables []app.Variable, room app.BackupRoom) (file string, err error)
	// Backups returns those that are younger than ttl, the newest first.
	Backups(id app.ID, ttl time.Duration) ([]app.Backup, error)
	DropBackups(before time.Time) (int, error)
	Remove(ctx context.Context, id app.ID) error
}

// Edits change single files of live trees, which must be uid's.
type Edits interface {
	WriteFile(id app.ID, uid int, name string, data []byte, over app.Over) error
	MakeDir(id app.ID, uid int, name string) error
	Move(id app.ID, uid int, from, to string) error
	// Delete frees a name; finish removes what had it.
	Delete(id app.ID, uid int, name string) (finish func(context.Context) error, err error)
	// Unzip makes a stage, which Lay moves into a directory, and Staging.Discard removes.
	Unzip(ctx context.Context, file string, uid int) (app.Stage, app.Space, error)
	Lay(ctx context.Context, id app.ID, uid int, name string, stage app.Stage, replace bool) (app.Unzipped, error)
}

// Recover undoes what a crash left half done, by what the Registry says, removes what
// there is of applications that are gone and moves aside what the records do not know.
// What it cannot mend it logs: one damaged application keeps no other from starting. It
// returns those whose tree is mixed: half of it is one commit and half another. It fails
// when something that belongs to no application is still there.
type Recover func(ctx context.Context, known []app.App) (mixed []app.ID, err error)

// Quotas holds applications to their disk space.
type Quotas interface {
	// Mark charges all files of an application to its user id.
	Mark(ctx context.Context, id app.ID, uid int) error
	// SetLimit sets how many bytes a user id's files may take, 0 for no limit. Nothing
	// of it may run when it is called for the first time. Where the kernel refuses
	// nothing it does nothing.
	SetLimit(uid int, bytes int64) error
	// Entries returns how many files an application may have.
	Entries() int64
	// After returns what the tree of id will take with the stage laid over it; id
	// is "" for a new application.
	After(ctx context.Context, stage app.Stage, id app.ID) (app.Space, error)
	// CheckFree refuses with app.NoSpace when less of the disk is free than must be.
	// what completes "cannot ...".
	CheckFree(what string) error
}

// Logs is the applications' output.
type Logs interface {
	// Note adds a line of berth's own.
	Note(id app.ID, text string)
	// Tail returns the last max bytes of the program's output, or of its
	// last build's.
	Tail(id app.ID, build bool, max int) string
	// Open opens everything that is kept. The caller closes.
	Open(id app.ID, build bool) (io.ReadCloser, error)
	// Mark returns a function like Tail for what the program prints from now on.
	Mark(id app.ID) (since func(max int) string)
	// BeginBuild empties the build log.
	BeginBuild(id app.ID) error
}

// Planner says how a program is prepared and started. prepared is the
// app.Code.Packages of the tree as it is, "" when it has none.
type Planner func(cfg app.Config, found bool, files app.Files, prepared string) (app.Plan, error)

// Suggester completes a config by what files show, and says how the program would be prepared and
// started on a host that has every runtime.
type Suggester func(cfg app.Config, files app.Files) (app.Config, app.Plan, error)

// Visits are the requests that the web brings to sites. It is safe for
// concurrent use.
type Visits interface {
	// Healthy asks a program for a path, once, and returns why it is not well.
	Healthy(ctx context.Context, id app.ID, at netip.AddrPort, path string) error
	// Drain blocks until no request is under way to an address, or ctx ends. New ones
	// MUST go elsewhere by now. Sockets says whether to wait for WebSockets too.
	Drain(ctx context.Context, at netip.AddrPort, sockets bool)
}
