package host

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"berth/app/exit"
	"berth/systemd"
)

// takeOverTime bounds an upgrade in place besides upgrade.patience: the check of the binary,
// and the start of it.
const takeOverTime = 3 * time.Minute

// service is what systemd says of the daemon's unit.
type service struct {
	active string // ActiveState: active, reloading, activating, failed, ...
	status string // what the daemon says of itself
	pid    int    // 0: none
}

// readService asks systemd.
func readService(ctx context.Context) (service, error) {
	out, err := exec.CommandContext(ctx, "systemctl", "show", "-p", "ActiveState,StatusText,MainPID", systemd.DaemonUnit).Output()
	if err != nil {
		return service{}, fmt.Errorf("systemctl show: %w", err)
	}
	var s service
	for line := range strings.Lines(string(out)) {
		name, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "=")
		switch name {
		case "ActiveState":
			s.active = value
		case "StatusText":
			s.status = value
		case "MainPID":
			if s.pid, err = strconv.Atoi(value); err != nil {
				return service{}, fmt.Errorf("systemctl show: MainPID is %q", value)
			}
		}
	}
	return s, nil
}

// runs reports whether the daemon's process executes the file that is at path now.
func (s service) runs(path string) bool {
	return sameFile(fmt.Sprintf("/proc/%d/exe", s.pid), path)
}

// canBecome reports whether the daemon would execute path on SIGHUP: it was started from there,
// also when another file is there by now.
func (s service) canBecome(path string) bool {
	is, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", s.pid))
	return err == nil && strings.TrimSuffix(is, " (deleted)") == path
}

// startedAs reports whether the daemon was started under the text of this unit.
func (s service) startedAs(unit string) bool {
	text, err := os.ReadFile(unit)
	environ, gone := os.ReadFile(fmt.Sprintf("/proc/%d/environ", s.pid))
	if err != nil || gone != nil {
		return false
	}
	_, sum, found := strings.Cut(string(text), " "+systemd.UnitEnv+"=")
	sum, _, _ = strings.Cut(sum, "\n")
	return found && strings.Contains("\x00"+string(environ)+"\x00", "\x00"+systemd.UnitEnv+"="+sum+"\x00")
}

// replaced waits until the file at path serves in the place of the daemon that s was, which was
// told to let it follow. It returns why that one serves on, or why none serves.
func (s service) replaced(ctx context.Context, path string) error {
	begun := false
	refusals := 0
	for {
		now, err := readService(ctx)
		if err == nil {
			serves := now.active == "active"
			begun = begun || now.active == "reloading"
			refused, says := strings.CutPrefix(now.status, "not upgraded, serving as before: ")
			switch {
			case serves && now.runs(path):
				return nil
			case now.active == "failed" || now.active == "activating" || now.active == "inactive":
				why, hint := whyNot(ctx)
				return exit.NewProblem(exit.Failure, fmt.Errorf("%s does not start: %s", path, cmp.Or(why, "nothing says why")), cmp.Or(hint, journalHint))
			case serves && says:
				// Without begun it may be what the daemon said of an upgrade before.
				if refusals++; begun || refusals > 50 {
					return exit.NewProblem(exit.Failure, errors.New("berth serves as before, and not as "+path+": "+refused), journalHint)
				}
			}
		}
		select {
		case <-ctx.Done():
			return exit.NewProblem(exit.Failure, fmt.Errorf("berth serves as before: %s has not followed in time", path), journalHint)
		case <-time.After(100 * time.Millisecond):
		}
	}
}
