package logs

import (
	"bytes"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"berth/app"
)

// A program prints to what it has open: somebody removed the name of it, made
// another under the same name, or neither.
func TestWhatWasHeldIsRead(t *testing.T) {
	for name, remove := range map[string]func(dir string) error{
		"as it was":   func(string) error { return nil },
		"all removed": func(dir string) error { return os.RemoveAll(dir) },
		"another": func(dir string) error {
			return errors.Join(os.Remove(filepath.Join(dir, "run.fifo")), os.WriteFile(filepath.Join(dir, "run.fifo"), nil, 0o600))
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			var said bytes.Buffer
			book := func() *Book {
				return NewBook(dir, Options{}, slog.New(slog.NewTextHandler(&said, nil)))
			}
			b := book()
			l, out, err := b.Pipe("shop", false, -1)
			if err != nil {
				t.Fatal(err)
			}
			defer out.Close()
			print := func(text string) {
				t.Helper()
				if _, err := out.WriteString(text); err != nil {
					t.Fatal(err)
				}
			}
			print("first\nbeg")
			l.Drain()
			held, err := l.Pipe(-1, -1) // as the holder has it
			if err == nil {
				err = errors.Join(remove(filepath.Join(dir, "shop")), b.Close())
			}
			if err != nil {
				t.Fatal(err)
			}
			print("un, between\n")
			b = book()
			defer func() {
				if err := b.Close(); err != nil {
					t.Error(err)
				}
			}()
			if err := b.TakeOver(map[string]*os.File{HeldName("shop"): held}, func(app.ID) bool { return true }); err != nil {
				t.Fatal(err)
			}
			if l, err = b.of("shop", false); err != nil {
				t.Fatal(err)
			}
			if err := out.SetWriteDeadline(time.Now().Add(time.Minute)); err != nil && !errors.Is(err, os.ErrNoDeadline) {
				t.Fatal(err)
			}
			print(strings.Repeat(strings.Repeat("x", 1000)+"\n", 100) + "last\n") // more than a FIFO holds
			eventually(t, "the last line", func() bool { return strings.Contains(l.Tail(2000), " last\n") })
			if text := strings.Join(bare(t, whole(t, l)), "\n"); !strings.Contains(text, "un, between\n") {
				t.Errorf("what was printed between is not in it: %.100s", text)
			}
			if warned := strings.Contains(said.String(), "somebody removed the file"); warned != (name != "as it was") {
				t.Errorf("it says %q", said.String())
			}
		})
	}
}

// A file that somebody removed is made again, its directory too, and what follows
// is in it.
func TestRemovedFileIsMadeAgain(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "shop")
	now := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	l := open(t, dir, Options{Now: func() time.Time { return now }, MaxFile: 1500})
	run(t, l, "echo before")
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	now = now.Add(2 * checkAgain)
	run(t, l, "echo after")
	wantLines(t, bare(t, whole(t, l)), "after")
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	run(t, l, "printf '%2000d\\nlast\\n' 0") // more than the file takes, which is looked for in a second only
	run(t, l, "echo again")
	if text := bare(t, whole(t, l)); !slices.Contains(text, "last") || !slices.Contains(text, "again") {
		t.Errorf("the log has %q", text)
	}
	for _, name := range []string{"run.log", "run.state"} {
		if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
			t.Error(err)
		}
	}
}
