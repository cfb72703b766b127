package backup

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"berth/db"
)

// secretDB makes a database with a secret that everybody may read.
func secretDB(t *testing.T, path string, uid int) {
	t.Helper()
	d, err := openAs(path, "DELETE")
	must(t, err)
	_, err = d.Exec("CREATE TABLE c (x); INSERT INTO c VALUES ('SECRET')")
	must(t, errors.Join(err, d.Close(), os.Chown(path, uid, uid), os.Chmod(path, 0o644)))
}

// own makes a database of the tests' program.
func own(t *testing.T, path, mode string) {
	t.Helper()
	d, err := openAs(path, mode)
	must(t, errors.Join(err, fill(d), d.Close(), os.Chown(path, testUID, testUID)))
}

// runJob runs the child without what CopyDatabase looks at first, as if the program had put
// something else in its place right after that.
func runJob(ctx context.Context, t *testing.T, dir, name string) (copied []byte, err error) {
	t.Helper()
	d, err := os.Open(dir)
	must(t, err)
	defer d.Close()
	to, err := os.OpenFile(filepath.Join(t.TempDir(), "copy.db"), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	must(t, err)
	defer to.Close()
	must(t, errors.Join(to.Chown(-1, testUID), to.Chmod(0o660)))
	said, err := copyJob{name: name, out: to.Name(), uid: testUID, gid: testUID, size: 64 << 20, seconds: 20}.run(ctx, int(d.Fd()), to)
	if err != nil {
		err = fmt.Errorf("%w: %s", err, said)
	}
	copied, rerr := os.ReadFile(to.Name())
	must(t, rerr)
	return copied, err
}

// Nothing leads the child out of the directory, not even to what the program's user may read.
func TestCopyLeavesTheHostAlone(t *testing.T) {
	dir := ownDir(t)
	top := filepath.Dir(dir)
	secretDB(t, filepath.Join(top, "secret.db"), 0)
	must(t, os.Mkdir(filepath.Join(top, "other"), 0o711))
	secretDB(t, filepath.Join(top, "other", "x.db"), otherUID)
	own(t, filepath.Join(dir, "good.db"), "DELETE")
	if text, err := runJob(t.Context(), t, dir, "good.db"); err != nil || len(text) < 100<<10 {
		t.Fatalf("without anything hostile: %d bytes, %v", len(text), err)
	}
	must(t, os.Symlink(filepath.Join(top, "other"), filepath.Join(dir, "over")))
	for name, to := range map[string]string{
		"absolute.db": filepath.Join(top, "secret.db"), "above.db": "../secret.db", "far.db": strings.Repeat("../", 30) + filepath.Join(top, "secret.db"),
		"other.db": "../other/x.db", "through.db": "over/x.db", "shadow.db": "/etc/shadow", "proc.db": "/proc/self/root" + filepath.Join(top, "secret.db"),
		"descriptor.db": "/proc/self/fd/3",
	} {
		must(t, os.Symlink(to, filepath.Join(dir, name)))
		text, err := runJob(t.Context(), t, dir, name)
		if err == nil || len(text) > 0 {
			t.Errorf("%s -> %s: %v, %d bytes", name, to, err, len(text))
		}
		if made, err := copyOf(t, filepath.Join(dir, name)); err == nil {
			t.Errorf("%s -> %s: copied to %s", name, to, made)
		}
	}
	// What lies beside a database may lead nowhere either.
	for _, ending := range []string{"-wal", "-journal", "-shm"} {
		must(t, os.Symlink(filepath.Join(top, "secret.db"), filepath.Join(dir, "good.db"+ending)))
		if text, _ := runJob(t.Context(), t, dir, "good.db"); bytes.Contains(text, []byte("SECRET")) {
			t.Errorf("by %s: the secret is in the copy", ending)
		}
		must(t, os.Remove(filepath.Join(dir, "good.db"+ending)))
	}
	if _, err := runJob(t.Context(), t, dir, "../secret.db"); err == nil {
		t.Error("a name that climbs was taken by the child")
	}
	for _, name := range []string{"", ".", "..", "a/b", "../secret.db", "x\x00"} {
		d, err := os.Open(dir)
		must(t, err)
		if err := CopyDatabase(t.Context(), d, name, testUID, testUID, d); err == nil {
			t.Errorf("the name %q was taken", name)
		}
		must(t, d.Close())
	}
}

// swapping exchanges two names of a directory as fast as it can until the test ends.
func swapping(t *testing.T, dir, a, b string) {
	t.Helper()
	var stop atomic.Bool
	var wg sync.WaitGroup
	wg.Go(func() {
		for !stop.Load() {
			_ = unix.Renameat2(unix.AT_FDCWD, filepath.Join(dir, a), unix.AT_FDCWD, filepath.Join(dir, b), unix.RENAME_EXCHANGE)
		}
	})
	t.Cleanup(func() { stop.Store(true); wg.Wait() })
}

// thorough runs every round of the tests that race with a program: see make soak.
var thorough bool

// rounds is how many of so many rounds a test runs.
func rounds(n int) int {
	if thorough {
		return n
	}
	return n / 4
}

// A link that takes the place of a database after the child has looked at it leads nowhere. It
// would lead to the secret if the child had the host's root directory.
func TestCopyWhileALinkTakesThePlace(t *testing.T) {
	dir := ownDir(t)
	secret := filepath.Join(filepath.Dir(dir), "secret.db")
	secretDB(t, secret, 0)
	own(t, filepath.Join(dir, "x.db"), "DELETE")
	must(t, os.Symlink(secret, filepath.Join(dir, "y.db")))
	swapping(t, dir, "x.db", "y.db")
	copied, refused := 0, 0
	for range rounds(120) {
		switch text, err := runJob(t.Context(), t, dir, "x.db"); {
		case bytes.Contains(text, []byte("SECRET")):
			t.Fatal("the secret is in the copy")
		case err == nil:
			copied++
		default:
			refused++
		}
	}
	if copied == 0 || refused == 0 {
		t.Errorf("%d were copied, %d refused", copied, refused)
	}
	leaks := 0
	for range rounds(200) {
		to := filepath.Join(t.TempDir(), "copy.db")
		must(t, os.WriteFile(to, nil, 0o600))
		_ = db.CopyForeign(t.Context(), filepath.Join(dir, "x.db"), to)
		if text, _ := os.ReadFile(to); bytes.Contains(text, []byte("SECRET")) {
			leaks++
		}
	}
	t.Logf("%d copied, %d refused; without walls %d of %d had the secret", copied, refused, leaks, rounds(200))
}

// A program that swaps its database for links as fast as it can, whose directory too.
func TestCopyWhileTheProgramSwaps(t *testing.T) {
	s, dir, _ := newApp(t)
	top := filepath.Dir(filepath.Dir(filepath.Dir(dir)))
	secretDB(t, filepath.Join(top, "x.db"), 0)
	must(t, os.Mkdir(filepath.Join(dir, "d"), 0o755))
	own(t, filepath.Join(dir, "d", "x.db"), "DELETE")
	must(t, errors.Join(os.Symlink(filepath.Join(top, "x.db"), filepath.Join(dir, "d", "y.db")), os.Symlink(top, filepath.Join(dir, "e"))))
	must(t, errors.Join(os.Lchown(filepath.Join(dir, "d"), testUID, testUID), os.Lchown(filepath.Join(dir, "e"), testUID, testUID)))
	var stop atomic.Bool
	var wg sync.WaitGroup
	swap := func(a, b string) {
		_ = unix.Renameat2(unix.AT_FDCWD, filepath.Join(dir, a), unix.AT_FDCWD, filepath.Join(dir, b), unix.RENAME_EXCHANGE)
	}
	wg.Go(func() {
		for !stop.Load() {
			swap("d/x.db", "d/y.db")
			swap("d", "e")
		}
	})
	good := 0
	for range rounds(40) {
		copied := saved(t, s)
		must(t, filepath.WalkDir(copied, func(path string, entry fs.DirEntry, err error) error {
			if err != nil || !entry.Type().IsRegular() {
				return err
			}
			text, err := os.ReadFile(path)
			if bytes.Contains(text, []byte("SECRET")) {
				t.Errorf("the secret is in %s", path)
			}
			good++
			return err
		}))
	}
	stop.Store(true)
	wg.Wait()
	if good == 0 {
		t.Error("there was never a database")
	}
}

// The child is of the program's user alone, and has nothing but the directory and the copy.
func TestCopyIsConfined(t *testing.T) {
	dir := ownDir(t)
	own(t, filepath.Join(dir, "x.db"), "DELETE")
	keepBusy(t, filepath.Join(dir, "x.db"))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	done := make(chan error, 1)
	go func() {
		_, err := runJob(ctx, t, dir, "x.db")
		done <- err
	}()
	pid := ""
	for deadline := time.Now().Add(20 * time.Second); pid == ""; time.Sleep(5 * time.Millisecond) {
		for _, p := range childrenOf(t) {
			status, _ := os.ReadFile("/proc/" + p + "/status")
			if strings.Contains(string(status), fmt.Sprintf("\nUid:\t%[1]d\t%[1]d\t%[1]d\t%[1]d\n", testUID)) && hasOpen(p, "/from/x.db") {
				pid = p
			}
		}
		if time.Now().After(deadline) {
			t.Fatalf("the child is not seen; the copy: %v", firstOf(done))
		}
	}
	for _, task := range entries(t, "/proc/"+pid+"/task") {
		text, err := os.ReadFile("/proc/" + pid + "/task/" + task + "/status")
		must(t, err)
		for _, want := range []string{
			fmt.Sprintf("\nGid:\t%[1]d\t%[1]d\t%[1]d\t%[1]d\n", testUID), "\nGroups:\t \n", "\nCapEff:\t0000000000000000\n", "\nCapPrm:\t0000000000000000\n",
			"\nCapInh:\t0000000000000000\n", "\nCapAmb:\t0000000000000000\n", "\nNoNewPrivs:\t1\n",
		} {
			if !strings.Contains(string(text), want) {
				t.Errorf("a thread's status lacks %q:\n%s", want, text)
			}
		}
	}
	if got := entries(t, "/proc/"+pid+"/root/"); !slices.Equal(got, []string{"from", "to"}) {
		t.Errorf("its root directory has %v", got)
	}
	if err := os.WriteFile("/proc/"+pid+"/root/from/planted", nil, 0o600); !errors.Is(err, unix.EROFS) {
		t.Errorf("writing to the program's directory: %v", err)
	}
	for _, ns := range []string{"mnt", "net", "ipc", "uts", "pid"} {
		its, err := os.Readlink("/proc/" + pid + "/ns/" + ns)
		mine, err2 := os.Readlink("/proc/self/ns/" + ns)
		if must(t, errors.Join(err, err2)); its == mine {
			t.Errorf("it has the host's %s", ns)
		}
	}
	limits, err := os.ReadFile("/proc/" + pid + "/limits")
	must(t, err)
	for limit, want := range map[string]string{
		"Max data size": "536870912", "Max address space": "8589934592", "Max file size": fmt.Sprint(64<<20 + copySlack), "Max cpu time": "20",
		"Max processes": "4096", "Max open files": "64", "Max core file size": "0",
	} {
		if !strings.Contains(strings.Join(strings.Fields(string(limits)), " "), limit+" "+want+" "+want) {
			t.Errorf("it has not %s %s:\n%s", limit, want, limits)
		}
	}
	for _, fd := range entries(t, "/proc/"+pid+"/fd") {
		to, _ := os.Readlink("/proc/" + pid + "/fd/" + fd)
		if strings.HasPrefix(to, "/") && !slices.Contains([]string{"/dev/null", "/to", "/from/x.db"}, to) {
			t.Errorf("it has %s open", to)
		}
	}
	cancel()
	if err := <-done; err == nil {
		t.Error("a busy database was copied")
	}
	must(t, unix.Mkfifo(filepath.Join(dir, "x.db-wal"), 0o600))
	if _, err := copyOf(t, filepath.Join(dir, "x.db")); err == nil || !strings.Contains(err.Error(), "is not a regular file") {
		t.Errorf("a log that is a pipe: %v", err)
	}
}

func firstOf(c chan error) error {
	select {
	case err := <-c:
		return err
	default:
		return errors.New("it goes on")
	}
}

// childrenOf returns the processes of this test.
func childrenOf(t *testing.T) (pids []string) {
	t.Helper()
	for _, task := range entries(t, "/proc/self/task") {
		text, _ := os.ReadFile("/proc/self/task/" + task + "/children")
		pids = append(pids, strings.Fields(string(text))...)
	}
	return pids
}

func hasOpen(pid, path string) bool {
	all, _ := filepath.Glob("/proc/" + pid + "/fd/*")
	return slices.ContainsFunc(all, func(fd string) bool {
		to, _ := os.Readlink(fd)
		return to == path
	})
}

func entries(t *testing.T, dir string) (names []string) {
	t.Helper()
	list, err := os.ReadDir(dir)
	must(t, err)
	for _, e := range list {
		names = append(names, e.Name())
	}
	return names
}

// describeDir tells of every file of a directory what a write would change.
func describeDir(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	for _, name := range entries(t, dir) {
		info, err := os.Lstat(filepath.Join(dir, name))
		must(t, err)
		st := info.Sys().(*syscall.Stat_t)
		all[name] = fmt.Sprint(st.Ino, st.Size, st.Mtim, st.Ctim, info.Mode())
	}
	return all
}

// What cannot be copied is stored as it is, with what is beside it, and nothing of the
// program's changes.
func TestDatabasesThatAreNotCopied(t *testing.T) {
	for name, tt := range map[string]struct {
		make func(t *testing.T, path string)
		note string // "" when it is copied after all
		kept []string
	}{
		"a pipe":  {func(t *testing.T, path string) { must(t, unix.Mkfifo(path, 0o600)) }, "", nil},
		"garbage": {func(t *testing.T, path string) { garbage(t, path, 1<<20) }, "malformed", []string{"x.db"}},
		"a bad head": {func(t *testing.T, path string) {
			must(t, os.WriteFile(path, append([]byte("SQLite format 3\x00"), make([]byte, 200)...), 0o600))
		}, "not a database", []string{"x.db"}},
		"a terabyte":  {func(t *testing.T, path string) { garbage(t, path, 4096); must(t, os.Truncate(path, 1<<40)) }, "has holes", []string{"x.db"}},
		"hot journal": {func(t *testing.T, path string) { killedIn(t, path, "DELETE") }, "readonly", []string{"x.db", "x.db-journal"}},
		"no index": {func(t *testing.T, path string) {
			killedIn(t, path, "WAL")
			must(t, os.Remove(path+"-shm"))
		}, "unable to open", []string{"x.db", "x.db-wal"}},
		"a log that was left": {func(t *testing.T, path string) { killedIn(t, path, "WAL") }, "", []string{"x.db"}},
	} {
		t.Run(name, func(t *testing.T) {
			s, dir, notes := newApp(t)
			tt.make(t, filepath.Join(dir, "x.db"))
			for _, name := range entries(t, dir) {
				must(t, os.Lchown(filepath.Join(dir, name), testUID, testUID))
			}
			before := describeDir(t, dir)
			copied := saved(t, s)
			if after := describeDir(t, dir); !maps.Equal(before, after) {
				t.Errorf("the program's files were %v, and are %v", before, after)
			}
			if got := entries(t, copied); !slices.Equal(got, tt.kept) {
				t.Errorf("stored %v (noted %v)", got, notes)
			}
			if err := notes["x.db"]; (err != nil) != (tt.note != "") || err != nil && !strings.Contains(err.Error(), tt.note) {
				t.Errorf("noted %v", notes)
			}
			if strings.Contains(name, "journal") || strings.Contains(name, "index") || strings.Contains(name, "left") {
				recovered(t, filepath.Join(copied, "x.db"))
			}
		})
	}
}

// garbage makes a database of which only the head is right.
func garbage(t *testing.T, path string, size int) {
	t.Helper()
	own(t, path, "DELETE")
	text, err := os.ReadFile(path)
	must(t, err)
	for i := 100; i < len(text); i++ {
		text[i] = byte(i * 7)
	}
	must(t, os.WriteFile(path, text[:min(len(text), size)], 0o600))
}

// killedIn leaves a database as a program that is killed in the middle of its work does.
func killedIn(t *testing.T, path, mode string) {
	t.Helper()
	w := startWriter(t, path, mode)
	beside := path + map[string]string{"DELETE": "-journal", "WAL": "-wal"}[mode]
	for deadline := time.Now().Add(30 * time.Second); ; {
		must(t, w.cmd.Process.Signal(syscall.SIGSTOP))
		if info, err := os.Stat(beside); err == nil && info.Size() > 512 && hot(t, beside, mode) {
			break
		}
		must(t, w.cmd.Process.Signal(syscall.SIGCONT))
		if time.Now().After(deadline) {
			t.Fatal("the program is never in the middle of it")
		}
	}
	must(t, w.cmd.Process.Kill())
	_ = w.cmd.Wait()
}

// hot reports whether a journal has a head, which it gets when its pages are on the disk.
func hot(t *testing.T, path, mode string) bool {
	t.Helper()
	if mode == "WAL" {
		return true
	}
	text, err := os.ReadFile(path)
	must(t, err)
	return bytes.HasPrefix(text, []byte{0xd9, 0xd5, 0x05, 0xf9, 0x20, 0xa1, 0x63, 0xd7})
}

// recovered opens what was stored as its program would, and checks it.
func recovered(t *testing.T, path string) {
	t.Helper()
	d, err := openAs(path, "DELETE")
	must(t, err)
	must(t, d.Close())
	consistent(t, path)
}

// Who keeps a file to itself by a lease keeps the child waiting, and no longer than it may.
func TestCopyOfALeasedDatabase(t *testing.T) {
	dir := ownDir(t)
	own(t, filepath.Join(dir, "x.db"), "DELETE")
	signal.Ignore(unix.SIGIO)
	f, err := os.OpenFile(filepath.Join(dir, "x.db"), os.O_RDWR, 0)
	must(t, err)
	defer f.Close()
	_, err = unix.FcntlInt(f.Fd(), unix.F_SETLEASE, unix.F_WRLCK)
	must(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	began := time.Now()
	if text, err := runJob(ctx, t, dir, "x.db"); err == nil || len(text) != 0 || time.Since(began) > 20*time.Second {
		t.Errorf("%d bytes, %v after %v", len(text), err, time.Since(began))
	}
}

// keepBusy lets nobody read a database until the test ends.
func keepBusy(t *testing.T, path string) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	must(t, err)
	t.Cleanup(func() { f.Close() })
	// All of the lock bytes (https://sqlite.org/lockingv3.html).
	must(t, unix.FcntlFlock(f.Fd(), unix.F_SETLK, &unix.Flock_t{Type: unix.F_WRLCK, Start: 1 << 30, Len: 512}))
}

// A database that its program never lets anybody read is busy, after 10 seconds.
func TestCopyOfABusyDatabase(t *testing.T) {
	dir := ownDir(t)
	path := filepath.Join(dir, "x.db")
	own(t, path, "DELETE")
	keepBusy(t, path)
	began := time.Now()
	_, err := copyOf(t, path)
	if took := time.Since(began); err == nil || err.Error() != "cannot copy the database: the database is busy" || took < 9*time.Second || took > 25*time.Second {
		t.Errorf("%v after %v", err, took)
	}
}
