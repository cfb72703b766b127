package daemon

import (
	"context"
	"fmt"

	"berth/app"
	"berth/host"
	"berth/proc"
)

// shell is a host.Shell: the command gets what the program would get, in a
// group of its own.
func (s *starter) shell(_ context.Context, p app.Program) (host.Command, error) {
	temp, err := s.temp(p)
	if err != nil {
		return nil, err
	}
	spec := s.spec(p, temp)
	spec.Group = s.consoleGroup(p.App)
	return started(s.proc.Console(spec, nil))
}

// Shell implements host.Instance: the command gets what the program got, in a
// group below the program's.
func (i *instance) Shell(argv []string) (host.Command, error) {
	spec := i.spec
	spec.Argv, spec.Group = argv, i.starter.consoleGroup(i.id)
	return started(i.starter.proc.Console(spec, i.Run))
}

// consoleGroup names a group that no command had before.
func (s *starter) consoleGroup(id app.ID) string {
	return fmt.Sprintf("apps/%s/console-%d", id, s.consoles.Add(1))
}

// started keeps a nil pointer from becoming an interface.
func started(c *proc.Console, err error) (host.Command, error) {
	if err != nil {
		return nil, err
	}
	return c, nil
}
