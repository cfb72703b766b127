package exit

import "fmt"

// The exit codes of the commands.
const (
	OK          = 0
	Failure     = 1
	Usage       = 2
	Incomplete  = 3
	Permission  = 4
	NotFound    = 5
	Outdated    = 6
	Unreachable = 7
	Offline     = 8
	Busy        = 9
	Config      = 78 // EX_CONFIG: the unit does not restart the daemon on it
	Interrupted = 130
)

// Code is an exit code and what it means.
type Code struct {
	Code  int
	Means string
}

// Codes are all of them, in the order of the documentation.
var Codes = []Code{
	{OK, "done"},
	{Failure, "failed"},
	{Usage, "the command line or the input is wrong; the next line shows the usage or a hint"},
	{Incomplete, "done, except for what the warnings name: a backup without the files of some applications"},
	{Permission, "you lack a permission: run the command as root, or log in with a token that is valid and may do it"},
	{NotFound, "the account, application, token or file does not exist"},
	{Outdated, "`berth upgrade --check`: there is a newer release"},
	{Unreachable, "the server cannot be reached, its certificate is not valid, it is no berth, or it failed itself (5xx)"},
	{Offline, "the application did not come online; its last words are printed"},
	{Busy, "the application or the server is busy; try again later"},
	{Config, "berth cannot use a setting, the settings file or the database; systemd does not restart a service that exits with this status"},
	{Interrupted, "interrupted by Ctrl-C"},
}

// Problem is an error with an exit code of its own and a hint for the reader.
type Problem struct {
	Code int
	Err  error
	Hint string // one line, may be empty
}

// NewProblem returns one; hint may be empty.
func NewProblem(code int, err error, hint string) *Problem { return &Problem{code, err, hint} }

// Error returns the sentence without the hint.
func (p *Problem) Error() string { return p.Err.Error() }

// Unwrap returns the cause.
func (p *Problem) Unwrap() error { return p.Err }

// Misuse is an error in how a command was called. The command line shows the
// command's usage with it, and exits with Usage.
type Misuse struct{ err error }

// Misused returns a Misuse; it wraps what format wraps.
func Misused(format string, args ...any) error { return &Misuse{fmt.Errorf(format, args...)} }

// Error returns the sentence.
func (m *Misuse) Error() string { return m.err.Error() }

// Unwrap returns the cause.
func (m *Misuse) Unwrap() error { return m.err }

// Status is the error of a command that ends with the exit code of another, which has said
// itself what was wrong: nothing is printed with it.
type Status int

// Error names the code.
func (s Status) Error() string { return fmt.Sprintf("the command ended with exit code %d", int(s)) }
