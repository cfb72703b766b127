package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// tracing is where the kernel notes events (Linux, trace/ftrace.rst).
const tracing = "/sys/kernel/tracing"

// traced are the events of a restart.
var traced = []string{
	"sched/sched_process_exit", "sched/sched_process_wait", "sched/sched_process_fork", "sched/sched_process_exec",
	"cgroup/cgroup_notify_populated", "cgroup/cgroup_mkdir", "syscalls/sys_exit_fsync", "syscalls/sys_exit_fdatasync",
	"syscalls/sys_exit_bpf", "syscalls/sys_enter_unshare", "syscalls/sys_enter_seccomp",
}

// noted is one event.
type noted struct {
	at   time.Duration // of the clock that nobody sets
	tid  int
	text string
}

// A line of the trace: "berth-123 [001] ..... 12.345678: sched_process_fork: comm=..."
var notedLine = regexp.MustCompile(`-(\d+)\s+\[\d+\]\s+\S+\s+(\d+\.\d+): (.*)$`)

func parseTrace(text string) []noted {
	var all []noted
	for line := range strings.Lines(text) {
		m := notedLine.FindStringSubmatch(strings.TrimSpace(line))
		if m == nil {
			continue
		}
		tid, _ := strconv.Atoi(m[1]) // of digits alone
		seconds, _ := strconv.ParseFloat(m[2], 64)
		all = append(all, noted{time.Duration(seconds * float64(time.Second)), tid, m[3]})
	}
	return all
}

// step is what is done at some event. by is who does it: the daemon, or the process
// that becomes the program.
type step struct {
	name, event string
	by          func(e noted, daemon map[int]bool, child int) bool
	last        bool // of those until the program is executed; else the first
}

func byDaemon(e noted, daemon map[int]bool, _ int) bool { return daemon[e.tid] }
func byChild(e noted, _ map[int]bool, child int) bool   { return e.tid == child }
func byAny(noted, map[int]bool, int) bool               { return true }

func birth(e noted, _ map[int]bool, child int) bool {
	return strings.HasSuffix(e.text, " child_pid="+strconv.Itoa(child))
}

var steps = []step{
	{"the exit is seen", "sched_process_wait: ", byDaemon, false},
	{"its group is empty", "cgroup_notify_populated: .* val=0$", byAny, false},
	{"the exit is recorded", "sys_f(data)?sync -> ", byDaemon, true},
	{"new groups are there", "cgroup_mkdir: ", byDaemon, true},
	{"the helper is born", "sched_process_fork: ", birth, false},
	{"the helper runs", "sched_process_exec: ", byChild, false},
	{"the first wall", "sys_unshare", byChild, false},
	{"network and sockets are attached", "sys_bpf -> ", byDaemon, true},
	{"the last wall", "sys_seccomp", byChild, true},
	{"the program is executed", "sched_process_exec: ", byChild, true},
}

// stepsOf finds when each step was done, in milliseconds after the death of a process.
func stepsOf(all []noted, daemon map[int]bool, died, child int) (map[string]float64, error) {
	death := slices.IndexFunc(all, func(e noted) bool {
		return e.tid == died && strings.HasPrefix(e.text, "sched_process_exit: ")
	})
	executed := -1
	for i, e := range all {
		if e.tid == child && strings.HasPrefix(e.text, "sched_process_exec: ") {
			executed = i
		}
	}
	if death < 0 || executed < death {
		return nil, fmt.Errorf("the kernel noted no restart among %d events", len(all))
	}
	found := map[string]float64{}
	for _, s := range steps {
		event := regexp.MustCompile(`^` + s.event)
		for _, e := range all[death : executed+1] {
			if _, known := found[s.name]; event.MatchString(e.text) && s.by(e, daemon, child) && (s.last || !known) {
				found[s.name] = milliseconds(e.at - all[death].at)
			}
		}
	}
	return found, nil
}

// timeSteps kills ten programs of berth, and returns when each step of their restarts
// was done; nothing where the kernel notes nothing.
func (b *bench) timeSteps(ctx context.Context) (rows []row, err error) {
	dir := filepath.Join(tracing, "instances", fmt.Sprintf("berth-bench-%d", os.Getpid()))
	if err := os.Mkdir(dir, 0o755); err != nil {
		return nil, nil // it is not mounted
	}
	defer func() { err = errors.Join(err, os.Remove(dir)) }()
	if err := os.WriteFile(filepath.Join(dir, "trace_clock"), []byte("mono"), 0); err != nil {
		return nil, err
	}
	for _, event := range traced {
		if err := os.WriteFile(filepath.Join(dir, "events", event, "enable"), []byte("1"), 0); err != nil {
			return nil, nil // this kernel has other events
		}
	}
	times := map[string]sample{}
	err = b.with(ctx, "berth", plan{program: "idle", count: 10, restart: true}, func(m manager) error {
		if err := pause(ctx, 2*time.Second); err != nil {
			return err
		}
		for i := range m.programs().dirs {
			found, err := traceRestart(ctx, dir, m.programs(), i)
			if err != nil {
				return err
			}
			for name, ms := range found {
				times[name] = append(times[name], ms)
			}
		}
		return nil
	})
	for _, s := range steps {
		if len(times[s.name]) > 0 {
			rows = append(rows, row{what: "after the death: " + s.name, berth: times[s.name].in("ms")})
		}
	}
	return rows, err
}

// traceRestart kills a program and returns when each step of its restart was done.
func traceRestart(ctx context.Context, dir string, f *fleet, i int) (map[string]float64, error) {
	pid, err := f.processOf(ctx, i)
	if err != nil {
		return nil, err
	}
	began := time.Now()
	if err := errors.Join(os.WriteFile(filepath.Join(dir, "trace"), nil, 0), syscall.Kill(pid, syscall.SIGKILL)); err != nil {
		return nil, err
	}
	e, err := stamped(ctx, f.dirs[i], "start", began)
	if err != nil {
		return nil, err
	}
	text, err := os.ReadFile(filepath.Join(dir, "trace"))
	if err != nil {
		return nil, err
	}
	daemon := map[int]bool{}
	tasks, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", f.pid))
	for _, t := range tasks {
		tid, _ := strconv.Atoi(t.Name()) // which it is
		daemon[tid] = true
	}
	if err != nil {
		return nil, err
	}
	return stepsOf(parseTrace(string(text)), daemon, pid, e.pid)
}
