package host

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"berth/app/exit"
	"berth/cli/command"
	"berth/cli/screen"
	"berth/daemon/settings"
	"berth/host/sizing"
	"berth/web/local"
)

// plan is "berth plan": how much RAM of the host is sold and used, and what more can be sold.
func plan(c *caller) *cobra.Command {
	cmd := command.New("plan [--json] [--runtime-dir DIR]", "show how much RAM of this host is sold and used, and how much more can be sold", 0, 0)
	asJSON := command.JSON(cmd)
	return c.withSettings(cmd, func(ctx context.Context, s settings.Settings, _ []string) error {
		p, err := local.AskPlan(ctx, s.RuntimeDir)
		if errors.Is(err, local.ErrNobody) {
			return exit.NewProblem(exit.Unreachable, errors.New("cannot plan: no berth runs here, which would measure"), "Hint: systemctl status berth tells how the daemon is.")
		}
		if err != nil {
			return fmt.Errorf("cannot plan: %w", err)
		}
		if *asJSON {
			return c.Print(true, p, nil)
		}
		return c.printPlan(p)
	}, "runtime_dir")
}

// printPlan prints facts, what each overcommit allows, and what follows.
func (c *caller) printPlan(p local.Plan) error {
	width := screen.Width(c.Stdout)
	for _, fact := range facts(p) {
		if err := c.say(width, fmt.Sprintf("%-14s%s", fact[0], wrapped(fact[1], width, 14))); err != nil {
			return err
		}
	}
	if err := c.say(0, ""); err != nil {
		return err
	}
	err := c.Print(false, nil, func(out io.Writer) {
		fmt.Fprintln(out, "OVERCOMMIT\tMAY HAVE\tCAN BE SOLD\tWORST\tVERDICT")
		for _, o := range p.Offers {
			more, worst := fmt.Sprintf("%d MB", o.MoreMB), "-"
			if o.MoreMB < 0 {
				more = fmt.Sprintf("%d MB too many", -o.MoreMB)
			}
			if p.Worst != nil {
				worst = fmt.Sprintf("%d %%", o.Worst)
			}
			fmt.Fprintf(out, "%s\t%d MB\t%s\t%s\t%s\n", sizing.Factor(o.Overcommit), o.CapacityMB, more, worst, o.Verdict)
		}
	})
	if err != nil {
		return err
	}
	return c.say(width, "\n"+p.Message+"\n"+planNote)
}

// planNote says what the figures are not.
const planNote = "WORST is how much of the RAM for applications would be used if all that may run ran, and used as much as at the worst moment. " +
	"Peaks between samples, one a minute, are not in it, and programs may grow together."

func wrapped(text string, width, indent int) string {
	if width == 0 {
		return text
	}
	return screen.Wrap(text, max(width-indent, 1), indent)
}

// say prints lines as a terminal of some width takes them.
func (c *caller) say(width int, text string) error {
	_, err := fmt.Fprintln(c.Stdout, screen.Escape(screen.Fit(text, width), false))
	return err
}

// facts are what a plan rests on, each with its title.
func facts(p local.Plan) [][2]string {
	worst := "nothing was measured yet"
	if w := p.Worst; w != nil {
		worst = fmt.Sprintf("%d MB of the %d MB that %s had, %s; measured on %d of the last 30 days",
			inMB(w.Used), w.HadMB, counted(w.Apps, "program"), command.When(w.At.UTC()), p.Days)
	}
	return [][2]string{
		{"host", fmt.Sprintf("%d MB, %d MB of them for applications", p.HostMB, max(p.HostMB-p.ReserveMB, 0))},
		{"may run", fmt.Sprintf("%d MB, with host.overcommit %s", p.CapacityMB, sizing.Factor(p.Overcommit))},
		{"accounts", fmt.Sprintf("%d MB promised", p.PromisedMB)},
		{"applications", fmt.Sprintf("%d MB given to %s, %d MB of them to running ones", p.GivenMB, counted(p.Apps, "application"), p.RunningMB)},
		{"used now", fmt.Sprintf("%d MB", inMB(p.Used))},
		{"worst moment", worst},
	}
}

// inMB is bytes in whole MB, rounded up.
func inMB(bytes int64) int64 { return (bytes + 1<<20 - 1) >> 20 }
