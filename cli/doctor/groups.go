package doctor

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"berth/cgroup"
	"berth/daemon"
	"berth/daemon/settings"
	"berth/proc"
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

// checkGroups says which of the limits the kernel can enforce, and how.
func checkGroups(h cgroup.Host) []finding {
	if err := h.Check(); err != nil {
		return []finding{{"cgroups", bad, err.Error(), h.Reason}}
	}
	if h.Mode == cgroup.Unified {
		text := "programs can be limited and ended together (unified cgroup v2: " + strings.Join(h.Controllers, " ") + ")"
		return append([]finding{{"cgroups", good, text, ""}}, checkBuffers(h)...)
	}
	list := []finding{{"cgroups", good, "programs can be limited and ended together (hybrid: cgroup v2, and cgroup v1 for RAM at " + h.V1Memory + ")", ""}}
	if h.V1Pids == "" {
		list = append(list, finding{
			"pids", dubious, "an application can have up to 1,024 processes more than apps.pids_max, where the kernel limits those of its user",
			atBoot("systemd.unified_cgroup_hierarchy=1"),
		})
	}
	return append(list, checkBuffers(h)...)
}

// checkBuffers tells of the memory of sockets, if nothing bounds it.
func checkBuffers(h cgroup.Host) []finding {
	if h.Sockets {
		return nil
	}
	fix := atBoot("systemd.unified_cgroup_hierarchy=1")
	if h.Mode == cgroup.Unified {
		fix = "take nosocket out of cgroup.memory= in GRUB_CMDLINE_LINUX in /etc/default/grub, run update-grub and reboot"
	}
	return []finding{{"buffers", dubious, "a program can take more of the host's RAM than it has: data that waits in its connections is not counted, and not limited", fix}}
}

// checkLimit starts a child that takes memory without end under a limit of
// 32 MB, and expects the kernel to kill it for that.
func checkLimit(h cgroup.Host, s settings.Settings) finding {
	f := finding{Name: "limit", Verdict: bad, Fix: h.Reason}
	if f.Fix == "" {
		f.Fix = onAMachine + ": berth must be able to make control groups in " + h.V2
	}
	if os.Geteuid() != 0 && h.Mode != cgroup.Unusable { // root cannot mend such a host, so every user may see why
		f.Text, f.Fix = "cannot be proved without root", "sudo berth doctor"
		return f
	}
	text, err := proveLimit(h, s.Apps.UIDBase+s.Apps.UIDCount-1)
	if err != nil {
		f.Text = "nothing proves that a program is ended at its RAM limit: " + err.Error()
		return f
	}
	return finding{"limit", good, text, ""}
}

func proveLimit(h cgroup.Host, uid int) (text string, err error) {
	const limit = 32
	err = withGroups(h, func(groups *cgroup.Tree) error {
		null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
		if err != nil {
			return err
		}
		defer null.Close()
		tail, _ := proc.FindTools().Find("tail")
		if tail == "" {
			return errors.New("there is no tail command")
		}
		launcher := proc.Launcher{Tree: groups, Log: slog.New(slog.DiscardHandler)}
		begin := time.Now()
		run, err := launcher.Launch(proc.Spec{
			Group: "apps/doctor/1", Argv: []string{tail, "/dev/zero"}, Dir: "/", UID: uid,
			MemoryMB: limit, Pids: 16, OOMGroup: true, Output: null,
		})
		if err != nil {
			return err
		}
		stop := time.AfterFunc(time.Minute, func() { run.Stop(0) })
		defer stop.Stop()
		e := run.Wait()
		if !e.OOM {
			return fmt.Errorf("a child that should have been killed at %d MB ended with code %d and a peak of %d MB", limit, e.Code, e.PeakBytes>>20)
		}
		text = fmt.Sprintf("enforced: a child was killed at %d MB after %s, in a group below %s",
			limit, time.Since(begin).Round(time.Millisecond), filepath.Dir(groups.Root()))
		return nil
	})
	return text, err
}

// checkWeights weighs an application of its own.
func checkWeights(h cgroup.Host) finding {
	fix := onAMachine
	if h.Mode == cgroup.Hybrid && h.V1CPU == "" {
		fix = atBoot("systemd.unified_cgroup_hierarchy=1")
	}
	var file string
	err := withGroups(h, func(groups *cgroup.Tree) (err error) {
		if file, err = groups.Weights(); err != nil {
			return err
		}
		group, err := groups.Create("apps/doctor/1", cgroup.Limits{Memory: 32 << 20, Weight: 32})
		if err != nil {
			return err
		}
		return group.Remove()
	})
	if err != nil {
		return finding{"cpu", dubious, "one application can take a busy processor from the others: " + err.Error(), fix}
	}
	return finding{"cpu", good, "applications share a busy processor by their RAM (" + file + "); an idle one is not limited", ""}
}

// withGroups lets try use a tree of groups of its own, and removes the tree, which try
// leaves empty.
func withGroups(h cgroup.Host, try func(*cgroup.Tree) error) error {
	groups, err := cgroup.Open(h, fmt.Sprintf("doctor-%d", os.Getpid()))
	if err != nil {
		return err
	}
	defer func() { _ = groups.Close() }()
	return try(groups)
}

// inGroup lets try use the directory of a group of its own.
func inGroup(h cgroup.Host, try func(dir *os.File) error) error {
	return withGroups(h, func(groups *cgroup.Tree) error {
		dir, err := os.Open(groups.Root())
		if err != nil {
			return err
		}
		defer dir.Close()
		return try(dir)
	})
}

// checkShares tells how disks are shared, and whether the processor can be
// limited when that is wanted.
func checkShares(h cgroup.Host, s settings.Settings) (list []finding) {
	unshared := func(err error) finding {
		return finding{"io", absent, "one application can take a busy disk from the others: " + err.Error(), "modprobe bfq, and echo bfq >/sys/block/DISK/queue/scheduler for each disk, after each boot"}
	}
	err := withGroups(h, func(groups *cgroup.Tree) error {
		disk := finding{"io", good, "", ""}
		if file, err := groups.DiskWeights(); err != nil {
			disk = unshared(err)
		} else {
			disk.Text = "applications share a busy disk by their RAM (" + file + "), where its scheduler heeds that"
		}
		list = append(list, disk)
		if s.Apps.CPUMax == 0 {
			return nil
		}
		limit := finding{"cpu_max", good, "", ""}
		if file, err := groups.MaxCPU(); err != nil {
			limit = finding{"cpu_max", dubious, "apps.cpu_max has no effect: " + err.Error(), onAMachine}
		} else {
			limit.Text = fmt.Sprintf("an application may have %d percent of one processor (%s)", s.Apps.CPUMax, file)
		}
		list = append(list, limit)
		return nil
	})
	if err != nil {
		return []finding{unshared(err)}
	}
	return list
}
