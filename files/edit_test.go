package files

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"berth/app"
)

// tree fails unless dir holds these paths and no other.
func tree(t *testing.T, dir string, paths ...string) {
	t.Helper()
	if got := slices.Sorted(maps.Keys(snapshot(t, dir))); !slices.Equal(got, paths) {
		t.Errorf("there are %q, want %q", got, paths)
	}
}

func TestEdit(t *testing.T) {
	s := newStore(t)
	top := makeLive(t, s, map[string]string{"a": "1", "dir/x": "2", "dir/deep/y": "3", "link": "->/etc/passwd"})
	must(t, s.MakeDir(testID, testUID, "dir/new"))
	var st unix.Stat_t
	must(t, unix.Stat(filepath.Join(top, "dir/new"), &st))
	if st.Mode != unix.S_IFDIR|0o755 || st.Uid != testUID || st.Gid != testUID {
		t.Errorf("the directory has mode %o, user %d", st.Mode, st.Uid)
	}
	must(t, s.Move(testID, testUID, "a", "dir/new/b"))
	must(t, s.Move(testID, testUID, "dir/deep", "deep"))
	must(t, s.Move(testID, testUID, "link", "dir/link"))
	tree(t, top, ".", "deep", "deep/y", "dir", "dir/link", "dir/new", "dir/new/b", "dir/x")
	holds(t, top, map[string]string{"dir/x": "2", "dir/new/b": "1", "deep/y": "3"})
	for _, name := range []string{"dir", "deep/y"} {
		finish, err := s.Delete(testID, testUID, name)
		must(t, err)
		if _, err := os.Lstat(filepath.Join(top, name)); !os.IsNotExist(err) {
			t.Errorf("%s has its name still: %v", name, err)
		}
		must(t, finish(t.Context()))
	}
	empty(t, s, "staging")
	tree(t, top, ".", "deep")
	if _, err := os.Lstat("/etc/passwd"); err != nil {
		t.Error(err)
	}
}

// What is refused changes nothing, and nothing outside of the tree is touched.
func TestEditIsRefused(t *testing.T) {
	s := newStore(t)
	top := makeLive(t, s, map[string]string{"own": "x", "dir/in": "y", "other/": "", "link": "->/etc", "up": "->.."})
	secret := filepath.Join(s.root, "secret")
	must(t, os.WriteFile(secret, []byte("SECRET"), 0o600))
	must(t, os.Link(secret, filepath.Join(top, "hard")))
	must(t, os.Mkdir(filepath.Join(top, "roots"), 0o755))
	before := snapshot(t, top)
	kept := func(what string, err error, want app.Kind) {
		t.Helper()
		if app.KindOf(err) != want {
			t.Errorf("%s: %v", what, err)
		}
	}
	remove := func(id app.ID, uid int, name string) error {
		_, err := s.Delete(id, uid, name)
		return err
	}
	for _, name := range []string{
		"", ".", "..", "../secret", "/etc/passwd", "link/passwd", "up/secret", "nothing/x", "own/x", "a\x00b", "./own", "roots/x", strings.Repeat("a/", 4000) + "a",
	} {
		kept("a directory at "+name[:min(len(name), 20)], s.MakeDir(testID, testUID, name), app.NotFound)
		kept("from "+name[:min(len(name), 20)], s.Move(testID, testUID, name, "moved"), app.NotFound)
		kept("to "+name[:min(len(name), 20)], s.Move(testID, testUID, "own", name), app.NotFound)
		kept("away with "+name[:min(len(name), 20)], remove(testID, testUID, name), app.NotFound)
	}
	kept("what is there", s.MakeDir(testID, testUID, "dir"), app.Conflict)
	kept("over a file", s.Move(testID, testUID, "dir/in", "own"), app.Conflict)
	kept("over a directory", s.Move(testID, testUID, "dir", "other"), app.Conflict)
	kept("into itself", s.Move(testID, testUID, "dir", "dir/deep"), app.Conflict)
	kept("another's file", s.Move(testID, testUID, "hard", "soft"), app.NotFound)
	kept("a control character", s.MakeDir(testID, testUID, "a\nb"), app.Invalid)
	kept("too long a name", s.MakeDir(testID, testUID, strings.Repeat("a", 256)), app.Invalid)
	kept("another owner's directory", s.MakeDir(testID, testUID+1, "d"), app.NotFound)
	kept("another owner's move", s.Move(testID, testUID+1, "own", "d"), app.NotFound)
	kept("another owner's file", remove(testID, testUID+1, "own"), app.NotFound)
	kept("no such application", remove("another", testUID, "own"), app.NotFound)
	same(t, snapshot(t, top), before)
	empty(t, s, "staging")
	if text, err := os.ReadFile(secret); err != nil || string(text) != "SECRET" {
		t.Errorf("the file outside holds %q, %v", text, err)
	}
}

// What was deleted when berth ended goes with the next start.
func TestDeleteCutShort(t *testing.T) {
	s := newStore(t)
	top := makeLive(t, s, map[string]string{"a": "1", "dir/deep/x": "2"})
	_, err := s.Delete(testID, testUID, "dir") // and nobody finishes
	must(t, err)
	_, err = s.Sweep(t.Context(), []app.ID{testID}, nil)
	must(t, err)
	empty(t, s, "staging")
	tree(t, top, ".", "a")
}

// A file replaces only what it is meant for: nothing, anything, or a file that holds just that.
func TestWriteFileOver(t *testing.T) {
	s := newStore(t)
	top := makeLive(t, s, map[string]string{"a": "1", "dir/": "", "link": "->a"})
	must(t, os.WriteFile(filepath.Join(top, "large"), make([]byte, maxCompared+1), 0o644))
	must(t, os.Chown(filepath.Join(top, "large"), testUID, testUID))
	is := func(text string) app.Over { return app.OverText([]byte(text)) }
	for _, c := range []struct {
		name string
		over app.Over
		want app.Kind
		text string // that the file holds then
	}{
		{"a", app.OverNothing, app.Conflict, "1"},
		{"a", is("2"), app.Conflict, "1"},
		{"a", "rubbish", app.Conflict, "1"},
		{"a", is("1"), 0, "new"},
		{"a", is("1"), app.Conflict, "new"},
		{"b", is(""), app.Conflict, ""},
		{"b", app.OverNothing, 0, "new"},
		{"c", app.OverAny, 0, "new"},
		{"dir", app.OverNothing, app.Conflict, ""},
		{"link", app.OverAny, app.Conflict, ""},
		{"large", app.OverText(make([]byte, maxCompared+1)), app.Conflict, ""},
		{"new\nline", app.OverAny, app.Invalid, ""},
	} {
		err := s.WriteFile(testID, testUID, c.name, []byte("new"), c.over)
		if c.want == 0 && err != nil || c.want != 0 && app.KindOf(err) != c.want {
			t.Errorf("%s over %.9s: %v", c.name, c.over, err)
		}
		if c.text != "" {
			holds(t, top, map[string]string{c.name: c.text})
		}
	}
	empty(t, s, "staging")
}

// What the program writes while a file is made is not lost: the file does not take the name.
func TestWriteFileOverWhatCameMeanwhile(t *testing.T) {
	s := newStore(t)
	top := makeLive(t, s, map[string]string{"a": "1"})
	var meanwhile string
	s.step = func(string) error {
		must(t, os.WriteFile(filepath.Join(top, meanwhile), []byte("the program's"), 0o644))
		return os.Chown(filepath.Join(top, meanwhile), testUID, testUID)
	}
	for name, over := range map[string]app.Over{"a": app.OverText([]byte("1")), "new": app.OverNothing} {
		meanwhile = name
		if err := s.WriteFile(testID, testUID, name, []byte("typed"), over); app.KindOf(err) != app.Conflict {
			t.Errorf("%s: %v", name, err)
		}
		holds(t, top, map[string]string{name: "the program's"})
	}
	empty(t, s, "staging")
}
