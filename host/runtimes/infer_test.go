package runtimes

import (
	"strings"
	"testing"

	"berth/app"
)

// Without MAIN the manifests are asked, then the usual names.
func TestInferredMainOfEachLanguage(t *testing.T) {
	for _, c := range []struct {
		name  string
		files tree
		main  string
		lang  string
	}{
		{"go", tree{"go.mod": "module x", "main.go": ""}, "main.go", "go"},
		{"go command", tree{"go.mod": "module example.org/x/bot // it\n", "cmd/bot/main.go": ""}, "cmd/bot/main.go", "go"},
		{"go file", tree{"go.mod": "module \"bot\"\n", "bot.go": ""}, "bot.go", "go"},
		{"rust", tree{"Cargo.toml": "[package]\nname = \"x\"", "src/main.rs": ""}, "src/main.rs", "rust"},
		{"rust bin", tree{"Cargo.toml": "[[bin]]\nname = \"x\"\npath = \"x.rs\"", "x.rs": ""}, "x.rs", "rust"},
		{"java", tree{"bot.jar": "PK"}, "bot.jar", "java"},
		{"php", tree{"public/index.php": ""}, "public/index.php", "php"},
		{"ruby", tree{"Gemfile": "", "main.rb": ""}, "main.rb", "ruby"},
		{"deno", tree{"deno.json": "", "main.ts": ""}, "main.ts", "deno"},
		{"bun", tree{"bun.lock": "", "package.json": "{}", "index.ts": ""}, "index.ts", "bun"},
		{"typescript", tree{"package.json": `{"devDependencies": {"tsx": "4"}}`, "src/index.ts": ""}, "src/index.ts", "typescript"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := Plan(app.Config{}, true, c.files, everything, "")
			if err != nil {
				t.Fatal(err)
			}
			equal(t, "main", got.Code.Main, c.main)
			equal(t, "lang", got.Code.Lang, c.lang)
			equal(t, "notes", got.Notes, []string{"discloud.config does not set MAIN; MAIN=" + c.main + " is assumed."})
		})
	}
}

func TestRefusedManifests(t *testing.T) {
	deep := strings.Repeat("[", manifestLimit)
	for _, c := range []struct {
		name, main string
		files      tree
		words      []string
	}{
		{"no Cargo.toml", "src/main.rs", tree{}, []string{"there is no Cargo.toml"}},
		{"bad Cargo.toml", "src/main.rs", tree{"Cargo.toml": "[package]\nname = "}, []string{"Cargo.toml is not valid TOML, line 2"}},
		{"workspace", "src/main.rs", tree{"Cargo.toml": "[workspace]\n"}, []string{"cannot tell what Cargo.toml makes", "BUILD=cargo build --release and START="}},
		{"crate outside", "src/main.rs", tree{"Cargo.toml": "[package]\nname = \"../../bin/sh\""}, []string{"cannot tell what Cargo.toml makes"}},
		{"strange Cargo.toml", "src/main.rs", tree{"Cargo.toml": "package = 1"}, []string{"Cargo.toml has values of the wrong kind"}},
		{"deep Cargo.toml", "src/main.rs", tree{"Cargo.toml": "a = " + deep[:1000]}, []string{"nested deeper than berth reads"}},
		{"long key", "src/main.rs", tree{"Cargo.toml": strings.Repeat("a.", 1000) + "a = 1"}, []string{"nested deeper"}},
		{"large Cargo.toml", "src/main.rs", tree{"Cargo.toml": strings.Repeat("#", tomlLimit+1)}, []string{"Cargo.toml is larger"}},
		{"bad pyproject.toml", "a.py", tree{"pyproject.toml": "[project\n"}, []string{"pyproject.toml is not valid TOML, line"}},
		{"an option", "a.py", tree{"pyproject.toml": "[project]\ndependencies = [\"--index-url=http://x\"]"}, []string{`lists "--index-url=http://x"`, "not the name of a package"}},
		{"large package.json", "a.js", tree{"package.json": `{"a": "` + strings.Repeat("a", manifestLimit) + `"}`}, []string{"package.json is larger than the 1 MB that berth reads of it"}},
		{"bad composer.json", "a.php", tree{"composer.json": "{"}, []string{"composer.json is not valid JSON, line 1"}},
		{"odd composer.json", "a.php", tree{"composer.json": "[]"}, []string{"composer.json is not a JSON object"}},
		{"deep composer.json", "a.php", tree{"composer.json": deep}, []string{"composer.json is not valid JSON"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.files[c.main] = ""
			_, err := Plan(app.Config{Main: c.main}, true, c.files, everything, "")
			refused(t, err, c.words...)
		})
	}
}

// What installs packages can be missing where the runtime is there.
func TestMissingManagers(t *testing.T) {
	for needs, c := range map[string]struct {
		main  string
		files tree
	}{
		"npm":      {"a.js", tree{"package.json": withDeps}},
		"composer": {"a.php", tree{"composer.json": `{"require": {"a/b": "1"}}`}},
		"bundle":   {"a.rb", tree{"Gemfile": "gem 'a'"}},
		"cargo":    {"src/main.rs", tree{"Cargo.toml": "[package]\nname = \"a\""}},
	} {
		c.files[c.main] = ""
		_, err := Plan(app.Config{Main: c.main}, true, c.files, everything.without(needs), "")
		refused(t, err, "this host has no "+map[string]string{"npm": "npm", "composer": "Composer", "bundle": "Bundler", "cargo": "Cargo"}[needs])
	}
}

// Bun's and Deno's projects that Node.js can run are not refused without them.
func TestNodeStandsIn(t *testing.T) {
	for _, file := range []string{"bun.lock", "deno.json"} {
		files := tree{"a.js": "", "package.json": "{}", file: ""}
		got, err := Plan(app.Config{Main: "a.js"}, true, files, fullHost, "")
		if err != nil {
			t.Fatal(err)
		}
		equal(t, "argv", got.Argv, []string{"/usr/bin/node", "a.js"})
		if len(got.Notes) != 1 || !strings.Contains(got.Notes[0], file+" asks for") {
			t.Errorf("notes: %q", got.Notes)
		}
		files = tree{"a.ts": "", "package.json": `{"dependencies": {"tsx": "4"}}`, file: ""}
		if got, err = Plan(app.Config{Main: "a.ts"}, true, files, fullHost, ""); err != nil || got.Code.Lang != "typescript" {
			t.Errorf("with tsx and %s: %q, %v", file, got.Code.Lang, err)
		}
	}
}

// A site of a whole archive shows its visitors everything; its owner is told.
func TestSiteOfEverythingIsNoted(t *testing.T) {
	for _, c := range []struct {
		main  string
		notes int
	}{{"index.php", 1}, {"public/index.php", 0}} {
		got, err := Plan(app.Config{Main: c.main, Type: app.Site}, true, tree{c.main: ""}, debian, "")
		if err != nil || len(got.Notes) != c.notes {
			t.Errorf("MAIN=%s: %q, %v", c.main, got.Notes, err)
		}
	}
}

// What will fail for a reason that nobody sees is said before.
func TestNotesOfWhatWillFail(t *testing.T) {
	for _, c := range []struct {
		cfg   app.Config
		files tree
		notes int
		words string
	}{
		{app.Config{Main: "a.sh"}, tree{"a.sh": "#!/bin/sh\r\nnode .\r\n"}, 1, "a.sh has the line ends of Windows"},
		{app.Config{Main: "a.sh"}, tree{"a.sh": "#!/bin/sh\nnode .\n"}, 0, ""},
		{app.Config{}, tree{"package.json": `{"scripts": {"start": "node dist/a.js", "build": "tsc"}}`}, 2, "package.json starts dist/a.js, which is not in the archive; if the build script of package.json makes it, set BUILD=npm run build."},
		{app.Config{}, tree{"package.json": `{"scripts": {"start": "node dist/a.js"}}`}, 2, "dist/a.js, which is not in the archive."},
		{app.Config{Main: "a.js", Start: "deno run a.js"}, tree{"a.js": ""}, 1, "START runs deno, and this host has no Deno: the owner can install it with: berth runtime install deno 2."},
		{app.Config{Main: "a.js", Build: "bun x tsc"}, tree{"a.js": ""}, 1, "BUILD runs bun, and this host has no Bun"},
		{app.Config{Main: "a.js", Start: "php -v; node a.js", Build: "x"}, tree{"a.js": ""}, 0, ""},
		{app.Config{Build: "npm run build"}, tree{"package.json": `{"scripts": {"start": "node dist/a.js", "build": "tsc"}}`}, 1, "START=npm start is assumed"},
	} {
		got, err := Plan(c.cfg, true, c.files, debian, "")
		if notes := strings.Join(got.Notes, "\n"); err != nil || len(got.Notes) != c.notes || !strings.Contains(notes, c.words) {
			t.Errorf("%v: %q, %v", c.files, got.Notes, err)
		}
	}
}

// Whatever a manifest holds, the answer is a plan or an error for the user.
func FuzzManifests(f *testing.F) {
	for _, name := range []string{"Cargo.toml", "pyproject.toml", "package.json", "composer.json", "go.mod", "Gemfile", "requirements.txt"} {
		f.Add(name, "[package]\nname = \"x\"\n")
		f.Add(name, `{"dependencies": {"a": "1"}, "engines": {"node": ">=1"}, "require": {"a/b": "1"}}`)
		f.Add(name, "gem 'a'\n-r requirements.txt\ngo 1.22\n")
	}
	f.Fuzz(func(t *testing.T, name, text string) {
		for _, main := range []string{"", "src/main.rs", "a.py", "a.js", "a.php", "a.go", "a.rb"} {
			files := tree{name: text, "src/main.rs": "", "a.py": "", "a.js": "", "a.php": "", "a.go": "", "a.rb": ""}
			if _, err := Plan(app.Config{Main: main}, true, files, everything, "x"); err != nil && app.KindOf(err) != app.Unusable {
				t.Errorf("%v", err)
			}
		}
	})
}
