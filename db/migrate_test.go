package db

import (
	"database/sql"
	"errors"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/mattn/go-sqlite3"
)

func TestEveryTableIsStrict(t *testing.T) {
	db, _ := openTemp(t)
	var loose int
	must(t, db.reader.QueryRowContext(t.Context(),
		`SELECT count(*) FROM pragma_table_list WHERE type = 'table' AND strict = 0 AND name NOT LIKE 'sqlite_%'`).Scan(&loose))
	if loose != 0 {
		t.Errorf("%d tables are not STRICT", loose)
	}
	_, err := db.writer.ExecContext(t.Context(), "INSERT INTO account (name, total_ram, plan, locale, disabled, created_at) VALUES ('a', 'much', '', '', 0, 0)")
	if !isCode(err, sqlite3.ErrConstraint) {
		t.Errorf("text in an INTEGER column: got %v, want a constraint error", err)
	}
}

func TestOpenRefusesANewerSchema(t *testing.T) {
	path := filepath.Join(t.TempDir(), "berth.db")
	db := openAt(t, path, time.Now)
	_, err := db.writer.ExecContext(t.Context(), "PRAGMA user_version = 7")
	must(t, err)
	must(t, db.Close())
	_, err = Open(t.Context(), path, time.Now)
	const want = "cannot open the database: it was written by a newer berth (schema 7, this one knows 2)"
	if err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

func TestMigrateStepByStep(t *testing.T) {
	db, _ := openTemp(t)
	steps := fstest.MapFS{
		"0001.sql": {Data: []byte("this is not run again")},
		"0002.sql": {Data: []byte("CREATE TABLE two (x INTEGER) STRICT; INSERT INTO two VALUES (2);")},
	}
	must(t, migrate(t.Context(), db.writer, steps))

	steps["0003.sql"] = &fstest.MapFile{Data: []byte("CREATE TABLE three (x INTEGER) STRICT; INSERT INTO nowhere VALUES (3);")}
	if err := migrate(t.Context(), db.writer, steps); err == nil || !strings.Contains(err.Error(), "to version 3") {
		t.Errorf("a broken step: got %v", err)
	}
	version, err := schemaVersion(t.Context(), db.writer)
	must(t, err)
	var left int
	must(t, db.writer.QueryRowContext(t.Context(), "SELECT count(*) FROM sqlite_schema WHERE name = 'three'").Scan(&left))
	if version != 2 || left != 0 {
		t.Errorf("after a broken step: version %d and %d tables of it, want 2 and 0", version, left)
	}

	delete(steps, "0003.sql")
	steps["0004.sql"] = &fstest.MapFile{Data: []byte("SELECT 1")}
	if err := migrate(t.Context(), db.writer, steps); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a gap in the steps: got %v", err)
	}
}

func TestStepIsSkippedWhenAnotherProcessWasFaster(t *testing.T) {
	db, _ := openTemp(t)
	must(t, transact(t.Context(), db.writer, "test", func(tx *sql.Tx) error {
		return step(t.Context(), tx, 1, "CREATE TABLE account (x)")
	}))
}
