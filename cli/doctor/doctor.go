package doctor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"berth/app"
	"berth/cgroup"
	"berth/daemon"
	"berth/daemon/settings"
	"berth/files"
	"berth/host/runtimes"
	"berth/proc"
	"berth/proc/sandbox"
)

// finding is an app.Finding.
type finding struct{ Name, Verdict, Text, Fix string }

// The verdicts. Only bad makes the command fail.
const (
	good    = "ok"
	absent  = "none" // and only missed by those who want it
	dubious = "warn"
	bad     = "FAIL"
)

var errUnwell = errors.New("this host has problems; the lines marked FAIL name them")

// Unwell is an error when the host has a problem.
func Unwell(list []app.Finding) error {
	for _, f := range list {
		if f.Verdict == bad {
			return errUnwell
		}
	}
	return nil
}

// Report prints the table, or JSON.
func Report(w io.Writer, list []app.Finding, asJSON bool) error {
	if asJSON {
		e := json.NewEncoder(w)
		e.SetIndent("", "  ")
		return e.Encode(list)
	}
	for _, f := range list {
		if _, err := fmt.Fprintf(w, " %-5s %-12s %s\n", f.Verdict, f.Name, f.Text); err != nil {
			return err
		}
		if f.Fix == "" {
			continue
		}
		if _, err := fmt.Fprintf(w, " %-5s %-12s fix: %s\n", "", "", f.Fix); err != nil {
			return err
		}
	}
	return nil
}

// Examine runs every check, in the order of the table.
func Examine(ctx context.Context, s settings.Settings) []app.Finding {
	return rows(checkAll(ctx, s))
}

// rows are findings as others read them.
func rows(list []finding) []app.Finding {
	all := make([]app.Finding, len(list))
	for i, f := range list {
		all[i] = app.Finding(f)
	}
	return all
}

func checkAll(ctx context.Context, s settings.Settings) []finding {
	facts, err := cgroup.Detect()
	list := checkHost(s, facts)
	if err != nil {
		list = append(list, finding{"cgroups", bad, err.Error(), "mount -t proc proc /proc"})
	} else {
		list = append(list, checkGroups(facts)...)
		list = append(list, checkPlacement(ctx, facts, s), checkLimit(facts, s), checkWeights(facts))
		list = append(list, checkShares(facts, s)...)
		list = append(list, checkTraffic(facts), checkNetwork(facts, s), checkSockets(facts, s))
	}
	list = append(list, checkWalls(ctx, facts, s)...)
	list = append(list, checkKernel(sandbox.Probe())...)
	list = append(list, checkFiles(proc.MostFiles()))
	given, err := proc.FindConnectionPorts()
	list = append(list, checkPorts(given, err, s.Apps.PortFirst, s.Apps.PortLast)...)
	tools := proc.FindTools()
	if slices.ContainsFunc(list, func(f finding) bool { return f.Name == string(sandbox.Mounts) && f.Verdict == good }) {
		tools.Only(s.ShownPaths())
	}
	list = append(list, checkRuntimes(ctx, tools)...)
	list = append(list, checkData(ctx, s.DataDir, s.Host.DiskFloor)...)
	list = append(list, checkQuota(s.DataDir, s.Apps.Disk))
	return append(list, checkSites(ctx, s)...)
}

func checkHost(s settings.Settings, groups cgroup.Host) []finding {
	info, err := proc.Host()
	if err != nil {
		return []finding{{"host", bad, err.Error(), "mount -t proc proc /proc"}}
	}
	list := []finding{{"host", good, fmt.Sprintf("%s, kernel %s", info.System, info.Kernel), ""}}
	room := daemon.Capacity(info.RAM, s.Host.Reserve, s.Host.Overcommit)
	memory := finding{"memory", good, fmt.Sprintf("%d MB, of which applications may have %d MB", info.RAM, room), ""}
	if room < s.Apps.RAMMin {
		memory.Verdict, memory.Fix = bad, "set host.reserve lower, or give the host more memory"
	}
	swap := finding{"swap", good, "none", ""}
	switch {
	case info.SwapMB > 0 && groups.NoSwap:
		swap.Text = fmt.Sprintf("%d MB; programs get none of it", info.SwapMB)
	case info.SwapMB > 0:
		swap = finding{
			"swap", dubious, fmt.Sprintf("%d MB, and the kernel cannot keep programs from it: a limit bounds RAM alone", info.SwapMB),
			"swapoff -a, or boot with swapaccount=1",
		}
	}
	return append(list, memory, swap)
}

// checkGroups says which of the limits the kernel can enforce, and how.
func checkGroups(h cgroup.Host) []finding {
	if err := h.Check(); err != nil {
		return []finding{{"cgroups", bad, err.Error(), h.Reason}}
	}
	if h.Mode == cgroup.Unified {
		text := "unified cgroup v2; controllers: " + strings.Join(h.Controllers, " ")
		return append([]finding{{"cgroups", good, text, ""}}, checkBuffers(h)...)
	}
	list := []finding{{"cgroups", good, "hybrid: membership by cgroup v2, memory limit by the v1 hierarchy " + h.V1Memory, ""}}
	if h.V1Pids == "" {
		list = append(list, finding{
			"pids", dubious, "no pids hierarchy: the kernel limits the processes of an application's user instead, to apps.pids_max and 1,024 more",
			"boot with systemd.unified_cgroup_hierarchy=1",
		})
	}
	return append(list, checkBuffers(h)...)
}

// checkBuffers tells of the memory of sockets, if nothing bounds it.
func checkBuffers(h cgroup.Host) []finding {
	if h.Sockets {
		return nil
	}
	fix := "boot with systemd.unified_cgroup_hierarchy=1"
	if h.Mode == cgroup.Unified {
		fix = "take nosocket out of cgroup.memory= on the kernel's command line, and reboot"
	}
	return []finding{{"buffers", dubious, "what programs leave in the buffers of their sockets is not part of their RAM, and not limited", fix}}
}

// checkLimit starts a child that takes memory without end under a limit of
// 32 MB, and expects the kernel to kill it for that.
func checkLimit(h cgroup.Host, s settings.Settings) finding {
	const limit = 32
	f := finding{Name: "limit", Verdict: bad, Fix: h.Reason}
	if f.Fix == "" {
		f.Fix = "ls -l " + h.V2 + ": berth must be able to make control groups there; inside a container, ask its owner"
	}
	if os.Geteuid() != 0 {
		f.Text, f.Fix = "cannot be proved without root", "sudo berth doctor"
		return f
	}
	fail := func(err error) finding {
		f.Text = "cannot prove the RAM limit: " + err.Error()
		return f
	}
	groups, err := cgroup.Open(h, fmt.Sprintf("doctor-%d", os.Getpid()))
	if err != nil {
		return fail(err)
	}
	defer func() { _ = groups.Close() }() // its only group is removed by then
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return fail(err)
	}
	defer null.Close()
	tail, _ := proc.FindTools().Find("tail")
	if tail == "" {
		return fail(errors.New("there is no tail command"))
	}
	launcher := proc.Launcher{Tree: groups, Log: slog.New(slog.DiscardHandler)}
	begin := time.Now()
	run, err := launcher.Launch(proc.Spec{
		Group: "apps/doctor/1", Argv: []string{tail, "/dev/zero"}, Dir: "/", UID: s.Apps.UIDBase + s.Apps.UIDCount - 1,
		MemoryMB: limit, Pids: 16, OOMGroup: true, Output: null,
	})
	if err != nil {
		return fail(err)
	}
	stop := time.AfterFunc(time.Minute, func() { run.Stop(0) })
	defer stop.Stop()
	e := run.Wait()
	if !e.OOM {
		return fail(fmt.Errorf("a child that should have been killed at %d MB ended with code %d and a peak of %d MB", limit, e.Code, e.PeakBytes>>20))
	}
	return finding{"limit", good, fmt.Sprintf("enforced: a child was killed at %d MB after %s, in a group below %s",
		limit, time.Since(begin).Round(time.Millisecond), filepath.Dir(groups.Root())), ""}
}

// checkWeights weighs an application of its own.
func checkWeights(h cgroup.Host) finding {
	fix := "run berth as root, outside of a container; in a unit of systemd with Delegate=yes"
	if h.Mode == cgroup.Hybrid && h.V1CPU == "" {
		fix = "boot with systemd.unified_cgroup_hierarchy=1"
	}
	fail := func(err error) finding {
		return finding{"cpu", dubious, "a contended processor is not shared by RAM: " + err.Error(), fix}
	}
	groups, err := cgroup.Open(h, fmt.Sprintf("doctor-%d", os.Getpid()))
	if err != nil {
		return fail(err)
	}
	defer func() { _ = groups.Close() }() // its only group is removed by then
	file, err := groups.Weights()
	if err != nil {
		return fail(err)
	}
	group, err := groups.Create("apps/doctor/1", cgroup.Limits{Memory: 32 << 20, Weight: 32})
	if err != nil {
		return fail(err)
	}
	if err := group.Remove(); err != nil {
		return fail(err)
	}
	return finding{"cpu", good, "a contended processor is shared by RAM (" + file + "); an idle one is not limited", ""}
}

// checkKernel tells what else the kernel offers for programs.
func checkKernel(k sandbox.Features) []finding {
	if k.BPF != nil {
		return []finding{{"ebpf", dubious, "programs cannot be loaded: " + k.BPF.Error(), "run berth as root, outside of a container"}}
	}
	return []finding{{"ebpf", good, "programs can be loaded", ""}}
}

// checkRuntimes tells which languages programs can be written in.
func checkRuntimes(ctx context.Context, tools runtimes.Tools) []finding {
	var list []finding
	for _, r := range runtimes.Runtimes() {
		path, hidden := tools.Find(r.Command)
		switch {
		case path != "":
			list = append(list, finding{r.Command, good, strings.TrimSpace(path + " " + tools.Version(r.Command)), ""})
		case hidden != "":
			list = append(list, finding{
				r.Command, dubious,
				"found at " + hidden + ", which programs cannot use: it is in a home directory, closed to others, or not in sandbox.paths", r.Install,
			})
		default:
			list = append(list, finding{r.Command, absent, "not found; uploads that need " + r.Title + " are refused", r.Install})
		}
		if r.Command == "python3" && path != "" {
			list = append(list, checkVenv(ctx, path))
		}
	}
	return list
}

// checkVenv tells whether Python can make environments: Debian ships it
// without what they take.
func checkVenv(ctx context.Context, python string) finding {
	cmd := exec.CommandContext(ctx, python, "-I", "-c", "import ensurepip; print('with pip', ensurepip.version())")
	cmd.Env = []string{"HOME=/"}
	out, err := cmd.Output()
	if err != nil {
		return finding{"venv", dubious, "not found; Python programs cannot have packages", "apt install python3-venv"}
	}
	return finding{"venv", good, python + " " + strings.TrimSpace(string(out)), ""}
}

// checkData looks at the place of everything that is remembered and hosted.
func checkData(ctx context.Context, dir string, floor app.MB) []finding {
	var list []finding
	if err := files.Reachable(dir); err != nil {
		list = append(list, finding{"data", bad, err.Error(), "the chmod above, or another --data-dir"})
	} else {
		list = append(list, finding{"data", good, dir + " can be reached by programs", ""})
	}
	list = append(list, checkStored(ctx, dir)...)
	on, err := proc.Disk(existing(dir))
	if err != nil {
		return append(list, finding{"disk", bad, err.Error(), ""})
	}
	return append(list, diskFinding(on, floor))
}

// diskFinding judges what a disk has left: bytes, and inodes for files.
func diskFinding(on proc.DiskFigures, floor app.MB) finding {
	if on.Type == "" {
		on.Type = "a file system of unknown type"
	}
	f := finding{"disk", good, fmt.Sprintf("%s, %d of %d MB free", on.Type, on.Free>>20, on.Total>>20), ""}
	if on.AllFiles > 0 {
		f.Text += fmt.Sprintf(", %d of %d inodes", on.FreeFiles, on.AllFiles)
	}
	if floor < 0 {
		floor = app.MB(min(on.Total/20, 1<<30) >> 20)
	}
	switch {
	case app.MB(on.Free>>20) < floor:
		f.Fix = "free some space, set host.disk_floor lower, or choose another directory with --data-dir"
	case files.FewInodes(on.FreeFiles, on.AllFiles):
		f.Fix = "remove files (du --inodes -d 2 tells where they are), or make the file system anew with more inodes"
	default:
		return f
	}
	f.Text += "; uploads, builds and backups are refused"
	f.Verdict = dubious
	return f
}

// checkStored tells what is wrong with what is remembered, if anything is.
func checkStored(ctx context.Context, dir string) []finding {
	var list []finding
	var gone *settings.Problem
	if errors.As(daemon.LostDatabase(ctx, dir), &gone) {
		list = append(list, finding{"database", bad, gone.Error(), strings.TrimPrefix(gone.Hint, "Hint: ")})
	}
	if n, err := files.CountLost(dir); err == nil && n > 0 {
		list = append(list, finding{
			"lost", dubious, fmt.Sprintf("%d directories of applications that the database did not know are in %s", n, filepath.Join(dir, "lost")),
			"look at them, and remove what nobody needs; berth never does",
		})
	}
	return list
}
