package cgroup

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/containerd/cgroups/v3/cgroup2"
	"golang.org/x/sys/unix"
)

// noteAttr is where a group keeps a note of whoever made it: an extended
// attribute that root alone reads and writes, and that ends with the group
// (Linux, fs/kernfs/inode.c).
const noteAttr = "trusted.berth"

// SetNote keeps text with the group, for a later daemon. It replaces an earlier
// one.
func (g *Group) SetNote(text string) error {
	if err := unix.Setxattr(g.path, noteAttr, []byte(text), 0); err != nil {
		return fmt.Errorf("cannot note what runs in the control group: %w", err)
	}
	return nil
}

// Note returns what SetNote kept with the group name, "" when that is nothing.
func (t *Tree) Note(name string) (string, error) { return noteOf(filepath.Join(t.root, name)) }

func noteOf(dir string) (string, error) {
	buf := make([]byte, 16<<10) // a path may be in it
	n, err := unix.Getxattr(dir, noteAttr, buf)
	if errors.Is(err, unix.ENODATA) || errors.Is(err, unix.ENOENT) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("cannot read what runs in the control group: %w", err)
	}
	return string(buf[:n]), nil
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
	var err error
	if t.host.Mode == Unified {
		err = g.mgr.Update(&cgroup2.Resources{Memory: &cgroup2.Memory{OOMGroup: &l.OOMGroup}, Pids: &cgroup2.Pids{Max: l.Pids}})
	} else if p, ok := t.in("pids"); ok && l.Pids > 0 {
		err = setPidsV1(p.mount, filepath.Join(p.root, name), l.Pids)
	}
	if err := errors.Join(err, g.SetWeight(l.Weight), g.maxCPU(l.CPU)); err != nil {
		return fmt.Errorf("cannot put the limits of the control group %s in force again: %w", name, err)
	}
	return nil
}

// Runs returns the names of the groups that are there ("apps/<id>/<run>").
func (t *Tree) Runs() ([]string, error) {
	dirs, err := filepath.Glob(filepath.Join(t.root, appsDir, "*", "*"))
	if err != nil {
		return nil, err
	}
	var names []string
	for _, dir := range dirs {
		if info, err := os.Stat(dir); err != nil || !info.IsDir() {
			continue
		}
		names = append(names, strings.TrimPrefix(dir, t.root+"/"))
	}
	return names, nil
}

// KillBelow ends what runs in the children of the group and removes them; what
// runs in the group itself goes on.
func (g *Group) KillBelow() error {
	list, err := os.ReadDir(g.path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("cannot list the groups below: %w", err)
	}
	var errs []error
	for _, e := range list {
		if !e.IsDir() {
			continue
		}
		c := &Group{path: filepath.Join(g.path, e.Name())}
		errs = append(errs, c.Kill(), c.WaitEmpty(belowTimeout), rmdir(c.path))
	}
	return errors.Join(errs...)
}
