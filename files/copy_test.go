package files

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"berth/app"
)

// pair opens a source that holds data and an empty target.
func pair(t *testing.T, data []byte) (from, to *os.File) {
	t.Helper()
	top := t.TempDir()
	must(t, os.WriteFile(filepath.Join(top, "from"), data, 0o600))
	from, err := os.Open(filepath.Join(top, "from"))
	must(t, err)
	to, err = os.Create(filepath.Join(top, "to"))
	must(t, err)
	t.Cleanup(func() { from.Close(); to.Close() })
	return from, to
}

func random(n int) []byte {
	r := rand.New(rand.NewPCG(1, uint64(n)))
	data := make([]byte, n)
	for i := range data {
		data[i] = byte(r.Uint32())
	}
	return data
}

// A copy has the same bytes, and stops where the file does when it has become
// shorter than it was.
func TestCopyRange(t *testing.T) {
	c := new(copier)
	for _, size := range []int{0, 1, 4096, 300 << 10, piece + 5} {
		data := random(size)
		from, to := pair(t, data)
		n, err := c.copyRange(t.Context(), from, to, 0, int64(size))
		got, rerr := os.ReadFile(to.Name())
		if n != int64(size) || err != nil || rerr != nil || !bytes.Equal(got, data) {
			t.Errorf("of %d: %d, %v, equal %v", size, n, err, bytes.Equal(got, data))
		}
	}
	from, to := pair(t, random(1000))
	if n, err := c.copyRange(t.Context(), from, to, 0, 5000); n != 1000 || err != nil {
		t.Errorf("of a file that shrank: %d, %v", n, err)
	}
	if n, err := c.copyRange(cancelled(t), from, to, 0, 1000); n != 0 || !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %d, %v", n, err)
	}
}

func TestCopyKeepsHoles(t *testing.T) {
	from, to := pair(t, nil)
	path := from.Name()
	want := random(10000)
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	must(t, err)
	for _, off := range []int64{0, 5 << 20, 40 << 20} {
		_, err := f.WriteAt(want, off)
		must(t, err)
	}
	size := int64(64 << 20)
	must(t, errors.Join(f.Truncate(size), f.Close()))
	c := copier{noClone: true}
	must(t, c.data(t.Context(), from, to, size))
	a, err := os.ReadFile(path)
	must(t, err)
	b, err := os.ReadFile(to.Name())
	must(t, err)
	if !bytes.Equal(a, b) {
		t.Error("the copy differs")
	}
	var st unix.Stat_t
	must(t, unix.Stat(to.Name(), &st))
	if st.Blocks*512 > 1<<20 {
		t.Errorf("%d bytes on disk", st.Blocks*512)
	}
}

// A file that grows is copied up to the size it had.
func TestCopyBoundsGrowingFiles(t *testing.T) {
	data := random(5000)
	from, to := pair(t, data)
	c := copier{noClone: true}
	must(t, c.data(t.Context(), from, to, 3000))
	got, err := os.ReadFile(to.Name())
	if err != nil || !bytes.Equal(got, data[:3000]) {
		t.Errorf("%d bytes, %v", len(got), err)
	}
}

// Names of one file stay names of one in the copy that a commit is built in: it takes
// no more than the tree. What of them changed is still seen.
func TestPrepareKeepsNamesTogether(t *testing.T) {
	s := newStore(t)
	live := makeLive(t, s, map[string]string{"a": strings.Repeat("x", 1<<20), "d/": "", "kept/one": "1", "same": "old"})
	for n := range 300 {
		must(t, os.Link(filepath.Join(live, "a"), filepath.Join(live, "d", fmt.Sprint(n))))
	}
	must(t, os.Link(filepath.Join(live, "kept/one"), filepath.Join(live, "kept/two")))
	must(t, os.Link(filepath.Join(live, "kept/one"), filepath.Join(live, "gone")))
	must(t, os.Link(filepath.Join(live, "same"), filepath.Join(live, "again")))
	before, err := s.Used(t.Context(), testID)
	must(t, err)
	stage := stageOf(t, s, map[string]string{"d/7": "new", "kept/one": "new"})
	build, err := s.BuildDir(stage), s.Prepare(t.Context(), stage, testID, testUID)
	must(t, err)
	after, err := s.After(t.Context(), stage, testID)
	if err != nil || after.Bytes > before.Bytes+100<<10 {
		t.Errorf("the copy takes %+v, the tree %+v, %v", after, before, err)
	}
	holds(t, build, map[string]string{"d/7": "new", "kept/one": "new", "kept/two": "1"})
	// The build writes by one name what has two, and removes another of three.
	must(t, os.WriteFile(filepath.Join(build, "same"), []byte("built"), 0o644))
	must(t, os.Remove(filepath.Join(build, "gone")))
	// The program writes what neither has touched.
	must(t, os.WriteFile(filepath.Join(live, "kept/two"), []byte("the program's"), 0o644))
	must(t, os.WriteFile(filepath.Join(live, "d/8"), []byte("the program's"), 0o644))
	must(t, applied(s.Apply(t.Context(), stage, testID, testUID)))
	holds(t, live, map[string]string{
		"d/7": "new", "kept/one": "new", "kept/two": "the program's", "d/8": "the program's", "a": "the program's", "same": "built", "again": "built", "gone": "",
	})
}

// A tree that is larger than the room there is does not take the room.
func TestPrepareHeedsTheRoom(t *testing.T) {
	s := onTmpfs(t, "size=256m")
	s.SetFloor(64 << 20)
	live := makeLive(t, s, map[string]string{"a": ""})
	for n := range 10 {
		must(t, os.WriteFile(filepath.Join(live, fmt.Sprint(n)), make([]byte, 12<<20), 0o644))
	}
	chownAll(t, live)
	stage := stageOf(t, s, map[string]string{"new": "x"})
	if err := s.Prepare(t.Context(), stage, testID, testUID); app.KindOf(err) != app.NoSpace || !strings.Contains(err.Error(), "nearly full") {
		t.Errorf("%v", err)
	}
	var st unix.Statfs_t
	must(t, unix.Statfs(s.root, &st))
	if free := int64(st.Bavail) * st.Bsize; free < 64<<20-checkEvery-piece {
		t.Errorf("%d MB are free", free>>20)
	}
	must(t, s.Discard(stage))
}

func TestManifestNoticesEveryChange(t *testing.T) {
	top := t.TempDir()
	d := openDir(t, top)
	changes := map[string]func(path string) error{
		"content": func(p string) error { return os.WriteFile(p, []byte("new"), 0o644) },
		"mode":    func(p string) error { return os.Chmod(p, 0o600) },
		"replaced": func(p string) error {
			return errors.Join(os.WriteFile(p+"2", []byte("old"), 0o644), os.Rename(p+"2", p))
		},
		"linked": func(p string) error { return errors.Join(os.Remove(p), os.Symlink("x", p)) },
		"longer": func(p string) error { return os.Truncate(p, 100) },
	}
	for name := range changes {
		put(t, top, map[string]string{name: "old", name + "-kept": "old"})
	}
	m, err := record(t.Context(), d)
	must(t, err)
	must(t, passTick(t.Context(), d))
	for name, change := range changes {
		must(t, change(filepath.Join(top, name)))
		st, err := d.stat(name)
		must(t, err)
		if !m.changed(name, &st) {
			t.Errorf("%s: not noticed", name)
		}
		if st, err = d.stat(name + "-kept"); err != nil || m.changed(name+"-kept", &st) {
			t.Errorf("%s: its neighbour counts as changed, %v", name, err)
		}
		m.touch(name + "-kept")
		if !m.changed(name+"-kept", &st) {
			t.Errorf("%s: touched, but not changed", name)
		}
	}
	m.touch("unknown")
	if _, ok := m["unknown"]; ok {
		t.Error("touch invented an entry")
	}
	if err := passTick(cancelled(t), d); err == nil {
		t.Log("the tick passed before the context was looked at")
	}
	left, err := filepath.Glob(filepath.Join(top, "????????????????????????????????"))
	if err != nil || len(left) != 0 {
		t.Errorf("left: %v, %v", left, err)
	}
}
