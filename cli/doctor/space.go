package doctor

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"berth/app"
	"berth/cgroup"
	"berth/daemon/settings"
	"berth/files"
	"berth/host"
	"berth/proc"
)

// checkShares tells how disks are shared, and whether the processor can be
// limited when that is wanted.
func checkShares(h cgroup.Host, s settings.Settings) []finding {
	const fix = "modprobe bfq, and echo bfq >/sys/block/DISK/queue/scheduler, for each disk"
	fail := func(err error) []finding {
		return []finding{{"io", absent, "a contended disk is not shared by RAM: " + err.Error(), fix}}
	}
	groups, err := cgroup.Open(h, fmt.Sprintf("doctor-%d", os.Getpid()))
	if err != nil {
		return fail(err)
	}
	defer func() { _ = groups.Close() }() // it never had a group
	var list []finding
	if file, err := groups.DiskWeights(); err != nil {
		list = fail(err)
	} else {
		list = []finding{{"io", good, "a contended disk is shared by RAM (" + file + "), where its scheduler heeds that", ""}}
	}
	if s.Apps.CPUMax == 0 {
		return list
	}
	if file, err := groups.MaxCPU(); err != nil {
		return append(list, finding{"cpu_max", dubious, "apps.cpu_max has no effect: " + err.Error(), "run berth as root, outside of a container; in a unit of systemd with Delegate=yes"})
	} else {
		return append(list, finding{"cpu_max", good, fmt.Sprintf("an application may have %d percent of one processor (%s)", s.Apps.CPUMax, file), ""})
	}
}

// checkQuota tries what holds applications to their disk space.
func checkQuota(dir string, limit app.MB) finding {
	if os.Geteuid() != 0 {
		return quotaFinding(files.Quota{}, errors.New("disk quotas cannot be tried without root"), "", limit)
	}
	quota, err := files.ProbeQuota(dir)
	on, diskErr := proc.Disk(existing(dir))
	return quotaFinding(quota, errors.Join(err, diskErr), on.Type, limit)
}

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
	f.Text = fmt.Sprintf("berth measures applications every %s, and ends those that take more than %d MB: %v", host.MeasureEvery, limit, quota.Why)
	switch fstype {
	case "ext4", "ext2/ext3": // one magic number
		f.Fix = "unmount it and tune2fs -O project,quota -Q prjquota its device, then mount it with the option prjquota"
	case "xfs":
		f.Fix = "mount it with the option prjquota, in /etc/fstab or, for the root directory, as rootflags=prjquota"
	default:
		f.Fix = "put the data directory on ext4 or XFS with a quota of projects (mkfs.ext4 -O project,quota, and the mount option prjquota)"
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
