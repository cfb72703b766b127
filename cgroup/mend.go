package cgroup

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Mend makes again what somebody else took away of the tree: its directories in
// every hierarchy in use and, on a unified host, the controllers on the way down
// to the runs. It returns what was missing, nil for nothing. A controller that
// comes back knows no limits: running groups get that of processes, pids, again,
// and MUST be given that of their memory. It is safe for concurrent use.
func (t *Tree) Mend(pids int64) (missing []string, err error) {
	t.mending.Lock()
	defer t.mending.Unlock()
	var errs []error
	for _, root := range t.roots() {
		apps := filepath.Join(root, appsDir)
		if _, err := os.Stat(apps); !errors.Is(err, fs.ErrNotExist) {
			continue
		}
		missing = append(missing, apps)
		errs = append(errs, os.MkdirAll(apps, 0o755))
	}
	if t.host.Mode == Unified {
		for _, dir := range t.handsDown() {
			lost, err := t.handDown(dir)
			missing, errs = append(missing, lost...), append(errs, err)
		}
		if len(missing) > 0 && pids > 0 {
			errs = append(errs, t.boundRuns(pids))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return missing, fmt.Errorf("cannot mend berth's control groups: %w", err)
	}
	return missing, nil
}

// handsDown are the directories that hand controllers to their children, from
// the top down.
func (t *Tree) handsDown() []string {
	apps := filepath.Join(t.root, appsDir)
	var dirs []string
	for dir := apps; dir != t.base && dir != filepath.Dir(dir); dir = filepath.Dir(dir) {
		dirs = append(dirs, dir)
	}
	dirs = append(dirs, t.base)
	slices.Reverse(dirs)
	each, _ := filepath.Glob(filepath.Join(apps, "*", "cgroup.subtree_control")) // the pattern is well-formed
	for _, file := range each {
		dirs = append(dirs, filepath.Dir(file))
	}
	return dirs
}

// boundRuns limits the processes of every run that has no limit.
func (t *Tree) boundRuns(pids int64) error {
	files, err := filepath.Glob(filepath.Join(t.root, appsDir, "*", "[0-9]*", "pids.max"))
	for _, file := range files {
		if b, problem := os.ReadFile(file); problem == nil && strings.TrimSpace(string(b)) == "max" {
			err = errors.Join(err, os.WriteFile(file, strconv.AppendInt(nil, pids, 10), 0))
		}
	}
	return err
}

// handDown hands the children of dir what they need and lack.
func (t *Tree) handDown(dir string) (missing []string, err error) {
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
