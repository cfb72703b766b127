package cgroup

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"
)

// idleFile makes the processes of a group wait for everybody else's (Linux 5.15, cgroup-v2.rst; v1 has it too): who
// wakes up beside them has the processor at once.
const idleFile = "cpu.idle"

// leastUse is what part of a processor a process that gives way gets, or it has its share for a while.
const leastUse = 0.02

// tick is the unit of processor time in /proc (proc_pid_stat(5)): USER_HZ, 100 on every architecture that Go knows.
const tick = 10 * time.Millisecond

// GiveWay puts a process into a group that gets the processor only when nobody else wants it, with what it starts from
// then on, and blocks until ctx ends. Its own policy, SCHED_IDLE, does not do that: the kernel compares the groups that
// two processes are in, and that of a session is as good as any other (sched(7), autogroup).
//
// Beside programs that never rest, such a group gets three thousandths of a processor. What got next to nothing of it in
// one period has an equal share in the next one, or a tenant could put it off for ever.
//
// It fails where the kernel has no such groups. Close removes the group when nothing is in it. Only one process at a time
// may give way.
func (l *layout) GiveWay(ctx context.Context, pid int, period time.Duration) error {
	if l.weights.err != nil {
		return l.weights.err
	}
	dir := l.idle()
	err := mkdir(dir)
	if err == nil {
		err = setIdle(dir, true)
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "cgroup.procs"), strconv.AppendInt(nil, int64(pid), 10), 0)
	}
	if err != nil {
		return fmt.Errorf("cannot let a process wait for all others: %w", err)
	}
	beat := time.NewTicker(period)
	defer beat.Stop()
	for before := used(dir); ; {
		select {
		case <-ctx.Done():
			return nil
		case <-beat.C:
		}
		now := used(dir)
		if err := setIdle(dir, float64(now-before) >= leastUse*float64(period)); err != nil {
			return fmt.Errorf("cannot let a process wait for all others: %w", err)
		}
		before = now
	}
}

func setIdle(dir string, idle bool) error {
	value := "0"
	if idle {
		value = "1"
	}
	return os.WriteFile(filepath.Join(dir, idleFile), []byte(value), 0)
}

// used is the processor time of the processes of a group, with that of their children that have ended. The group itself
// tells none in v1 where cpuacct is mounted elsewhere.
func used(dir string) time.Duration {
	list, _ := os.ReadFile(filepath.Join(dir, "cgroup.procs")) // of a group that is gone: nothing
	var all time.Duration
	for pid := range bytes.Lines(list) {
		stat, _ := os.ReadFile(filepath.Join("/proc", string(bytes.TrimSpace(pid)), "stat")) // it has ended
		fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
		const first, last = 14 - 3, 17 - 3 // utime, stime, cutime, cstime; the first behind the name is the third
		if len(fields) <= last {
			continue
		}
		for _, f := range fields[first : last+1] {
			n, _ := strconv.ParseInt(string(f), 10, 64) // the kernel prints numbers
			all += time.Duration(n) * tick
		}
	}
	return all
}

// idle is the group for GiveWay. Below the root group that is beside all programs and the daemon; in a unit's group it is
// beside the programs alone.
func (l *layout) idle() string {
	if all := filepath.Dir(l.weights.root); filepath.Base(all) == "berth" {
		return filepath.Join(filepath.Dir(all), "berth-idle-"+filepath.Base(l.weights.root))
	}
	return filepath.Join(l.weights.root, "idle")
}
