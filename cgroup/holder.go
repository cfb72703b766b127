package cgroup

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

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
	_ = unix.Rmdir(leaf) // whoever is born into a group that was killed may be killed at once
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
