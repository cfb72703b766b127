package proxy

import (
	"bytes"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"berth/app"
)

func accesses(t testing.TB, most int64, keep int, ids ...app.ID) (*AccessLogs, string, *bytes.Buffer) {
	t.Helper()
	dir, said := t.TempDir(), &bytes.Buffer{}
	for _, id := range ids {
		if err := os.Mkdir(filepath.Join(dir, string(id)), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	a := NewAccessLogs(dir, most, keep, slog.New(slog.NewTextHandler(said, nil)))
	t.Cleanup(func() { _ = a.Close() })
	return a, dir, said
}

func lines(t *testing.T, name string) []string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
}

// descriptors are the files below a directory that this process has open.
func descriptors(t *testing.T, dir string) (n int) {
	t.Helper()
	list, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range list {
		if to, _ := os.Readlink("/proc/self/fd/" + e.Name()); strings.HasPrefix(to, dir) {
			n++
		}
	}
	return n
}

// Lines of many at once are whole, and files rotate within their bounds.
func TestAccessLogRotates(t *testing.T) {
	a, dir, said := accesses(t, 1000, 2, "shop")
	var all sync.WaitGroup
	for w := range 4 {
		all.Go(func() {
			for i := range 100 {
				a.Add("shop", fmt.Sprintf("%d %02d ------------------", w, i)) // 24 bytes with its end
			}
		})
	}
	all.Wait()
	name := filepath.Join(dir, "shop", "access.log")
	for _, end := range []string{"", ".1", ".2"} {
		got := lines(t, name+end)
		if len(got) > 1000/24 || end != "" && len(got) != 1000/24 {
			t.Errorf("%q has %d lines", end, len(got))
		}
		for _, line := range got {
			if len(line) != 23 {
				t.Errorf("a line is torn: %q", line)
			}
		}
	}
	if _, err := os.Stat(name + ".3"); err == nil {
		t.Error("a third file is kept")
	}
	if said.Len() > 0 {
		t.Error(said)
	}
}

// A daemon goes on with what another has written, and rotates it if it is full.
func TestAccessLogGoesOn(t *testing.T) {
	a, dir, _ := accesses(t, 100, 1, "shop")
	a.Add("shop", "first")
	next := NewAccessLogs(dir, 100, 1, a.log)
	defer next.Close()
	next.Add("shop", "second")
	name := filepath.Join(dir, "shop", "access.log")
	if got := strings.Join(lines(t, name), " "); got != "first second" {
		t.Errorf("got %q", got)
	}
	small := NewAccessLogs(dir, 10, 1, a.log)
	defer small.Close()
	small.Add("shop", "third")
	if got := strings.Join(append(lines(t, name), lines(t, name+".1")...), " "); got != "third first second" {
		t.Errorf("got %q", got)
	}
}

// However many sites there are, few files are open, and none of a site that is
// removed or of a daemon that ends.
func TestAccessLogsAreBounded(t *testing.T) {
	var ids []app.ID
	for i := range 2 * openAccess {
		ids = append(ids, app.ID(fmt.Sprintf("site-%d", i)))
	}
	a, dir, said := accesses(t, 1<<20, 2, ids...)
	for range 2 {
		for _, id := range ids {
			a.Add(id, "a line")
		}
	}
	if n := descriptors(t, dir); n != openAccess {
		t.Errorf("%d files are open, want %d", n, openAccess)
	}
	for _, id := range ids {
		if got := lines(t, filepath.Join(dir, string(id), "access.log")); len(got) != 2 {
			t.Errorf("%s: %q", id, got)
		}
	}
	last := ids[len(ids)-1]
	done := a.Remove(last)
	a.Add(last, "too late")
	if n := descriptors(t, dir); n != openAccess-1 {
		t.Errorf("%d files are open after a removal", n)
	}
	if err := os.RemoveAll(filepath.Join(dir, string(last))); err != nil {
		t.Fatal(err)
	}
	done()
	a.Add(last, "for nobody")
	if _, err := os.Stat(filepath.Join(dir, string(last))); err == nil {
		t.Error("a log was made for a site that is gone")
	}
	a.Close()
	if n := descriptors(t, dir); n != 0 {
		t.Errorf("%d files are open in the end", n)
	}
	if said.Len() > 0 {
		t.Error(said)
	}
}

// A file that somebody takes away is made again; one that cannot be written is
// told once.
func TestAccessLogIsTakenAway(t *testing.T) {
	a, dir, said := accesses(t, 1<<20, 2, "shop")
	a.Add("shop", "first")
	name := filepath.Join(dir, "shop", "access.log")
	if err := os.Rename(name, name+".old"); err != nil {
		t.Fatal(err)
	}
	a.open["shop"].checked = a.open["shop"].checked.Add(-2 * accessCheck)
	a.Add("shop", "second")
	if got := lines(t, name); len(got) != 1 || got[0] != "second" {
		t.Errorf("got %q", got)
	}
	a.Close()
	if err := os.Remove(name); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(name, 0o700); err != nil {
		t.Fatal(err)
	}
	a.Add("shop", "third")
	a.Add("shop", "fourth")
	if n := strings.Count(said.String(), "cannot write an access log"); n != 1 {
		t.Errorf("told %d times: %s", n, said)
	}
}

func BenchmarkAccessLog(b *testing.B) {
	a, _, _ := accesses(b, 5<<20, 2, "shop")
	line := strings.Repeat("x", 100)
	for b.Loop() {
		a.Add("shop", line)
	}
}
