package e2e

import (
	"archive/zip"
	"bytes"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"berth/test/harness"
)

// TestExamples uploads each example as it is: it is prepared within the
// default limits of a build, runs, and says who it is. The one in TypeScript
// has a test of its own.
func TestExamples(t *testing.T) {
	t.Parallel()
	d := launch(t)
	owner := d.account("ana", 4096)
	for _, tt := range []struct{ name, lang, says string }{
		{"node-bot", "javascript", "node-bot version 1, Node.js v"},
		{"python-bot", "python", "python-bot version 1, Python 3"},
		{"go-bot", "go", "go-bot version 1, go1."},
		{"rust-bot", "rust", "rust-bot version 1, pid "},
		{"java-bot", "java", "java-bot version 1, Java "},
		{"php-site", "php", "Development Server (http://127.0.0.1:"},
		{"ruby-bot", "ruby", "ruby-bot version 1, Ruby 3"},
		{"shell-bot", "shell", "shell-bot version 1, pid "},
		{"static-binary", "binary", "static-binary version 1, pid "},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			c := owner.in(t)
			f := example(t, tt.name)
			if tt.name == "static-binary" {
				f["bot"] = static(t)
			}
			id := c.Upload(f)
			c.UntilLog(id, tt.says)
			c.Info(id).Want(200, "apps.online", true, "apps.lang", tt.lang)
		})
	}
}

// static builds the example in C.
func static(t *testing.T) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "bot")
	if out, err := exec.Command("gcc", "-O2", "-static", "-o", file, "../../examples/static-binary/bot.c").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestJavaSeesItsLimit: the heap is a share of the application's RAM, not of
// the host's.
func TestJavaSeesItsLimit(t *testing.T) {
	t.Parallel()
	d := launch(t)
	c := d.account("ana", 1024)
	for ram, least := range map[int]int{200: 130, 512: 340} { // 70 percent, less what the collector keeps
		f := example(t, "java-bot")
		f["discloud.config"] = harness.Config("TYPE=bot", "MAIN=bot.jar", fmt.Sprintf("RAM=%d", ram))
		log := c.UntilLog(c.Upload(f), "MB\n")
		_, text, _ := strings.Cut(log, "heap of at most ")
		var heap int
		if _, err := fmt.Sscan(text, &heap); err != nil || heap < least || heap > ram*7/10+2 {
			t.Errorf("with RAM=%d the heap is %d MB, %v", ram, heap, err)
		}
	}
}

// TestPHPSite asks a site, and commits another page.
func TestPHPSite(t *testing.T) {
	t.Parallel()
	d := launch(t)
	c := d.account("ana", 200)
	f := example(t, "php-site")
	id := c.Upload(f)
	_, text, _ := strings.Cut(c.UntilLog(id, ") started"), "http://")
	address, _, _ := strings.Cut(text, ")")
	ask := func(path string) (int, string) {
		r, err := http.Get("http://" + address + path)
		if err != nil {
			t.Fatal(err)
		}
		defer r.Body.Close()
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Fatal(err)
		}
		return r.StatusCode, string(body)
	}
	if code, body := ask("/x"); code != 200 || !strings.Contains(body, "php-site version 1, PHP 8") || !strings.Contains(body, "asked for /x") {
		t.Errorf("%d: %s", code, body)
	}
	if _, body := ask("/discloud.config"); strings.Contains(body, "RAM=") {
		t.Errorf("the configuration can be read: %s", body)
	}
	// A commit says nothing of the type, and it is a site still.
	page := strings.Replace(f["public/index.php"], "VERSION = 1", "VERSION = 2", 1)
	c.Commit(id, harness.Files{"public/index.php": page, "discloud.config": harness.Config("MAIN=public/index.php")}).Want(200)
	if _, body := ask("/"); !strings.Contains(body, "version 2") {
		t.Errorf("after a commit: %s", body)
	}
}

// TestCompiledLanguages commits new code, then code that does not compile.
func TestCompiledLanguages(t *testing.T) {
	t.Parallel()
	d := launch(t)
	owner := d.account("ana", 1024)
	for _, tt := range []struct{ name, main, old, new, made string }{
		{"go-bot", "main.go", "version = 1", "version = 2", ".berth"},
		{"rust-bot", "src/main.rs", "VERSION: u32 = 1", "VERSION: u32 = 2", "target"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			c := owner.in(t)
			f := example(t, tt.name)
			id := c.Upload(f)
			next := harness.Files{tt.main: strings.Replace(f[tt.main], tt.old, tt.new, 1)}
			c.Commit(id, next).Want(200)
			c.UntilLog(id, tt.name+" version 2")
			c.Commit(id, next.With(tt.main, "no code\n")).Want(422).Says("message", "build failed").Says("logs", tt.main)
			c.Info(id).Want(200, "apps.online", true)
			// Nothing but the program is left in the tree, or what Cargo keeps.
			for _, name := range []string{".cache", ".cargo", "go"} {
				if harness.Exists(t, d.Path(id, name)) {
					t.Errorf("%s is in the application's directory", name)
				}
			}
			if !harness.Exists(t, d.Path(id, tt.made)) {
				t.Errorf("there is no %s", tt.made)
			}
			if names := c.backedUp(id); !slices.Contains(names, tt.main) || slices.ContainsFunc(names, func(s string) bool { return strings.HasPrefix(s, tt.made+"/") }) {
				t.Errorf("the backup holds %v", names)
			}
			c.Put("/app/"+id+"/restart", "").Want(200, "status", "ok")
			c.Until(id, "apps.online", true)
		})
	}
}

// TestTypeScriptIsCompiled by the compiler of the archive's own choice, which a
// commit of code alone does not install again.
func TestTypeScriptIsCompiled(t *testing.T) {
	t.Parallel()
	d := launch(t)
	c := d.account("ana", 200)
	f := example(t, "typescript-bot")
	a := c.Post(f.Zip()).Want(200, "status", "ok", "app.lang", "javascript").Says("logs", "added 3 packages")
	id := a.Text("app.id")
	c.UntilLog(id, "typescript-bot version 1, Node.js v")
	source := strings.Replace(f["src/index.ts"], "number = 1", "number = 2", 1)
	if logs := c.Commit(id, f.With("src/index.ts", source)).Want(200).Text("logs"); strings.Contains(logs, "packages") {
		t.Errorf("installed again: %s", logs)
	}
	c.UntilLog(id, "typescript-bot version 2")
	c.Commit(id, f.With("src/index.ts", "const a: number = 'x';\n")).Want(422).Says("message", "BUILD failed").Says("logs", "src/index.ts(1,7)")
	c.Info(id).Want(200, "apps.online", true)
}

// backedUp lists the files of a new backup.
func (c *client) backedUp(id string) (names []string) {
	c.T.Helper()
	content := c.Download(c.Get("/app/" + id + "/backup").Want(200).Text("backups.url"))
	archive, err := zip.NewReader(bytes.NewReader(content), int64(len(content)))
	if err != nil {
		c.T.Fatal(err)
	}
	for _, f := range archive.File {
		names = append(names, f.Name)
	}
	return names
}

// TestPackagesAreKept: a commit of code alone installs nothing again, one of
// another requirement does.
func TestPackagesAreKept(t *testing.T) {
	t.Parallel()
	d := launch(t)
	c := d.account("ana", 200)
	const wheel = "wheels/berth_greeting-1.0-py3-none-any.whl"
	bot := example(t, "python-bot")
	bot["requirements.txt"] = "./" + wheel + "\n"
	id := c.Upload(bot)
	c.UntilLog(id, "hello from a package")
	second := strings.Replace(bot["main.py"], "VERSION = 1", "VERSION = 2", 1)
	if logs := c.Commit(id, bot.With("main.py", second)).Want(200).Text("logs"); strings.Contains(logs, "pip") || strings.Contains(logs, "berth-greeting") {
		t.Errorf("installed again: %s", logs)
	}
	c.UntilLog(id, "python-bot version 2")
	d.Restart()
	c.Until(id, "apps.online", true)
	c.Commit(id, bot.With("requirements.txt", "./"+wheel+" # again\n")).Want(200).Says("logs", "berth-greeting")
	// What could not be installed is not remembered as if it had been.
	c.Commit(id, bot.With("requirements.txt", "./wheels/no-such.whl\n")).Want(422)
	c.Commit(id, harness.Files{"main.py": bot["main.py"]}).Want(200)
	c.Until(id, "apps.online", true)
}

// TestPythonByItsOtherName: Debian has no "python", and START says it.
func TestPythonByItsOtherName(t *testing.T) {
	t.Parallel()
	d := launch(t)
	c := d.account("ana", 200)
	id := c.Upload(harness.PythonBot("import sys\nprint('started as', sys.executable)\n"+harness.IdlePython, "START=exec python -u main.py", "BUILD=python --version"))
	c.UntilLog(id, "started as /")
	c.Info(id).Want(200, "apps.online", true, "apps.lang", "python")
}

// TestPackagesInFolders installs packages that lie in the archive, for which no
// index is asked: of a workspace, by BUILD, a gem and one of PHP.
func TestPackagesInFolders(t *testing.T) {
	t.Parallel()
	d := launch(t)
	owner := d.account("ana", 400)
	const wheel = "wheels/berth_greeting-1.0-py3-none-any.whl"
	for name, f := range map[string]harness.Files{
		"javascript": {
			"package.json":       `{"private": true, "workspaces": ["greet"], "main": "lib/bot"}`,
			"greet/package.json": `{"name": "greet", "version": "1.0.0"}`,
			"greet/index.js":     "module.exports = 'hello of a workspace'",
			"lib/bot.js":         "console.log(require('greet'))\n" + harness.IdleNode,
		},
		"python": harness.PythonBot("from berth_greeting import greeting\nprint('hello of a', greeting('BUILD'))\n"+harness.IdlePython,
			"BUILD=pip install --no-index ./"+wheel).With(wheel, example(t, "python-bot")[wheel]),
		"ruby": {
			"discloud.config":  harness.Config("TYPE=bot", "MAIN=main.rb"),
			"Gemfile":          "source 'https://rubygems.org'\ngem 'greet', path: 'greet'\ngroup(:test) { gem 'no-such-gem-anywhere', path: 'no' }\n",
			"greet/greet.rb":   "GREETING = 'hello of a gem'",
			"greet/it.gemspec": "Gem::Specification.new { |s| s.name = 'greet'; s.version = '1.0'; s.summary = s.name; s.authors = ['x']; s.require_paths = ['.']; s.files = ['greet.rb'] }",
			"main.rb":          "require 'greet'\n$stdout.sync = true\nputs GREETING\nsleep\n",
		},
		"php": {
			"discloud.config":     harness.Config("TYPE=bot", "MAIN=main.php"),
			"composer.json":       `{"require": {"ana/greet": "*"}, "repositories": [{"type": "path", "url": "greet"}, {"packagist.org": false}]}`,
			"greet/composer.json": `{"name": "ana/greet", "version": "1.0.0", "autoload": {"files": ["greet.php"]}}`,
			"greet/greet.php":     "<?php\nconst GREETING = 'hello of a package';\n",
			"main.php":            "<?php\nrequire 'vendor/autoload.php';\necho GREETING, \"\\n\";\nwhile (true) sleep(1000);\n",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			harness.Needs(t, map[string][]string{"javascript": {"npm"}, "ruby": {"ruby", "bundle"}, "php": {"php", "composer"}}[name]...)
			c := owner.in(t)
			if name == "ruby" { // even a gem that is left out must be there to be read
				f["no/no.gemspec"] = strings.Replace(f["greet/it.gemspec"], "'greet'", "'no-such-gem-anywhere'", 1)
			}
			id := c.Upload(f)
			c.UntilLog(id, "hello of a ")
			c.Commit(id, harness.Files{"x": "x"}).Want(200)
			c.Until(id, "apps.online", true, "apps.lang", name)
			for _, left := range []string{".bundle", ".composer", ".config", ".cache", ".local", ".gem"} {
				if harness.Exists(t, d.Path(id, left)) {
					t.Errorf("%s is in the application's directory", left)
				}
			}
		})
	}
}
