package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"berth/app/exit"
	"berth/cli/command"
	"berth/cli/screen"
	"berth/client"
)

// lineView is a line of a log as it is printed with --json, one object a line.
type lineView struct {
	At    time.Time `json:"at"`            // when it was printed
	Build bool      `json:"build"`         // by the build, not by the program
	Text  string    `json:"text"`          // others' bytes, without the time
	Pos   string    `json:"pos,omitempty"` // --since goes on behind this line; the last of several lines has it
}

// logsOf is what "berth logs" is asked for.
type logsOf struct {
	follow, build, raw, json *bool
	since, lines             *string
}

// logs is "berth logs [APP]".
func (c *caller) logs() *cobra.Command {
	cmd := command.New("logs [APP] [-f|--follow] [--build] [--since TIME] [-n|--lines N] [--raw] [--json]",
		"print what an application has printed, and go on", 0, 1)
	o := logsOf{
		follow: command.Toggle(cmd, "follow|f", "go on with what is printed from now on, also over restarts and upgrades of berth"),
		build:  command.Toggle(cmd, "build", "the log of the last build, not that of the program"),
		since:  command.Word(cmd, "since", "begin at a `TIME`: 10m, 2h or 3d ago, 2026-11-20T09:31:02Z, or the pos of a line of --json"),
		lines:  command.Word(cmd, "lines|n", "begin with the last `N` lines, or all; default 100"),
		raw:    command.Toggle(cmd, "raw", "print the bytes as they are, for a file or another program: nothing is escaped"),
		json:   jsonFlag[lineView](cmd),
	}
	return c.onApp(cmd, 0, func(ctx context.Context, w *way, a client.App, _ []string) error {
		query, err := o.query(a)
		switch {
		case err != nil:
			return err
		case *o.raw && *o.json:
			return exit.Misused("--raw and --json exclude each other")
		case *o.raw && screen.Width(c.Stdout) > 0:
			return exit.NewProblem(exit.Usage, errors.New("cannot print the bytes of a program on a terminal, which obeys them"),
				"Hint: --raw is for a pipe or a file.")
		}
		return c.printLog(ctx, w, o, query)
	})
}

// query is the address's part about which lines, and from where on.
func (o logsOf) query(a client.App) (url.Values, error) {
	query := url.Values{"app": {a.ID}, "types": {"log"}, "build": {strconv.FormatBool(*o.build)}}
	if !*o.follow {
		query.Set("follow", "false")
	}
	n, err := strconv.Atoi(*o.lines)
	switch {
	case *o.since != "" && *o.lines != "":
		return nil, exit.Misused("--since and --lines exclude each other")
	case *o.since != "":
		query.Set("since", *o.since)
	case *o.lines == "":
		query.Set("tail", "100")
	case *o.lines == "all":
		query.Set("since", "0") // 1970
	case err != nil || n < 0:
		return nil, exit.Misused("bad number of lines %q: expected one such as 100, or all", *o.lines)
	default:
		query.Set("tail", strconv.Itoa(n))
	}
	return query, nil
}

// printLog prints the lines that a query asks for. After a lost connection it goes on
// exactly behind the last line.
func (c *caller) printLog(ctx context.Context, w *way, o logsOf, query url.Values) error {
	p := linePrinter{out: c.Stdout, raw: *o.raw, json: *o.json, terminal: screen.Width(c.Stdout) > 0, colour: screen.Colour(c.Stdout, c.Getenv)}
	return c.follow(ctx, w, following{
		ends: !*o.follow,
		note: c.noteTo,
		path: func() string { return "/v2/events?" + query.Encode() },
		each: func(e client.Event) error {
			switch e.Name {
			case "app.log":
				var lines struct {
					Build     bool
					Text, Pos string
				}
				if err := json.Unmarshal(e.Data, &lines); err != nil {
					return fmt.Errorf("cannot read the answer: %w", err)
				}
				if lines.Pos != "" {
					query.Set("since", lines.Pos)
					query.Del("tail")
				}
				return p.print(lines.Text, lines.Build, lines.Pos)
			case "app.removed":
				return exit.NewProblem(exit.NotFound, errors.New("the application was deleted"), "")
			case "end":
				return errEnough
			}
			return nil
		},
	})
}

// linePrinter prints lines of a log.
type linePrinter struct {
	out                         io.Writer
	raw, json, terminal, colour bool

	day string // of the line before, on a terminal
}

// print prints whole lines, which have their times in front.
func (p *linePrinter) print(text string, build bool, pos string) error {
	if p.raw || text == "" {
		_, err := io.WriteString(p.out, text)
		return err
	}
	var b strings.Builder
	all := screen.NewEncoder(&b)
	for len(text) > 0 {
		var line string
		line, text, _ = strings.Cut(text, "\n")
		stamp, rest, _ := strings.Cut(line, " ")
		at, err := time.Parse(time.RFC3339Nano, stamp)
		if err != nil { // a crash of the host can leave anything
			rest = line
		}
		switch {
		case p.json:
			v := lineView{At: at, Build: build, Text: rest}
			if text == "" {
				v.Pos = pos
			}
			if err := all.Encode(v); err != nil {
				return err
			}
		default:
			b.WriteString(p.stamp(at, stamp, err == nil) + screen.Escape(rest, p.colour) + "\n")
		}
	}
	_, err := io.WriteString(p.out, b.String())
	return err
}

// stamp is the time in front of a line: on a terminal that of the day, below the date.
func (p *linePrinter) stamp(at time.Time, text string, ok bool) string {
	switch {
	case !ok:
		return ""
	case !p.terminal:
		return text + " "
	}
	date := ""
	if day := at.Local().Format(time.DateOnly); day != p.day {
		p.day, date = day, dim("--- "+day+" ---", p.colour)+"\n"
	}
	return date + dim(clock(at), p.colour) + " "
}
