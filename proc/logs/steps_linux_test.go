package logs

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"berth/app"
)

// deadly is a file whose daemon is killed when it has written some bytes.
type deadly struct {
	*os.File
	left int
}

type killed struct{}

func (d *deadly) Write(p []byte) (int, error) {
	if d.left > len(p) {
		d.left -= len(p)
		return d.File.Write(p)
	}
	_, _ = d.File.Write(p[:d.left])
	panic(killed{})
}

// killAfter does what the pump does with what is in the FIFO, until that many
// bytes are in the file; then nothing more is done. It reports whether it came
// to that.
func killAfter(t *testing.T, l *Log, bytes int, write func()) (died bool) {
	t.Helper()
	l.mu.Lock()
	l.files.cur = &deadly{l.files.cur.(*os.File), bytes}
	write()
	func() {
		defer func() {
			if r := recover(); r != nil {
				if _, ok := r.(killed); !ok {
					panic(r)
				}
				died = true
			}
		}()
		l.pullAll()
	}()
	abandon(l)
	return died
}

// abandon leaves everything as the kernel does with a process that is killed.
// The lock MUST be held.
func abandon(l *Log) {
	l.closed = true
	f := l.fifo
	l.mu.Unlock()
	if f != nil {
		f.stop()
	}
	l.journal.close()
	switch cur := l.files.cur.(type) {
	case *deadly:
		_ = cur.Close()
	case *os.File:
		_ = cur.Close()
	}
}

// The daemon is killed after each byte of what it writes, and after the write:
// the log has each line once.
func TestKilledAfterEachByte(t *testing.T) {
	for _, tt := range []struct {
		max   int64
		least int // bytes that are written at once
	}{{1 << 20, 60}, {90, 30}} { // the second begins a new file in between
		killAfterEachByte(t, Options{MaxFile: tt.max, Keep: 5}, tt.least)
	}
}

func killAfterEachByte(t *testing.T, o Options, least int) {
	const first, second, third = "one\ntwo\nthr", "ee\nfour\nfive\xc3", "\xa9\nsix\n"
	for n := 0; ; n++ {
		dir := t.TempDir()
		l := open(t, dir, o)
		f, err := l.Pipe(-1, -1)
		if err != nil {
			t.Fatal(err)
		}
		print := func(text string) {
			if _, err := f.WriteString(text); err != nil {
				t.Fatal(err)
			}
		}
		print(first)
		eventually(t, "the second line", func() bool { return strings.HasSuffix(l.Tail(100), "two\n") })
		c := cursor(t, l, app.LineStart{All: true})
		heard := everything(c)
		died := killAfter(t, l, n, func() { print(second) })
		if !died {
			heard += everything(c)
		}
		l = open(t, dir, o)
		print(third)
		l.Drain()
		heard += everything(cursor(t, l, app.LineStart{Pos: c.Position()}))
		if has := whole(t, l); heard != has {
			t.Errorf("a follower got %q, the log has %q", heard, has)
		}
		wantLines(t, bare(t, whole(t, l)), "one", "two", "three", "four", "fiveé", "six")
		if err := l.Close(); err != nil {
			t.Error(err)
		}
		f.Close()
		if t.Failed() {
			t.Fatalf("killed after %d bytes", n)
		}
		if !died {
			if n < least {
				t.Errorf("only %d bytes were written", n)
			}
			return
		}
	}
}

// The daemon is killed after it began a new file in the middle of a write: the write is
// taken back in both files, and positions of before still are what they were.
func TestKilledAfterARotation(t *testing.T) {
	const first, second, third = "one\ntwo\n", "three\nfour\nfive\n", "six\n"
	const rest = "2026-01-02T03:04:05.678Z four\n"
	for written := range len(rest) {
		dir, o := t.TempDir(), Options{MaxFile: 90, Keep: 5}
		l := open(t, dir, o)
		f, err := l.Pipe(-1, -1)
		if err != nil {
			t.Fatal(err)
		}
		print := func(text string) {
			if _, err := f.WriteString(text); err != nil {
				t.Fatal(err)
			}
		}
		print(first)
		eventually(t, "the second line", func() bool { return strings.HasSuffix(l.Tail(100), "two\n") })
		c := cursor(t, l, app.LineStart{All: true})
		heard := everything(c)
		const fits = len("2026-01-02T03:04:05.678Z three\n") // into the first file
		if !killAfter(t, l, fits, func() { print(second) }) {
			t.Fatal("it lives")
		}
		dead := l.files // goes on until it has written so much of the rest
		if dead.cur, err = os.OpenFile(dead.path(0), os.O_RDWR, 0); err != nil {
			t.Fatal(err)
		}
		dead.size += int64(fits)
		if err := dead.rotate(); err != nil {
			t.Fatal(err)
		}
		_, err = dead.cur.Write([]byte(rest[:written]))
		if err := errors.Join(err, dead.cur.Close()); err != nil {
			t.Fatal(err)
		}
		for range 2 { // the first is killed when it has mended the files
			l = open(t, dir, o)
			if text := everything(cursor(t, l, app.LineStart{Pos: c.Position()})); strings.Contains(text, "one") {
				t.Errorf("with %d bytes of the rest: %q", written, text)
			}
			l.mu.Lock()
			abandon(l)
		}
		l = open(t, dir, o)
		print(third)
		l.Drain()
		wantLines(t, bare(t, whole(t, l)), "one", "two", "three", "four", "five", "six")
		heard += everything(cursor(t, l, app.LineStart{Pos: c.Position()}))
		if has := whole(t, l); heard != has {
			t.Errorf("with %d bytes of the rest a follower got %q, the log has %q", written, heard, has)
		}
		f.Close()
		if t.Failed() {
			return
		}
	}
}

// When the journal is older than the log, or gone, nothing is lost, and what
// may be a repeat is told as one: by whom, and how much at most.
func TestDoubtIsTold(t *testing.T) {
	const doubt = "[berth] berth was killed: up to 9 B of what follows may be a repeat"
	for name, spoil := range map[string]func(path string) error{
		"empty":   func(path string) error { return os.Truncate(path, 0) },
		"odd":     func(path string) error { return os.WriteFile(path, []byte("x"), 0o600) },
		"garbage": func(path string) error { return os.WriteFile(path, make([]byte, 8192), 0o600) },
		"older": func(path string) error {
			log := strings.TrimSuffix(path, ".state") + ".log"
			f, err := os.OpenFile(log, os.O_APPEND|os.O_WRONLY, 0)
			if err != nil {
				return err
			}
			_, err = f.WriteString("2026-01-02T03:04:05.678Z more\n")
			return err
		},
		"of a log that is gone": func(path string) error {
			log := strings.TrimSuffix(path, ".state") + ".log"
			// The copy keeps the inode from being used again.
			if err := os.Link(log, log+".old"); err != nil {
				return err
			}
			return os.Remove(log)
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			l := open(t, dir, Options{})
			f, err := l.Pipe(-1, -1)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			line := len(stampLayout) + len("one two\n")
			if !killAfter(t, l, line, func() { _, _ = f.WriteString("one two\nx") }) {
				t.Fatal("it was not killed")
			}
			if err := spoil(filepath.Join(dir, "run.state")); err != nil {
				t.Fatal(err)
			}
			l = open(t, dir, Options{})
			l.Drain()
			got := bare(t, whole(t, l))
			wantLines(t, got[len(got)-3:], doubt, "one two", "x")
			if strings.Count(strings.Join(got, "\n"), doubt) != 1 {
				t.Errorf("said more than once: %q", got)
			}
			if err := l.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

// The next daemon may be killed too, just after it took out of the FIFO what
// was in the log already: the one after it knows.
func TestKilledWhileItOpens(t *testing.T) {
	dir := t.TempDir()
	l := open(t, dir, Options{})
	f, err := l.Pipe(-1, -1)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	text := "again and again\n"
	if !killAfter(t, l, len(stampLayout)+len(text), func() { _, _ = f.WriteString(text) }) {
		t.Fatal("it was not killed")
	}
	next := &Log{opts: Options{}.withDefaults(), files: files{base: l.files.base, max: 1 << 20, keep: 2}}
	if err := next.files.open(); err != nil {
		t.Fatal(err)
	}
	u, err := next.resume()
	if err != nil || u.skip != len(text) {
		t.Fatalf("resume() = %+v, %v; want to skip %d", u, err, len(text))
	}
	if next.journal, err = openJournal(l.files.base+".state", next.opts.MaxLine, u.seq); err != nil {
		t.Fatal(err)
	}
	next.settleInput(int(f.Fd()), u)
	next.journal.close()
	if err := next.files.close(); err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteString(text); err != nil { // the same once more
		t.Fatal(err)
	}
	l = open(t, dir, Options{})
	l.Drain()
	wantLines(t, bare(t, whole(t, l)), "again and again", "again and again")
}

// Where the kernel cannot tell what was taken out of the FIFO, it may be a
// repeat too; the line that had begun is not glued to what says so.
func TestDoubtWithoutAMark(t *testing.T) {
	dir := t.TempDir()
	l := open(t, dir, Options{})
	f, err := l.Pipe(-1, -1)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	l.mu.Lock()
	if err := unix.Munmap(l.journal.mapped); err != nil {
		t.Fatal(err)
	}
	l.journal.mapped = nil
	l.mu.Unlock()
	if !killAfter(t, l, len(stampLayout)+len("one\n"), func() { _, _ = f.WriteString("one\ntwo") }) {
		t.Fatal("it was not killed")
	}
	l = open(t, dir, Options{})
	l.Drain()
	wantLines(t, bare(t, whole(t, l)), "one", "two…",
		"[berth] berth was killed: up to 7 B of what follows may be a repeat", "one", "two")
}

// Lines that a full disk refused are counted by the next daemon.
func TestKilledWhileTheDiskIsFull(t *testing.T) {
	dir, c := t.TempDir(), newClock()
	l := open(t, dir, Options{Now: c.now})
	f, err := l.Pipe(-1, -1)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	l.mu.Lock()
	disk := l.files.cur.(*os.File)
	l.files.cur = &narrow{File: disk}
	if _, err := f.WriteString("lost\nlost\nbegun"); err != nil {
		t.Fatal(err)
	}
	l.pullAll()
	l.files.cur = disk
	abandon(l)
	c.pass(time.Minute)
	l = open(t, dir, Options{Now: c.now})
	if _, err := f.WriteString(" and ended\n"); err != nil {
		t.Fatal(err)
	}
	l.Drain()
	wantLines(t, bare(t, whole(t, l)),
		"[berth] 2 lines lost: cannot write the log: no space left on device", "begun and ended")
}

// Where no journal can be made, the log works all the same.
func TestNoJournal(t *testing.T) {
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "run.state"), 0o700); err != nil {
		t.Fatal(err)
	}
	l := open(t, dir, Options{})
	run(t, l, "echo hello")
	wantLines(t, bare(t, whole(t, l)), "hello")
	if err := l.Close(); err != nil {
		t.Error(err)
	}
}

// A note is read as it was written, or not at all.
func TestJournal(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state")
	j, err := openJournal(path, 100, 7)
	if err != nil {
		t.Fatal(err)
	}
	defer j.close()
	if last, before := readJournal(path); last != nil || before != nil {
		t.Errorf("an empty journal has %v and %v", last, before)
	}
	n := note{Inode: 3, At: 1 << 40, Wrote: 5, Lines: 6, Bytes: 7, Lost: 8, Errno: uint32(syscall.ENOSPC)}
	for i, raw := range []string{"", "x", "1234567", "12345678", "a line of more than that\n"} {
		part, carry := strings.Repeat("p", 20*i), strings.Repeat("c", i%4)
		mark := j.write(n, []byte(raw), []byte(part), []byte(carry))
		last, before := readJournal(path)
		if last == nil || last.Seq != uint64(8+i) || last.Inode != 3 || last.At != 1<<40 || last.Wrote != 5 ||
			last.Lines != 6 || last.Bytes != 7 || last.Lost != 8 || last.Errno != uint32(syscall.ENOSPC) ||
			string(last.part) != part || string(last.carry) != carry || int(last.Raw) != len(raw) {
			t.Fatalf("%q: read %+v", raw, last)
		}
		if (before != nil) != (i > 0) || before != nil && before.Seq+1 != last.Seq {
			t.Errorf("%q: before it %+v", raw, before)
		}
		if len(mark) != min(len(raw), markSize) {
			t.Errorf("%q: a mark of %d bytes", raw, len(mark))
		}
		if taken, certain := last.taken(); taken != (raw == "") || !certain {
			t.Errorf("%q: taken %t, certain %t before it is", raw, taken, certain)
		}
		copy(mark, raw[len(raw)-len(mark):])
		last, _ = readJournal(path)
		if taken, certain := last.taken(); !taken || !certain {
			t.Errorf("%q: taken %t, certain %t after it was", raw, taken, certain)
		}
	}
	for name, at := range map[string]int{"checksum": markSize, "length": markSize + 4, "text": noteHeader + noteSize} {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for i := range 2 {
			text[i*len(text)/2+at] ^= 0xff
		}
		if err := os.WriteFile(path+"-"+name, text, 0o600); err != nil {
			t.Fatal(err)
		}
		if last, _ := readJournal(path + "-" + name); last != nil {
			t.Errorf("%s: read %+v", name, last)
		}
	}
	if fmt.Sprintf("%x", boot()) == strings.Repeat("0", 32) {
		t.Error("boots are not told apart")
	}
}
