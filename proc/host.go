package proc

import (
	"fmt"
	"strings"

	"github.com/shirou/gopsutil/v3/disk"
	"github.com/shirou/gopsutil/v3/host"
	"github.com/shirou/gopsutil/v3/mem"
	"golang.org/x/sys/unix"

	"berth/app"
)

// HostInfo is what the machine is, for doctor.
type HostInfo struct {
	System string // "debian 12.11"
	Kernel string
	RAM    app.MB
	SwapMB app.MB
}

// Host reads the machine's figures.
func Host() (HostInfo, error) {
	h, err := host.Info()
	if err != nil {
		return HostInfo{}, fmt.Errorf("cannot read the host's name and kernel: %w", err)
	}
	m, err := mem.VirtualMemory()
	if err != nil {
		return HostInfo{}, fmt.Errorf("cannot read the host's memory: %w", err)
	}
	s, err := mem.SwapMemory()
	if err != nil {
		return HostInfo{}, fmt.Errorf("cannot read the host's swap: %w", err)
	}
	return HostInfo{
		System: strings.TrimSpace(h.Platform + " " + h.PlatformVersion),
		Kernel: h.KernelVersion,
		RAM:    app.MB(m.Total >> 20), SwapMB: app.MB(s.Total >> 20),
	}, nil
}

// DiskFigures is what a file system has and has left.
type DiskFigures struct {
	Type                string
	Free, Total         int64  // bytes
	FreeFiles, AllFiles uint64 // inodes; 0 of 0 where they are made as they are needed
}

// Disk returns the figures of the file system of path.
func Disk(path string) (DiskFigures, error) {
	u, err := disk.Usage(path)
	if err != nil {
		return DiskFigures{}, fmt.Errorf("cannot read the disk's figures: %w", err)
	}
	return DiskFigures{u.Fstype, int64(u.Free), int64(u.Total), u.InodesFree, u.InodesTotal}, nil
}

// MostFiles is how many files berth itself may have open at once: the hard limit,
// to which it raises the soft one.
func MostFiles() (uint64, error) {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		return 0, fmt.Errorf("cannot read the limit of open files: %w", err)
	}
	return limit.Max, nil
}

// RaiseFiles gives berth itself as many open files as it promises each program,
// which takes CAP_SYS_RESOURCE: without it no program could be given them either.
func RaiseFiles() error {
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: OpenFiles, Max: OpenFiles}); err != nil {
		return fmt.Errorf("cannot raise the limit of open files: %w", err)
	}
	return nil
}
