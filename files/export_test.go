package files

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"berth/app"
	"berth/files/archive"
	"berth/test/harness"
)

// exported writes everything of the test's application.
func exported(t *testing.T, s *Store) []byte {
	t.Helper()
	var b bytes.Buffer
	w, err := archive.NewWriter(&b, archive.Manifest{})
	must(t, err)
	must(t, s.Export(t.Context(), w, testID, testUID))
	_, err = w.Close(1)
	must(t, err)
	return b.Bytes()
}

// imported puts an archive into a new data directory and opens that.
func imported(t *testing.T, text []byte) *Store {
	t.Helper()
	root := t.TempDir()
	i, err := NewImporter(root)
	must(t, err)
	defer i.Close()
	_, err = archive.Read(bytes.NewReader(text), func(_ int, part string, e archive.Entry, r io.Reader) error { return i.Put(part, e, r) })
	must(t, errors.Join(err, i.Sync()))
	return openStore(t, root)
}

func TestExportAndImport(t *testing.T) {
	p := newPast(t, map[string]string{"main.js": "1", "void/": "", "link": "->/etc/shadow", odd: "odd", "private/key": "k", "lib/a": "1"})
	must(t, os.Chmod(filepath.Join(p.live, "private"), 0o700))
	must(t, os.Chmod(filepath.Join(p.live, "main.js"), 0o755))
	sparse, err := os.Create(filepath.Join(p.live, "sparse"))
	must(t, err)
	_, err = sparse.WriteAt([]byte("middle"), 1<<39)
	must(t, errors.Join(err, sparse.Truncate(1<<40), sparse.Close(), os.Lchown(sparse.Name(), testUID, testUID)))
	p.commit(map[string]string{"main.js": "2", "new": "2", "lib/a": "2"}, odd)
	p.program(map[string]string{"data.db": "rows"})
	must(t, os.Chmod(filepath.Join(p.live, "data.db"), 0o4755)) // no user of another host gets that
	put(t, p.live, map[string]string{"foreign": "root's"})
	must(t, mkfifo(filepath.Join(p.live, "pipe")))
	must(t, os.Lchown(filepath.Join(p.live, "pipe"), testUID, testUID))

	s := imported(t, exported(t, p.s))
	info, err := os.Stat(filepath.Join(s.Dir(testID), "sparse"))
	must(t, err)
	size, err := s.Used(t.Context(), testID)
	must(t, err)
	data := make([]byte, 6)
	f, err := os.Open(filepath.Join(s.Dir(testID), "sparse"))
	must(t, err)
	defer f.Close()
	if _, err := f.ReadAt(data, 1<<39); err != nil || string(data) != "middle" || info.Size() != 1<<40 || size.Bytes > 1<<20 {
		t.Errorf("sparse: %q, %v; it has %d bytes, and all %d on disk", data, err, info.Size(), size.Bytes)
	}
	for _, live := range []string{p.live, s.Dir(testID)} {
		must(t, os.Remove(filepath.Join(live, "sparse")))
	}
	want := snapshot(t, p.live)
	delete(want, "foreign")
	delete(want, "pipe")
	want["data.db"] = strings.Replace(want["data.db"], "urwxr-xr-x", "-rwxr-xr-x", 1)
	same(t, snapshot(t, s.Dir(testID)), want)

	// The history came along: there is no inode in it.
	there := &past{t: t, s: s, live: s.Dir(testID), good: p.good}
	if stays := there.back(1); len(stays) != 0 {
		t.Errorf("stays %v", stays)
	}
	holds(t, there.live, map[string]string{"main.js": "1", "new": "", "lib/a": "1", odd: "odd", "data.db": "rows"})
}

func TestExportDuringACommit(t *testing.T) {
	s := newStore(t)
	_, stage := scene(t, s)
	w, err := archive.NewWriter(io.Discard, archive.Manifest{})
	must(t, err)
	must(t, applied(s.Apply(t.Context(), stage, testID, testUID)))
	if err := s.Export(t.Context(), w, testID, testUID); !errors.Is(err, ErrBusy) {
		t.Errorf("got %v", err)
	}
	must(t, s.Settle(t.Context(), testID, testUID, nil))
	must(t, s.Export(t.Context(), w, testID, testUID))
	if err := s.Export(t.Context(), w, "nobody", testUID); app.KindOf(err) != app.NotFound {
		t.Errorf("no application: %v", err)
	}
	if err := s.Export(cancelled(t), w, testID, testUID); err == nil {
		t.Error("cancelled: exported")
	}
}

// A file with many names is in an archive once, and has them all after a restore.
func TestExportKeepsNamesTogether(t *testing.T) {
	s := newStore(t)
	live := makeLive(t, s, map[string]string{"a": strings.Repeat("x", 64<<10), "d/": "", "other": "y"})
	for n := range 100 {
		must(t, os.Link(filepath.Join(live, "a"), filepath.Join(live, "d", fmt.Sprint(n))))
	}
	chownAll(t, live)
	text := exported(t, s)
	if len(text) > 1<<20 { // 101 copies are six
		t.Errorf("64 KB with 101 names became %d bytes", len(text))
	}
	there := imported(t, text)
	same(t, snapshot(t, there.Dir(testID)), snapshot(t, live))
	var st unix.Stat_t
	must(t, unix.Stat(filepath.Join(there.Dir(testID), "d", "50"), &st))
	if st.Nlink != 101 {
		t.Errorf("it has %d names", st.Nlink)
	}
}

// Another file that gets the number of one that is gone is no name of that.
func TestHardLinksAreTheSameFile(t *testing.T) {
	dir := t.TempDir()
	id := func(name string) fileID {
		f, err := os.Open(filepath.Join(dir, name))
		must(t, err)
		defer f.Close()
		var st unix.Stat_t
		must(t, unix.Fstat(int(f.Fd()), &st))
		got, err := fileIDOf(f, &st)
		must(t, err)
		return got
	}
	put(t, dir, map[string]string{"a": "x", "c": "x"})
	must(t, os.Link(filepath.Join(dir, "a"), filepath.Join(dir, "b")))
	must(t, os.Link(filepath.Join(dir, "c"), filepath.Join(dir, "d")))
	if a := id("a"); a != id("b") || a == id("c") {
		t.Errorf("%v, %v, %v", a, id("b"), id("c"))
	}
	k := newHardLinks()
	k.paths = 3
	st := unix.Stat_t{Nlink: 2}
	if err := errors.Join(k.add(fileID{ino: 1}, &st, "abc"), k.add(fileID{ino: 2}, &unix.Stat_t{Nlink: 1}, "d")); err != nil {
		t.Error(err)
	}
	if err := k.add(fileID{ino: 3}, &st, "d"); app.KindOf(err) != app.Unusable {
		t.Errorf("more than is remembered: %v", err)
	}
}

// What a program does to its own files fails its own part, and the archive goes on.
func TestExportOfHostileTrees(t *testing.T) {
	for name, make := range map[string]func(live string){
		"deep": func(live string) {
			deepTree(t, live, maxDepth+10)
			must(t, walkOwn(openDir(t, live), maxDepth+10))
		},
		"lease": func(live string) { lease(t, filepath.Join(live, "a")) },
	} {
		t.Run(name, func(t *testing.T) {
			s := newStore(t)
			make(makeLive(t, s, map[string]string{"a": "x"}))
			var b bytes.Buffer
			w, err := archive.NewWriter(&b, archive.Manifest{Made: time.Now()})
			must(t, err)
			if err := s.Export(t.Context(), w, testID, testUID); err == nil || w.Err() != nil {
				t.Fatalf("%v, %v", err, w.Err())
			}
			w.Void("apps/" + string(testID))
			w.Begin("berth.toml")
			must(t, w.Add(archive.Plain(0o600, 1), strings.NewReader("x")))
			_, err = w.Close(1)
			must(t, err)
			m, err := archive.Read(&b, func(int, string, archive.Entry, io.Reader) error { return nil })
			if err != nil || !m.Parts[0].Void || m.Parts[1].Void {
				t.Errorf("%+v, %v", m, err)
			}
		})
	}
}

// A program that keeps a file to itself gets a sentence in place of its own backup.
func TestBackupOfALeasedFile(t *testing.T) {
	s := newStore(t)
	lease(t, filepath.Join(makeLive(t, s, map[string]string{"a": "x"}), "a"))
	_, err := s.Backup(t.Context(), testID, nil, app.BackupRoom{})
	if app.KindOf(err) != app.Conflict || text(err) != `a program keeps "a" to itself by a lease` {
		t.Errorf("the backup: %v", err)
	}
	if left, err := s.Backups(testID, time.Hour); len(left) != 0 || err != nil {
		t.Errorf("there are %v, %v", left, err)
	}
}

// lease keeps everybody else from opening a file until the test ends (fcntl(2)).
func lease(t *testing.T, path string) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	must(t, err)
	t.Cleanup(func() { f.Close() })
	_, err = unix.FcntlInt(f.Fd(), unix.F_SETLEASE, unix.F_WRLCK)
	must(t, err)
	signal.Ignore(unix.SIGIO)
}

// walkOwn gives a chain of directories to the tests' user, deeper than any path.
func walkOwn(d dir, n int) error {
	for range n {
		below, err := d.sub("d")
		if err != nil {
			return err
		}
		defer below.close()
		if err := below.own(testUID, 0o700); err != nil {
			return err
		}
		d = below
	}
	return nil
}

// onWrite calls do at the first write that comes after armed was set.
type onWrite struct {
	armed bool
	do    func()
}

// Write implements io.Writer.
func (w *onWrite) Write(p []byte) (int, error) {
	if w.armed {
		w.armed = false
		w.do()
	}
	return len(p), nil
}

// A commit that fails while files are read leaves nothing to see, but the files
// that were read may be of both codes.
func TestExportAroundACommitThatFails(t *testing.T) {
	for _, history := range []bool{true, false} {
		p := newPast(t, map[string]string{"a": "1", "b": "1"})
		if history {
			p.commit(map[string]string{"a": "2"})
		}
		stage := stageOf(t, p.s, map[string]string{"a": "3", "b": "3"})
		on := &onWrite{do: func() {
			must(t, applied(p.s.Apply(t.Context(), stage, testID, testUID)))
			must(t, p.s.Settle(t.Context(), testID, testUID, p.good))
		}}
		w, err := archive.NewWriter(on, archive.Manifest{})
		must(t, err)
		on.armed = true
		if err := p.s.Export(t.Context(), w, testID, testUID); !errors.Is(err, ErrBusy) || on.armed {
			t.Errorf("with a history %t: %v", history, err)
		}
		must(t, p.s.Export(t.Context(), w, testID, testUID))
	}
}

// What somebody made of an archive gets nowhere else.
func TestImportRefuses(t *testing.T) {
	harness.Root(t, "files are given to other users")
	root := t.TempDir()
	outside := filepath.Join(root, "outside")
	must(t, os.Mkdir(outside, 0o700))
	data := filepath.Join(root, "data")
	must(t, os.Mkdir(data, 0o700))
	i, err := NewImporter(data)
	must(t, err)
	defer i.Close()
	file := func(path string) archive.Entry {
		e := archive.Plain(0o644, 1)
		e.Path, e.Time = path, time.Now()
		return e
	}
	linkTo := func(path string) archive.Entry {
		e := archive.Plain(0o644, 0)
		e.Path, e.HardLink = "twin", path
		return e
	}
	must(t, os.WriteFile(filepath.Join(outside, "x"), nil, 0o600))
	top := archive.Plain(os.ModeDir|0o700, 0)
	must(t, i.Put("apps/shop", top, nil))
	link := file("link")
	link.Mode, link.Link = os.ModeSymlink, outside
	must(t, i.Put("apps/shop", link, nil))
	must(t, i.Put("apps/shop", file("there"), strings.NewReader("x")))
	for name, e := range map[string]archive.Entry{
		"climbs": file("../../x"), "dots": file("a/../x"), "through a link": file("link/x"), "absolute": file("/etc/x"),
		"no directory": file("no/x"), "twice": file("there"), "negative": {UID: -1, Path: "x"},
		"another name of what is outside": linkTo("../outside/x"), "of what a link leads to": linkTo("link"), "through one": linkTo("link/x"),
		"of nothing": linkTo("no"), "of the part": linkTo("."),
	} {
		if err := i.Put("apps/shop", e, strings.NewReader("x")); err == nil || !strings.HasPrefix(err.Error(), "cannot restore ") {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, part := range []string{"apps", "apps/..", "etc/passwd", "apps/a/b", "", "rollback/"} {
		if IsPart(part) || i.Put(part, top, nil) == nil {
			t.Errorf("the part %q was taken", part)
		}
	}
	if left, err := os.ReadDir(outside); err != nil || len(left) != 1 {
		t.Errorf("outside: %v, %v", left, err)
	}
	if !slices.ContainsFunc([]string{"apps/shop", "rollback/1745338954955"}, IsPart) {
		t.Error("no part is taken")
	}
}
