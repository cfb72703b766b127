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

// lossText says what an owner lives with who lacks a wall.
func lossText(l sandbox.Layer) string {
	switch l {
	case sandbox.Mounts:
		return "programs see the host's own directories and its /tmp, as every user of the host does"
	case sandbox.Proc:
		return "programs see the processes of the host and of other accounts"
	case sandbox.Cgroup:
		return "programs see how other programs are limited, and which there are"
	case sandbox.Landlock:
		return "programs can connect to each other's local services that use abstract sockets"
	case sandbox.Seccomp:
		return "programs may ask the kernel for everything, which eases attacks on it"
	default:
		return "programs run without this wall"
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
	if os.Geteuid() != 0 && h.Mode != cgroup.Unusable {
		return []finding{{"walls", dubious, "cannot be tried without root", "sudo berth doctor"}}
	}
	on, err := countedOn(s)
	if err != nil {
		return []finding{{"walls", bad, err.Error(), "look at the file, and at the disk of " + s.DataDir}}
	}
	var list []finding
	err = withGroups(h, func(groups *cgroup.Tree) error {
		launcher := proc.Launcher{Tree: groups, Log: slog.New(slog.DiscardHandler), Walls: proc.Walls{Paths: s.ShownPaths()}}
		verdicts, err := launcher.Try(ctx, tryPatience)
		if err != nil {
			list = []finding{untried("walls", err)}
			return nil
		}
		list = judgeWalls(verdicts, on)
		return nil
	})
	if err != nil {
		return []finding{{"walls", bad, "cannot be tried: " + err.Error(), h.Reason}}
	}
	return list
}

// judgeWalls makes lines of what was tried.
func judgeWalls(verdicts []sandbox.Verdict, on counted) []finding {
	var list []finding
	for _, v := range verdicts {
		f := finding{string(v.Layer), good, wallText(v.Layer), ""}
		if v.Err != nil {
			f = on.lacking(finding{string(v.Layer), dubious, lossText(v.Layer) + ": " + v.Err.Error(), ""}, v)
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

// checkTraffic counts the traffic of a group of its own.
func checkTraffic(h cgroup.Host) finding {
	meter, err := sandbox.NewMeter()
	if err == nil {
		defer func() { _ = meter.Close() }() // nothing depends on it
		err = inGroup(h, func(dir *os.File) error {
			counter, err := meter.Attach(dir)
			if err == nil {
				_, _, err = counter.Read()
			}
			return err
		})
	}
	if err != nil {
		return finding{"netIO", dubious, "the traffic of programs will show 0B: " + err.Error(), onAMachine}
	}
	return finding{"netIO", good, "berth counts the traffic of each program", ""}
}

// checkSockets counts the sockets of a group of its own.
func checkSockets(h cgroup.Host, s settings.Settings) finding {
	bounds := daemon.SocketBounds(slog.New(slog.DiscardHandler))
	sockets, err := sandbox.NewSockets(bounds)
	if err == nil {
		defer func() { _ = sockets.Close() }() // nothing depends on it
		err = inGroup(h, func(dir *os.File) error {
			count, err := sockets.Enclose(dir, 1)
			if err == nil {
				_, _, err = count.Read()
			}
			return err
		})
	}
	if err != nil {
		return unloaded(s, sandbox.Counted, "one program can open so many connections that nothing else on this host can open any: ", err)
	}
	text := fmt.Sprintf("a program may have %d connections at once, an account %d, all together %d", bounds.Program, bounds.Account, bounds.All)
	if !sockets.Says() {
		text += "; before Linux 5.18, a program that wants more gets EPERM in place of EMFILE"
	}
	return finding{"sockets", good, text, ""}
}

// checkNetwork puts a group of its own under the network policy.
func checkNetwork(h cgroup.Host, s settings.Settings) finding {
	rules := s.NetworkRules()
	network, err := sandbox.NewNetwork(rules)
	if err == nil {
		defer func() { _ = network.Close() }() // nothing depends on it
		err = inGroup(h, func(dir *os.File) error {
			_, err := network.Enclose(dir, 0)
			return err
		})
	}
	if err != nil {
		return unloaded(s, sandbox.Reach, "programs reach everything that the host reaches, and everybody who reaches the host can connect to their ports: ", err)
	}
	text := "programs reach nothing of the host but its name servers"
	if n := len(rules.Allow); n > 0 {
		text += fmt.Sprintf(" and what %d rules of network.allow open", n)
	}
	return finding{"network", good, text + "; their ports are their own, by eBPF", ""}
}

// unloaded makes a finding of a wall that eBPF programs put up, and of what is so
// without it.
func unloaded(s settings.Settings, l sandbox.Layer, without string, err error) finding {
	if sandbox.Passes(err) {
		return untried(string(l), err)
	}
	f := finding{string(l), dubious, without + err.Error(), ""}
	on, unread := countedOn(s)
	if unread != nil {
		f.Verdict, f.Text = bad, unread.Error()
	}
	return on.lacking(f, sandbox.Verdict{Layer: l, Err: err})
}

// untried makes a finding of what cannot be told just now, which a start of the
// daemon does not get past either.
func untried(name string, err error) finding {
	return finding{name, bad, err.Error(), "give berth more processes (TasksMax), open files (LimitNOFILE) or memory"}
}

// checkPorts warns when the ports that berth gives to applications are among those
// that the kernel gives to connections.
func checkPorts(given proc.ConnectionPorts, err error, first, last int) []finding {
	if err != nil {
		return []finding{{"ports", dubious, err.Error(), "mount -t proc proc /proc"}}
	}
	n := given.Among(first, last)
	if n == 0 {
		return nil
	}
	return []finding{{
		"ports", dubious,
		fmt.Sprintf("the kernel may give %d of the ports of applications (%d to %d) to connections of anybody: an application whose port is taken cannot start", n, first, last),
		fmt.Sprintf("set apps.port_first and apps.port_last below %d, or net.ipv4.ip_local_reserved_ports=%d-%d in /etc/sysctl.conf, and sysctl -p", given.First, first, last),
	}}
}
