package host

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"berth/daemon"
	"berth/daemon/settings"
)

// check says whether this binary could serve here, with the settings that serve
// would read, and changes nothing: a daemon may be serving. A daemon that is to
// be upgraded asks it of the new binary.
func check(c *Caller) *cobra.Command {
	cmd := command("check [--json] [--data-dir DIR] [--listen HOST:PORT] [--config FILE] [flags]", "check that this binary can serve with the current settings and database; a daemon may run meanwhile", 0, 0)
	asJSON := toggleFlag(cmd, "json", "print the result as JSON")
	return c.withSettings(cmd, func(ctx context.Context, s settings.Settings, _ []string) error {
		if os.Geteuid() != 0 {
			return settings.NewProblem(settings.ExitPermission, errors.New("cannot check: berth must run as root"), "Hint: sudo berth check")
		}
		p, err := daemon.Check(ctx, s)
		if err != nil {
			return err
		}
		if *asJSON {
			return json.NewEncoder(c.Stdout).Encode(p)
		}
		_, err = fmt.Fprintf(c.Stdout, "berth %s can serve %s on %s\n", p.Version, p.DataDir, p.Listen)
		return err
	})
}
