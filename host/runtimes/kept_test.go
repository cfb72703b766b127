package runtimes

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"berth/app"
)

// deployed plans a first deployment and returns what it would be remembered by.
func deployed(t *testing.T, cfg app.Config, files tree, on tools) string {
	t.Helper()
	got, err := Plan(cfg, true, files, on, "")
	if err != nil {
		t.Fatal(err)
	}
	if len(got.Prepare) == 0 {
		t.Fatal("nothing is prepared")
	}
	return got.Code.Packages
}

// overlaid is a tree with more files, "" taking one away.
func overlaid(files, more tree) tree {
	all := maps.Clone(files)
	for name, text := range more {
		if all[name] = text; text == "-" {
			delete(all, name)
		}
	}
	return all
}

// project of each kind whose packages can be told from its files.
var kept = []struct {
	name, main, runtime, mark, manifest string
	files                               tree
}{
	{"npm", "a.js", "node", "node_modules/.package-lock.json", "package.json", tree{"package.json": withDeps}},
	{"npm ci", "a.js", "node", "node_modules/.package-lock.json", "package-lock.json", tree{"package.json": withDeps, "package-lock.json": "1"}},
	{"pnpm", "a.js", "node", "node_modules/.modules.yaml", "pnpm-lock.yaml", tree{"package.json": withDeps, "pnpm-lock.yaml": "1"}},
	{"yarn", "a.js", "node", "node_modules/.yarn-integrity", "yarn.lock", tree{"package.json": withDeps, "yarn.lock": "1"}},
	{"yarn 2", "a.js", "node", "node_modules/.yarn-state.yml", "yarn.lock", tree{"package.json": withDeps, "yarn.lock": "__metadata:"}},
	{"bun", "a.ts", "bun", "node_modules/.berth", "bun.lock", tree{"package.json": withDeps, "bun.lock": "1"}},
	{"pip", "a.py", "python3", ".venv/pyvenv.cfg", "requirements.txt", tree{"requirements.txt": "flask"}},
	{"pip includes", "a.py", "python3", ".venv/pyvenv.cfg", "req/b.txt", tree{"requirements.txt": "-r req/a.txt", "req/a.txt": "-c b.txt\nx", "req/b.txt": "y==1"}},
	{"pip wheel", "a.py", "python3", ".venv/pyvenv.cfg", "wheels/x.whl", tree{"requirements.txt": "./wheels/x.whl", "wheels/x.whl": "1"}},
	{"pyproject", "a.py", "python3", ".venv/pyvenv.cfg", "pyproject.toml", tree{"pyproject.toml": "[project]\ndependencies = [\"a\"]\n"}},
	{"composer", "a.php", "php", "vendor/composer/installed.json", "composer.json", tree{"composer.json": `{"require": {"a/b": "1"}}`}},
	{"gems", "a.rb", "ruby", "vendor/bundle/.berth", "Gemfile", tree{"Gemfile": "gem 'a', require: false"}},
}

// Packages are installed again when what they come from changed, and only then.
func TestPackagesAreKept(t *testing.T) {
	for _, c := range kept {
		t.Run(c.name, func(t *testing.T) {
			on := everything.with("yarn", "1.22").with("pnpm", "9")
			if c.name == "yarn 2" {
				on = on.with("yarn", "4.5.0")
			}
			files := overlaid(c.files, tree{c.main: ""})
			cfg := app.Config{Main: c.main}
			was := deployed(t, cfg, files, on)
			if was == "" {
				t.Fatal("nothing is remembered")
			}
			first, err := Plan(cfg, true, files, on, "")
			if err != nil {
				t.Fatal(err)
			}
			there := overlaid(files, tree{c.mark: "", c.main: "changed"})
			for _, d := range []struct {
				name  string
				files app.Files
				tools tools
				kept  bool
			}{
				{"code alone", half{there, []string{c.main}}, on, true},
				{"everything again", half{there, append(names(files), c.main)}, on, true},
				{"at a start", half{there, nil}, on, true},
				{"another manifest", half{overlaid(there, tree{c.manifest: c.files[c.manifest] + "\n"}), names(files)}, on, false},
				{"packages gone", half{files, []string{c.main}}, on, false},
				{"packages of the upload", half{there, []string{c.mark}}, on, false},
				{"another runtime", half{there, []string{c.main}}, on.with(c.runtime, "99.1"), false},
			} {
				got, err := Plan(cfg, true, d.files, d.tools, was)
				if err != nil {
					t.Fatal(err)
				}
				if (len(got.Prepare) == 0) != d.kept {
					t.Errorf("%s: kept is %t; %q", d.name, !d.kept, argvs(got))
				}
				if d.kept && got.Code.Packages != was || !d.kept && got.Code.Packages == was && d.name == "another manifest" {
					t.Errorf("%s: %q is remembered, it was %q", d.name, got.Code.Packages, was)
				}
				equal(t, d.name+" argv", got.Argv, first.Argv)
				equal(t, d.name+" env", got.Env, first.Env)
			}
		})
	}
}

// names lists the files of a tree.
func names(files tree) []string { return slices.Collect(maps.Keys(files)) }

// Bundler and Composer write lock files of their own: these are no news, those
// of the upload are.
func TestOwnLockFilesChangeNothing(t *testing.T) {
	for _, c := range []struct {
		main, lock, mark string
		files            tree
	}{
		{"a.rb", "Gemfile.lock", "vendor/bundle/.berth", tree{"Gemfile": "gem 'a'"}},
		{"a.php", "composer.lock", "vendor/composer/installed.json", tree{"composer.json": `{"require": {"a/b": "1"}}`}},
	} {
		files := overlaid(c.files, tree{c.main: ""})
		cfg := app.Config{Main: c.main}
		was := deployed(t, cfg, files, everything)
		after := overlaid(files, tree{c.lock: "made", c.mark: ""})
		got, err := Plan(cfg, true, half{after, []string{c.main}}, everything, was)
		if err != nil || len(got.Prepare) > 0 || got.Code.Packages != was {
			t.Errorf("its own %s: %q, %v", c.lock, argvs(got), err)
		}
		got, err = Plan(cfg, true, half{after, []string{c.main, c.lock}}, everything, was)
		if err != nil || len(got.Prepare) == 0 || got.Code.Packages == was {
			t.Errorf("%s of the upload: %q, %v", c.lock, argvs(got), err)
		}
	}
}

// What comes from more files than can be named is installed every time.
func TestPackagesOfOwnFilesAreNotKept(t *testing.T) {
	js := func(text string) tree { return tree{"a.js": "", "package.json": text} }
	py := func(text string) tree { return tree{"a.py": "", "requirements.txt": text} }
	php := func(more string) tree {
		return tree{"a.php": "", "composer.json": `{"require": {"a/b": "1"}, ` + more + `}`}
	}
	for name, files := range map[string]tree{
		"folder":            js(`{"dependencies": {"a": "file:./a"}}`),
		"link":              js(`{"dependencies": {"a": "link:../a"}}`),
		"workspace":         js(`{"dependencies": {"a": "1"}, "workspaces": ["x"]}`),
		"workspace alone":   js(`{"workspaces": ["x"]}`),
		"pnpm's workspace":  {"a.js": "", "package.json": "{}", "pnpm-workspace.yaml": "packages:\n  - x\n"},
		"install script":    js(`{"dependencies": {"a": "1"}, "scripts": {"postinstall": "node x"}}`),
		"strange scripts":   js(`{"dependencies": {"a": "1"}, "scripts": {"postinstall": 1}}`),
		"strange packages":  js(`{"dependencies": {"a": {"b": 1}}}`),
		"patches":           js(`{"dependencies": {"a": "1"}, "patchedDependencies": {"a": "p"}}`),
		"editable":          py("-e ."),
		"python folder":     py("./lib"),
		"python folder URL": py("a @ file:///x"),
		"source archive":    py("lib/a-1.0.tar.gz"),
		"wheel folder":      py("--find-links wheels\na"),
		"joined option":     py("-rother.txt"),
		"missing include":   py("-r other.txt"),
		"remote include":    py("-r https://example.org/r.txt"),
		"endless includes":  py("-r requirements.txt\na"),
		"composer scripts":  php(`"scripts": {}`),
		"classmap":          php(`"autoload": {"classmap": ["src"]}`),
		"gem folder":        {"a.rb": "", "Gemfile": "gem 'a', path: 'lib'"},
		"large":             {"a.js": "", "package.json": withDeps, "package-lock.json": strings.Repeat("x", sumLimit)},
		"gemspec":           {"a.rb": "", "Gemfile": "gemspec"},
	} {
		for main := range files {
			if !strings.HasPrefix(main, "a.") {
				continue
			}
			if was := deployed(t, app.Config{Main: main}, files, everything); was != "" {
				t.Errorf("%s: %q is remembered", name, was)
			}
		}
	}
	// BUILD may take packages away that it needs the next time.
	for build, want := range map[string]bool{"tsc": true, "tsc && npm prune --omit=dev": false, "rm -rf node_modules/typescript": false} {
		was := deployed(t, app.Config{Main: "a.js", Build: build}, js(withDev), everything)
		if (was != "") != want {
			t.Errorf("BUILD=%s: %q is remembered", build, was)
		}
	}
}

// With packages kept, BUILD still runs and finds them.
func TestBuildRunsWithKeptPackages(t *testing.T) {
	cfg := app.Config{Main: "dist/a.js", Build: "tsc"}
	files := tree{"package.json": withDev}
	was := deployed(t, cfg, files, everything)
	got, err := Plan(cfg, true, half{overlaid(files, tree{"node_modules/.package-lock.json": ""}), nil}, everything, was)
	if err != nil {
		t.Fatal(err)
	}
	equal(t, "prepare", argvs(got), []string{nodePath + "tsc"})
}
