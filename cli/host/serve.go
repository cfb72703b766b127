package host

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"berth/cli/command"
	"berth/cli/doctor"
	"berth/cli/screen"
	"berth/daemon"
	"berth/daemon/settings"
)

// serve is the daemon in the foreground. The first SIGTERM stops it cleanly,
// a second one at once.
func serve(c *caller) *cobra.Command {
	cmd := command.New("serve [--data-dir DIR] [--listen HOST:PORT] [--config FILE] [flags]", "run the daemon in the foreground, with programs, API, panel and sites", 0, 0)
	cmd = c.withSettings(cmd, func(_ context.Context, s settings.Settings, _ []string) error {
		if err := mustBeRoot("serve", ", for it gives every application a user and a control group of its own", "serve"); err != nil {
			return err
		}
		var flags []string // in a form that every berth reads, for the next one
		cmd.Flags().Visit(func(f *pflag.Flag) { flags = append(flags, "--"+f.Name+"="+f.Value.String()) })
		log := slog.New(slog.NewTextHandler(c.Stderr, nil))
		c.Then = func(ctx context.Context) error {
			// net/http prints by the default logger what a program sends that nobody asked for. A program
			// must not fill the daemon's log.
			slog.SetLogLoggerLevel(slog.LevelDebug)
			slog.SetDefault(log)
			sig := daemon.NewSignals(ctx)
			defer sig.Stop()
			return leaveWhy(daemon.Serve(sig, daemon.Options{Settings: s, Args: flags, Log: log, Examine: doctor.Examine}))
		}
		return nil
	})
	run := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, args []string) error { return leaveWhy(run(cmd, args)) }
	return cmd
}

// check says whether this binary could serve here, with the settings that serve
// would read, and changes nothing: a daemon may be serving. A daemon that is to
// be upgraded asks it of the new binary.
func check(c *caller) *cobra.Command {
	cmd := command.New("check [--json] [--data-dir DIR] [--listen HOST:PORT] [--config FILE] [flags]", "check that this binary can serve with the current settings and database, and show where settings come from; a daemon may run meanwhile", 0, 0)
	asJSON := command.Toggle(cmd, "json", "print the result as JSON")
	from := c.settingFlags(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		s, sources, err := from.Explain(c.Getenv)
		if err != nil {
			return err
		}
		if err := mustBeRoot("check", "", "check"); err != nil {
			return err
		}
		p, err := daemon.Check(cmd.Context(), s)
		if err != nil {
			return err
		}
		if p.Settings = sources; *asJSON {
			return screen.NewEncoder(c.Stdout).Encode(p)
		}
		fmt.Fprintf(c.Stdout, "berth %s can serve %s on %s\n", p.Version, p.DataDir, p.Listen)
		for _, source := range sources {
			fmt.Fprintln(c.Stdout, source)
		}
		return nil
	}
	return cmd
}

// examine says what this host gives and what will be enforced, and really
// kills a 32 MB child to prove the limit.
func examine(c *caller) *cobra.Command {
	cmd := command.New("doctor [--json] [--data-dir DIR] [flags]", "check this host, and show what berth can enforce on it", 0, 0)
	asJSON := command.JSON(cmd)
	return c.withSettings(cmd, func(ctx context.Context, s settings.Settings, _ []string) error {
		list := doctor.Examine(ctx, s)
		if err := doctor.Report(c.Stdout, list, *asJSON); err != nil {
			return err
		}
		return doctor.Unwell(list)
	})
}
