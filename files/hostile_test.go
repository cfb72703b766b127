package files

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"berth/app"
)

func mkfifo(path string) error { return syscall.Mkfifo(path, 0o644) }

// Each entry is swapped for a link to a secret after it was looked at and
// before it is opened: the moment a hostile program waits for.
func TestCopyWhileEntriesAreSwapped(t *testing.T) {
	needRoot(t)
	top := t.TempDir()
	secret := filepath.Join(top, "secret")
	put(t, secret, map[string]string{"key": "SECRET", "sub/key": "SECRET"})
	srcPath, dstPath := filepath.Join(top, "src"), filepath.Join(top, "dst")
	swaps := map[string]string{"file": "key", "dir": "sub", "fifo": "", "hard": "key", "plain": "-", "link": "-"}
	put(t, srcPath, map[string]string{"file": "x", "dir/key": "x", "fifo": "x", "hard": "x", "plain": "x", "link": "->nowhere"})
	must(t, os.Mkdir(dstPath, 0o755))
	chownAll(t, srcPath)
	open := func(path string) dir {
		fd, err := unix.Open(path, unix.O_RDONLY|unix.O_DIRECTORY, 0)
		must(t, err)
		return dir(fd)
	}
	src, dst := open(srcPath), open(dstPath)
	defer src.close()
	defer dst.close()
	c := copier{budget: &budget{entries: 100, paths: 1000}, owner: testUID, uid: testUID, race: func(name string) {
		path := filepath.Join(srcPath, name)
		target := swaps[name]
		if target == "-" || target == "" && name != "fifo" {
			return
		}
		must(t, os.RemoveAll(path))
		switch name {
		case "fifo":
			must(t, mkfifo(path))
		case "hard":
			must(t, os.Link(filepath.Join(secret, target), path))
		default:
			must(t, os.Symlink(filepath.Join(secret, target), path))
		}
	}}
	must(t, c.tree(t.Context(), src, dst, ".", 1))
	for name, what := range snapshot(t, dstPath) {
		if strings.Contains(what, "SECRET") {
			t.Errorf("%s: %s", name, what)
		}
	}
	holds(t, dstPath, map[string]string{"plain": "x", "file": "", "hard": "", "fifo": "", "dir/key": ""})
	if target, err := os.Readlink(filepath.Join(dstPath, "link")); target != "nowhere" {
		t.Errorf("link: %q, %v", target, err)
	}
	holds(t, secret, map[string]string{"key": "SECRET", "sub/key": "SECRET"})
}

// A program that swaps a directory for a link as fast as it can, while
// everything that walks the live tree does so.
func TestWalksWhileTheProgramSwaps(t *testing.T) {
	s := newStore(t)
	secret := filepath.Join(t.TempDir(), "secret")
	put(t, secret, map[string]string{"key": "SECRET"})
	live := makeLive(t, s, map[string]string{"a/key": "mine", "b": "mine"})
	must(t, os.Symlink(secret, filepath.Join(live, "x")))
	var stop atomic.Bool
	var wg sync.WaitGroup
	wg.Go(func() {
		a, x := filepath.Join(live, "a"), filepath.Join(live, "x")
		for !stop.Load() {
			_ = unix.Renameat2(unix.AT_FDCWD, a, unix.AT_FDCWD, x, unix.RENAME_EXCHANGE)
			_ = os.Remove(filepath.Join(live, "b"))
			_ = os.WriteFile(filepath.Join(live, "b"), []byte("again"), 0o644)
		}
	})
	for range 60 {
		stage := stageOf(t, s, map[string]string{"new": "x"})
		build, err := s.BuildDir(stage), s.Prepare(t.Context(), stage, testID, testUID)
		must(t, err)
		for name, what := range snapshot(t, build) {
			if strings.Contains(what, "SECRET") {
				t.Errorf("%s: %s", name, what)
			}
		}
		_, err = s.Used(t.Context(), testID)
		must(t, err)
		name, err := s.Backup(t.Context(), testID, nil, app.BackupRoom{})
		must(t, err)
		if data, _ := os.ReadFile(filepath.Join(s.root, "backups", name)); strings.Contains(string(data), "SECRET") {
			t.Error("the secret is in the backup")
		}
		if got, err := s.Files("", testID).Read("a/key", 10); err == nil && string(got) != "mine" {
			t.Errorf("read %q", got)
		}
		must(t, s.Discard(stage))
	}
	stop.Store(true)
	wg.Wait()
	holds(t, secret, map[string]string{"key": "SECRET"})
	must(t, s.Remove(t.Context(), testID))
	holds(t, secret, map[string]string{"key": "SECRET"})
}

// What belongs to others is neither copied nor given away.
func TestPrepareLeavesOthersFilesAlone(t *testing.T) {
	s := newStore(t)
	secret := filepath.Join(t.TempDir(), "secret")
	must(t, os.WriteFile(secret, []byte("SECRET"), 0o600))
	live := makeLive(t, s, map[string]string{"mine": "x", "link": "->" + secret})
	must(t, os.Link(secret, filepath.Join(live, "hard")))
	must(t, mkfifo(filepath.Join(live, "package.json")))
	sock, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	must(t, err)
	defer unix.Close(sock)
	stage := stageOf(t, s, map[string]string{"new": "x"})
	build, err := s.BuildDir(stage), s.Prepare(t.Context(), stage, testID, testUID)
	must(t, err)
	holds(t, build, map[string]string{"mine": "x", "hard": "", "package.json": "", "new": "x"})
	if target, err := os.Readlink(filepath.Join(build, "link")); target != secret {
		t.Errorf("the link: %q, %v", target, err)
	}
	info, err := os.Stat(secret)
	must(t, err)
	if uid := info.Sys().(*syscall.Stat_t).Uid; uid != 0 {
		t.Errorf("the secret belongs to %d now", uid)
	}
	must(t, applied(s.Apply(t.Context(), stage, testID, testUID)))
	holds(t, live, map[string]string{"hard": "SECRET", "new": "x"})
}

// deepTree makes n directories inside each other, deeper than any path.
func deepTree(t *testing.T, at string, n int) {
	t.Helper()
	fd, err := unix.Open(at, unix.O_RDONLY|unix.O_DIRECTORY, 0)
	must(t, err)
	d := dir(fd)
	for i := range n {
		must(t, unix.Mkdirat(int(d), "d", 0o700))
		if i == 3 {
			must(t, os.WriteFile(fmt.Sprintf("/proc/self/fd/%d/f", int(d)), []byte("x"), 0o600))
		}
		below, err := d.sub("d")
		must(t, err)
		d.close()
		d = below
	}
	d.close()
}

func TestRemove(t *testing.T) {
	s := newMemoryStore(t)
	outside := filepath.Join(filepath.Dir(s.root), "out")
	put(t, outside, map[string]string{"keep": "x"})
	live := makeLive(t, s, map[string]string{"link": "->" + outside, "shut/in/x": "x", "a": "x"})
	must(t, os.Link(filepath.Join(outside, "keep"), filepath.Join(live, "hard")))
	must(t, mkfifo(filepath.Join(live, "fifo")))
	must(t, os.Chmod(filepath.Join(live, "shut", "in"), 0))
	for i := range 3000 {
		must(t, os.WriteFile(filepath.Join(live, fmt.Sprintf("many%d", i)), nil, 0o400))
	}
	deepTree(t, live, 5000)
	must(t, os.MkdirAll(filepath.Join(s.root, "rollback", string(testID), "old"), 0o700))
	_, err := s.EnsureTemp(testID, false, testUID)
	must(t, err)
	// Far fewer descriptors than levels.
	var limit unix.Rlimit
	must(t, unix.Getrlimit(unix.RLIMIT_NOFILE, &limit))
	must(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 256, Max: limit.Max}))
	err = s.Remove(t.Context(), testID)
	must(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &limit))
	must(t, err)
	must(t, s.Remove(t.Context(), testID))
	empty(t, s, "apps", "rollback", "tmp", "staging")
	holds(t, outside, map[string]string{"keep": "x"})
}

func TestTooDeepToWalk(t *testing.T) {
	s := newMemoryStore(t)
	live := makeLive(t, s, map[string]string{"a": strings.Repeat("x", 5000)})
	deepTree(t, live, maxDepth+10)
	must(t, os.Lchown(filepath.Join(live, "d"), testUID, testUID))
	size, err := s.Used(t.Context(), testID)
	if err != nil || size.Bytes < 5000 || !size.Deep {
		t.Errorf("Size: %+v, %v", size, err)
	}
	// Deeper than a ZIP can hold is left out of it.
	if _, err = s.Backup(t.Context(), testID, nil, app.BackupRoom{}); err != nil {
		t.Errorf("Backup: %v", err)
	}
}
