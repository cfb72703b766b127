package db

import (
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/mattn/go-sqlite3"

	"berth/app"
)

func TestOpenMakesThePragmasTrue(t *testing.T) {
	db, _ := openTemp(t)
	for _, tc := range []struct {
		pool   *sql.DB
		pragma string
		want   string
	}{
		{db.writer, "journal_mode", "wal"},
		{db.writer, "synchronous", "2"},
		{db.writer, "busy_timeout", "5000"},
		{db.writer, "foreign_keys", "1"},
		{db.writer, "trusted_schema", "0"},
		{db.writer, "secure_delete", "1"},
		{db.writer, "user_version", fmt.Sprint(Schema())},
		{db.reader, "busy_timeout", "5000"},
		{db.reader, "foreign_keys", "1"},
		{db.reader, "trusted_schema", "0"},
	} {
		var got string
		must(t, tc.pool.QueryRowContext(t.Context(), "PRAGMA "+tc.pragma).Scan(&got))
		if got != tc.want {
			t.Errorf("%s is %s, want %s", tc.pragma, got, tc.want)
		}
	}
	if _, err := db.reader.ExecContext(t.Context(), "DELETE FROM account"); !isCode(err, sqlite3.ErrReadonly) {
		t.Errorf("a reader could write: %v", err)
	}
}

func TestFileModes(t *testing.T) {
	for _, mask := range []int{0, 0o077, 0o777} {
		t.Run(fmt.Sprintf("umask %03o", mask), func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "berth.db")
			old := syscall.Umask(mask)
			db, err := Open(t.Context(), path, time.Now)
			syscall.Umask(old)
			must(t, err)
			defer func() { _ = db.Close() }()
			mustAccount(t, db, "ana", 1)
			for _, name := range []string{path, path + "-wal", path + "-shm"} {
				info, err := os.Stat(name)
				must(t, err)
				if got := info.Mode().Perm(); got != 0o600 {
					t.Errorf("%s has mode %o, want 600", filepath.Base(name), got)
				}
			}
		})
	}
}

func TestOpenTightensAWideFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "berth.db")
	must(t, os.WriteFile(path, nil, 0o600))
	must(t, os.Chmod(path, 0o644))
	openAt(t, path, time.Now)
	info, err := os.Stat(path)
	must(t, err)
	if got := info.Mode().Perm(); got != 0o600 {
		t.Errorf("mode is %o, want 600", got)
	}
}

func TestOpenPathWithOddCharacters(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a b?c#d%20é&mode=memory")
	must(t, os.Mkdir(dir, 0o700))
	path := filepath.Join(dir, "berth.db")
	db := openAt(t, path, time.Now)
	mustAccount(t, db, "ana", 1)
	must(t, db.Close())
	if info, err := os.Stat(path); err != nil || info.Size() == 0 {
		t.Errorf("the database is not at the path that was asked for: %v", err)
	}
}

func TestOpenRefuses(t *testing.T) {
	dir := t.TempDir()
	must(t, os.WriteFile(filepath.Join(dir, "text"), []byte(strings.Repeat("not a database\n", 100)), 0o600))
	for _, tc := range []struct{ name, path string }{
		{"a directory", dir},
		{"a missing directory", filepath.Join(dir, "no", "berth.db")},
		{"another kind of file", filepath.Join(dir, "text")},
	} {
		t.Run(tc.name, func(t *testing.T) {
			db, err := Open(t.Context(), tc.path, time.Now)
			if err == nil {
				_ = db.Close()
				t.Fatal("it opened")
			}
			if !strings.HasPrefix(err.Error(), "cannot open the database: ") {
				t.Errorf("got %q", err)
			}
		})
	}
}

func TestOpenWithoutPermission(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root to become somebody else")
	}
	path := filepath.Join(t.TempDir(), "berth.db")
	must(t, openAt(t, path, time.Now).Close())
	for p := filepath.Dir(path); p != os.TempDir() && p != "/"; p = filepath.Dir(p) {
		must(t, os.Chmod(p, 0o755)) // so that the file alone is in the way
	}
	cmd := exec.CommandContext(t.Context(), "/proc/self/exe") // the test binary's own directory is private
	cmd.Env = []string{openerEnv + "=" + path}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	out, _ := cmd.CombinedOutput()
	if got := cmd.ProcessState.ExitCode(); got != 4 {
		t.Errorf("exit %d, want 4 (fs.ErrPermission); it said: %s", got, out)
	}
}

func TestManyProcessesOpenAtOnce(t *testing.T) {
	const processes = 12
	path := filepath.Join(t.TempDir(), "berth.db")
	exe, err := os.Executable()
	must(t, err)
	var wg sync.WaitGroup
	for range processes {
		wg.Go(func() {
			cmd := exec.CommandContext(t.Context(), exe)
			cmd.Env = append(os.Environ(), openerEnv+"="+path)
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("a process failed: %v: %s", err, out)
			}
		})
	}
	wg.Wait()
	all, err := openAt(t, path, time.Now).Accounts.Accounts(t.Context())
	must(t, err)
	if len(all) != processes {
		t.Errorf("%d accounts, want %d", len(all), processes)
	}
}

func TestErrorCodes(t *testing.T) {
	full := sqlite3.Error{Code: sqlite3.ErrCantOpen, SystemErrno: syscall.EACCES}
	if err := fileError(full); !errors.Is(err, fs.ErrPermission) {
		t.Errorf("EACCES behind SQLite: %v does not match fs.ErrPermission", err)
	}
	if err := fileError(sqlite3.Error{Code: sqlite3.ErrReadonly}); !errors.Is(err, fs.ErrPermission) {
		t.Errorf("read-only: %v does not match fs.ErrPermission", err)
	}
	if err := fileError(sqlite3.Error{Code: sqlite3.ErrNotADB}); errors.Is(err, fs.ErrPermission) {
		t.Errorf("not a database: %v matches fs.ErrPermission", err)
	}
	if explain("x", nil) != nil {
		t.Error("no error became one")
	}
	for _, tc := range []struct {
		err  sqlite3.Error
		kind app.Kind
		want string
	}{
		{sqlite3.Error{Code: sqlite3.ErrFull}, app.NoSpace, "cannot x: " + app.DiskFull},
		{sqlite3.Error{Code: sqlite3.ErrIoErr, SystemErrno: syscall.ENOSPC}, app.NoSpace, "cannot x: " + app.DiskFull},
		{sqlite3.Error{Code: sqlite3.ErrIoErr, SystemErrno: syscall.EDQUOT}, app.NoSpace, "cannot x: " + app.DiskQuota},
		{sqlite3.Error{Code: sqlite3.ErrIoErr, SystemErrno: syscall.EROFS}, app.Unavailable, "cannot x: " + app.DiskReadOnly},
		{sqlite3.Error{Code: sqlite3.ErrReadonly}, app.Unavailable, "cannot x: " + app.DiskReadOnly},
		{sqlite3.Error{Code: sqlite3.ErrIoErr, SystemErrno: syscall.EIO}, app.Unavailable, "cannot x: " + app.DiskFailed},
		{sqlite3.Error{Code: sqlite3.ErrCorrupt}, app.Unavailable, "cannot x: " + app.DatabaseDamaged},
		{sqlite3.Error{Code: sqlite3.ErrNotADB}, app.Unavailable, "cannot x: " + app.DatabaseDamaged},
		{sqlite3.Error{Code: sqlite3.ErrCantOpen}, app.Unavailable, "cannot x: " + app.DatabaseGone},
		{sqlite3.Error{Code: sqlite3.ErrMisuse}, app.Internal, ""},
	} {
		err := explain("x", fmt.Errorf("deep: %w", tc.err))
		var told *app.Error
		if app.KindOf(err) != tc.kind || errors.As(err, &told) && told.Message.String() != tc.want {
			t.Errorf("%v (%v) becomes %v", tc.err.Code, tc.err.SystemErrno, err)
		}
	}
}
