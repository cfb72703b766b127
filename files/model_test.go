package files

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"berth/app"
)

// mess makes random entries in a random tree, with names from so few that they
// meet those that are there, as files, directories and links.
func mess(t *testing.T, r *rand.Rand, top string, n int) {
	t.Helper()
	for range n {
		path := top
		for range 1 + r.IntN(3) {
			path = filepath.Join(path, string(rune('a'+r.IntN(4))))
			if info, err := os.Lstat(path); err != nil || !info.IsDir() {
				break
			}
		}
		switch r.IntN(8) {
		case 0:
			must(t, os.RemoveAll(path))
		case 1:
			must(t, os.RemoveAll(path))
			must(t, os.Symlink(fmt.Sprint("to", r.IntN(9)), path))
		case 2, 3:
			must(t, os.RemoveAll(path))
			must(t, os.Mkdir(path, 0o755))
		case 4:
			if info, err := os.Lstat(path); err == nil && info.Mode()&os.ModeSymlink == 0 {
				must(t, os.Chmod(path, os.FileMode(0o700|r.IntN(64))))
			}
			continue
		default:
			if info, err := os.Lstat(path); err == nil && !info.Mode().IsRegular() {
				must(t, os.RemoveAll(path))
			}
			must(t, os.WriteFile(path, []byte(fmt.Sprint(r.IntN(99))), 0o644))
		}
		if _, err := os.Lstat(path); err == nil {
			must(t, os.Lchown(path, testUID, testUID))
		}
	}
}

// zipFiles picks random files for a ZIP out of the same few names, never a
// file where another needs a directory.
func zipFiles(r *rand.Rand) map[string]string {
	files := map[string]string{"keep-unwrapped": "x"}
	for range r.IntN(6) {
		name := string(rune('a' + r.IntN(4)))
		for r.IntN(2) == 0 {
			name += "/" + string(rune('a'+r.IntN(4)))
		}
		clash := false
		for other := range files {
			clash = clash || other == name || strings.HasPrefix(other, name+"/") || strings.HasPrefix(name, other+"/")
		}
		if !clash {
			files[name] = fmt.Sprint("zip", r.IntN(99))
		}
	}
	return files
}

// Whatever the live tree, the ZIP and the build are: when the program changes
// nothing meanwhile, Apply makes the live tree what the build directory was,
// and Undo, after a crash anywhere, what it was before.
func TestCommitsAtRandom(t *testing.T) {
	for seed := range uint64(120) {
		r := rand.New(rand.NewPCG(seed, 7))
		s := newMemoryStore(t)
		if seed%8 == 0 {
			s = newStore(t)
		}
		live := makeLive(t, s, nil)
		mess(t, r, live, 12)
		before := snapshot(t, live)
		files := zipFiles(r)
		stage := stageOf(t, s, files)
		build, err := s.BuildDir(stage), s.Prepare(t.Context(), stage, testID, testUID)
		must(t, err)
		holds(t, build, files)
		mess(t, r, build, r.IntN(12))
		want := snapshot(t, build)
		if r.IntN(3) == 0 {
			crashAt(s, r.IntN(10))
		}
		err = applied(s.Apply(t.Context(), stage, testID, testUID))
		switch {
		case err == nil:
			same(t, snapshot(t, live), want)
		case !errors.Is(err, errCrash):
			t.Fatalf("seed %d: %v", seed, err)
		}
		s.step = nil
		must(t, s.Settle(t.Context(), testID, testUID, nil))
		same(t, snapshot(t, live), before)
		must(t, s.Discard(stage))
		empty(t, s, "staging", "rollback")
		must(t, s.Close())
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}

// The plan for each kind of difference, as its verbs and paths.
func TestPlan(t *testing.T) {
	tests := []struct {
		name    string
		live    map[string]string
		zip     map[string]string
		build   func(t *testing.T, build string)
		program func(t *testing.T, live string)
		want    string
	}{
		{"nothing but the ZIP", map[string]string{"a": "x"}, map[string]string{"b": "y"}, nil, nil, "put b"},
		{"replaced", map[string]string{"a": "x"}, map[string]string{"a": "x"}, nil, nil, "put a over"},
		{"a directory moves whole", map[string]string{"a": "x"}, map[string]string{"d/e/f": "y", "d/g": "y"}, nil, nil, "put d/ of 3"},
		{"a known directory is entered", map[string]string{"d/a": "x"}, map[string]string{"d/b": "y"}, nil, nil, "put d/b"},
		{"a file becomes a directory", map[string]string{"d": "x"}, map[string]string{"d/b": "y"}, nil, nil, "put d/ of 1 over"},
		{"a directory becomes a file", map[string]string{"d/a": "x"}, map[string]string{"d": "y"}, nil, nil, "put d over"},
		{
			"deleted",
			map[string]string{"d/a": "x", "b": "y"},
			map[string]string{"z": "z"},
			func(t *testing.T, b string) { must(t, os.RemoveAll(b+"/d")) }, nil, "put z, del d/a, rmdir d",
		},
		{
			"deleted from the ZIP",
			map[string]string{"a": "x"},
			map[string]string{"a": "y", "z": "z"},
			func(t *testing.T, b string) { must(t, os.Remove(b+"/a")) }, nil, "put z, del a",
		},
		{
			"deleted by both",
			map[string]string{"a": "x"},
			map[string]string{"z": "z"},
			func(t *testing.T, b string) { must(t, os.Remove(b+"/a")) },
			func(t *testing.T, l string) { must(t, os.Remove(l+"/a")) }, "put z",
		},
		{
			"mode",
			map[string]string{"d/a": "x"},
			map[string]string{"z": "z"},
			func(t *testing.T, b string) { must(t, os.Chmod(b+"/d", 0o700)) }, nil, "mode d, put z",
		},
		{
			"touched",
			map[string]string{"a": "x"},
			map[string]string{"z": "z"},
			func(t *testing.T, b string) { must(t, os.Chtimes(b+"/a", time.Time{}, time.Unix(5, 0))) }, nil, "put a over, put z",
		},
		{
			"specials of a build stay behind",
			map[string]string{"a": "x"},
			map[string]string{"z": "z"},
			func(t *testing.T, b string) { must(t, mkfifo(b+"/p")) }, nil, "put z",
		},
		{
			"the program removed the directory",
			map[string]string{"d/a": "x", "d/e/b": "x"},
			map[string]string{"d/e/z": "z"},
			nil, func(t *testing.T, l string) { must(t, os.RemoveAll(l+"/d")) }, "mkdir d, mkdir d/e, put d/e/z",
		},
		{
			"the program removed another directory",
			map[string]string{"d/a": "x"},
			map[string]string{"z": "z"},
			nil, func(t *testing.T, l string) { must(t, os.RemoveAll(l+"/d")) }, "put z",
		},
		{
			"the program put a link there",
			map[string]string{"d/a": "x"},
			map[string]string{"d/z": "z"},
			nil,
			func(t *testing.T, l string) { must(t, errors.Join(os.RemoveAll(l+"/d"), os.Symlink("/etc", l+"/d"))) }, "put d/ of 2 over",
		},
		{
			"the program made a directory of a deleted file",
			map[string]string{"a": "x"},
			map[string]string{"z": "z"},
			func(t *testing.T, b string) { must(t, os.Remove(b+"/a")) },
			func(t *testing.T, l string) { must(t, errors.Join(os.Remove(l+"/a"), os.Mkdir(l+"/a", 0o755))) }, "put z",
		},
		{
			"the program was first",
			map[string]string{"a": "x"},
			map[string]string{"d/z": "z"},
			nil,
			func(t *testing.T, l string) { put(t, l, map[string]string{"d/mine": "x"}) }, "put d/z",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := newMemoryStore(t)
			live := makeLive(t, s, tt.live)
			stage := stageOf(t, s, merge(tt.zip))
			build, err := s.BuildDir(stage), s.Prepare(t.Context(), stage, testID, testUID)
			must(t, err)
			must(t, os.Remove(filepath.Join(build, "unwrapped")))
			if tt.build != nil {
				tt.build(t, build)
			}
			if tt.program != nil {
				tt.program(t, live)
			}
			before := snapshot(t, live)
			if got := planned(t, s, stage); got != tt.want {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
			must(t, applied(s.Apply(t.Context(), stage, testID, testUID)))
			must(t, s.Settle(t.Context(), testID, testUID, nil))
			same(t, snapshot(t, live), before)
		})
	}
}

// merge adds a file that keeps the ZIP from being all in one folder.
func merge(zip map[string]string) map[string]string {
	all := map[string]string{"unwrapped": "x"}
	for name, text := range zip {
		all[name] = text
	}
	return all
}

// planned writes the ops of a stage, in the order of their paths where the
// order does not matter.
func planned(t *testing.T, s *Store, stage app.Stage) string {
	t.Helper()
	live, err := s.live(testID)
	must(t, err)
	defer live.close()
	p, prepared := s.preparation(stage)
	src, err := s.tree(stage, prepared)
	must(t, err)
	defer src.close()
	ops, err := plan(t.Context(), src, live, p.was, newBudget(s.lim))
	must(t, err)
	var words []string
	for _, o := range ops {
		w := string(o.Do) + " " + string(o.Path)
		if o.Dir {
			w += fmt.Sprintf("/ of %d", len(o.Tree))
		}
		if o.Old {
			w += " over"
		}
		words = append(words, w)
	}
	// Directory order is the file system's; deletions come last by design.
	for i := range words {
		for j := i + 1; j < len(words) && (words[j][0] == 'p' || words[j][0] == 'm'); j++ {
			if words[j][4:] < words[i][4:] && words[i][0] != 'd' && !strings.HasPrefix(words[i], "mkdir") {
				words[i], words[j] = words[j], words[i]
			}
		}
	}
	return strings.Join(words, ", ")
}
