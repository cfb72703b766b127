package files

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"berth/app"
	"berth/files/bundle"
)

// testUID owns the trees of the tests; no account needs to exist.
const testUID = 54321

// anything is a judge that refuses no config.
func anything(app.Config) error { return nil }

const testID = app.ID("my-app")

// newStore opens a store in a fresh data directory that closes with the test.
func newStore(t testing.TB) *Store {
	t.Helper()
	return openStore(t, filepath.Join(t.TempDir(), "data"))
}

// newMemoryStore is newStore without a disk that other tests make wait for its
// syncs, where the machine has one. It is for tests that commit many times; some
// must go on with newStore, for a disk numbers its files in another way.
func newMemoryStore(t testing.TB) *Store {
	t.Helper()
	const memory = "/dev/shm"
	if _, err := os.Stat(memory); err != nil {
		return newStore(t)
	}
	top, err := os.MkdirTemp(memory, "berth-files-") //nolint:usetesting // t.TempDir is on the disk
	must(t, err)
	t.Cleanup(func() { must(t, os.RemoveAll(top)) })
	return openStore(t, filepath.Join(top, "data"))
}

func needRoot(t testing.TB) {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("needs root: files are given to other users")
	}
}

func openStore(t testing.TB, path string) *Store {
	t.Helper()
	needRoot(t)
	s, err := Open(path, bundle.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// applied is the error of Apply.
func applied(_ app.Applied, err error) error { return err }

// onlyError is the error of a call with another result.
func onlyError[T any](_ T, err error) error { return err }

// text returns the message a user would read.
func text(err error) string {
	var e *app.Error
	if errors.As(err, &e) {
		return e.Message.String()
	}
	return ""
}

// put writes files below dir. A name that ends in / is a directory, a text
// that begins with -> a link.
func put(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		path := filepath.Join(dir, name)
		if strings.HasSuffix(name, "/") {
			must(t, os.MkdirAll(path, 0o755))
			continue
		}
		must(t, os.MkdirAll(filepath.Dir(path), 0o755))
		if target, ok := strings.CutPrefix(text, "->"); ok {
			must(t, os.Symlink(target, path))
		} else {
			must(t, os.WriteFile(path, []byte(text), 0o644))
		}
	}
}

// chownAll gives everything below dir to the tests' user.
func chownAll(t testing.TB, dir string) {
	t.Helper()
	must(t, filepath.WalkDir(dir, func(p string, _ fs.DirEntry, err error) error {
		return errors.Join(err, os.Lchown(p, testUID, testUID))
	}))
}

// makeLive makes a live tree as Publish would.
func makeLive(t *testing.T, s *Store, files map[string]string) string {
	t.Helper()
	dir := s.Dir(testID)
	must(t, os.Mkdir(dir, 0o700))
	put(t, dir, files)
	chownAll(t, dir)
	return dir
}

// zipOf writes a ZIP of the files into staging and returns its path.
func zipOf(t testing.TB, s *Store, files map[string]string) string {
	t.Helper()
	var b bytes.Buffer
	w := bundle.NewWriter(&b)
	names := make([]string, 0, len(files))
	for name := range files {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		must(t, w.AddFile(name, false, time.Time{}, int64(len(files[name])), strings.NewReader(files[name])))
	}
	must(t, w.Close())
	file, err := s.Spool(t.Context(), &b, 1<<30)
	must(t, err)
	return file
}

// stageOf unpacks a ZIP of the files.
func stageOf(t testing.TB, s *Store, files map[string]string) app.Stage {
	t.Helper()
	file := zipOf(t, s, files)
	up, err := s.Unpack(t.Context(), file, nil, anything)
	must(t, err)
	must(t, s.DropSpool(file))
	return up.Stage
}

// snapshot describes everything below dir: names, types, modes, owners,
// contents, and the times of files.
func snapshot(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := make(map[string]string)
	must(t, filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		st := info.Sys().(*syscall.Stat_t)
		what := fmt.Sprintf("%v %d:%d", info.Mode(), st.Uid, st.Gid)
		switch {
		case info.Mode().IsRegular():
			data, err := os.ReadFile(p)
			if err != nil {
				return err
			}
			what += fmt.Sprintf(" %v %q", info.ModTime().UnixNano(), data)
		case info.Mode()&fs.ModeSymlink != 0:
			target, err := os.Readlink(p)
			if err != nil {
				return err
			}
			what += " -> " + target
		}
		rel, err := filepath.Rel(dir, p)
		all[rel] = what
		return err
	}))
	return all
}

// same compares two snapshots.
func same(t *testing.T, got, want map[string]string) {
	t.Helper()
	for name, w := range want {
		if g, ok := got[name]; !ok {
			t.Errorf("%q is missing, was %s", name, w)
		} else if g != w {
			t.Errorf("%q\n got %s\nwant %s", name, g, w)
		}
	}
	for name, g := range got {
		if _, ok := want[name]; !ok {
			t.Errorf("%q is new: %s", name, g)
		}
	}
}

// empty fails unless one of the store's directories holds nothing.
func empty(t *testing.T, s *Store, names ...string) {
	t.Helper()
	for _, name := range names {
		left, err := os.ReadDir(filepath.Join(s.root, name))
		if err != nil || len(left) != 0 {
			t.Errorf("left in %s: %v, %v", name, left, err)
		}
	}
}

// holds fails unless the files of dir have the texts; "" means absent.
func holds(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	for name, want := range files {
		got, err := os.ReadFile(filepath.Join(dir, name))
		if string(got) != want || (err == nil) != (want != "") {
			t.Errorf("%s: %q, %v; want %q", name, got, err, want)
		}
	}
}

// cancelled is a context that has ended.
func cancelled(t *testing.T) context.Context {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	return ctx
}
