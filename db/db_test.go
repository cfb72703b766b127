package db

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"berth/app"
)

// openerEnv makes the test binary open the database it names and stop there.
const openerEnv = "DB_TEST_OPEN"

func TestMain(m *testing.M) {
	if path := os.Getenv(openerEnv); path != "" {
		os.Exit(openOnce(path))
	}
	os.Exit(m.Run())
}

// openOnce opens the database, adds an account and says how it went.
func openOnce(path string) int {
	db, err := Open(context.Background(), path, time.Now)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		if errors.Is(err, fs.ErrPermission) {
			return 4
		}
		return 1
	}
	defer func() { _ = db.Close() }()
	_, err = db.Accounts.CreateAccount(context.Background(), app.Account{Name: fmt.Sprintf("p%d", os.Getpid()), TotalRAM: 1})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

var pool = IDRange{UIDBase: 70000, UIDCount: 1000, PortFirst: 20000, PortLast: 20999}

// clock is a clock that moves when it is told to.
type clock struct {
	mu sync.Mutex
	at time.Time
}

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.at
}

func (c *clock) advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = c.at.Add(d)
}

func newClock() *clock {
	return &clock{at: time.Date(2026, 11, 20, 9, 0, 0, int(123456*time.Microsecond), time.UTC)}
}

func openAt(tb testing.TB, path string, now func() time.Time) *DB {
	tb.Helper()
	db, err := Open(tb.Context(), path, now)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		// Closing twice is harmless; some tests close on their own.
		if err := db.Close(); err != nil {
			tb.Error(err)
		}
	})
	return db
}

func openTemp(tb testing.TB) (*DB, *clock) {
	tb.Helper()
	c := newClock()
	return openAt(tb, filepath.Join(tb.TempDir(), "berth.db"), c.now), c
}

func mustAccount(tb testing.TB, db *DB, name string, ram app.MB) app.Account {
	tb.Helper()
	a, err := db.Accounts.CreateAccount(tb.Context(), app.Account{Name: name, TotalRAM: ram, Plan: "Diamond", Locale: "en-US"})
	if err != nil {
		tb.Fatal(err)
	}
	return a
}

func anything(app.Account, app.Use) error { return nil }

func anyRAM(_, _ app.MB) error { return nil }

func mustApp(tb testing.TB, db *DB, owner app.AccountID, id app.ID, ram app.MB) app.App {
	tb.Helper()
	a := app.App{ID: id, Account: owner, RAM: ram, Name: "the " + string(id), Wanted: app.WantOnline}
	a, err := db.Allocations(pool).Reserve(tb.Context(), a, anything)
	if err != nil {
		tb.Fatal(err)
	}
	a, err = db.Apps.CreateApp(tb.Context(), a, first(a))
	if err != nil {
		tb.Fatal(err)
	}
	return a
}

func oneApp(tb testing.TB, db *DB, id app.ID) app.App {
	tb.Helper()
	all, err := db.Apps.Apps(tb.Context())
	if err != nil {
		tb.Fatal(err)
	}
	for _, a := range all {
		if a.ID == id {
			return a
		}
	}
	tb.Fatalf("application %q is not there", id)
	return app.App{}
}

func wantKind(tb testing.TB, what string, err error, kind app.Kind) {
	tb.Helper()
	if err == nil || app.KindOf(err) != kind {
		tb.Errorf("%s: got error %v of kind %d, want kind %d", what, err, app.KindOf(err), kind)
	}
}

func must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}

func TestAFailedTransactionLeavesNothing(t *testing.T) {
	db, _ := openTemp(t)
	boom := errors.New("boom")
	err := db.write(t.Context(), "try", func(t tx) error {
		if err := t.exec("UPDATE meta SET next_uid = 5"); err != nil {
			return err
		}
		return boom
	})
	if !errors.Is(err, boom) || err.Error() != "cannot try: boom" {
		t.Errorf("got %v", err)
	}
	var next int
	must(t, db.reader.QueryRowContext(t.Context(), "SELECT next_uid FROM meta").Scan(&next))
	if next != 0 {
		t.Errorf("next_uid is %d, want 0", next)
	}
}

func TestACancelledCallLeavesNothing(t *testing.T) {
	db, _ := openTemp(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := db.Accounts.CreateAccount(ctx, app.Account{Name: "ana", TotalRAM: 1}); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want context.Canceled", err)
	}
	all, err := db.Accounts.Accounts(t.Context())
	must(t, err)
	if len(all) != 0 {
		t.Errorf("%d accounts, want none", len(all))
	}
}

func TestAFullDiskIsForTheUser(t *testing.T) {
	db, _ := openTemp(t)
	var pages int
	must(t, db.writer.QueryRowContext(t.Context(), "PRAGMA page_count").Scan(&pages))
	_, err := db.writer.ExecContext(t.Context(), fmt.Sprintf("PRAGMA max_page_count = %d", pages))
	must(t, err)
	_, err = db.Accounts.CreateAccount(t.Context(), app.Account{Name: strings.Repeat("x", 100_000), TotalRAM: 1})
	wantKind(t, "a write to a full disk", err, app.NoSpace)
}

func TestCloseLeavesNothingOpen(t *testing.T) {
	path := filepath.Join(t.TempDir(), "berth.db")
	before := runtime.NumGoroutine()
	for range 5 {
		db, err := Open(t.Context(), path, time.Now)
		must(t, err)
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				if _, err := db.Apps.Apps(t.Context()); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if n := db.reader.Stats().InUse + db.writer.Stats().InUse; n != 0 {
			t.Errorf("%d connections in use at rest", n)
		}
		must(t, db.Close())
	}
	for deadline := time.Now().Add(time.Minute); runtime.NumGoroutine() > before; runtime.Gosched() {
		if time.Now().After(deadline) {
			t.Fatalf("%d goroutines, %d before", runtime.NumGoroutine(), before)
		}
	}
	names, err := filepath.Glob("/proc/self/fd/*")
	must(t, err)
	for _, name := range names {
		if target, _ := os.Readlink(name); strings.HasPrefix(target, path) {
			t.Errorf("%s is still open", target)
		}
	}
	if left, _ := filepath.Glob(path + "-*"); len(left) != 0 {
		t.Errorf("close left %v", left)
	}
}

// While somebody else writes, here or in another process, the writer is not
// there to answer.
func TestAlive(t *testing.T) {
	db, _ := openTemp(t)
	if err := db.Alive(t.Context()); err != nil {
		t.Fatal(err)
	}
	tx, err := db.writer.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := db.Alive(ctx); err == nil || ctx.Err() == nil {
		t.Errorf("with a writer that hangs: %v, %v", err, ctx.Err())
	}
	if err := tx.Rollback(); err != nil {
		t.Fatal(err)
	}
	if err := db.Alive(t.Context()); err != nil {
		t.Error(err)
	}
}

// Each commit is seen by a reader at once, so that none that comes later has to
// write its mark: see write. The marks are in the file beside, from byte 100
// (https://sqlite.org/walformat.html, 2.2).
func TestWriteLeavesNothingToReaders(t *testing.T) {
	db, _ := openTemp(t)
	path := pathOf(t, db)
	for n := range 5 {
		mustAccount(t, db, fmt.Sprint("ana", n), 1)
		before, err := os.ReadFile(path + "-shm")
		must(t, err)
		for range 8 {
			if _, err := db.Accounts.Accounts(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		after, err := os.ReadFile(path + "-shm")
		must(t, err)
		if !bytes.Equal(before, after) {
			t.Errorf("after commit %d a reader wrote", n)
		}
	}
}

// A file that is broken under the daemon is told as that, by whoever reads it
// first, and is no internal error.
func TestDamageWhileRunning(t *testing.T) {
	db, _ := openTemp(t)
	path := pathOf(t, db)
	mustAccount(t, db, "ana", 1)
	_, err := db.writer.ExecContext(t.Context(), "PRAGMA wal_checkpoint(TRUNCATE)")
	must(t, err)
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	must(t, err)
	info, err := f.Stat()
	must(t, err)
	_, err = f.WriteAt(bytes.Repeat([]byte{0xff}, int(info.Size())-4096), 4096)
	must(t, errors.Join(err, f.Close()))
	db.reader.SetMaxIdleConns(0) // those that are open have read it
	_, err = db.Accounts.Accounts(t.Context())
	var told *app.Error
	if !Damaged(errors.Unwrap(err)) || !errors.As(err, &told) || told.Kind != app.Unavailable || !strings.HasSuffix(told.Message.String(), app.DatabaseDamaged) {
		t.Errorf("it is told as %v", err)
	}
}

// pathOf is the file of a database.
func pathOf(t *testing.T, db *DB) (path string) {
	t.Helper()
	must(t, db.reader.QueryRowContext(t.Context(), "SELECT file FROM pragma_database_list").Scan(&path))
	return path
}

func TestLinkKeyIsMadeOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "berth.db")
	db := openAt(t, path, time.Now)
	keys := make([][]byte, 8)
	var wg sync.WaitGroup
	for i := range keys {
		wg.Go(func() {
			var err error
			if keys[i], err = db.LinkKey(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	must(t, db.Close())
	again, err := openAt(t, path, time.Now).LinkKey(t.Context())
	must(t, err)
	for _, key := range keys {
		if len(key) != 32 || string(key) != string(again) {
			t.Errorf("got keys %x and %x, want one of 32 bytes", key, again)
		}
	}
	other, _ := openTemp(t)
	if key, err := other.LinkKey(t.Context()); err != nil || string(key) == string(again) {
		t.Errorf("another database has the same key, or %v", err)
	}
}
