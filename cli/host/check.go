package host

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"

	"berth/daemon"
	"berth/daemon/settings"
)

// check says whether this binary could serve here, with the settings that serve
// would read, and changes nothing: a daemon may be serving. A daemon that is to
// be upgraded asks it of the new binary.
func check(ctx context.Context, c *call) error {
	set := c.flags()
	from := settings.AddFlags(set)
	asJSON := set.Bool("json", false, "print what was found as JSON")
	if _, err := c.parse(set, 0, 0); err != nil {
		return err
	}
	s, err := from.Load(c.getenv)
	if err != nil {
		return err
	}
	if os.Geteuid() != 0 {
		return settings.NewProblem(settings.ExitPermission, errors.New("cannot check: berth must run as root"), "Hint: sudo berth check")
	}
	p, err := daemon.Check(ctx, s)
	if err != nil {
		return err
	}
	if *asJSON {
		return json.NewEncoder(c.stdout).Encode(p)
	}
	_, err = fmt.Fprintf(c.stdout, "berth %s can serve %s on %s\n", p.Version, p.DataDir, p.Listen)
	return err
}
