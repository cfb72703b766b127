package doctor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"slices"
	"time"

	"berth/cgroup"
	"berth/daemon"
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

// counted are the walls that somebody counts on.
type counted struct {
	required, spared []sandbox.Layer // by the settings
	had              []sandbox.Layer // by programs, at the daemon's last start
}

// countedOn reads them; without root nobody may know what programs had.
func countedOn(s settings.Settings) (counted, error) {
	had, err := daemon.RememberedWalls(s.DataDir)
	if errors.Is(err, fs.ErrPermission) {
		err = nil
	}
	return counted{s.RequiredLayers(), s.SparedLayers(), had}, err
}

// lacking makes a finding of a wall that is missing. That fails only an owner who
// counts on it.
func (c counted) lacking(f finding, v sandbox.Verdict) finding {
	f.Fix = "it needs " + v.Layer.Needs()
	switch {
	case slices.Contains(c.required, v.Layer):
		f.Verdict, f.Text = bad, "sandbox.require names this wall: "+v.Err.Error()
	case len(daemon.LostWalls([]sandbox.Verdict{v}, c.had, c.spared)) > 0:
		f.Verdict, f.Text = bad, "programs had this wall when berth started last, and it does not start without: "+v.Err.Error()
		f.Fix += "; or let programs run without it: name it in sandbox.without"
	}
	return f
}

// tryPatience is how long doctor tries again what may be of the moment.
const tryPatience = time.Second

// checkWalls puts every wall up around a child.
func checkWalls(ctx context.Context, h cgroup.Host, s settings.Settings) []finding {
	if os.Geteuid() != 0 {
		return []finding{{"walls", dubious, "cannot be tried without root", "sudo berth doctor"}}
	}
	groups, err := cgroup.Open(h, fmt.Sprintf("doctor-%d", os.Getpid()))
	if err != nil {
		return []finding{{"walls", bad, "cannot be tried: " + err.Error(), h.Reason}}
	}
	defer func() { _ = groups.Close() }() // its groups are removed by then
	on, err := countedOn(s)
	if err != nil {
		return []finding{{"walls", bad, err.Error(), "look at the file, and at the disk of " + s.DataDir}}
	}
	launcher := proc.Launcher{Tree: groups, Log: slog.New(slog.DiscardHandler), Walls: proc.Walls{Paths: s.ShownPaths()}}
	verdicts, err := launcher.Try(ctx, tryPatience)
	if err != nil {
		return []finding{untried("walls", err)}
	}
	return judgeWalls(verdicts, on)
}

// judgeWalls makes lines of what was tried.
func judgeWalls(verdicts []sandbox.Verdict, on counted) []finding {
	var list []finding
	for _, v := range verdicts {
		f := finding{string(v.Layer), good, wallText(v.Layer), ""}
		if v.Err != nil {
			f = on.lacking(finding{string(v.Layer), dubious, "programs run without this wall: " + v.Err.Error(), ""}, v)
		}
		list = append(list, f)
	}
	return list
}

// checkFiles says whether berth may open as many files as it promises each program.
func checkFiles(most uint64, err error) finding {
	if err != nil {
		return finding{"files", bad, err.Error(), ""}
	}
	f := finding{"files", good, fmt.Sprintf("berth may have %d files open at once", most), ""}
	if most < proc.OpenFiles {
		f.Verdict = dubious
		f.Text += fmt.Sprintf(", and each program is promised %d: with many programs and visitors it will run out", proc.OpenFiles)
		f.Fix = "LimitNOFILE=524288 in berth's unit (systemctl edit berth), or ulimit -Hn 524288 where berth is started"
	}
	return f
}
