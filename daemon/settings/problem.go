package settings

import (
	"fmt"
	"runtime/debug"
)

// The exit codes that the commands use.
const (
	ExitOK         = 0
	ExitFailure    = 1
	ExitUsage      = 2
	ExitIncomplete = 3 // what was asked for is done, but for what the warnings name
	ExitPermission = 4
	ExitNotFound   = 5
	ExitOutdated   = 6  // berth upgrade --check: there is a newer release
	ExitConfig     = 78 // EX_CONFIG: the unit does not restart the daemon on it
)

// Problem is an error with an exit code of its own and a hint for the reader.
type Problem struct {
	Code int
	Err  error
	Hint string // one line, may be empty
}

// NewProblem returns one; hint may be empty.
func NewProblem(code int, err error, hint string) *Problem { return &Problem{code, err, hint} }

// wrong is a problem of the settings.
func wrong(format string, args ...any) error {
	return NewProblem(ExitConfig, fmt.Errorf(format, args...), "")
}

// Error returns the sentence without the hint.
func (p *Problem) Error() string { return p.Err.Error() }

// Unwrap returns the cause.
func (p *Problem) Unwrap() error { return p.Err }

// Misuse is an error in how a command was called. The command line shows the
// command's usage with it, and exits with ExitUsage.
type Misuse struct{ err error }

// Misused returns a Misuse; it wraps what format wraps.
func Misused(format string, args ...any) error { return &Misuse{fmt.Errorf(format, args...)} }

// Error returns the sentence.
func (m *Misuse) Error() string { return m.err.Error() }

// Unwrap returns the cause.
func (m *Misuse) Unwrap() error { return m.err }

// stamped is a version that the linker was told (-X berth/daemon/settings.stamped=...), for
// builds that are no commit.
var stamped string

// stampedBase and stampedKey are, in the same way, where the makers of this build publish
// releases, and the key by which they sign.
var stampedBase, stampedKey string

// Version is the version that the Go tool stamped: a tag, or a commit.
func Version() string {
	if stamped != "" {
		return stamped
	}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "unknown"
}
