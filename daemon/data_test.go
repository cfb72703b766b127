package daemon

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"berth/app/exit"
)

func TestPathGroupName(t *testing.T) {
	a, b := pathGroupName("/var/lib/berth"), pathGroupName("/tmp/other")
	if a == b || len(a) != 8 || a != pathGroupName("/var/lib/berth") {
		t.Errorf("%q and %q", a, b)
	}
	dir := t.TempDir()
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(dir, link); err != nil {
		t.Fatal(err)
	}
	if pathGroupName(link) != pathGroupName(dir) {
		t.Error("a link to the data directory has groups of its own")
	}
}

// A data directory and its database have their modes whatever the umask, and the
// parents are made; a command makes neither.
func TestMakeDatabase(t *testing.T) {
	for _, mask := range []int{0, 0o077} {
		dir := filepath.Join(t.TempDir(), "deep", "er", "data")
		if d, err := OpenDatabase(t.Context(), dir); err == nil {
			t.Errorf("a command opened a database that there is not: %v", d.Close())
		} else if code := codeOf(err); code != exit.NotFound || !strings.Contains(err.Error(), "berth has not been started there yet") {
			t.Errorf("a command where berth was never started: %d, %v", code, err)
		}
		if _, err := os.Lstat(filepath.Dir(dir)); err == nil {
			t.Error("a command made the directory")
		}
		before := syscall.Umask(mask)
		made, err := MakeDatabase(t.Context(), dir)
		syscall.Umask(before)
		if err != nil {
			t.Fatal(err)
		}
		name, err := made.GroupName(t.Context())
		if err := errors.Join(err, made.NameGroups(t.Context(), "0123abcd"), made.Close()); err != nil || name != "" {
			t.Errorf("the groups of a new database are %q, %v", name, err)
		}
		for file, want := range map[string]os.FileMode{dir: 0o711, filepath.Join(dir, DatabaseName): 0o600} {
			if info, err := os.Stat(file); err != nil || info.Mode().Perm() != want {
				t.Errorf("umask %o: %s is %v, %v", mask, file, info, err)
			}
		}
		again, err := MakeDatabase(t.Context(), dir)
		if err != nil {
			t.Fatal(err)
		}
		if kept, err := again.GroupName(t.Context()); kept != "0123abcd" || err != nil || GroupName(t.Context(), dir) != kept {
			t.Errorf("the groups are %q now, %v", kept, err)
		}
		if err := again.Close(); err != nil {
			t.Error(err)
		}
	}
}

// codeOf is the exit code of an error.
func codeOf(err error) int {
	var p *exit.Problem
	if errors.As(err, &p) {
		return p.Code
	}
	return exit.Failure
}

// No database is made beside what another one has left: with it everything there
// would belong to nobody.
func TestNoNewDatabaseBesideWhatIsLeft(t *testing.T) {
	for _, left := range []string{
		"apps/1745338954955/main.py", "apps/", "rollback/x/plan", "backups/x.zip", "logs/x/run.log", "metrics/recent", "lost/x.1/apps/y", "staging/", "tmp/",
		"berth.db-wal", "berth.db-shm", "berth.db.schema-11", "berth.db.saved-20261122T130500Z",
	} {
		for _, empty := range []bool{false, true} { // a file that holds no schema is no database
			dir := t.TempDir()
			path := filepath.Join(dir, left)
			err := os.MkdirAll(path, 0o755)
			if !strings.HasSuffix(left, "/") {
				err = errors.Join(err, os.Remove(path), os.WriteFile(path, nil, 0o600))
			}
			file := filepath.Join(dir, DatabaseName)
			beside := left == DatabaseName+"-wal" || left == DatabaseName+"-shm"
			if empty && !beside { // those are what a first start has that was cut short
				err = errors.Join(err, os.WriteFile(file, nil, 0o600))
			}
			if err != nil {
				t.Fatal(err)
			}
			for what, open := range map[string]func() error{
				"serve":   func() error { _, err := MakeDatabase(t.Context(), dir); return err },
				"command": func() error { _, err := OpenDatabase(t.Context(), dir); return err },
				"check":   func() error { return LostDatabase(t.Context(), dir) },
			} {
				if err := open(); codeOf(err) != exit.Config || !strings.Contains(err.Error(), "its database berth.db is gone, and ") {
					t.Errorf("%s beside %s, an empty file %t: %v", what, left, empty, err)
				}
			}
			if info, err := os.Stat(file); err == nil && info.Size() > 0 || (err == nil) != (empty && !beside) {
				t.Errorf("beside %s: the database is %v, %v", left, info, err)
			}
		}
	}
	dir := t.TempDir() // what a start before the first database has made, and an owner
	for _, name := range []string{"lock", "room", "berth.toml", "lost+found"} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	d, err := MakeDatabase(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Close(); err != nil {
		t.Error(err)
	}
}

func TestStartOf(t *testing.T) {
	if a, b := startOf("/var/lib/berth"), startOf("/srv/other"); a == b || a < 0 || b < 0 {
		t.Errorf("%d and %d", a, b)
	}
}

func TestDiskProblems(t *testing.T) {
	dir := t.TempDir()
	for _, tc := range []struct {
		err  error
		code int
		want string
	}{
		{syscall.ENOSPC, exit.Failure, "its disk is full, and a start needs about 100 KB"},
		{syscall.EDQUOT, exit.Failure, "its disk quota is used up, and a start needs about 100 KB"},
		{syscall.EROFS, exit.Config, "its disk is read-only"}, // which no start mends
		{syscall.EIO, 0, ""},
		{nil, 0, ""},
	} {
		err := tc.err
		if err != nil {
			err = fmt.Errorf("cannot open the database: %w", err)
		}
		var p *exit.Problem
		if got := DiskProblem(dir, err); tc.code == 0 {
			if got != nil {
				t.Errorf("%v is told as %v", tc.err, got)
			}
		} else if !errors.As(got, &p) || p.Code != tc.code || p.Error() != "cannot use the data directory "+dir+": "+tc.want || p.Hint == "" {
			t.Errorf("%v is told as %v (%+v)", tc.err, got, p)
		}
	}
}
