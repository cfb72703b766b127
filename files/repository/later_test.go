//go:build soak

package repository

import (
	"fmt"
	"io"
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
