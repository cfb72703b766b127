package files

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"berth/app"
	"berth/files/archive"
)

// A database as SQLite knows it by its first bytes: in WAL mode, or with a rollback journal.
var (
	walDatabase  = "SQLite format 3\x00\x10\x00\x02\x02" + strings.Repeat("w", 100)
	plainJournal = "SQLite format 3\x00\x10\x00\x01\x01" + strings.Repeat("j", 100)
)

// copying is a store whose databases are copied by what a test says.
type copying struct {
	*Store
	copied []string          // names
	notes  map[string]string // by path
	fail   error
	during func()
	empty  bool
}

func newCopying(t *testing.T, s *Store) *copying {
	c := &copying{Store: s, notes: map[string]string{}}
	s.CopyDatabases(func(_ context.Context, dir *os.File, name string, uid, gid int, to *os.File) error {
		info, err := os.Stat(fmt.Sprintf("/proc/self/fd/%d/%s", dir.Fd(), name))
		if err != nil || !info.Mode().IsRegular() || uid != testUID || gid != testUID {
			t.Errorf("%s: %v, %v, %d:%d", name, info, err, uid, gid)
		}
		c.copied = append(c.copied, name)
		if c.during != nil {
			c.during()
		}
		if c.empty {
			return nil
		}
		_, err = to.WriteString("copy of " + name)
		return errors.Join(err, c.fail)
	})
	s.NoteDatabases(func(id app.ID, path string, err error) {
		if _, again := c.notes[path]; again || id != testID {
			t.Errorf("noted again, or of %s: %s", id, path)
		}
		c.notes[path] = err.Error()
	})
	return c
}

// stored is what the archive of the test's application has of files, by path below its part.
func (c *copying) stored(t *testing.T) map[string]string {
	t.Helper()
	c.copied = nil
	clear(c.notes)
	all := map[string]string{}
	_, err := archive.Read(bytes.NewReader(exported(t, c.Store)), func(_ int, part string, e archive.Entry, r io.Reader) error {
		text, err := io.ReadAll(r)
		if e.Mode.IsRegular() && part == "apps/"+string(testID) {
			all[e.Path] = string(text)
		}
		return err
	})
	must(t, err)
	empty(t, c.Store, "staging")
	return all
}

// A copy takes the place of a database and of what is beside it; what nobody can be writing to
// is stored as it is.
func TestExportCopiesDatabases(t *testing.T) {
	c := newCopying(t, newStore(t))
	before := map[string]string{
		"a.db": walDatabase, "a.db-wal": "log", "a.db-shm": "index", "a.db-walnut": "a file of its own",
		"d/b.db": plainJournal, "d/b.db-journal": "journal",
		"d/idle.db": plainJournal,
		"closed.db": walDatabase, "closed.db-shm": "left",
		"x.txt": "SQLite format 4\x00 and more than twenty bytes", "x.txt-wal": "log", "short.db": "SQLite format 3\x00", "short.db-wal": "log",
		"mode.db": walDatabase, "mode.db-journal": "journal",
	}
	live := makeLive(t, c.Store, before)
	want := maps.Clone(before)
	for _, gone := range []string{"a.db-wal", "a.db-shm", "d/b.db-journal", "mode.db-journal"} {
		delete(want, gone)
	}
	for _, name := range []string{"a.db", "d/b.db", "d/idle.db", "mode.db"} {
		want[name] = "copy of " + filepath.Base(name)
	}
	if got := c.stored(t); !maps.Equal(got, want) || len(c.notes) != 0 {
		t.Errorf("stored %q, noted %v", got, c.notes)
	}
	// Where the copy fails the files stay together as they are.
	c.fail = errors.New("it is busy")
	if got := c.stored(t); !maps.Equal(got, before) {
		t.Errorf("after failures: stored %q", got)
	}
	if c.notes["a.db"] != "it is busy" || len(c.notes) != 4 || len(c.copied) != 4 {
		t.Errorf("noted %v, copied %v", c.notes, c.copied)
	}
	c.empty = true
	if got := c.stored(t); !maps.Equal(got, before) || c.notes["d/b.db"] != "the copy is empty" {
		t.Errorf("of nothing: stored %q, noted %v", got, c.notes)
	}
	c.empty = false
	// With several names the logs beside it are kept too.
	c.fail = nil
	must(t, os.Link(filepath.Join(live, "a.db"), filepath.Join(live, "again.db")))
	got := c.stored(t)
	if got["a.db-wal"] != "log" || got["a.db"] != walDatabase || got["d/idle.db"] != "copy of idle.db" {
		t.Errorf("stored %q", got)
	}
	if want := map[string]string{"a.db": "it has several names"}; !maps.Equal(c.notes, want) {
		t.Errorf("noted %v", c.notes)
	}
}

// A program that keeps its databases busy does not keep the backup.
func TestExportLosesNoTimeWithBusyDatabases(t *testing.T) {
	c := newCopying(t, newStore(t))
	all := map[string]string{}
	for i := range 20 {
		all[fmt.Sprintf("%02d.db", i)] = plainJournal
	}
	makeLive(t, c.Store, all)
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		c.fail, c.during = errors.New("it is busy"), func() { time.Sleep(10 * time.Second) }
		got := c.stored(t)
		if took := time.Since(began); took != 70*time.Second || len(c.copied) != 7 || len(c.notes) != maxNotes || !maps.Equal(got, all) {
			t.Errorf("%d tries took %v, noted %v", len(c.copied), took, c.notes)
		}
	})
}

// Without somebody who copies, and in journals, databases are files as others.
func TestExportOfDatabasesAsTheyAre(t *testing.T) {
	p := newPast(t, map[string]string{"a.db": plainJournal, "main.js": "1"})
	c := newCopying(t, p.s)
	p.commit(map[string]string{"a.db": plainJournal + "2"})
	if got := c.stored(t); got["a.db"] != "copy of a.db" || len(c.copied) != 1 || len(c.notes) != 0 {
		t.Errorf("stored %q, copied %v, noted %v", got, c.copied, c.notes)
	}
	p.s.CopyDatabases(nil)
	if got := c.stored(t); got["a.db"] != plainJournal+"2" || len(c.copied) != 0 || len(c.notes) != 0 {
		t.Errorf("without one who copies: stored %q, copied %v", got, c.copied)
	}
}

// Who opens a database while it is read as it is, is told of.
func TestExportOfADatabaseThatIsOpenedMeanwhile(t *testing.T) {
	s := newStore(t)
	live := makeLive(t, s, map[string]string{"a.db": walDatabase + strings.Repeat("x", 1<<20)})
	c := newCopying(t, s)
	w, err := archive.NewWriter(&onText{"xxxx", func() { put(t, live, map[string]string{"a.db-wal": "log"}) }}, archive.Manifest{})
	must(t, errors.Join(err, s.Export(t.Context(), w, testID, testUID)))
	if want := map[string]string{"a.db": "a program opened it while it was read"}; !maps.Equal(c.notes, want) || len(c.copied) != 0 {
		t.Errorf("noted %v", c.notes)
	}
}

// onText calls do at the first write that holds a text.
type onText struct {
	text string
	do   func()
}

// Write implements io.Writer.
func (w *onText) Write(p []byte) (int, error) {
	if w.do != nil && bytes.Contains(p, []byte(w.text)) {
		w.do()
		w.do = nil
	}
	return len(p), nil
}

// A program can make databases without end, and directories that nobody puts in order.
func TestExportBoundsDatabases(t *testing.T) {
	c := newCopying(t, newMemoryStore(t))
	all := map[string]string{}
	for i := range maxDatabases + 1 {
		all[fmt.Sprintf("%03d.db", i)] = plainJournal
	}
	all["z/a.db"] = plainJournal
	live := makeLive(t, c.Store, all)
	got := c.stored(t)
	copied := slices.DeleteFunc(slices.Collect(maps.Values(got)), func(text string) bool { return text == plainJournal })
	if len(copied) != maxDatabases || len(c.notes) != 2 || c.notes["256.db"] != "the application has more than 256 databases" {
		t.Errorf("%d were copied, noted %v", len(copied), c.notes)
	}
	must(t, os.RemoveAll(live))
	live = makeLive(t, c.Store, map[string]string{"a.db": plainJournal, "a.db-journal": "journal"})
	for i := range maxOrdered {
		must(t, os.WriteFile(filepath.Join(live, fmt.Sprint(i)), nil, 0o600))
	}
	if got := c.stored(t); got["a.db"] != plainJournal || got["a.db-journal"] != "journal" || c.notes["a.db"] != "its directory has too many files" {
		t.Errorf("of many names: noted %v", c.notes)
	}
	// A disk without room, and an end.
	must(t, os.RemoveAll(live))
	makeLive(t, c.Store, map[string]string{"a.db": plainJournal})
	c.SetFloor(1 << 60)
	if got := c.stored(t); got["a.db"] != plainJournal || !strings.Contains(c.notes["a.db"], "cannot copy a database: the host's disk is nearly full") {
		t.Errorf("on a full disk: noted %v", c.notes)
	}
	c.SetFloor(0)
	ctx, cancel := context.WithCancel(t.Context())
	c.during, c.fail = cancel, errors.New("killed")
	w, err := archive.NewWriter(io.Discard, archive.Manifest{})
	must(t, err)
	clear(c.notes)
	if err := c.Export(ctx, w, testID, testUID); !errors.Is(err, context.Canceled) || len(c.notes) != 0 {
		t.Errorf("cancelled: %v, noted %v", err, c.notes)
	}
	empty(t, c.Store, "staging")
}
