package db

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// Check takes a database that is in use, and one that is not, and changes
// neither.
func TestUsable(t *testing.T) {
	path := filepath.Join(t.TempDir(), "berth.db")
	must(t, Usable(t.Context(), path)) // there is none
	if _, err := os.Stat(path); err == nil {
		t.Error("a file was made")
	}
	db, err := Open(t.Context(), path, time.Now)
	must(t, err)
	must(t, Usable(t.Context(), path))
	_, err = db.writer.ExecContext(t.Context(), "PRAGMA user_version = 999")
	must(t, err)
	for _, open := range []bool{true, false} {
		if err := Usable(t.Context(), path); err == nil || !strings.Contains(err.Error(), "cannot use the database: it was written by a newer berth (schema 999") {
			t.Errorf("open %t: %v", open, err)
		}
		if open {
			must(t, db.Close())
		}
	}
	must(t, os.WriteFile(path, []byte(strings.Repeat("no database", 1000)), 0o600))
	if err := Usable(t.Context(), path); err == nil {
		t.Error("a broken file was taken")
	}
}
