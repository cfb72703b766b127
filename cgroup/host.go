package cgroup

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Mode is how the host mounts its cgroups.
type Mode string

// The modes. On a Hybrid host the memory controller is a v1 hierarchy.
const (
	Unified  Mode = "unified"
	Hybrid   Mode = "hybrid"
	Unusable Mode = "unusable"
)

// Host is what the kernel offers on this machine.
type Host struct {
	Mode        Mode
	V2          string   // mount point of cgroup v2, "" when there is none
	V1Memory    string   // mount point of the v1 memory hierarchy, "" when unified
	V1Pids      string   // likewise for pids; "" on a hybrid host means no limit of processes
	V1CPU       string   // likewise for cpu; "" on a hybrid host leaves it to v2, which may not have it either
	V1Seen      []string // mount points of other v1 hierarchies that Java looks for before it believes in a limit
	V1IO        string   // likewise for blkio
	Controllers []string // what cgroup v2 offers at its root
	NoSwap      bool     // programs can be kept from swap
	Sockets     bool     // the buffers of programs' sockets are bounded
	Reason      string   // why the mode is Unusable, and what mends it
}

// Detect reads the host's cgroup mounts. It changes nothing. The error is for
// a mount table that cannot be read; a host that cannot run programs is no
// error but a Host whose Mode is Unusable.
func Detect() (Host, error) {
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return Host{}, fmt.Errorf("cannot read the mount table: %w", err)
	}
	h := parseMounts(string(mounts))
	if h.V2 != "" {
		b, err := os.ReadFile(filepath.Join(h.V2, "cgroup.controllers"))
		if err != nil {
			return Host{}, fmt.Errorf("cannot read the cgroup controllers: %w", err)
		}
		h.Controllers = strings.Fields(string(b))
	}
	h = classify(h)
	h.NoSwap, h.Sockets = h.boundsSwap(), h.boundsSockets()
	return h, nil
}

// parseMounts finds the cgroup mounts in the text of /proc/self/mountinfo
// (proc_pid_mountinfo(5)): the file system type and the controllers of a v1
// hierarchy stand behind a lone "-". Of several mounts of one thing the
// first counts.
func parseMounts(mountinfo string) Host {
	var h Host
	first := func(dst *string, v string) {
		if *dst == "" {
			*dst = v
		}
	}
	for line := range strings.Lines(mountinfo) {
		head, tail, ok := strings.Cut(line, " - ")
		left, right := strings.Fields(head), strings.Fields(tail)
		if !ok || len(left) < 5 || len(right) < 3 {
			continue
		}
		options := strings.Split(right[2], ",")
		switch right[0] {
		case "cgroup2":
			first(&h.V2, left[4])
		case "cgroup":
			for controller, mount := range map[string]*string{"memory": &h.V1Memory, "pids": &h.V1Pids, "cpu": &h.V1CPU, "blkio": &h.V1IO} {
				if slices.Contains(options, controller) {
					first(mount, left[4])
				}
			}
			if !slices.Contains(options, "cpu") && (slices.Contains(options, "cpuacct") || slices.Contains(options, "cpuset")) {
				h.V1Seen = append(h.V1Seen, left[4])
			}
		}
	}
	return h
}

// kernelLine says where a parameter of the kernel goes.
const kernelLine = "to GRUB_CMDLINE_LINUX in /etc/default/grub, run update-grub and reboot (Raspberry Pi: to /boot/firmware/cmdline.txt, and reboot)"

// classify turns the mounts into a mode; v2 with its own memory controller
// wins over a v1 hierarchy, which then cannot have it.
func classify(h Host) Host {
	switch {
	case h.V2 == "":
		h.Mode = Unusable
		h.Reason = "cgroup v2 is not mounted; add systemd.unified_cgroup_hierarchy=1 " + kernelLine + "; without systemd, mount -t cgroup2 none /sys/fs/cgroup"
	case slices.Contains(h.Controllers, "memory"):
		h.Mode, h.V1Memory, h.V1Pids, h.V1CPU, h.V1IO, h.V1Seen = Unified, "", "", "", "", nil
	case filepath.Base(h.V1Memory) == "memory":
		h.Mode = Hybrid
	default:
		h.Mode = Unusable
		h.Reason = "no memory controller; add cgroup_enable=memory " + kernelLine
	}
	return h
}

// boundsSwap reports whether the kernel accounts for swap. The v2 root group
// has no limits of its own, so any group below it is asked.
func (h Host) boundsSwap() bool {
	if h.Mode == Hybrid {
		_, err := os.Stat(filepath.Join(h.V1Memory, "memory.memsw.limit_in_bytes"))
		return err == nil
	}
	groups, err := filepath.Glob(filepath.Join(h.V2, "*", "memory.max"))
	if err != nil || len(groups) == 0 {
		return h.Mode == Unified // nobody to ask: swap accounting is the default since Linux 5.8
	}
	_, err = os.Stat(filepath.Join(filepath.Dir(groups[0]), "memory.swap.max"))
	return err == nil
}

// boundsSockets reports whether the buffers of sockets are bounded: on a unified
// host as part of the memory, unless the kernel was told not to count them (Linux,
// kernel-parameters, cgroup.memory=nosocket), on a hybrid one by a limit of their own.
func (h Host) boundsSockets() bool {
	if h.Mode == Hybrid {
		_, err := os.Stat(filepath.Join(h.V1Memory, socketLimit))
		return err == nil
	}
	line, err := os.ReadFile("/proc/cmdline")
	return h.Mode == Unified && (err != nil || countsSockets(string(line)))
}

// countsSockets reads a kernel's command line.
func countsSockets(commandLine string) bool {
	counts := true
	for _, word := range strings.Fields(commandLine) {
		if options, ok := strings.CutPrefix(word, "cgroup.memory="); ok && slices.Contains(strings.Split(options, ","), "nosocket") {
			counts = false
		}
	}
	return counts
}

// Check returns an error that says why programs cannot be limited on this
// host, nil when they can.
func (h Host) Check() error {
	if h.Mode == Unusable {
		return errors.New("cannot limit programs on this host: " + h.Reason)
	}
	return nil
}
