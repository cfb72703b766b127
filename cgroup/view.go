package cgroup

import (
	"path/filepath"
	"slices"
)

// View is a directory of a group, and where a program looks for it.
type View struct {
	Dir string
	At  string
}

// cgroupDir is where every system mounts its hierarchies, and runtimes look for
// their limits.
const cgroupDir = "/sys/fs/cgroup"

// Views returns what a program in the group may see of the hierarchies: its own
// directories. On a unified host that is one; on a hybrid one Node and Java
// find their limit in the v1 directory of memory.
func (g *Group) Views() []View {
	if len(g.views) == 0 {
		return []View{{g.path, cgroupDir}}
	}
	return append([]View{{g.path, filepath.Join(cgroupDir, "unified")}}, g.views...)
}

// viewsOf are the views of the group name in the v1 hierarchies. A hierarchy
// has the name of the directory it is mounted at, "memory" for instance.
func (t *Tree) viewsOf(name string) []View {
	var views []View
	for _, p := range t.v1 {
		v := View{filepath.Join(p.root, name), filepath.Join(cgroupDir, filepath.Base(p.mount))}
		if !slices.Contains(views, v) { // controllers can be mounted together
			views = append(views, v)
		}
	}
	return append(views, t.seen...)
}

// settleSeen makes a group that stays empty in each hierarchy that Java wants
// to see mounted before it takes a limit for one (JDK 17,
// cgroupSubsystem_linux.cpp: cpuset and cpuacct, beside memory and cpu). No
// program is in it: those stay where the daemon is, whose group shows others.
// Where one cannot be made Java takes the host's memory for its own, and no
// limit depends on it.
func (t *Tree) settleSeen(name string) {
	for _, mount := range t.host.V1Seen {
		dir := filepath.Join(mount, "berth", name)
		if t.mkdirs(mount, dir) == nil {
			t.seen = append(t.seen, View{dir, filepath.Join(cgroupDir, filepath.Base(mount))})
		}
	}
}
