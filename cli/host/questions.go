package host

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/term"

	"berth/app/exit"
	"berth/cli/screen"
	"berth/host/account"
)

// questions asks a person at a terminal.
type questions struct {
	file *os.File
	in   *bufio.Reader
	out  io.Writer
}

// newQuestions returns nil unless both ends are a terminal: then nobody answers.
func newQuestions(in io.Reader, out io.Writer) *questions {
	f, is := in.(*os.File)
	if !is || !term.IsTerminal(int(f.Fd())) || screen.Width(out) == 0 {
		return nil
	}
	return &questions{file: f, in: bufio.NewReader(f), out: out}
}

// say prints a sentence in lines that fit.
func (q *questions) say(text string) {
	fmt.Fprintln(q.out, screen.Wrap(screen.Escape(text, false), screen.Width(q.out)-2, 2))
}

// line asks for a line. An empty one is the default, which may be empty.
func (q *questions) line(question, byDefault string) (string, error) {
	if byDefault != "" {
		question += " [" + byDefault + "]"
	}
	fmt.Fprint(q.out, screen.Wrap(question+": ", screen.Width(q.out)-2, 2)+" ")
	text, err := q.in.ReadString('\n')
	if err != nil {
		fmt.Fprintln(q.out)
		return "", unanswered(err)
	}
	return cmp.Or(strings.TrimSpace(text), byDefault), nil
}

// password asks for a new password of an account until it is one, twice, without showing it;
// "" if the person wants none now.
func (q *questions) password(name string) (string, error) {
	for {
		first, err := q.hidden("Password (empty: a link sets it later)")
		if err != nil || first == "" {
			return "", err
		}
		if err := account.CheckPassword(name, first); err != nil {
			q.say(err.Error())
			continue
		}
		second, err := q.hidden("Again")
		if err != nil {
			return "", err
		}
		if first == second {
			return first, nil
		}
		q.say("The two passwords differ.")
	}
}

func (q *questions) hidden(question string) (string, error) {
	text, err := screen.AskSecret(q.file, q.out, question+": ")
	fmt.Fprintln(q.out)
	if err != nil {
		return "", unanswered(err)
	}
	return string(text), nil
}

// unanswered is the end of the input in place of an answer.
func unanswered(err error) error {
	if !errors.Is(err, io.EOF) {
		return fmt.Errorf("cannot read the answer: %w", err)
	}
	return exit.NewProblem(exit.Failure, errors.New("cannot go on: the input ended before the answer"), "Hint: run berth setup again; it goes on where it ended.")
}
