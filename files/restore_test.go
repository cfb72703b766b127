package files

import (
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"berth/app"
)

// A restore leaves what the ZIP holds and what preparations made, and nothing
// else of the program's user; undone, everything is back.
func TestRestore(t *testing.T) {
	for _, good := range []bool{true, false} {
		s := newStore(t)
		live := makeLive(t, s, map[string]string{
			"main.js": "now", "extra": "x", "data/db": "rows", "data/more": "rows", "link": "->/etc/passwd", "deep/er/x": "x",
			"package.json":   "{}",
			"node_modules/p": "p", "node_modules/.package-lock.json": "{}", "void/": "", "target/mine": "no Cargo made this",
		})
		put(t, live, map[string]string{"foreign": "root's"})
		must(t, mkfifo(filepath.Join(live, "pipe")))
		must(t, os.Lchown(filepath.Join(live, "pipe"), testUID, testUID))
		before := snapshot(t, live)
		stage := stageOf(t, s, map[string]string{"main.js": "then", "data/db": "old rows", "deep": "a file"})
		files := s.Remains(stage, testID)
		for name, want := range map[string]bool{"main.js": true, "extra": false, "package.json": false, "node_modules/.package-lock.json": true, "target/mine": false, "deep/er/x": false} {
			if files.Exists(name) != want {
				t.Errorf("Exists(%s) is %t", name, !want)
			}
		}
		if text, err := files.Read("node_modules/p", 9); string(text) != "p" {
			t.Errorf("read %q, %v", text, err)
		}
		if _, err := files.Read("extra", 9); err == nil || files.Brought("node_modules/p") || !files.Brought("main.js") {
			t.Error("what goes away is there, or what stays was brought")
		}
		must(t, s.PrepareRestore(t.Context(), stage, testID, testUID))
		put(t, live, map[string]string{"late": "made while it was prepared"})
		must(t, os.Lchown(filepath.Join(live, "late"), testUID, testUID))
		done, err := s.Apply(t.Context(), stage, testID, testUID)
		must(t, err)
		got := snapshot(t, live)
		delete(got, ".")
		for name := range maps.Clone(got) {
			if strings.HasPrefix(name, "node_modules") {
				delete(got, name)
			}
		}
		for _, name := range []string{"main.js", "data", "data/db", "deep", "foreign"} {
			if _, ok := got[name]; !ok {
				t.Errorf("%s is gone", name)
			}
			delete(got, name)
		}
		if len(got) != 0 {
			t.Errorf("left: %v", got)
		}
		holds(t, live, map[string]string{"main.js": "then", "data/db": "old rows", "deep": "a file", "node_modules/p": "p"})
		if good {
			must(t, s.Settle(t.Context(), testID, testUID, []string{done.Journal}))
			back, stays, err := s.Rollback(t.Context(), testID, testUID, []string{done.Journal})
			must(t, err)
			_, err = s.Apply(t.Context(), back, testID, testUID)
			must(t, err)
			holds(t, live, map[string]string{"main.js": "now", "extra": "x", "data/more": "rows", "late": "made while it was prepared", "deep/er/x": "x"})
			if len(stays) != 0 {
				t.Errorf("stays: %v", stays)
			}
			continue
		}
		must(t, s.Settle(t.Context(), testID, testUID, nil))
		after := snapshot(t, live)
		delete(after, "late")
		same(t, after, before)
	}
}

func TestRestoreErrors(t *testing.T) {
	s := newStore(t)
	stage := stageOf(t, s, map[string]string{"a": "x"})
	if err := s.PrepareRestore(t.Context(), stage, testID, testUID); app.KindOf(err) != app.NotFound {
		t.Errorf("no application: %v", err)
	}
	makeLive(t, s, map[string]string{"a": "x"})
	if err := s.PrepareRestore(t.Context(), app.Stage(strings.Repeat("0", 32)), testID, testUID); err == nil {
		t.Error("no stage: prepared")
	}
	if err := s.PrepareRestore(cancelled(t), stage, testID, testUID); err == nil {
		t.Error("cancelled: prepared")
	}
}
