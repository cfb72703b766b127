package backup

import (
	"bufio"
	"bytes"
	"database/sql"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	_ "github.com/mattn/go-sqlite3" // a program's database

	"berth/app"
	"berth/files"
	"berth/files/archive"
	"berth/files/bundle"
)

// The users of the tests' programs; no account needs to exist.
const (
	testUID  = 54321
	otherUID = 54322
)

// writerEnv makes the test binary a program that writes to the database it names.
const writerEnv = "BERTH_TEST_WRITER"

// TestMain lets the test binary be the child that copies, and a program.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == DatabaseWord {
		DatabaseMain()
	}
	if path := os.Getenv(writerEnv); path != "" {
		if err := writeOn(path); err != nil {
			fmt.Println("failed:", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func needRoot(t *testing.T) {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("needs root: the copy is made as another user")
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// openAs opens a database in a journal mode, with the tables of the tests' programs.
func openAs(path, mode string) (*sql.DB, error) {
	d, err := sql.Open("sqlite3", "file:"+path+"?_txlock=immediate&_busy_timeout=20000&_journal_mode="+mode)
	if err != nil {
		return nil, err
	}
	d.SetMaxOpenConns(1)
	_, err = d.Exec(`CREATE TABLE IF NOT EXISTS a (id INTEGER PRIMARY KEY, n INTEGER, fill TEXT);
		CREATE TABLE IF NOT EXISTS b (id INTEGER PRIMARY KEY, n INTEGER, fill TEXT); CREATE INDEX IF NOT EXISTS an ON a (n);`)
	return d, err
}

// rows is how many rows each table has; the sum of n over both is always 0.
const rows = 3000

// fill makes the rows.
func fill(d *sql.DB) error {
	t, err := d.Begin()
	for i := range rows {
		for _, table := range []string{"a", "b"} {
			if err == nil {
				_, err = t.Exec("INSERT INTO "+table+" (id, n, fill) VALUES (?, 0, ?)", i, strings.Repeat("x", 300))
			}
		}
	}
	return errors.Join(err, t.Commit())
}

// move moves amounts from rows of one table to rows of the other, in one transaction.
func move(d *sql.DB) error {
	t, err := d.Begin()
	for range 20 {
		n := rand.Intn(100)
		for _, change := range []string{"UPDATE a SET n = n - ? WHERE id = ?", "UPDATE b SET n = n + ? WHERE id = ?"} {
			if err == nil {
				_, err = t.Exec(change, n, rand.Intn(rows))
			}
		}
	}
	if err != nil {
		return err
	}
	return t.Commit()
}

// writeOn commits until it is told to end, and then says how many transactions there were and
// how long the longest took.
func writeOn(path string) error {
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGTERM)
	d, err := openAs(path, os.Getenv("MODE"))
	if err != nil {
		return err
	}
	if err := fill(d); err != nil {
		return err
	}
	fmt.Println("ready")
	n, longest := 0, time.Duration(0)
	for {
		select {
		case <-stop:
			fmt.Printf("%d %d\n", n, longest.Microseconds())
			return d.Close()
		default:
		}
		began := time.Now()
		if err := move(d); err != nil {
			return err
		}
		n, longest = n+1, max(longest, time.Since(began))
	}
}

// writer is a program that writes.
type writer struct {
	cmd *exec.Cmd
	out *bufio.Reader
}

func startWriter(t *testing.T, path, mode string) *writer {
	t.Helper()
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = []string{writerEnv + "=" + path, "MODE=" + mode}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: testUID, Gid: testUID}}
	cmd.Stderr = os.Stderr
	pipe, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	w := &writer{cmd, bufio.NewReader(pipe)}
	if line, err := w.out.ReadString('\n'); line != "ready\n" {
		t.Fatalf("the writer: %q, %v", line, err)
	}
	return w
}

// stop ends it and returns how many transactions it made and how long the longest took.
func (w *writer) stop(t *testing.T) (n int, longest time.Duration) {
	t.Helper()
	must(t, w.cmd.Process.Signal(syscall.SIGTERM))
	rest, err := io.ReadAll(w.out)
	must(t, err)
	var us int64
	if _, err := fmt.Sscan(string(rest), &n, &us); err != nil {
		t.Fatalf("the writer: %q, %v", rest, err)
	}
	return n, time.Duration(us) * time.Microsecond
}

// ownDir makes a directory of the tests' program below a directory that everybody may enter.
func ownDir(t *testing.T) string {
	t.Helper()
	needRoot(t)
	top, err := os.MkdirTemp("", "berth-copies-") //nolint:usetesting // t.TempDir is closed to other users
	must(t, err)
	t.Cleanup(func() { must(t, os.RemoveAll(top)) })
	dir := filepath.Join(top, "app")
	must(t, errors.Join(os.Chmod(top, 0o711), os.Mkdir(dir, 0o700), os.Chown(dir, testUID, testUID)))
	return dir
}

// copyOf copies a database as the tests' program's user.
func copyOf(t *testing.T, path string) (string, error) {
	t.Helper()
	dir, err := os.Open(filepath.Dir(path))
	must(t, err)
	defer dir.Close()
	to, err := os.OpenFile(filepath.Join(t.TempDir(), "copy.db"), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	must(t, err)
	defer to.Close()
	return to.Name(), CopyDatabase(t.Context(), dir, filepath.Base(path), testUID, testUID, to)
}

// consistent fails unless a copy is whole and of one moment, and returns a sum of what is in it.
func consistent(t *testing.T, path string) (digest int64) {
	t.Helper()
	d, err := sql.Open("sqlite3", "file:"+path+"?mode=ro&immutable=1")
	must(t, err)
	defer d.Close()
	var verdict string
	var sum, count int
	must(t, d.QueryRow("PRAGMA integrity_check").Scan(&verdict))
	must(t, d.QueryRow("SELECT (SELECT sum(n) FROM a) + (SELECT sum(n) FROM b), (SELECT count(*) FROM a) + (SELECT count(*) FROM b)").Scan(&sum, &count))
	must(t, d.QueryRow("SELECT sum(n * id) FROM a").Scan(&digest))
	if verdict != "ok" || sum != 0 || count != 2*rows {
		t.Errorf("%s: %s, the sum is %d, %d rows", path, verdict, sum, count)
	}
	return digest
}

// saved is a data directory with the test's application, exported and put back elsewhere.
func saved(t *testing.T, s *files.Store) (dir string) {
	t.Helper()
	var b bytes.Buffer
	w, err := archive.NewWriter(&b, archive.Manifest{})
	must(t, errors.Join(err, s.Export(t.Context(), w, "shop", testUID)))
	_, err = w.Close(0)
	must(t, err)
	dir = t.TempDir()
	i, err := files.NewImporter(dir)
	must(t, err)
	defer i.Close()
	_, err = archive.Read(&b, func(_ int, part string, e archive.Entry, r io.Reader) error { return i.Put(part, e, r) })
	must(t, err)
	return filepath.Join(dir, "apps", "shop")
}

// newApp makes an application in a data directory whose databases are copied.
func newApp(t *testing.T) (s *files.Store, dir string, notes map[string]error) {
	t.Helper()
	s, err := files.Open(filepath.Dir(ownDir(t))+"/data", bundle.Limits{})
	must(t, err)
	t.Cleanup(func() { s.Close() })
	notes = map[string]error{}
	s.CopyDatabases(CopyDatabase)
	s.NoteDatabases(func(_ app.ID, path string, err error) { notes[path] = err })
	dir = s.Dir("shop")
	must(t, errors.Join(os.Mkdir(dir, 0o700), os.Chown(dir, testUID, testUID)))
	return s, dir, notes
}

// exports is how often a database is exported while a program commits all the time.
var exports = flag.Int("exports", 10, "exports of each database that a program writes to")

// Every copy is whole, of one moment and without a log, whatever the program does meanwhile, and
// the program loses no more than a moment.
func TestCopiesWhileAProgramWrites(t *testing.T) {
	for mode, times := range map[string]int{"WAL": *exports, "DELETE": *exports, "TRUNCATE": *exports / 5, "PERSIST": *exports / 5} {
		t.Run(mode, func(t *testing.T) {
			s, dir, notes := newApp(t)
			w := startWriter(t, filepath.Join(dir, "x.db"), mode)
			seen := map[int64]bool{}
			var slowest time.Duration
			for range times {
				began := time.Now()
				copied := saved(t, s)
				slowest = max(slowest, time.Since(began))
				left, err := os.ReadDir(copied)
				if err != nil || len(left) != 1 {
					t.Fatalf("the copy has %v beside it, %v (noted %v)", left, err, notes)
				}
				seen[consistent(t, filepath.Join(copied, "x.db"))] = true
			}
			n, longest := w.stop(t)
			t.Logf("%d exports, the slowest %v, %d states; %d transactions, the longest %v", times, slowest, len(seen), n, longest)
			if len(seen) < times/2 {
				t.Errorf("there are only %d states: nothing was written", len(seen))
			}
			if len(notes) != 0 || longest > 10*time.Second {
				t.Errorf("noted %v, and the longest transaction took %v", notes, longest)
			}
		})
	}
}

// BenchmarkCopyDatabase is of 2 MB with a rollback journal that nobody writes to.
func BenchmarkCopyDatabase(b *testing.B) {
	if os.Getuid() != 0 {
		b.Skip("needs root")
	}
	top := b.TempDir()
	path := filepath.Join(top, "x.db")
	d, err := openAs(path, "DELETE")
	if err := errors.Join(err, fill(d), d.Close(), os.Chown(path, testUID, testUID), os.Chmod(top, 0o711)); err != nil {
		b.Fatal(err)
	}
	dir, err := os.Open(top)
	if err != nil {
		b.Fatal(err)
	}
	defer dir.Close()
	for b.Loop() {
		to, err := os.CreateTemp(top, "copy")
		if err == nil {
			err = CopyDatabase(b.Context(), dir, "x.db", testUID, testUID, to)
		}
		if err := errors.Join(err, to.Close(), os.Remove(to.Name())); err != nil {
			b.Fatal(err)
		}
	}
}
