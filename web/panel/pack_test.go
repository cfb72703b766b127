package panel

import (
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"berth/files/bundle"
	"berth/test/harness"
)

// The script that packs a folder leaves out what berth deploy leaves out, and what it packs is
// taken in as it was.
func TestFolderIsPacked(t *testing.T) {
	t.Parallel()
	harness.Ready(t, harness.OldNode(20)) // which has deflate-raw and File
	folder := map[string]string{
		"discloud.config": "MAIN=index.js\n", "index.js": strings.Repeat("console.log(1);\n", 5000), "empty.txt": "",
		"ação/日本語 😀.txt": "é", "noise.bin": "\x00\x01~", "a/b/c/d": strings.Repeat("x", 1<<20),
	}
	for i := range 3000 {
		folder[fmt.Sprintf("many/%d.txt", i)] = fmt.Sprint(i)
	}
	text, err := json.Marshal(folder)
	must(t, err)
	dir := t.TempDir()
	list, packed := filepath.Join(dir, "folder.json"), filepath.Join(dir, "folder.zip")
	must(t, os.WriteFile(list, text, 0o600))
	out, err := exec.CommandContext(t.Context(), "node", "testdata/pack.cjs", "static/pack.js", "../../files/bundle/testdata/packing.json", list, packed).CombinedOutput()
	if err != nil || len(out) > 0 {
		t.Fatalf("%v\n%s", err, out)
	}
	a, err := bundle.Open(packed, bundle.Limits{}, nil)
	must(t, err)
	defer a.Close()
	if a.Config.Main != "index.js" || len(a.Left) > 0 {
		t.Errorf("%+v", a.Unpacked)
	}
	to := t.TempDir()
	root, err := os.OpenRoot(to)
	must(t, err)
	defer root.Close()
	must(t, a.Extract(t.Context(), root))
	err = fs.WalkDir(root.FS(), ".", func(name string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		f, err := root.Open(name)
		must(t, err)
		defer f.Close()
		got, err := io.ReadAll(f)
		must(t, err)
		if want, there := folder[name]; !there || string(got) != want {
			t.Errorf("%s holds %.40q, want %.40q", name, got, want)
		}
		if info, err := f.Stat(); err != nil || !info.ModTime().Equal(time.Date(2024, 2, 29, 12, 30, 8, 0, time.UTC)) {
			t.Errorf("%s is of %v, %v", name, info.ModTime(), err)
		}
		delete(folder, name)
		return nil
	})
	must(t, err)
	if len(folder) > 0 {
		t.Errorf("%d files are missing", len(folder))
	}
}
