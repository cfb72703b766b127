package files

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"berth/app"
	"berth/files/archive"
	"berth/files/bundle"
)

// settledFingerprint asks until nothing has changed within the tick in which the call began.
func settledFingerprint(t *testing.T, s *Store) string {
	t.Helper()
	if can, err := settles(s.apps); err != nil || !can {
		t.Skipf("the file system is none that settles (%v)", err)
	}
	for deadline := time.Now().Add(10 * time.Second); ; {
		sum, settled, err := s.Fingerprint(t.Context(), testID, testUID)
		must(t, err)
		if settled {
			return sum
		}
		if time.Now().After(deadline) {
			t.Fatal("it never settles")
		}
	}
}

// A fingerprint is the same as long as nothing has changed, whatever reads the tree.
func TestFingerprintTellsEveryChange(t *testing.T) {
	s := newStore(t)
	live := makeLive(t, s, map[string]string{"a": "content", "d/b": "x", "link": "->a", "node_modules/p": "p"})
	last := settledFingerprint(t, s)
	in := func(name string) string { return filepath.Join(live, name) }
	must(t, onlyError(os.ReadFile(in("a"))))
	w, err := archive.NewWriter(io.Discard, archive.Manifest{})
	must(t, errors.Join(err, s.Export(t.Context(), w, testID, testUID)))
	if again := settledFingerprint(t, s); again != last || len(last) != 64 {
		t.Errorf("unchanged: %s and then %s", last, again)
	}
	for _, change := range []struct {
		what string
		make func() error
	}{
		{"a write over what is there", func() error { return write(in("a"), "CONTENT") }},
		{"the same content again, with its old time", func() error {
			info, err := os.Stat(in("a"))
			return errors.Join(err, write(in("a"), "CONTENT"), os.Chtimes(in("a"), info.ModTime(), info.ModTime()))
		}},
		{"a mode", func() error { return os.Chmod(in("d/b"), 0o600) }},
		{"another name", func() error { return os.Rename(in("d/b"), in("d/c")) }},
		{"a second name", func() error { return os.Link(in("a"), in("d/a")) }},
		{"another link", func() error {
			return errors.Join(os.Remove(in("link")), os.Symlink("b", in("link")), os.Lchown(in("link"), testUID, testUID))
		}},
		{"one less", func() error { return os.Remove(in("node_modules/p")) }},
		{"a deploy", func() error {
			stage := stageOf(t, s, map[string]string{"new": "x"})
			done, err := s.Apply(t.Context(), stage, testID, testUID)
			return errors.Join(err, s.Settle(t.Context(), testID, testUID, []string{done.Journal}))
		}},
	} {
		must(t, change.make())
		next := settledFingerprint(t, s)
		if next == last {
			t.Errorf("%s: the fingerprint is the same", change.what)
		}
		last = next
	}
}

// write writes over a file in place.
func write(path, text string) error {
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	return errors.Join(err, f.Close())
}

// A program that has a page writable in a shared mapping writes to it without any system call.
func TestFingerprintSeesWritesThroughAMapping(t *testing.T) {
	s := newStore(t)
	live := makeLive(t, s, map[string]string{"db": string(make([]byte, 64<<10))})
	f, err := os.OpenFile(filepath.Join(live, "db"), os.O_RDWR, 0)
	must(t, err)
	defer f.Close()
	text, err := unix.Mmap(int(f.Fd()), 0, 64<<10, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	must(t, err)
	defer func() { must(t, unix.Munmap(text)) }()
	for i := range 20 {
		text[i]++ // the page is writable from here on
		first := settledFingerprint(t, s)
		text[i]++
		second, _, err := s.Fingerprint(t.Context(), testID, testUID)
		must(t, err)
		if second == first {
			t.Fatalf("round %d: the write is not seen", i)
		}
	}
}

// What has changed a moment ago may change again with the same times, and a file system that
// has nothing to write back to never tells.
func TestFingerprintUnsettled(t *testing.T) {
	s := newStore(t)
	live := makeLive(t, s, map[string]string{"a": "x"})
	still := 0
	const rounds = 200
	for range rounds {
		must(t, write(filepath.Join(live, "a"), "y"))
		_, settled, err := s.Fingerprint(t.Context(), testID, testUID)
		must(t, err)
		if !settled {
			still++
		}
	}
	if still == 0 {
		t.Errorf("all %d were settled right after a write", rounds)
	}
	memory := newMemoryStore(t)
	if can, err := settles(memory.apps); err == nil && !can {
		makeLive(t, memory, map[string]string{"a": "x"})
		if _, settled, err := memory.Fingerprint(t.Context(), testID, testUID); settled || err != nil {
			t.Errorf("in memory: settled %t, %v", settled, err)
		}
	}
}

// A file system that keeps whole seconds says less of a time than another.
func TestFingerprintComparesTimes(t *testing.T) {
	moment := unix.Timespec{Sec: 5, Nsec: 600}
	for at, want := range map[unix.Timespec]bool{
		{Sec: 5, Nsec: 599}: true, {Sec: 5, Nsec: 600}: false, {Sec: 5, Nsec: 601}: false, {Sec: 6, Nsec: 1}: false,
		{Sec: 5}: false, {Sec: 4}: true, {Sec: 6}: false, {Sec: 4, Nsec: 999}: true,
	} {
		if before(at, moment) != want {
			t.Errorf("%v is before %v: %t", at, moment, !want)
		}
	}
}

func TestFingerprintRefuses(t *testing.T) {
	s := newStore(t)
	live, stage := scene(t, s)
	must(t, applied(s.Apply(t.Context(), stage, testID, testUID)))
	if _, _, err := s.Fingerprint(t.Context(), testID, testUID); !errors.Is(err, ErrBusy) {
		t.Errorf("during a commit: %v", err)
	}
	must(t, s.Settle(t.Context(), testID, testUID, nil))
	if _, _, err := s.Fingerprint(t.Context(), "nobody", testUID); app.KindOf(err) != app.NotFound {
		t.Errorf("no application: %v", err)
	}
	if _, _, err := s.Fingerprint(cancelled(t), testID, testUID); err == nil {
		t.Error("cancelled: a sum")
	}
	deepTree(t, live, maxDepth+10)
	must(t, walkOwn(openDir(t, live), maxDepth+10))
	if _, _, err := s.Fingerprint(t.Context(), testID, testUID); app.KindOf(err) != app.Unusable {
		t.Errorf("too deep: %v", err)
	}
}

// BenchmarkFingerprint is of 100 applications with 1,000 files each.
func BenchmarkFingerprint(b *testing.B) {
	s, err := Open(filepath.Join(b.TempDir(), "data"), bundle.Limits{})
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	id := func(i int) app.ID { return app.ID(fmt.Sprintf("app-%d", i)) }
	for i := range 100 {
		for j := range 1000 {
			at := filepath.Join(s.Dir(id(i)), fmt.Sprint(j/100))
			if err := errors.Join(os.MkdirAll(at, 0o755), os.WriteFile(filepath.Join(at, fmt.Sprint(j)), []byte("some content"), 0o644)); err != nil {
				b.Fatal(err)
			}
		}
	}
	for b.Loop() {
		for i := range 100 {
			if _, _, err := s.Fingerprint(b.Context(), id(i), 0); err != nil {
				b.Fatal(err)
			}
		}
	}
}
