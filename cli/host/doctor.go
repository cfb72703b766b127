package host

import (
	"context"

	"berth/cli/doctor"
	"berth/daemon/settings"
)

// runDoctor says what this host gives and what will be enforced, and really
// kills a 32 MB child to prove the limit.
func runDoctor(ctx context.Context, c *call) error {
	set := c.flags()
	asJSON := set.Bool("json", false, "print JSON")
	from := settings.AddFlags(set)
	if _, err := c.parse(set, 0, 0); err != nil {
		return err
	}
	s, err := from.Load(c.getenv)
	if err != nil {
		return err
	}
	list := doctor.Examine(ctx, s)
	if err := doctor.Report(c.stdout, list, *asJSON); err != nil {
		return err
	}
	return doctor.Unwell(list)
}
