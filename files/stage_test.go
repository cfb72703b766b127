package files

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/iotest"

	"berth/app"
)

func TestSpool(t *testing.T) {
	s := newStore(t)
	file, err := s.Spool(t.Context(), strings.NewReader("hello"), 5)
	must(t, err)
	info, err := os.Stat(file)
	if err != nil || info.Mode().Perm() != 0o600 || filepath.Dir(file) != filepath.Join(s.root, "staging") {
		t.Errorf("%s: %v, %v", file, info, err)
	}
	holds(t, "", map[string]string{file: "hello"})
	must(t, s.DropSpool(file))
	must(t, s.DropSpool(file))
	empty(t, s, "staging")
}

func TestSpoolRefuses(t *testing.T) {
	s := newStore(t)
	broken := errors.New("connection reset")
	_, err := s.Spool(t.Context(), bytes.NewReader(make([]byte, 2<<20+1)), 2<<20)
	if app.KindOf(err) != app.TooLarge || text(err) != "the upload is larger than 2 MB" {
		t.Errorf("too large: %v", err)
	}
	_, err = s.Spool(t.Context(), strings.NewReader("123"), 2)
	if text(err) != "the upload is larger than 2 bytes" {
		t.Errorf("too large: %v", err)
	}
	if _, err = s.Spool(t.Context(), io.MultiReader(strings.NewReader("x"), iotest.ErrReader(broken)), 10); !errors.Is(err, broken) {
		t.Errorf("broken: %v", err)
	}
	if _, err = s.Spool(cancelled(t), strings.NewReader("x"), 10); err == nil {
		t.Error("cancelled: accepted")
	}
	empty(t, s, "staging")
	for _, file := range []string{"/etc/passwd", filepath.Join(s.root, "staging", "x.zip"), filepath.Join(s.root, "berth.db"), ""} {
		if s.DropSpool(file) == nil {
			t.Errorf("DropSpool removed %q", file)
		}
	}
}

func TestUnpack(t *testing.T) {
	s := newStore(t)
	file := zipOf(t, s, map[string]string{"app/discloud.config": "MAIN=a.js\nRAM=128", "app/a.js": "x"})
	up, err := s.Unpack(t.Context(), file, nil, anything)
	if err != nil || !up.Found || up.Config.RAM != 128 || !up.Hint.IsZero() || up.Left != nil {
		t.Fatalf("%+v %v", up, err)
	}
	stage := up.Stage
	holds(t, filepath.Join(s.root, "staging", string(stage), "new"), map[string]string{"a.js": "x"})
	if _, err := os.Stat(file); err != nil {
		t.Errorf("the ZIP: %v", err)
	}
	must(t, s.Discard(stage))
	must(t, s.Discard(stage))
	must(t, s.DropSpool(file))
	empty(t, s, "staging")
}

func TestUnpackLeavesNothingBehind(t *testing.T) {
	s := newStore(t)
	notZIP, err := s.Spool(t.Context(), strings.NewReader("hello"), 100)
	must(t, err)
	if _, err = s.Unpack(t.Context(), notZIP, nil, anything); app.KindOf(err) != app.Unusable {
		t.Errorf("not a ZIP: %v", err)
	}
	// A stored file whose content was changed: refused while unpacking.
	good := zipOf(t, s, map[string]string{"a.png": "picture", "b": "x"})
	data, err := os.ReadFile(good)
	must(t, err)
	must(t, os.WriteFile(good, bytes.Replace(data, []byte("picture"), []byte("Picture"), 1), 0o600))
	if _, err = s.Unpack(t.Context(), good, nil, anything); !strings.Contains(text(err), `entry "a.png" is damaged`) {
		t.Errorf("damaged: %v", err)
	}
	if _, err = s.Unpack(cancelled(t), zipOf(t, s, map[string]string{"a": "x"}), nil, anything); err == nil {
		t.Error("cancelled: accepted")
	}
	left, err := filepath.Glob(filepath.Join(s.root, "staging", "*"))
	must(t, err)
	for _, path := range left {
		if !strings.HasSuffix(path, ".zip") {
			t.Errorf("left behind: %s", path)
		}
	}
}

func TestPublish(t *testing.T) {
	s := newStore(t)
	stage := stageOf(t, s, map[string]string{"a.js": "x", "sub/b": "y"})
	must(t, onlyError(s.Publish(t.Context(), stage, testID, testUID)))
	holds(t, s.Dir(testID), map[string]string{"a.js": "x", "sub/b": "y"})
	for name, what := range snapshot(t, s.Dir(testID)) {
		if !strings.Contains(what, "54321:54321") {
			t.Errorf("%s: %s", name, what)
		}
	}
	if info, err := os.Stat(s.Dir(testID)); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("%v, %v", info, err)
	}
	empty(t, s, "staging")

	before := snapshot(t, s.Dir(testID))
	second := stageOf(t, s, map[string]string{"a.js": "other"})
	_, err := s.Publish(t.Context(), second, testID, testUID)
	if app.KindOf(err) != app.Conflict || text(err) != "an application named my-app exists already" {
		t.Errorf("twice: %v", err)
	}
	same(t, snapshot(t, s.Dir(testID)), before)
	must(t, s.Discard(second))
	if _, err := s.Publish(t.Context(), second, "other", testUID); err == nil {
		t.Error("published a stage that is gone")
	}
}

func TestFiles(t *testing.T) {
	s := newStore(t)
	outside := filepath.Join(t.TempDir(), "secret")
	must(t, os.WriteFile(outside, []byte("secret"), 0o644))
	live := makeLive(t, s, map[string]string{
		"both": "live", "live": "live", "link": "->" + outside, "up/x": "live", "shadow/x": "live", "linkdir": "->..",
	})
	must(t, mkfifo(filepath.Join(live, "package.json")))
	must(t, os.Link(outside, filepath.Join(live, "hard")))
	stage := stageOf(t, s, map[string]string{"both": "new", "new": "new", "live2/a": "x", "shadow": "file"})
	both, only, zip := s.Files(stage, testID), s.Files("", testID), s.Files(stage, "")
	tests := []struct {
		path            string
		both, only, zip string
	}{
		{"both", "new", "live", "new"},
		{"live", "live", "live", ""},
		{"new", "new", "", "new"},
		{"up/x", "live", "live", ""},
		{"shadow/x", "", "live", ""},
		{"shadow", "file", "", "file"},
		{"live2", "", "", ""},
		{"up", "", "", ""},
		{"link", "", "", ""},
		{"linkdir/apps", "", "", ""},
		{"package.json", "", "", ""},
		{"hard", "", "", ""},
		{"../../berth.db", "", "", ""},
		{"/etc/passwd", "", "", ""},
		{"", "", "", ""},
		{".", "", "", ""},
		{"a\x00b", "", "", ""},
		{"./new", "new", "", "new"},
	}
	for _, tt := range tests {
		for i, f := range []app.Files{both, only, zip} {
			want := []string{tt.both, tt.only, tt.zip}[i]
			got, err := f.Read(tt.path, 100)
			if string(got) != want || (err == nil) != (want != "") || f.Exists(tt.path) != (want != "") {
				t.Errorf("%d %q: %q, %v, exists %v; want %q", i, tt.path, got, err, f.Exists(tt.path), want)
			}
		}
	}
	if got, err := both.Read("both", 2); string(got) != "ne" || err != nil {
		t.Errorf("limit: %q, %v", got, err)
	}
	if _, err := both.Read("none", 2); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("missing: %v", err)
	}
}

// A tree that is gone is made anew, of its user's alone, and can be committed to.
func TestRenew(t *testing.T) {
	s := newStore(t)
	ctx := t.Context()
	renew := func(may, want bool) {
		t.Helper()
		if gone, err := s.Renew(ctx, testID, testUID, may); err != nil || gone != want {
			t.Errorf("Renew(%t) = %t, %v", may, gone, err)
		}
	}
	renew(false, true)
	if _, err := os.Lstat(s.Dir(testID)); err == nil {
		t.Error("a look has made it")
	}
	renew(true, true)
	info, err := os.Stat(s.Dir(testID))
	must(t, err)
	if st := info.Sys().(*syscall.Stat_t); info.Mode().Perm() != 0o700 || int(st.Uid) != testUID || int(st.Gid) != testUID {
		t.Errorf("it is %s of %d:%d", info.Mode(), st.Uid, st.Gid)
	}
	renew(false, true) // nothing is in it
	renew(true, true)
	stage := stageOf(t, s, map[string]string{"main": "x", "lib/a": "y"})
	err = s.Prepare(ctx, stage, testID, testUID)
	must(t, err)
	done, err := s.Apply(ctx, stage, testID, testUID)
	must(t, err)
	must(t, s.Settle(ctx, testID, testUID, []string{done.Journal}))
	holds(t, s.Dir(testID), map[string]string{"main": "x", "lib/a": "y"})
	renew(true, false)
	holds(t, s.Dir(testID), map[string]string{"main": "x", "lib/a": "y"})
	if list, err := os.ReadDir(filepath.Join(s.root, "staging")); err != nil || len(list) > 1 { // the stage
		t.Errorf("left in staging: %v, %v", list, err)
	}
	if _, err := s.Renew(ctx, "../x", testUID, true); err == nil {
		t.Error("a name that is no ID was taken")
	}
}

// A config takes the place of the ZIP's, and what is looked at stays as it is.
func TestUnpackAs(t *testing.T) {
	s := newStore(t)
	file := zipOf(t, s, map[string]string{"app/discloud.config": "MAIN=a.js\nRAM=lots", "app/a.js": "x"})
	d, err := s.Look(file, nil, func(d *app.Draft, cfg app.Config, files app.Files) error {
		if cfg.Main != "a.js" || !files.Exists("a.js") || len(d.Problems) != 1 {
			t.Errorf("%+v %+v", cfg, d)
		}
		d.Lang = "judged"
		return nil
	})
	if err != nil || !d.Found || d.Files != 2 || d.Lang != "judged" {
		t.Errorf("Look() = %+v, %v", d, err)
	}
	up, err := s.UnpackAs(t.Context(), file, "MAIN=a.js\n", func(cfg app.Config) error {
		if cfg.Main != "a.js" {
			t.Errorf("judged %+v", cfg)
		}
		return nil
	})
	must(t, err)
	holds(t, filepath.Join(s.root, "staging", string(up.Stage), "new"), map[string]string{"a.js": "x", "discloud.config": "MAIN=a.js\n"})
	must(t, s.Discard(up.Stage))
	must(t, s.DropSpool(file))
	empty(t, s, "staging")
}
