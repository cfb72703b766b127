package doctor

import (
	"context"
	"os"

	"berth/cgroup"
	"berth/daemon"
	"berth/daemon/settings"
	"berth/systemd"
)

// checkPlacement tells where programs live, and so what ends them.
func checkPlacement(ctx context.Context, h cgroup.Host, s settings.Settings) finding {
	if err := h.Check(); err != nil {
		return finding{"programs", bad, err.Error(), h.Reason}
	}
	if _, err := cgroup.HolderOf(h, systemd.AppsHolder); err == nil {
		text := "in " + systemd.AppsUnit + ": they run on while " + systemd.DaemonUnit + " is stopped, restarted or killed; systemctl stop " + systemd.AppsUnit + " ends them"
		if dir, err := daemon.HolderOf(h, daemon.GroupName(ctx, s.DataDir)); err == nil && dir == "" {
			text += "; those of " + s.DataDir + " are not there yet"
		}
		return finding{"programs", good, text, ""}
	}
	f := finding{"programs", absent, "end when the daemon is stopped; those of one that was killed go on with the next", ""}
	if _, err := os.Stat("/run/systemd/system"); err == nil {
		f.Fix = "berth install --now, and they outlive the daemon"
	}
	return f
}
