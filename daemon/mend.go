package daemon

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path"
	"syscall"
	"time"

	"berth/systemd"
)

// lookEvery is how often the daemon looks whether its control groups are as it made
// them, and its database where it was.
const lookEvery = 30 * time.Second

// mendGroups makes control groups again that somebody else took away, and looks
// every so often, until ctx ends. What it cannot mend is told once, until it changes.
func (d *daemon) mendGroups(ctx context.Context, every time.Duration) {
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	said := ""
	for {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
		missing, err := d.groups.Mend(int64(d.settings.Apps.PidsMax))
		if len(missing) > 0 {
			d.host.Bound(ctx)
		}
		text := ""
		switch {
		case err != nil:
			if text = fmt.Sprint(missing, err); text != said {
				d.log.Error("programs may run without limits: somebody else changed berth's control groups", "missing", missing, "error", err)
			}
		case len(missing) > 0:
			d.log.Warn("somebody else changed berth's control groups; they are as before", "missing", missing)
		}
		said = text
	}
}

// mendHolder gives the unit that holds the programs a process again. Its
// programs have not noticed: it is active without, too.
func (d *daemon) mendHolder() {
	if d.groups.HolderLives() {
		return
	}
	err := d.groups.Revive(func(group *os.File) error {
		sleep := exec.CommandContext(context.WithoutCancel(context.Background()), "/bin/sleep", "infinity")
		sleep.Dir = "/"
		sleep.SysProcAttr = &syscall.SysProcAttr{Setsid: true, UseCgroupFD: true, CgroupFD: int(group.Fd())}
		if err := sleep.Start(); err != nil {
			return err
		}
		go func() { _ = sleep.Wait() }() // it outlives the daemon, or is reaped
		return nil
	})
	d.log.Warn("the process of the programs' unit had ended; the programs run on", "unit", path.Base(systemd.AppsHolder), "another was started", err == nil, "error", err)
}
