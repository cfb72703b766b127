package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"berth/app"
	"berth/app/exit"
	"berth/cli/command"
	"berth/cli/screen"
	"berth/client"
)

// deploys is "berth deploys [APP]".
func (c *caller) deploys() *cobra.Command {
	cmd := command.New("deploys [APP] [--json]", "list the latest deploys of an application, and which you can roll back to", 0, 1)
	jsonFlag[[]command.DeployView](cmd)
	return c.onApp(cmd, 0, func(ctx context.Context, w *way, a client.App, _ []string) error {
		return c.printDeploys(ctx, cmd, w, a)
	})
}

func (c *caller) printDeploys(ctx context.Context, cmd *cobra.Command, w *way, a client.App) error {
	all, err := w.Deploys(ctx, a)
	if err != nil {
		return err
	}
	views := make([]command.DeployView, len(all))
	for i, d := range all {
		views[i] = command.DeployView{
			Number: d.Number, At: d.Date, By: accountID(d.By), Kind: app.DeployKind(d.Kind), Bytes: d.Size,
			Main: d.MainFile, Lang: d.Lang, Version: d.Version, Note: d.Note, Rollback: d.Rollback,
		}
	}
	return c.PrintDeploys(given(cmd, "json") == "true", views)
}

// accountID is the number of an account, 0 for what is none.
func accountID(text string) app.AccountID {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return 0
	}
	return app.AccountID(n)
}

// rollback is "berth rollback [APP]".
func (c *caller) rollback() *cobra.Command {
	cmd := command.New("rollback [APP] [--to DEPLOY] [--json]", "bring the code of an earlier deploy back, by default that before the last", 0, 1)
	to := command.Word(cmd, "to", "number of the `DEPLOY` to go back to: berth deploys lists them")
	asJSON := jsonFlag[outcomeView](cmd)
	return c.onApp(cmd, 0, func(ctx context.Context, w *way, a client.App, _ []string) error {
		number := 0
		if *to != "" {
			var err error
			if number, err = strconv.Atoi(*to); err != nil || number < 1 {
				return exit.Misused("%q is not the number of a deploy: berth deploys lists them", *to)
			}
		}
		wasOnline := a.Online
		o, err := w.Rollback(ctx, a, number)
		if err != nil {
			return err
		}
		if err := c.changed(*asJSON, a, o); err != nil || !wasOnline {
			return err
		}
		online, err := c.online(ctx, w, a, o)
		if err != nil || online {
			return err
		}
		return c.offline(ctx, w, a)
	})
}

// events is "berth events [APP]".
func (c *caller) events() *cobra.Command {
	cmd := command.New("events [APP] [-f|--follow] [--json]", "list the latest events of an application, or show events while they happen", 0, 1)
	follow := command.Toggle(cmd, "follow|f", "show what happens from now on, to all of yours where the directory is none's; with --json one object a line")
	jsonFlag[[]command.HappeningView](cmd)
	c.remote(cmd, func(ctx context.Context, w *way, _ []string) error { return c.followEvents(ctx, cmd, w, "") })
	ofAll := cmd.RunE
	cmd.ValidArgsFunction = c.completeApps
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		word := "."
		if len(args) > 0 {
			word = args[0]
		} else if _, err := appOfDirectory(); err != nil && *follow {
			return ofAll(cmd, args)
		}
		return c.withApp(cmd, word, func(ctx context.Context, w *way, a client.App) error {
			if *follow {
				return c.followEvents(ctx, cmd, w, a.ID)
			}
			return c.printHistory(ctx, cmd, w, a)
		})
	}
	return cmd
}

// eventView is an event as events --follow prints it with --json, one object a line.
type eventView struct {
	Event string          `json:"event"` // such as app.state
	Data  json.RawMessage `json:"data"`  // as GET /v2/events sends it
}

// followEvents prints what happens to an application, "" for all.
func (c *caller) followEvents(ctx context.Context, cmd *cobra.Command, w *way, id string) error {
	asJSON, colour := given(cmd, "json") == "true", screen.Colour(c.Stdout, c.Getenv)
	out := screen.NewEncoder(c.Stdout)
	shown := map[string]string{} // the last state of each application
	return c.follow(ctx, w, following{
		note: c.noteTo,
		path: func() string { return eventsPath(id, "") },
		each: func(e client.Event) error {
			h, err := happened(e)
			switch {
			case err != nil:
				return err
			case asJSON:
				err = out.Encode(eventView{e.Name, e.Data})
			case e.Name == "reset" || e.Name == "gap":
				c.noteTo(h.text)
			case e.Name == "app.state" && shown[h.ID] == h.text: // something else has changed, such as its RAM
			default:
				if shown[h.ID] = ""; e.Name == "app.state" {
					shown[h.ID] = h.text
				}
				at := h.At.Local().Format(time.DateTime)
				_, err = fmt.Fprintf(c.Stdout, "%s %s %s\n", dim(at, colour), screen.Word(h.ID), screen.Escape(h.text, false))
			}
			if err == nil && e.Name == "app.removed" && id != "" {
				err = errEnough
			}
			return err
		},
	})
}

// happening is an event of a stream.
type happening struct {
	ID            string
	At            time.Time
	State         string // of app.state, and the five below
	Online        bool
	Name          string
	RAM           int64
	Attempt       int
	RetryAt       string
	client.Exit          // of app.exit
	Kind, Phase   string // of app.deploy, and the two below
	Position      int
	Message       string
	CPU           float64 // of app.metrics, and the four below
	Memory, Limit int64
	NetIn, NetOut int64
	Level         int // of app.memory, with Limit and the four below
	Held, FullIn  int64
	MemorySignal  string
	Sent          bool
	Missed        int // of gap

	text string // for people
}

// happened reads an event, and says in words what it is.
func happened(e client.Event) (h happening, err error) {
	if err := json.Unmarshal(e.Data, &h); err != nil {
		return h, fmt.Errorf("cannot read the answer: %w", err)
	}
	defer func() { h.text = strings.ReplaceAll(h.text, "\n", " ") }()
	switch e.Name {
	case "app.state":
		h.text = h.State
		if at, err := time.Parse(time.RFC3339, h.RetryAt); err == nil {
			h.text += fmt.Sprintf(": restarts at %s (attempt %d)", clock(at), h.Attempt)
		}
	case "app.exit":
		h.text = "ended: exit code " + strconv.Itoa(h.ExitCode)
		if h.RAMKilled {
			h.text += fmt.Sprintf(", killed: needed more than %d MB of RAM", h.LimitMB)
		} else if h.HostRAMKilled && !h.Asked {
			h.text += ", killed: the host ran short of memory"
		} else if h.Asked {
			h.text += ", as asked"
		} else if h.HeapFull != "" {
			h.text += ": its " + h.HeapFull + " heap was full"
		}
	case "app.deploy":
		h.text = h.Kind + ": " + h.Phase
		if h.Position > 0 {
			h.text += fmt.Sprintf(" (number %d)", h.Position)
		}
		if h.Message != "" {
			h.text += ": " + h.Message
		}
	case "app.memory":
		const mb = 1 << 20
		h.text = fmt.Sprintf("RAM %d %% full: it needs %d of %d MB", h.Level, (h.Held+mb-1)/mb, h.Limit/mb)
		if h.FullIn > 0 {
			h.text += fmt.Sprintf(", and grows: all of it in %s", time.Duration(h.FullIn)*time.Second)
		}
		if h.Sent {
			h.text += "; it got " + h.MemorySignal
		}
	case "app.removed":
		h.text = "deleted"
	case "gap":
		h.text = fmt.Sprintf("%d events are missing here: they came faster than they were read", h.Missed)
	case "reset":
		h.text = "what happened since the last event is not known to the server; berth events APP lists what it remembers"
	}
	return h, nil
}

func (c *caller) printHistory(ctx context.Context, cmd *cobra.Command, w *way, a client.App) error {
	all, err := w.History(ctx, a)
	if err != nil {
		return err
	}
	views := make([]command.HappeningView, len(all))
	for i, h := range all {
		views[i] = command.HappeningView{
			Number: h.Number, At: h.Date, Kind: app.HistoryEventKind(h.Kind), Deploy: app.DeployKind(h.Deploy), By: accountID(h.By), Text: h.Text,
		}
		if h.Exit != nil {
			views[i].Code, views[i].OOM = &h.Exit.ExitCode, h.Exit.RAMKilled
		}
	}
	return c.PrintHappenings(given(cmd, "json") == "true", views)
}
