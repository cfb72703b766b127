package host

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"berth/app"
	"berth/app/exit"
	"berth/cli/command"
	"berth/cli/screen"
	"berth/daemon/settings"
	"berth/db"
)

// recordView is a record of the audit log as it is printed.
type recordView struct {
	Seq       int64         `json:"seq"`
	At        time.Time     `json:"at"`
	Who       string        `json:"who"`
	Actor     app.AccountID `json:"actor"` // 0 the owner of the host, -1 a stranger
	Token     int64         `json:"token,omitempty"`
	Label     string        `json:"label,omitempty"`
	Account   app.AccountID `json:"account,omitempty"`
	From      string        `json:"from,omitempty"`
	Operation string        `json:"operation"`
	App       app.ID        `json:"app,omitempty"`
	AppName   string        `json:"appName,omitempty"`
	Detail    string        `json:"detail,omitempty"`
	Status    int           `json:"status,omitempty"`
	Refusal   string        `json:"refusal,omitempty"`
	Request   string        `json:"requestId,omitempty"`
	Times     int           `json:"times"`
}

// who names the actor of a record.
func who(a app.AuditRecord) string {
	switch a.Actor {
	case app.Owner:
		return "owner (command line)"
	case app.Stranger:
		return "stranger"
	}
	return a.Name
}

// outcome is what came of it.
func outcome(a app.AuditRecord) string {
	text := "ok"
	if a.Refusal != "" || a.Status >= http.StatusBadRequest {
		text = strconv.Itoa(a.Status) + " " + a.Refusal
	}
	if a.Times > 1 {
		text += fmt.Sprintf(" (%d times within a minute)", a.Times)
	}
	return text
}

// audit prints the newest records, the newest last.
func audit(c *caller) *cobra.Command {
	cmd := command.New("audit [--account ACCOUNT] [--app APP] [--since TIME] [--limit N] [--json] [--data-dir DIR]", "print the audit log: who did what, and when", 0, 0)
	asJSON := command.JSON(cmd)
	of := command.Word(cmd, "account", "only records that `ACCOUNT` (name or id) made or that concern it; for a deleted account, give the id")
	application := command.Word(cmd, "app", "only records of `APP` (id or name); for a deleted application, give the id")
	since := command.Word(cmd, "since", "only records since `TIME`: 2026-11-20, 2026-11-20T15:04:05Z, or 24h for a day ago")
	limit := 100
	cmd.Flags().Var(settings.Whole(&limit, 1, 10_000_000), "limit", "maximum number (`N`) of records, 100 by default")
	command.Completes(cmd, "account", c.accounts)
	command.Completes(cmd, "app", c.apps)
	return c.withDB(cmd, func(ctx context.Context, d *db.DB, _ settings.Settings, _ []string) error {
		q := app.AuditQuery{Limit: limit}
		var err error
		if *application != "" {
			if q.App, err = c.findApp(ctx, d, *application); err != nil {
				return err
			}
		}
		if *since != "" {
			if q.Since, err = sinceWhen(*since, time.Now()); err != nil {
				return exit.Misused("bad value %q for --since: expected a time such as 2026-11-20, 2026-11-20T15:04:05Z or 24h", *since)
			}
		}
		if q.Account, err = accountOfLog(ctx, d, *of); err != nil {
			return err
		}
		records, err := d.Audit.Records(ctx, q)
		if err != nil {
			return err
		}
		views := make([]recordView, len(records))
		for i, a := range records {
			views[i] = recordView{
				a.Seq, a.At, who(a), a.Actor, a.Token, a.Label, a.Account, a.From, a.Operation,
				a.App, a.AppName, a.Detail, a.Status, a.Refusal, a.Request, a.Times,
			}
		}
		return c.Print(*asJSON, views, func(out io.Writer) {
			fmt.Fprintln(out, "TIME\tWHO\tTOKEN\tFROM\tWHAT\tAPP\tDETAIL\tRESULT")
			for _, a := range records {
				token := "-"
				if a.Token > 0 {
					token = shown(fmt.Sprintf("%d %s", a.Token, cmp.Or(a.Label, "-")))
				}
				fmt.Fprintf(out, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", command.When(a.At), shown(cmp.Or(who(a), "-")), token, shown(cmp.Or(a.From, "-")),
					shown(a.Operation), shown(cmp.Or(appOf(a), "-")), shown(cmp.Or(a.Detail, "-")), shown(outcome(a)))
			}
		})
	})
}

// accountOfLog returns the account that the log is asked for, 0 for all. The
// number of one that is deleted is good, for the log remembers it.
func accountOfLog(ctx context.Context, d *db.DB, nameOrID string) (app.AccountID, error) {
	if nameOrID == "" {
		return 0, nil
	}
	if id, err := strconv.ParseInt(nameOrID, 10, 64); err == nil && id > 0 {
		return app.AccountID(id), nil
	}
	a, err := findAccount(ctx, d, nameOrID)
	return a.ID, err
}

// sinceWhen understands a day, a moment, and how long ago.
func sinceWhen(text string, now time.Time) (time.Time, error) {
	if ago, err := time.ParseDuration(text); err == nil && ago > 0 {
		return now.Add(-ago), nil
	}
	if day, err := time.Parse(time.DateOnly, text); err == nil {
		return day, nil
	}
	return time.Parse(time.RFC3339, text)
}

// shown is printable, and keeps a stranger's text from looking like columns.
func shown(s string) string {
	if strings.Contains(s, "  ") {
		return strconv.Quote(s)
	}
	return screen.Word(s)
}

// appOf names an application by its id, and by its name if that is another.
func appOf(a app.AuditRecord) string {
	if a.AppName == "" || a.AppName == string(a.App) {
		return string(a.App)
	}
	return fmt.Sprintf("%s (%s)", a.App, a.AppName)
}
