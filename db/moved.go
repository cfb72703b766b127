package db

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// ErrMoved is the error of every change while the path of the database, or of a file
// beside it, leads to another file than the one that is open, or to none: nobody would
// find the change again. It is the error of opening a database whose files beside it
// were removed while another process has it open.
var ErrMoved = errors.New("its file was removed or replaced while it was open")

// Moved returns nil while the paths of the database and of the files beside it lead to
// those that are open, and else an error of ErrMoved. It looks at names and reads nothing.
func (db *DB) Moved() error { return db.file.moved() }

// origin is where the file of an open database was found, with the two that SQLite
// keeps beside it as long as it is open: what is written is in the one, and processes
// lock each other out in the other.
type origin struct {
	path string
	info []os.FileInfo // of partsOf(path); nil before it is open
}

// partsOf are the files of an open database.
func partsOf(path string) []string { return []string{path, path + walWord, path + shmWord} }

// The files that SQLite keeps beside a database are named so after it.
const (
	walWord = "-wal"
	shmWord = "-shm"
)

// remember notes the files of a database that was just opened.
func (o *origin) remember() error {
	var all []os.FileInfo
	for _, name := range partsOf(o.path) {
		info, err := os.Stat(name)
		if err != nil {
			return fmt.Errorf("%w (%w)", ErrMoved, err)
		}
		all = append(all, info)
	}
	o.info = all
	return nil
}

func (o *origin) moved() error {
	if o.info == nil {
		return o.torn()
	}
	for i, name := range partsOf(o.path) {
		now, err := os.Stat(name)
		switch {
		case err != nil:
			return fmt.Errorf("%w (%w)", ErrMoved, err)
		case !os.SameFile(o.info[i], now):
			return fmt.Errorf("%w (%s is another file)", ErrMoved, name)
		}
	}
	return nil
}

// torn refuses to open a database while a process has it open whose files beside it
// were removed. SQLite would make new ones, and the two would not see each other's
// locks. The last process that closes a database removes them itself, a moment before
// it has closed them, so it is asked again.
func (o *origin) torn() error {
	const tries, pause = 20, 10 * time.Millisecond
	var err error
	for range tries {
		if err = o.tornNow(); err == nil {
			return nil
		}
		time.Sleep(pause)
	}
	return err
}

func (o *origin) tornNow() error {
	if o.path == "" {
		return nil
	}
	var gone []string
	for _, name := range partsOf(o.path)[1:] {
		if _, err := os.Stat(name); errors.Is(err, fs.ErrNotExist) {
			gone = append(gone, name+deleted)
		}
	}
	if name := opened(gone...); name != "" {
		return fmt.Errorf("%w (%s)", ErrMoved, strings.Replace(name, deleted, " is gone", 1))
	}
	return nil
}

// deleted is what the kernel adds to the name of a file that was removed.
const deleted = " (deleted)"

// opened returns one of these files, all of one directory, as the kernel calls them, that a
// process has open; "" for none. It knows of those processes alone that the caller may look
// at, which for root are all. No file is opened for it: to close it again would drop the locks
// that this process has on it.
func opened(names ...string) string {
	if len(names) == 0 {
		return ""
	}
	dir, err := filepath.EvalSymlinks(filepath.Dir(names[0]))
	if err != nil {
		return ""
	}
	named := map[string]string{} // by what the kernel calls it
	for _, name := range names {
		named[filepath.Join(dir, filepath.Base(name))] = name
	}
	all, err := filepath.Glob("/proc/[0-9]*/fd")
	if err != nil {
		return ""
	}
	for _, fds := range all {
		list, err := os.ReadDir(fds)
		if err != nil {
			continue // it has ended, or is somebody else's
		}
		for _, fd := range list {
			if is, err := os.Readlink(filepath.Join(fds, fd.Name())); err == nil && named[is] != "" {
				return named[is]
			}
		}
	}
	return ""
}
