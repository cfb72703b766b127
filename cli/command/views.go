package command

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"berth/app"
	"berth/app/exit"
	"berth/cli/screen"
)

// VariableView is an environment variable of an application, as it is printed.
type VariableView struct {
	Name  string `json:"name"`
	Value string `json:"value"` // masked, unless the whole value was asked for
}

// PrintVariables prints the environment variables of an application.
func (c *Caller) PrintVariables(asJSON bool, views []VariableView) error {
	return c.Print(asJSON, views, func(out io.Writer) {
		fmt.Fprintln(out, "NAME\tVALUE")
		for _, v := range views {
			fmt.Fprintf(out, "%s\t%s\n", v.Name, screen.Word(v.Value))
		}
	})
}

// DeployView is a deploy as it is printed.
type DeployView struct {
	Number   int            `json:"number"`
	At       time.Time      `json:"at"`
	By       app.AccountID  `json:"by"` // number of the account
	Kind     app.DeployKind `json:"kind"`
	Bytes    int64          `json:"bytes"`
	Main     string         `json:"main"`
	Lang     string         `json:"lang"`
	Version  string         `json:"version"`
	Note     string         `json:"note"`
	Rollback bool           `json:"rollback"` // its code can come back
}

// PrintDeploys prints the deploys of an application, newest first.
func (c *Caller) PrintDeploys(asJSON bool, views []DeployView) error {
	return c.Print(asJSON, views, func(out io.Writer) {
		fmt.Fprintln(out, "DEPLOY\tAT\tBY\tKIND\tBYTES\tMAIN\tROLLBACK\tNOTE")
		for i, v := range views {
			back := map[bool]string{true: "yes", false: "no"}[v.Rollback]
			if i == 0 {
				back = "is now"
			}
			kind, main, note := screen.Word(string(v.Kind)), screen.Word(v.Main), screen.Word(v.Note)
			fmt.Fprintf(out, "%d\t%s\t%d\t%s\t%d\t%s\t%s\t%s\n", v.Number, v.At.Format(time.RFC3339), v.By, kind, v.Bytes, main, back, note)
		}
	})
}

// HappeningView is one entry of an application's history.
type HappeningView struct {
	Number int64                `json:"number"`
	At     time.Time            `json:"at"`
	Kind   app.HistoryEventKind `json:"kind"`
	Deploy app.DeployKind       `json:"deploy,omitempty"`    // of a deploy
	By     app.AccountID        `json:"by,omitempty"`        // of a deploy: number of the account
	Code   *int                 `json:"exitCode,omitempty"`  // of an exit
	OOM    bool                 `json:"ramKilled,omitempty"` // of an exit
	Text   string               `json:"text"`
}

// PrintHappenings prints the history of an application, newest first.
func (c *Caller) PrintHappenings(asJSON bool, views []HappeningView) error {
	return c.Print(asJSON, views, func(out io.Writer) {
		fmt.Fprintln(out, "AT\tWHAT\tTEXT")
		for _, v := range views {
			what := string(v.Kind)
			if v.Deploy != "" {
				what += " (" + string(v.Deploy) + ")"
			}
			fmt.Fprintf(out, "%s\t%s\t%s\n", v.At.Format(time.RFC3339), screen.Word(what), screen.Word(v.Text))
		}
	})
}

// Assignments reads arguments of the form NAME=VALUE, and NAME or NAME=- for the one whose
// value is on the standard input: arguments are seen by every user of the machine.
func (c *Caller) Assignments(args []string) (map[string]*string, error) {
	change := make(map[string]*string, len(args))
	read := false
	for _, arg := range args {
		name, text, is := strings.Cut(arg, "=")
		if _, twice := change[name]; twice {
			return nil, exit.Misused("%q is given twice", name)
		}
		if !is || text == "-" {
			if read {
				return nil, exit.Misused("one value alone can come from the standard input")
			}
			read = true
			var err error
			if text, err = readValue(c.Stdin); err != nil {
				return nil, err
			}
		}
		change[name] = &text
	}
	return change, nil
}

// readValue reads the standard input to its end, and takes one line's end off.
func readValue(in io.Reader) (string, error) {
	const most = 1 << 20 // far more than a value may have, which is said later
	text, err := io.ReadAll(io.LimitReader(in, most))
	if err != nil {
		return "", fmt.Errorf("cannot read the standard input: %w", err)
	}
	if len(text) == 0 {
		return "", exit.NewProblem(exit.Usage, errors.New("nothing came on the standard input"),
			"Hint: NAME= sets an empty value.")
	}
	return strings.TrimSuffix(strings.TrimSuffix(string(text), "\n"), "\r"), nil
}
