package command

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"berth/app/exit"
	"berth/cli/screen"
)

// Caller is what a command knows of the process around it.
type Caller struct {
	Args           []string // of the whole command line
	Getenv         func(string) string
	Stdin          io.Reader
	Stdout, Stderr io.Writer

	// Then is what a command leaves to be done when the command line is gone: a
	// daemon does not keep 250 flags in memory for its life.
	Then func(context.Context) error
}

// Print prints v as JSON, or the rows that table writes in columns.
func (c *Caller) Print(asJSON bool, v any, table func(out io.Writer)) error {
	if asJSON {
		text, err := json.MarshalIndent(v, "", "  ")
		if err != nil {
			return err
		}
		_, err = c.Stdout.Write(append(screen.JSON(text), '\n'))
		return err
	}
	var rows bytes.Buffer
	table(&rows)
	text := screen.Escape(rows.String(), false) // cells are words, see screen.Word; what is not cannot act either
	_, err := io.WriteString(c.Stdout, columns(text, screen.Width(c.Stdout)))
	return err
}

// Tell says something to the person, in a line on the standard error: names, errors and others'
// words in it do nothing on a terminal.
func (c *Caller) Tell(format string, args ...any) {
	fmt.Fprintln(c.Stderr, screen.Escape(fmt.Sprintf(format, args...), false))
}

// columns is rows of cells, with tabs between them, in columns. On a terminal that is too
// narrow for them, each row below a row of titles becomes a block of lines with a title and
// a cell each. A width of 0 is that of no terminal.
func columns(rows string, width int) string {
	var b strings.Builder
	out := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	_, _ = io.WriteString(out, rows) // a builder takes everything
	_ = out.Flush()
	list := strings.Split(strings.TrimSuffix(rows, "\n"), "\n")
	titles := strings.Split(list[0], "\t")
	if width == 0 || fits(b.String(), width) || len(titles) < 3 || list[0] != strings.ToUpper(list[0]) {
		return b.String()
	}
	b.Reset()
	indent := 0
	for _, title := range titles {
		indent = max(indent, len(title)+2)
	}
	for i, row := range list[1:] {
		if i > 0 {
			b.WriteByte('\n')
		}
		for j, cell := range strings.Split(row, "\t") {
			fmt.Fprintf(&b, "%-*s%s\n", indent, titles[min(j, len(titles)-1)], screen.Wrap(cell, max(width-indent, 1), indent))
		}
	}
	return b.String()
}

// fits reports whether no line of a text is wider than a terminal.
func fits(text string, width int) bool {
	for line := range strings.Lines(text) {
		if utf8.RuneCountInString(strings.TrimRight(line, " \n")) > width {
			return false
		}
	}
	return true
}

// New returns a command without its work. Use is its name and what follows it
// on the line; least and most bound its arguments.
func New(use, short string, least, most int) *cobra.Command {
	return &cobra.Command{
		Use: use, Short: short, DisableFlagsInUseLine: true, ValidArgsFunction: cobra.NoFileCompletions,
		Args: func(_ *cobra.Command, args []string) error {
			switch {
			case len(args) < least:
				return exit.Misused("an argument is missing")
			case len(args) > most:
				return exit.Misused("unexpected argument %q", args[most])
			}
			return nil
		},
	}
}

// Group returns a command that is nothing but a group of others.
func Group(name, short string, members ...*cobra.Command) *cobra.Command {
	g := &cobra.Command{Use: name, Short: short, DisableFlagsInUseLine: true}
	g.AddCommand(members...)
	return g
}

// JSON adds the flag --json.
func JSON(cmd *cobra.Command) *bool { return Toggle(cmd, "json", "print JSON") }

// Toggle adds the flag of something that is or is not. A letter may follow its name, as in
// "follow|f".
func Toggle(cmd *cobra.Command, name, help string) *bool {
	wanted := new(bool)
	AddToggle(cmd.Flags(), wanted, name, help)
	return wanted
}

// AddToggle adds the flag of something that is or is not; --name alone means that it is.
func AddToggle(set *pflag.FlagSet, to *bool, name, help string) {
	name, letter, _ := strings.Cut(name, "|")
	set.VarPF(&toggle{to: to}, name, letter, help).NoOptDefVal = "true"
}

// Word adds the flag of any text. A letter may follow its name, as in "lines|n".
func Word(cmd *cobra.Command, name, help string) *string {
	text := new(string)
	AddWord(cmd.Flags(), text, name, help)
	return text
}

// AddWord adds the flag of any text. Help names what stands in `backquotes`.
func AddWord(set *pflag.FlagSet, to *string, name, help string) {
	name, letter, _ := strings.Cut(name, "|")
	set.VarP(&word{to}, name, letter, help)
}

// toggle is the flag of something that is or is not.
type toggle struct {
	to   *bool
	text string // as it was given
}

// Set reads the text, or says what was expected.
func (t *toggle) Set(text string) error {
	if text != "true" && text != "false" {
		return errors.New("expected true or false")
	}
	*t.to, t.text = text == "true", text
	return nil
}

// String returns the text.
func (t *toggle) String() string { return t.text }

// Type implements pflag.Value: help shows no word behind a toggle.
func (t *toggle) Type() string { return "bool" }

// word is the flag of any text.
type word struct{ to *string }

// Set keeps the text.
func (w *word) Set(text string) error {
	*w.to = text
	return nil
}

// String returns the text.
func (w *word) String() string {
	if w.to == nil { // pflag asks the zero value
		return ""
	}
	return *w.to
}

// Type implements pflag.Value.
func (w *word) Type() string { return "value" }

// When is a time for people; the offset makes it unambiguous.
func When(t time.Time) string {
	if t.IsZero() {
		return "never"
	}
	return t.Format("2006-01-02 15:04:05 MST")
}

// LastUse is when a token was used, with a mark on one that nobody needs.
func LastUse(at time.Time, unused bool) string {
	if unused {
		return When(at) + " (not for 90 days)"
	}
	return When(at)
}

// Completes lets a shell complete the value of a flag.
func Completes(cmd *cobra.Command, flag string, with cobra.CompletionFunc) {
	_ = cmd.RegisterFlagCompletionFunc(flag, with) // fails for a flag that is not there
}

// Choices are the words of flags that take one of a few.
func Choices(cmd *cobra.Command, words map[string][]string) {
	for flag, list := range words {
		if cmd.Flags().Lookup(flag) != nil {
			Completes(cmd, flag, cobra.FixedCompletions(list, cobra.ShellCompDirectiveNoFileComp))
		}
	}
}

// Directories are flags that name one.
func Directories(cmd *cobra.Command, flags ...string) {
	for _, flag := range flags {
		_ = cmd.MarkFlagDirname(flag) // fails for a flag that is not there
	}
}
