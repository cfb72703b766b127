package cgroup

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/containerd/cgroups/v3/cgroup2"
	"golang.org/x/sys/unix"
)

// Use is what a group uses, as it is asked for often: of the same files as
// Memory and CPU, but of no others, and with next to no garbage.
type Use struct {
	Memory int64 // bytes, current less inactive file cache
	Limit  int64 // bytes
	CPU    time.Duration
}

// Limits are the bounds of one run.
type Limits struct {
	Memory   int64 // bytes; swap is always 0
	Pids     int64 // processes and threads; 0 leaves it unlimited
	OOMGroup bool  // an out-of-memory kill takes the whole group
	Weight   int64 // of the application, see SetWeight; 0 leaves it as it is
	CPU      int64 // percent of one processor that the application, all its groups together, may have; 0 leaves it as it is
}

// Memory is what the kernel counts for a group.
type Memory struct {
	Used  int64 // bytes, current less inactive file cache
	Limit int64 // bytes
	Peak  int64 // bytes; 0 when the kernel keeps no peak (v2 before Linux 5.19)
	Kills int64 // processes killed by the out-of-memory killer since the group was made
	OOMs  int64 // times the group ran out of its own limit; a kill without one was the host's lack of memory
}

// Group is the group of one run, or a Child of one. Its methods are safe for concurrent use,
// but for Remove, which MUST be the last call.
type Group struct {
	path    string // in v2
	mgr     *cgroup2.Manager
	mem     memory
	dirs    []string // the group in each hierarchy, v2 first
	joins   []string
	views   []View          // of the v1 hierarchies
	weights []string        // files of the application's weights, the processor's first
	child   bool            // below another group, see Child
	watches *sync.WaitGroup // the tree's
	removed *later          // the tree's
	unwait  func()          // ends the watch that stands in for memory.oom.group
	filling *filling        // watches how full it is; nil unless somebody asked
}

func (g *Group) create(t *Tree, name string, l Limits) error {
	for _, dir := range g.dirs {
		if err := mkdirFresh(dir); err != nil {
			return err
		}
	}
	res, err := t.limits(name, l)
	if err == nil && t.host.Mode == Unified {
		// Not by the library's NewManager, which writes to every group on the way: such a
		// write waits until the kernel is done with groups that were removed before.
		if err = enable(filepath.Dir(g.path), "memory", "pids"); err == nil {
			err = g.mgr.Update(res)
		}
	}
	if err := errors.Join(err, g.mem.limit(l.Memory), g.SetWeight(l.Weight), g.maxCPU(l.CPU)); err != nil {
		return err
	}
	if m, ok := g.mem.(*memoryV1); ok {
		if err := m.countOOMs(); err != nil {
			return err
		}
	}
	if t.host.Mode == Hybrid && l.OOMGroup {
		g.unwait, err = g.killOnOOM()
	}
	return err
}

// mkdirFresh makes dir, which MUST be new, and its parent, which another
// run's Remove may take away in between.
func mkdirFresh(dir string) error {
	var err error
	for range 100 {
		// MkdirAll says that the parent exists also when Remove takes it away between its
		// mkdir and its lstat.
		err = os.MkdirAll(filepath.Dir(dir), 0o755)
		if err == nil {
			err = os.Mkdir(dir, 0o755)
			if !errors.Is(err, fs.ErrNotExist) {
				return err
			}
		}
		if !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, fs.ErrExist) {
			return err
		}
	}
	return err
}

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

// Open returns the group's directory, for SysProcAttr.CgroupFD: a child is
// born in the group. The caller closes it.
func (g *Group) Open() (*os.File, error) {
	return os.OpenFile(g.path, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
}

// Joins returns the files that the thread which becomes the program MUST write
// "0" into before: the tasks files of the v1 hierarchies, which know no birth
// into a group. A thread that moves itself does not wait for the grace period
// that moving a process by cgroup.procs takes (6 to 12 ms, seen on 6.18;
// cgroup_procs_write_start in kernel/cgroup/cgroup.c), and of a process that
// calls execve only that thread is left. Empty on a unified host.
func (g *Group) Joins() []string { return g.joins }

// SetMemory changes the limit of the running group. Below what it uses the
// kernel reclaims and may kill (v2) or refuses with EBUSY (v1): compare
// with Memory first.
func (g *Group) SetMemory(bytes int64) error {
	if err := g.mem.limit(bytes); err != nil {
		return fmt.Errorf("cannot set the memory limit: %w", err)
	}
	if g.filling != nil {
		g.filling.poke()
	}
	return nil
}

// Memory reads use, limit, peak and out-of-memory counters. It works after
// the last process has gone, until Remove.
func (g *Group) Memory() (Memory, error) {
	m, err := g.mem.read()
	if err != nil {
		return m, fmt.Errorf("cannot read the group's memory counters: %w", err)
	}
	return m, nil
}

// CPU returns the processor time of every process that ever was in the group.
func (g *Group) CPU() (time.Duration, error) {
	m, err := g.mgr.StatFiltered(cgroup2.StatCPU)
	if err != nil {
		return 0, fmt.Errorf("cannot read the group's cpu time: %w", err)
	}
	return time.Duration(m.CPU.UsageUsec) * time.Microsecond, nil
}

// Procs returns the pids in the group, without those of its children.
func (g *Group) Procs() ([]int, error) {
	b, err := os.ReadFile(filepath.Join(g.path, "cgroup.procs"))
	if err != nil {
		return nil, fmt.Errorf("cannot list the group's processes: %w", err)
	}
	fields := strings.Fields(string(b))
	pids := make([]int, 0, len(fields))
	for _, f := range fields {
		pid, err := strconv.Atoi(f)
		if err != nil {
			return nil, fmt.Errorf("cannot list the group's processes: %w", err)
		}
		pids = append(pids, pid)
	}
	return pids, nil
}

// All returns the pids in the group and in its children.
func (g *Group) All() ([]int, error) {
	all, err := g.Procs()
	if err != nil {
		return nil, err
	}
	list, err := os.ReadDir(g.path)
	if err != nil {
		return nil, fmt.Errorf("cannot list the groups below: %w", err)
	}
	for _, e := range list {
		if !e.IsDir() {
			continue
		}
		pids, err := (&Group{path: filepath.Join(g.path, e.Name())}).Procs()
		if err != nil && !ended(err) { // meanwhile
			return nil, err
		}
		all = append(all, pids...)
	}
	return all, nil
}

// OnOOM calls fn, on a goroutine of the tree's, each time the group's
// counter of out-of-memory kills has risen; near its limit at most once a
// second. It is a hint: the truth is Memory after the exit. Call the
// returned function before Remove.
func (g *Group) OnOOM(fn func()) (stop func(), err error) {
	a, settle, err := g.mem.alarm()
	if err != nil {
		return nil, fmt.Errorf("cannot watch the group's memory events: %w", err)
	}
	return begin(g.watches, g.mem, fn, settle, a), nil
}

// killOnOOM gives v1 what memory.oom.group is on v2.
func (g *Group) killOnOOM() (func(), error) {
	return g.OnOOM(func() { _ = g.Kill() })
}

// Use reads what the group uses now. It works until Remove.
func (g *Group) Use() (Use, error) {
	dir, files := g.mem.files()
	used, err := number(filepath.Join(dir, files.current), "")
	inactive, err2 := number(filepath.Join(dir, "memory.stat"), files.inactive)
	limit, err3 := number(filepath.Join(dir, files.limit), "")
	micros, err4 := number(filepath.Join(g.path, "cpu.stat"), "usage_usec")
	if err := errors.Join(err, err2, err3, err4); err != nil {
		return Use{}, fmt.Errorf("cannot read what the group uses: %w", err)
	}
	return Use{Memory: max(used-inactive, 0), Limit: limit, CPU: time.Duration(micros) * time.Microsecond}, nil
}

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

// noteAttr is where a group keeps a note of the process that made it: an extended
// attribute that root alone reads and writes, and that ends with the group
// (Linux, fs/kernfs/inode.c).
const noteAttr = "trusted.berth"

// SetNote keeps text with the group, for a later daemon. It replaces an earlier
// one.
func (g *Group) SetNote(text string) error {
	return setNote(g.path, text, "what runs in the control group")
}

func setNote(dir, text, what string) error {
	if err := unix.Setxattr(dir, noteAttr, []byte(text), 0); err != nil {
		return fmt.Errorf("cannot note %s: %w", what, err)
	}
	return nil
}

// noteOf returns what setNote kept with a group.
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

// Remove removes the group in every hierarchy with its children, and the
// application's own directory above it when that was its last run. The group
// MUST be empty.
// What is gone already is no error.
func (g *Group) Remove() error {
	g.Detach()
	var errs []error
	for _, dir := range g.dirs {
		errs = append(errs, removeBelow(dir), rmdir(dir))
		if !g.child {
			_ = os.Remove(filepath.Dir(dir)) // fails, rightly, while another run is there
		}
	}
	return errors.Join(errs...)
}

// RemoveLater is Remove in a moment, or when the tree is swept, released or closed: it
// is not in the way of the application's next start. For a later daemon nothing
// is left in the group from now on (SetNote). done gets the error.
func (g *Group) RemoveLater(done func(error)) {
	err := g.SetNote("")
	if errors.Is(err, fs.ErrNotExist) { // somebody else removed it
		err = nil
	}
	g.Detach()
	g.removed.do(func() { done(errors.Join(err, g.Remove())) })
}

// Detach gives up watching over the group, which stays as it is, for the Find
// of the next daemon.
func (g *Group) Detach() {
	if g.unwait != nil {
		g.unwait()
		g.unwait = nil
	}
	g.mem.close()
}

// rmdir removes a group. For a moment after its last process ended the
// kernel may still answer EBUSY.
func rmdir(dir string) error {
	var err error
	for wait := time.Millisecond; wait < time.Second; wait *= 2 {
		err = os.Remove(dir)
		if err == nil || errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if !errors.Is(err, unix.EBUSY) {
			break
		}
		time.Sleep(wait)
	}
	return fmt.Errorf("cannot remove the control group: %w", err)
}

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
