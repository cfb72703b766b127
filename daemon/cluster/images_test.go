package cluster

import (
	"io/fs"
	"maps"
	"slices"
	"strings"
	"testing"

	"berth/app"
	"berth/host/runtimes"
)

// table is what an owner may write.
var table = []string{
	"default docker.io/library/debian:bookworm-slim +git",
	"node 22.11.0 docker.io/library/node:22.11.0-bookworm-slim",
	"  node   26.1.0\tnode  ",
	"python 3.12.8 registry.example.org:5000/our/python@sha256:" + digest + " +git +ffmpeg",
	"go 1.24 localhost:5000/go:1.24",
}

const digest = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

func parse(t *testing.T, entries ...string) *Images {
	t.Helper()
	all, err := ParseImages(entries)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func TestImagesOfPrograms(t *testing.T) {
	all := parse(t, table...)
	for runtime, want := range map[string]string{
		"":              "docker.io/library/debian:bookworm-slim",
		"node 22.11.0":  "docker.io/library/node:22.11.0-bookworm-slim",
		"node 26.1.0":   "node",
		"python 3.12.8": "registry.example.org:5000/our/python@sha256:" + digest,
		"go 1.24":       "localhost:5000/go:1.24",
	} {
		if got, err := all.Of(runtime); err != nil || got != want {
			t.Errorf("%q runs in %q, %v; want %q", runtime, got, err, want)
		}
	}
	for runtime, want := range map[string]string{
		"node 22": "this host has no image with node 22: ask its owner to add one to kubernetes.images",
		"node":    "this host has no image with node: ask",
	} {
		if got, err := all.Of(runtime); app.KindOf(err) != app.Unusable || !strings.Contains(err.Error(), want) {
			t.Errorf("%q runs in %q: %v, want %q", runtime, got, err, want)
		}
	}
	none := parse(t)
	if got, err := none.Of(""); app.KindOf(err) != app.Unusable || err.Error() != "this host has no image for programs without a runtime: ask its owner to add the image default to kubernetes.images" {
		t.Errorf("without images: %q, %v", got, err)
	}
	if path, _ := none.Tools().Find("sh"); path != "" || len(none.Tools().Installed("node")) > 0 {
		t.Errorf("without images sh is %q", path)
	}
}

func TestImagesThatCannotBe(t *testing.T) {
	for entry, want := range map[string]string{
		"":                            `cannot use the image "": it is empty`,
		" ":                           "it is empty",
		"perl 5.40 perl":              "it must begin with one of bun, default, deno, go, java, node, php, python, ruby, rust",
		"nodejs 22.11.0 node":         "it must begin with one of",
		"docker.io/library/node":      "it must begin with one of",
		"node":                        "behind node there must be its whole version, such as 22.11.0",
		"node node:22":                "its whole version",
		"node 22 node:22":             "its whole version",
		"node v22.11.0 node":          "its whole version",
		"node 22.x.0 node":            "its whole version",
		"node 22.11.0":                "behind node 22.11.0 there must be where the image is, such as docker.io/library/debian:bookworm-slim",
		"default":                     "behind default there must be where the image is",
		"node 22.11.0 -node":          "where the image is",
		"node 22.11.0 +git node":      "where the image is",
		"node 22.11.0 https://x/node": "where the image is",
		"node 22.11.0 x//node":        "where the image is",
		"node 22.11.0 node:":          "where the image is",
		"node 22.11.0 node:-x":        "where the image is",
		"node 22.11.0 node@latest":    "where the image is",
		"node 22.11.0 nodé":           "where the image is",
		"node 22.11.0 node;reboot":    "where the image is",
		"default " + strings.Repeat("x", maxReference+1): "where the image is",
		"node 22.11.0 node git":                          `"git" must be a command that the image has, such as +git`,
		"node 22.11.0 node +":                            `"+" must be a command`,
		"node 22.11.0 node +../sh":                       `"+../sh" must be a command`,
		"node 22.11.0 node +-x":                          `"+-x" must be a command`,
	} {
		got, err := ParseImages([]string{"default debian", entry})
		if entry == "default" || strings.HasPrefix(entry, "default ") {
			got, err = ParseImages([]string{entry})
		}
		if got != nil || err == nil || !strings.Contains(err.Error(), want) || !strings.HasPrefix(err.Error(), "cannot use the image ") {
			t.Errorf("%q: %v, want %q", entry, err, want)
		}
	}
	for _, two := range [][]string{{"node 22.11.0 a", "node 22.11.0 b"}, {"default a", "default b"}} {
		if _, err := ParseImages(two); err == nil || !strings.Contains(err.Error(), "there are two images of ") {
			t.Errorf("%q: %v", two, err)
		}
	}
}

// An image has its own commands, by their names, and nothing of another.
func TestToolsOfAnImage(t *testing.T) {
	base := parse(t, table...).Tools()
	tools := map[string]runtimes.Tools{
		"default": base, "node": base.With("node", "22.11.0"), "node 26": base.With("node", "26.1.0"),
		"python": base.With("python", "3.12.8"), "go": base.With("node", "22.11.0").With("go", "1.24"), "none": base.With("node", "20.0.0"),
	}
	for name, want := range map[string]string{
		"default": "git sh", "node": "node npm npx sh yarn", "node 26": "node npm npx sh", "python": "ffmpeg git pip pip3 python python3 sh", "go": "go sh", "none": "",
	} {
		var found []string
		for _, command := range []string{"ffmpeg", "git", "go", "node", "npm", "npx", "pip", "pip3", "python", "python3", "sh", "yarn", "bash", "deno", "default", ""} {
			if path, hidden := tools[name].Find(command); path == command && command != "" {
				found = append(found, path)
			} else if path != "" || hidden != "" {
				t.Errorf("%s: %q is %q, hidden %q", name, command, path, hidden)
			}
		}
		slices.Sort(found)
		if got := strings.Join(found, " "); got != want {
			t.Errorf("%s has %q, want %q", name, got, want)
		}
		if !tools[name].Images() || !strings.Contains(tools[name].Path(), ":/usr/local/go/bin:") {
			t.Errorf("%s: PATH is %q", name, tools[name].Path())
		}
	}
	for at, want := range map[[2]string]string{
		{"node", "node"}: "22.11.0", {"node", "yarn"}: "1.22.22", {"node", "npm"}: "", {"node 26", "yarn"}: "", {"python", "python3"}: "3.12.8", {"python", "node"}: "",
		{"go", "go"}: "1.24", {"default", "sh"}: "", {"none", "node"}: "",
	} {
		if got := tools[at[0]].Version(at[1]); got != want {
			t.Errorf("%s says that %s is %q, want %q", at[0], at[1], got, want)
		}
	}
	for _, name := range []string{"default", "go"} {
		if got := tools[name].Installed("node"); !slices.Equal(got, []string{"22.11.0", "26.1.0"}) {
			t.Errorf("%s: images of node: %q", name, got)
		}
		if got := tools[name].Installed("default"); len(got) != 0 {
			t.Errorf("%s: images of default: %q", name, got)
		}
	}
}

// Of packages nothing is known, except where a list needs none.
func TestPackagesOfAnImage(t *testing.T) {
	python := parse(t, table...).Tools().With("python", "3.12.8")
	if w, err := runtimes.Wish([]string{"ffmpeg", "libgl"}, python); err != nil || !w.Unknown {
		t.Errorf("%+v, %v", w, err)
	}
	all := parse(t, "python 3.12.8 python +ffmpeg +ffprobe").Tools().With("python", "3.12.8")
	if w, err := runtimes.Wish([]string{"ffmpeg"}, all); err != nil || w.Unknown || len(w.Lacking) > 0 {
		t.Errorf("an image that has it: %+v, %v", w, err)
	}
}

// The table has every runtime that programs need, and its image has the main command.
func TestEveryRuntimeHasCommands(t *testing.T) {
	known := map[string]bool{plain: true}
	for _, r := range runtimes.Runtimes() {
		if r.Image == "" {
			t.Errorf("%s is in no image", r.Command)
			continue
		}
		if !known[r.Image] && (len(commands[r.Image]) == 0 || commands[r.Image][0] != r.Command) {
			t.Errorf("images of %s have %q, first must be %s, whose version they have", r.Image, commands[r.Image], r.Command)
		}
		known[r.Image] = true
		// Composer is in no image of PHP's own.
		if !slices.Contains(commands[r.Image], r.Command) && r.Command != "composer" {
			t.Errorf("images of %s have no %s", r.Image, r.Command)
		}
	}
	if got, want := slices.Sorted(maps.Keys(commands)), slices.Sorted(maps.Keys(known)); !slices.Equal(got, want) {
		t.Errorf("images may be of %q, programs need %q", got, want)
	}
}

// tree is an upload.
type tree map[string]string

func (t tree) Exists(path string) bool { _, ok := t[path]; return ok }

func (t tree) Brought(path string) bool { return t.Exists(path) }

func (t tree) Read(path string, _ int64) ([]byte, error) {
	if text, ok := t[path]; ok {
		return []byte(text), nil
	}
	return nil, fs.ErrNotExist
}

// What is planned over the table runs in an image of the table, and so do its steps.
func TestPlansOverTheTable(t *testing.T) {
	all := parse(t, table...)
	pack := `{"dependencies": {"x": "1"}}`
	for _, c := range []struct {
		cfg      app.Config
		files    tree
		runtime  string
		step     string // the first, without its options
		argv     string
		note     string
		refusals string
	}{
		{cfg: app.Config{Main: "a.js"}, files: tree{"a.js": ""}, runtime: "node 26.1.0", argv: "node a.js"},
		{cfg: app.Config{Main: "a.js", Version: "22", RAM: 64}, files: tree{"a.js": "", "package.json": pack, "yarn.lock": "# yarn lockfile v1"}, runtime: "node 22.11.0", step: "yarn install", argv: "node a.js"},
		{cfg: app.Config{Main: "a.js"}, files: tree{"a.js": "", "package.json": pack, "yarn.lock": ""}, runtime: "node 26.1.0", step: "npm install", argv: "node a.js", note: "yarn.lock asks for Yarn 1"},
		{cfg: app.Config{Main: "a.js", Version: "22"}, files: tree{"a.js": "", "package.json": pack, "yarn.lock": "__metadata:"}, runtime: "node 22.11.0", step: "npm install", argv: "node a.js", note: "yarn.lock asks for Yarn 2 or newer"},
		{cfg: app.Config{Main: "a.py"}, files: tree{"a.py": "", "requirements.txt": "x"}, runtime: "python 3.12.8", step: "python3 -c", argv: ".venv/bin/python -u a.py"},
		{cfg: app.Config{Main: "main.go"}, files: tree{"main.go": "", "go.mod": "module a\ngo 1.25"}, runtime: "go 1.24", step: "go build", argv: ".berth/bin/app"},
		{cfg: app.Config{Main: "a.sh"}, files: tree{"a.sh": ""}, argv: "/bin/sh a.sh"},
		{cfg: app.Config{Main: "a.rb"}, files: tree{"a.rb": ""}, refusals: "this host has no image with Ruby: ask its owner to add one to kubernetes.images"},
		{cfg: app.Config{Main: "a.js", Version: "18"}, files: tree{"a.js": "", "discloud.config": ""}, refusals: "VERSION=18 asks for Node.js, and this host has 26.1.0, 22.11.0: ask its owner to add an image of it"},
	} {
		got, err := runtimes.Plan(c.cfg, true, c.files, all.Tools(), "")
		if c.refusals != "" {
			if app.KindOf(err) != app.Unusable || !strings.Contains(err.Error(), c.refusals) {
				t.Errorf("%+v: %v, want %q", c.cfg, err, c.refusals)
			}
			continue
		}
		if err != nil {
			t.Errorf("%+v: %v", c.cfg, err)
			continue
		}
		var step string
		if len(got.Prepare) > 0 {
			step = strings.Join(got.Prepare[0].Argv[:2], " ")
		}
		if argv := strings.Join(got.Argv, " "); got.Runtime != c.runtime || step != c.step || argv != c.argv {
			t.Errorf("%+v: runtime %q, step %q, argv %q; want %q, %q, %q", c.cfg, got.Runtime, step, argv, c.runtime, c.step, c.argv)
		}
		if notes := strings.Join(got.Notes, "\n"); (c.note == "") != (notes == "") || !strings.Contains(notes, c.note) {
			t.Errorf("%+v: notes %q, want %q", c.cfg, notes, c.note)
		}
		if _, err := all.Of(got.Runtime); err != nil {
			t.Errorf("%+v: %v", c.cfg, err)
		}
	}
}
