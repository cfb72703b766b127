package runtimes

import (
	"slices"
	"strings"
	"testing"

	"berth/app"
)

// oneOfEach is the smallest application of each language with a runtime.
var oneOfEach = []struct {
	lang, main, needs string
	files             tree
	words             []string // when the host does not have it
}{
	{"javascript", "a.js", "node", tree{"a.js": ""}, []string{"this host has no Node.js: the owner can install it with: apt install nodejs npm"}},
	{"typescript", "a.ts", "node", tree{"a.ts": "", "package.json": `{"dependencies":{"tsx":"4"}}`}, []string{"no Node.js"}},
	{"python", "a.py", "python3", tree{"a.py": ""}, []string{"no Python", "apt install python3 python3-venv"}},
	{"go", "a.go", "go", tree{"a.go": ""}, []string{"no Go", "apt install golang-go"}},
	{"rust", "src/main.rs", "rustc", tree{"src/main.rs": "", "Cargo.toml": "[package]\nname = \"a\""}, []string{"no Rust", "apt install cargo"}},
	{"java", "a.jar", "java", tree{"a.jar": "PK"}, []string{"no Java", "apt install default-jre-headless"}},
	{"php", "a.php", "php", tree{"a.php": ""}, []string{"no PHP", "apt install php-cli"}},
	{"ruby", "a.rb", "ruby", tree{"a.rb": ""}, []string{"no Ruby", "apt install ruby"}},
	{"deno", "a.ts", "deno", tree{"a.ts": "", "deno.json": ""}, []string{"no Deno: the owner can install it with: berth runtime install deno 2"}},
	{"bun", "a.ts", "bun", tree{"a.ts": "", "bun.lock": ""}, []string{"no Bun: the owner can install it with: berth runtime install bun 1"}},
}

// everything is a host that has also what Debian does not.
var everything = debian.with("deno", "2.1.4").with("bun", "1.1.38")

func TestMissingRuntimes(t *testing.T) {
	for _, c := range oneOfEach {
		t.Run(c.lang, func(t *testing.T) {
			cfg := app.Config{Main: c.main}
			got, err := Plan(cfg, true, c.files, everything, "")
			if err != nil {
				t.Fatal(err)
			}
			equal(t, "lang", got.Code.Lang, c.lang)
			_, err = Plan(cfg, true, c.files, everything.without(c.needs), "")
			refused(t, err, c.words...)
			// One in a home is of no use; whose home it is is nobody's business.
			for hidden, shown := range map[string]string{
				"/root/.x/bin/" + c.needs:        "in a home directory (~/.x/bin)",
				"/home/ana/.x/y/bin/" + c.needs:  "in a home directory (~/.x/y/bin)",
				"/opt/closed/bin/" + c.needs:     "in /opt/closed/bin, which is closed to them",
				"/home/ana/" + c.needs:           "in a home directory (~/)",
				"/usr/local/go/bin/x/" + c.needs: "only where programs cannot use it",
			} {
				_, err := Plan(cfg, true, c.files, everything.with(c.needs, hidden), "")
				refused(t, err, shown, "the owner can install it")
				if strings.Contains(err.Error(), "ana") || strings.Contains(err.Error(), "/root") {
					t.Errorf("it names the owner of a home: %v", err)
				}
			}
			// START does without.
			if _, err := Plan(app.Config{Main: c.main, Start: "x"}, true, c.files, host("npm", "node"), ""); err != nil {
				t.Errorf("with START: %v", err)
			}
		})
	}
}

func TestRuntimes(t *testing.T) {
	var commands []string
	for _, r := range Runtimes() {
		commands = append(commands, r.Command)
		if r.Title == "" || r.Install == "" {
			t.Errorf("%+v", r)
		}
	}
	equal(t, "commands", commands, []string{
		"node", "npm", "python3", "go", "rustc", "cargo", "java", "php", "composer", "ruby", "bundle", "deno", "bun",
	})
	for _, c := range oneOfEach {
		if !slices.Contains(commands, c.needs) {
			t.Errorf("doctor does not tell of %s", c.needs)
		}
	}
}

func TestOlderRuntimes(t *testing.T) {
	cargo := func(line string) string { return "[package]\nname = \"a\"\n" + line }
	for _, c := range []struct {
		name  string
		main  string
		files tree
		host  tools
		words []string // none when it starts
		note  string
	}{
		{"node", "a.js", tree{"a.js": "", "package.json": `{"engines": {"node": ">=22"}}`}, debian, []string{"package.json (engines) asks for Node.js >=22, and this host has 20.20.2: ask the owner"}, ""},
		{"node newer", "a.js", tree{"a.js": "", "package.json": `{"engines": {"node": "^16"}}`}, debian, nil, "package.json (engines) asks for Node.js ^16; this host runs 20.20.2."},
		{"node right", "a.js", tree{"a.js": "", "package.json": `{"engines": {"node": ">=16"}}`}, debian, nil, ""},
		{"node unclear", "a.js", tree{"a.js": "", "package.json": `{"engines": {"node": "lts"}}`}, debian, nil, ""},
		{"node strange", "a.js", tree{"a.js": "", "package.json": `{"engines": ["node"]}`}, debian, nil, ""},
		{"node silent", "a.js", tree{"a.js": "", "package.json": `{"engines": {"node": ">=22"}}`}, fullHost, nil, ""},
		{"typescript", "a.ts", tree{"a.ts": ""}, debian, []string{"Node.js 20.20.2 cannot run TypeScript by itself", "add tsx", "BUILD"}, ""},
		{"typescript 22.17", "a.ts", tree{"a.ts": ""}, debian.with("node", "22.17.1"), []string{"cannot run TypeScript"}, ""},
		{"typescript 23.5", "a.ts", tree{"a.ts": ""}, debian.with("node", "23.5.0"), []string{"cannot run TypeScript"}, ""},
		{"typescript 22.18", "a.ts", tree{"a.ts": ""}, debian.with("node", "22.18.0"), nil, ""},
		{"typescript 24", "a.ts", tree{"a.ts": ""}, debian.with("node", "24.1.0"), nil, ""},
		{"typescript unknown", "a.ts", tree{"a.ts": ""}, fullHost, nil, ""},
		{"python", "a.py", tree{"a.py": "", "pyproject.toml": "[project]\nrequires-python = \">=3.12\""}, debian, []string{"pyproject.toml (requires-python) asks for Python >=3.12, and this host has 3.11.2"}, ""},
		{"go", "a.go", tree{"a.go": "", "go.mod": "module a\n\ngo 1.22\n"}, debian, []string{"go.mod asks for Go >=1.22, and this host has 1.19.8", "upload the built program", "/usr/local/go"}, ""},
		{"go toolchain", "a.go", tree{"a.go": "", "go.mod": "module a\ngo 1.19\ntoolchain go1.23.1\n"}, debian, []string{"asks for Go >=1.23.1"}, ""},
		{"go gets its own", "a.go", tree{"a.go": "", "go.mod": "module a\n\ngo 1.99\n"}, debian.with("go", "1.21.0"), nil, ""},
		{"go right", "a.go", tree{"a.go": "", "go.mod": "module a\n\ngo 1.19\n"}, debian, nil, ""},
		{"rust", "src/main.rs", tree{"src/main.rs": "", "Cargo.toml": cargo(`rust-version = "1.70"`)}, debian, []string{"Cargo.toml (rust-version) asks for Rust >=1.70, and this host has 1.63.0"}, ""},
		{"rust of the workspace", "src/main.rs", tree{"src/main.rs": "", "Cargo.toml": cargo(`rust-version.workspace = true`)}, debian, nil, ""},
		{"rust by its edition", "src/main.rs", tree{"src/main.rs": "", "Cargo.toml": cargo(`edition = "2024"`)}, debian, []string{"Cargo.toml (edition) asks for Rust >=1.85, and this host has 1.63.0"}, ""},
		{"rust of an older edition", "src/main.rs", tree{"src/main.rs": "", "Cargo.toml": cargo(`edition = "2021"`)}, debian, nil, ""},
		{"rust by its lock file", "src/main.rs", tree{"src/main.rs": "", "Cargo.toml": cargo(""), "Cargo.lock": "# made\nversion = 4\n"}, debian, []string{"Cargo.lock (version) asks for Rust >=1.78"}, ""},
		{"rust new enough", "src/main.rs", tree{"src/main.rs": "", "Cargo.toml": cargo(`edition = "2024"`), "Cargo.lock": "version = 4\n"}, debian.with("rustc", "1.85.0"), nil, ""},
		{"php", "a.php", tree{"a.php": "", "composer.json": `{"require": {"php": "^8.3"}}`}, debian, []string{"composer.json asks for PHP ^8.3, and this host has 8.2.29"}, ""},
		{"php of either", "a.php", tree{"a.php": "", "composer.json": `{"require": {"php": "^7.4|~8.1"}}`}, debian, nil, ""},
		{"ruby", "a.rb", tree{"a.rb": "", "Gemfile": "source 'x'\nruby '~> 3.3'\n"}, debian, []string{"Gemfile asks for Ruby ~> 3.3, and this host has 3.1.2"}, ""},
		{"ruby by its file", "a.rb", tree{"a.rb": "", ".ruby-version": "ruby-3.3.0\n"}, debian, []string{".ruby-version asks for Ruby >=3.3"}, ""},
		{"ruby of another patch", "a.rb", tree{"a.rb": "", ".ruby-version": "3.1.7"}, debian, nil, ""},
		{"another ruby", "a.rb", tree{"a.rb": "", ".ruby-version": "jruby-9.4"}, debian, nil, ""},
		{"ruby right", "a.rb", tree{"a.rb": "", "Gemfile": "ruby \"3.1.2\"\n"}, debian, nil, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := Plan(app.Config{Main: c.main}, true, c.files, c.host, "")
			if c.words != nil {
				refused(t, err, c.words...)
				// What was deployed before starts, if it can at all.
				_, err := Plan(app.Config{Main: c.main}, true, half{c.files, nil}, c.host, "")
				if never := strings.HasPrefix(c.name, "typescript"); (err != nil) != never {
					t.Errorf("at a start: %v", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			var notes []string
			if c.note != "" {
				notes = []string{c.note}
			}
			equal(t, "notes", got.Notes, notes)
			// With START it is nobody's business.
			if _, err := Plan(app.Config{Main: c.main, Start: "x"}, true, c.files, c.host, ""); err != nil {
				t.Error(err)
			}
		})
	}
}

// A Go that may not get a newer one fails at the build, which says so.
func TestGoThatStaysAsItIs(t *testing.T) {
	for asked, says := range map[string]string{"1.99": "go.mod asks for Go >=1.99, and this host has 1.24.4: upload the built program", "1.24": "needs its go.mod"} {
		files := tree{"a.go": "", "go.mod": "module a\n\ngo " + asked + "\n"}
		got, err := Plan(app.Config{Main: "a.go"}, true, files, debian.with("go", "1.24.4"), "")
		if err != nil || len(got.Prepare) != 1 || !strings.Contains(got.Prepare[0].OnFail.String(), says) {
			t.Errorf("go %s: %q, %v", asked, got.Prepare, err)
		}
	}
}

func TestVERSION(t *testing.T) {
	for _, c := range []struct{ main, version, note string }{
		{"a.js", "", ""},
		{"a.js", "latest", ""},
		{"a.js", "current", ""},
		{"a.js", "lts", ""},
		{"a.js", "suja", ""},
		{"a.js", "20", ""},
		{"a.js", "20.x.x", ""},
		{"a.js", "v20", ""},
		{"a.js", ">=18", ""},
		{"a.js", "16", "VERSION=16 was asked for; this host runs Node.js 20.20.2; ask the owner of this host to install it with: berth runtime install node 16"},
		{"a.js", "legacy", "VERSION=legacy was asked for; this host runs Node.js 20.20.2."},
		{"a.py", "3.11", ""},
		{"a.py", "3.9", "VERSION=3.9 was asked for; this host runs Python 3.11.2; ask the owner of this host to install it with: berth runtime install python 3.9"},
		{"a.go", "1.19", ""},
		{"a.jar", "17", ""},
		{"a.rb", "3.3", "VERSION=3.3 was asked for; this host runs Ruby 3.1.2."},
		{"a.sh", "5", "VERSION=5 was asked for; it means nothing here."},
	} {
		files := tree{c.main: ""}
		got, err := Plan(app.Config{Main: c.main, Version: c.version}, true, files, debian, "")
		if err != nil {
			t.Fatal(err)
		}
		var notes []string
		if c.note != "" {
			notes = []string{c.note}
		}
		equal(t, c.main+" VERSION="+c.version, got.Notes, notes)
	}
}

// What was compiled starts on a host that has lost the compiler, or has an
// older one now; the next deployment is told.
func TestCompiledProgramsStartWithoutTheirCompiler(t *testing.T) {
	for _, c := range []struct {
		main, built string
		files       tree
		host        tools
		says        string
	}{
		{"main.go", ".berth/bin/app", tree{"main.go": "", ".berth/bin/app": ""}, host(), "no Go"},
		{"main.go", ".berth/bin/app", tree{"main.go": "", "go.mod": "go 1.22\n", ".berth/bin/app": ""}, debian, "asks for Go"},
		{"src/main.rs", "target/release/x", tree{"src/main.rs": "", "Cargo.toml": "[package]\nname = \"x\"", "target/release/x": ""}, host("rustc"), "no Cargo"},
	} {
		got, err := Plan(app.Config{Main: c.main}, true, c.files, c.host, "")
		if err != nil {
			t.Fatal(err)
		}
		equal(t, "argv", got.Argv, []string{c.built})
		if last := got.Prepare[len(got.Prepare)-1]; last.Argv[0] != "/bin/false" || !strings.Contains(last.OnFail.String(), c.says) {
			t.Errorf("the last step is %q", last)
		}
	}
}
