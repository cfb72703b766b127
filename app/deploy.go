package app

import (
	"context"
	"slices"
	"time"
)

// Config is a parsed discloud.config. The zero value is an empty file; Has
// reports which keys were written.
type Config struct {
	Main         string
	ID           string
	Name         string
	AvatarURL    string
	Type         Type
	RAM          MB
	Version      string
	Start        string
	Build        string
	AutoRestart  bool
	APT          []string
	Health       string   // see Code.Health
	MemorySignal string   // see Code.MemorySignal
	Stdin        bool     // see Code.Stdin
	Keys         []string // the keys that the file sets, upper case
	Lines        []int    // where each of Keys stands
}

// ConfigKeys are the keys of a discloud.config that mean something to berth.
var ConfigKeys = []string{"MAIN", "TYPE", "RAM", "VERSION", "NAME", "AVATAR", "ID", "START", "BUILD", "AUTORESTART", "APT", "HEALTH", "MEMORY_SIGNAL", "STDIN"}

// Has reports whether the file sets key.
func (c Config) Has(key string) bool { return slices.Contains(c.Keys, key) }

// Where names the line of key for the user, or the file alone.
func (c Config) Where(key string) Text {
	if i := slices.Index(c.Keys, key); i >= 0 && i < len(c.Lines) {
		return Textf("discloud.config line %d", c.Lines[i])
	}
	return Words("discloud.config")
}

// Files is a tree that can be asked about, by slash-separated relative paths.
// Implementations MUST NOT follow links and MUST NOT block on special files.
type Files interface {
	// Exists reports whether path is a regular file.
	Exists(path string) bool
	// Brought reports whether path is a regular file of the upload itself,
	// not of what a commit lays it over.
	Brought(path string) bool
	// Read returns at most limit bytes from the start of a regular file.
	Read(path string, limit int64) ([]byte, error)
}

// Plan is how one program is prepared and started.
type Plan struct {
	Code    Code
	Prepare []Step   // in order; empty when nothing needs preparing
	Runtime string   // see Program.Runtime, also of Prepare
	Argv    []string // the program, none when Code.Static; Argv[0] is absolute, relative to the tree, or in an image a name on its PATH
	Env     []string // added to the environment of the run
	Prelude string   // goes before a shell command, so that it finds the programs of the packages; may be empty
	Notes   []string // what berth could not honour, in words for the user
	Runs    string   // the one of Notes that says that the program runs on another version of its language than it asks for
	Apts    []string // the groups and packages that APT names, as they are remembered
}

// Step is one command of the preparation.
type Step struct {
	Argv   []string
	Text   string // the command as its author wrote it; "" when that is Argv
	Env    []string
	OnFail Text // a sentence for the user that names the remedy, may be empty
}

// Stage names a checked and unpacked upload in the staging area.
type Stage string

// Unpacked is an upload that was checked and unpacked.
type Unpacked struct {
	Stage  Stage
	Config Config
	Found  bool     // whether it brings a config file
	Hint   Text     // explains a config file that was not found
	Left   []string // what was left out, in words for the user
	Bytes  int64    // of the ZIP
	// Variables are those that it holds for whoever asks for them.
	Variables PackedVariables
	// Single: the file was no ZIP of files, but the main file itself.
	Single bool
}

// Source makes a stage of what is to be an application's files. It blocks as long as that takes.
// Of an error nothing stays.
type Source func(ctx context.Context) (Unpacked, error)

// PackedVariables are the environment variables in a ZIP.
type PackedVariables struct {
	Found bool // whether it has a file with variables
	All   []Variable
	Err   error  // for the user: why they cannot be read
	Left  string // which of Unpacked.Left is about them
}

// Applied is a commit that was laid over the live tree.
type Applied struct {
	Journal string // names what undoes it; unguessable, never used again
	Bytes   int64  // that the journal takes on disk
	Brought string // see Deploy.Brought; "" when nobody asked for it

	// Of an exact commit.
	Removed int      // files that earlier deploys had brought
	Stays   []string // such files that have changed since, and stay
	Unknown bool     // what all earlier deploys brought is not known
}

// DeployKind is what brought code to an application.
type DeployKind string

// The kinds of deploys.
const (
	DeployUpload   DeployKind = "upload"
	DeployCommit   DeployKind = "commit"
	DeployRestore  DeployKind = "restore"
	DeployRollback DeployKind = "rollback"
)

// Deploy is one successful deployment in the history of an application.
type Deploy struct {
	Number int // counts from 1, never used again
	At     time.Time
	By     AccountID // who sent it, of the team perhaps
	Kind   DeployKind
	Bytes  int64 // of the ZIP; 0 when there was none
	Code   Code
	Auto   bool   // autoRestart
	Note   string // in words for the user, may be empty

	// Journal undoes it: it leads to the deploy before. "" when there is none,
	// or it was dropped.
	Journal string
	Kept    int64 // bytes that the journal takes on disk

	// Brought names the list of what this deploy and those before it brought; "" when
	// that is not known.
	Brought string
	Exact   bool // it removed what earlier deploys had brought, and it had not
	Removed int  // how many files that were

	// Run is the run that was started for it; 0 for no run. The application
	// has it, not its history.
	Run     int
	Started time.Time // of Run
	Back    bool      // whether a rollback leads to it now; not recorded
}

// fileNameKey is the key of WithFileName.
type fileNameKey struct{}

// WithFileName says what the file of an upload is called where it comes from. It may be
// anything, and a path.
func WithFileName(ctx context.Context, name string) context.Context {
	return context.WithValue(ctx, fileNameKey{}, name)
}

// FileNameOf returns the name of the file, "" when nobody has said.
func FileNameOf(ctx context.Context) string {
	name, _ := ctx.Value(fileNameKey{}).(string)
	return name
}

// wantedKey is the key of WithWanted.
type wantedKey struct{}

// WithWanted says what is wanted of an application that an upload makes. With WantStopped
// its program is built and not started.
func WithWanted(ctx context.Context, wanted Wanted) context.Context {
	return context.WithValue(ctx, wantedKey{}, wanted)
}

// WantedOf returns what is wanted, WantOnline when nobody has said.
func WantedOf(ctx context.Context) Wanted {
	if wanted, ok := ctx.Value(wantedKey{}).(Wanted); ok {
		return wanted
	}
	return WantOnline
}

// First is what an owner decides of an application that an upload makes, before anything of it
// runs.
type First struct {
	// Config is the text that takes the place of the upload's discloud.config; "" for its own.
	Config string
	// Variables are in effect from the first start on.
	Variables []Variable
}

// firstKey is the key of WithFirst.
type firstKey struct{}

// WithFirst says what the owner has decided of an application that an upload makes.
func WithFirst(ctx context.Context, f First) context.Context {
	return context.WithValue(ctx, firstKey{}, f)
}

// FirstOf returns what the owner has decided, the zero First when that is nothing.
func FirstOf(ctx context.Context) First {
	f, _ := ctx.Value(firstKey{}).(First)
	return f
}

// Draft is what a spooled upload would become, judged before anything of it is unpacked.
type Draft struct {
	Files  int         // regular files that would be unpacked
	Bytes  int64       // of the ZIP
	Found  bool        // it brings a discloud.config
	Fields ConfigField // what its discloud.config says, or what its files suggest
	// Text is a discloud.config that says Fields and keeps every other line of the one that
	// the upload brings.
	Text     string
	Lang     string         // of the program; "" when that is not known
	Problems []DraftProblem // why it would be refused; none when it would not, as far as can be told
	// Dropped are lines of its discloud.config that cannot be read and are not in Text, in words.
	Dropped []Text
}

// ConfigField are values of a discloud.config by their keys, such as MAIN.
type ConfigField map[string]string

// ConfigFields are the keys that a Draft's Fields may have.
var ConfigFields = []string{"TYPE", "NAME", "ID", "MAIN", "RAM", "AUTORESTART", "START", "BUILD"}

// DraftProblem is one reason why an upload would be refused.
type DraftProblem struct {
	Field string // of ConfigFields; "" when it is of no single one
	Text  Text
}

// actorKey is the key of WithActor.
type actorKey struct{}

// WithActor says in whose name a deployment is made.
func WithActor(ctx context.Context, by AccountID) context.Context {
	return context.WithValue(ctx, actorKey{}, by)
}

// ActorOf returns who makes a deployment, owner unless somebody else does.
func ActorOf(ctx context.Context, owner AccountID) AccountID {
	if by, ok := ctx.Value(actorKey{}).(AccountID); ok {
		return by
	}
	return owner
}

// Program is one program to run, or one step of its preparation.
type Program struct {
	App     ID
	Account AccountID // whose application it is
	Run     int       // the run's number; each has a control group of its own
	Beside  bool      // another run of the application goes on meanwhile
	Journal string    // of the deployment that starts it, whose record decides whether it stays; "" when none does
	Build   bool      // a step of the preparation: other limits, another log
	Code    Code      // of the deployment; a step has none
	Argv    []string
	Env     []string // added to what every program gets
	// Runtime is the one that was chosen for it, of those that the owner of the host installed or has
	// images of: its name and its version, such as "node 22.11.0". "" is the host's own, or none. On
	// this machine Env leads to it.
	Runtime string
	// Variables are the owner's own. They beat Env, and HOME, TMPDIR, PORT and
	// BERTH_APP_ID beat them.
	Variables []Variable
	Stage     Stage // of a build beside a running program: the copy it works on, shown at the usual path
	UID       int
	Port      int
	RAM       MB
	// Gate returns when the program may begin. It is called where everything else is
	// ready, by who starts the program, unless the start fails before; nil does not wait.
	Gate func() `json:"-"`
	// Warn hears, on a goroutine that it may block, that the run needs nearly all of its
	// RAM; nil where nobody is to be warned.
	Warn  func(MemoryWarning) `json:"-"`
	Share MB                  // the application's RAM, which its share of the processor follows; a build has RAM of its own
	CPU   int                 // percent of one processor that the application may have of what its account may; 0 for no limit
}

// Phase is how far a deployment has come.
type Phase int

// The phases, in their order. A deployment may skip some, and be Queued more
// than once with another Position.
const (
	Checked   Phase = iota // the ZIP is unpacked and there is a plan
	Queued                 // its build waits
	Building               // its build begins; the build's log is empty still
	Launching              // what was built is started
)

// Word is the phase as those who watch know it.
func (p Phase) Word() DeployPhase {
	return [...]DeployPhase{Checked: DeployChecked, Queued: DeployQueued, Building: DeployBuilding, Launching: DeployLaunching}[p]
}

// Progress is what a deployment reports while it is under way.
type Progress struct {
	Phase    Phase
	App      ID
	Position int    // of its build in the queue, 1 being next, while Queued
	Why      string // it waits for something beside its turn; "" else
}

// progressKey is the key of the function in a context.
type progressKey struct{}

// WithProgress returns a context whose deployment calls report. report MUST NOT
// block: the deployment waits for it. It is called by one goroutine at a time.
func WithProgress(ctx context.Context, report func(Progress)) context.Context {
	return context.WithValue(ctx, progressKey{}, report)
}

// ProgressOf returns the function of a context, or one that does nothing.
func ProgressOf(ctx context.Context) func(Progress) {
	if report, _ := ctx.Value(progressKey{}).(func(Progress)); report != nil {
		return report
	}
	return func(Progress) {}
}
