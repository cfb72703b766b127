package db

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"berth/app"
)

// An older file beside the log of a newer one is damaged by it. Nothing opens it, and
// neither is written to; without the log it is what it was.
func TestNoDatabaseBesideALogOfAnother(t *testing.T) {
	path := filepath.Join(t.TempDir(), "berth.db")
	add := func(db *DB, from, to int) {
		t.Helper()
		for i := from; i < to; i++ {
			_, err := db.CreateAccount(t.Context(), app.Account{Name: fmt.Sprintf("account-%d", i), TotalRAM: 100})
			must(t, err)
		}
	}
	read := func(name string) []byte {
		t.Helper()
		text, err := os.ReadFile(name)
		must(t, err)
		return text
	}
	db := openAt(t, path, time.Now)
	add(db, 0, 10)
	must(t, db.Close())
	older := read(path)
	db = openAt(t, path, time.Now)
	add(db, 10, 400)
	must(t, db.Close())
	newer := read(path)
	db = openAt(t, path, time.Now)
	add(db, 400, 460) // enough for the file to grow
	log := read(path + walWord)
	for _, tt := range []struct {
		name string
		file []byte
		ok   bool
	}{{"its own", newer, true}, {"older", older, false}} {
		at := filepath.Join(t.TempDir(), "berth.db")
		must(t, os.WriteFile(at, tt.file, 0o600))
		must(t, os.WriteFile(at+walWord, log, 0o600))
		if !LeftLog(at) {
			t.Errorf("%s: no log is left", tt.name)
		}
		if err := Usable(t.Context(), at); (err == nil) != tt.ok || !tt.ok && !Damaged(err) {
			t.Errorf("%s: Usable() = %v", tt.name, err)
		}
		opened, err := Open(t.Context(), at, time.Now)
		if (err == nil) != tt.ok || !tt.ok && !Damaged(err) {
			t.Errorf("%s: Open() = %v", tt.name, err)
		}
		if err == nil {
			must(t, opened.Close())
			continue
		}
		if !bytes.Equal(read(at), tt.file) || !bytes.Equal(read(at+walWord), log) {
			t.Errorf("%s: it was written to", tt.name)
		}
		must(t, os.Remove(at+walWord))
		must(t, ignoreMissing(os.Remove(at+shmWord)))
		if all, err := openAt(t, at, time.Now).Accounts(t.Context()); err != nil || len(all) != 10 {
			t.Errorf("%s, without the log: %d accounts, %v", tt.name, len(all), err)
		}
	}
}
