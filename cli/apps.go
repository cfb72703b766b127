package cli

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"runtime"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"berth/app"
	"berth/app/exit"
	"berth/cli/command"
	"berth/cli/screen"
	"berth/client"
)

// list is "berth ls".
func (c *caller) list() *cobra.Command {
	cmd := command.New("ls [--json]", "list your applications, and those of your teams", 0, 0)
	cmd.SuggestFor = []string{"list", "ps", "apps"}
	asJSON := jsonFlag[[]client.App](cmd)
	return c.remote(cmd, func(ctx context.Context, w *way, _ []string) error {
		all, err := w.Apps(ctx)
		if err != nil {
			return err
		}
		if all == nil {
			all = []client.App{} // an empty list in JSON, not null
		}
		return c.Print(*asJSON, all, func(out io.Writer) {
			fmt.Fprintln(out, "ID\tNAME\tTYPE\tLANG\tRAM\tSTATE\tOWNER")
			for _, a := range all {
				fmt.Fprintf(out, "%s\t%s\t%s\t%s\t%d MB\t%s\t%s\n", screen.Word(a.ID), screen.Word(a.Name), typeOf(a), screen.Word(a.Lang), a.RAM,
					stateOf(a), cmp.Or(screen.Word(a.Owner), "-"))
			}
		})
	})
}

func typeOf(a client.App) string {
	if a.Type == int(app.Site) {
		return "site"
	}
	return "bot"
}

// terminated is the exit code of a program that ends because it is asked to (SIGTERM).
const terminated = 143

// stateOf is whether a program runs, and else how it ended.
func stateOf(a client.App) string {
	switch {
	case a.Online:
		return "online"
	case a.RAMKilled:
		return "killed: needed more RAM"
	case a.ExitCode != 0 && a.ExitCode != terminated:
		return fmt.Sprintf("ended: exit code %d", a.ExitCode)
	}
	return "offline"
}

// status is "berth status [APP]".
func (c *caller) status() *cobra.Command {
	cmd := command.New("status [APP] [-w|--watch] [--json]", "show what an application uses at this moment; all of yours where the directory is none's", 0, 1)
	watch := command.Toggle(cmd, "watch|w", "go on while it changes; with --json one object for each change")
	asJSON := jsonFlag[[]client.Status](cmd)
	show := func(all []client.Status, err error) error {
		if err != nil {
			return err
		}
		return c.Print(*asJSON, all, func(out io.Writer) { printStatus(out, all) })
	}
	c.remote(cmd, func(ctx context.Context, w *way, _ []string) error {
		if *watch {
			return c.watchStatus(ctx, w, client.App{}, *asJSON)
		}
		return show(w.Statuses(ctx))
	})
	ofAll := cmd.RunE
	cmd.ValidArgsFunction = c.completeApps
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		word := "."
		if len(args) > 0 {
			word = args[0]
		} else if _, err := appOfDirectory(); err != nil {
			return ofAll(cmd, args)
		}
		return c.withApp(cmd, word, func(ctx context.Context, w *way, a client.App) error {
			if *watch {
				return c.watchStatus(ctx, w, a, *asJSON)
			}
			s, err := w.Status(ctx, a)
			return show([]client.Status{s}, err)
		})
	}
	return cmd
}

// printStatus prints a table of what applications use.
func printStatus(out io.Writer, all []client.Status) {
	fmt.Fprintln(out, "ID\tSTATE\tCPU\tMEMORY\tDISK\tNET IN\tNET OUT\tSINCE")
	for _, s := range all {
		row := []string{s.ID, s.Container, s.CPU, s.Memory, s.SSD, s.NetIO.Down, s.NetIO.Up, cmp.Or(s.StartedAt, "-")}
		for i, text := range row {
			row[i] = screen.Word(text)
		}
		fmt.Fprintln(out, strings.Join(row, "\t"))
	}
}

// outcomeView is what a command that changes something prints with --json.
type outcomeView struct {
	ID      string `json:"id"`      // of the application
	Message string `json:"message"` // the server's sentence
	Online  *bool  `json:"online"`  // whether its program runs; null where the command has not found out
}

// changed prints what came of a change: the server's sentence, or JSON.
func (c *caller) changed(asJSON bool, a client.App, o client.Outcome) error {
	v := outcomeView{ID: a.ID, Message: o.Message}
	if o.AppStatus != nil {
		v.Online = &o.AppStatus.Online
	}
	return c.Print(asJSON, v, func(out io.Writer) { fmt.Fprintln(out, screen.Escape(o.Message, false)) })
}

// start is "berth start [APP]". An application that is online already is no failure.
func (c *caller) start() *cobra.Command {
	cmd := command.New("start [APP] [--json]", "start an application, and say whether it came online", 0, 1)
	asJSON := jsonFlag[outcomeView](cmd)
	return c.onApp(cmd, 0, func(ctx context.Context, w *way, a client.App, _ []string) error {
		return c.came(ctx, *asJSON, w, a, w.Start)
	})
}

// restart is "berth restart [APP]".
func (c *caller) restart() *cobra.Command {
	cmd := command.New("restart [APP] [--json]", "restart an application, and say whether it came online", 0, 1)
	asJSON := jsonFlag[outcomeView](cmd)
	return c.onApp(cmd, 0, func(ctx context.Context, w *way, a client.App, _ []string) error {
		return c.came(ctx, *asJSON, w, a, w.Restart)
	})
}

// came does what starts a program, and tells how the program does. One that has ended is
// exit.Offline, with its last words.
func (c *caller) came(
	ctx context.Context, asJSON bool, w *way, a client.App, do func(context.Context, client.App) (client.Outcome, error),
) error {
	o, err := do(ctx, a)
	if already, is := errors.AsType[*client.Error](err); is && already.Status == http.StatusOK && a.Online {
		o, err = client.Outcome{Message: already.Message}, nil
	}
	if err != nil {
		return err
	}
	online, err := c.online(ctx, w, a, o)
	if err != nil {
		return err
	}
	o.AppStatus = &client.AppStatus{Online: online}
	if err := c.changed(asJSON, a, o); err != nil || online {
		return err
	}
	return c.offline(ctx, w, a)
}

// online reports whether a program runs that was started: as the answer says, or else as
// the list does.
func (c *caller) online(ctx context.Context, w *way, a client.App, o client.Outcome) (bool, error) {
	if o.AppStatus != nil {
		return o.AppStatus.Online, nil
	}
	all, err := w.Apps(ctx)
	if err != nil {
		return false, err
	}
	now, err := client.Choose(all, a.ID)
	return now.Online, err
}

// offline is the error of a program that did not come online. It prints its last words.
func (c *caller) offline(ctx context.Context, w *way, a client.App) error {
	if words, err := w.LastWords(ctx, a); err == nil && words != "" { // a member may not be allowed to
		fmt.Fprintln(c.Stderr, screen.Escape(strings.TrimRight(words, "\n"), screen.Colour(c.Stderr, c.Getenv)))
	}
	return exit.NewProblem(exit.Offline, fmt.Errorf("%s did not come online", a.ID), "")
}

// stop is "berth stop [APP]". An application that is offline already is no failure.
func (c *caller) stop() *cobra.Command {
	cmd := command.New("stop [APP] [--all] [--json]", "stop an application, or all of your account", 0, 1)
	all := command.Toggle(cmd, "all", "stop every application of your account")
	asJSON := jsonFlag[outcomeView](cmd)
	c.onApp(cmd, 0, func(ctx context.Context, w *way, a client.App, _ []string) error {
		o, err := w.Stop(ctx, a)
		if already, is := errors.AsType[*client.Error](err); is && already.Status == http.StatusOK {
			o, err = client.Outcome{Message: already.Message}, nil
		}
		if err != nil {
			return err
		}
		return c.changed(*asJSON, a, o)
	})
	stopOne := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		switch {
		case !*all:
			return stopOne(cmd, args)
		case len(args) > 0:
			return exit.NewProblem(exit.Usage, fmt.Errorf("cannot stop all applications, and %s by itself", screen.Word(args[0])),
				"Hint: leave out --all or the application.")
		}
		return interruptible(cmd.Context(), func(ctx context.Context) error {
			w, err := c.way(ctx, cmd, "")
			if err != nil {
				return err
			}
			defer w.Close()
			message, failed, err := w.StopAll(ctx)
			if err != nil {
				return err
			}
			if failed > 0 {
				return exit.NewProblem(exit.Failure, errors.New(message), "")
			}
			return c.changed(*asJSON, client.App{ID: "all"}, client.Outcome{Message: message})
		})
	}
	return cmd
}

// ram is "berth ram [APP] MB".
func (c *caller) ram() *cobra.Command {
	cmd := command.New("ram [APP] MB [--json]", "set how much RAM an application may use, in MB or such as 2GB", 1, 2)
	asJSON := jsonFlag[outcomeView](cmd)
	cmd.ValidArgsFunction = c.completeApps
	return c.onApp(cmd, 1, func(ctx context.Context, w *way, a client.App, args []string) error {
		mb, ok := app.ParseMB(args[0])
		if !ok || mb < 1 {
			return exit.Misused(`bad amount of RAM %q: expected a number of MB such as 512, "512MB" or "1.5GB"`, args[0])
		}
		o, err := w.SetRAM(ctx, a, mb)
		if err != nil {
			return err
		}
		return c.changed(*asJSON, a, o)
	})
}

// send is "berth send [APP] LINE".
func (c *caller) send() *cobra.Command {
	cmd := command.New("send [APP] LINE [--json]", "send a line to the input of a program that reads lines (STDIN=true)", 1, 2)
	asJSON := jsonFlag[outcomeView](cmd)
	cmd.ValidArgsFunction = c.completeApps
	return c.onApp(cmd, 1, func(ctx context.Context, w *way, a client.App, args []string) error {
		o, err := w.SendLine(ctx, a, args[0])
		if err != nil {
			return err
		}
		return c.changed(*asJSON, a, o)
	})
}

// advice is "berth advice [APP]".
func (c *caller) advice() *cobra.Command {
	cmd := command.New("advice [APP] [--apply] [--json]",
		"say which RAM fits an application, by what it used in 30 days; all of yours where the directory is none's", 0, 1)
	apply := command.Toggle(cmd, "apply", "set the RAM that is advised, at once")
	asJSON := jsonFlag[[]client.RightSize](cmd)
	c.remote(cmd, func(ctx context.Context, w *way, _ []string) error {
		all, err := w.RightSizes(ctx)
		if err != nil {
			return err
		}
		return c.Print(*asJSON, all, func(out io.Writer) { printSizes(out, all) })
	})
	ofAll := cmd.RunE
	cmd.ValidArgsFunction = c.completeApps
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		word := "."
		if len(args) > 0 {
			word = args[0]
		} else if _, err := appOfDirectory(); err != nil && *apply {
			return exit.Misused("--apply goes with one application")
		} else if err != nil {
			return ofAll(cmd, args)
		}
		return c.withApp(cmd, word, func(ctx context.Context, w *way, a client.App) error {
			s, err := w.RightSize(ctx, a)
			if err != nil {
				return err
			}
			err = c.Print(*asJSON, []client.RightSize{s}, func(out io.Writer) { fmt.Fprintln(out, screen.Fit(s.Message, screen.Width(c.Stdout))) })
			if err != nil || !*apply || s.Fit == s.RAM {
				return err
			}
			o, err := w.SetRAM(ctx, a, app.MB(s.Fit))
			if err == nil {
				c.Tell("%s", o.Message)
			}
			return err
		})
	}
	return cmd
}

// printSizes prints a table of which RAM fits.
func printSizes(out io.Writer, all []client.RightSize) {
	fmt.Fprintln(out, "ID\tRAM\tFITS\tPEAK\tDAYS\tKILLS\tVERDICT")
	for _, s := range all {
		fits := fmt.Sprintf("%d MB", s.Fit)
		if s.Verdict == string(app.SizeUnknown) || s.Verdict == string(app.SizeNone) {
			fits = "-"
		}
		fmt.Fprintf(out, "%s\t%d MB\t%s\t%s\t%d\t%d\t%s\n", screen.Word(s.ID), s.RAM, fits, megabytes(s.Peak), s.Days, s.RAMKills, screen.Word(s.Verdict))
	}
}

// delete is "berth delete [APP]". It asks for the name, for nothing brings an application
// back.
func (c *caller) delete() *cobra.Command {
	cmd := command.New("delete APP [--yes] [--json]", "delete an application, its files and its backups for ever", 1, 1)
	cmd.SuggestFor = []string{"rm", "remove"}
	yes := command.Toggle(cmd, "yes", "do not ask for the application's name")
	asJSON := jsonFlag[outcomeView](cmd)
	return c.onApp(cmd, 0, func(ctx context.Context, w *way, a client.App, _ []string) error {
		if !*yes {
			err := c.confirm(a, "delete", fmt.Sprintf("This deletes %s (%s), its files and its backups for ever.", screen.Word(a.Name), screen.Word(a.ID)))
			if err != nil {
				return err
			}
		}
		o, err := w.Delete(ctx, a)
		if err != nil {
			return err
		}
		forgetApp(w, a)
		return c.changed(*asJSON, a, o)
	})
}

// confirm asks for the name of an application, behind what is about to be done to it.
func (c *caller) confirm(a client.App, verb, warning string) error {
	f, is := c.Stdin.(*os.File)
	if !is || !term.IsTerminal(int(f.Fd())) {
		return exit.NewProblem(exit.Usage, fmt.Errorf("cannot %s %s: nobody is at a terminal to confirm it", verb, a.ID), "Hint: --yes goes on without a question.")
	}
	fmt.Fprintf(c.Stderr, "%s\nType its name to go on: ", warning)
	text, err := bufio.NewReader(f).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("cannot read the answer: %w", err)
	}
	if text = strings.TrimSpace(text); text == "" || text != a.Name && text != a.ID {
		return exit.NewProblem(exit.Failure, errors.New("that is not its name"), "Hint: nothing was changed.")
	}
	return nil
}

// forgetApp removes an application that is no more from the directories it was deployed
// from. Not to be able to is no failure: such a directory leads to "no application".
func forgetApp(w *way, a client.App) {
	all, err := loadContexts()
	if err != nil {
		return
	}
	for dir, at := range all.Applications {
		if at.Context == w.context && at.ID == a.ID {
			_ = changeContexts(func(all *contexts) error { delete(all.Applications, dir); return nil })
		}
	}
}

// open is "berth open [APP]".
func (c *caller) open() *cobra.Command {
	cmd := command.New("open [APP] [--print]", "open a site in the browser; for a bot, its page in the panel", 0, 1)
	only := command.Toggle(cmd, "print", "print the address, and open nothing")
	return c.onApp(cmd, 0, func(ctx context.Context, w *way, a client.App, _ []string) error {
		address := w.url + "/apps/" + a.ID
		if a.Type == int(app.Site) && a.Owner == "" {
			site, err := w.Site(ctx, a)
			if err != nil {
				return err
			}
			if len(site.Addresses) > 0 {
				address = site.Addresses[0]
			}
		}
		if !strings.HasPrefix(address, "https://") && !strings.HasPrefix(address, "http://") { // a stranger's server says it
			return exit.NewProblem(exit.Failure, fmt.Errorf("cannot open %q: it is no address of the web", address), "")
		}
		if _, err := fmt.Fprintln(c.Stdout, screen.Escape(address, false)); err != nil || *only {
			return err
		}
		return browse(ctx, address)
	})
}

// browse opens an address in the person's browser. Where there is none, the address that
// was printed is all.
func browse(ctx context.Context, address string) error {
	call := map[string][]string{"darwin": {"open"}, "windows": {"rundll32", "url.dll,FileProtocolHandler"}}[runtime.GOOS]
	if call == nil {
		call = []string{"xdg-open"}
	}
	if _, err := exec.LookPath(call[0]); err != nil || call[0] == "xdg-open" && os.Getenv("DISPLAY") == "" && os.Getenv("WAYLAND_DISPLAY") == "" {
		return nil
	}
	if out, err := exec.CommandContext(ctx, call[0], append(call[1:], address)...).CombinedOutput(); err != nil {
		return fmt.Errorf("cannot open the browser: %w: %s", err, screen.Word(strings.TrimSpace(string(out))))
	}
	return nil
}
