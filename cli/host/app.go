package host

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"berth/app"
	"berth/daemon/settings"
	"berth/db"
	"berth/host"
)

// appEnv is "app env APP VERB ARGUMENT...". What it changes the daemon reads at
// the application's next start.
func appEnv(c *Caller) *cobra.Command {
	cmd := NewCommand("env APP list|set NAME=VALUE...|unset NAME... [--show] [--json] [--data-dir DIR]",
		"list, set or remove the environment variables of an application (id or name)", 2, math.MaxInt)
	cmd.ValidArgsFunction = c.variables
	asJSON := jsonFlag(cmd)
	show := toggleFlag(cmd, "show", "with list: print the whole values, without a mask")
	return c.onApp(cmd, func(ctx context.Context, d *db.DB, _ settings.Settings, id app.ID, args []string) error {
		verb, rest := cmp.Or(map[string]string{"ls": "list", "rm": "unset"}[args[0]], args[0]), args[1:]
		var err error
		switch {
		case verb != "list" && (*asJSON || *show):
			return misuse("--json and --show go with list")
		case verb == "list" && len(rest) > 0:
			return misuse("unexpected argument %q", rest[0])
		case verb == "list":
			err = listVariables(ctx, c, d, id, *asJSON, *show)
		case verb != "set" && verb != "unset":
			return misuse("unknown word %q%s", verb, settings.DidYouMean(verb, []string{"list", "set", "unset"}, "%q"))
		case len(rest) == 0:
			return misuse("an argument is missing")
		case verb == "set":
			err = setVariables(ctx, c, d, id, rest)
		default:
			err = d.Apps.ChangeVariables(ctx, id, func(set map[string]string) error { return host.RemoveVariables(set, rest...) })
		}
		if app.KindOf(err) == app.NotFound {
			return settings.NewProblem(settings.ExitNotFound, err, "Hint: berth account show ACCOUNT names its applications, berth app env APP list their variables.")
		}
		if app.KindOf(err) == app.Invalid {
			return misuse("%w", err)
		}
		if err == nil && verb != "list" {
			recordVariables(ctx, c, d, id, verb, rest)
			fmt.Fprintf(c.Stderr, "the environment of %q was changed: in effect from the next start\n", id)
		}
		return err
	})
}

// recordVariables tells the audit log which variables were set or removed: their
// names alone.
func recordVariables(ctx context.Context, c *Caller, d *db.DB, id app.ID, verb string, args []string) {
	apps, err := d.Apps.Apps(ctx)
	i := slices.IndexFunc(apps, func(a app.App) bool { return a.ID == id })
	if err != nil || i < 0 { // deleted since
		apps, i = []app.App{{}}, 0
	}
	operation, detail := "env.set", "set="
	if verb == "unset" {
		operation, detail = "env.remove", "removed="
	}
	names := make([]string, len(args))
	for i, arg := range args {
		names[i], _, _ = strings.Cut(arg, "=")
	}
	c.record(ctx, d, apps[i].Account, operation, id, detail+strings.Join(names, ","))
}

// variableView is a variable as it is printed.
type variableView struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

func listVariables(ctx context.Context, c *Caller, d *db.DB, id app.ID, asJSON, show bool) error {
	all, err := d.Apps.Variables(ctx, id)
	if err != nil {
		return err
	}
	views := make([]variableView, len(all))
	for i, v := range all {
		views[i] = variableView{v.Name, v.Masked()}
		if show {
			views[i].Value = v.Value
		}
	}
	return c.print(asJSON, views, func(out io.Writer) {
		fmt.Fprintln(out, "NAME\tVALUE")
		for _, v := range views {
			fmt.Fprintf(out, "%s\t%s\n", v.Name, printable(v.Value))
		}
	})
}

// setVariables takes NAME=VALUE, and NAME or NAME=- for the one whose value is
// on the standard input: arguments are seen by every user of the host.
func setVariables(ctx context.Context, c *Caller, d *db.DB, id app.ID, args []string) error {
	change := make(map[string]*string, len(args))
	read := false
	for _, arg := range args {
		name, text, is := strings.Cut(arg, "=")
		if _, twice := change[name]; twice {
			return misuse("%q is given twice", name)
		}
		if !is || text == "-" {
			if read {
				return misuse("one value alone can come from the standard input")
			}
			read = true
			var err error
			if text, err = readValue(c.Stdin); err != nil {
				return err
			}
		}
		change[name] = &text
	}
	return d.Apps.ChangeVariables(ctx, id, func(set map[string]string) error { return host.ChangeVariables(set, change) })
}

// readValue reads the standard input to its end, and takes one line's end off.
func readValue(in io.Reader) (string, error) {
	const most = 1 << 20 // far more than a value may have, which is said later
	text, err := io.ReadAll(io.LimitReader(in, most))
	if err != nil {
		return "", fmt.Errorf("cannot read the standard input: %w", err)
	}
	if len(text) == 0 {
		return "", settings.NewProblem(settings.ExitUsage, errors.New("nothing came on the standard input"),
			"Hint: NAME= sets an empty value.")
	}
	return strings.TrimSuffix(strings.TrimSuffix(string(text), "\n"), "\r"), nil
}

// deployView is a deploy as it is printed.
type deployView struct {
	Number   int            `json:"number"`
	At       time.Time      `json:"at"`
	By       app.AccountID  `json:"by"`
	Kind     app.DeployKind `json:"kind"`
	Bytes    int64          `json:"bytes"`
	Main     string         `json:"main"`
	Lang     string         `json:"lang"`
	Version  string         `json:"version"`
	Note     string         `json:"note"`
	Rollback bool           `json:"rollback"`
}

// appDeploys is "app deploys APP", newest first.
func appDeploys(c *Caller) *cobra.Command {
	cmd := NewCommand("deploys APP [--json] [--data-dir DIR]", "list the latest deploys of an application (id or name), and which you can roll back to", 1, 1)
	cmd.ValidArgsFunction = c.apps
	asJSON := jsonFlag(cmd)
	return c.onApp(cmd, func(ctx context.Context, d *db.DB, _ settings.Settings, id app.ID, _ []string) error {
		all, err := d.History.Deploys(ctx, id)
		if err != nil {
			return unknownApp(err)
		}
		host.Reach(all)
		views := make([]deployView, len(all))
		for i, d := range all {
			views[i] = deployView{d.Number, d.At, d.By, d.Kind, d.Bytes, d.Code.Main, d.Code.Lang, d.Code.Version, d.Note, d.Back}
		}
		return c.print(*asJSON, views, func(out io.Writer) {
			fmt.Fprintln(out, "DEPLOY\tAT\tBY\tKIND\tBYTES\tMAIN\tROLLBACK\tNOTE")
			for i, v := range views {
				back := map[bool]string{true: "yes", false: "no"}[v.Rollback]
				if i == 0 {
					back = "is now"
				}
				fmt.Fprintf(out, "%d\t%s\t%d\t%s\t%d\t%s\t%s\t%s\n", v.Number, v.At.Format(time.RFC3339), v.By, v.Kind, v.Bytes, printable(v.Main), back, printable(v.Note))
			}
		})
	})
}

// happeningView is one line of what happened, for programs.
type happeningView struct {
	Number int64                `json:"number"`
	At     time.Time            `json:"at"`
	Kind   app.HistoryEventKind `json:"kind"`
	Deploy app.DeployKind       `json:"deploy,omitempty"`
	By     app.AccountID        `json:"by,omitempty"`
	Code   *int                 `json:"exitCode,omitempty"`
	OOM    bool                 `json:"ramKilled,omitempty"`
	Text   string               `json:"text"`
}

// appEvents is "app events APP".
func appEvents(c *Caller) *cobra.Command {
	cmd := NewCommand("events APP [--json] [--data-dir DIR]", "list the latest events of an application (id or name)", 1, 1)
	cmd.ValidArgsFunction = c.apps
	asJSON := jsonFlag(cmd)
	return c.onApp(cmd, func(ctx context.Context, d *db.DB, s settings.Settings, id app.ID, _ []string) error {
		if _, err := d.History.Deploys(ctx, id); app.KindOf(err) == app.NotFound { // which says whether it is there
			return unknownApp(err)
		}
		all, err := d.History.EventLog(ctx, id)
		if err != nil {
			return err
		}
		views := make([]happeningView, len(all))
		for i, p := range all {
			views[i] = happeningView{Number: p.Number, At: p.At, Kind: p.Kind, Deploy: p.Deploy, By: p.By, Text: host.Words(p, s.Apps.StopTimeout)}
			if p.Exit != nil {
				views[i].Code, views[i].OOM = &p.Exit.Code, p.Exit.OOM
			}
		}
		return c.print(*asJSON, views, func(out io.Writer) {
			fmt.Fprintln(out, "AT\tWHAT\tTEXT")
			for _, v := range views {
				what := string(v.Kind)
				if v.Deploy != "" {
					what += " (" + string(v.Deploy) + ")"
				}
				fmt.Fprintf(out, "%s\t%s\t%s\n", v.At.Format(time.RFC3339), what, printable(v.Text))
			}
		})
	})
}
