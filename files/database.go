package files

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"berth/app"
	"berth/files/archive"
)

// A database of SQLite that a program writes to cannot be read as a file: a page of before a
// transaction, the next one of after it, and a log of another moment are no database. So an
// export stores a copy that SQLite itself makes in place of the file, and leaves out the files
// beside it, which belong to the file and not to the copy.

// databases is how exports of a data directory copy them.
type databases struct {
	copy func(ctx context.Context, dir *os.File, name string, uid, gid int, to *os.File) error
	note func(id app.ID, path string, err error)
}

// CopyDatabases makes every Export store SQLite databases as copies that copy makes, where
// somebody may be writing to them: copy gets the directory that holds the database, its name, the
// user and group of the program, and an empty file for the copy, which it may give to that
// group. dir is the program's, which may put anything else in the place of name meanwhile.
//
// The database's files are stored as they are, as without this, when copy fails, when the
// database has several names or is in a directory with too many names to be put in order, when
// the disk is nearly full, and when the application has had 256 copies made, or copies that
// failed have taken a minute. NoteDatabases says who is told of those.
//
// A database in WAL mode with no log beside it is stored as it is, too: every connection to one
// has a log from its first look on, and the last to close removes it, so nobody has it open.
// Who opens it meanwhile writes to a new log, and to the file only at a checkpoint.
//
// It MUST come before the Store is used.
func (s *Store) CopyDatabases(copy func(ctx context.Context, dir *os.File, name string, uid, gid int, to *os.File) error) {
	s.databases.copy = copy
}

// NoteDatabases sets who is told of each database that is stored as it is although somebody may
// be writing to it, with its path below the application's directory and why: of 16 in an export
// at most. note is called by the goroutine that exports. It MUST come before the Store is used.
func (s *Store) NoteDatabases(note func(id app.ID, path string, err error)) { s.databases.note = note }

// The bounds of one export: a program can make any number of files that look like databases,
// and keep each busy.
const (
	maxDatabases = 256
	maxLost      = time.Minute // in copies that failed
	maxNotes     = 16
)

// databaseLogs are what SQLite keeps beside a database (https://sqlite.org/tempfiles.html).
var databaseLogs = []string{"-wal", "-shm", "-journal"}

// copies are those of one export.
type copies struct {
	*disk
	id     app.ID
	uid    int
	live   bool // the tree is that of the program; nobody writes to a database in a journal
	made   int
	lost   time.Duration   // in copies that failed
	covers map[string]bool // paths of what belongs to a database that was copied
	notes  int
	closed string // the path of the last one that nobody had open
}

func (s *Store) newCopies(id app.ID, uid int, live bool) *copies {
	return &copies{disk: s.disk, id: id, uid: uid, live: live, covers: map[string]bool{}}
}

// database adds a copy of a file if it is a database that needs one, and reports whether it
// did. f is at its beginning, and stays there.
func (c *copies) database(ctx context.Context, w *archive.Writer, v visit, f *os.File, e archive.Entry) (bool, error) {
	if c.databases.copy == nil || !c.live {
		return false, nil
	}
	is, closed := isDatabase(v, f)
	if closed {
		c.closed = v.path
	}
	if !is || closed {
		return false, nil
	}
	made, err := c.copied(ctx, v)
	if err != nil {
		if ctx.Err() != nil {
			return false, ctx.Err()
		}
		c.tell(v, err)
		return false, nil
	}
	defer made.Close()
	info, err := made.Stat()
	if err != nil {
		return false, err
	}
	for _, ending := range databaseLogs {
		c.covers[v.path+ending] = true
		if st, err := v.parent.stat(v.name + ending); err == nil && modTime(&st).After(e.Time) {
			e.Time = modTime(&st) // the content is of then
		}
	}
	e.Size = info.Size()
	return true, w.Add(e, ctxReader(ctx, made))
}

// read looks at a file again that was added as it is.
func (c *copies) read(v visit, f *os.File) {
	if c.closed != v.path {
		return
	}
	if _, closed := isDatabase(v, f); !closed {
		c.tell(v, errors.New("a program opened it while it was read"))
	}
}

func (c *copies) tell(v visit, err error) {
	if c.notes++; c.databases.note != nil && c.notes <= maxNotes {
		c.databases.note(c.id, v.path, err)
	}
}

// isDatabase reports whether a file is a database of SQLite, and whether nobody has it open
// (https://sqlite.org/fileformat2.html, 1.3).
func isDatabase(v visit, f *os.File) (is, closed bool) {
	const magic, wal = "SQLite format 3\x00", 2
	var head [20]byte
	if n, _ := f.ReadAt(head[:], 0); n < len(head) || string(head[:len(magic)]) != magic {
		return false, false
	}
	beside := func(ending string) bool {
		_, err := v.parent.stat(v.name + ending)
		return err == nil
	}
	return true, head[18] == wal && head[19] == wal && !beside("-wal") && !beside("-journal")
}

// copied makes the copy in a file without a name.
func (c *copies) copied(ctx context.Context, v visit) (made *os.File, err error) {
	switch {
	case c.lost > maxLost:
		return nil, errors.New("copies of other databases of the application took too long and failed")
	case c.made >= maxDatabases:
		return nil, fmt.Errorf("the application has more than %d databases", maxDatabases)
	case !v.ordered:
		return nil, errors.New("its directory has too many files")
	case v.st.Nlink > 1:
		return nil, errors.New("it has several names")
	}
	if err := c.CheckFree("copy a database"); err != nil {
		return nil, err
	}
	c.made++
	dir, err := v.parent.sub(".")
	if err != nil {
		return nil, err
	}
	at := os.NewFile(uintptr(dir), v.path)
	defer at.Close()
	temp := randName()
	to, err := c.staging.create(temp)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, ignoreMissing(unix.Unlinkat(int(c.staging), temp, 0))) }()
	defer func() { err = errors.Join(err, to.Close()) }()
	began := time.Now()
	if err := c.databases.copy(ctx, at, v.name, c.uid, c.uid, to); err != nil {
		c.lost += time.Since(began)
		return nil, err
	}
	made, st, err := c.staging.file(temp)
	if err == nil && st.Size == 0 {
		err = errors.Join(errors.New("the copy is empty"), made.Close())
	}
	return made, err
}
