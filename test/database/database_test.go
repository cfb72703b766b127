package database

import (
	"os"
	"testing"
	"time"

	"berth/db"
)

// A copy is a whole database with the newest schema, of its own: nothing is migrated.
func TestPath(t *testing.T) {
	first, second := Path(t), Path(t)
	for _, path := range []string{first, second} {
		before, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if schema, err := db.Check(t.Context(), path); err != nil || schema == 0 {
			t.Errorf("%s: schema %d, %v", path, schema, err)
		}
		d, err := db.Open(t.Context(), path, time.Now)
		if err != nil {
			t.Fatal(err)
		}
		if err := d.Close(); err != nil {
			t.Fatal(err)
		}
		if after, err := os.ReadFile(path); err != nil || len(after) != len(before) {
			t.Errorf("opening it wrote %d bytes over %d, %v", len(after), len(before), err)
		}
	}
	if first == second {
		t.Error("two tests share a database")
	}
}
