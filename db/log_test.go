package db

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"berth/app"
)

// An older file beside the log of a newer one would be mixed with it. Nothing opens it,
// and neither is written to; without the log it is what it was. The same holds for a copy,
// and, as far as it is damaged, for a file of before commits were counted.
func TestNoDatabaseBesideALogOfAnother(t *testing.T) {
	path := filepath.Join(t.TempDir(), "berth.db")
	add := func(db *DB, from, to int) {
		t.Helper()
		for i := from; i < to; i++ {
			_, err := db.Accounts.CreateAccount(t.Context(), app.Account{Name: fmt.Sprintf("account-%d", i), TotalRAM: 100})
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
	uncounted := slices.Clone(older)
	copy(uncounted[counted:counted+4], make([]byte, 4))
	db = openAt(t, path, time.Now)
	add(db, 10, 400)
	must(t, db.Close())
	newer := read(path)
	db = openAt(t, path, time.Now)
	add(db, 400, 460) // enough for the file to grow
	log := read(path + walWord)
	must(t, db.Copy(t.Context(), path+".copy"))
	copied := read(path + ".copy")
	for _, tt := range []struct {
		name  string
		file  []byte
		knows int
		want  func(error) bool
	}{
		{"its own", newer, 460, func(err error) bool { return err == nil }},
		{"older", older, 10, func(err error) bool { return errors.Is(err, ErrOtherLog) }},
		{"a copy", copied, 460, func(err error) bool { return errors.Is(err, ErrOtherLog) }},
		{"of before", uncounted, 10, Damaged},
	} {
		at := filepath.Join(t.TempDir(), "berth.db")
		must(t, os.WriteFile(at, tt.file, 0o600))
		must(t, os.WriteFile(at+walWord, log, 0o600))
		if !LeftLog(at) {
			t.Errorf("%s: no log is left", tt.name)
		}
		if err := Usable(t.Context(), at); !tt.want(err) {
			t.Errorf("%s: Usable() = %v", tt.name, err)
		}
		opened, err := Open(t.Context(), at, time.Now)
		if !tt.want(err) {
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
		if all, err := openAt(t, at, time.Now).Accounts.Accounts(t.Context()); err != nil || len(all) != tt.knows {
			t.Errorf("%s, without the log: %d accounts, %v", tt.name, len(all), err)
		}
	}
}

// What belongs says is what SQLite makes of a file and a log: of all the pairs of files
// and logs that a database leaves in its life, those that it takes give the state that the
// log ends with, and each file is taken with the log that was beside it, cut or not.
func TestLogBelongs(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "berth.db")
	db := openAt(t, path, time.Now)
	random := rand.New(rand.NewPCG(17, 1))
	var names []app.AccountID
	for i := range 50 {
		a, err := db.Accounts.CreateAccount(t.Context(), app.Account{Name: fmt.Sprintf("account-%d", i), TotalRAM: 100})
		must(t, err)
		names = append(names, a.ID)
	}
	type moment struct {
		file, log []byte
		total     map[app.AccountID]app.MB
	}
	total := func(db *DB) map[app.AccountID]app.MB {
		all, err := db.Accounts.Accounts(t.Context())
		must(t, err)
		of := map[app.AccountID]app.MB{}
		for _, a := range all {
			of[a.ID] = a.TotalRAM
		}
		return of
	}
	var life []moment
	for range 14 {
		for range 1 + random.IntN(6) {
			_, err := db.Accounts.UpdateAccount(t.Context(), names[random.IntN(len(names))], func(a *app.Account, _ app.MB) error {
				a.TotalRAM = app.MB(100 + random.IntN(1000))
				return nil
			})
			must(t, err)
		}
		if mode := []string{"", "PASSIVE", "RESTART"}[random.IntN(3)]; mode != "" {
			_, err := db.writer.ExecContext(t.Context(), "PRAGMA wal_checkpoint("+mode+")")
			must(t, err)
		}
		file, err := os.ReadFile(path)
		must(t, err)
		log, err := os.ReadFile(path + walWord)
		must(t, err)
		life = append(life, moment{file, log, total(db)})
	}
	taken, refused := 0, 0
	for i, from := range life {
		for j, to := range life {
			at := filepath.Join(dir, fmt.Sprintf("%d-%d.db", i, j))
			log := to.log
			if cut := random.IntN(4 * len(log)); i == j && cut < len(log) {
				log = log[:cut] // what the disk had of it when the power went
			}
			must(t, os.WriteFile(at, from.file, 0o600))
			must(t, os.WriteFile(at+walWord, log, 0o600))
			yes, told, err := belongs(at)
			must(t, err)
			switch {
			case i == j && told && !yes:
				t.Errorf("moment %d: its own log is refused", i)
			case !told:
			case !yes:
				refused++
			case len(log) == len(to.log):
				taken++
				opened, err := Open(t.Context(), at, time.Now)
				must(t, err)
				if !maps.Equal(total(opened), to.total) {
					t.Errorf("the file of moment %d with the log of %d is neither", i, j)
				}
				must(t, opened.Close())
			}
		}
	}
	if t.Logf("%d taken, %d refused", taken, refused); taken <= len(life) || refused < len(life) {
		t.Errorf("%d pairs were taken and %d refused of %d moments", taken, refused, len(life))
	}
}

// A change that changes nothing is not written: where the disk has no room for it, what
// asked for it can go on.
func TestWantedAgainIsNotWritten(t *testing.T) {
	path := filepath.Join(t.TempDir(), "berth.db")
	db := openAt(t, path, time.Now)
	id := mustApp(t, db, mustAccount(t, db, "ana", 512).ID, "shop", 100).ID
	commits := func() int {
		t.Helper()
		f, err := os.Open(path + walWord)
		must(t, err)
		defer f.Close()
		_, _, n, err := countsOf(f)
		must(t, err)
		return n
	}
	must(t, db.Apps.SetWanted(t.Context(), id, app.WantStopped))
	before := commits()
	must(t, db.Apps.SetWanted(t.Context(), id, app.WantStopped))
	if now := commits(); now != before {
		t.Errorf("there were %d commits, and now are %d", before, now)
	}
	must(t, db.Apps.SetWanted(t.Context(), id, app.WantOnline))
	if now := commits(); now != before+1 {
		t.Errorf("there were %d commits, and then %d", before, now)
	}
}
