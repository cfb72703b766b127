package runtimes

import (
	"slices"
	"strings"
	"testing"

	"berth/app"
)

// images is a host whose programs run in images: the commands of each, by a runtime and its version. Those of
// "default" are for programs without a runtime.
type images struct {
	table map[string]string
	of    string
}

func (i images) Find(name string) (path, hidden string) {
	if slices.Contains(strings.Fields(i.table[i.of]), name) {
		return name, ""
	}
	return "", ""
}

func (i images) Version(name string) string {
	if path, _ := i.Find(name); path == "" {
		return ""
	}
	_, version, _ := strings.Cut(i.of, " ")
	return version
}

func (images) Lacks([]string) (missing []string, known bool) { return nil, false }

func (i images) Installed(runtime string) (list []string) {
	for name := range i.table {
		if version, is := strings.CutPrefix(name, runtime+" "); is {
			list = append(list, version)
		}
	}
	slices.Sort(list)
	return list
}

func (i images) With(runtime, version string) Tools { return images{i.table, runtime + " " + version} }

func (images) Images() bool { return true }

func (images) Path() string { return "/bin" }

// without is the host without some of the images.
func (i images) without(names ...string) images {
	left := map[string]string{}
	for name, commands := range i.table {
		if !slices.Contains(names, name) {
			left[name] = commands
		}
	}
	return images{left, i.of}
}

// cluster has images of some runtimes.
var cluster = images{map[string]string{
	"default": "sh", "node 22.11.0": "sh node npm", "node 24.1.0": "sh node npm", "python 3.12.8": "sh python3 python", "python 3.13.1": "sh python3 python",
	"go 1.24.1": "sh go", "rust 1.85.0": "sh rustc cargo", "ruby 3.3.6": "sh ruby bundle", "php 8.3.14": "sh php", "java 21.0.5": "sh java",
}, "default"}

// Each program runs in the image that its VERSION means, whose commands have no path; what needs no
// runtime in none.
func TestPlansInImages(t *testing.T) {
	for _, c := range []struct {
		cfg           app.Config
		files         tree
		runtime, argv string
	}{
		{app.Config{Main: "a.js"}, tree{"a.js": ""}, "node 24.1.0", "node a.js"},
		{app.Config{Main: "a.js", Version: "22"}, tree{"a.js": ""}, "node 22.11.0", "node a.js"},
		{app.Config{Main: "a.js", Version: "lts"}, tree{"a.js": ""}, "node 24.1.0", "node a.js"},
		{app.Config{Main: "a.py", Version: "3.12"}, tree{"a.py": ""}, "python 3.12.8", "python3 -u a.py"},
		{app.Config{Main: "a.go"}, tree{"a.go": ""}, "go 1.24.1", ".berth/bin/app"},
		{app.Config{Main: "a.go", Version: "1.24"}, tree{"a.go": ""}, "go 1.24.1", ".berth/bin/app"},
		{app.Config{Main: "src/main.rs"}, tree{"src/main.rs": "", "Cargo.toml": "[package]\nname = \"a\""}, "rust 1.85.0", "target/release/a"},
		{app.Config{Main: "a.rb"}, tree{"a.rb": ""}, "ruby 3.3.6", "ruby a.rb"},
		{app.Config{Main: "a.php"}, tree{"a.php": ""}, "php 8.3.14", "php a.php"},
		{app.Config{Main: "a.jar"}, tree{"a.jar": "PK"}, "java 21.0.5", "java -XX:MaxRAMPercentage=70 -XX:MinRAMPercentage=70 -jar a.jar"},
		{app.Config{Main: "a.sh"}, tree{"a.sh": ""}, "", "/bin/sh a.sh"},
		{app.Config{Start: "./x --port 1"}, tree{}, "", "/bin/sh -c ./x --port 1"},
		{app.Config{Start: "ruby x"}, tree{}, "ruby 3.3.6", "/bin/sh -c ruby x"},
		{app.Config{Start: "cargo run"}, tree{}, "rust 1.85.0", "/bin/sh -c cargo run"},
		{app.Config{Start: "python bot.py", Version: "3.12"}, tree{}, "python 3.12.8", "/bin/sh -c python bot.py"},
		// A visitor comes to the container, not to its loopback.
		{
			app.Config{Main: "index.php", Type: app.Site},
			tree{"index.php": ""},
			"php 8.3.14",
			`/bin/sh -c root=$1; shift; exec "$0" "$@" -S "0.0.0.0:$PORT" -t "$root" php ./.`,
		},
	} {
		c.files["discloud.config"] = ""
		got, err := Plan(c.cfg, true, c.files, cluster, "")
		if err != nil {
			t.Errorf("%+v: %v", c.cfg, err)
			continue
		}
		equal(t, c.argv, strings.Join(got.Argv, " "), c.argv)
		equal(t, c.argv+": runtime", got.Runtime, c.runtime)
		equal(t, c.argv+": PATH", slices.Contains(got.Env, "PATH=/bin"), c.runtime != "")
		if c.runtime != "" {
			runtime, version, ok := Uses(got.Code, cluster)
			if !ok && c.cfg.Main != "" || ok && runtime+" "+version != c.runtime {
				t.Errorf("%s: Uses: %s %s %v", c.argv, runtime, version, ok)
			}
		}
	}
}

// What an image lacks the owner of the host adds, and nobody is sent to berth runtime install or to APT.
func TestMissingImages(t *testing.T) {
	npm := tree{"a.js": "", "package.json": `{"dependencies": {"x": "1"}}`}
	for _, c := range []struct {
		cfg   app.Config
		files tree
		host  images
		words string
	}{
		{app.Config{Main: "a.js"}, tree{"a.js": ""}, cluster.without("node 22.11.0", "node 24.1.0"), "this host has no image with Node.js: ask its owner to add one to kubernetes.images"},
		{app.Config{Main: "a.go"}, tree{"a.go": ""}, cluster.without("go 1.24.1"), "this host has no image with Go: ask its owner to add one to kubernetes.images"},
		{app.Config{Start: "x"}, npm, cluster.without("node 22.11.0", "node 24.1.0"), "this host has no image with npm: ask"},
		{app.Config{Main: "a.ts"}, tree{"a.ts": "", "deno.json": ""}, cluster, "this host has no image with Deno: ask"},
		{app.Config{Main: "a.php"}, tree{"a.php": "", "composer.json": `{"require": {"a/b": "1"}}`}, cluster, "this host has no image with Composer: ask"},
		{
			app.Config{Main: "a.js", Version: "20"},
			tree{"a.js": ""},
			cluster,
			"VERSION=20 asks for Node.js, and this host has 24.1.0, 22.11.0: ask its owner to add an image of it to kubernetes.images; VERSION=latest takes what there is",
		},
		{
			app.Config{Main: "a.js", Version: "20"},
			tree{"a.js": ""},
			cluster.without("node 22.11.0", "node 24.1.0"),
			"VERSION=20 asks for Node.js, and this host has none: ask its owner to add an image of it to kubernetes.images",
		},
		{app.Config{Start: "ruby x", Version: "3.4"}, tree{}, cluster, "VERSION=3.4 asks for Ruby, and this host has 3.3.6: ask"},
		// The advice about /usr/local/go is a machine's.
		{
			app.Config{Main: "src/main.rs"},
			tree{"src/main.rs": "", "Cargo.toml": "[package]\nname = \"a\"\nrust-version = \"1.99\""},
			cluster,
			"Cargo.toml (rust-version) asks for Rust >=1.99, and this host has 1.85.0: ask the owner of this host for a newer one, or require an older version there",
		},
		{
			app.Config{Main: "a.js", Version: "22"},
			tree{"a.js": "", "package.json": `{"engines": {"node": ">=24"}}`},
			cluster,
			"and this host has 22.11.0: it has 24.1.0 as well: write VERSION=24.1.0 into discloud.config",
		},
	} {
		c.files["discloud.config"] = ""
		_, err := Plan(c.cfg, true, c.files, c.host, "")
		refused(t, err, c.words)
		for _, word := range []string{"runtime install", "apt install", "/usr/local"} {
			if err != nil && strings.Contains(err.Error(), word) {
				t.Errorf("the error %q says %q", err, word)
			}
		}
	}
	// What was deployed has nothing of the host's to go on with, also by START.
	for _, cfg := range []app.Config{{Main: "a.js", Version: "20"}, {Start: "node a.js", Version: "20"}} {
		_, err := Plan(cfg, true, half{tree{"a.js": "", "discloud.config": ""}, nil}, cluster, "")
		refused(t, err, "VERSION=20 asks for Node.js")
	}
	got, err := Plan(app.Config{Main: "a.html", Type: app.Site, Build: "node make.js", Version: "20"}, true, half{tree{"a.html": "", "package.json": "{}"}, nil}, cluster, "")
	if err != nil || !slices.Contains(got.Notes, "VERSION=20 was asked for; this host runs its one installed version of Node.js; ask the owner of this host to add an image of it to kubernetes.images") {
		t.Errorf("a site of files: %q, %v", got.Notes, err)
	}
	got, err = Plan(app.Config{Start: "npm start", Version: "latest"}, true, tree{}, cluster.without("node 22.11.0", "node 24.1.0"), "")
	if want := "START runs npm, and this host has no image with npm: ask its owner to add one to kubernetes.images."; err != nil || !slices.Equal(got.Notes, []string{want}) {
		t.Errorf("START: %q, %v", got.Notes, err)
	}
}

// Packages of Python lie where its series looks: an image that the owner adds does not change what
// only starts again, and one that is gone is told.
func TestPackagesKeepTheirImage(t *testing.T) {
	files := tree{"a.py": "", "requirements.txt": "x\n", "discloud.config": "", ".venv/pyvenv.cfg": "home = /usr/local/bin\nversion = 3.12.4\n"}
	cfg := app.Config{Main: "a.py", Version: "latest"}
	got, err := Plan(cfg, true, half{files, nil}, cluster, "")
	if err != nil {
		t.Fatal(err)
	}
	equal(t, "a start", got.Runtime, "python 3.12.8")
	equal(t, "argv", got.Argv[0], ".venv/bin/python")

	if got, err = Plan(cfg, true, half{files, []string{"a.py"}}, cluster, ""); err != nil {
		t.Fatal(err)
	}
	equal(t, "a deployment", got.Runtime, "python 3.13.1")
	equal(t, "its packages", argvs(got)[1], "python3 -m venv --clear .venv") // where this Python is nobody knows

	_, err = Plan(cfg, true, half{files, nil}, cluster.without("python 3.12.8"), "")
	refused(t, err, "the packages of the application were installed with Python 3.12, of which this host has no image any more: upload the application again, or ask the owner of this host to add one to kubernetes.images")
	if _, err = Plan(cfg, true, half{files, []string{"requirements.txt"}}, cluster.without("python 3.12.8"), ""); err != nil {
		t.Errorf("a deployment makes them anew: %v", err)
	}

	// Without packages an environment that somebody left there counts for nothing.
	delete(files, "requirements.txt")
	if got, err = Plan(cfg, true, half{files, nil}, cluster, ""); err != nil {
		t.Fatal(err)
	}
	equal(t, "without packages", got.Runtime, "python 3.13.1")
	files[".venv/pyvenv.cfg"], files["pyproject.toml"] = "version_info = 3.12.1\n", "[project]\ndependencies = [\"x\"]" // by uv
	if got, err = Plan(cfg, true, half{files, nil}, cluster, ""); err != nil {
		t.Fatal(err)
	}
	equal(t, "by uv", got.Runtime, "python 3.12.8")
	// A machine's packages bring their Python.
	if got, err = Plan(cfg, true, half{files, nil}, rich, ""); err != nil {
		t.Fatal(err)
	}
	equal(t, "on a machine", got.Runtime, "")
}

// START may say python where an image has python3 alone, whose place nobody knows.
func TestPythonAliasInAnImage(t *testing.T) {
	host := images{map[string]string{"default": "sh python3"}, "default"}
	got, err := Plan(app.Config{Start: "python a.py"}, true, tree{"pyproject.toml": ""}, host, "")
	if err != nil || !strings.Contains(got.Prelude, `ln -sf "$(command -v python3)" "$TMPDIR/.alias/python"`) {
		t.Errorf("%q, %v", got.Prelude, err)
	}
}
