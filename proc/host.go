package proc

import (
	"fmt"
	"strings"

	"github.com/shirou/gopsutil/v3/disk"
	"github.com/shirou/gopsutil/v3/host"
	"github.com/shirou/gopsutil/v3/mem"

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

// Disk returns the file system type of path and its free and total bytes.
func Disk(path string) (fstype string, free, total int64, err error) {
	u, err := disk.Usage(path)
	if err != nil {
		return "", 0, 0, fmt.Errorf("cannot read the disk's figures: %w", err)
	}
	return u.Fstype, int64(u.Free), int64(u.Total), nil
}
