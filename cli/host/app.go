package host

import (
	"cmp"
	"context"
	"math"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"berth/app"
	"berth/app/exit"
	"berth/cli/command"
	"berth/daemon/settings"
	"berth/db"
	"berth/host"
)

// appEnv is "app env APP VERB ARGUMENT...". What it changes the daemon reads at
// the application's next start.
func appEnv(c *caller) *cobra.Command {
	cmd := command.New("env APP list|set NAME=VALUE...|unset NAME... [--show] [--json] [--data-dir DIR]",
		"list, set or remove the environment variables of an application (id or name)", 2, math.MaxInt)
	cmd.ValidArgsFunction = c.variables
	asJSON := command.JSON(cmd)
	show := command.Toggle(cmd, "show", "with list: print the whole values, without a mask")
	return c.onApp(cmd, func(ctx context.Context, d *db.DB, _ settings.Settings, id app.ID, args []string) error {
		verb, rest := cmp.Or(map[string]string{"ls": "list", "rm": "unset"}[args[0]], args[0]), args[1:]
		var err error
		switch {
		case verb != "list" && (*asJSON || *show):
			return exit.Misused("--json and --show go with list")
		case verb == "list" && len(rest) > 0:
			return exit.Misused("unexpected argument %q", rest[0])
		case verb == "list":
			err = listVariables(ctx, c, d, id, *asJSON, *show)
		case verb != "set" && verb != "unset":
			return exit.Misused("unknown word %q%s", verb, exit.DidYouMean(verb, []string{"list", "set", "unset"}, "%q"))
		case len(rest) == 0:
			return exit.Misused("an argument is missing")
		case verb == "set":
			err = setVariables(ctx, c, d, id, rest)
		default:
			err = d.Apps.ChangeVariables(ctx, id, func(set map[string]string) error { return host.RemoveVariables(set, rest...) })
		}
		if app.KindOf(err) == app.NotFound {
			return exit.NewProblem(exit.NotFound, err, "Hint: berth account show ACCOUNT names its applications, berth app env APP list their variables.")
		}
		if app.KindOf(err) == app.Invalid {
			return exit.Misused("%w", err)
		}
		if err == nil && verb != "list" {
			recordVariables(ctx, c, d, id, verb, rest)
			c.Tell("the environment of %q was changed: in effect from the next start", id)
		}
		return err
	})
}

// recordVariables tells the audit log which variables were set or removed: their
// names alone.
func recordVariables(ctx context.Context, c *caller, d *db.DB, id app.ID, verb string, args []string) {
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

func listVariables(ctx context.Context, c *caller, d *db.DB, id app.ID, asJSON, show bool) error {
	all, err := d.Apps.Variables(ctx, id)
	if err != nil {
		return err
	}
	views := make([]command.VariableView, len(all))
	for i, v := range all {
		views[i] = command.VariableView{Name: v.Name, Value: v.Masked()}
		if show {
			views[i].Value = v.Value
		}
	}
	return c.PrintVariables(asJSON, views)
}

// setVariables sets what arguments say; see command.Caller.Assignments.
func setVariables(ctx context.Context, c *caller, d *db.DB, id app.ID, args []string) error {
	change, err := c.Assignments(args)
	if err != nil {
		return err
	}
	return d.Apps.ChangeVariables(ctx, id, func(set map[string]string) error { return host.ChangeVariables(set, change) })
}

// appDeploys is "app deploys APP", newest first.
func appDeploys(c *caller) *cobra.Command {
	cmd := command.New("deploys APP [--json] [--data-dir DIR]", "list the latest deploys of an application (id or name), and which you can roll back to", 1, 1)
	cmd.ValidArgsFunction = c.apps
	asJSON := command.JSON(cmd)
	return c.onApp(cmd, func(ctx context.Context, d *db.DB, _ settings.Settings, id app.ID, _ []string) error {
		all, err := d.History.Deploys(ctx, id)
		if err != nil {
			return unknownApp(err)
		}
		host.Reach(all)
		views := make([]command.DeployView, len(all))
		for i, d := range all {
			views[i] = command.DeployView{
				Number: d.Number, At: d.At, By: d.By, Kind: d.Kind, Bytes: d.Bytes,
				Main: d.Code.Main, Lang: d.Code.Lang, Version: d.Code.Version, Note: d.Note, Rollback: d.Back,
			}
		}
		return c.PrintDeploys(*asJSON, views)
	})
}

// appEvents is "app events APP".
func appEvents(c *caller) *cobra.Command {
	cmd := command.New("events APP [--json] [--data-dir DIR]", "list the latest events of an application (id or name)", 1, 1)
	cmd.ValidArgsFunction = c.apps
	asJSON := command.JSON(cmd)
	return c.onApp(cmd, func(ctx context.Context, d *db.DB, s settings.Settings, id app.ID, _ []string) error {
		if _, err := d.History.Deploys(ctx, id); app.KindOf(err) == app.NotFound { // which says whether it is there
			return unknownApp(err)
		}
		all, err := d.History.EventLog(ctx, id)
		if err != nil {
			return err
		}
		views := make([]command.HappeningView, len(all))
		for i, p := range all {
			views[i] = command.HappeningView{
				Number: p.Number, At: p.At, Kind: p.Kind, Deploy: p.Deploy, By: p.By, Text: host.Words(p, s.Apps.StopTimeout),
			}
			if p.Exit != nil {
				views[i].Code, views[i].OOM = &p.Exit.Code, p.Exit.OOM
			}
		}
		return c.PrintHappenings(*asJSON, views)
	})
}
