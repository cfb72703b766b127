package host

import (
	"context"
	"fmt"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"berth/app"
	"berth/daemon/settings"
	"berth/db"
	"berth/host"
)

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
	cmd := command("events APP [--json] [--data-dir DIR]", "list the latest events of an application", 1, 1)
	cmd.ValidArgsFunction = c.apps
	asJSON := jsonFlag(cmd)
	return c.withDB(cmd, func(ctx context.Context, d *db.DB, s settings.Settings, args []string) error {
		id := app.ID(args[0])
		if _, err := d.Deploys(ctx, id); app.KindOf(err) == app.NotFound { // which says whether it is there
			return settings.NewProblem(settings.ExitNotFound, err, "Hint: berth account show ACCOUNT names its applications.")
		}
		all, err := d.EventLog(ctx, id)
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
		if *asJSON {
			return c.printJSON(views)
		}
		out := tabwriter.NewWriter(c.Stdout, 0, 0, 2, ' ', 0)
		fmt.Fprintln(out, "AT\tWHAT\tTEXT")
		for _, v := range views {
			what := string(v.Kind)
			if v.Deploy != "" {
				what += " (" + string(v.Deploy) + ")"
			}
			fmt.Fprintf(out, "%s\t%s\t%s\n", v.At.Format(time.RFC3339), what, printable(v.Text))
		}
		return out.Flush()
	})
}
