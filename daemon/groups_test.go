package daemon

import (
	"os"
	"path/filepath"
	"testing"

	"berth/test/hosted"
)

// A data directory is the same under another name, and another one is elsewhere only
// as long as it is there.
func TestHomes(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"a", "b", "gone"} {
		hosted.Must(t, os.MkdirAll(filepath.Join(dir, name, "apps"), 0o755))
		hosted.Must(t, os.WriteFile(filepath.Join(dir, name, DatabaseName), nil, 0o600))
	}
	at := func(name string) string { return filepath.Join(dir, name) }
	here := func(name string) home {
		t.Helper()
		h, err := homeOf(at(name))
		hosted.Must(t, err)
		return h
	}
	a, gone := here("a"), here("gone")
	hosted.Must(t, os.RemoveAll(at("gone")))
	hosted.Must(t, os.Symlink(at("a"), at("link")))
	hosted.Must(t, os.Mkdir(at("twice"), 0o755)) // stands for one that is mounted twice
	hosted.Must(t, os.Link(filepath.Join(at("a"), DatabaseName), filepath.Join(at("twice"), DatabaseName)))
	if here("link") != a || here("b") == a {
		t.Errorf("a is %v, the link to it %v, b %v", a, here("link"), here("b"))
	}
	for _, c := range []struct {
		was  home
		dir  string
		want bool
	}{
		{a, "a", false}, {a, "link", false}, {a, "b", true}, {a, "twice", false}, {gone, "a", false}, {home{}, "a", false},
	} {
		if got := c.was.elsewhere(at(c.dir)); got != c.want {
			t.Errorf("%v is elsewhere than %s: %t", c.was, c.dir, got)
		}
	}
	hosted.Must(t, os.Rename(at("a"), at("moved")))
	if moved := here("moved"); moved.Tree != a.Tree || moved.Dir == a.Dir {
		t.Errorf("a was %v and is %v", a, moved)
	}
	for name, want := range map[string]bool{"0123abcd": true, "berth.service": false, "0123abc": false, "0123abcg": false, "+123abcd": false} {
		if named(name) != want {
			t.Errorf("%q is a name: %t", name, !want)
		}
	}
	if name := newGroupName(); !named(name) || name == newGroupName() {
		t.Errorf("a new name is %q", name)
	}
}
