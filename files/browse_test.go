package files

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"berth/app"
)

func TestList(t *testing.T) {
	s := newStore(t)
	top := makeLive(t, s, map[string]string{"b": "12345", "a/x": "x", "link": "->/etc/passwd", "c\n\xff<b>": "y"})
	must(t, mkfifo(filepath.Join(top, "pipe")))
	must(t, os.WriteFile(filepath.Join(top, "roots"), []byte("SECRET"), 0o600))
	list, more, err := s.List(testID, testUID, ".")
	must(t, err)
	var got []string
	for _, e := range list {
		got = append(got, e.Name+" "+string(e.Kind))
	}
	if want := "a dir|b file|c\n\xff<b> file|link link|pipe other|roots other"; strings.Join(got, "|") != want || more || list[1].Bytes != 5 || list[1].At.IsZero() {
		t.Errorf("got %q %v, want %q", got, more, want)
	}
	if inner, _, err := s.List(testID, testUID, "a"); err != nil || len(inner) != 1 || inner[0].Name != "x" {
		t.Errorf("of a: %v, %v", inner, err)
	}
	for i := range maxListed {
		must(t, os.WriteFile(filepath.Join(top, "a", strings.Repeat("f", 1+i%200)+string(rune('0'+i/200))), nil, 0o600))
	}
	if list, more, err = s.List(testID, testUID, "a"); err != nil || len(list) != maxListed || !more {
		t.Errorf("of many: %d, %v, %v", len(list), more, err)
	}
}

// Nothing outside of the tree is listed, read or written, and nothing of a tree
// that has another owner by now.
func TestBrowseStaysInside(t *testing.T) {
	s := newStore(t)
	top := makeLive(t, s, map[string]string{"own": "x", "dir/": "", "link": "->/etc/passwd", "out": "->..", "dir/up": "->../.."})
	must(t, mkfifo(filepath.Join(top, "pipe")))
	secret := filepath.Join(s.root, "secret")
	must(t, os.WriteFile(secret, []byte("SECRET"), 0o600))
	must(t, os.Link(secret, filepath.Join(top, "hard")))
	for _, name := range []string{
		"", "..", "../secret", "dir/../../../secret", "/etc/passwd", "link", "out/secret", "out/my-app/own", "dir/up/x", "pipe",
		"hard", "own/", "own/x", "nothing", "a\x00b", "./own", strings.Repeat("a", 300), strings.Repeat("a/", 4000) + "a",
	} {
		if f, _, err := s.OpenFile(testID, testUID, name); app.KindOf(err) != app.NotFound {
			t.Errorf("OpenFile(%.40q): %v", name, err)
			if err == nil {
				f.Close()
			}
		}
		if _, _, err := s.List(testID, testUID, name); app.KindOf(err) != app.NotFound {
			t.Errorf("List(%.40q): %v", name, err)
		}
		if name == "nothing" {
			continue // that one may be written
		}
		if err := s.WriteFile(testID, testUID, name, []byte("y"), app.OverAny); app.KindOf(err) != app.NotFound && app.KindOf(err) != app.Conflict {
			t.Errorf("WriteFile(%.40q): %v", name, err)
		}
	}
	for what, err := range map[string]error{
		"list":  func() error { _, _, err := s.List(testID, testUID+1, "."); return err }(),
		"open":  func() error { _, _, err := s.OpenFile(testID, testUID+1, "own"); return err }(),
		"write": s.WriteFile(testID, testUID+1, "own", nil, app.OverAny),
		"none":  s.WriteFile("another", testUID, "own", nil, app.OverAny),
	} {
		if app.KindOf(err) != app.NotFound {
			t.Errorf("%s of another owner: %v", what, err)
		}
	}
	if text, err := os.ReadFile(secret); err != nil || string(text) != "SECRET" {
		t.Errorf("the file outside holds %q, %v", text, err)
	}
}

func TestWriteFile(t *testing.T) {
	s := newStore(t)
	top := makeLive(t, s, map[string]string{"run.sh": "old", "dir/": ""})
	must(t, os.Chmod(filepath.Join(top, "run.sh"), 0o751))
	before, err := os.Open(filepath.Join(top, "run.sh"))
	must(t, err)
	defer before.Close()
	must(t, s.WriteFile(testID, testUID, "run.sh", []byte("new"), app.OverAny))
	must(t, s.WriteFile(testID, testUID, "dir/made", []byte("m"), app.OverAny))
	if old, err := io.ReadAll(before); err != nil || string(old) != "old" {
		t.Errorf("whoever had it open reads %q, %v", old, err)
	}
	for name, want := range map[string]struct {
		text string
		mode uint32
	}{"run.sh": {"new", 0o751}, "dir/made": {"m", 0o644}} {
		f, size, err := s.OpenFile(testID, testUID, name)
		must(t, err)
		text, err := io.ReadAll(f)
		must(t, err)
		var st unix.Stat_t
		must(t, unix.Fstat(int(f.(*os.File).Fd()), &st))
		must(t, f.Close())
		if string(text) != want.text || size != int64(len(text)) || st.Mode&0o7777 != want.mode || st.Uid != testUID || st.Gid != testUID {
			t.Errorf("%s: %q, %d bytes, mode %o, user %d", name, text, size, st.Mode&0o7777, st.Uid)
		}
	}
	if err := s.WriteFile(testID, testUID, "dir", nil, app.OverAny); app.KindOf(err) != app.Conflict {
		t.Errorf("over a directory: %v", err)
	}
	names, err := os.ReadDir(filepath.Join(top, "dir"))
	if err != nil || len(names) != 1 {
		t.Errorf("left in the directory: %v, %v", names, err)
	}
}

// Whatever ends berth before a file has its name, the tree holds nothing of it, and a
// boot removes it.
func TestWriteFileCutShort(t *testing.T) {
	s := newStore(t)
	top := makeLive(t, s, map[string]string{"dir/a": "old"})
	before := snapshot(t, top)
	seen := 0
	s.step = func(string) error {
		seen++
		same(t, snapshot(t, top), before)
		_, err := s.Sweep(t.Context(), []app.ID{testID}, nil)
		must(t, err)
		empty(t, s, "staging")
		return errCrash
	}
	if err := s.WriteFile(testID, testUID, "dir/a", []byte("new"), app.OverAny); err == nil || seen != 1 {
		t.Errorf("%v after %d steps", err, seen)
	}
	same(t, snapshot(t, top), before)
}

// A program swaps a directory for a link to the outside, over and over, while its
// files are written: nothing lands outside.
func TestWriteFileWhileDirectoriesAreSwapped(t *testing.T) {
	s := newStore(t)
	top := makeLive(t, s, map[string]string{"dir/": ""})
	outside := filepath.Join(s.root, "outside")
	must(t, os.Mkdir(outside, 0o755))
	must(t, os.Chown(outside, testUID, testUID))
	must(t, os.Symlink(outside, filepath.Join(top, "trap")))
	var done atomic.Bool
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for !done.Load() {
			_ = unix.Renameat2(unix.AT_FDCWD, filepath.Join(top, "dir"), unix.AT_FDCWD, filepath.Join(top, "trap"), unix.RENAME_EXCHANGE)
		}
	}()
	written := 0
	// Who swaps may have no processor for a while, and leave the trap there.
	for tries, until := 0, time.Now().Add(time.Minute); tries < 300 || written == 0 && time.Now().Before(until); tries++ {
		switch err := s.WriteFile(testID, testUID, "dir/f", []byte("x"), app.OverAny); app.KindOf(err) {
		case app.NotFound:
		default:
			if err != nil {
				t.Error(err)
			}
			written++
		}
	}
	done.Store(true)
	<-ended
	if names, err := os.ReadDir(outside); err != nil || len(names) != 0 {
		t.Errorf("outside there is %v, %v", names, err)
	}
	if written == 0 {
		t.Error("nothing was ever written")
	}
}
