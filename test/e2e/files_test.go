package e2e

import (
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"berth/test/harness"
)

// files are the content of a ZIP, by name.
type files map[string]string

// config is a discloud.config.
func config(lines ...string) string { return strings.Join(lines, "\n") + "\n" }

// nodeBot, pythonBot and shellBot are the smallest applications.
func nodeBot(code string, lines ...string) files {
	return files{"discloud.config": config(append([]string{"TYPE=bot", "MAIN=index.js"}, lines...)...), "index.js": code}
}

func pythonBot(code string, lines ...string) files {
	return files{"discloud.config": config(append([]string{"TYPE=bot", "MAIN=main.py"}, lines...)...), "main.py": code}
}

func shellBot(code string, lines ...string) files {
	return files{"discloud.config": config(append([]string{"TYPE=bot", "MAIN=start.sh"}, lines...)...), "start.sh": code}
}

// Programs that do nothing for long.
const (
	idleNode   = "console.log('up'); setInterval(() => {}, 1e6)\n"
	idlePython = "import signal\nprint('up')\nsignal.pause()\n"
	idleShell  = "echo up; exec sleep 1000\n"
)

// with is a copy with one file more.
func (f files) with(name, content string) files {
	more := maps.Clone(f)
	more[name] = content
	return more
}

// zip packs the files.
func (f files) zip() []byte { return harness.Zip(f) }

// example reads one of the examples.
func example(t *testing.T, name string) files {
	t.Helper()
	f := files{}
	root := os.DirFS("../../examples/" + name)
	err := fs.WalkDir(root, ".", func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		content, err := fs.ReadFile(root, path)
		f[path] = string(content)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// snapshot is a tree as it is: names, modes, owners, content.
func snapshot(t *testing.T, dir string) files {
	t.Helper()
	f := files{}
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

// sameTree fails unless two snapshots are equal.
func sameTree(t *testing.T, got, want files) {
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

// write makes a file that programs can read.
func write(t *testing.T, path, content string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}

// exists reports whether a file matches the pattern.
func exists(t *testing.T, pattern string) bool {
	t.Helper()
	found, err := filepath.Glob(pattern)
	if err != nil {
		t.Fatal(err)
	}
	return len(found) > 0
}
