package files

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"berth/app"
)

// past is the history of one application in a test.
type past struct {
	t    testing.TB
	s    *Store
	live string
	good []string // journals, oldest first
}

func newPast(t *testing.T, files map[string]string) *past {
	s := newMemoryStore(t)
	return &past{t: t, s: s, live: makeLive(t, s, files)}
}

// record applies a stage and records it.
func (p *past) record(stage app.Stage) {
	p.t.Helper()
	done, err := p.s.Apply(p.t.Context(), stage, testID, testUID)
	must(p.t, err)
	p.good = append(p.good, done.Journal)
	must(p.t, p.s.Settle(p.t.Context(), testID, testUID, p.good))
	must(p.t, p.s.Discard(stage))
}

// commit lays files over the tree, and deletes others as a build would.
func (p *past) commit(files map[string]string, deleted ...string) {
	p.t.Helper()
	stage := stageOf(p.t, p.s, merge(files))
	build, err := p.s.BuildDir(stage), p.s.Prepare(p.t.Context(), stage, testID, testUID)
	must(p.t, err)
	for _, name := range deleted {
		must(p.t, os.RemoveAll(filepath.Join(build, name)))
	}
	p.record(stage)
}

// back takes the last n commits back, as a commit of its own, and returns what
// stays.
func (p *past) back(n int) []string {
	p.t.Helper()
	journals := slices.Clone(p.good[len(p.good)-n:])
	slices.Reverse(journals)
	stage, stays, err := p.s.Rollback(p.t.Context(), testID, testUID, journals)
	must(p.t, err)
	p.record(stage)
	slices.Sort(stays)
	return stays
}

// program changes the tree as the program would, at another time than any
// commit.
func (p *past) program(files map[string]string) {
	p.t.Helper()
	for name, text := range files {
		path := filepath.Join(p.live, name)
		if text == "" {
			must(p.t, os.RemoveAll(path))
			continue
		}
		must(p.t, os.MkdirAll(filepath.Dir(path), 0o755))
		must(p.t, os.WriteFile(path, []byte(text), 0o644))
		must(p.t, os.Chtimes(path, time.Now(), time.Now().Add(time.Hour)))
	}
	chownAll(p.t, p.live)
}

func TestRollback(t *testing.T) {
	p := newPast(t, map[string]string{"main.js": "1", "lib/a.js": "1", "gone/b": "1", "data.json": "seed"})
	first := snapshot(t, p.live)
	p.commit(map[string]string{"main.js": "2", "new/deep/c": "2"}, "gone")
	second := snapshot(t, p.live)
	p.commit(map[string]string{"main.js": "3", "lib/a.js": "3", "gone/again": "3"}, "new")
	third := snapshot(t, p.live)
	if stays := p.back(1); len(stays) != 0 {
		t.Errorf("stays: %v", stays)
	}
	same(t, snapshot(t, p.live), second)
	if stays := p.back(3); len(stays) != 0 { // the rollback itself, the third and the second
		t.Errorf("stays: %v", stays)
	}
	same(t, snapshot(t, p.live), first)
	p.back(1)
	same(t, snapshot(t, p.live), second)
	p.back(3)
	same(t, snapshot(t, p.live), third)
	must(t, p.s.Settle(t.Context(), testID, testUID, nil))
	empty(t, p.s, "rollback", "staging")
}

// What the program made or changed is never touched, and told.
func TestRollbackLeavesTheProgramsData(t *testing.T) {
	p := newPast(t, map[string]string{"main.js": "1", "config": "1", "own.db": "rows", "lost.js": "1", "dir/x": "1"})
	p.commit(map[string]string{"main.js": "2", "config": "2", "seed.json": "[]", "lib/a": "2", "lib/b": "2", "lost.js": "2", "turned": "2"}, "dir")
	p.program(map[string]string{
		"own.db": "more rows", "seed.json": "[1]", "config": "edited", "lib/cache": "mine", "lib/b": "edited", "new.db": "mine",
		"lost.js": "", "dir/x": "mine", "turned": "",
	})
	p.program(map[string]string{"turned/x": "mine"})
	stays := p.back(1)
	holds(t, p.live, map[string]string{
		"main.js": "1", "own.db": "more rows", "seed.json": "[1]", "config": "edited", "lib/a": "", "lib/b": "edited",
		"lib/cache": "mine", "new.db": "mine", "lost.js": "1", "dir/x": "mine", "turned/x": "mine",
	})
	want := []string{"config", "dir/x", "lib", "lib/b", "seed.json", "turned"}
	if !slices.Equal(stays, want) {
		t.Errorf("stays %v, want %v", stays, want)
	}
	p.back(1) // and forth again
	holds(t, p.live, map[string]string{"main.js": "2", "config": "edited", "lib/a": "2", "lib/cache": "mine", "lost.js": "", "own.db": "more rows"})
}

// A program that is as hostile as it can be gets nothing of others, and loses
// nothing to a link.
func TestRollbackThroughLinks(t *testing.T) {
	p := newPast(t, map[string]string{"src/a": "1", "top": "1"})
	outside := filepath.Join(t.TempDir(), "out")
	put(t, outside, map[string]string{"a": "keep", "b": "keep"})
	p.commit(map[string]string{"src/a": "2", "src/b": "2", "top": "2"})
	must(t, errors.Join(os.RemoveAll(filepath.Join(p.live, "src")), os.Symlink(outside, filepath.Join(p.live, "src"))))
	must(t, errors.Join(os.Remove(filepath.Join(p.live, "top")), os.Symlink(filepath.Join(outside, "a"), filepath.Join(p.live, "top"))))
	chownAll(t, p.live)
	if stays := p.back(1); !slices.Equal(stays, []string{"src/a", "top"}) {
		t.Errorf("stays %v", stays)
	}
	holds(t, outside, map[string]string{"a": "keep", "b": "keep"})
	if to, err := os.Readlink(filepath.Join(p.live, "src")); to != outside {
		t.Errorf("the program's link: %q, %v", to, err)
	}
}

func TestRollbackErrors(t *testing.T) {
	p := newPast(t, map[string]string{"a": "1"})
	p.commit(map[string]string{"a": "2"})
	for _, journals := range [][]string{{strings.Repeat("0", 32)}, {"../x"}, {p.good[0] + openExt}} {
		_, _, err := p.s.Rollback(t.Context(), testID, testUID, journals)
		if app.KindOf(err) != app.NotFound || text(err) != "the way back to this deploy is not kept any more" {
			t.Errorf("%v: %v", journals, err)
		}
	}
	if _, _, err := p.s.Rollback(t.Context(), "nobody", testUID, p.good); app.KindOf(err) != app.NotFound {
		t.Errorf("no application: %v", err)
	}
	if _, _, err := p.s.Rollback(cancelled(t), testID, testUID, p.good); err == nil {
		t.Error("cancelled: a stage")
	}
	empty(t, p.s, "staging")
	holds(t, p.live, map[string]string{"a": "2"})
}

// A rollback is a commit: a crash anywhere leaves the one or the other.
func TestRollbackFromEveryCrash(t *testing.T) {
	for n := 0; ; n++ {
		p := newPast(t, map[string]string{"main.js": "1", "lib/a.js": "1", "gone/b": "1"})
		p.commit(map[string]string{"main.js": "2", "new/deep/c": "2"}, "gone")
		p.program(map[string]string{"data": "mine"})
		before := snapshot(t, p.live)
		stage, _, err := p.s.Rollback(t.Context(), testID, testUID, p.good)
		must(t, err)
		crashAt(p.s, n)
		_, err = p.s.Apply(t.Context(), stage, testID, testUID)
		again := openStore(t, p.s.root)
		must(t, again.Settle(t.Context(), testID, testUID, p.good))
		same(t, snapshot(t, p.live), before)
		if t.Failed() {
			t.Fatalf("after a crash before step %d", n)
		}
		if err == nil {
			return
		}
		p.s = again
		_, err = again.Sweep(t.Context(), []app.ID{testID}, nil)
		must(t, err)
		p.back(1) // what was kept is enough to try again
		holds(t, p.live, map[string]string{"main.js": "1", "gone/b": "1", "new/deep/c": "", "data": "mine"})
	}
}

// model is what a tree is to be: of each file its text, and whose it is.
type model map[string]string

// Whatever commits, writes of the program and rollbacks come after each other:
// the program's files are never touched, and the code is the one of the deploy
// that was asked for.
func TestRollbacksAtRandom(t *testing.T) {
	for seed := range uint64(20) {
		r := rand.New(rand.NewPCG(seed, 3))
		p := newPast(t, map[string]string{"unwrapped": "x", "code/a": "0"})
		code := []model{{"unwrapped": "x", "code/a": "0"}} // after each deploy
		data := model{}
		for step := range 25 {
			switch n := r.IntN(4); {
			case n == 0:
				name := fmt.Sprintf("%s/data%d", []string{"code", "code/b", "data"}[r.IntN(3)], r.IntN(4))
				data[name] = fmt.Sprintf("%d of %d", step, seed)
				if r.IntN(4) == 0 {
					data[name] = ""
				}
				p.program(map[string]string{name: data[name]})
				if data[name] == "" {
					delete(data, name)
				}
			case n == 1 && len(p.good) > 0:
				back := 1 + r.IntN(len(p.good))
				if stays := p.back(back); len(stays) != 0 && !slices.ContainsFunc(stays, func(path string) bool { return strings.HasPrefix(path, "code") }) {
					t.Errorf("stays: %v", stays)
				}
				code = append(code, code[len(code)-1-back])
			default:
				next := model{}
				for name, text := range code[len(code)-1] {
					next[name] = text
				}
				files, deleted := map[string]string{}, []string{}
				for range 1 + r.IntN(4) {
					name := "code/" + []string{"a", "b/c", "b/d", "e/f/g", "e/h"}[r.IntN(5)]
					if _, there := next[name]; there && r.IntN(3) == 0 && files[name] == "" {
						deleted = append(deleted, name)
						delete(next, name)
						continue
					}
					if !slices.Contains(deleted, name) {
						files[name] = fmt.Sprint("v", step)
						next[name] = files[name]
					}
				}
				next["unwrapped"] = "x"
				p.commit(files, deleted...)
				code = append(code, next)
			}
			p.check(code[len(code)-1], data)
			if t.Failed() {
				t.Fatalf("seed %d, step %d", seed, step)
			}
		}
		must(t, p.s.Close())
	}
}

// check compares the files with a model.
func (p *past) check(code, data model) {
	p.t.Helper()
	got := model{}
	must(p.t, filepath.WalkDir(p.live, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(path)
		rel, _ := filepath.Rel(p.live, path)
		got[rel] = string(b)
		return err
	}))
	for _, want := range []model{code, data} {
		for name, text := range want {
			if got[name] != text {
				p.t.Errorf("%s is %q, want %q", name, got[name], text)
			}
			delete(got, name)
		}
	}
	for name, text := range got {
		p.t.Errorf("%s is there: %q", name, text)
	}
}

// A commit that an older berth had begun is undone as well, wherever the move of
// its journal to its new place was cut short.
func TestJournalsOfAnOlderBerth(t *testing.T) {
	for moved := range 4 {
		s := newStore(t)
		live, stage := scene(t, s)
		before := snapshot(t, live)
		done, err := s.Apply(t.Context(), stage, testID, testUID)
		must(t, err)
		top := filepath.Join(s.root, "rollback", string(testID))
		there := filepath.Join(top, done.Journal+openExt)
		must(t, os.Mkdir(filepath.Join(there, trashName), 0o700))
		to := filepath.Join(top, strings.Repeat("0", 32)+openExt)
		must(t, os.Mkdir(to, 0o700))
		for n, part := range []string{oldName, trashName, planName} {
			place := top
			if n < moved {
				place = to
			}
			must(t, os.Rename(filepath.Join(there, part), filepath.Join(place, part)))
		}
		must(t, os.Remove(there))
		if !s.Pending(testID, nil) {
			t.Errorf("%d moved: it is not pending", moved)
		}
		must(t, s.Settle(t.Context(), testID, testUID, nil))
		same(t, snapshot(t, live), before)
		empty(t, s, "rollback")
	}
}

// Every point where a crash can leave something between is named, and passed by
// some test.
func TestEveryPointIsKnown(t *testing.T) {
	passed := map[string]bool{}
	count := func(s *Store) {
		s.Hook(func(point string) error {
			if !slices.Contains(Points, point) {
				t.Errorf("%q is not among the points", point)
			}
			passed[point] = true
			return nil
		})
	}
	for _, keep := range []bool{true, false} {
		s := newStore(t)
		_, stage := scene(t, s)
		_, err := s.Over(t.Context(), stage, testID, "", true)
		must(t, err)
		count(s)
		done, err := s.Apply(t.Context(), stage, testID, testUID)
		must(t, err)
		var good []string
		if keep {
			good = []string{done.Journal}
		}
		must(t, s.Settle(t.Context(), testID, testUID, good))
	}
	for _, point := range Points {
		if !passed[point] {
			t.Errorf("%q was never passed", point)
		}
	}
}
