package host

import (
	"context"

	"github.com/spf13/cobra"

	"berth/cli/doctor"
	"berth/daemon/settings"
)

// examine says what this host gives and what will be enforced, and really
// kills a 32 MB child to prove the limit.
func examine(c *Caller) *cobra.Command {
	cmd := command("doctor [--json] [--data-dir DIR] [flags]", "check this host, and show what berth can enforce on it", 0, 0)
	asJSON := jsonFlag(cmd)
	return c.withSettings(cmd, func(ctx context.Context, s settings.Settings, _ []string) error {
		list := doctor.Examine(ctx, s)
		if err := doctor.Report(c.Stdout, list, *asJSON); err != nil {
			return err
		}
		return doctor.Unwell(list)
	})
}
