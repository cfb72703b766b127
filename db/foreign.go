package db

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"syscall"
	"time"

	"github.com/mattn/go-sqlite3"
)

// foreignPatience is how long a database may be busy before CopyForeign gives up.
const foreignPatience = 10 * time.Second

// ErrBusy is the error of a database that others do not let anybody read.
var ErrBusy = errors.New("the database is busy")

// CopyForeign copies a database of somebody else's, which programs may be writing to, into a
// file that exists and is empty: all of it as it is at one moment, by SQLite's online backup.
// It opens from for reading alone, and changes neither it nor its log or journal; an index (-shm)
// that nobody has open it makes anew where it may write, as every reader does. Writers of a
// database in WAL mode go on meanwhile; those of one with a rollback journal wait for the one
// pass over the pages, which are in memory by then.
//
// What is in from is not trusted, so the process that calls it is to be confined. It fails when
// the file is no database, after 10 seconds with ErrBusy when nobody may read it, and when what
// is needed to read it cannot be had without writing: a hot journal, or a log without the index
// beside it. ctx is looked at between two tries.
func CopyForeign(ctx context.Context, from, to string) error {
	err := copyForeign(ctx, from, to)
	if isCode(err, sqlite3.ErrBusy) { // the driver looks at the schema as it opens a database
		err = ErrBusy
	}
	if err != nil {
		return fmt.Errorf("cannot copy the database: %w", fileError(err))
	}
	return nil
}

func copyForeign(ctx context.Context, from, to string) (err error) {
	if err := intoMemory(from); err != nil {
		return err
	}
	src, err := openForeign(from, url.Values{"mode": {"ro"}, "_busy_timeout": {fmt.Sprint(foreignPatience.Milliseconds())}})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, src.Close()) }()
	// Nobody else has the copy, and what is left of it after a failure counts for nothing.
	dst, err := openForeign(to, url.Values{"mode": {"rw"}, "vfs": {"unix-none"}, "_journal_mode": {"OFF"}, "_sync": {"OFF"}})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, dst.Close()) }()
	b, err := dst.Backup("main", src, "main")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.Close()) }()
	// All pages in one step: between two steps the lock is released, and a writer of another
	// process that comes then makes the backup begin again.
	for end := time.Now().Add(foreignPatience); ; {
		done, err := b.Step(-1)
		if done || err != nil {
			return err
		}
		select { // the step has waited already, unless SQLite saw that it would be in vain
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(5 * time.Millisecond):
		}
		if time.Now().After(end) {
			return ErrBusy
		}
	}
}

func openForeign(path string, options url.Values) (*sqlite3.SQLiteConn, error) {
	name := url.URL{Scheme: "file", Path: path, RawQuery: options.Encode()}
	conn, err := (&sqlite3.SQLiteDriver{}).Open(name.String())
	if err != nil {
		return nil, err
	}
	return conn.(*sqlite3.SQLiteConn), nil
}

// intoMemory reads a file once, so that the pass that keeps writers waiting need not wait for
// the disk. It comes before SQLite opens the file: closing any descriptor of it drops this
// process's locks (https://sqlite.org/howtocorrupt.html, 2.2).
func intoMemory(path string) (err error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() {
		return errors.New("it is not a regular file")
	}
	_, err = io.Copy(io.Discard, io.LimitReader(f, info.Size()))
	return err
}
