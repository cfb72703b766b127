package files

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"berth/app"
)

var errCrash = errors.New("crash")

// crashAt makes the n-th step fail, counted from 0, and returns a counter.
func crashAt(s *Store, n int) *int {
	count := 0
	s.step = func(string) error {
		if count == n {
			return errCrash
		}
		count++
		return nil
	}
	return &count
}

// odd is a file name that no JSON holds: not UTF-8, with a quote in it.
const odd = "odd\xff\"\\name"

// scene makes a live tree, a commit that meets every kind of obstacle in it, a
// build with changes of its own and a program that goes on meanwhile. It
// returns the live tree and the prepared stage.
func scene(t *testing.T, s *Store) (live string, stage app.Stage) {
	t.Helper()
	live = makeLive(t, s, map[string]string{
		"app.js": "old", "same": "same", "data/db": "rows", "run.sh": "echo old",
		"dir2file/x": "x", "dir2file/deep/y": "y", "file2dir": "file", "link": "->/etc",
		"gone/one": "1", "gone/two": "2", "partly/one": "1", "modes/x": "x", odd: "odd",
		"moved/a": "a", "turned/a": "a", "lib/index.js": "v1", "lib/rest": "r",
	})
	must(t, os.Chmod(filepath.Join(live, "run.sh"), 0o750))
	must(t, os.Chtimes(filepath.Join(live, "app.js"), time.Unix(1e9, 5), time.Unix(1e9, 5)))
	must(t, mkfifo(filepath.Join(live, "pipe")))
	stage = stageOf(t, s, map[string]string{
		"app.js": "new", "fresh/deep/er": "new", "dir2file": "file now", "file2dir/a": "new", "link/x": "new", "pipe": "new",
		"moved/new": "new", "turned/new": "new", "lib/index.js": "v2", "lib/old": "temporary",
	})
	build, err := s.BuildDir(stage), s.Prepare(t.Context(), stage, testID, testUID)
	must(t, err)
	// The build.
	put(t, build, map[string]string{"node_modules/x/index.js": "x", "node_modules/.bin/x": "->../x/index.js", odd + "2": "o"})
	must(t, os.WriteFile(filepath.Join(build, "run.sh"), []byte("echo new"), 0o750))
	must(t, os.Chmod(filepath.Join(build, "modes"), 0o700))
	must(t, mkfifo(filepath.Join(build, "node_modules", "left")))
	for _, name := range []string{"gone", "partly", odd, "lib/old", "lib/rest"} {
		must(t, os.RemoveAll(filepath.Join(build, name)))
	}
	chownAll(t, filepath.Join(build, "node_modules"))
	chownAll(t, filepath.Join(build, odd+"2"))
	// The program, at the same time.
	put(t, live, map[string]string{"partly/mine": "program", "data/more": "rows"})
	must(t, os.RemoveAll(filepath.Join(live, "moved")))
	must(t, os.RemoveAll(filepath.Join(live, "turned")))
	put(t, live, map[string]string{"turned": "a file now"})
	must(t, os.WriteFile(filepath.Join(live, "same"), []byte("changed by the program"), 0o644))
	chownAll(t, live)
	return live, stage
}

func TestApply(t *testing.T) {
	s := newStore(t)
	live, stage := scene(t, s)
	done, err := s.Apply(t.Context(), stage, testID, testUID)
	must(t, err)
	if done.Bytes == 0 {
		t.Error("the journal takes nothing")
	}
	good := []string{done.Journal}
	holds(t, live, map[string]string{
		"app.js": "new", "same": "changed by the program", "data/db": "rows", "data/more": "rows", "run.sh": "echo new",
		"dir2file": "file now", "file2dir/a": "new", "link/x": "new", "pipe": "new", "gone/one": "", "gone/two": "",
		"partly/one": "", "partly/mine": "program", "modes/x": "x", odd: "", odd + "2": "o", "moved/new": "new", "moved/a": "",
		"turned/new": "new", "fresh/deep/er": "new", "node_modules/x/index.js": "x", "lib/index.js": "v2", "lib/rest": "", "lib/old": "",
	})
	for name, want := range map[string]bool{"gone": false, "partly": true} {
		if _, err := os.Lstat(filepath.Join(live, name)); (err == nil) != want {
			t.Errorf("%s: %v", name, err)
		}
	}
	if info, err := os.Stat(filepath.Join(live, "modes")); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("modes: %v, %v", info, err)
	}
	if target, err := os.Readlink(filepath.Join(live, "node_modules/.bin/x")); target != "../x/index.js" {
		t.Errorf("link: %q, %v", target, err)
	}
	for name, what := range snapshot(t, live) {
		if !strings.Contains(what, "54321:54321") {
			t.Errorf("%q: %s", name, what)
		}
	}
	if !s.Pending(testID, nil) || s.Pending(testID, good) {
		t.Error("the journal is not pending")
	}
	second := stageOf(t, s, map[string]string{"a": "x"})
	if err := applied(s.Apply(t.Context(), second, testID, testUID)); app.KindOf(err) != app.Conflict {
		t.Errorf("a second commit over a pending one: %v", err)
	}
	for range 2 {
		must(t, s.Settle(t.Context(), testID, testUID, good))
		if s.Pending(testID, nil) {
			t.Error("the journal is still pending")
		}
	}
	must(t, s.Settle(t.Context(), testID, testUID, nil)) // kept, then forgotten: nothing is undone
	must(t, errors.Join(s.Discard(stage), s.Discard(second)))
	empty(t, s, "rollback", "staging")
	holds(t, live, map[string]string{"app.js": "new"})
}

// Undo after a crash before each step of Apply gives the very tree there was.
func TestUndoFromEveryCrash(t *testing.T) {
	for n := 0; ; n++ {
		s := newMemoryStore(t)
		live, stage := scene(t, s)
		before := snapshot(t, live)
		crashAt(s, n)
		err := applied(s.Apply(t.Context(), stage, testID, testUID))
		if err != nil && !errors.Is(err, errCrash) {
			t.Fatal(err)
		}
		again := openStore(t, s.root) // what is on disk is all there is
		if pending := again.Pending(testID, nil); pending != (n > 0) {
			t.Errorf("step %d: pending %v", n, pending)
		}
		_, swept := again.Sweep(t.Context(), []app.ID{testID}, nil)
		must(t, swept)
		for range 2 {
			must(t, again.Settle(t.Context(), testID, testUID, nil))
			same(t, snapshot(t, live), before)
		}
		empty(t, again, "rollback", "staging")
		if t.Failed() {
			t.Fatalf("after a crash before step %d", n)
		}
		if err == nil {
			t.Logf("%d steps", n)
			return
		}
	}
}

// Undo itself may crash before each of its steps and is done again.
func TestUndoFromEveryCrashOfUndo(t *testing.T) {
	for n := 0; ; n++ {
		s := newMemoryStore(t)
		live, stage := scene(t, s)
		before := snapshot(t, live)
		must(t, applied(s.Apply(t.Context(), stage, testID, testUID)))
		crashAt(s, n)
		err := s.Settle(t.Context(), testID, testUID, nil)
		if err != nil && !errors.Is(err, errCrash) {
			t.Fatal(err)
		}
		again := openStore(t, s.root)
		must(t, again.Settle(t.Context(), testID, testUID, nil))
		same(t, snapshot(t, live), before)
		empty(t, again, "rollback")
		if t.Failed() {
			t.Fatalf("after a crash before step %d", n)
		}
		if err == nil {
			t.Logf("%d steps", n)
			return
		}
	}
}

// The program ran for a while between Apply and Undo.
func TestUndoKeepsWhatTheProgramMade(t *testing.T) {
	s := newStore(t)
	live, stage := scene(t, s)
	before := snapshot(t, live)
	must(t, applied(s.Apply(t.Context(), stage, testID, testUID)))
	put(t, live, map[string]string{"fresh/log": "mine", "top": "mine", "gone/one": "again"})
	must(t, os.WriteFile(filepath.Join(live, "app.js"), []byte("edited"), 0o644))
	// A file of the commit that the program replaced is the program's now.
	must(t, os.WriteFile(filepath.Join(live, "node_modules", "tmp"), []byte("saved"), 0o644))
	must(t, os.Rename(filepath.Join(live, "node_modules", "tmp"), filepath.Join(live, "node_modules", "x", "index.js")))
	must(t, os.RemoveAll(filepath.Join(live, "lib")))
	must(t, os.Symlink("/etc", filepath.Join(live, "lib")))
	chownAll(t, live)
	must(t, s.Settle(t.Context(), testID, testUID, nil))
	holds(t, live, map[string]string{
		"fresh/log": "mine", "top": "mine", "gone/one": "1", "app.js": "old", "lib/index.js": "v1", "lib/rest": "r", "fresh/deep/er": "",
		"node_modules/x/index.js": "saved",
	})
	if _, err := os.Stat("/etc/index.js"); err == nil {
		t.Error("written through a link")
	}
	after := snapshot(t, live)
	for _, name := range []string{"fresh", "fresh/log", "top", "node_modules", "node_modules/x", "node_modules/x/index.js"} {
		delete(after, name)
	}
	same(t, after, before)
}

func TestApplyWithoutPrepare(t *testing.T) {
	s := newStore(t)
	live := makeLive(t, s, map[string]string{"a": "old", "keep": "k", "dir/x": "x"})
	before := snapshot(t, live)
	stage := stageOf(t, s, map[string]string{"a": "new", "dir/y": "y", "more/z": "z"})
	must(t, applied(s.Apply(t.Context(), stage, testID, testUID)))
	holds(t, live, map[string]string{"a": "new", "keep": "k", "dir/x": "x", "dir/y": "y", "more/z": "z"})
	for name, what := range snapshot(t, live) {
		if !strings.Contains(what, "54321:54321") {
			t.Errorf("%q: %s", name, what)
		}
	}
	must(t, s.Settle(t.Context(), testID, testUID, nil))
	same(t, snapshot(t, live), before)
}

func TestApplyThroughLinkedParents(t *testing.T) {
	s := newStore(t)
	outside := filepath.Join(t.TempDir(), "out")
	put(t, outside, map[string]string{"x": "keep"})
	live := makeLive(t, s, map[string]string{"src/x": "old", "top": "->" + filepath.Join(outside, "x")})
	stage := stageOf(t, s, map[string]string{"src/x": "new", "src/sub/y": "new", "top": "new"})
	must(t, os.RemoveAll(filepath.Join(live, "src")))
	must(t, os.Symlink(outside, filepath.Join(live, "src")))
	chownAll(t, live)
	before := snapshot(t, live)
	must(t, applied(s.Apply(t.Context(), stage, testID, testUID)))
	holds(t, live, map[string]string{"src/x": "new", "src/sub/y": "new", "top": "new"})
	holds(t, outside, map[string]string{"x": "keep", "sub/y": ""})
	must(t, s.Settle(t.Context(), testID, testUID, nil))
	same(t, snapshot(t, live), before)
	holds(t, outside, map[string]string{"x": "keep"})
}

func TestPrepare(t *testing.T) {
	s := newStore(t)
	live := makeLive(t, s, map[string]string{"a": "old", "run": "x", "l": "->a", "d/e/f": "f", "void/": ""})
	must(t, os.Chmod(filepath.Join(live, "run"), 0o4751))
	must(t, os.Chmod(filepath.Join(live, "d"), 0o711))
	must(t, os.Chtimes(filepath.Join(live, "run"), time.Unix(1e9, 0), time.Unix(1e9, 123)))
	sparse, err := os.Create(filepath.Join(live, "sparse"))
	must(t, err)
	_, err = sparse.WriteAt([]byte("end"), 1<<40)
	must(t, errors.Join(err, sparse.Truncate(1<<40+100), sparse.Close()))
	must(t, os.Lchown(filepath.Join(live, "sparse"), testUID, testUID))
	stage := stageOf(t, s, map[string]string{"a": "new", "d/e/g": "g"})
	build, err := s.BuildDir(stage), s.Prepare(t.Context(), stage, testID, testUID)
	must(t, err)
	if build != filepath.Join(s.root, "staging", string(stage), "build") {
		t.Errorf("at %s", build)
	}
	info, err := os.Stat(filepath.Join(build, "sparse"))
	if err != nil || info.Size() != 1<<40+100 {
		t.Fatalf("sparse: %v, %v", info, err)
	}
	must(t, errors.Join(os.Remove(filepath.Join(live, "sparse")), os.Remove(filepath.Join(build, "sparse"))))
	want := snapshot(t, live)
	want["run"] = strings.Replace(want["run"], "urwxr-x--x", "-rwxr-x--x", 1)
	got := snapshot(t, build)
	for _, name := range []string{"a", "d/e/g"} {
		if !strings.Contains(got[name], "54321:54321") {
			t.Errorf("%s: %s", name, got[name])
		}
		delete(got, name)
		delete(want, name)
	}
	same(t, got, want)
	for dir, mode := range map[string]os.FileMode{filepath.Dir(build): 0o711, build: 0o700} {
		if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != mode {
			t.Errorf("%s: %v, %v", dir, info, err)
		}
	}
	err = s.Prepare(t.Context(), stage, testID, testUID) // again begins anew
	must(t, err)
	holds(t, build, map[string]string{"a": "new", "sparse": ""})
	if err := s.Prepare(cancelled(t), stage, testID, testUID); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	if err := s.Prepare(t.Context(), stage, "nobody", testUID); app.KindOf(err) != app.NotFound {
		t.Errorf("no such application: %v", err)
	}
}

// A build that rewrites a file at once, keeping its size, is noticed.
func TestPrepareNoticesQuickBuilds(t *testing.T) {
	s := newStore(t)
	files := make(map[string]string)
	for i := range 50 {
		files[fmt.Sprintf("f%d", i)] = "old"
	}
	live := makeLive(t, s, files)
	stage := stageOf(t, s, map[string]string{"zip": "new"})
	build, err := s.BuildDir(stage), s.Prepare(t.Context(), stage, testID, testUID)
	must(t, err)
	for name := range files {
		f, err := os.OpenFile(filepath.Join(build, name), os.O_WRONLY, 0)
		must(t, err)
		_, err = f.WriteString("new")
		must(t, errors.Join(err, f.Close()))
		files[name] = "new"
	}
	must(t, applied(s.Apply(t.Context(), stage, testID, testUID)))
	holds(t, live, files)
}

func TestUndoWithoutAJournal(t *testing.T) {
	s := newStore(t)
	live := makeLive(t, s, map[string]string{"a": "x"})
	before := snapshot(t, live)
	must(t, s.Settle(t.Context(), testID, testUID, nil))
	must(t, os.MkdirAll(filepath.Join(s.root, "rollback", string(testID), "old"), 0o700)) // no plan yet
	must(t, s.Settle(t.Context(), testID, testUID, nil))
	same(t, snapshot(t, live), before)
	empty(t, s, "rollback")
	bad := filepath.Join(s.root, "rollback", string(testID))
	put(t, bad, map[string]string{"plan": "{not json", "old/": ""})
	if err := s.Settle(t.Context(), testID, testUID, nil); err == nil {
		t.Error("a damaged plan was taken")
	}
	must(t, s.Remove(t.Context(), testID))
	must(t, s.Settle(t.Context(), testID, testUID, nil))
}

func TestUndoOfARemovedApplication(t *testing.T) {
	s := newStore(t)
	live, stage := scene(t, s)
	must(t, applied(s.Apply(t.Context(), stage, testID, testUID)))
	must(t, os.RemoveAll(live))
	must(t, s.Settle(t.Context(), testID, testUID, nil))
	empty(t, s, "rollback")
}
