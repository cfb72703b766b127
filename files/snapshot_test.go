package files

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"golang.org/x/sys/unix"

	"berth/app"
	"berth/files/archive"
)

// richTree is a tree with everything that a program can make, as it was saved.
func richTree(t *testing.T, s *Store) (live string, saved []byte, was map[string]string) {
	t.Helper()
	live = makeLive(t, s, map[string]string{
		"discloud.config": "NAME=Shop\nTYPE=bot\nMAIN=main.js\nRAM=128\n", "main.js": "then", odd: "odd", "void/": "", "private/key": "k",
		"data/rows": "rows of then", "link": "->/etc/shadow", "node_modules/.bin/tool": "->../tool/run", "node_modules/tool/run": "#!",
		"node_modules/.package-lock.json": "{}", "sub/discloud.config.txt": "x",
	})
	must(t, os.Link(filepath.Join(live, "data", "rows"), filepath.Join(live, "again")))
	sparse, err := os.Create(filepath.Join(live, "sparse"))
	must(t, err)
	_, err = sparse.WriteAt([]byte("middle"), 1<<36)
	must(t, errors.Join(err, sparse.Truncate(1<<37), sparse.Close()))
	chownAll(t, live)
	for name, mode := range map[string]os.FileMode{"private": 0o500, "main.js": 0o755, "data": 0o1777, "node_modules/tool/run": 0o711, "data/rows": 0o4755 | os.ModeSetuid} {
		must(t, os.Chmod(filepath.Join(live, name), mode))
	}
	then := time.Unix(1_600_000_000, 123)
	must(t, os.Chtimes(filepath.Join(live, "main.js"), then, then))
	saved = exported(t, s)
	return live, saved, treeOf(t, live)
}

// treeOf is a snapshot of a tree without what no archive keeps; of the file with holes it has
// no more than where they are.
func treeOf(t *testing.T, live string) map[string]string {
	t.Helper()
	sparse := filepath.Join(live, "sparse")
	var st unix.Stat_t
	must(t, unix.Stat(sparse, &st))
	f, err := os.Open(sparse)
	must(t, err)
	defer f.Close()
	text := make([]byte, 6)
	_, err = f.ReadAt(text, 1<<36)
	must(t, err)
	aside := filepath.Join(filepath.Dir(live), ".aside")
	must(t, os.Rename(sparse, aside))
	defer func() { must(t, os.Rename(aside, sparse)) }()
	tree := snapshot(t, live)
	for name, what := range tree {
		tree[name] = strings.Replace(what, "urwxr-xr-x", "-rwxr-xr-x", 1)
	}
	tree["sparse"] = string(text)
	if st.Size != 1<<37 || st.Blocks > 1<<10 {
		t.Errorf("the file with holes has %d bytes in %d blocks", st.Size, st.Blocks)
	}
	return tree
}

// linked fails unless two names of the rich tree are of one file.
func linked(t *testing.T, live string) {
	t.Helper()
	var one, two unix.Stat_t
	must(t, errors.Join(unix.Stat(filepath.Join(live, "again"), &one), unix.Stat(filepath.Join(live, "data/rows"), &two)))
	if one.Ino != two.Ino || one.Nlink != 2 {
		t.Error("two names of one file are two files")
	}
}

// A snapshot brings the whole tree back, packages and modes of directories included, and can be
// undone and taken back as every deploy.
func TestSnapshotIntoTheSameApplication(t *testing.T) {
	for _, good := range []bool{true, false} {
		s := newStore(t)
		live, saved, was := richTree(t, s)
		must(t, os.RemoveAll(filepath.Join(live, "void")))
		must(t, os.Remove(filepath.Join(live, "link")))
		put(t, live, map[string]string{
			"main.js": "now", "void": "a file by now", "new/er": "x", "node_modules/other": "of now", ".berth/made": "of now", "data/rows": "rows of now",
			"private/more": "x",
		})
		chownAll(t, live)
		must(t, errors.Join(os.Chmod(filepath.Join(live, "private"), 0o755), os.Chmod(filepath.Join(live, "node_modules"), 0o700)))
		put(t, live, map[string]string{"foreign": "root's"})
		now := treeOf(t, live)

		up, err := s.UnpackSnapshot(t.Context(), bytes.NewReader(saved), testID)
		must(t, err)
		if !up.Found || up.Config.Name != "Shop" || up.Config.RAM != 128 || up.Bytes < 60 || up.Bytes > 1<<20 || up.Hint.IsZero() {
			t.Errorf("unpacked: %+v", up)
		}
		if shown := s.Remains(up.Stage, testID); shown.Exists("node_modules/other") || !shown.Exists("node_modules/tool/run") || shown.Exists("link") {
			t.Error("what remains is not what the snapshot has")
		}
		must(t, s.PrepareRestore(t.Context(), up.Stage, testID, testUID))
		done, err := s.Apply(t.Context(), up.Stage, testID, testUID)
		must(t, err)
		must(t, s.Discard(up.Stage))
		linked(t, live)
		got := treeOf(t, live)
		if got["foreign"] == "" {
			t.Error("a file of another owner is gone")
		}
		delete(got, "foreign")
		same(t, got, was)
		if good {
			must(t, s.Settle(t.Context(), testID, testUID, []string{done.Journal}))
			back, stays, err := s.Rollback(t.Context(), testID, testUID, []string{done.Journal})
			must(t, err)
			_, err = s.Apply(t.Context(), back, testID, testUID)
			must(t, errors.Join(err, s.Discard(back)))
			if len(stays) != 0 {
				t.Errorf("stays: %v", stays)
			}
		} else {
			must(t, s.Settle(t.Context(), testID, testUID, nil))
			linked(t, live)
		}
		same(t, treeOf(t, live), now)
		empty(t, s, "staging")
	}
}

func TestSnapshotIntoANewApplication(t *testing.T) {
	s := newStore(t)
	_, saved, was := richTree(t, s)
	up, err := s.UnpackSnapshot(t.Context(), bytes.NewReader(saved), testID)
	must(t, err)
	const uid = testUID + 1
	for name, what := range snapshotOf(t, s, up.Stage) {
		if !strings.Contains(what, " 0:0") {
			t.Errorf("%s in the stage: %s", name, what)
		}
	}
	must(t, onlyError(s.Publish(t.Context(), up.Stage, "another", uid)))
	linked(t, s.Dir("another"))
	got := treeOf(t, s.Dir("another"))
	for name, what := range got {
		got[name] = strings.Replace(what, "54322:54322", "54321:54321", 1)
	}
	same(t, got, was)
	empty(t, s, "staging")
}

// snapshotOf tells whom what a stage holds belongs to.
func snapshotOf(t *testing.T, s *Store, stage app.Stage) map[string]string {
	t.Helper()
	all := map[string]string{}
	must(t, walk(t.Context(), openDir(t, filepath.Join(s.root, "staging", string(stage), "new")), func(v visit) error {
		all[v.path] = fmt.Sprintf(" %d:%d", v.st.Uid, v.st.Gid)
		return nil
	}))
	return all
}

// The end of an archive decides, and what is not of the application is refused.
func TestUnpackSnapshotRefuses(t *testing.T) {
	s := newStore(t)
	_, saved, _ := richTree(t, s)
	flipped := bytes.Clone(saved)
	flipped[bytes.LastIndex(flipped, []byte("rows of then"))] ^= 1
	broken := errors.New("the connection is lost")
	made := func(fill func(w *archive.Writer) error) []byte {
		var b bytes.Buffer
		w, err := archive.NewWriter(&b, archive.Manifest{})
		must(t, errors.Join(err, fill(w)))
		_, err = w.Close(0)
		must(t, err)
		return b.Bytes()
	}
	entry := func(path string, mode os.FileMode, change func(*archive.Entry)) archive.Entry {
		e := archive.Plain(mode, 0)
		e.Path, e.UID, e.GID, e.Time = path, testUID, testUID, time.Unix(1, 0)
		if change != nil {
			change(&e)
		}
		return e
	}
	with := func(more ...archive.Entry) []byte {
		return made(func(w *archive.Writer) error {
			w.Begin("apps/" + string(testID))
			err := w.Add(entry("", os.ModeDir|0o700, nil), nil)
			for _, e := range more {
				err = errors.Join(err, w.Add(e, nil))
			}
			return err
		})
	}
	must(t, os.WriteFile(filepath.Join(s.root, "secret"), []byte("SECRET"), 0o600))
	outside := entry("out", os.ModeSymlink|0o777, func(e *archive.Entry) { e.Link = s.root })
	for name, r := range map[string]io.Reader{
		"cut":             bytes.NewReader(saved[:len(saved)-2000]),
		"cut in a file":   bytes.NewReader(saved[:bytes.LastIndex(saved, []byte("rows of then"))+3]),
		"a flipped bit":   bytes.NewReader(flipped),
		"something after": io.MultiReader(bytes.NewReader(saved), strings.NewReader("x")),
		"no archive":      strings.NewReader("hello"),
		"empty":           strings.NewReader(""),
		"no part":         bytes.NewReader(made(func(*archive.Writer) error { return nil })),
		"of another":      bytes.NewReader(bytes.ReplaceAll(saved, []byte(testID), []byte("my-bpp"))),
		"void": bytes.NewReader(made(func(w *archive.Writer) error {
			w.Begin("apps/" + string(testID))
			err := w.Add(entry("", os.ModeDir|0o700, nil), nil)
			w.Void("apps/" + string(testID))
			return err
		})),
		"a file for a directory": bytes.NewReader(made(func(w *archive.Writer) error {
			w.Begin("apps/" + string(testID))
			return w.Add(entry("", 0o600, nil), nil)
		})),
		"no directory":        bytes.NewReader(with(entry("a/b", 0o600, nil))),
		"through a link":      bytes.NewReader(with(outside, entry("out/x", 0o600, nil))),
		"over a link":         bytes.NewReader(with(outside, entry("out", 0o600, func(e *archive.Entry) { e.Offset = 0 }))),
		"climbs":              bytes.NewReader(with(entry("../../../x", 0o600, nil))),
		"twice":               bytes.NewReader(with(entry("x", 0o600, nil), entry("x", 0o600, nil))),
		"a name of a link":    bytes.NewReader(with(outside, entry("y", 0o600, func(e *archive.Entry) { e.HardLink = "out" }))),
		"a name of a secret":  bytes.NewReader(with(entry("y", 0o600, func(e *archive.Entry) { e.HardLink = "../../../secret" }))),
		"the marker of stage": bytes.NewReader(with(entry("../snapshot", os.ModeDir|0o700, nil))),
	} {
		up, err := s.UnpackSnapshot(t.Context(), r, testID)
		if app.KindOf(err) != app.Unusable || text(err) != "cannot unpack the snapshot: it is not what was saved; take another one" {
			t.Errorf("%s: %+v, %v", name, up, err)
		}
		empty(t, s, "staging")
	}
	_, err := s.UnpackSnapshot(t.Context(), io.MultiReader(bytes.NewReader(saved[:5000]), iotest.ErrReader(broken)), testID)
	if !errors.Is(err, broken) || app.KindOf(err) != app.Internal {
		t.Errorf("a reader that fails: %v", err)
	}
	if _, err := s.UnpackSnapshot(cancelled(t), bytes.NewReader(saved), testID); err == nil {
		t.Error("cancelled: unpacked")
	}
	if _, err := s.UnpackSnapshot(t.Context(), bytes.NewReader(saved), "../x"); err == nil {
		t.Error("a name that is no id was taken")
	}
	s.SetFloor(1 << 60)
	if _, err := s.UnpackSnapshot(t.Context(), bytes.NewReader(saved), testID); app.KindOf(err) != app.NoSpace {
		t.Errorf("a full disk: %v", err)
	}
	empty(t, s, "staging")
	holds(t, s.root, map[string]string{"secret": "SECRET"})
}

// A bit that flips is found, or is of no entry: what fills the blocks of tar up.
func TestUnpackSnapshotWithFlippedBits(t *testing.T) {
	s := newMemoryStore(t)
	makeLive(t, s, map[string]string{"a": strings.Repeat("a", 700), "d/b": "b", "link": "->a", "e/": ""})
	saved := exported(t, s)
	inStage := func(stage app.Stage) map[string]string {
		tree := snapshot(t, filepath.Join(s.root, "staging", string(stage), "new"))
		must(t, s.Discard(stage))
		return tree
	}
	up, err := s.UnpackSnapshot(t.Context(), bytes.NewReader(saved), testID)
	must(t, err)
	want := inStage(up.Stage)
	r := rand.New(rand.NewPCG(1, 2))
	found := 0
	const flips = 400
	for range flips {
		flipped := bytes.Clone(saved)
		at := r.IntN(8 * len(saved))
		flipped[at/8] ^= 1 << (at % 8)
		up, err := s.UnpackSnapshot(t.Context(), bytes.NewReader(flipped), testID)
		if err != nil {
			if found++; app.KindOf(err) != app.Unusable {
				t.Errorf("bit %d: %v", at, err)
			}
			empty(t, s, "staging")
			continue
		}
		same(t, inStage(up.Stage), want)
	}
	if found < flips/10 {
		t.Errorf("only %d of %d were found", found, flips)
	}
}

// A part that came again counts, with nothing of the earlier one.
func TestUnpackSnapshotTakesTheLaterPart(t *testing.T) {
	s := newStore(t)
	live := makeLive(t, s, map[string]string{"a": "1", "first": "x"})
	var b bytes.Buffer
	w, err := archive.NewWriter(&b, archive.Manifest{})
	must(t, err)
	must(t, s.Export(t.Context(), w, testID, testUID))
	must(t, os.Remove(filepath.Join(live, "first")))
	must(t, s.Export(t.Context(), w, testID, testUID))
	_, err = w.Close(0)
	must(t, err)
	up, err := s.UnpackSnapshot(t.Context(), &b, testID)
	must(t, err)
	holds(t, filepath.Join(s.root, "staging", string(up.Stage), "new"), map[string]string{"a": "1", "first": ""})
	if up.Bytes != 1 || up.Found {
		t.Errorf("%+v", up)
	}
}

// A disk that fills meanwhile ends it, and the stage goes.
func TestUnpackSnapshotAsTheDiskFills(t *testing.T) {
	s := newStore(t)
	live := makeLive(t, s, map[string]string{"a": strings.Repeat("x", checkEvery), "b": strings.Repeat("y", checkEvery)})
	saved := exported(t, s)
	must(t, os.RemoveAll(live))
	at := 0
	_, err := s.UnpackSnapshot(t.Context(), readerFunc(func(p []byte) (int, error) {
		if at > checkEvery/2 {
			s.floor = 1 << 60
		}
		n := copy(p[:min(len(p), 1<<20)], saved[at:])
		if at += n; n == 0 {
			return 0, io.EOF
		}
		return n, nil
	}), testID)
	if app.KindOf(err) != app.NoSpace || at > 2*checkEvery-(1<<20) {
		t.Errorf("after %d bytes: %v", at, err)
	}
	empty(t, s, "staging")
}

// What the config says wrong is said as of an upload.
func TestUnpackSnapshotReadsTheConfig(t *testing.T) {
	for content, want := range map[string]string{
		"RAM=much\n": "discloud.config line 1", "->/etc/passwd": "", "->a": "",
	} {
		s := newStore(t)
		makeLive(t, s, map[string]string{"discloud.config": content, "a": "NAME=x"})
		up, err := s.UnpackSnapshot(t.Context(), bytes.NewReader(exported(t, s)), testID)
		if want == "" && (err != nil || up.Found) || !strings.Contains(text(err), want) || (want != "") != (app.KindOf(err) == app.Unusable && err != nil) {
			t.Errorf("%q: %+v, %v", content, up, err)
		}
		if err != nil {
			empty(t, s, "staging")
		}
	}
}
