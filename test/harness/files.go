package harness

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Files are the content of a ZIP, by name.
type Files map[string]string

// Config is a discloud.config.
func Config(lines ...string) string { return strings.Join(lines, "\n") + "\n" }

// NodeBot is the smallest application in JavaScript; lines are more of its config.
func NodeBot(code string, lines ...string) Files {
	return Files{"discloud.config": Config(append([]string{"TYPE=bot", "MAIN=index.js"}, lines...)...), "index.js": code}
}

// PythonBot is the smallest application in Python.
func PythonBot(code string, lines ...string) Files {
	return Files{"discloud.config": Config(append([]string{"TYPE=bot", "MAIN=main.py"}, lines...)...), "main.py": code}
}

// ShellBot is the smallest application in shell.
func ShellBot(code string, lines ...string) Files {
	return Files{"discloud.config": Config(append([]string{"TYPE=bot", "MAIN=start.sh"}, lines...)...), "start.sh": code}
}

// Programs that do nothing for long.
const (
	IdleNode   = "console.log('up'); setInterval(() => {}, 1e6)\n"
	IdlePython = "import signal\nprint('up')\nsignal.pause()\n"
	IdleShell  = "echo up; exec sleep 1000\n"
)

// With is a copy with one file more.
func (f Files) With(name, content string) Files {
	more := maps.Clone(f)
	more[name] = content
	return more
}

// Zip packs the files.
func (f Files) Zip() []byte { return Zip(f) }

// Snapshot is a tree as it is: names, modes, owners, content.
func Snapshot(t *testing.T, dir string) Files {
	t.Helper()
	f := Files{}
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		content := ""
		switch {
		case info.Mode().IsRegular():
			b, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			content = string(b)
		case info.Mode()&fs.ModeSymlink != 0:
			content, _ = os.Readlink(path)
		}
		rel, _ := filepath.Rel(dir, path)
		f[rel] = fmt.Sprintf("%v %v %s", info.Mode(), info.ModTime(), content)
		if info.IsDir() {
			f[rel] = info.Mode().String()
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// SameTree fails unless two snapshots are equal.
func SameTree(t *testing.T, got, want Files) {
	t.Helper()
	for name := range maps.Keys(want) {
		if got[name] != want[name] {
			t.Errorf("%s is %q, want %q", name, got[name], want[name])
		}
	}
	for name := range maps.Keys(got) {
		if _, known := want[name]; !known {
			t.Errorf("%s is there, and was not before", name)
		}
	}
}

// Write makes a file that programs can read.
func Write(t *testing.T, path, content string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}

// List returns the names in a directory, none of one that is not there.
func List(t *testing.T, dir string) (names []string) {
	t.Helper()
	all, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	for _, e := range all {
		names = append(names, e.Name())
	}
	return names
}

// Exists reports whether a file matches the pattern.
func Exists(t *testing.T, pattern string) bool {
	t.Helper()
	found, err := filepath.Glob(pattern)
	if err != nil {
		t.Fatal(err)
	}
	return len(found) > 0
}
