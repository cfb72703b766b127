package db

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// ErrNewer is the error of a database that a newer berth has written: this one
// leaves it as it is.
var ErrNewer = errors.New("it was written by a newer berth")

// copiesKept is how many copies from before a migration are kept.
const copiesKept = 2

// copyWord stands between the name of the database and the schema of a copy.
const copyWord = ".schema-"

// PartWord ends the name of a copy that is being made.
const PartWord = ".part"

// Copy writes the database as it is at one moment to a new file at path, mode
// 0600, and makes it durable. Whoever uses the database goes on meanwhile. The
// file has no history: what was deleted is not in it. Nothing is left behind on
// an error; a process that is killed leaves what it has under the name path.part.
func (db *DB) Copy(ctx context.Context, path string) error {
	from := db.reader
	if db.Moved() != nil { // no reader can connect any more, so leave those that there are to who reads
		from = db.writer
	}
	part := path + PartWord
	err := ignoreMissing(os.Remove(part))
	if err == nil {
		err = vacuumInto(ctx, from, part)
	}
	if err == nil {
		err = errors.Join(os.Link(part, path), os.Remove(part), syncDir(filepath.Dir(path)))
	}
	if err != nil {
		return fmt.Errorf("cannot copy the database: %w", fileError(err))
	}
	return nil
}

func vacuumInto(ctx context.Context, pool *sql.DB, path string) (err error) {
	// Made here, since SQLite would give it the mode of the umask; it takes an
	// empty file (https://sqlite.org/lang_vacuum.html).
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	defer func() {
		if err = errors.Join(err, f.Close()); err != nil {
			_ = os.Remove(path)
		}
	}()
	if _, err := pool.ExecContext(ctx, "VACUUM INTO ?", path); err != nil {
		return err
	}
	if err := renumber(f); err != nil {
		return err
	}
	return f.Sync()
}

// Schema is the schema that this berth knows.
func Schema() int {
	names, err := fs.Glob(migrations(), "*.sql")
	if err != nil {
		return 0 // the pattern is valid, so this cannot be
	}
	return len(names)
}

// Check proves that the file at path, which nobody uses, is a whole database
// that this berth can open, and returns its schema. It changes nothing. A newer
// schema is ErrNewer.
func Check(ctx context.Context, path string) (schema int, err error) {
	if _, err := os.Stat(path); err != nil {
		return 0, err
	}
	pool, err := openPool(path, reading, &origin{})
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, pool.Close()) }()
	if schema, err = schemaVersion(ctx, pool); err != nil {
		return 0, err
	}
	switch known := Schema(); {
	case schema > known:
		return schema, newerError(schema, known)
	case schema == 0:
		return 0, errors.New("it is no database of berth's: it has no schema")
	}
	return schema, whole(ctx, pool)
}

// whole proves that every page, row and index is as it should be, and that every row
// belongs to something.
func whole(ctx context.Context, pool rower) error {
	var verdict string
	if err := pool.QueryRowContext(ctx, "PRAGMA integrity_check(1)").Scan(&verdict); err != nil {
		return err
	}
	if verdict != "ok" {
		return damage(verdict)
	}
	var broken int
	if err := pool.QueryRowContext(ctx, "SELECT count(*) FROM pragma_foreign_key_check").Scan(&broken); err != nil {
		return err
	}
	if broken > 0 {
		return damage(fmt.Sprintf("%d rows belong to nothing", broken))
	}
	return nil
}

// damage is what a check of the whole file has found.
type damage string

// Error implements error.
func (d damage) Error() string { return "it is damaged: " + string(d) }

func newerError(schema, known int) error {
	return fmt.Errorf("%w (schema %d, this one knows %d)", ErrNewer, schema, known)
}

// keepCopy copies a database that is about to be migrated to a file beside it
// that is named after its schema, and removes all but the newest of these.
func keepCopy(ctx context.Context, pool *sql.DB, path string, schema int) error {
	temp := fmt.Sprintf("%s%snew-%d", path, copyWord, os.Getpid())
	if err := ignoreMissing(os.Remove(temp)); err != nil {
		return err
	}
	if err := vacuumInto(ctx, pool, temp); err != nil {
		return fmt.Errorf("cannot keep a copy from before the migration: %w", err)
	}
	// Another process may have migrated it meanwhile; its copy is the one.
	made, err := Check(ctx, temp)
	if err == nil && made != schema {
		return os.Remove(temp)
	}
	if err == nil {
		err = os.Rename(temp, path+copyWord+strconv.Itoa(schema))
	}
	if err != nil {
		return errors.Join(fmt.Errorf("cannot keep a copy from before the migration: %w", err), ignoreMissing(os.Remove(temp)))
	}
	return errors.Join(syncDir(filepath.Dir(path)), dropCopies(path))
}

// dropCopies removes all but the newest copies of a database.
func dropCopies(path string) error {
	all, err := filepath.Glob(globQuote(path) + copyWord + "[0-9]*")
	if err != nil {
		return err
	}
	schemaOf := func(name string) int {
		n, err := strconv.Atoi(strings.TrimPrefix(name, path+copyWord))
		if err != nil {
			return -1
		}
		return n
	}
	all = slices.DeleteFunc(all, func(name string) bool { return schemaOf(name) < 0 })
	slices.SortFunc(all, func(a, b string) int { return schemaOf(b) - schemaOf(a) })
	var errs error
	for _, name := range all[min(copiesKept, len(all)):] {
		errs = errors.Join(errs, ignoreMissing(os.Remove(name)))
	}
	return errs
}

// globQuote makes a path a pattern that matches it alone.
func globQuote(path string) string {
	return strings.NewReplacer(`\`, `\\`, "*", `\*`, "?", `\?`, "[", `\[`).Replace(path)
}

func syncDir(path string) error {
	d, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

func ignoreMissing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
