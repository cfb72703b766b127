package host

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"time"

	"berth/app/exit"
	"berth/daemon"
	"berth/daemon/settings"
	"berth/systemd"
)

// failedStatus begins the line that serve leaves to the service manager when it fails.
// The manager forgets the line when the service starts again.
const failedStatus = "failed: "

// leaveWhy leaves to the service manager why the daemon ends, for those who asked the
// manager to start it.
func leaveWhy(err error) error {
	if err == nil {
		return nil
	}
	text := err.Error()
	if p, ok := errors.AsType[*exit.Problem](err); ok && p.Hint != "" {
		text += "\n" + p.Hint
	}
	_ = systemd.Status(failedStatus + strings.ReplaceAll(text, "\n", lineMark)) // the log has it too
	return err
}

// lineMark stands for the end of a line in a status, which has one line.
const lineMark = " | "

// systemctl calls it. When the daemon does not start, the error says why, in the
// daemon's own words. It blocks until systemctl has done its work.
func systemctl(ctx context.Context, args ...string) error {
	out, err := exec.CommandContext(ctx, "systemctl", args...).CombinedOutput()
	if err == nil {
		return nil
	}
	call := "systemctl " + strings.Join(args, " ")
	if (args[0] == "start" || args[0] == "restart") && slices.Contains(args, systemd.DaemonUnit) {
		if why, hint := whyNot(ctx); why != "" {
			return exit.NewProblem(exit.Failure, fmt.Errorf("%s: the daemon does not start: %s", call, why), hint)
		}
	}
	return exit.NewProblem(exit.Failure, fmt.Errorf("%s: %s (%w)", call, strings.TrimSpace(string(out)), err), journalHint)
}

const journalHint = "Hint: journalctl -u berth -n 20"

// whyNot returns why the daemon does not run, and what to do: its socket has another
// process's port, or what it left, or its last line in the journal.
func whyNot(ctx context.Context) (why, hint string) {
	if socket := properties(ctx, systemd.SocketUnit, "ActiveState", "Listen"); socket["ActiveState"] == "failed" && socket["Listen"] != "" {
		address, _, _ := strings.Cut(socket["Listen"], " ")
		why = "systemd cannot listen on " + address
		if who := daemon.WhoListens(ctx, address); len(who) > 0 {
			why += ": address already in use by " + who.String()
		}
		return why, "Hint: stop that, or change listen in " + settings.DefaultFile + " and run berth install --now."
	}
	of := triedDaemon(ctx)
	if left, ok := strings.CutPrefix(of["StatusText"], failedStatus); ok {
		lines := strings.Split(left, lineMark)
		if last := len(lines) - 1; last > 0 && strings.HasPrefix(lines[last], "Hint: ") {
			return strings.Join(lines[:last], "\n"), lines[last]
		}
		return strings.Join(lines, "\n"), journalHint
	}
	if of["InvocationID"] == "" {
		return "", ""
	}
	said, err := exec.CommandContext(ctx, "journalctl", "--no-pager", "--output=cat", "--lines=1",
		"_SYSTEMD_INVOCATION_ID="+of["InvocationID"], "_SYSTEMD_UNIT="+systemd.DaemonUnit).Output()
	if err != nil {
		return "", ""
	}
	return strings.TrimSpace(string(said)), journalHint
}

// triedDaemon are the properties of the daemon's unit that say how it ended. systemd starts it again after two seconds,
// and forgets what it left: then the same is awaited of the new one, for at most 20 seconds.
func triedDaemon(ctx context.Context) map[string]string {
	for tries := 0; ; tries++ {
		of := properties(ctx, systemd.DaemonUnit, "SubState", "StatusText", "InvocationID")
		if of["SubState"] != "start" || strings.HasPrefix(of["StatusText"], failedStatus) || tries == 100 {
			return of
		}
		select {
		case <-ctx.Done():
			return of
		case <-time.After(200 * time.Millisecond):
		}
	}
}

// properties asks systemd about a unit; what it does not answer is missing.
func properties(ctx context.Context, unit string, names ...string) map[string]string {
	out, _ := exec.CommandContext(ctx, "systemctl", "show", "--property="+strings.Join(names, ","), unit).Output()
	all := map[string]string{}
	for line := range strings.Lines(string(out)) {
		name, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "=")
		all[name] = value
	}
	return all
}
