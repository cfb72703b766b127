package cgroup

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// layout is where the directories of a tree are, in each hierarchy in use.
type layout struct {
	host    Host
	root    string  // of this berth in v2; the mount point the library is given
	base    string  // the group below which the root is
	holder  string  // the unit's group in which the root is, "" for none
	v1      []place // of this berth in the v1 hierarchies in use; none when unified
	seen    []View  // of every program: see settleSeen
	weights weights // of the processor
	disks   weights
	own     []string // directories made by settle, removed by removeOwn in reverse
}

// place is where a tree lives in one v1 hierarchy.
type place struct {
	controller  string // that it is there for: memory, pids, cpu or blkio
	mount, root string
}

// appsDir is below the root so that, where the daemon itself must live in the
// root (a delegated unit), it can move to a leaf beside it.
const appsDir = "apps"

// BoundsPids reports whether Limits.Pids are the kernel's to hold.
func (l *layout) BoundsPids() bool {
	_, v1 := l.in("pids")
	return v1 || l.host.Mode == Unified
}

// Root returns the tree's directory in cgroup v2, for doctor.
func (l *layout) Root() string { return l.root }

// settle makes the tree's directories in every hierarchy in use.
func (l *layout) settle(name string) error {
	top, err := l.top()
	if err != nil {
		return err
	}
	l.base = top
	switch top {
	case l.host.V2:
		l.root = filepath.Join(top, "berth", name)
	case l.holder:
		l.root = filepath.Join(top, name)
	default:
		l.root = top
	}
	apps := filepath.Join(l.root, appsDir)
	if err := l.mkdirs(top, apps); err != nil {
		return err
	}
	l.own = append(l.own, filepath.Join(l.root, keeperLeaf)) // also of an earlier daemon
	if l.host.Mode == Unified {
		err = enableDown(top, apps, "memory", "pids")
	} else {
		err = errors.Join(l.settleV1("memory", l.host.V1Memory, name), l.settleV1("pids", l.host.V1Pids, name))
	}
	if err != nil {
		return err
	}
	l.weights, l.disks = l.settleWeights(top, name), l.settleDisks(top, name)
	if l.weights.err == nil {
		l.own = append(l.own, l.idle()) // also of an earlier daemon
	}
	l.settleSeen(name)
	return nil
}

// settleV1 makes the tree's directories in a v1 hierarchy, if there is one.
func (l *layout) settleV1(controller, mount, name string) error {
	if mount == "" {
		return nil
	}
	p := place{controller, mount, filepath.Join(mount, "berth", name)}
	if err := l.mkdirs(mount, filepath.Join(p.root, appsDir)); err != nil {
		return err
	}
	l.v1 = append(l.v1, p)
	return nil
}

// in finds the tree's place in the v1 hierarchy of a controller.
func (l *layout) in(controller string) (place, bool) {
	for _, p := range l.v1 {
		if p.controller == controller {
			return p, true
		}
	}
	return place{}, false
}

// roots are the tree's directories in every hierarchy in use, v2 first.
func (l *layout) roots() []string {
	roots := []string{l.root}
	for _, p := range l.v1 {
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
func (l *layout) top() (string, error) {
	if l.holder != "" {
		return l.holder, moveToLeaf(l.holder, holderLeaf)
	}
	b, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return "", err
	}
	own := filepath.Join(l.host.V2, ownGroup(string(b)))
	if filepath.Base(own) == daemonLeaf && delegated(filepath.Dir(own)) {
		return filepath.Dir(own), nil // moved by an earlier image of this process
	}
	if l.host.Mode != Unified || own == l.host.V2 || !delegated(own) {
		return l.host.V2, nil
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
	if err := mkdir(leaf); err != nil {
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
func (l *layout) mkdirs(top, dir string) error {
	if dir == top {
		return nil
	}
	if err := l.mkdirs(top, filepath.Dir(dir)); err != nil {
		return err
	}
	if err := mkdir(dir); err != nil {
		return err
	}
	l.own = append(l.own, dir)
	return nil
}

// mkdir makes a directory that may be there already.
func mkdir(dir string) error {
	if err := os.Mkdir(dir, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return nil
}

// removeOwn removes the tree's own empty directories, but for the first so many.
func (l *layout) removeOwn(but int) {
	for _, dir := range slices.Backward(l.own[but:]) {
		_ = os.Remove(dir) // what another berth or a keeper uses too is not empty, and stays
	}
	l.own = l.own[:but]
}

// viewsOf are the views of the group name in the v1 hierarchies. A hierarchy
// has the name of the directory it is mounted at, "memory" for instance.
func (l *layout) viewsOf(name string) []View {
	var views []View
	for _, p := range l.v1 {
		v := View{filepath.Join(p.root, name), filepath.Join(cgroupDir, filepath.Base(p.mount))}
		if !slices.Contains(views, v) { // controllers can be mounted together
			views = append(views, v)
		}
	}
	return append(views, l.seen...)
}

// settleSeen makes a group that stays empty in each hierarchy that Java wants
// to see mounted before it takes a limit for one (JDK 17,
// cgroupSubsystem_linux.cpp: cpuset and cpuacct, beside memory and cpu). No
// program is in it: those stay where the daemon is, whose group shows others.
// Where one cannot be made Java takes the host's memory for its own, and no
// limit depends on it.
func (l *layout) settleSeen(name string) {
	for _, mount := range l.host.V1Seen {
		dir := filepath.Join(mount, "berth", name)
		if l.mkdirs(mount, dir) == nil {
			l.seen = append(l.seen, View{dir, filepath.Join(cgroupDir, filepath.Base(mount))})
		}
	}
}

// handsDown are the directories that hand controllers to their children, from
// the top down.
func (l *layout) handsDown() []string {
	apps := filepath.Join(l.root, appsDir)
	var dirs []string
	for dir := apps; dir != l.base && dir != filepath.Dir(dir); dir = filepath.Dir(dir) {
		dirs = append(dirs, dir)
	}
	dirs = append(dirs, l.base)
	slices.Reverse(dirs)
	each, _ := filepath.Glob(filepath.Join(apps, "*", "cgroup.subtree_control")) // the pattern is well-formed
	for _, file := range each {
		dirs = append(dirs, filepath.Dir(file))
	}
	return dirs
}

// handDown hands the children of dir what they need and lack.
func (l *layout) handDown(dir string) (missing []string, err error) {
	b, err := os.ReadFile(filepath.Join(dir, "cgroup.subtree_control"))
	if errors.Is(err, fs.ErrNotExist) { // an application that has ended meanwhile
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	for _, c := range []string{"memory", "pids"} {
		if !slices.Contains(strings.Fields(string(b)), c) {
			missing = append(missing, c+" below "+dir)
		}
	}
	return missing, enable(dir, "memory", "pids")
}

// A holder is a unit of systemd with Delegate=yes that exists for the groups of
// programs alone: they stay when the daemon's own unit is restarted, which
// systemd refuses (219/CGROUP) while groups with processes are in it.

// holderLeaf is where the holder's own process goes: a group with processes
// cannot hand controllers to its children.
const holderLeaf = "holder"

// HolderOf returns the directory of a holder in cgroup v2, given its group
// ("/system.slice/berth-apps.service"), or an error that says why programs
// cannot be put there.
func HolderOf(h Host, group string) (string, error) {
	dir := filepath.Join(h.V2, filepath.Clean("/"+group))
	info, err := os.Stat(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist), err == nil && !info.IsDir(), dir == filepath.Clean(h.V2):
		return "", fmt.Errorf("cannot put programs in %s: it is not running", filepath.Base(dir))
	case err != nil:
		return "", fmt.Errorf("cannot put programs in %s: %w", filepath.Base(dir), err)
	case !delegated(dir):
		return "", fmt.Errorf("cannot put programs in %s: it has no Delegate=yes", filepath.Base(dir))
	}
	return dir, nil
}

// Has reports whether a tree of the name is, or was left, in a holder's directory.
func Has(holder, name string) bool {
	_, err := os.Stat(filepath.Join(holder, name, appsDir))
	return err == nil
}

// Held reports whether the tree is in a holder.
func (l *layout) Held() bool { return l.holder != "" }

// HolderLives reports whether the tree's holder still has its process. That it
// has none does no harm to programs while its unit is active; the unit's owner
// may want to know.
func (l *layout) HolderLives() bool {
	return l.holder == "" || populated(filepath.Join(l.holder, holderLeaf))
}

// Revive starts start in the group where the holder's process was: a unit
// without any process may lose its group.
func (l *layout) Revive(start func(group *os.File) error) error {
	leaf := filepath.Join(l.holder, holderLeaf)
	_ = unix.Rmdir(leaf) // a process that is born into a group that was killed may be killed at once
	if err := mkdir(leaf); err != nil {
		return fmt.Errorf("cannot mend the programs' unit: %w", err)
	}
	group, err := os.Open(leaf)
	if err != nil {
		return fmt.Errorf("cannot mend the programs' unit: %w", err)
	}
	defer func() { _ = group.Close() }()
	return start(group)
}

// keeperLeaf is beside the applications' groups, for a process of berth's own that
// is to live as long as they may.
const keeperLeaf = "keeper"

// Keeper makes the group for that process and opens its directory, which the
// caller closes. Close removes it once nothing is in it, and so does that of a
// later tree of the name.
func (l *layout) Keeper() (*os.File, error) {
	dir := filepath.Join(l.root, keeperLeaf)
	if err := mkdir(dir); err != nil {
		return nil, fmt.Errorf("cannot make a control group for the keeper: %w", err)
	}
	f, err := os.Open(dir)
	if err != nil {
		return nil, fmt.Errorf("cannot open the control group for the keeper: %w", err)
	}
	return f, nil
}

// populated reports whether there is a process in a group or below it.
func populated(dir string) bool {
	b, err := os.ReadFile(filepath.Join(dir, "cgroup.events"))
	return err == nil && strings.Contains("\n"+string(b), "\npopulated 1")
}
