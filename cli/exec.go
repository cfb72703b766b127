package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"berth/app/exit"
	"berth/cli/command"
	"berth/cli/screen"
	"berth/client"
)

// exec is "berth exec [APP] [-- COMMAND...]".
func (c *caller) exec() *cobra.Command {
	cmd := command.New("exec [APP] [--no-tty]", "open a shell in an application, or run a command there, beside its program", 0, manyWords)
	plain := command.Toggle(cmd, "no-tty|T", "use pipes, also at a terminal")
	wayFlags(c, cmd)
	cmd.Use += " [-- COMMAND...]"
	cmd.ValidArgsFunction = c.completeApps
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		named, line := args, []string{}
		if dash := cmd.ArgsLenAtDash(); dash >= 0 {
			named, line = args[:dash], args[dash:]
		}
		word := "."
		switch {
		case len(named) > 1:
			return exit.Misused("unexpected argument %q: -- goes before the command", named[1])
		case len(named) == 1:
			word = named[0]
		}
		return c.withApp(cmd, word, func(ctx context.Context, w *way, a client.App) error {
			if a.Owner != "" {
				return exit.NewProblem(exit.Permission, fmt.Errorf("cannot open a session in %s: only its owner may", a.ID), "")
			}
			return c.session(ctx, w, a.ID, client.Exec{Command: shellWords(line), TTY: !*plain && c.atTerminal() && screen.Width(c.Stdout) > 0})
		})
	}
	return cmd
}

// manyWords bounds the words of a command line.
const manyWords = 4096

// shellWords writes words so that a shell reads these words again.
func shellWords(words []string) string {
	quoted := make([]string, len(words))
	for i, word := range words {
		quoted[i] = "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
	}
	return strings.Join(quoted, " ")
}

// session runs a command of an application with this process's input and output, and
// returns its exit code as an exit.Status. What the command prints is not escaped: that a
// terminal obeys it is what a terminal is for.
func (c *caller) session(ctx context.Context, w *way, id string, e client.Exec) error {
	ctx, cancel := signal.NotifyContext(ctx, syscall.SIGTERM, syscall.SIGHUP)
	defer cancel()
	var t *localTerminal
	if e.TTY {
		t = &localTerminal{in: c.Stdin.(*os.File), out: c.Stdout.(*os.File)}
		e.Term = termName(c.Getenv("TERM"))
		e.Cols, e.Rows = t.size()
	}
	s, err := w.Exec(ctx, id, e)
	if err != nil {
		return err
	}
	defer s.Close()
	end, err := c.attach(ctx, s, t)
	switch {
	case ctx.Err() != nil:
		return exit.NewProblem(exit.Interrupted, errors.New("interrupted: the command in the application was ended"), "")
	case err != nil:
		return err
	case end.Reason != "":
		c.Tell("berth: %s", end.Reason)
	}
	if end.Code != 0 {
		return exit.Status(end.Code)
	}
	return nil
}

// attach connects a session with this process until the session has ended.
func (c *caller) attach(ctx context.Context, s *client.Session, t *localTerminal) (client.ExecEnd, error) {
	if t == nil {
		return s.Run(ctx, c.Stdin, c.Stdout, c.Stderr)
	}
	restore, err := t.raw()
	if err != nil {
		return client.ExecEnd{}, fmt.Errorf("cannot set up the terminal: %w", err)
	}
	defer restore() // also after a panic
	ctx, cancel := context.WithCancel(ctx)
	sizes := make(chan struct{})
	go func() {
		defer close(sizes)
		defer rescue(restore)
		t.resized(ctx, func(cols, rows int) { _ = s.Resize(ctx, cols, rows) }) // of a session that has ended
	}()
	defer func() {
		cancel()
		<-sizes
	}()
	return s.Run(ctx, guarded{c.Stdin, restore}, c.Stdout, c.Stdout)
}

// guarded reads the input of a terminal, on a goroutine of the session's.
type guarded struct {
	io.Reader

	restore func()
}

// Read implements io.Reader.
func (g guarded) Read(p []byte) (int, error) {
	defer rescue(g.restore)
	return g.Reader.Read(p)
}

// rescue gives the person their terminal back before a panic ends the process.
func rescue(restore func()) {
	if v := recover(); v != nil {
		restore()
		panic(v)
	}
}

// termName is what the terminal is called, "" where the server would not take it.
func termName(name string) string {
	const word = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-"
	if strings.Trim(name, word) != "" || len(name) > 64 {
		return ""
	}
	return name
}

// localTerminal is the terminal that this process is at.
type localTerminal struct{ in, out *os.File }

// size is how large it is, zeros where nobody knows.
func (t *localTerminal) size() (cols, rows int) {
	cols, rows, err := term.GetSize(int(t.out.Fd()))
	if err != nil {
		return 0, 0
	}
	return cols, rows
}

// raw lets the terminal hand over every key as it is pressed. restore may be called more
// than once.
func (t *localTerminal) raw() (restore func(), err error) {
	before, err := term.MakeRaw(int(t.in.Fd()))
	if err != nil {
		return nil, err
	}
	unobeyed, err := t.obey()
	if err != nil {
		_ = term.Restore(int(t.in.Fd()), before)
		return nil, err
	}
	return func() {
		unobeyed()
		_ = term.Restore(int(t.in.Fd()), before)
	}, nil
}
