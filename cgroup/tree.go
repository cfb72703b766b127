package cgroup

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// Tree is the place below which all groups of one berth live, one directory
// of the same name in each hierarchy in use. It is safe for concurrent use.
type Tree struct {
	host    Host
	root    string  // of this berth in v2; the mount point the library is given
	v1      []place // of this berth in the v1 hierarchies in use; none when unified
	seen    []View  // of every program: see settleSeen
	weights weights // of the processor
	disks   weights
	notify  *notifier      // nil unless unified: v1 has descriptors of its own
	watches sync.WaitGroup // the groups' goroutines
	own     []string       // directories made by Open, removed by Close in reverse
	holder  string         // the unit's group in which the root is, "" for none
	others  []string       // roots where an earlier daemon of the same name may have been
	base    string         // the group below which the root is
	mending sync.Mutex
	claim   *os.File // the lock of its place, nil for none: see Claim
}

// place is where a tree lives in one v1 hierarchy.
type place struct {
	controller  string // that it is there for: memory, pids, cpu or blkio
	mount, root string
}

// appsDir is below the root so that, where the daemon itself must live in the
// root (a delegated unit), it can move to a leaf beside it.
const appsDir = "apps"

// Open makes the tree called name below the root group of every hierarchy in
// use, or in the daemon's own group when systemd delegated it. It enables the
// memory and pids controllers on the way down, and cpu and io where they can be
// had (see Weights). Programs left by an earlier daemon of the same name are still
// there: see Sweep. Close the tree.
func Open(h Host, name string) (*Tree, error) { return open(h, name, "") }

func open(h Host, name, holder string) (*Tree, error) {
	if err := h.Check(); err != nil {
		return nil, err
	}
	t, err := settled(h, name, holder)
	if err != nil {
		return nil, fmt.Errorf("cannot prepare berth's control groups: %w", err)
	}
	if _, err := os.Stat(filepath.Join(t.root, appsDir, "cgroup.kill")); err != nil {
		t.removeOwn()
		return nil, errors.New("cannot limit programs on this host: the kernel has no cgroup.kill; Linux 5.14 or newer is needed")
	}
	if t.host.Mode == Unified {
		n, err := newNotifier()
		if err != nil {
			t.removeOwn()
			return nil, err
		}
		t.notify = n
	}
	return t, nil
}

// settled makes a tree's directories. Another process's tree, doctor's for one,
// may remove the directory that holds both when it closes, after it was made
// here and before it was used.
func settled(h Host, name, holder string) (*Tree, error) {
	for try := 1; ; try++ {
		t := &Tree{host: h, holder: holder}
		err := t.settle(name)
		if err == nil {
			return t, nil
		}
		t.removeOwn()
		if !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, unix.ENODEV) || try == settleTries {
			return nil, err
		}
	}
}

// settleTries bounds how often a directory that went away is made again.
const settleTries = 20

// BoundsPids reports whether Limits.Pids are the kernel's to hold.
func (t *Tree) BoundsPids() bool {
	_, v1 := t.in("pids")
	return v1 || t.host.Mode == Unified
}

// Root returns the tree's directory in cgroup v2, for doctor.
func (t *Tree) Root() string { return t.root }

// settle makes the tree's directories in every hierarchy in use.
func (t *Tree) settle(name string) error {
	top, err := t.top()
	if err != nil {
		return err
	}
	t.base = top
	switch top {
	case t.host.V2:
		t.root = filepath.Join(top, "berth", name)
	case t.holder:
		t.root = filepath.Join(top, name)
	default:
		t.root = top
	}
	apps := filepath.Join(t.root, appsDir)
	if err := t.mkdirs(top, apps); err != nil {
		return err
	}
	t.own = append(t.own, filepath.Join(t.root, keeperLeaf)) // also of an earlier daemon
	if t.host.Mode == Unified {
		err = enableDown(top, apps, "memory", "pids")
	} else {
		err = errors.Join(t.settleV1("memory", t.host.V1Memory, name), t.settleV1("pids", t.host.V1Pids, name))
	}
	if err != nil {
		return err
	}
	t.weights, t.disks = t.settleWeights(top, name), t.settleDisks(top, name)
	t.settleSeen(name)
	return nil
}

// settleV1 makes the tree's directories in a v1 hierarchy, if there is one.
func (t *Tree) settleV1(controller, mount, name string) error {
	if mount == "" {
		return nil
	}
	p := place{controller, mount, filepath.Join(mount, "berth", name)}
	if err := t.mkdirs(mount, filepath.Join(p.root, appsDir)); err != nil {
		return err
	}
	t.v1 = append(t.v1, p)
	return nil
}

// in finds the tree's place in the v1 hierarchy of a controller.
func (t *Tree) in(controller string) (place, bool) {
	for _, p := range t.v1 {
		if p.controller == controller {
			return p, true
		}
	}
	return place{}, false
}

// roots are the tree's directories in every hierarchy in use, v2 first.
func (t *Tree) roots() []string {
	roots := []string{t.root}
	for _, p := range t.v1 {
		if !slices.Contains(roots, p.root) { // controllers can be mounted together
			roots = append(roots, p.root)
		}
	}
	return roots
}

// enableDown hands the controllers from top down to the children of dir.
func enableDown(top, dir string, controllers ...string) error {
	if dir != top {
		if err := enableDown(top, filepath.Dir(dir), controllers...); err != nil {
			return err
		}
	}
	return enable(dir, controllers...)
}

// top returns the group below which berth may make groups: its own when
// systemd delegated it (berth then moves to a leaf, for a group with
// processes cannot hand controllers to its children), else the root group.
func (t *Tree) top() (string, error) {
	if t.holder != "" {
		return t.holder, moveToLeaf(t.holder, holderLeaf)
	}
	b, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return "", err
	}
	own := filepath.Join(t.host.V2, ownGroup(string(b)))
	if filepath.Base(own) == daemonLeaf && delegated(filepath.Dir(own)) {
		return filepath.Dir(own), nil // moved by an earlier image of this process
	}
	if t.host.Mode != Unified || own == t.host.V2 || !delegated(own) {
		return t.host.V2, nil
	}
	return own, moveToLeaf(own, daemonLeaf)
}

const daemonLeaf = "daemon"

// ownGroup finds the v2 line "0::/path" of /proc/self/cgroup.
func ownGroup(text string) string {
	for line := range strings.Lines(text) {
		if path, ok := strings.CutPrefix(strings.TrimSpace(line), "0::"); ok {
			return path
		}
	}
	return "/"
}

// delegated reports whether systemd marked the group as handed over
// (Delegate=yes): it sets the attribute since version 240 (systemd,
// docs/CGROUP_DELEGATION.md).
func delegated(dir string) bool {
	var v [8]byte
	for _, attr := range []string{"trusted.delegate", "user.delegate"} {
		if n, err := unix.Getxattr(dir, attr, v[:]); err == nil && string(v[:n]) == "1" {
			return true
		}
	}
	return false
}

// moveToLeaf moves every process of the delegated group into a leaf. Where it
// is the daemon's own, ExecStartPost and the like may be there too.
func moveToLeaf(dir, name string) error {
	leaf := filepath.Join(dir, name)
	if err := os.Mkdir(leaf, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	pids, err := os.ReadFile(filepath.Join(dir, "cgroup.procs"))
	if err != nil {
		return err
	}
	for _, pid := range strings.Fields(string(pids)) {
		if err := os.WriteFile(filepath.Join(leaf, "cgroup.procs"), []byte(pid), 0); err != nil && !errors.Is(err, unix.ESRCH) {
			return err
		}
	}
	return nil
}

// enable hands controllers to the children of dir, one write each: of
// several in one write, one that is unavailable fails all.
func enable(dir string, controllers ...string) error {
	file := filepath.Join(dir, "cgroup.subtree_control")
	b, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	for _, c := range controllers {
		if strings.Contains(" "+strings.TrimSpace(string(b))+" ", " "+c+" ") {
			continue
		}
		if err := os.WriteFile(file, []byte("+"+c), 0); err != nil {
			return fmt.Errorf("cannot enable the %s controller: %w", c, err)
		}
	}
	return nil
}

// mkdirs makes dir and its parents below top. All of them are berth's own, so
// what an earlier daemon left is remembered for Close as well.
func (t *Tree) mkdirs(top, dir string) error {
	if dir == top {
		return nil
	}
	if err := t.mkdirs(top, filepath.Dir(dir)); err != nil {
		return err
	}
	if err := os.Mkdir(dir, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	t.own = append(t.own, dir)
	return nil
}

// belowTimeout bounds the wait for what was killed to be gone.
const belowTimeout = 5 * time.Second

// Sweep kills whatever an earlier daemon left in the tree and removes its
// groups, but for those that spare names; of a daemon whose groups were
// elsewhere (see OpenIn), everything. It blocks until the last process is
// gone, a few seconds at most, and returns how many groups it removed.
func (t *Tree) Sweep(spare func(name string) bool) (int, error) {
	n, err := t.sweepOthers()
	errs := []error{err}
	for _, root := range t.roots() { // a daemon may have been killed between two removals of one group
		stale, err := filepath.Glob(filepath.Join(root, appsDir, "*", "*"))
		if err != nil {
			return n, err
		}
		for _, dir := range stale {
			if info, err := os.Stat(dir); err != nil || !info.IsDir() {
				continue
			}
			rel, _ := filepath.Rel(root, dir)
			if spare != nil && spare(rel) {
				continue
			}
			g := t.group(rel)
			n++
			errs = append(errs, g.Kill(), g.WaitEmpty(belowTimeout), g.Remove())
		}
		// It may also have been killed between the two directories of a run.
		empty, err := filepath.Glob(filepath.Join(root, appsDir, "*"))
		if err != nil {
			return n, err
		}
		for _, dir := range empty {
			_ = unix.Rmdir(dir) // what is no directory, or not empty, stays
		}
	}
	return n, errors.Join(errs...)
}

// Close waits for what the watches of groups still do, and removes the tree's
// own empty directories. The watches MUST have been ended and the groups of runs
// removed before; what is not empty stays.
func (t *Tree) Close() error {
	t.watches.Wait()
	var err error
	if t.notify != nil {
		err = t.notify.close()
	}
	t.removeOwn()
	return errors.Join(err, t.Release())
}

func (t *Tree) removeOwn() {
	for i := len(t.own) - 1; i >= 0; i-- {
		// A directory that another berth or a keeper uses too is not empty, and stays.
		_ = os.Remove(t.own[i])
	}
}
