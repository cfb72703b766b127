package files

import (
	"context"
	"errors"
	"fmt"
	"os"

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
// database has several names or holes or is in a directory with too many names to be put in
// order, when the disk has no room for the copy, or when the application has more than 256
// databases or 3 that could not be copied. note is told of each of those, with its path below the application's
// directory, by the goroutine that exports; it may be nil.
//
// A database in WAL mode with no log beside it is stored as it is, too: every connection to one
// has a log from its first look on, and the last to close removes it, so nobody has it open.
// Who opens it meanwhile writes to a new log, and to the file only at a checkpoint.
//
// It MUST come before the Store is used.
func (s *Store) CopyDatabases(copy func(ctx context.Context, dir *os.File, name string, uid, gid int, to *os.File) error) {
	s.databases.copy = copy
}

// NoteDatabases sets who is told of databases that are not copied: see CopyDatabases.
func (s *Store) NoteDatabases(note func(id app.ID, path string, err error)) { s.databases.note = note }

// The bounds of one export: a program can make any number of files that look like databases,
// and keep each busy.
const (
	maxDatabases       = 256
	maxFailedDatabases = 3
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
	failed int
	covers map[string]bool // paths of what belongs to a database that was copied
	closed string          // the path of the last one that nobody had open
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
	if c.databases.note != nil {
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
	case c.failed >= maxFailedDatabases:
		return nil, errors.New("others of the application's databases could not be copied")
	case c.made >= maxDatabases:
		return nil, fmt.Errorf("the application has more than %d databases", maxDatabases)
	case !v.ordered:
		return nil, errors.New("its directory has too many files")
	case v.st.Nlink > 1:
		return nil, errors.New("it has several names")
	case v.st.Blocks*blockSize < v.st.Size/2-1<<20: // its copy would have none; a file system that compresses says less too
		return nil, errors.New("it has holes")
	}
	if err := c.roomFor(v); err != nil {
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
	if err := c.databases.copy(ctx, at, v.name, c.uid, c.uid, to); err != nil {
		c.failed++
		return nil, err
	}
	made, st, err := c.staging.file(temp)
	if err == nil && st.Size == 0 {
		c.failed++
		err = errors.Join(errors.New("the copy is empty"), made.Close())
	}
	return made, err
}

// roomFor reports whether the disk has room for a copy, which is as large as a database and its log
// at most, besides what is to stay free.
func (c *copies) roomFor(v visit) error {
	size := v.st.Size
	if log, err := v.parent.stat(v.name + "-wal"); err == nil {
		size += log.Size
	}
	var st unix.Statfs_t
	if err := errors.Join(c.CheckFree("copy a database"), unix.Fstatfs(int(c.staging), &st)); err != nil {
		return err
	}
	if free := int64(st.Bavail) * int64(st.Bsize); size > free/2 {
		return fmt.Errorf("the disk has no room for a copy of %d MB", size>>20)
	}
	return nil
}
