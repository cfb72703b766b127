package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// tick is the unit of times in /proc/<pid>/stat (USER_HZ), the same on every
// architecture that Linux is built for today.
const tick = 10 * time.Millisecond

// figures are what one process is measured by.
type figures struct {
	rss, pss, dirty float64 // MB
	threads         float64
}

// examineProcess reads the figures of a process.
func examineProcess(pid int) (figures, error) {
	rollup, err := read(pid, "smaps_rollup")
	if err != nil {
		return figures{}, err
	}
	status, err := read(pid, "status")
	if err != nil {
		return figures{}, err
	}
	var f figures
	for _, x := range []struct {
		to        *float64
		text, key string
		unit      float64
	}{
		{&f.rss, rollup, "Rss", 1024},
		{&f.pss, rollup, "Pss", 1024},
		{&f.dirty, rollup, "Private_Dirty", 1024},
		{&f.threads, status, "Threads", 1},
	} {
		v, err := field(x.text, x.key)
		if err != nil {
			return figures{}, err
		}
		*x.to = v / x.unit
	}
	return f, nil
}

// resident is the resident memory of a process in MB.
func resident(pid int) (float64, error) { return statusMB(pid, "VmRSS") }

// private is the resident memory of a process that is of no file, in MB.
func private(pid int) (float64, error) { return statusMB(pid, "RssAnon") }

// peak is the most resident memory of a process in MB since resetPeak.
func peak(pid int) (float64, error) { return statusMB(pid, "VmHWM") }

// resetPeak makes the kernel forget the most resident memory (proc(5),
// clear_refs).
func resetPeak(pid int) error {
	return os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", pid), []byte("5"), 0)
}

func statusMB(pid int, key string) (float64, error) {
	text, err := read(pid, "status")
	if err != nil {
		return 0, err
	}
	kb, err := field(text, key)
	return kb / 1024, err
}

// cpuTime is the processor time of a process, its ended threads included.
func cpuTime(pid int) (time.Duration, error) {
	text, err := read(pid, "stat")
	if err != nil {
		return 0, err
	}
	return parseCPU(text)
}

// parseCPU adds utime and stime (proc(5)). The name in front may hold
// anything, also spaces and parentheses.
func parseCPU(stat string) (time.Duration, error) {
	rest := stat[strings.LastIndexByte(stat, ')')+1:]
	words := strings.Fields(rest)
	if len(words) < 13 {
		return 0, fmt.Errorf("no processor time in %q", stat)
	}
	user, err := strconv.ParseInt(words[11], 10, 64)
	system, err2 := strconv.ParseInt(words[12], 10, 64)
	return time.Duration(user+system) * tick, errors.Join(err, err2)
}

// wakeups is how often the threads of a process have gone to sleep of
// themselves.
func wakeups(pid int) (float64, error) {
	files, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/status", pid))
	sum := 0.0
	for _, file := range files {
		text, err := os.ReadFile(file)
		if errors.Is(err, fs.ErrNotExist) {
			continue // a thread that ended meanwhile
		}
		n, err2 := field(string(text), "voluntary_ctxt_switches")
		if err := errors.Join(err, err2); err != nil {
			return 0, err
		}
		sum += n
	}
	if err == nil && len(files) == 0 {
		err = fmt.Errorf("process %d has ended", pid)
	}
	return sum, err
}

// field finds the number behind "key:".
func field(text, key string) (float64, error) {
	for line := range strings.Lines(text) {
		name, rest, ok := strings.Cut(line, ":")
		if words := strings.Fields(rest); ok && name == key && len(words) > 0 {
			return strconv.ParseFloat(words[0], 64)
		}
	}
	return 0, fmt.Errorf("there is no %s", key)
}

func read(pid int, file string) (string, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/%s", pid, file))
	return string(text), err
}

// inGroup finds the process with a name in a control group whose path has
// this in it: pids that programs know themselves by may be their own.
func inGroup(part, name string) (int, error) {
	groups, err := filepath.Glob("/proc/[0-9]*/cgroup")
	if err != nil {
		return 0, err
	}
	for _, file := range groups {
		text, err := os.ReadFile(file)
		if err != nil || !strings.Contains(string(text), part) {
			continue
		}
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(file)))
		if err == nil && called(pid, name) {
			return pid, nil
		}
	}
	return 0, fmt.Errorf("no process %s runs in %s", name, part)
}

// inside returns the processes whose working directory is in dir.
func inside(dir string) []int {
	var pids []int
	links, _ := filepath.Glob("/proc/[0-9]*/cwd") // the pattern is good
	for _, link := range links {
		at, err := os.Readlink(link)
		pid, err2 := strconv.Atoi(filepath.Base(filepath.Dir(link)))
		if err == nil && err2 == nil && strings.HasPrefix(at+"/", dir+"/") {
			pids = append(pids, pid)
		}
	}
	return pids
}

// called reports whether a process exists under this name.
func called(pid int, name string) bool {
	text, err := read(pid, "comm")
	return err == nil && strings.TrimSpace(text) == name
}

// uncache writes a file to its disk and drops it from memory, but for pages
// that somebody has mapped (posix_fadvise(2)).
func uncache(name string) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	const dontNeed = 4 // POSIX_FADV_DONTNEED
	if err := f.Sync(); err != nil {
		return err
	}
	if _, _, errno := syscall.Syscall6(syscall.SYS_FADVISE64, f.Fd(), 0, 0, dontNeed, 0, 0); errno != 0 {
		return fmt.Errorf("cannot drop %s from the cache: %w", name, errno)
	}
	return nil
}
