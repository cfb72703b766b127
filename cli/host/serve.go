package host

import (
	"context"
	"errors"
	"log/slog"
	"os"

	"berth/cli/doctor"
	"berth/daemon"
	"berth/daemon/settings"
	"berth/systemd"
)

// serve is the daemon in the foreground. The first SIGTERM stops it cleanly,
// a second one at once.
func serve(ctx context.Context, c *call) (err error) {
	sig := daemon.NewSignals(ctx) // first, for an image that follows another may be sent some already
	defer sig.Stop()
	set := c.flags()
	from := settings.AddFlags(set)
	if _, err := c.parse(set, 0, 0); err != nil {
		return err
	}
	s, err := from.Load(c.getenv)
	if err != nil {
		return err
	}
	if os.Geteuid() != 0 {
		return settings.NewProblem(settings.ExitPermission,
			errors.New("cannot serve: berth must run as root, for it gives every application a user and a control group of its own"),
			"Hint: sudo berth serve")
	}
	log := slog.New(slog.NewTextHandler(c.stderr, nil))
	for _, v := range settings.StrangeVariables(os.Environ(), systemd.HolderEnv) {
		log.Warn("this environment variable is no setting", "name", v.Name, "did you mean", v.Meant)
	}
	return daemon.Serve(sig, daemon.Options{Settings: s, Args: c.args, Log: log, Examine: doctor.Examine})
}
