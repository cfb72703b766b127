package main

import (
	"os"

	"berth/cgroup"
)

// checkPlacement tells where programs live, and so what ends them.
func checkPlacement(h cgroup.Host, s Settings) finding {
	if err := h.Check(); err != nil {
		return finding{"programs", bad, err.Error(), h.Reason}
	}
	if _, err := cgroup.HolderOf(h, holder252); err == nil {
		text := "in " + appsUnit + ": they run on while " + daemonUnit + " is stopped, restarted or killed; systemctl stop " + appsUnit + " ends them"
		if dir, err := holderOf(h, groupName(s.DataDir)); err == nil && dir == "" {
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
