package logs

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

const nobody = 65534

// child returns a shell script that prints into l, as another user if the
// test may start one.
func child(t testing.TB, l *Log, script string) *exec.Cmd {
	t.Helper()
	uid, gid := -1, -1
	cmd := exec.Command("/bin/sh", "-c", script)
	cmd.Dir = "/"
	if os.Getuid() == 0 {
		uid, gid = nobody, nobody
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	}
	f, err := l.Pipe(uid, gid)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	cmd.Stdout, cmd.Stderr = f, f
	return cmd
}

// run runs a script to its end and drains what it printed.
func run(t testing.TB, l *Log, script string) {
	t.Helper()
	if err := child(t, l, script).Run(); err != nil {
		t.Fatalf("%s: %v", script, err)
	}
	l.Drain()
}

func TestBothStreamsInOrder(t *testing.T) {
	l := open(t, t.TempDir(), Options{})
	run(t, l, `echo out; echo err >&2; echo again >/dev/stderr; echo more >/dev/stdout; printf end`)
	wantLines(t, bare(t, whole(t, l)), "out", "err", "again", "more", "end")
}

func TestOutputIsSeenWhileTheProgramRuns(t *testing.T) {
	l := open(t, t.TempDir(), Options{})
	cmd := child(t, l, `echo ready; exec cat`)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the line of a running program", func() bool { return strings.Contains(l.Tail(100), "ready") })
	l.Note("asked")
	if _, err := in.Write([]byte("bye\n")); err != nil {
		t.Fatal(err)
	}
	if err := in.Close(); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	l.Drain()
	wantLines(t, bare(t, whole(t, l)), "ready", "[berth] asked", "bye")
}

// A note comes after all that was in the FIFO, read or not.
func TestNoteAfterOutput(t *testing.T) {
	l := open(t, t.TempDir(), Options{})
	for i := range 50 {
		if err := child(t, l, fmt.Sprintf("echo %d", i)).Run(); err != nil {
			t.Fatal(err)
		}
		l.Note(fmt.Sprintf("ended %d", i))
	}
	var want []string
	for i := range 50 {
		want = append(want, fmt.Sprint(i), fmt.Sprintf("[berth] ended %d", i))
	}
	wantLines(t, bare(t, whole(t, l)), want...)
}

func TestProgramSeesABlockingPipe(t *testing.T) {
	l := open(t, t.TempDir(), Options{})
	f, err := l.Pipe(-1, -1)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	flags, err := unix.FcntlInt(f.Fd(), unix.F_GETFL, 0)
	if err != nil {
		t.Fatal(err)
	}
	if flags&unix.O_NONBLOCK != 0 || flags&unix.O_ACCMODE != unix.O_RDWR {
		t.Errorf("flags %#x", flags)
	}
	var st unix.Stat_t
	if err := unix.Stat(l.files.base+".fifo", &st); err != nil {
		t.Fatal(err)
	}
	if st.Mode&unix.S_IFMT != unix.S_IFIFO || st.Mode&0o777 != 0o600 {
		t.Errorf("mode %o", st.Mode)
	}
}

func TestManyLines(t *testing.T) {
	l := open(t, t.TempDir(), Options{Rate: -1, MaxFile: 64 << 20})
	run(t, l, `seq 0 199999`)
	if got := bare(t, whole(t, l)); !slices.Equal(got, numbers(0, 200000)) {
		t.Errorf("%d lines of 200000, or not in order", len(got))
	}
}

func TestFloodOfAProgram(t *testing.T) {
	l := open(t, t.TempDir(), Options{Rate: 64 << 10, Burst: 256 << 10})
	run(t, l, `yes | head -n 3000000`)
	kept, dropped, _ := tally(t, bare(t, whole(t, l)))
	if len(kept)+dropped != 3000000 {
		t.Errorf("%d kept + %d dropped != 3000000", len(kept), dropped)
	}
	if dropped == 0 || len(kept) < 9000 {
		t.Errorf("%d kept, %d dropped", len(kept), dropped)
	}
}

func TestTenMegabyteLine(t *testing.T) {
	l := open(t, t.TempDir(), Options{Rate: -1, MaxFile: 64 << 20})
	run(t, l, `head -c 10000000 /dev/zero | tr '\0' x; echo; echo after`)
	got := bare(t, whole(t, l))
	if got[len(got)-1] != "after" {
		t.Errorf("the last line is %.50q", got[len(got)-1])
	}
	n := 0
	for _, line := range got[:len(got)-1] {
		n += len(strings.TrimSuffix(line, cutMark))
	}
	if n != 10000000 {
		t.Errorf("%d bytes kept of 10000000", n)
	}
}

// Drain must not wait for a program that goes on printing.
func TestDrainIsBounded(t *testing.T) {
	l := open(t, t.TempDir(), Options{})
	cmd := child(t, l, `exec yes`)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "output", func() bool { return l.Tail(100) != "" })
	for range 20 {
		l.Drain()
		l.Note("still here")
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	if err := l.Close(); err != nil {
		t.Error(err)
	}
}

func TestResetDiscardsTheFIFO(t *testing.T) {
	l := open(t, t.TempDir(), Options{})
	for range 20 {
		if err := child(t, l, "echo old; printf old").Run(); err != nil {
			t.Fatal(err)
		}
		if err := l.Reset(); err != nil {
			t.Fatal(err)
		}
		run(t, l, "echo new")
		wantLines(t, bare(t, whole(t, l)), "new")
	}
}

// The next daemon finds what a surviving program printed in between.
func TestFIFOOfAnEarlierDaemon(t *testing.T) {
	dir := t.TempDir()
	l := open(t, dir, Options{})
	f, err := l.Pipe(-1, -1)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	if _, err := f.WriteString("first\n"); err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteString("between\n"); err != nil {
		t.Fatal(err)
	}
	l = open(t, dir, Options{})
	run(t, l, "echo second")
	if _, err := f.WriteString("survivor"); err != nil {
		t.Fatal(err)
	}
	l.Drain()
	wantLines(t, bare(t, whole(t, l)), "first", "between", "second", "survivor")
}

func TestSomethingElseInTheWayOfTheFIFO(t *testing.T) {
	dir := t.TempDir()
	target := filepath.Join(t.TempDir(), "target")
	for name, put := range map[string]func(path string) error{
		"file": func(path string) error { return os.WriteFile(path, []byte("x"), 0o600) },
		"link": func(path string) error { return os.Symlink(target, path) },
	} {
		if err := put(filepath.Join(dir, "run.fifo")); err != nil {
			t.Fatal(err)
		}
		l := open(t, dir, Options{})
		run(t, l, "echo "+name)
		if got := bare(t, l.Tail(1000)); got[len(got)-1] != name {
			t.Errorf("got %q", got)
		}
		if err := l.Close(); err != nil {
			t.Error(err)
		}
		if err := os.Remove(filepath.Join(dir, "run.fifo")); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := os.Lstat(target); err == nil {
		t.Error("a link was followed")
	}
}

// countFDs returns the number of open descriptors of this process.
func countFDs(t *testing.T) int {
	t.Helper()
	list, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(list)
}

func TestNothingLeaks(t *testing.T) {
	dir := t.TempDir()
	once := func(t *testing.T) {
		l := open(t, dir, Options{})
		run(t, l, "echo hello")
		f, err := l.Pipe(-1, -1)
		if err != nil {
			t.Fatal(err)
		}
		r, err := l.Reader()
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range []interface{ Close() error }{f, r, l} {
			if err := c.Close(); err != nil {
				t.Error(err)
			}
		}
	}
	t.Run("first", once) // the poller has descriptors of its own
	goroutines, fds := runtime.NumGoroutine(), countFDs(t)
	for range 20 {
		t.Run("", once)
	}
	eventually(t, "goroutines to end", func() bool { return runtime.NumGoroutine() <= goroutines })
	if n := countFDs(t); n > fds {
		t.Errorf("%d descriptors, %d before", n, fds)
	}
}

func TestCloseWakesAnIdlePump(t *testing.T) {
	l := open(t, t.TempDir(), Options{})
	f, err := l.Pipe(-1, -1)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	closed := make(chan error)
	go func() { closed <- l.Close() }()
	select {
	case err := <-closed:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(time.Minute):
		t.Fatal("Close is stuck")
	}
}

// The three speeds at which a program is read: kept, kept in pieces, dropped.
func BenchmarkFIFO(b *testing.B) {
	for name, v := range map[string]struct {
		rate  int64
		piece int
	}{"kept": {1 << 40, 800}, "lines": {1 << 40, 1}, "dropped": {1, 800}} { // what has no rate is paced in the end
		b.Run(name, func(b *testing.B) {
			l := open(b, b.TempDir(), Options{Rate: v.rate})
			f, err := l.Pipe(-1, -1)
			if err != nil {
				b.Fatal(err)
			}
			defer func() { _ = f.Close() }()
			p := bytes.Repeat([]byte(strings.Repeat("x", 79)+"\n"), v.piece)
			b.SetBytes(int64(len(p)))
			b.ReportAllocs()
			before := cpu(b)
			for b.Loop() {
				if _, err := f.Write(p); err != nil {
					b.Fatal(err)
				}
			}
			l.Drain()
			b.ReportMetric(float64((cpu(b)-before).Nanoseconds())/float64(b.N), "cpu-ns/op")
		})
	}
}

// cpu is the processor time that this process has used.
func cpu(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
