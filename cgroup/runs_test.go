package cgroup

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func TestKernelGroupIsFresh(t *testing.T) {
	tree := openTree(t)
	create(t, tree, "apps/a/1", Limits{Memory: 32 << 20})
	if _, err := tree.Create("apps/a/1", Limits{Memory: 32 << 20}); !errors.Is(err, fs.ErrExist) {
		t.Errorf("a second Create gave %v, want that it exists", err)
	}
}

func TestKernelRunsOfOneApplicationDoNotCollide(t *testing.T) {
	tree := openTree(t)
	errs := make(chan error, 2)
	for _, kind := range []string{"build", "run"} {
		go func() {
			for n := range 200 {
				g, err := tree.Create(fmt.Sprintf("apps/a/%s-%d", kind, n), Limits{Memory: 64 << 20})
				if err == nil {
					err = g.Remove()
				}
				if err != nil {
					errs <- err
					return
				}
			}
			errs <- nil
		}()
	}
	if err := errors.Join(<-errs, <-errs); err != nil {
		t.Error(err)
	}
}

func TestKernelStartAfterKill(t *testing.T) {
	tree := openTree(t)
	for run := range 3 {
		g, err := tree.Create("apps/a/"+strconv.Itoa(run), Limits{Memory: 64 << 20})
		if err != nil {
			t.Fatal(err)
		}
		cmd := child(t, g, "exit 7")
		if err := cmd.Wait(); cmd.ProcessState.ExitCode() != 7 {
			t.Errorf("run %d ended with %v, want 7", run, err)
		}
		if err := errors.Join(g.Kill(), g.WaitEmpty(time.Second), g.Remove()); err != nil {
			t.Error(err)
		}
	}
}

func TestKernelSweep(t *testing.T) {
	tree := openTree(t)
	g, err := tree.Create("apps/a/1", Limits{Memory: 64 << 20})
	if err != nil {
		t.Fatal(err)
	}
	cmd := child(t, g, "sleep 600")
	if n, err := tree.Sweep(nil); n != 1 || err != nil {
		t.Fatalf("Sweep() = %d, %v; want 1 group", n, err)
	}
	_ = cmd.Wait()
	if _, err := os.Stat(g.path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the stale group is still there: %v", err)
	}
}

// A daemon that was killed while it made or removed a run leaves nothing either.
func TestSweepTakesEmptyDirectories(t *testing.T) {
	tree := openTree(t)
	for _, root := range tree.roots() {
		if err := os.Mkdir(filepath.Join(root, appsDir, "half"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if n, err := tree.Sweep(nil); n != 0 || err != nil {
		t.Errorf("Sweep() = %d, %v; want no group of a run", n, err)
	}
	for _, root := range tree.roots() {
		if _, err := os.Stat(filepath.Join(root, appsDir, "half")); err == nil {
			t.Errorf("it is left in %s", root)
		}
	}
}

// A daemon that was killed while it removed a group left it in some of the
// hierarchies, whichever.
func TestKernelSweepLooksInEveryHierarchy(t *testing.T) {
	tree := openTree(t)
	for i, kept := range tree.roots() {
		g, err := tree.Create(fmt.Sprintf("apps/a/%d", i), Limits{Memory: 64 << 20})
		if err != nil {
			t.Fatal(err)
		}
		for _, dir := range g.dirs {
			if strings.HasPrefix(dir, kept) {
				continue
			}
			if err := os.Remove(dir); err != nil {
				t.Fatal(err)
			}
		}
		if n, err := tree.Sweep(nil); n != 1 || err != nil {
			t.Errorf("Sweep() = %d, %v; want the group left in %s", n, err, kept)
		}
		if _, err := os.Stat(g.dirs[i]); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("it is still there: %v", err)
		}
		if err := g.Remove(); err != nil { // frees what it holds; nothing is left to remove
			t.Error(err)
		}
	}
}

func TestKernelCloseRemovesWhatAnEarlierDaemonMade(t *testing.T) {
	first := openTree(t)
	name := filepath.Base(first.root)
	second, err := Open(first.host, name)
	if err != nil {
		t.Fatal(err)
	}
	if err := second.Close(); err != nil {
		t.Fatal(err)
	}
	for _, dir := range first.roots() {
		if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s was left: %v", dir, err)
		}
	}
}

func TestKernelNoDescriptorOrGoroutineLeaks(t *testing.T) {
	tree := openTree(t)
	once := func(run int) {
		g, err := tree.Create("apps/a/"+strconv.Itoa(run), Limits{Memory: 64 << 20, OOMGroup: true})
		if err != nil {
			t.Fatal(err)
		}
		stop, err := g.OnOOM(func() {})
		if err != nil {
			t.Fatal(err)
		}
		_ = child(t, g, "true").Wait()
		stop()
		if err := errors.Join(g.Kill(), g.WaitEmpty(time.Second), g.Remove()); err != nil {
			t.Fatal(err)
		}
	}
	once(0)
	fds, routines := countFDs(t), runtime.NumGoroutine()
	for run := range 20 {
		once(run + 1)
	}
	poll(t, "descriptors and goroutines are back", func() bool {
		return countFDs(t) <= fds && runtime.NumGoroutine() <= routines
	})
}

func countFDs(t *testing.T) int {
	t.Helper()
	list, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(list)
}

func TestWaitEmptyOfARemovedGroup(t *testing.T) {
	g := &Group{path: filepath.Join(t.TempDir(), "gone")}
	if err := g.WaitEmpty(time.Second); err != nil {
		t.Errorf("WaitEmpty of a group that is gone: %v", err)
	}
	if err := g.Kill(); err != nil {
		t.Errorf("Kill of a group that is gone: %v", err)
	}
}

func TestEnableNamesTheController(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "cgroup.subtree_control")
	if err := os.WriteFile(file, []byte("memory pids\n"), 0o400); err != nil {
		t.Fatal(err)
	}
	if err := enable(dir, "memory", "pids"); err != nil {
		t.Errorf("controllers that are on: %v", err)
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	if err := enable(dir, "memory"); !errors.Is(err, unix.ENOENT) {
		t.Errorf("no such file: %v", err)
	}
}

func TestFreshDirectoryWhileItsParentGoes(t *testing.T) {
	parent := filepath.Join(t.TempDir(), "a")
	done := make(chan struct{})
	var others sync.WaitGroup
	others.Go(func() {
		for {
			select {
			case <-done:
				return
			default:
				_ = os.Mkdir(parent, 0o755)
				_ = os.Remove(parent) // refused while a run is in it
			}
		}
	})
	for n := range 5000 {
		dir := filepath.Join(parent, strconv.Itoa(n))
		if err := errors.Join(mkdirFresh(dir), os.Remove(dir)); err != nil {
			t.Errorf("run %d: %v", n, err)
			break
		}
	}
	close(done)
	others.Wait()
}
