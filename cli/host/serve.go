package host

import (
	"context"
	"errors"
	"log/slog"
	"os"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"berth/cli/doctor"
	"berth/daemon"
	"berth/daemon/settings"
)

// serve is the daemon in the foreground. The first SIGTERM stops it cleanly,
// a second one at once.
func serve(c *Caller) *cobra.Command {
	cmd := command("serve [--data-dir DIR] [--listen HOST:PORT] [--config FILE] [flags]", "run the daemon in the foreground, with programs, API, panel and sites", 0, 0)
	return c.withSettings(cmd, func(_ context.Context, s settings.Settings, _ []string) error {
		if os.Geteuid() != 0 {
			return settings.NewProblem(settings.ExitPermission,
				errors.New("cannot serve: berth must run as root, for it gives every application a user and a control group of its own"),
				"Hint: sudo berth serve")
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
			return daemon.Serve(sig, daemon.Options{Settings: s, Args: flags, Log: log, Examine: doctor.Examine})
		}
		return nil
	})
}
