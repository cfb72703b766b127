package host

import (
	"context"
	"errors"
	"log/slog"
	"os"

	"github.com/spf13/cobra"

	"berth/cli/doctor"
	"berth/daemon"
	"berth/daemon/settings"
	"berth/systemd"
)

// serve is the daemon in the foreground. The first SIGTERM stops it cleanly,
// a second one at once.
func serve(c *Caller) *cobra.Command {
	cmd := command("serve [--data-dir DIR] [--listen HOST:PORT] [--config FILE] [flags]", "host the applications and answer the API, in the foreground", 0, 0)
	return c.withSettings(cmd, func(ctx context.Context, s settings.Settings, _ []string) error {
		sig := daemon.NewSignals(ctx)
		defer sig.Stop()
		if os.Geteuid() != 0 {
			return settings.NewProblem(settings.ExitPermission,
				errors.New("cannot serve: berth must run as root, for it gives every application a user and a control group of its own"),
				"Hint: sudo berth serve")
		}
		log := slog.New(slog.NewTextHandler(c.Stderr, nil))
		for _, v := range settings.StrangeVariables(os.Environ(), systemd.HolderEnv) {
			log.Warn("this environment variable is no setting", "name", v.Name, "did you mean", v.Meant)
		}
		return daemon.Serve(sig, daemon.Options{Settings: s, Args: c.Args[1:], Log: log, Examine: doctor.Examine})
	})
}
