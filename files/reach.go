package files

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
)

// Reachable reports the first parent of dataDir that other users cannot enter:
// programs run as users of their own and start inside the data directory. The
// error names it and the remedy. Parents that do not exist yet are fine.
func Reachable(dataDir string) error {
	abs, err := filepath.Abs(dataDir)
	if err != nil {
		return fmt.Errorf("cannot use %s as the data directory: %w", dataDir, err)
	}
	parents := parentsOf(abs)
	if real, err := filepath.EvalSymlinks(abs); err == nil {
		parents = append(parents, parentsOf(real)...)
	}
	for _, p := range parents {
		info, err := os.Stat(p)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return fmt.Errorf("cannot use %s as the data directory: %w", abs, err)
		}
		if info.Mode().Perm()&0o001 == 0 {
			return fmt.Errorf("cannot use %s as the data directory: programs run as their own users and cannot enter %s; "+
				"chmod o+x %s, or choose another directory with --data-dir", abs, p, p)
		}
	}
	return nil
}

// parentsOf returns the directories above path, the root first.
func parentsOf(path string) []string {
	var parents []string
	for p := filepath.Dir(path); ; p = filepath.Dir(p) {
		parents = append(parents, p)
		if p == filepath.Dir(p) {
			break
		}
	}
	slices.Reverse(parents)
	return parents
}
