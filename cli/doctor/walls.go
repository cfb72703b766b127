package doctor

import (
	"fmt"
	"log/slog"
	"os"
	"slices"

	"berth/cgroup"
	"berth/daemon/settings"
	"berth/proc"
	"berth/proc/sandbox"
)

// wallText says what a wall does, for those who have it. Of the network
// checkNetwork tells.
func wallText(l sandbox.Layer) string {
	switch l {
	case sandbox.Mounts:
		return "programs see a system of their own: no other program's files, no /tmp of the host"
	case sandbox.Proc:
		return "programs see no processes but their own"
	case sandbox.Cgroup:
		return "programs see their own control groups alone, and cannot change them"
	case sandbox.Landlock:
		return "programs cannot reach each other's abstract sockets"
	case sandbox.Seccomp:
		return "system calls that programs do not need are refused"
	default:
		return ""
	}
}

// checkWalls puts every wall up around a child.
func checkWalls(h cgroup.Host, s settings.Settings) []finding {
	if os.Geteuid() != 0 {
		return []finding{{"walls", dubious, "cannot be tried without root", "sudo berth doctor"}}
	}
	groups, err := cgroup.Open(h, fmt.Sprintf("doctor-%d", os.Getpid()))
	if err != nil {
		return []finding{{"walls", bad, "cannot be tried: " + err.Error(), h.Reason}}
	}
	defer func() { _ = groups.Close() }() // its groups are removed by then
	launcher := proc.Launcher{Tree: groups, Log: slog.New(slog.DiscardHandler), Walls: proc.Walls{Paths: s.ShownPaths()}}
	return judgeWalls(launcher.Try(), s.RequiredLayers())
}

// judgeWalls makes lines of what was tried. A wall that is missing fails only
// an owner who requires it.
func judgeWalls(verdicts []sandbox.Verdict, required []sandbox.Layer) []finding {
	var list []finding
	for _, v := range verdicts {
		f := finding{string(v.Layer), good, wallText(v.Layer), ""}
		if v.Err != nil {
			f = finding{string(v.Layer), dubious, "programs run without this wall: " + v.Err.Error(), "it needs " + v.Layer.Needs()}
		}
		if v.Err != nil && slices.Contains(required, v.Layer) {
			f.Verdict, f.Text = bad, "sandbox.require names this wall: "+v.Err.Error()
		}
		list = append(list, f)
	}
	return list
}
