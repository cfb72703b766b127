package db

import (
	"database/sql"
	"errors"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	_ "github.com/mattn/go-sqlite3" // a program's database
)

// foreign makes a database as a program does, which stays open until the test ends.
func foreign(t *testing.T, path, mode string) *sql.DB {
	t.Helper()
	name := url.URL{Scheme: "file", Path: path, RawQuery: "_journal_mode=" + mode}
	d, err := sql.Open("sqlite3", name.String())
	if err == nil {
		d.SetMaxOpenConns(1)
		_, err = d.Exec("CREATE TABLE a (x); INSERT INTO a VALUES ('one'), ('two'); PRAGMA user_version = 7")
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	return d
}

// filesOf are the files of a directory with their contents.
func filesOf(t *testing.T, dir string) map[string]string {
	t.Helper()
	list, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	for _, e := range list {
		text, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		all[e.Name()] = string(text)
	}
	return all
}

// copied copies a database into a new file.
func copied(t *testing.T, path string) (string, error) {
	t.Helper()
	to := filepath.Join(t.TempDir(), "copy.db")
	if err := os.WriteFile(to, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	return to, CopyForeign(t.Context(), path, to)
}

// A copy has what was committed, whatever the mode, is one file, and leaves what it is of alone.
// Programs that write meanwhile are other processes: see package daemon/backup.
func TestCopyForeign(t *testing.T) {
	for _, name := range []string{"x.db", "a?b=c%20 #é'\".db", "\xff\xfe"} {
		for _, mode := range []string{"WAL", "DELETE", "MEMORY"} {
			dir, made := t.TempDir(), t.TempDir()
			d := foreign(t, filepath.Join(made, name), mode)
			// What is there in WAL mode while it is open is what a killed program leaves.
			for file, text := range filesOf(t, made) {
				if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			if beside := len(filesOf(t, dir)); (beside == 3) != (mode == "WAL") {
				t.Fatalf("in mode %s there are %d files", mode, beside)
			}
			if err := d.Close(); err != nil {
				t.Fatal(err)
			}
			before := filesOf(t, dir)
			to, err := copied(t, filepath.Join(dir, name))
			if err != nil {
				t.Errorf("%q in mode %s: %v", name, mode, err)
				continue
			}
			if again, err := copied(t, filepath.Join(dir, name)); err != nil || filesOf(t, filepath.Dir(again))["copy.db"] != filesOf(t, filepath.Dir(to))["copy.db"] {
				t.Errorf("%q in mode %s: a second copy is another (%v)", name, mode, err)
			}
			after := filesOf(t, dir)
			delete(before, name+"-shm") // the index is made anew; who may not write makes it in memory
			delete(after, name+"-shm")
			if !maps.Equal(before, after) {
				t.Errorf("%q in mode %s: the files were %d, and are %d, or have changed", name, mode, len(before), len(after))
			}
			var n, version int
			d, err = sql.Open("sqlite3", "file:"+to+"?mode=ro&immutable=1")
			if err == nil {
				err = errors.Join(d.QueryRow("SELECT count(*) FROM a").Scan(&n), d.QueryRow("PRAGMA user_version").Scan(&version), d.Close())
			}
			if err != nil || n != 2 || version != 7 {
				t.Errorf("%q in mode %s: the copy has %d rows, version %d, %v", name, mode, n, version, err)
			}
			if left := filesOf(t, filepath.Dir(to)); len(left) != 1 {
				t.Errorf("there are %d files at the copy", len(left))
			}
		}
	}
}

func TestCopyForeignFails(t *testing.T) {
	dir := t.TempDir()
	in := func(name string) string { return filepath.Join(dir, name) }
	if err := errors.Join(
		os.WriteFile(in("text"), []byte(strings.Repeat("no database ", 1000)), 0o600), os.Mkdir(in("dir"), 0o700),
		syscall.Mkfifo(in("pipe"), 0o600), os.Symlink("text", in("link")),
	); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"text", "dir", "pipe", "link", "none"} {
		if _, err := copied(t, in(name)); err == nil || !strings.HasPrefix(err.Error(), "cannot copy the database: ") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := os.Stat(in("none")); err == nil {
		t.Error("the database that is to be copied was made")
	}
	d := foreign(t, in("x.db"), "DELETE")
	d.Close()
	if err := CopyForeign(t.Context(), in("x.db"), in("nowhere")); err == nil {
		t.Error("copied into a file that is not there")
	}
}
