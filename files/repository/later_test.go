//go:build soak

package repository

import (
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"
)

// later makes a backup of 20 streams of 4 MB and three more: of the same, of two that changed a little
// in their middle, and of the same snapshots without saving them.
func later(t *testing.T, o Options) {
	t.Helper()
	r := open(t, o, true)
	text := map[string][]byte{"host": noise(200, 10_000)}
	for n := range 20 {
		text[fmt.Sprintf("apps/a%d", n)] = noise(uint64(100+n), 4<<20)
	}
	backup := func(run string, reuse bool) (int64, time.Duration) {
		begun := time.Now()
		all := list(t, r)
		var others []Snapshot
		for name := range text {
			s, there := Find(all, oldRun, name)
			if name != "host" && (!there || !reuse) {
				s = save(t, r, name, text[name])
			}
			if name != "host" {
				others = append(others, s)
			}
		}
		added := commit(t, r, run, save(t, r, "host", text["host"]), others...)
		return added, time.Since(begun).Round(time.Millisecond)
	}
	first, took := backup(oldRun, false)
	t.Logf("the first: %d bytes, %v", first, took)
	same, took := backup("20260202T000000Z", false)
	t.Logf("all again, unchanged: %d bytes, %v", same, took)
	for _, name := range []string{"apps/a3", "apps/a4"} {
		text[name] = slices.Concat(text[name][:1<<20], []byte("a little"), text[name][1<<20:])
	}
	little, took := backup("20260203T000000Z", false)
	t.Logf("two with 8 bytes more in the middle: %d bytes, %v", little, took)
	none, took := backup("20260204T000000Z", true)
	t.Logf("none saved again but the head: %d bytes, %v", none, took)
	if name := r.Where(); name[0] == '/' && (same > first/10 || little > first/10) || none > first/10 {
		t.Errorf("%s: later backups add %d, %d and %d bytes to %d", name, same, little, none, first)
	}
}

// Each of a hundred applications of 30 MB has changed in one place, and the backups go to S3 over a line of 40 Mbit/s: under half of
// the time, and a tenth of the bytes.
func TestSoakLaterOverALine(t *testing.T) {
	dir := t.TempDir()
	s := newS3(t, dir)
	must(t, os.Mkdir(filepath.Join(dir, "bucket"), 0o755))
	const rate = 5_000_000 // of a connection: an application is one pack of restic's, and so one connection at a time
	r := open(t, s.options(t, newLine(t, s.address, rate).address), true)
	backup := func(run string, changed []byte) (int64, time.Duration) {
		begun := time.Now()
		var all []Snapshot
		for n := range 100 {
			text := noise(uint64(n), 15<<20)
			text = hex.AppendEncode(text, text[:15<<19]) // which can be compressed
			copy(text[n*300_000:], changed)
			all = append(all, save(t, r, fmt.Sprintf("apps/a%d", n), text))
		}
		head := save(t, r, "host", append([]byte("the database"), changed...))
		return commit(t, r, run, head, all...), time.Since(begun)
	}
	first, took := backup("20260101T000000Z", nil)
	later, again := backup("20260102T000000Z", []byte("changed"))
	t.Logf("the first: %d bytes, %.0f s; later: %d bytes (%.3f), %.0f s (%.2f)", first, took.Seconds(),
		later, float64(later)/float64(first), again.Seconds(), again.Seconds()/took.Seconds())
	if later > first/10 || again > took/2 {
		t.Error("that is not half of the time, or a tenth of the bytes")
	}
}

// writesAt is writes, and calls at after so many bytes.
func writesAt(text []byte, after int, at func()) func(io.Writer) error {
	return func(w io.Writer) error {
		if err := writes(text[:after])(w); err != nil {
			return err
		}
		at()
		return writes(text[after:])(w)
	}
}
