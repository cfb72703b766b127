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

// A flood is paced when it has no end, and no other.
func TestFloodIsPaced(t *testing.T) {
	const step = 64 << 10
	var f flood
	pauses := func(bytes int64, shut bool) (n int) {
		for ; bytes > 0; bytes -= step {
			if f.endless(step, shut) {
				n++
			}
		}
		return n
	}
	for i, c := range []struct {
		bytes int64
		shut  bool
		want  int
	}{
		{4 << 30, false, 0},            // within the rate, for ever
		{sprint - step, true, 0},       // much at once
		{step, false, 0},               // the gate opens in between
		{step, true, 0},                // and there is as much as before
		{step, true, 1},                // beyond that
		{64 * busyPipe, true, 64},      // a pause after each
		{4 << 30, true, 4096},          // more than 32 bits count
		{8 << 30, false, 0},            // well again
		{sprint - step, true, 0},       // which is forgotten
		{step + busyPipe, true, 1 + 1}, // once more
	} {
		if got := pauses(c.bytes, c.shut); got != c.want {
			t.Errorf("%d: %d pauses in %d bytes, want %d", i, got, c.bytes, c.want)
		}
	}
}
