package cgroup

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
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
