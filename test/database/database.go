package database

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"berth/db"
)

// Path returns the path of a new database in a directory that is removed with the test.
func Path(t testing.TB) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "berth.db")
	if err := Write(path); err != nil {
		t.Fatal(err)
	}
	return path
}

// Write makes a new database at path, whose directory is there and which is not. It is safe
// for concurrent use, but not in a bubble of testing/synctest.
func Write(path string) error {
	text, err := empty()
	if err != nil {
		return err
	}
	return os.WriteFile(path, text, 0o600)
}

// empty is the file of a database that was opened once and closed.
var empty = sync.OnceValues(func() (text []byte, err error) {
	dir, err := os.MkdirTemp("", "berth-database")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	path := filepath.Join(dir, "berth.db")
	d, err := db.Open(context.Background(), path, time.Now)
	if err != nil {
		return nil, err
	}
	if err := d.Close(); err != nil {
		return nil, err
	}
	return os.ReadFile(path)
})
