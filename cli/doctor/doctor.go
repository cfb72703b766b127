package doctor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"berth/app"
	"berth/app/exit"
	"berth/cgroup"
	"berth/cli/screen"
	"berth/daemon"
	"berth/daemon/settings"
	"berth/files"
	"berth/host"
	"berth/host/runtimes"
	"berth/proc"
	"berth/proc/sandbox"
)

// finding is an app.Finding.
type finding struct{ Name, Verdict, Text, Fix string }

// The verdicts. Only bad makes the command fail.
const good, absent, dubious, bad = app.Good, app.Absent, app.Dubious, app.Bad

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

// Report prints the table and the verdict, or the findings as JSON.
func Report(w io.Writer, list []app.Finding, asJSON bool) error {
	if asJSON {
		e := screen.NewEncoder(w)
		e.SetIndent("", "  ")
		return e.Encode(list)
	}
	for _, f := range list {
		if _, err := fmt.Fprintf(w, " %-5s %-12s %s\n", f.Verdict, f.Name, screen.Escape(f.Text, false)); err != nil {
			return err
		}
		if f.Fix == "" {
			continue
		}
		if _, err := fmt.Fprintf(w, " %-5s %-12s fix: %s\n", "", "", screen.Escape(f.Fix, false)); err != nil {
			return err
		}
	}
	_, err := fmt.Fprintln(w, app.Verdict(list))
	return err
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
	var shown []string
	if slices.ContainsFunc(list, func(f finding) bool { return f.Name == string(sandbox.Mounts) && f.Verdict == good }) {
		shown = append([]string{}, s.ShownPaths()...)
	}
	list = append(list, checkRuntimes(ctx, daemon.HostTools(s.DataDir, shown))...)
	list = append(list, checkData(ctx, s.DataDir, s.Host.DiskFloor)...)
	list = append(list, checkSecrets(ctx, s)...)
	list = append(list, checkBackups(ctx, s)...)
	list = append(list, checkQuota(s.DataDir, s.Apps.Disk))
	list = append(list, checkListen(s))
	for _, f := range daemon.ExamineCluster(ctx, s) {
		list = append(list, finding(f))
	}
	return append(list, checkSites(ctx, s)...)
}

func checkHost(s settings.Settings, groups cgroup.Host) []finding {
	info, err := proc.Host()
	if err != nil {
		return []finding{{"host", bad, err.Error(), "mount -t proc proc /proc"}}
	}
	list := []finding{{"host", good, fmt.Sprintf("%s, kernel %s", info.System, info.Kernel), ""}}
	capacity := app.Capacity(info.RAM, s.Host.Reserve, s.Host.Overcommit)
	memory := finding{"memory", good, fmt.Sprintf("%d MB, of which applications may have %d MB, and a build %d MB", info.RAM, capacity, daemon.BuildRAM(info.RAM, s.Build.RAM)), ""}
	if capacity < s.Apps.RAMMin {
		memory.Verdict, memory.Fix = bad, "set host.reserve lower, or give the host more RAM"
		memory.Text += ": no application fits"
	}
	swap := finding{"swap", good, "none", ""}
	switch {
	case info.SwapMB > 0 && groups.NoSwap:
		swap.Text = fmt.Sprintf("%d MB; programs get none of it", info.SwapMB)
	case info.SwapMB > 0:
		swap = finding{
			"swap", dubious, fmt.Sprintf("a program at its RAM limit goes on in the %d MB of swap, and slows the host down, instead of being ended", info.SwapMB),
			"swapoff -a, and remove the swap from /etc/fstab; or " + atBoot("swapaccount=1"),
		}
	}
	return append(list, memory, swap, checkPressure(proc.OpenPressure()))
}

// checkPressure tells how berth learns that the host is short of memory.
func checkPressure(p *proc.Pressure, err error) finding {
	f := finding{"pressure", good, "the kernel tells when programs wait for memory that the host does not have", ""}
	if err != nil {
		f.Verdict, f.Text = dubious, fmt.Sprintf("the kernel does not tell when programs wait for memory, and berth looks every %s whether some is left: %v", host.LookEvery, err)
		f.Fix = atBoot("psi=1")
	} else if err := p.Close(); err != nil {
		f.Text += ": " + err.Error()
	}
	if free, err := proc.FreeMemory(); err == nil {
		f.Text += fmt.Sprintf("; %d of %d MB are available", free.Available>>20, free.RAM>>20)
	}
	f.Text += "; builds and starts wait while it is short"
	return f
}

// onAMachine is the remedy for what containers do not give.
const onAMachine = "run berth as root on a real or virtual machine (KVM), not in a container; a VPS of the kinds OpenVZ and LXC is a container"

// atBoot is the remedy for what a parameter of the kernel mends.
func atBoot(parameter string) string {
	return "add " + parameter + " to GRUB_CMDLINE_LINUX in /etc/default/grub, run update-grub and reboot"
}

// checkKernel tells what else the kernel offers for programs.
func checkKernel(k sandbox.Features) []finding {
	if k.BPF != nil {
		return []finding{{"ebpf", dubious, "berth can neither separate the networks of programs nor count their traffic: " + k.BPF.Error(), onAMachine}}
	}
	return []finding{{"ebpf", good, "berth can separate the networks of programs, and count their traffic", ""}}
}

// checkRuntimes tells which languages programs can be written in.
func checkRuntimes(ctx context.Context, tools runtimes.Tools) []finding {
	var list []finding
	for _, r := range runtimes.Runtimes() {
		path, hidden := tools.Find(r.Command)
		installed := strings.Join(tools.Installed(r.Name), ", ")
		switch {
		case path != "" && installed != "":
			list = append(list, finding{r.Command, good, path + " " + tools.Version(r.Command) + ", and by berth runtime install: " + installed, ""})
		case installed != "":
			list = append(list, finding{r.Command, good, "by berth runtime install: " + installed, ""})
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
		return append(list, finding{"disk", bad, "the disk of " + dir + " cannot be examined: " + err.Error(), "look for errors of the disk: dmesg | tail"})
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
		f.Text += fmt.Sprintf(", and room for %d of %d files", on.FreeFiles, on.AllFiles)
	}
	if floor < 0 {
		floor = app.MB(min(on.Total/20, 1<<30) >> 20)
	}
	switch {
	case app.MB(on.Free>>20) < floor:
		f.Fix = "free some space, set host.disk_floor lower, or put data_dir on a larger disk"
	case files.FewInodes(on.FreeFiles, on.AllFiles):
		f.Fix = "remove files (du --inodes -d 2 tells where they are), or put data_dir on another disk"
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
	var gone *exit.Problem
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

// holdFindings tells that the host holds its programs, if it does.
func holdFindings(hold app.Hold) []finding {
	switch hold.Why {
	case app.HoldRestored:
		return []finding{{"programs", dubious, hold.Text().String(), "berth resume"}}
	case app.HoldEngine:
		return []finding{{"programs", dubious, hold.Text().String(), "berth engine move " + hold.Peer}}
	case app.HoldMoved:
		return []finding{{"programs", dubious, hold.Text().String(), "remove berth from this host, once nobody needs it: berth uninstall"}}
	}
	return nil
}

// checkSecrets tells whether programs are held, what is wrong with the secrets of the database and
// their key, and which passkeys do not work at the panel's address, if anything is.
func checkSecrets(ctx context.Context, s settings.Settings) []finding {
	d, err := daemon.OpenCurrent(ctx, s.DataDir, s.KeyFiles()...)
	if err != nil || d == nil {
		return nil // checkStored says so, or nothing is stored yet
	}
	defer func() { _ = d.Close() }() // nothing was written
	hold, _, unread := d.Holds.HoldOf(ctx)
	problem, hint, err := daemon.SecretsProblem(ctx, d, daemon.Keys(s.DataDir, s.KeyFiles()...))
	elsewhere, failed := daemon.PasskeysElsewhere(ctx, d, s.BaseURL)
	if err := cmp.Or(err, failed, unread); err != nil {
		return []finding{{"secrets", bad, err.Error(), "look for errors of the disk: dmesg | tail"}}
	}
	list := holdFindings(hold)
	if problem != "" {
		list = append(list, finding{"secrets", dubious, problem, hint})
	}
	if elsewhere != "" {
		list = append(list, finding{"passkeys", dubious, elsewhere, daemon.PasskeysHint})
	}
	return list
}

// checkBackups tells when the host was backed up last.
func checkBackups(ctx context.Context, s settings.Settings) []finding {
	d, err := daemon.OpenCurrent(ctx, s.DataDir, s.KeyFiles()...)
	if err != nil || d == nil {
		return nil // checkStored says so, or nothing is stored yet
	}
	defer func() { _ = d.Close() }() // nothing was written
	st, err := daemon.BackupStatus(ctx, s, d)
	if err != nil {
		return []finding{{"backups", bad, err.Error(), "berth check names what is wrong with the settings"}}
	}
	return []finding{backupsFinding(st, time.Now())}
}

// backupsFinding judges the backups of a host.
func backupsFinding(st app.BackupStatus, now time.Time) finding {
	f := finding{"backups", good, "", ""}
	if f.Text, f.Fix = daemon.BackupProblem(st, now); f.Text != "" {
		f.Verdict = dubious
		if st.Repository == "" {
			f.Verdict = absent
		}
		return f
	}
	f.Text = "to " + st.Repository
	for _, one := range []struct {
		what string
		run  *app.BackupRun
	}{{"made", st.Good}, {"rehearsed", st.Rehearsed}} {
		if one.run == nil {
			f.Text += ", not yet " + one.what
		} else {
			f.Text += fmt.Sprintf(", last %s %s", one.what, one.run.Began.In(time.Local).Format("2006-01-02 15:04"))
		}
	}
	return f
}

// checkQuota tries what holds applications to their disk space.
func checkQuota(dir string, limit app.MB) finding {
	if os.Geteuid() != 0 {
		return quotaFinding(files.Quota{}, errors.New("disk quotas cannot be tried without root"), "", limit)
	}
	quota, err := files.ProbeQuota(dir)
	on, diskErr := proc.Disk(existing(dir))
	if onRoot(existing(dir)) {
		on.Type += " of the host"
	}
	return quotaFinding(quota, errors.Join(err, diskErr), on.Type, limit)
}

// onRoot reports whether a path is on the file system of /, which cannot be unmounted.
func onRoot(path string) bool {
	var at, root syscall.Stat_t
	return syscall.Stat(path, &at) == nil && syscall.Stat("/", &root) == nil && at.Dev == root.Dev
}

// quotaFinding judges a quota on a type of file system, behind which " of the host" stands
// for the one of /.
func quotaFinding(quota files.Quota, err error, fstype string, limit app.MB) finding {
	f := finding{Name: "quota", Verdict: good}
	by := "the project of its files"
	if !quota.Project {
		by = "the owner of its files"
	}
	switch {
	case limit == 0:
		f.Text = "the disk space of applications is not limited: apps.disk is 0"
		return f
	case err != nil:
		f.Verdict, f.Text, f.Fix = dubious, err.Error(), "sudo berth doctor"
		return f
	case quota.Enforced():
		f.Text = fmt.Sprintf("the kernel holds each application to %d MB, by %s", limit, by)
		return f
	}
	f.Verdict = dubious
	f.Text = fmt.Sprintf("an application can fill the disk before berth, which measures every %s, ends it for more than %d MB: %v", host.MeasureEvery, limit, quota.Why)
	switch fstype {
	case "ext4", "ext2/ext3": // one magic number
		f.Fix = "stop berth and berth-apps, unmount it, tune2fs -O project,quota -Q prjquota its device, and mount it with the option prjquota"
	case "xfs":
		f.Fix = "mount it with the option prjquota, in /etc/fstab"
	case "xfs of the host":
		f.Fix = atBoot("rootflags=prjquota")
	default: // the ext4 of / cannot get one while the machine runs
		f.Fix = "put data_dir on a disk of its own, such as a volume of your provider: mkfs.ext4 -O project,quota DEVICE, and mount it with the option prjquota"
	}
	return f
}

// existing is the nearest directory above a path, or it, that exists.
func existing(path string) string {
	for path != "/" {
		if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
			break
		}
		path = filepath.Dir(path)
	}
	return path
}
