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
	unwait  func()          // ends the watch that stands in for memory.oom.group
}

// memory is the memory controller behind one group: v2's or v1's.
type memory interface {
	limit(bytes int64) error
	read() (Memory, error)
	// files tells where Use finds what read does.
	files() (dir string, names useFiles)
	// alarm returns what wakes for an out-of-memory kill, and how long the
	// counter may lag behind it.
	alarm() (alarm, time.Duration, error)
	// close releases what read needs.
	close()
}

// Create makes the group name ("apps/<id>/<run>") with its limits in force.
// It fails when the group exists: a group is never used twice, for after
// cgroup.kill some kernels kill every later child born into it (seen on
// 6.18.44 and Debian's 6.1.176).
func (t *Tree) Create(name string, l Limits) (*Group, error) {
	g, err := t.tryCreate(name, l)
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
	g := &Group{path: filepath.Join(t.root, name), watches: &t.watches}
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

func (g *Group) create(t *Tree, name string, l Limits) error {
	for _, dir := range g.dirs {
		if err := mkdirFresh(dir); err != nil {
			return err
		}
	}
	res := &cgroup2.Resources{}
	if t.host.Mode == Unified {
		res.Memory = &cgroup2.Memory{OOMGroup: &l.OOMGroup}
		res.Pids = &cgroup2.Pids{Max: l.Pids}
	} else if p, ok := t.in("pids"); ok && l.Pids > 0 {
		if err := setPidsV1(p.mount, filepath.Join(p.root, name), l.Pids); err != nil {
			return err
		}
	}
	mgr, err := cgroup2.NewManager(t.root, "/"+name, res)
	if err != nil {
		return err
	}
	g.mgr = mgr
	if err := errors.Join(g.mem.limit(l.Memory), g.SetWeight(l.Weight), g.maxCPU(l.CPU)); err != nil {
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
	for range 10 {
		if err = os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
			return err
		}
		if err = os.Mkdir(dir, 0o755); !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return err
}

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

// killRounds bounds how often Kill looks for processes that were born meanwhile.
const killRounds = 100

// Kill ends every process of the group and of its children with SIGKILL, forks
// under way included (cgroup.kill, Linux 5.14). It does not wait: see WaitEmpty.
//
// cgroup.kill signals the first thread of each process alone, and one that has
// ended while others go on takes no signal for them (send_sig in
// __cgroup_kill, seen on Linux 6.18). So each process is sent it by its pid too,
// until a look finds no new one: such a process may fork as well.
func (g *Group) Kill() error {
	told := map[int]bool{}
	for range killRounds {
		err := os.WriteFile(filepath.Join(g.path, "cgroup.kill"), []byte("1"), 0)
		if err != nil && !ended(err) {
			return fmt.Errorf("cannot kill the group: %w", err)
		}
		n, err := signal(g.All, unix.SIGKILL, told)
		if err != nil && !ended(err) {
			return err
		}
		if n == 0 {
			break
		}
	}
	return nil
}

// ended reports whether err says that a group was removed.
func ended(err error) bool { return errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENODEV) }

// The kernel tells of changes at most every 10 ms (CGROUP_FILE_NOTIFY_MIN_INTV
// in kernel/cgroup/cgroup.c), and a process that was waited for may be counted
// a moment longer: so the first looks do not wait to be told.
const (
	firstLook = 50 * time.Microsecond
	lastLook  = 10 * time.Millisecond
)

// WaitEmpty blocks until the group and its children have no process, at most
// for timeout.
func (g *Group) WaitEmpty(timeout time.Duration) error {
	f, err := os.Open(filepath.Join(g.path, "cgroup.events"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	} else if err != nil {
		return fmt.Errorf("cannot watch the group: %w", err)
	}
	defer f.Close()
	deadline := time.Now().Add(timeout)
	var buf [256]byte
	for pause := firstLook; ; pause *= 2 {
		n, err := f.ReadAt(buf[:], 0)
		if n == 0 && err != nil {
			return nil // removed meanwhile
		}
		if strings.Contains(string(buf[:n]), "populated 0") {
			return nil
		}
		left := time.Until(deadline)
		if left <= 0 {
			return fmt.Errorf("cannot end the group: processes are left after %s", timeout)
		}
		if pause < lastLook {
			time.Sleep(pause)
			continue
		}
		// A change of cgroup.events shows as POLLPRI until it is read.
		fds := []unix.PollFd{{Fd: int32(f.Fd()), Events: unix.POLLPRI}}
		if _, err := unix.Poll(fds, int(left.Milliseconds())+1); err != nil && !errors.Is(err, unix.EINTR) {
			return fmt.Errorf("cannot watch the group: %w", err)
		}
	}
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

// Remove removes the group in every hierarchy with its children, and the
// application's own directory above it when that was its last run. The group
// MUST be empty.
// What is gone already is no error.
func (g *Group) Remove() error {
	g.Leave()
	var errs []error
	for _, dir := range g.dirs {
		errs = append(errs, removeBelow(dir), rmdir(dir))
		if !g.child {
			_ = os.Remove(filepath.Dir(dir)) // fails, rightly, while another run is there
		}
	}
	return errors.Join(errs...)
}

// Leave gives up watching over the group, which stays as it is: for Find, by
// whoever follows.
func (g *Group) Leave() {
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
