package proc

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"berth/app"
)

// userHz is in which parts of a second /proc/stat counts, on every processor that Linux runs on
// (proc_stat(5)).
const userHz = 100

// HostUse is what the whole machine has used since it was started: the processor time of a mean
// processor, bytes that came and went by its interfaces, and memory and the file system of a path
// as they are now.
func HostUse(path string) (app.Counts, error) {
	stat, err := os.ReadFile("/proc/stat")
	if err != nil {
		return app.Counts{}, fmt.Errorf("cannot read the host's processor time: %w", err)
	}
	dev, err := os.ReadFile("/proc/net/dev")
	if err != nil {
		return app.Counts{}, fmt.Errorf("cannot read the host's traffic: %w", err)
	}
	memory, err := FreeMemory()
	if err != nil {
		return app.Counts{}, err
	}
	disk, err := Disk(path)
	if err != nil {
		return app.Counts{}, err
	}
	c := app.Counts{
		MemoryBytes: memory.RAM - memory.Available, LimitBytes: memory.RAM, CPU: busy(string(stat)), DiskBytes: disk.Total - disk.Free,
	}
	c.NetIn, c.NetOut = passed(string(dev), func(name string) bool {
		_, err := os.Stat("/sys/class/net/" + name + "/device")
		return err == nil
	})
	return c, nil
}

// busy is for how long a mean processor was neither idle nor waited for the disk.
func busy(stat string) time.Duration {
	processors, used := 0, int64(0)
	for line := range strings.Lines(stat) {
		words := strings.Fields(line)
		switch {
		case len(words) < 9 || !strings.HasPrefix(words[0], "cpu"):
		case words[0] != "cpu":
			processors++
		default: // user nice system idle iowait irq softirq steal; guests are part of user
			for i, word := range words[1:9] {
				if n, err := strconv.ParseInt(word, 10, 64); err == nil && i != 3 && i != 4 {
					used += n
				}
			}
		}
	}
	return time.Duration(used) * time.Second / userHz / time.Duration(max(processors, 1))
}

// passed adds up what came and went by the interfaces that are devices. Where none is, as in a
// container, it is all but the loopback interface: else what a bridge passes on counted twice.
func passed(dev string, device func(name string) bool) (in, out int64) {
	var all, real [2]int64
	found := false
	for line := range strings.Lines(dev) {
		name, rest, colon := strings.Cut(strings.TrimSpace(line), ":")
		words := strings.Fields(rest)
		if !colon || len(words) < 9 || name == "lo" {
			continue
		}
		is := device(name)
		found = found || is
		for i, at := range [2]int{0, 8} {
			n, _ := strconv.ParseInt(words[at], 10, 64)
			all[i] += n
			if is {
				real[i] += n
			}
		}
	}
	if found {
		return real[0], real[1]
	}
	return all[0], all[1]
}
