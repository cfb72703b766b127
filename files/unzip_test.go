package files

import (
	"archive/zip"
	"bytes"
	"errors"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"berth/app"
	"berth/files/bundle"
	"berth/test/harness"
)

// packed is a ZIP of these names, each with its text; a "/" at its end makes a directory.
func packed(t *testing.T, s *Store, files ...string) string {
	t.Helper()
	var b bytes.Buffer
	zw := zip.NewWriter(&b)
	for i := 0; i+1 < len(files); i += 2 {
		f, err := zw.Create(files[i])
		must(t, err)
		_, err = io.WriteString(f, files[i+1])
		must(t, err)
	}
	must(t, zw.Close())
	file, err := s.Spool(t.Context(), &b, 1<<20)
	must(t, err)
	return file
}

// unzip does all of it.
func unzip(t *testing.T, s *Store, name, file string, replace bool) (app.Unzipped, error) {
	t.Helper()
	stage, _, err := s.Unzip(t.Context(), file, testUID)
	must(t, s.DropSpool(file))
	if err != nil {
		return app.Unzipped{}, err
	}
	done, err := s.Lay(t.Context(), testID, testUID, name, stage, replace)
	must(t, s.Discard(stage))
	return done, err
}

func TestUnzip(t *testing.T) {
	s := newStore(t)
	top := makeLive(t, s, map[string]string{"dir/a": "old", "dir/sub/b": "old", "other": "x"})
	file := packed(t, s, "a", "new", "sub/c", "new", "made/", "", app.VariablesFile, "SECRET=1", ".git/config", "kept")
	done, err := unzip(t, s, "dir", file, false)
	if err != nil || done.Taken != 1 || !slices.Equal(done.Names, []string{"a"}) || done.Files != 0 {
		t.Errorf("without replacing: %+v, %v", done, err)
	}
	holds(t, top, map[string]string{"dir/a": "old"})
	tree(t, top, ".", "dir", "dir/a", "dir/sub", "dir/sub/b", "other")
	file = packed(t, s, "a", "new", "sub/c", "new", "made/", "", app.VariablesFile, "SECRET=1", ".git/config", "kept")
	if done, err = unzip(t, s, "dir", file, true); err != nil || done.Files != 3 || done.Taken != 0 {
		t.Errorf("replacing: %+v, %v", done, err)
	}
	holds(t, top, map[string]string{"dir/a": "new", "dir/sub/b": "old", "dir/sub/c": "new", "dir/.git/config": "kept"})
	tree(t, top, ".", "dir", "dir/.git", "dir/.git/config", "dir/a", "dir/made", "dir/sub", "dir/sub/b", "dir/sub/c", "other")
	for _, name := range []string{"dir/a", "dir/made", "dir/sub/c"} {
		var st unix.Stat_t
		must(t, unix.Lstat(filepath.Join(top, name), &st))
		if st.Uid != testUID || st.Gid != testUID {
			t.Errorf("%s is user %d's", name, st.Uid)
		}
	}
	empty(t, s, "staging")
}

// What a ZIP has brought is on the disk: a power cut does not leave empty files.
func TestUnzipOutlivesAPowerCut(t *testing.T) {
	needRoot(t)
	p := harness.NewPower(t, 16)
	data, image := filepath.Join(p.Dir, "data"), filepath.Join(t.TempDir(), "image")
	s, err := Open(data, bundle.Limits{})
	must(t, err)
	top := makeLive(t, s, nil)
	done, err := unzip(t, s, ".", packed(t, s, "a", "new"), false)
	if err != nil || done.Files != 1 {
		t.Errorf("%+v, %v", done, err)
	}
	// A sync of anything writes the names of all files, and the content of this one alone.
	other, err := os.Create(filepath.Join(p.Dir, "other"))
	must(t, err)
	must(t, errors.Join(other.Sync(), other.Close(), s.Close()))
	p.Cut(image)
	p.Boot(image)
	holds(t, top, map[string]string{"a": "new"})
}

// Hostile ZIPs and hostile trees change nothing.
func TestUnzipIsRefused(t *testing.T) {
	s := newStore(t)
	top := makeLive(t, s, map[string]string{"dir/x": "1", "file": "2", "link": "->/etc"})
	must(t, os.Mkdir(filepath.Join(top, "roots"), 0o755))
	before := snapshot(t, top)
	for _, c := range []struct {
		name string
		at   string
		want app.Kind
	}{
		{"../up", ".", app.Unusable},
		{"/abs", ".", app.Unusable},
		{`a\..\b`, ".", app.Unusable},
		{"a\nb", ".", app.Unusable},
		{"file/x", ".", app.Conflict},
		{"dir", ".", app.Conflict},
		{"link", ".", app.Conflict},
		{"link/passwd", ".", app.Conflict},
		{"roots/x", ".", app.Conflict},
		{"x", "link", app.NotFound},
		{"x", "..", app.NotFound},
		{"x", "none", app.NotFound},
		{"x", "file", app.NotFound},
		{"x", "roots", app.NotFound},
	} {
		if _, err := unzip(t, s, c.at, packed(t, s, c.name, "evil"), true); app.KindOf(err) != c.want {
			t.Errorf("%q at %s: %v", c.name, c.at, err)
		}
		same(t, snapshot(t, top), before)
		empty(t, s, "staging")
	}
	stage, _, err := s.Unzip(t.Context(), packed(t, s, "x", "1"), testUID)
	must(t, err)
	if _, err := s.Lay(t.Context(), testID, testUID+1, ".", stage, true); app.KindOf(err) != app.NotFound {
		t.Errorf("another owner's: %v", err)
	}
	same(t, snapshot(t, top), before)
}

// A ZIP that unpacks to more than one may leaves nothing.
func TestUnzipBomb(t *testing.T) {
	s, err := Open(filepath.Join(t.TempDir(), "data"), bundle.Limits{MaxUnpacked: 64 << 10, MaxEntries: 10})
	must(t, err)
	defer s.Close()
	needRoot(t)
	for what, files := range map[string][]string{
		"bytes": {"bomb", strings.Repeat("\x00", 1<<20)},
		"names": slices.Collect(func(yield func(string) bool) {
			for i := range 40 {
				if !yield(strings.Repeat("x", i%20+1)+"/"+strings.Repeat("y", i/20+1)) || !yield("") {
					return
				}
			}
		}),
	} {
		file := packed(t, s, files...)
		if _, _, err := s.Unzip(t.Context(), file, testUID); app.KindOf(err) != app.TooLarge {
			t.Errorf("%s: %v", what, err)
		}
		must(t, s.DropSpool(file))
	}
	empty(t, s, "staging")
}

// A program swaps directories for links to the outside while a ZIP is unpacked among them: nothing lands outside.
func TestUnzipWhileDirectoriesAreSwapped(t *testing.T) {
	s := newStore(t)
	top := makeLive(t, s, map[string]string{"dir/": ""})
	outside := filepath.Join(s.root, "outside")
	must(t, os.Mkdir(outside, 0o755))
	must(t, os.Chown(outside, testUID, testUID))
	must(t, os.Symlink(outside, filepath.Join(top, "trap")))
	var over atomic.Bool
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for !over.Load() {
			_ = unix.Renameat2(unix.AT_FDCWD, filepath.Join(top, "dir"), unix.AT_FDCWD, filepath.Join(top, "trap"), unix.RENAME_EXCHANGE)
		}
	}()
	written := 0
	for tries, until := 0, time.Now().Add(time.Minute); tries < 100 || written == 0 && time.Now().Before(until); tries++ {
		done, err := unzip(t, s, ".", packed(t, s, "dir/a", "x", "dir/b", "x"), true)
		if err != nil && app.KindOf(err) != app.Conflict {
			t.Error(err)
		}
		written += done.Files
	}
	over.Store(true)
	<-ended
	if names, err := os.ReadDir(outside); err != nil || len(names) != 0 {
		t.Errorf("outside there is %v, %v", names, err)
	}
}

// A directory is packed with what is the program's in it, and nothing else.
func TestPackDir(t *testing.T) {
	s := newStore(t)
	top := makeLive(t, s, map[string]string{"dir/a": "1", "dir/sub/b": "2", "dir/node_modules/p/x": "3", "dir/empty/": "", "other": "x", "dir/link": "->/etc/passwd", "dir/a\nb": "4"})
	secret := filepath.Join(s.root, "secret")
	must(t, os.WriteFile(secret, []byte("SECRET"), 0o600))
	must(t, os.Link(secret, filepath.Join(top, "dir/hard")))
	must(t, unix.Mkfifo(filepath.Join(top, "dir/pipe"), 0o644))
	read := func(name string) map[string]string {
		var b bytes.Buffer
		must(t, s.PackDir(t.Context(), testID, testUID, name, &b))
		zr, err := zip.NewReader(bytes.NewReader(b.Bytes()), int64(b.Len()))
		must(t, err)
		all := map[string]string{}
		for _, f := range zr.File {
			r, err := f.Open()
			must(t, err)
			text, err := io.ReadAll(r)
			must(t, err)
			all[f.Name] = string(text)
		}
		return all
	}
	if got, want := read("dir"), (map[string]string{"a": "1", "sub/": "", "sub/b": "2", "node_modules/": "", "node_modules/p/": "", "node_modules/p/x": "3", "empty/": ""}); !maps.Equal(got, want) {
		t.Errorf("the ZIP holds %q", got)
	}
	if got := read("."); got["other"] != "x" || got["dir/a"] != "1" {
		t.Errorf("the ZIP of all holds %q", got)
	}
	for _, name := range []string{"..", "dir/link", "dir/a", "none", "/etc", "dir/pipe"} {
		if err := s.PackDir(t.Context(), testID, testUID, name, io.Discard); app.KindOf(err) != app.NotFound {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := s.PackDir(t.Context(), testID, testUID+1, "dir", io.Discard); app.KindOf(err) != app.NotFound {
		t.Errorf("another owner's: %v", err)
	}
	must(t, os.Truncate(filepath.Join(top, "dir/a"), 1<<40))
	if err := s.PackDir(t.Context(), testID, testUID, "dir", io.Discard); app.KindOf(err) != app.TooLarge {
		t.Errorf("a terabyte of nothing: %v", err)
	}
	if err := s.PackDir(t.Context(), testID, testUID, "dir/sub", refuses{}); !errors.Is(err, errCrash) {
		t.Errorf("whoever reads it leaves: %v", err)
	}
}

// refuses is a writer that takes nothing.
type refuses struct{}

func (refuses) Write([]byte) (int, error) { return 0, errCrash }
