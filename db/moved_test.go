package db

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"berth/app"
)

// Nothing is written that nobody would find again: while the file is not at its path,
// or another one is there, changes are refused and what was read goes on.
func TestNoChangeOfAFileThatIsNotThere(t *testing.T) {
	path := filepath.Join(t.TempDir(), "berth.db")
	db := openAt(t, path, time.Now)
	ana, err := db.Accounts.CreateAccount(t.Context(), app.Account{Name: "ana", TotalRAM: 100})
	must(t, err)
	away := path + ".away"
	refused := func(when string) {
		t.Helper()
		if err := db.Moved(); !errors.Is(err, ErrMoved) {
			t.Errorf("%s: Moved() = %v", when, err)
		}
		_, err := db.Accounts.CreateAccount(t.Context(), app.Account{Name: "bob", TotalRAM: 100})
		if app.KindOf(err) != app.Unavailable || !strings.Contains(err.Error(), "cannot create the account: the host's database was removed or replaced; its owner must put it back and start berth again") {
			t.Errorf("%s: a change gave %v", when, err)
		}
		if all, err := db.Accounts.Accounts(t.Context()); err != nil || len(all) != 1 || all[0].Name != ana.Name {
			t.Errorf("%s: %v, %v", when, all, err)
		}
	}
	must(t, db.Moved())
	rename(t, path, away)
	refused("away")
	must(t, openAt(t, path, time.Now).Close()) // another one
	refused("replaced")
	must(t, os.Remove(path))
	refused("removed")
	rename(t, away, path)
	must(t, db.Moved())
	if _, err := db.Accounts.CreateAccount(t.Context(), app.Account{Name: "bob", TotalRAM: 100}); err != nil {
		t.Errorf("back: %v", err)
	}
}

// Nor is it while a file beside it is gone: only who has that open would find the
// change. Nobody opens the database beside them, and what they hold is in it at the end.
func TestNoChangeWithoutTheFilesBeside(t *testing.T) {
	for _, gone := range [][]string{{walWord}, {shmWord}, {walWord, shmWord}} {
		path := filepath.Join(t.TempDir(), "berth.db")
		db := openAt(t, path, time.Now)
		_, err := db.Accounts.CreateAccount(t.Context(), app.Account{Name: "ana", TotalRAM: 100})
		must(t, err)
		for _, word := range gone {
			must(t, os.Remove(path+word))
		}
		if _, err := db.Accounts.CreateAccount(t.Context(), app.Account{Name: "bob", TotalRAM: 100}); app.KindOf(err) != app.Unavailable || !errors.Is(err, ErrMoved) {
			t.Errorf("without %v a change gave %v", gone, err)
		}
		if all, err := db.Accounts.Accounts(t.Context()); err != nil || len(all) != 1 {
			t.Errorf("without %v: %v, %v", gone, all, err)
		}
		if second, err := Open(t.Context(), path, time.Now); !errors.Is(err, ErrMoved) {
			t.Errorf("without %v it was opened again: %v", gone, err)
			must(t, second.Close())
		}
		if _, err := New(t.Context(), path); !errors.Is(err, ErrMoved) {
			t.Errorf("without %v it can be used: %v", gone, err)
		}
		for _, word := range gone {
			if _, err := os.Lstat(path + word); err == nil {
				t.Errorf("%s was made anew", word)
			}
		}
		must(t, db.Close())
		if all, err := openAt(t, path, time.Now).Accounts.Accounts(t.Context()); err != nil || len(all) != 1 || all[0].Name != "ana" {
			t.Errorf("without %v, after the end: %v, %v", gone, all, err)
		}
	}
}

// rename renames a database with the files beside it.
func rename(t *testing.T, from, to string) {
	t.Helper()
	for _, more := range []string{"", "-wal", "-shm"} {
		must(t, os.Rename(from+more, to+more))
	}
}

// A connection that is made later is to the same file, or there is none.
func TestNoConnectionToAnotherFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "berth.db")
	db := openAt(t, path, time.Now)
	rename(t, path, path+".away")
	must(t, openAt(t, path, time.Now).Close())
	first, err := db.reader.Conn(t.Context()) // the one that is open
	must(t, err)
	defer first.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if second, err := db.reader.Conn(ctx); !errors.Is(err, ErrMoved) {
		t.Errorf("another connection gave %v", err)
		_ = second.Close()
	}
	if err := db.read(ctx, "look", func(tx) error { return nil }); app.KindOf(err) != app.Unavailable {
		t.Errorf("a read that needs one gave %v", err)
	}
}

// What was removed under the daemon can be copied from what is open.
func TestCopyOfARemovedFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "berth.db")
	db := openAt(t, path, time.Now)
	_, err := db.Accounts.CreateAccount(t.Context(), app.Account{Name: "ana", TotalRAM: 100})
	must(t, err)
	for _, more := range []string{"", "-wal", "-shm"} {
		must(t, os.Remove(path+more))
	}
	saved := path + ".saved-1"
	must(t, db.Copy(t.Context(), saved))
	if schema, err := Check(t.Context(), saved); err != nil || schema != Schema() {
		t.Errorf("the copy has schema %d, %v", schema, err)
	}
	if all, err := openAt(t, saved, time.Now).Accounts.Accounts(t.Context()); err != nil || len(all) != 1 || all[0].Name != "ana" {
		t.Errorf("the copy has %v, %v", all, err)
	}
}

// A database is new until something is stored in it.
func TestNew(t *testing.T) {
	path := filepath.Join(t.TempDir(), "berth.db")
	is := func(want bool) {
		t.Helper()
		if got, err := New(t.Context(), path); got != want || err != nil {
			t.Errorf("New() = %t, %v", got, err)
		}
	}
	is(true)
	must(t, os.WriteFile(path, nil, 0o600))
	is(true)
	db := openAt(t, path, time.Now)
	is(false)
	must(t, db.Close())
	is(false)
	must(t, os.WriteFile(path, []byte(strings.Repeat("no database", 1000)), 0o600))
	if _, err := New(t.Context(), path); err == nil {
		t.Error("a broken file is new")
	}
}

// The groups have no name until a daemon gives them one; ids whose application is
// gone are those with a place alone.
func TestGroupNameAndGone(t *testing.T) {
	db, _ := openTemp(t)
	if name, err := db.GroupName(t.Context()); name != "" || err != nil {
		t.Errorf("at first %q, %v", name, err)
	}
	must(t, db.NameGroups(t.Context(), "0123abcd"))
	if name, err := db.GroupName(t.Context()); name != "0123abcd" || err != nil {
		t.Errorf("then %q, %v", name, err)
	}
	ana, err := db.Accounts.CreateAccount(t.Context(), app.Account{Name: "ana", TotalRAM: 1000})
	must(t, err)
	ids := IDRange{UIDBase: 500, UIDCount: 50, PortFirst: 20000, PortLast: 20050}
	reserve := func(id app.ID) app.App {
		a, err := db.Allocations(ids).Reserve(t.Context(), app.App{ID: id, Account: ana.ID, RAM: 1, Wanted: app.WantOnline}, func(app.Account, app.Use) error { return nil })
		must(t, err)
		return a
	}
	for _, id := range []app.ID{"stays", "goes"} {
		_, err := db.Apps.CreateApp(t.Context(), reserve(id), app.Deploy{By: ana.ID, Kind: app.DeployUpload})
		must(t, err)
	}
	reserve("cut-short")
	must(t, db.Apps.DeleteApp(t.Context(), "goes"))
	if removed, cut, err := db.Allocations(ids).Gone(t.Context()); err != nil || len(removed) != 1 || removed[0] != "goes" || len(cut) != 1 || cut[0] != "cut-short" {
		t.Errorf("gone are %v and %v, %v", removed, cut, err)
	}
	must(t, db.Allocations(ids).PassUID(t.Context(), 520))
	if a := reserve("next"); a.UID != 521 {
		t.Errorf("the next has the uid %d", a.UID)
	}
	must(t, db.Allocations(ids).PassUID(t.Context(), 510))
	if a := reserve("after"); a.UID != 522 {
		t.Errorf("the one after has the uid %d", a.UID)
	}
}
