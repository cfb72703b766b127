package settings

// The exit codes that the commands use.
const (
	ExitOK         = 0
	ExitFailure    = 1
	ExitUsage      = 2
	ExitPermission = 4
	ExitNotFound   = 5
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

// Error returns the sentence without the hint.
func (p *Problem) Error() string { return p.Err.Error() }

// Unwrap returns the cause.
func (p *Problem) Unwrap() error { return p.Err }
