package app

import (
	"context"
	"io"
)

// Exec is what a session runs in the place of an application.
type Exec struct {
	Command string // of a shell; "" for an interactive shell
	TTY     bool   // on a terminal of its own; else its input and output are pipes
	Term    string // with TTY: what the client's terminal is called, for TERM
	Size    Size   // with TTY: of the client's terminal
}

// Size is how large a terminal is, in characters. A zero is unknown.
type Size struct {
	Cols uint16 `json:"cols"`
	Rows uint16 `json:"rows"`
}

// Streams are what a session's command reads and writes, as it does so: nothing is kept,
// and a command whose output nobody reads waits.
type Streams struct {
	// Input is what is typed. Writing blocks while the command reads nothing, and fails
	// once it has ended. Close ends the input of a command without a terminal.
	Input io.WriteCloser
	// Output is what the terminal shows, or the standard output. It ends with io.EOF when
	// nothing of the command is left.
	Output io.Reader
	// Errors is the standard error of a command without a terminal, and nil with one.
	Errors io.Reader
	// Resize tells the command that the terminal has another size. It is nil without one.
	Resize func(Size) error
	// Ended is closed when nothing of the command is left; some of its output may still be
	// unread.
	Ended <-chan struct{}
}

// ExecService runs a command of a session, beside the program of an application or in its
// place. It blocks until nothing of the command runs and use has returned, and says how it
// ended; Stdout and Stderr of the Shell are empty. It calls use once the command runs, with
// a context that ends when the session must: use returns soon after that, and when all
// output is read and the command has ended, or when nobody is there any more. When use
// returns, or ctx ends, the command is ended; an *Error as the cause of ctx says why. It fails, without calling use, as
// Applications.Console does.
type ExecService func(ctx context.Context, owner AccountID, id ID, e Exec, use func(context.Context, Streams)) (Shell, error)
