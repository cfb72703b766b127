package bundle

import (
	"archive/zip"
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"berth/app"
)

// tree makes a directory of files; a name with a slash at its end is a directory.
func tree(t *testing.T, files map[string]string) (string, *os.Root) {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		to := filepath.Join(dir, name)
		err := os.MkdirAll(filepath.Dir(to), 0o755)
		if strings.HasSuffix(name, "/") {
			err = os.MkdirAll(to, 0o755)
		} else if err == nil {
			err = os.WriteFile(to, []byte(text), 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = root.Close() })
	return dir, root
}

func packedNames(p *Packing) []string {
	var names []string
	for _, f := range p.Files {
		names = append(names, f.Name)
	}
	slices.Sort(names)
	return names
}

// What is sent of a directory: all but what the ignore files name and a server leaves out.
func TestScan(t *testing.T) {
	_, root := tree(t, map[string]string{
		"discloud.config": "MAIN=index.js\nTYPE=bot\n", "index.js": "1", "package.json": `{"dependencies":{"x":"1"}}`,
		"node_modules/x/index.js": "x", ".git/config": "x", "src/__pycache__/a.pyc": "x", "empty/": "", "ignored-only/a.log": "x",
		".gitignore": "*.log\n/dist\n!keep.log\n", "keep.log": "x", "a.log": "x", "dist/a.js": "x", "src/dist/a.js": "x",
		".discloudignore": "notes/\n", "notes/a.txt": "x", "src/notes": "x", "src/.gitignore": "local.*\n", "src/local.js": "x", "local.js": "x",
		".env.example": "A=", ".hidden": "x",
	})
	p, err := Scan(root, Choice{})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{".env.example", ".hidden", "discloud.config", "empty", "ignored-only", "index.js", "keep.log", "local.js", "package.json", "src/dist/a.js", "src/notes"}
	if got := packedNames(p); !slices.Equal(got, want) {
		t.Errorf("sent are %q, want %q", got, want)
	}
	if left := strings.Join(p.Left, " "); !strings.Contains(left, `"node_modules"`) || !strings.Contains(left, `"__pycache__"`) || !strings.Contains(left, `".git"`) {
		t.Errorf("left out: %s", left)
	}
	if p.Ignored != 5 || !p.Found || p.Config.Main != "index.js" {
		t.Errorf("%d ignored, %+v", p.Ignored, p.Config)
	}
}

func TestScanRefuses(t *testing.T) {
	for name, tt := range map[string]struct {
		files map[string]string
		more  func(t *testing.T, dir string)
		says  string
	}{
		"secrets":         {map[string]string{"a": "x", "config/.env.production": "TOKEN=x"}, nil, `"config/.env.production" holds secrets`},
		"a wrong config":  {map[string]string{"discloud.config": "RAM=much\n"}, nil, "RAM"},
		"nothing":         {map[string]string{".gitignore": "*\n", "a": "x"}, nil, "there is nothing to send"},
		"a link outwards": {map[string]string{"a": "x"}, func(t *testing.T, dir string) { link(t, "/etc/passwd", dir+"/b") }, `"b" is a link that leads to no file`},
		"a link upwards":  {map[string]string{"a": "x"}, func(t *testing.T, dir string) { link(t, "../../etc/passwd", dir+"/b") }, `"b" is a link`},
		"a dangling link": {map[string]string{"a": "x"}, func(t *testing.T, dir string) { link(t, "nowhere", dir+"/b") }, `"b" is a link`},
		"a linked folder": {map[string]string{"a/b": "x"}, func(t *testing.T, dir string) { link(t, "a", dir+"/c") }, `"c" is a link`},
		"a FIFO":          {map[string]string{"a": "x"}, func(t *testing.T, dir string) { fifo(t, dir+"/b") }, `"b" is neither a file nor a directory`},
	} {
		t.Run(name, func(t *testing.T) {
			dir, root := tree(t, tt.files)
			if tt.more != nil {
				tt.more(t, dir)
			}
			if _, err := Scan(root, Choice{}); err == nil || !strings.Contains(err.Error(), tt.says) {
				t.Errorf("%v, want %s", err, tt.says)
			}
		})
	}
	_, root := tree(t, map[string]string{".env": "TOKEN=x"})
	if p, err := Scan(root, Choice{Env: EnvSent}); err != nil || len(p.Files) != 1 {
		t.Errorf("with secrets: %v, %v", p, err)
	}
}

func link(t *testing.T, to, at string) {
	t.Helper()
	if err := os.Symlink(to, at); err != nil {
		t.Fatal(err)
	}
}

// The same tree makes the same ZIP, which Open takes; a link to a file is the file.
func TestPack(t *testing.T) {
	dir, root := tree(t, map[string]string{"discloud.config": "MAIN=run.sh\n", "run.sh": "#!/bin/sh\n", "a/b": strings.Repeat("x", 1<<20), "e/": ""})
	link(t, "a/b", dir+"/same")
	if err := os.Chmod(dir+"/run.sh", 0o755); err != nil {
		t.Fatal(err)
	}
	var first []byte
	for range 2 {
		p, err := Scan(root, Choice{})
		if err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		sum := int64(0)
		if err := p.Write(t.Context(), &out, func(n int64) { sum += n }); err != nil || sum != p.Bytes {
			t.Fatalf("%v, %d of %d bytes", err, sum, p.Bytes)
		}
		if first != nil && !bytes.Equal(first, out.Bytes()) {
			t.Error("two ZIPs of one tree differ")
		}
		first = out.Bytes()
	}
	file := filepath.Join(t.TempDir(), "x.zip")
	if err := os.WriteFile(file, first, 0o600); err != nil {
		t.Fatal(err)
	}
	a, err := Open(file, Limits{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	z, err := zip.NewReader(bytes.NewReader(first), int64(len(first)))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range z.File {
		if exec := f.Mode()&0o100 != 0; !f.Mode().IsDir() && exec != (f.Name == "run.sh") {
			t.Errorf("%s has the mode %v", f.Name, f.Mode())
		}
	}
	if f, err := z.Open("same"); err != nil {
		t.Error(err)
	} else if text, _ := io.ReadAll(f); len(text) != 1<<20 {
		t.Errorf("the link is a file of %d bytes", len(text))
	}
}

// A file that changes meanwhile is no half file in a ZIP.
func TestPackOfWhatChanges(t *testing.T) {
	for name, change := range map[string]func(path string) error{
		"longer":  func(path string) error { return os.WriteFile(path, []byte("longer than it was"), 0o644) },
		"shorter": func(path string) error { return os.Truncate(path, 1) },
		"gone":    os.Remove,
	} {
		dir, root := tree(t, map[string]string{"a": "some text"})
		p, err := Scan(root, Choice{})
		if err != nil {
			t.Fatal(err)
		}
		if err := change(dir + "/a"); err != nil {
			t.Fatal(err)
		}
		if err := p.Write(t.Context(), io.Discard, nil); err == nil || !strings.Contains(err.Error(), "a") {
			t.Errorf("%s: %v", name, err)
		}
	}
	_, root := tree(t, map[string]string{"a": "some text"})
	p, err := Scan(root, Choice{})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := p.Write(ctx, io.Discard, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("called off: %v", err)
	}
	if err := p.Write(t.Context(), fullDisk{}, nil); err == nil || app.KindOf(err) == app.Unusable {
		t.Errorf("a full disk: %v", err)
	}
}

// fullDisk takes nothing.
type fullDisk struct{}

func (fullDisk) Write([]byte) (int, error) { return 0, errors.New("no space left on device") }

// Patterns mean what they mean to git.
func TestIgnoreAsGit(t *testing.T) {
	if _, err := exec.LookPath("git"); err != nil {
		t.Fatalf("git is missing: %v", err)
	}
	names := []string{
		"a", "b/a", "b/c/a", "a.log", "b/a.log", "keep.log", "b/keep.log", "dist/x", "b/dist/x", "doc/frotz/x", "b/doc/frotz/x",
		"abc/x/y", "foo/bar/x", "foo/x/bar/y", "#note", "!bang", "x.txt", "sp ace", "trail ", "b/[x]", "c1", "c2", "cx", "deep/1/2/3/end", "q/.env",
	}
	for _, rules := range []string{
		"a\n", "/a\n", "*.log\n!keep.log\n", "dist/\n", "/dist\n", "doc/frotz\n", "**/frotz\n", "abc/**\n", "foo/**/bar\n", "\\#note\n", "\\!bang\n", "# note\n\n",
		"*\n!*.txt\n", "*.l?g\n", "c[0-9]\n", "c[!0-9]\n", "trail\\ \n", "x.txt   \n", "b/*\n", "b/*/a\n", "deep/**/end\n", "**\n", "[\n", "a\\\n", "b\n!b/a\n", ".env\n", "*e\n", "/*\n!/a\n",
	} {
		files := map[string]string{".gitignore": rules}
		for _, name := range names {
			files[name] = "x"
		}
		dir, root := tree(t, files)
		for _, args := range [][]string{{"init", "-q"}, {"config", "core.excludesFile", "/dev/null"}} {
			if out, err := exec.CommandContext(t.Context(), "git", append([]string{"-C", dir}, args...)...).CombinedOutput(); err != nil {
				t.Fatalf("git: %v, %s", err, out)
			}
		}
		out, err := exec.CommandContext(t.Context(), "git", "-C", dir, "ls-files", "-z", "--others", "--exclude-standard").Output()
		if err != nil {
			t.Fatal(err)
		}
		var want []string
		for name := range strings.SplitSeq(strings.TrimSuffix(string(out), "\x00"), "\x00") {
			if name != ".gitignore" && name != "" {
				want = append(want, name)
			}
		}
		slices.Sort(want)
		p := &Packing{root: root}
		if err := p.walk(".", &ignoring{}); err != nil {
			t.Fatal(err)
		}
		p.Files = slices.DeleteFunc(p.Files, func(f Packed) bool { return f.Empty })
		if got := packedNames(p); !slices.Equal(got, want) {
			t.Errorf("%q leaves %q, git leaves %q", rules, got, want)
		}
	}
}

// Who packs can leave files with secrets out, and send a discloud.config that is in no
// directory, which decides what else is left out.
func TestScanByChoice(t *testing.T) {
	dir, root := tree(t, map[string]string{
		".env": "A=1", "sub/.env.local": "B=2", "sub/.env.example": "B=", "index.js": "x", "discloud.config": "MAIN=other.js", "__pycache__/run.js": "x",
	})
	for _, made := range []string{"MAIN=index.js\n", "MAIN=__pycache__/run.js\n"} {
		p, err := Scan(root, Choice{Env: EnvLeft, Config: []byte(made)})
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, f := range p.Files {
			names = append(names, f.Name)
		}
		slices.Sort(names)
		want := []string{"discloud.config", "index.js", "sub/.env.example"}
		if strings.Contains(made, "cache") {
			want = slices.Insert(want, 0, "__pycache__/run.js")
		}
		if !slices.Equal(names, want) || !slices.Equal(p.EnvFiles, []string{".env", "sub/.env.local"}) || p.Config.Main != strings.TrimSpace(made[5:]) {
			t.Errorf("packs %q, leaves %q, MAIN=%s", names, p.EnvFiles, p.Config.Main)
		}
		var out bytes.Buffer
		if err := p.Write(t.Context(), &out, nil); err != nil {
			t.Fatal(err)
		}
		z, err := zip.NewReader(bytes.NewReader(out.Bytes()), int64(out.Len()))
		if err != nil {
			t.Fatal(err)
		}
		f, err := z.Open(ConfigName)
		if err != nil {
			t.Fatal(err)
		}
		if text, err := io.ReadAll(f); err != nil || string(text) != made {
			t.Errorf("%s is %q, %v", ConfigName, text, err)
		}
	}
	if text, err := os.ReadFile(filepath.Join(dir, ConfigName)); err != nil || string(text) != "MAIN=other.js" {
		t.Errorf("the directory's own has become %q, %v", text, err)
	}
}
