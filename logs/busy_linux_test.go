package logs

import (
	"bytes"
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// holds is the size of a log's FIFO.
func holds(t *testing.T, l *Log) int {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	size := 0
	err := l.fifo.conn.Control(func(fd uintptr) { size, _ = unix.FcntlInt(fd, unix.F_GETPIPE_SZ, 0) })
	if err != nil {
		t.Fatal(err)
	}
	return size
}

func TestPipeIsLargeWhileTheProgramIsBusy(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root: others may not have larger pipes once they have many")
	}
	c := newClock()
	l := open(t, t.TempDir(), Options{Now: c.now, Rate: -1, MaxFile: 64 << 20})
	f, err := l.Pipe(-1, -1)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	print := func(text string) {
		t.Helper()
		if _, err := f.WriteString(text); err != nil {
			t.Fatal(err)
		}
	}
	seen := func(line string) {
		t.Helper()
		eventually(t, line, func() bool { return strings.HasSuffix(l.Tail(100), line+"\n") })
	}
	line := strings.Repeat("x", 79) + "\n"
	print("begin\n")
	seen("begin")
	if got := holds(t, l); got != idlePipe {
		t.Errorf("at first the pipe holds %d bytes, want %d", got, idlePipe)
	}
	flood := strings.Repeat(line, 8<<20/len(line)) + "flood\n"
	print(flood)
	seen("flood")
	if got := holds(t, l); got != busyPipe {
		t.Errorf("after 8 MiB at once the pipe holds %d bytes, want %d", got, busyPipe)
	}
	c.pass(busyFor / 2)
	print("soon\n")
	seen("soon")
	if got := holds(t, l); got != busyPipe {
		t.Errorf("soon after that the pipe holds %d bytes, want %d", got, busyPipe)
	}
	c.pass(busyFor)
	print("quiet\n")
	seen("quiet")
	if got := holds(t, l); got != idlePipe {
		t.Errorf("a quiet program's pipe holds %d bytes, want %d", got, idlePipe)
	}
	print(flood)
	l.Drain()
	if got := holds(t, l); got != idlePipe {
		t.Errorf("after the end the pipe holds %d bytes, want %d", got, idlePipe)
	}
}

// What is skipped eight bytes at a time is what the table says, at every
// place and beside every other byte.
func TestPlainPrefix(t *testing.T) {
	slow := func(p []byte) int {
		return max(bytes.IndexFunc(append(bytes.Clone(p), '\n'), func(r rune) bool { return r >= 0x80 || !plain[r] }), 0)
	}
	random := rand.New(rand.NewPCG(1, 2))
	for c := range 256 {
		for at := range 24 {
			p := bytes.Repeat([]byte("x"), 24)
			p[at] = byte(c)
			if at > 0 {
				p[at-1] = byte(random.IntN(256))
			}
			if got, want := plainPrefix(p), slow(p); got != want {
				t.Fatalf("plainPrefix(%q) = %d, want %d", p, got, want)
			}
		}
	}
}
