package logs

import (
	"errors"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"berth/app"
)

// A request that found the application a moment ago still reads: it does not
// bring back a log that is being removed.
func TestLogsAreRemovedWhileSomebodyReads(t *testing.T) {
	dir, id := t.TempDir(), app.ID("shop")
	b := NewBook(dir, Options{}, slog.New(slog.DiscardHandler))
	for range 200 {
		b.Note(id, "here")
		removed, read := make(chan struct{}), make(chan struct{})
		go func() {
			defer close(read)
			for {
				b.Tail(id, false, 100)
				select {
				case <-removed:
					return
				default:
				}
			}
		}()
		err := b.Remove(id)
		close(removed)
		<-read
		if err != nil || len(b.open) > 0 || len(b.removing) > 0 {
			t.Fatalf("Remove() = %v; open are %v, being removed %v", err, b.open, b.removing)
		}
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
	b.Note(id, "again")
	if got := b.Tail(id, false, 100); got == "" {
		t.Error("the next one of this name has no log")
	}
	if err := b.Close(); err != nil {
		t.Error(err)
	}
}

func TestLogbook(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "logs")
	b := NewBook(dir, Options{}, slog.New(slog.DiscardHandler))
	b.Note("a", "hello")
	if err := b.BeginBuild("a"); err != nil {
		t.Fatal(err)
	}
	if got := b.Tail("a", false, 100); !strings.Contains(got, "[berth] hello") {
		t.Errorf("the run log is %q", got)
	}
	if got := b.Tail("a", true, 100); got != "" {
		t.Errorf("the build log is %q", got)
	}
	r, err := b.Open("a", false)
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(r)
	if err := errors.Join(err, r.Close()); err != nil || !strings.Contains(string(text), "hello") {
		t.Errorf("the whole log is %q, %v", text, err)
	}
	for build, want := range map[bool]string{false: " [berth] built\n", true: "[berth] built\n"} {
		follow := b.FollowBuild
		if !build {
			follow = func(id app.ID) (app.Follower, error) { return b.Follow(id, true, 0) }
		}
		f, err := follow("a")
		if err != nil {
			t.Fatal(err)
		}
		l, err := b.Existing("a", true)
		if err != nil {
			t.Fatal(err)
		}
		l.Note("built")
		if got := f.Take(); !strings.HasSuffix(got, want) || strings.HasPrefix(got, "[berth]") != build {
			t.Errorf("a follower without stamps %v takes %q", build, got)
		}
		f.Close()
	}
	if _, err := b.FollowBuild("none"); !errors.Is(err, ErrNone) {
		t.Errorf("the build that there is not: %v", err)
	}
	b.Note("gone", "x")
	b.Note("lost", "what no record names")
	var lost []byte
	lose := func(name string) error {
		text, err := os.ReadFile(filepath.Join(dir, name, "run.log"))
		lost = text
		return errors.Join(err, os.Rename(filepath.Join(dir, name), filepath.Join(t.TempDir(), name)))
	}
	if err := errors.Join(os.Mkdir(filepath.Join(dir, "empty"), 0o700), b.Sweep(map[app.ID]bool{"a": true}, map[app.ID]bool{"gone": true}, lose)); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(lost), "what no record names") {
		t.Errorf("lost is %q", lost)
	}
	if list, err := os.ReadDir(dir); err != nil || len(list) != 1 || list[0].Name() != "a" {
		t.Errorf("after the sweep: %v, %v", list, err)
	}
	b.Note("a", "again")
	if err := b.Remove("a"); err != nil {
		t.Error(err)
	}
	if list, err := os.ReadDir(dir); err != nil || len(list) != 0 {
		t.Errorf("after Remove: %v, %v", list, err)
	}
	if err := NewBook(filepath.Join(dir, "none"), Options{}, nil).Sweep(nil, nil, nil); err != nil {
		t.Errorf("a first start has nothing to sweep: %v", err)
	}
}

// A log that cannot be opened fails no operation but the build that needs it.
func TestLogbookWithoutDisk(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	b := NewBook(file, Options{}, slog.New(slog.DiscardHandler))
	b.Note("a", "hello")
	if got := b.Tail("a", false, 100); got != "" {
		t.Errorf("Tail() = %q", got)
	}
	if err := b.BeginBuild("a"); err == nil || !strings.Contains(err.Error(), "cannot open the application's log") {
		t.Errorf("BeginBuild() = %v", err)
	}
	if _, err := b.Open("a", false); err == nil {
		t.Error("reader() gave no error")
	}
}
