package daemon

import (
	"context"
	"os/exec"
	"strings"
	"time"

	"berth/systemd"
)

// mayLeave reports whether programs run on when the daemon is stopped: the next
// one finds them, and who wants them ended too can say so to systemd.
func (d *daemon) mayLeave() bool { return systemd.Listens() && d.groups.Held() }

// end ends what the host does, and the programs unless they may run on.
func (d *daemon) end(hurry context.Context) {
	const room = 30 * time.Second // to kill, to write, to answer
	d.tell(func() error { return systemd.Extend(d.settings.Apps.StopTimeout + lastAnswers + room) })
	if !d.mayLeave() || stopping(hurry, systemd.AppsUnit) {
		d.log.Info("stopping", "grace", d.settings.Apps.StopTimeout)
		d.host.Shutdown(hurry)
		return
	}
	d.log.Info("stopping; the programs run on")
	d.leaving = true
	d.host.Leave()
	d.handOver()
}

// handOver gives what systemd keeps to a keeper beside the programs: unlike a
// daemon that is restarted, one that is stopped loses it (systemd.service(5)
// before version 254). Without, what a program prints last would be lost if it
// ended before the next start.
func (d *daemon) handOver() {
	m, is := d.held.(*manager)
	if !is {
		return
	}
	group, err := d.groups.Keeper()
	if err == nil {
		err = m.handOver(group)
		_ = group.Close()
	}
	if err != nil {
		d.log.Warn("what programs print last is lost if they end while berth is down", "error", err)
	}
}

// stopping reports whether systemd is about to stop a unit, as it is when the
// machine goes down. Programs in it had better be stopped by their daemon, which
// gets their last words.
func stopping(ctx context.Context, unit string) bool {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	out, err := exec.CommandContext(ctx, "systemctl", "list-jobs", "--no-legend", "--plain", "--full").Output()
	return err == nil && hasStopJob(string(out), unit)
}

// hasStopJob looks in the lines of systemctl list-jobs: JOB UNIT TYPE STATE.
func hasStopJob(list, unit string) bool {
	for line := range strings.Lines(list) {
		f := strings.Fields(line)
		if len(f) >= 3 && f[1] == unit && (f[2] == "stop" || f[2] == "restart") {
			return true
		}
	}
	return false
}
