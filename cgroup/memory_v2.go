package cgroup

import (
	"os"
	"path/filepath"
	"time"

	"github.com/containerd/cgroups/v3/cgroup2"
)

// memoryV2 is the unified memory controller (Linux, cgroup-v2.rst).
type memoryV2 struct {
	dir    string
	mgr    *cgroup2.Manager
	notify *notifier
}

func (m memoryV2) limit(bytes int64) error {
	res := &cgroup2.Resources{Memory: &cgroup2.Memory{Max: &bytes}}
	if _, err := os.Stat(filepath.Join(m.dir, "memory.swap.max")); err == nil { // absent without swap accounting
		res.Memory.Swap = new(int64)
	}
	return m.mgr.Update(res)
}

func (m memoryV2) read() (Memory, error) {
	s, err := m.mgr.StatFiltered(cgroup2.StatMemory | cgroup2.StatMemoryEvents)
	if err != nil {
		return Memory{}, err
	}
	out := Memory{
		Used:  int64(s.Memory.Usage) - int64(s.Memory.InactiveFile),
		Limit: int64(s.Memory.UsageLimit),
		Peak:  int64(s.Memory.MaxUsage),
	}
	out.Used = max(out.Used, 0)
	if s.MemoryEvents != nil {
		// oom_kill counts processes, oom_group_kill groups, whoever ran out:
		// the host or the group. "oom" is the group alone; were the parent's
		// limit as tight it would be counted there, but ours have none.
		out.Kills = int64(max(s.MemoryEvents.OomKill, s.MemoryEvents.OomGroupKill))
		out.OOMs = int64(s.MemoryEvents.Oom)
	}
	return out, nil
}

func (m memoryV2) close() {}

func (m memoryV2) alarm() (alarm, time.Duration, error) {
	path := filepath.Join(m.dir, "memory.events")
	if _, err := os.Stat(path); err != nil {
		return nil, 0, err
	}
	return m.notify.alarm(path), 0, nil // the counter is written before the event
}
