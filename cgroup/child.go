package cgroup

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/containerd/cgroups/v3/cgroup2"
)

// Child makes the group name below the group, for processes that share its
// limits and counters and can yet be killed alone. It is a group of cgroup v2
// and has no controller: what is in it is charged to the group above, which for
// the same reason may have processes and children at once ("no internal
// process constraint" in Linux, cgroup-v2.rst). On a hybrid host its processes
// join the v1 groups of the group itself (Joins).
//
// Memory and SetMemory are those of the group above. What was killed is gone
// from the child alone; Kill, WaitEmpty and Remove of the group above cover
// it. As with Create, name MUST be new. The child MUST be removed before the
// group, or with it.
func (g *Group) Child(name string) (*Group, error) {
	c := &Group{
		path: filepath.Join(g.path, name), mem: borrowed{g.mem}, joins: g.joins, views: g.views, watches: g.watches, child: true,
	}
	c.dirs = []string{c.path}
	c.mgr, _ = cgroup2.Load("/"+name, cgroup2.WithMountpoint(g.path))
	if err := os.Mkdir(c.path, 0o755); err != nil {
		return nil, fmt.Errorf("cannot make the control group %s: %w", name, err)
	}
	return c, nil
}

// borrowed is the memory of the group above, which closes it.
type borrowed struct{ memory }

func (borrowed) close() {}

// removeBelow removes the groups below dir, which are empty: no group has
// grandchildren.
func removeBelow(dir string) error {
	list, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("cannot remove the control group: %w", err)
	}
	var errs []error
	for _, e := range list {
		if e.IsDir() {
			errs = append(errs, rmdir(filepath.Join(dir, e.Name())))
		}
	}
	return errors.Join(errs...)
}
