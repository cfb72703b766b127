package db

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"berth/app"
)

// While somebody else writes, here or in another process, the writer is not
// there to answer.
func TestAlive(t *testing.T) {
	db, _ := openTemp(t)
	if err := db.Alive(t.Context()); err != nil {
		t.Fatal(err)
	}
	tx, err := db.writer.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := db.Alive(ctx); err == nil || ctx.Err() == nil {
		t.Errorf("with a writer that hangs: %v, %v", err, ctx.Err())
	}
	if err := tx.Rollback(); err != nil {
		t.Fatal(err)
	}
	if err := db.Alive(t.Context()); err != nil {
		t.Error(err)
	}
}

// Each commit is seen by a reader at once, so that none that comes later has to
// write its mark: see write. The marks are in the file beside, from byte 100
// (https://sqlite.org/walformat.html, 2.2).
func TestWriteLeavesNothingToReaders(t *testing.T) {
	db, _ := openTemp(t)
	path := pathOf(t, db)
	for n := range 5 {
		mustAccount(t, db, fmt.Sprint("ana", n), 1)
		before, err := os.ReadFile(path + "-shm")
		must(t, err)
		for range 8 {
			if _, err := db.Accounts.Accounts(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		after, err := os.ReadFile(path + "-shm")
		must(t, err)
		if !bytes.Equal(before, after) {
			t.Errorf("after commit %d a reader wrote", n)
		}
	}
}

// A file that is broken under the daemon is told as that, by whoever reads it
// first, and is no internal error.
func TestDamageWhileRunning(t *testing.T) {
	db, _ := openTemp(t)
	path := pathOf(t, db)
	mustAccount(t, db, "ana", 1)
	_, err := db.writer.ExecContext(t.Context(), "PRAGMA wal_checkpoint(TRUNCATE)")
	must(t, err)
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	must(t, err)
	info, err := f.Stat()
	must(t, err)
	_, err = f.WriteAt(bytes.Repeat([]byte{0xff}, int(info.Size())-4096), 4096)
	must(t, errors.Join(err, f.Close()))
	db.reader.SetMaxIdleConns(0) // those that are open have read it
	_, err = db.Accounts.Accounts(t.Context())
	var told *app.Error
	if !Damaged(errors.Unwrap(err)) || !errors.As(err, &told) || told.Kind != app.Unavailable || !strings.HasSuffix(told.Message.String(), app.DatabaseDamaged) {
		t.Errorf("it is told as %v", err)
	}
}

// pathOf is the file of a database.
func pathOf(t *testing.T, db *DB) (path string) {
	t.Helper()
	must(t, db.reader.QueryRowContext(t.Context(), "SELECT file FROM pragma_database_list").Scan(&path))
	return path
}
