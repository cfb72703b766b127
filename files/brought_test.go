package files

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"berth/app"
	"berth/files/bundle"
)

// deploys is a past whose commits know what deploys brought.
type deploys struct {
	*past
	lists []string // of each deploy, oldest first
}

// newDeploys begins with a first deploy.
func newDeploys(t testing.TB, files map[string]string) *deploys {
	t.Helper()
	s := newMemoryStore(t)
	d := &deploys{past: &past{t: t, s: s}}
	stage := stageOf(t, s, merge(files))
	list, err := s.Publish(t.Context(), stage, testID, testUID)
	must(t, err)
	d.live, d.lists = s.Dir(testID), []string{list}
	return d
}

// over makes a stage that is laid over the newest deploy.
func (d *deploys) over(files map[string]string, exact bool) app.Stage {
	d.t.Helper()
	stage := stageOf(d.t, d.s, merge(files))
	_, err := d.s.Over(d.t.Context(), stage, testID, d.lists[len(d.lists)-1], exact)
	must(d.t, err)
	return stage
}

// apply applies a stage and records it.
func (d *deploys) apply(stage app.Stage) app.Applied {
	d.t.Helper()
	done, err := d.s.Apply(d.t.Context(), stage, testID, testUID)
	must(d.t, err)
	d.keep(done.Journal, done.Brought)
	must(d.t, d.s.Discard(stage))
	return done
}

// keep records a deploy.
func (d *deploys) keep(journal, list string) {
	d.t.Helper()
	d.good, d.lists = append(d.good, journal), append(d.lists, list)
	must(d.t, d.s.Settle(d.t.Context(), testID, testUID, d.named()))
}

func (d *deploys) named() []string { return slices.Concat(d.good, d.lists) }

// rollback takes the last n commits back.
func (d *deploys) rollback(n int) []string {
	d.t.Helper()
	journals := slices.Clone(d.good[len(d.good)-n:])
	slices.Reverse(journals)
	stage, stays, err := d.s.Rollback(d.t.Context(), testID, testUID, journals)
	must(d.t, err)
	done, err := d.s.Apply(d.t.Context(), stage, testID, testUID)
	must(d.t, err)
	d.keep(done.Journal, d.lists[len(d.lists)-1-n])
	must(d.t, d.s.Discard(stage))
	return stays
}

// What an earlier deploy brought goes, and what the program made or changed stays; the
// way back is exact to the byte.
func TestExact(t *testing.T) {
	for _, built := range []bool{false, true} {
		d := newDeploys(t, map[string]string{
			"discloud.config": "MAIN=main.js", "main.js": "1", "old.js": "1", "lib/a.js": "1", "lib/b.js": "1", "gone/deep/x": "1",
			"edited.json": "{}", "removed": "1", "data/seed": "1", "half/code.js": "1", "Case.js": "1", "turned": "1", "dir/x": "1",
		})
		d.program(map[string]string{
			"edited.json": `{"a":1}`, "removed": "", "data/rows": "mine", "half/cache": "mine", "own": "mine", "turned": "",
		})
		put(t, d.live, map[string]string{"turned": "->/etc/passwd", "node_modules/p/index.js": "p", "empty/": ""})
		chownAll(t, d.live)
		must(t, os.Chmod(filepath.Join(d.live, "gone"), 0o750))
		d.apply(d.over(map[string]string{"late.js": "2", "data/more": "2"}, false)) // an overlay in between
		before := snapshot(t, d.live)
		stage := d.over(map[string]string{"main.js": "3", "lib/a.js": "3", "case.js": "3", "dir": "a file"}, true)
		if built {
			must(t, d.s.Prepare(t.Context(), stage, testID, testUID))
			build := d.s.BuildDir(stage)
			holds(t, build, map[string]string{
				"old.js": "", "gone/deep/x": "", "late.js": "", "data/seed": "", "edited.json": `{"a":1}`, "own": "mine", "main.js": "3",
				"discloud.config": "MAIN=main.js",
			})
			if _, err := os.Lstat(filepath.Join(build, "gone")); err == nil {
				t.Error("the build sees a directory that goes")
			}
			put(t, build, map[string]string{"out/made": "3", "late.js": "the build's now"})
			chownAll(t, build)
		}
		done := d.apply(stage)
		late, removed := "", 8
		if built {
			late, removed = "the build's now", 7
		}
		holds(t, d.live, map[string]string{
			"discloud.config": "MAIN=main.js", "main.js": "3", "lib/a.js": "3", "case.js": "3", "dir": "a file", "unwrapped": "x",
			"old.js": "", "lib/b.js": "", "gone/deep/x": "", "data/seed": "", "data/more": "", "half/code.js": "", "Case.js": "", "late.js": late,
			"edited.json": `{"a":1}`, "data/rows": "mine", "half/cache": "mine", "own": "mine", "node_modules/p/index.js": "p",
		})
		for name, want := range map[string]bool{"gone": false, "gone/deep": false, "half": true, "data": true, "empty": true, "turned": true} {
			if _, err := os.Lstat(filepath.Join(d.live, name)); (err == nil) != want {
				t.Errorf("%s: %v", name, err)
			}
		}
		slices.Sort(done.Stays)
		if done.Removed != removed || done.Unknown || !slices.Equal(done.Stays, []string{"edited.json", "turned"}) {
			t.Errorf("removed %d of %d, unknown %t, stays %v", done.Removed, removed, done.Unknown, done.Stays)
		}
		if stays := d.rollback(1); len(stays) != 0 {
			t.Errorf("stays: %v", stays)
		}
		same(t, snapshot(t, d.live), before)
		if again := d.apply(d.over(map[string]string{"main.js": "3"}, true)); again.Removed < 8 {
			t.Errorf("after a rollback %d are removed", again.Removed)
		}
		holds(t, d.live, map[string]string{"lib/a.js": "", "late.js": "", "own": "mine", "main.js": "3"})
		must(t, d.s.Close())
	}
}

// What nobody kept a list for is not removed, and once it is said.
func TestExactWithoutAList(t *testing.T) {
	for name, spoil := range map[string]func(t *testing.T, d *deploys, list string){
		"from before": func(_ *testing.T, d *deploys, _ string) { d.lists = []string{""} },
		"lost":        func(t *testing.T, _ *deploys, list string) { must(t, os.Remove(list)) },
		"cut short":   func(t *testing.T, _ *deploys, list string) { must(t, os.Truncate(list, 40)) },
		"of a newer": func(t *testing.T, _ *deploys, list string) {
			must(t, os.WriteFile(list, []byte("berth-brought-9\n"), 0o600))
		},
		"climbing": func(t *testing.T, _ *deploys, list string) {
			must(t, os.WriteFile(list, []byte("berth-brought-1 true 1\nfalse 1 1 \"../../x\"\n"), 0o600))
		},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDeploys(t, map[string]string{"main.js": "1", "old.js": "1"})
			spoil(t, d, filepath.Join(d.s.root, "rollback", string(testID), d.lists[0]+listExt))
			d.apply(d.over(map[string]string{"middle.js": "2"}, false))
			done := d.apply(d.over(map[string]string{"main.js": "3"}, true))
			if done.Removed != 1 || !done.Unknown {
				t.Errorf("removed %d, unknown %t", done.Removed, done.Unknown)
			}
			holds(t, d.live, map[string]string{"main.js": "3", "old.js": "1", "middle.js": ""})
			if done = d.apply(d.over(map[string]string{"last.js": "4"}, true)); done.Removed != 1 || done.Unknown {
				t.Errorf("the next: removed %d, unknown %t", done.Removed, done.Unknown)
			}
			holds(t, d.live, map[string]string{"main.js": "", "old.js": "1", "last.js": "4"})
		})
	}
}

// The list of a first deploy holds what the ZIP brought as its build left it.
func TestRelist(t *testing.T) {
	d := newDeploys(t, map[string]string{"package.json": "1", "lock": "1", "temp": "1", "dir/x": "1"})
	put(t, d.live, map[string]string{"lock": "changed by the build", "out/made": "x"})
	must(t, errors.Join(os.Remove(filepath.Join(d.live, "temp")), os.RemoveAll(filepath.Join(d.live, "dir"))))
	put(t, d.live, map[string]string{"dir": "a file of the build"})
	chownAll(t, d.live)
	list, err := d.s.Relist(t.Context(), testID, d.lists[0])
	must(t, err)
	d.lists = []string{list}
	if names, err := os.ReadDir(filepath.Join(d.s.root, "rollback", string(testID))); err != nil || len(names) != 1 {
		t.Errorf("lists: %v, %v", names, err)
	}
	done := d.apply(d.over(map[string]string{"package.json": "2"}, true))
	if done.Removed != 1 || len(done.Stays) != 0 {
		t.Errorf("%+v", done)
	}
	holds(t, d.live, map[string]string{"lock": "", "out/made": "x", "dir": "a file of the build", "package.json": "2"})
	if _, err := d.s.Relist(t.Context(), "nobody", list); app.KindOf(err) != app.NotFound {
		t.Errorf("no application: %v", err)
	}
	if _, err := d.s.Relist(cancelled(t), testID, d.lists[1]); err == nil {
		t.Error("cancelled: a list")
	}
}

// The files that a plan looks at are those that there will be.
func TestOverShowsWhatWillBe(t *testing.T) {
	d := newDeploys(t, map[string]string{"main.js": "1", "old.js": "1", "edited": "1", "dir/x": "1"})
	d.program(map[string]string{"edited": "more", "own": "mine"})
	stage := stageOf(t, d.s, map[string]string{"new.js": "2", "dir": "file"})
	for _, exact := range []bool{false, true} {
		files, err := d.s.Over(t.Context(), stage, testID, d.lists[0], exact)
		must(t, err)
		for name, want := range map[string]bool{"new.js": true, "main.js": !exact, "./old.js": !exact, "edited": true, "own": true, "dir": true, "dir/x": false} {
			if files.Exists(name) != want {
				t.Errorf("exact %t: %s exists: %t", exact, name, !want)
			}
		}
	}
	if _, err := d.s.Over(t.Context(), "../x", testID, "", true); err == nil {
		t.Error("no stage: files")
	}
	if _, err := d.s.Over(t.Context(), stage, "nobody", "", true); app.KindOf(err) != app.NotFound {
		t.Errorf("no application: %v", err)
	}
	if _, err := d.s.Over(cancelled(t), stage, testID, d.lists[0], true); err == nil {
		t.Error("cancelled: files")
	}
}

// exactScene is a prepared exact commit that meets every obstacle, over a deploy.
func exactScene(t *testing.T) (*deploys, app.Stage) {
	t.Helper()
	d := newDeploys(t, map[string]string{"main": "1", "gone/deep/x": "1", "gone/y": "1", "half/x": "1", "edited": "1", "turned/x": "1", "odd\u2028é name": "1"})
	d.program(map[string]string{"half/mine": "m", "edited": "more", "own": "m"})
	stage := d.over(map[string]string{"main": "2", "turned": "a file", "fresh/deep": "2"}, true)
	must(t, d.s.Prepare(t.Context(), stage, testID, testUID))
	put(t, d.s.BuildDir(stage), map[string]string{"out/made": "2"})
	chownAll(t, d.s.BuildDir(stage))
	return d, stage
}

// A crash before any step leaves the tree of before, or the new one when the records
// name it, and no list that they do not name.
func TestExactFromEveryCrash(t *testing.T) {
	for n := 0; ; n++ {
		d, stage := exactScene(t)
		before := snapshot(t, d.live)
		crashAt(d.s, n)
		_, err := d.s.Apply(t.Context(), stage, testID, testUID)
		if err != nil && !errors.Is(err, errCrash) {
			t.Fatal(err)
		}
		again := openStore(t, d.s.root)
		for range 2 {
			must(t, again.Settle(t.Context(), testID, testUID, d.named()))
			same(t, snapshot(t, d.live), before)
		}
		names, lerr := os.ReadDir(filepath.Join(d.s.root, "rollback", string(testID)))
		if lerr != nil || len(names) != 1 || names[0].Name() != d.lists[0]+listExt {
			t.Errorf("beside the live tree: %v, %v", names, lerr)
		}
		if t.Failed() {
			t.Fatalf("after a crash before step %d", n)
		}
		must(t, d.s.Close())
		if err == nil {
			t.Logf("%d steps", n)
			return
		}
	}
}

// The same in the undo, and after the record.
func TestExactFromEveryCrashOfSettle(t *testing.T) {
	for _, good := range []bool{false, true} {
		for n := 0; ; n++ {
			d, stage := exactScene(t)
			want := snapshot(t, d.live)
			done, err := d.s.Apply(t.Context(), stage, testID, testUID)
			must(t, err)
			named := d.named()
			if good {
				want, named = snapshot(t, d.live), []string{done.Journal, done.Brought} // the first is dropped
			}
			crashAt(d.s, n)
			err = d.s.Settle(t.Context(), testID, testUID, named)
			if err != nil && !errors.Is(err, errCrash) {
				t.Fatal(err)
			}
			again := openStore(t, d.s.root)
			must(t, again.Settle(t.Context(), testID, testUID, named))
			same(t, snapshot(t, d.live), want)
			for _, list := range []string{d.lists[0], done.Brought} {
				if b := again.readList(testID, list); b.whole != slices.Contains(named, list) {
					t.Errorf("list %s: whole %t", list, b.whole)
				}
			}
			if t.Failed() {
				t.Fatalf("good %t, after a crash before step %d", good, n)
			}
			must(t, d.s.Close())
			if err == nil {
				break
			}
		}
	}
}

// What the program changes between the plan and the step itself stays.
func TestExactWhileTheProgramWrites(t *testing.T) {
	d := newDeploys(t, map[string]string{"a": "1", "b": "1", "c": "1"})
	stage := d.over(map[string]string{"main": "2"}, true)
	d.s.Hook(func(point string) error {
		if point == "plan" {
			d.program(map[string]string{"a": "changed", "b": ""})
		}
		return nil
	})
	done := d.apply(stage)
	if done.Removed != 1 || !slices.Equal(done.Stays, []string{"a"}) {
		t.Errorf("%+v", done)
	}
	holds(t, d.live, map[string]string{"a": "changed", "b": "", "c": "", "main": "2"})
	if stays := d.rollback(1); !slices.Equal(stays, []string{"a"}) {
		t.Errorf("stays: %v", stays)
	}
	holds(t, d.live, map[string]string{"a": "changed", "b": "", "c": "1", "main": ""})
}

// A program that puts links where its files were, or races with the commit, has
// nothing removed that is not below its own tree.
func TestExactThroughLinks(t *testing.T) {
	d := newDeploys(t, map[string]string{"src/a": "1", "src/deep/b": "1", "top": "1", "hard": "1"})
	outside := filepath.Join(filepath.Dir(d.s.root), "out")
	put(t, outside, map[string]string{"a": "1", "deep/b": "1", "top": "1"})
	t.Cleanup(func() { _ = os.RemoveAll(outside) })
	// The very size and time of what is to go.
	for _, name := range []string{"a", "deep/b"} {
		info, err := os.Stat(filepath.Join(d.live, "src", name))
		must(t, err)
		must(t, os.Chtimes(filepath.Join(outside, name), info.ModTime(), info.ModTime()))
	}
	before := snapshot(t, outside)
	src := filepath.Join(d.live, "src")
	stop := make(chan struct{})
	var racing sync.WaitGroup
	racing.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
			}
			_ = unix.Renameat2(unix.AT_FDCWD, src, unix.AT_FDCWD, src+".real", unix.RENAME_NOREPLACE)
			_ = os.Symlink(outside, src)
			_ = os.Lchown(src, testUID, testUID)
			_ = os.Remove(src)
			_ = unix.Renameat2(unix.AT_FDCWD, src+".real", unix.AT_FDCWD, src, unix.RENAME_NOREPLACE)
		}
	})
	for range 200 {
		stage := d.over(map[string]string{"main": "2"}, true)
		_, _ = d.s.Apply(t.Context(), stage, testID, testUID) // it may fail: the program renames what it is about
		_ = d.s.Settle(t.Context(), testID, testUID, d.named())
		must(t, d.s.Discard(stage))
	}
	close(stop)
	racing.Wait()
	must(t, d.s.Settle(t.Context(), testID, testUID, d.named()))
	same(t, snapshot(t, outside), before)
}

// entry is a file in a simple model of a tree.
type entry struct {
	text string
	id   int // of this version of it: two that differ in anything have two
}

// modelTree is the model: files by path, and of each deploy what it changed.
type modelTree struct {
	live    map[string]entry
	brought map[string]int // id by path
	steps   [][]step       // of each commit
	lists   []map[string]int
	next    int
}

// step is a file that a commit put, or removed when it has no id.
type step struct {
	path     string
	put, old entry
}

func (m *modelTree) version(text string) entry { m.next++; return entry{text, m.next} }

// deploy is a commit of a ZIP.
func (m *modelTree) deploy(zip map[string]string, exact bool) (removed int) {
	var steps []step
	brought := map[string]int{}
	for path, text := range zip {
		now := m.version(text)
		steps = append(steps, step{path, now, m.live[path]})
		m.live[path], brought[path] = now, now.id
	}
	for path, id := range m.brought {
		switch _, again := zip[path]; {
		case again:
		case !exact:
			brought[path] = id
		case m.live[path].id == id:
			steps = append(steps, step{path: path, old: m.live[path]})
			delete(m.live, path)
			removed++
		}
	}
	m.brought, m.steps, m.lists = brought, append(m.steps, steps), append(m.lists, brought)
	return removed
}

// rollback takes the last n commits back.
func (m *modelTree) rollback(n int) {
	was := maps.Clone(m.live)
	for _, steps := range slices.Backward(m.steps[len(m.steps)-n:]) {
		for _, s := range steps {
			if now, there := m.live[s.path]; there && (s.put.id == 0 || now.id != s.put.id) {
				continue // the program's
			}
			delete(m.live, s.path)
			if s.old.id != 0 {
				m.live[s.path] = s.old
			}
		}
	}
	var steps []step
	for path, now := range m.live {
		if was[path] != now {
			steps = append(steps, step{path, now, was[path]})
		}
	}
	for path, old := range was {
		if _, there := m.live[path]; !there {
			steps = append(steps, step{path: path, old: old})
		}
	}
	m.brought = m.lists[len(m.lists)-1-n]
	m.steps, m.lists = append(m.steps, steps), append(m.lists, m.brought)
}

// Whatever commits, exact ones, writes of the program and rollbacks come after each
// other, the tree is that of a model that knows nothing of disks.
func TestExactAtRandom(t *testing.T) {
	for seed := range uint64(30) {
		exactAtRandom(t, seed, 30)
	}
}

// FuzzExact looks for a sequence that TestExactAtRandom does not have.
func FuzzExact(f *testing.F) {
	f.Add(uint64(1000))
	f.Fuzz(func(t *testing.T, seed uint64) { exactAtRandom(t, seed, 15) })
}

func exactAtRandom(t *testing.T, seed uint64, length int) {
	t.Helper()
	r := rand.New(rand.NewPCG(seed, 20))
	d := newDeploys(t, map[string]string{"code/a": "0"})
	m := &modelTree{live: map[string]entry{}}
	m.deploy(merge(map[string]string{"code/a": "0"}), false)
	m.steps = nil
	names := []string{"code/a", "code/b", "code/c/d", "code/c/e", "f/g/h", "f/i"}
	for n := range length {
		switch pick := r.IntN(6); {
		case pick == 0:
			name := names[r.IntN(len(names))]
			text := fmt.Sprint("mine ", n)
			if r.IntN(3) == 0 {
				text = ""
				delete(m.live, name)
			} else {
				m.live[name] = m.version(text)
			}
			d.program(map[string]string{name: text})
		case pick == 1 && len(d.good) > 0:
			back := 1 + r.IntN(len(d.good))
			d.rollback(back)
			m.rollback(back)
		default:
			zip := map[string]string{}
			for range 1 + r.IntN(4) {
				zip[names[r.IntN(len(names))]] = fmt.Sprint("v", n)
			}
			exact := pick < 4
			stage := d.over(zip, exact)
			if r.IntN(3) == 0 {
				must(t, d.s.Prepare(t.Context(), stage, testID, testUID))
			}
			done := d.apply(stage)
			if removed := m.deploy(merge(zip), exact); done.Removed != removed || done.Unknown {
				t.Errorf("removed %d, want %d; unknown %t", done.Removed, removed, done.Unknown)
			}
		}
		want := model{}
		for path, e := range m.live {
			want[path] = e.text
		}
		d.check(want, model{})
		if t.Failed() {
			t.Fatalf("seed %d, step %d", seed, n)
		}
	}
	must(t, d.s.Settle(t.Context(), testID, testUID, nil))
	empty(t, d.s, "rollback", "staging")
	must(t, d.s.Close())
}

// A host's backup has the lists, and what they know holds on the host that it is
// restored on.
func TestListsInAnArchive(t *testing.T) {
	d := newDeploys(t, map[string]string{"a": "1", "odd\u2028é name": "1"})
	there := imported(t, exported(t, d.s))
	d.s, d.live = there, there.Dir(testID)
	if done := d.apply(d.over(map[string]string{"b": "2"}, true)); done.Removed != 2 || done.Unknown {
		t.Errorf("%+v", done)
	}
	holds(t, d.live, map[string]string{"a": "", "odd\u2028é name": "", "b": "2"})
}

// A list that would have too many entries forgets what was before, and says so.
func TestListsAreBounded(t *testing.T) {
	d := newDeploys(t, map[string]string{"a": "1"})
	many := map[string]string{}
	for n := range treeFactor - 1 {
		many[fmt.Sprint("f", n)] = "2"
	}
	first := d.over(many, false)
	d.s.lim = bundle.Limits{MaxEntries: 1}
	done := d.apply(first)
	if b := d.s.readList(testID, done.Brought); b.whole || len(b.all) != treeFactor {
		t.Errorf("whole %t, %d entries", b.whole, len(b.all))
	}
}

// BenchmarkCommit commits 2,000 files: without the list of what each deploy brought, with it, and as a deploy that
// leaves exactly its files. The list must cost a commit next to nothing.
func BenchmarkCommit(b *testing.B) {
	all := map[string]string{}
	for n := range 2000 {
		all[fmt.Sprintf("src/%d/%d.js", n/50, n)] = strings.Repeat("x", 2000)
	}
	for _, kind := range []string{"without", "with", "exact"} {
		b.Run(kind, func(b *testing.B) {
			d := newDeploys(b, all)
			for b.Loop() {
				stage := stageOf(b, d.s, merge(all))
				if kind != "without" {
					_, err := d.s.Over(b.Context(), stage, testID, d.lists[len(d.lists)-1], kind == "exact")
					must(b, err)
				}
				done, err := d.s.Apply(b.Context(), stage, testID, testUID)
				must(b, err)
				if done.Brought == "" {
					done.Brought = d.lists[len(d.lists)-1]
				}
				d.keep(done.Journal, done.Brought)
				must(b, d.s.Discard(stage))
			}
		})
	}
}

// What somebody writes in the file manager stays, as what the program writes does.
func TestExactLeavesWhatTheFileManagerWrote(t *testing.T) {
	d := newDeploys(t, map[string]string{"edited": "1", "old": "1"})
	must(t, d.s.WriteFile(testID, testUID, "edited", []byte("2"), app.OverAny))
	done := d.apply(d.over(map[string]string{"main": "2"}, true))
	if done.Removed != 1 || !slices.Equal(done.Stays, []string{"edited"}) {
		t.Errorf("%+v", done)
	}
	holds(t, d.live, map[string]string{"edited": "2", "old": ""})
}
