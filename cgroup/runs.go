package cgroup

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/containerd/cgroups/v3/cgroup2"
	"golang.org/x/sys/unix"
)

// Create makes the group name ("apps/<id>/<run>") with its limits in force.
// It fails when the group exists: a group is never used twice, for after
// cgroup.kill some kernels kill every later child born into it (seen on
// 6.18.44 and Debian's 6.1.176).
func (t *Tree) Create(name string, l Limits) (*Group, error) {
	g, err := t.tryCreate(name, l)
	if errors.Is(err, fs.ErrExist) && t.removed.flush() { // one of that name had served
		g, err = t.tryCreate(name, l)
	}
	if err == nil || errors.Is(err, fs.ErrExist) {
		return g, err
	}
	missing, failed := t.Mend(l.Pids)
	if failed != nil {
		return nil, errors.Join(err, failed)
	}
	if len(missing) == 0 {
		return nil, err
	}
	return t.tryCreate(name, l)
}

func (t *Tree) tryCreate(name string, l Limits) (*Group, error) {
	g := t.group(name)
	if err := g.create(t, name, l); err != nil {
		return nil, errors.Join(fmt.Errorf("cannot make the control group %s: %w", name, err), g.Remove())
	}
	return g, nil
}

// group describes a group without making it.
func (t *Tree) group(name string) *Group {
	g := &Group{path: filepath.Join(t.root, name), watches: &t.watches, removed: &t.removed}
	for _, root := range t.roots() {
		g.dirs = append(g.dirs, filepath.Join(root, name))
	}
	for _, dir := range g.dirs[1:] {
		g.joins = append(g.joins, filepath.Join(dir, "tasks"))
	}
	g.views = t.viewsOf(name)
	g.mgr, _ = cgroup2.Load("/"+name, cgroup2.WithMountpoint(t.root))
	if p, ok := t.in("memory"); ok {
		g.mem = newMemoryV1(p.mount, p.root, name)
	} else {
		g.mem = memoryV2{dir: g.path, mgr: g.mgr, notify: t.notify}
	}
	for _, w := range []weights{t.weights, t.disks} {
		if file := w.of(filepath.Dir(name)); file != "" {
			g.weights = append(g.weights, file)
		}
	}
	return g
}

// limits returns the limits of a group that its manager sets; on a hybrid host it
// sets that of the processes itself.
func (t *Tree) limits(name string, l Limits) (*cgroup2.Resources, error) {
	if t.host.Mode == Unified {
		return &cgroup2.Resources{Memory: &cgroup2.Memory{OOMGroup: &l.OOMGroup}, Pids: &cgroup2.Pids{Max: l.Pids}}, nil
	}
	if p, ok := t.in("pids"); ok && l.Pids > 0 {
		return &cgroup2.Resources{}, setPidsV1(p.mount, filepath.Join(p.root, name), l.Pids)
	}
	return &cgroup2.Resources{}, nil
}

// Find returns the group name that an earlier daemon made, with its limits and
// its counters as they are, or an error of fs.ErrNotExist. On a hybrid
// host the times that it ran out of memory are counted from now on, and every
// kill before counts as one of them; oomGroup is that of Limits.
func (t *Tree) Find(name string, oomGroup bool) (*Group, error) {
	g := t.group(name)
	if _, err := os.Stat(g.path); err != nil {
		return nil, fmt.Errorf("cannot find the control group %s: %w", name, err)
	}
	m, hybrid := g.mem.(*memoryV1)
	if !hybrid {
		return g, nil
	}
	if err := m.countOOMs(); err != nil {
		return nil, fmt.Errorf("cannot watch the control group %s: %w", name, err)
	}
	now, err := m.read()
	if err == nil && now.Kills > 0 {
		m.mu.Lock()
		m.seen += now.Kills
		m.mu.Unlock()
	}
	if err == nil {
		err = m.limitSockets(now.Limit) // which an older berth did not
	}
	if err == nil && oomGroup {
		if g.unwait, err = g.killOnOOM(); err == nil && now.Kills > 0 {
			err = g.Kill() // nobody was there to do it
		}
	}
	if err != nil {
		g.mem.close()
		return nil, fmt.Errorf("cannot watch the control group %s: %w", name, err)
	}
	return g, nil
}

// Bound puts the limits of a group that Find returned in force again, whatever process
// changed them meanwhile, but not that of its memory: see SetMemory.
func (t *Tree) Bound(name string, g *Group, l Limits) error {
	res, err := t.limits(name, l)
	if err == nil && t.host.Mode == Unified {
		err = g.mgr.Update(res)
	}
	if err := errors.Join(err, g.SetWeight(l.Weight), g.maxCPU(l.CPU)); err != nil {
		return fmt.Errorf("cannot put the limits of the control group %s in force again: %w", name, err)
	}
	return nil
}

// Note returns what SetNote kept with the group name, "" when that is nothing.
func (t *Tree) Note(name string) (string, error) { return noteOf(filepath.Join(t.root, name)) }

// Runs returns the names of the groups that are there ("apps/<id>/<run>").
func (t *Tree) Runs() []string { return runsIn(t.root) }

// Terminate sends SIGTERM to what runs in the groups that which names, and waits until all
// of it has ended, at most for grace. See Sweep for the rest.
func (t *Tree) Terminate(which func(name string) bool, grace time.Duration) {
	until := time.Now().Add(grace)
	var signalled []*Group
	for _, name := range t.Runs() {
		if which(name) {
			g := &Group{path: filepath.Join(t.root, name)}
			_ = g.Signal(unix.SIGTERM) // Sweep ends what did not hear it
			signalled = append(signalled, g)
		}
	}
	for _, g := range signalled {
		_ = g.WaitEmpty(time.Until(until))
	}
}
