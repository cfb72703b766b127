package logs

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// numbers returns "from" to "to"-1 as lines.
func numbers(from, to int) (list []string) {
	for i := from; i < to; i++ {
		list = append(list, fmt.Sprint(i))
	}
	return list
}

func TestRotationLosesNothing(t *testing.T) {
	dir := t.TempDir()
	l := open(t, dir, Options{MaxFile: 1000, Keep: 2, Rate: -1})
	next := 0
	for _, n := range []int{1, 7, 100, 3, 1, 1, 500, 20} { // reads of very different sizes
		feed(l, strings.Join(numbers(next, next+n), "\n")+"\n")
		next += n
		got := bare(t, whole(t, l))
		// Three files of 1,000 bytes hold at least 2,000 of the newest.
		if want := numbers(next-len(got), next); !slices.Equal(got, want) {
			t.Fatalf("after %d lines: %q", next, got)
		}
		if len(got) < min(next, 2000/30) {
			t.Fatalf("after %d lines only %d are kept", next, len(got))
		}
	}
	for i := range 3 {
		st, err := os.Stat(l.files.path(i))
		if err != nil {
			t.Fatal(err)
		}
		if st.Size() > 1000 || st.Mode().Perm() != 0o600 {
			t.Errorf("file %d: %d bytes, mode %v", i, st.Size(), st.Mode())
		}
	}
	if _, err := os.Stat(l.files.path(3)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("there is a fourth file: %v", err)
	}
}

func TestLineLongerThanAFile(t *testing.T) {
	l := open(t, t.TempDir(), Options{MaxFile: 100, Keep: 5})
	long := strings.Repeat("x", 300)
	feed(l, "a\n"+long+"\nb\n")
	wantLines(t, bare(t, whole(t, l)), "a", long, "b")
}

func TestReaderDuringRotation(t *testing.T) {
	l := open(t, t.TempDir(), Options{MaxFile: 5000, Rate: -1})
	const total = 20000
	var wg sync.WaitGroup
	wg.Go(func() {
		for i := range total {
			feed(l, fmt.Sprintf("%d\n", i))
		}
	})
	for done := false; !done; {
		got := bare(t, whole(t, l))
		if len(got) == 0 {
			continue
		}
		var first int
		if _, err := fmt.Sscan(got[0], &first); err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(got, numbers(first, first+len(got))) {
			t.Fatalf("a gap within %d lines from %d", len(got), first)
		}
		done = first+len(got) == total
	}
	wg.Wait()
}

// A crash can come after each rename. Whatever it leaves is read, in order,
// and continued.
func TestCrashBetweenRenames(t *testing.T) {
	for crash := range 4 {
		dir := t.TempDir()
		l := open(t, dir, Options{MaxFile: 100})
		feed(l, strings.Join(numbers(0, 9), "\n")+"\n") // 3 lines in each file
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		f := files{base: filepath.Join(dir, "run")}
		want := numbers(0, 10)
		for i, step := range [][2]int{{1, 2}, {0, 1}} {
			if i < crash {
				want = numbers(3, 10) // the oldest file was to go
				if err := os.Rename(f.path(step[0]), f.path(step[1])); err != nil {
					t.Fatal(err)
				}
			}
		}
		l = open(t, dir, Options{MaxFile: 1000})
		feed(l, "9\n")
		wantLines(t, bare(t, whole(t, l)), want...)
		for i := 10; i < 50; i++ { // and rotation closes the gap
			feed(l, strings.Repeat(" ", 20)+"\n")
		}
		bare(t, whole(t, l))
	}
}

// narrow is a disk with little room: a real file that accepts room bytes more.
type narrow struct {
	*os.File
	room   int
	sticky bool // what was written cannot be taken back
}

func (n *narrow) Write(p []byte) (int, error) {
	if len(p) <= n.room {
		n.room -= len(p)
		return n.File.Write(p)
	}
	done, err := n.File.Write(p[:n.room])
	n.room = 0
	return done, errors.Join(err, &os.PathError{Op: "write", Path: "/secret", Err: syscall.ENOSPC})
}

func (n *narrow) Truncate(size int64) error {
	if n.sticky {
		return syscall.EIO
	}
	return n.File.Truncate(size)
}

func TestFullDisk(t *testing.T) {
	c := newClock()
	l := open(t, t.TempDir(), Options{Now: c.now})
	disk := &narrow{File: l.files.cur.(*os.File), room: 100} // three lines of 27 bytes and a bit
	l.files.cur = disk

	feed(l, "0\n1\n2\n3\n4\n")
	wantLines(t, bare(t, whole(t, l)), "0", "1", "2")
	feed(l, "5\n")
	c.pass(2 * retryAfter)
	feed(l, "6\n") // tried again, in vain
	wantLines(t, bare(t, whole(t, l)), "0", "1", "2")
	wantLines(t, bare(t, l.Tail(1000)), "0", "1", "2", "3", "4", "5", "6")

	disk.room = 1 << 20
	feed(l, "7\n") // too early to try
	c.pass(2 * retryAfter)
	feed(l, "8\n9\n")
	marker := "[berth] 5 lines lost: cannot write the log: no space left on device"
	wantLines(t, bare(t, whole(t, l)), "0", "1", "2", marker, "8", "9")
	if err := l.Close(); err != nil {
		t.Errorf("after recovery: %v", err)
	}
}

func TestFullDiskAtTheEnd(t *testing.T) {
	l := open(t, t.TempDir(), Options{})
	disk := &narrow{File: l.files.cur.(*os.File)}
	l.files.cur = disk
	feed(l, "lost\n")
	disk.room = 1 << 20
	l.Drain() // does not wait for the time to try again
	wantLines(t, bare(t, whole(t, l)), "[berth] 1 line lost: cannot write the log: no space left on device")

	disk.room = 0
	feed(l, "lost too\n")
	if err := l.Close(); !errors.Is(err, syscall.ENOSPC) || !strings.Contains(err.Error(), "1 line lost") {
		t.Errorf("Close: %v", err)
	}
}

// When not even the torn end can be taken back, the next line still starts
// on its own.
func TestTornLineThatStays(t *testing.T) {
	c := newClock()
	l := open(t, t.TempDir(), Options{Now: c.now})
	l.files.cur = &narrow{File: l.files.cur.(*os.File), room: 40, sticky: true}
	feed(l, "0\nsecond line\n")
	c.pass(2 * retryAfter)
	feed(l, "2\n")
	got := strings.Split(whole(t, l), "\n")
	if len(got) != 5 || !strings.HasSuffix(got[2], "1 line lost: cannot write the log: no space left on device") {
		t.Errorf("got %q", got)
	}
}

func TestRotationThatFails(t *testing.T) {
	c := newClock()
	l := open(t, t.TempDir(), Options{Now: c.now, MaxFile: 60})
	blocked := l.files.path(1)
	if err := os.MkdirAll(filepath.Join(blocked, "x"), 0o700); err != nil {
		t.Fatal(err)
	}
	feed(l, "0\n1\n2\n3\n")
	wantLines(t, bare(t, l.Tail(1000)), "0", "1", "2", "3")
	if err := os.RemoveAll(blocked); err != nil {
		t.Fatal(err)
	}
	// The directory was renamed to .log.2 if the file system allowed it.
	if err := os.RemoveAll(l.files.path(2)); err != nil {
		t.Fatal(err)
	}
	c.pass(2 * retryAfter)
	feed(l, "4\n")
	r, err := l.Reader()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = r.Close() }()
	p, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	if got := bare(t, string(p)); got[len(got)-1] != "4" {
		t.Errorf("got %q", got)
	}
}

// Somebody removing the files under the daemon costs what was in them only.
func TestFilesRemovedFromOutside(t *testing.T) {
	l := open(t, t.TempDir(), Options{MaxFile: 60, Now: time.Now})
	feed(l, "0\n")
	if err := os.Remove(l.files.path(0)); err != nil {
		t.Fatal(err)
	}
	feed(l, "1\n2\n3\n4\n")
	wantLines(t, bare(t, whole(t, l)), "2", "3", "4")
	if err := l.Close(); err != nil {
		t.Error(err)
	}
}
