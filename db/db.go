package db

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"
)

// DB is the open database file.
type DB struct {
	writer *sql.DB // one connection: SQLite has one writer, so let them queue here
	reader *sql.DB // sees the last commit, never waits for the writer
	now    func() time.Time
	file   *origin
}

// Open opens the database at path, creates it with mode 0600 when there is
// none (see New), and brings its schema up to date; a copy from before that stays beside
// it, named after its schema, the newest two of these. The directory must exist.
// A file of a newer berth is ErrNewer, one beside the log of another is ErrOtherLog or
// Damaged (see Usable), and all are left as they are. The error matches
// fs.ErrPermission when the file may not be written. ctx bounds the opening
// alone. now is the clock of everything that is stamped.
func Open(ctx context.Context, path string, now func() time.Time) (*DB, error) {
	db, err := open(ctx, path, now)
	if err != nil {
		return nil, fmt.Errorf("cannot open the database: %w", fileError(err))
	}
	return db, nil
}

func open(ctx context.Context, path string, now func() time.Time) (*DB, error) {
	if err := createFile(path); err != nil {
		return nil, err
	}
	if err := usable(ctx, path); err != nil { // before the log beside it is folded into it
		return nil, err
	}
	db := &DB{now: now, file: &origin{}}
	var err error
	if db.writer, err = openPool(path, writing, db.file); err != nil {
		return nil, err
	}
	if db.reader, err = openPool(path, reading, db.file); err != nil {
		return nil, errors.Join(err, db.writer.Close())
	}
	if err := db.prepare(ctx, path); err != nil {
		return nil, errors.Join(err, db.writer.Close(), db.reader.Close())
	}
	return db, nil
}

// prepare connects, migrates, and proves that a reader can read.
func (db *DB) prepare(ctx context.Context, path string) error {
	if err := connect(ctx, db.writer); err != nil {
		return err
	}
	keep := func(version int) error { return keepCopy(ctx, db.writer, path, version) }
	if err := migrate(ctx, db.writer, migrations(), keep); err != nil {
		return err
	}
	if err := connect(ctx, db.reader); err != nil {
		return err
	}
	return db.file.remember()
}

// Close waits for the statements that run and closes the file. The writer goes
// last: the last connection to close folds the write-ahead log into the file.
func (db *DB) Close() error {
	err := db.reader.Close()
	// Failing to refresh the planner's statistics costs a little speed, no data.
	_ = db.write(context.Background(), "reach the database", func(tx *sql.Tx) error {
		_, err := tx.ExecContext(context.Background(), "PRAGMA optimize")
		return err
	})
	if err := errors.Join(err, db.writer.Close()); err != nil {
		return fmt.Errorf("cannot close the database: %w", err)
	}
	return nil
}

// write runs fn in the one transaction that can write and commits when fn
// returns nil. what completes "cannot ..." in an internal error.
//
// What nobody would find again is not written (ErrMoved): the path is looked at last,
// before the commit. What changed something is counted (see count).
//
// Then it looks at what it wrote. The first reader of a commit writes a mark into
// the file beside (-shm; walTryBeginRead in SQLite's wal.c); if that was one that
// comes while the disk does not answer, it would wait for the disk, and readers
// must not.
func (db *DB) write(ctx context.Context, what string, fn func(tx *sql.Tx) error) error {
	err := transact(ctx, db.writer, what, func(tx *sql.Tx) error {
		before, err := changes(ctx, tx)
		if err != nil {
			return err
		}
		if err := fn(tx); err != nil {
			return err
		}
		if after, err := changes(ctx, tx); err != nil {
			return err
		} else if after != before {
			if err := count(ctx, tx); err != nil {
				return err
			}
		}
		return db.Moved()
	})
	if err == nil {
		_ = db.look(context.WithoutCancel(ctx)) // a reader that fails says so to its caller
	}
	return err
}

// look reads the least that there is.
func (db *DB) look(ctx context.Context) error {
	var version int
	return db.reader.QueryRowContext(ctx, "SELECT 1 FROM pragma_user_version").Scan(&version)
}

// read runs fn on one unchanging state of the database.
func (db *DB) read(ctx context.Context, what string, fn func(tx *sql.Tx) error) error {
	return transact(ctx, db.reader, what, fn)
}

func transact(ctx context.Context, pool *sql.DB, what string, fn func(tx *sql.Tx) error) error {
	tx, err := pool.BeginTx(ctx, nil)
	if err != nil {
		return explain(what, err)
	}
	defer func() { _ = tx.Rollback() }() // does nothing after the commit
	if err := fn(tx); err != nil {
		return explain(what, err)
	}
	return explain(what, tx.Commit())
}

// stamp turns a time into what is stored; the zero time is 0.
func stamp(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}

// moment is the inverse of stamp.
func moment(ms int64) time.Time {
	if ms == 0 {
		return time.Time{}
	}
	return time.UnixMilli(ms).UTC()
}

// Alive waits for the one connection that writes and takes the file's write
// lock for a moment, without writing to the disk.
func (db *DB) Alive(ctx context.Context) error {
	return db.write(ctx, "reach the database", func(*sql.Tx) error { return nil })
}
