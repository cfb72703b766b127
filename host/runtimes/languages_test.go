package runtimes

import (
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"

	"berth/app"
)

const (
	goBuilds    = "/usr/bin/go build -o .berth/bin/app "
	cargoBuilds = "/usr/bin/cargo build --release --bin "
	jar         = "/usr/bin/java -XX:MaxRAMPercentage=70 -XX:MinRAMPercentage=70 -jar "
	phpServer   = `/bin/sh -c root=$1; shift; exec "$0" "$@" -S "127.0.0.1:$PORT" -t "$root" /usr/bin/php ./`
	alias       = `/bin/sh -c mkdir -p "$TMPDIR/.alias" && ln -sf /usr/bin/python3 "$TMPDIR/.alias/python"; PATH="$PATH:$TMPDIR/.alias"; export PATH; `
)

// crate is a Cargo.toml.
func crate(lines ...string) string { return strings.Join(lines, "\n") }

func TestLanguages(t *testing.T) {
	for _, c := range []struct {
		name    string
		cfg     app.Config
		files   tree
		lang    string
		prepare []string
		argv    string
	}{
		// TypeScript
		{"tsx", app.Config{Main: "a.ts"}, tree{"a.ts": "", "package.json": `{"devDependencies": {"tsx": "4"}}`}, "typescript", []string{"/usr/bin/npm install --no-package-lock" + npmFlags}, "/usr/bin/node --import tsx a.ts"},
		{"tsx of .tsx", app.Config{Main: "a.tsx"}, tree{"a.tsx": "", "package.json": `{"dependencies": {"tsx": "4"}}`}, "typescript", []string{"/usr/bin/npm install --no-package-lock" + npmFlags}, "/usr/bin/node --import tsx a.tsx"},
		{"ts-node", app.Config{Main: "a.mts"}, tree{"a.mts": "", "package.json": `{"dependencies": {"ts-node": "10"}}`}, "typescript", []string{"/usr/bin/npm install --no-package-lock" + npmFlags}, "node_modules/.bin/ts-node a.mts"},
		{"tsx in START", app.Config{Main: "a.ts", Start: "tsx a.ts"}, tree{"a.ts": "", "package.json": withDeps}, "typescript", []string{"/usr/bin/npm install --no-package-lock" + npmFlags + " --omit=dev"}, nodePath + "tsx a.ts"},
		{"compiled", app.Config{Main: "dist/a.js", Build: "tsc"}, tree{"src/a.ts": "", "package.json": withDev}, "javascript", []string{"/usr/bin/npm install --no-package-lock" + npmFlags, nodePath + "tsc"}, "/usr/bin/node dist/a.js"},

		// Workspaces, whose own package.json asks for nothing
		{"workspace", app.Config{Main: "a.js"}, tree{"a.js": "", "package.json": `{"workspaces": ["x"]}`}, "javascript", []string{"/usr/bin/npm install --no-package-lock" + npmFlags + " --omit=dev"}, "/usr/bin/node a.js"},
		{"pnpm settings", app.Config{Main: "a.js"}, tree{"a.js": "", "package.json": "{}", "pnpm-workspace.yaml": "autoInstallPeers: true\n"}, "javascript", nil, "/usr/bin/node a.js"},

		// Go
		{"go file", app.Config{Main: "main.go"}, tree{"main.go": ""}, "go", []string{goBuilds + "./main.go"}, ".berth/bin/app"},
		{"go module", app.Config{Main: "main.go"}, tree{"main.go": "", "go.mod": "module x\n"}, "go", []string{goBuilds + "./."}, ".berth/bin/app"},
		{"go command", app.Config{Main: "cmd/bot/main.go"}, tree{"cmd/bot/main.go": "", "go.mod": "module x\n"}, "go", []string{goBuilds + "./cmd/bot"}, ".berth/bin/app"},
		{"go by its module", app.Config{Main: "go.mod"}, tree{"go.mod": "module x\n"}, "go", []string{goBuilds + "./."}, ".berth/bin/app"},
		{"go after BUILD", app.Config{Main: "main.go", Build: "go generate"}, tree{"main.go": "", "go.mod": "module x\n"}, "go", []string{"/bin/sh -c go generate", goBuilds + "./."}, ".berth/bin/app"},
		{"go with START", app.Config{Main: "main.go", Build: "go build -o bot", Start: "./bot -v"}, tree{"main.go": ""}, "go", []string{"/bin/sh -c go build -o bot"}, "/bin/sh -c ./bot -v"},

		// Rust
		{"rust", app.Config{Main: "src/main.rs"}, tree{"src/main.rs": "", "Cargo.toml": crate("[package]", `name = "bot"`)}, "rust", []string{cargoBuilds + "bot"}, "target/release/bot"},
		{"rust locked", app.Config{Main: "Cargo.toml"}, tree{"Cargo.toml": crate("[package]", `name = "bot"`), "Cargo.lock": ""}, "rust", []string{cargoBuilds + "bot --locked"}, "target/release/bot"},
		{"rust bin", app.Config{Main: "src/run.rs"}, tree{"src/run.rs": "", "Cargo.toml": crate("[package]", `name = "bot"`, "[[bin]]", `name = "one"`, `path = "src/one.rs"`, "[[bin]]", `name = "run"`, `path = "./src/run.rs"`)}, "rust", []string{cargoBuilds + "run"}, "target/release/run"},
		{"rust src/bin", app.Config{Main: "src/bin/x/main.rs"}, tree{"src/bin/x/main.rs": "", "Cargo.toml": crate("[package]", `name = "bot"`)}, "rust", []string{cargoBuilds + "x"}, "target/release/x"},
		{"rust default", app.Config{Main: "src/main.rs"}, tree{"src/main.rs": "", "Cargo.toml": crate("[package]", `name = "bot"`, `default-run = "it"`)}, "rust", []string{cargoBuilds + "it"}, "target/release/it"},

		// Sites of files
		{"page", app.Config{Main: "index.html", Type: app.Site}, tree{"index.html": ""}, "static", nil, ""},
		{"page by its name", app.Config{Type: app.Site}, tree{"index.html": ""}, "static", nil, ""},
		{"page that is built", app.Config{Main: "dist/index.html", Build: "vite build", Type: app.Site}, tree{"src/a.ts": "", "package.json": withDev}, "static", []string{"/usr/bin/npm install --no-package-lock" + npmFlags, nodePath + "vite build"}, ""},
		{"page of a program", app.Config{Main: "index.html", Start: "./serve", Type: app.Site}, tree{"index.html": "", "serve": ""}, "shell", nil, "/bin/sh -c ./serve"},

		// Java
		{"jar", app.Config{Main: "app.jar"}, tree{"app.jar": "PK"}, "java", nil, jar + "app.jar"},

		// PHP
		{"php with RAM", app.Config{Main: "bot.php", RAM: 100}, tree{"bot.php": ""}, "php", nil, "/usr/bin/php -dmemory_limit=80M bot.php"},
		{"php site with RAM", app.Config{Main: "index.php", Type: app.Site, RAM: 512}, tree{"index.php": "", "public/index.php": ""}, "php", nil, phpServer + "public -dmemory_limit=409M"},
		{"php", app.Config{Main: "bot.php"}, tree{"bot.php": ""}, "php", nil, "/usr/bin/php bot.php"},
		{"php platform", app.Config{Main: "a.php"}, tree{"a.php": "", "composer.json": `{"require": {"php": ">=8.1", "ext-json": "*"}}`}, "php", nil, "/usr/bin/php a.php"},
		{"composer", app.Config{Main: "a.php"}, tree{"a.php": "", "composer.json": `{"require": {"a/b": "1"}}`}, "php", []string{"/usr/bin/composer update --no-interaction --no-progress --prefer-dist --no-dev"}, "/usr/bin/php a.php"},
		{"composer lock", app.Config{Main: "a.php"}, tree{"a.php": "", "composer.json": `{"require": {"a/b": "1"}}`, "composer.lock": ""}, "php", []string{"/usr/bin/composer install --no-interaction --no-progress --prefer-dist --no-dev"}, "/usr/bin/php a.php"},
		{
			"composer for BUILD",
			app.Config{Main: "a.php", Build: "phpunit"},
			tree{"a.php": "", "composer.json": `{"require-dev": {"a/b": "1"}}`},
			"php",
			[]string{"/usr/bin/composer update --no-interaction --no-progress --prefer-dist", `/bin/sh -c PATH="$PWD/vendor/bin:$PATH"; export PATH; phpunit`},
			"/usr/bin/php a.php",
		},
		{"php site", app.Config{Main: "public/index.php", Type: app.Site}, tree{"public/index.php": ""}, "php", nil, phpServer + "public"},
		{"php site's folder", app.Config{Main: "index.php", Type: app.Site}, tree{"index.php": "", "public/index.php": ""}, "php", nil, phpServer + "public"},
		{"php site of everything", app.Config{Main: "index.php", Type: app.Site}, tree{"index.php": ""}, "php", nil, phpServer + "."},

		// Ruby
		{"ruby", app.Config{Main: "main.rb"}, tree{"main.rb": ""}, "ruby", nil, "/usr/bin/ruby main.rb"},
		{"ruby without gems", app.Config{Main: "main.rb"}, tree{"main.rb": "", "Gemfile": "source 'https://rubygems.org'\n# gem 'x'\n"}, "ruby", nil, "/usr/bin/ruby main.rb"},
		{
			"gems",
			app.Config{Main: "main.rb"},
			tree{"main.rb": "", "Gemfile": "gem 'x'\n"},
			"ruby",
			[]string{"/usr/bin/bundle install", "/bin/sh -c mkdir -p vendor/bundle && : > vendor/bundle/.berth"},
			"/usr/bin/bundle exec /usr/bin/ruby main.rb",
		},

		// Deno and Bun
		{"deno", app.Config{Main: "main.ts"}, tree{"main.ts": "", "deno.json": "{}"}, "deno", []string{"/usr/bin/deno cache --allow-import main.ts"}, "/usr/bin/deno run --allow-all main.ts"},
		{"deno shebang", app.Config{Main: "bot"}, tree{"bot": "#!/usr/bin/env -S deno run -A\n"}, "deno", []string{"/usr/bin/deno cache --allow-import bot"}, "/usr/bin/deno run --allow-all bot"},
		{"bun", app.Config{Main: "a.ts"}, tree{"a.ts": "", "bun.lockb": "", "package.json": "{}"}, "bun", nil, "/usr/bin/bun run ./a.ts"},
		{
			"bun packages",
			app.Config{Main: "a.js"},
			tree{"a.js": "", "bun.lock": "", "package.json": withDeps},
			"bun",
			[]string{"/usr/bin/bun install --frozen-lockfile --production", "/bin/sh -c mkdir -p node_modules && : > node_modules/.berth"},
			"/usr/bin/bun run ./a.js",
		},
		{"bun with START", app.Config{Start: "bun dev"}, tree{"bunfig.toml": ""}, "bun", nil, "/bin/sh -c bun dev"},

		// "python" means python3, also without packages
		{"python in START", app.Config{Main: "a.py", Start: "python a.py"}, tree{"a.py": ""}, "python", nil, alias + "python a.py"},
		{"pip in BUILD", app.Config{Main: "a.py", Build: "pip install x"}, tree{"a.py": ""}, "python", append(slices.Clone(pip[:2]), venvPath+"pip install x"), ".venv/bin/python -u a.py"},
		{"pip in BUILD for the user", app.Config{Main: "a.py", Build: "pip install --user x"}, tree{"a.py": ""}, "python", []string{alias + "pip install --user x"}, "/usr/bin/python3 -u a.py"},
		{"python in BUILD", app.Config{Main: "a.py", Build: "python b.py"}, tree{"a.py": ""}, "python", []string{alias + "python b.py"}, "/usr/bin/python3 -u a.py"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := Plan(c.cfg, true, c.files, everything, "")
			if err != nil {
				t.Fatal(err)
			}
			samePlan(t, got, c.cfg.Build, c.lang, c.prepare, c.argv)
		})
	}
}

func TestManagersByLockFile(t *testing.T) {
	hasAll := fullHost.with("yarn", "1.22").with("pnpm", "9")
	berry := "__metadata:\n  version: 8\n"
	for _, c := range []struct {
		name  string
		lock  string
		text  string
		build string
		host  tools
		want  string
		note  bool
	}{
		{"pnpm", "pnpm-lock.yaml", "", "", hasAll, "/usr/bin/pnpm install --frozen-lockfile --config.confirmModulesPurge=false --prod", false},
		{"pnpm for BUILD", "pnpm-lock.yaml", "", "x", hasAll, "/usr/bin/pnpm install --frozen-lockfile --config.confirmModulesPurge=false", false},
		{"yarn 1", "yarn.lock", "# yarn lockfile v1\n", "", hasAll, "/usr/bin/yarn install --frozen-lockfile --non-interactive --production", false},
		{"yarn 1 for BUILD", "yarn.lock", "# yarn lockfile v1\n", "x", hasAll, "/usr/bin/yarn install --frozen-lockfile --non-interactive", false},
		{"yarn 2", "yarn.lock", berry, "", hasAll.with("yarn", "4.5.0"), "/usr/bin/yarn install --immutable", false},
		{"yarn 2 for yarn 1", "yarn.lock", "# yarn lockfile v1\n", "x", hasAll.with("yarn", "4.5.0"), "/usr/bin/npm install --no-package-lock" + npmFlags, true},
		{"yarn 1 for yarn 2", "yarn.lock", berry, "x", hasAll, "/usr/bin/npm install --no-package-lock" + npmFlags, true},
		{"yarn of Debian for yarn 2", "yarn.lock", berry, "x", fullHost.with("yarnpkg", "1.22"), "/usr/bin/npm install --no-package-lock" + npmFlags, true},
		{"yarn of Debian", "yarn.lock", "", "x", fullHost.with("yarnpkg", "1.22"), "/usr/bin/yarnpkg install --frozen-lockfile --non-interactive", false},
		{"no pnpm", "pnpm-lock.yaml", "", "x", fullHost, "/usr/bin/npm install --no-package-lock" + npmFlags, true},
		{"no yarn", "yarn.lock", "", "x", fullHost, "/usr/bin/npm install --no-package-lock" + npmFlags, true},
		{"no bun", "bun.lock", "", "x", fullHost, "/usr/bin/npm install --no-package-lock" + npmFlags, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			files := tree{"a.js": "", "package.json": withDeps, c.lock: c.text}
			got, err := Plan(app.Config{Main: "a.js", Build: c.build}, true, files, c.host, "")
			if err != nil {
				t.Fatal(err)
			}
			equal(t, "install", argvs(got)[0], c.want)
			if noted := slices.ContainsFunc(got.Notes, func(s string) bool { return strings.Contains(s, c.lock) && strings.Contains(s, "does not have") }); noted != c.note {
				t.Errorf("notes: %q", got.Notes)
			}
		})
	}
}

func TestPyproject(t *testing.T) {
	const start = "/usr/bin/python3 -u a.py"
	venv := pip[:2]
	withUV := fullHost.with("uv", "0.5")
	poetryTable := "[tool.poetry.dependencies]\npython = \"^3.10\"\nflask = \"*\"\n"
	for _, c := range []struct {
		name    string
		files   tree
		host    tools
		prepare []string
		note    string
	}{
		{"listed", tree{"pyproject.toml": "[project]\ndependencies = [\"a>=1\", \"b; python_version > '3'\"]\n"}, fullHost, append(slices.Clone(venv), strings.Replace(pip[2], "-r requirements.txt", "-- a>=1 b; python_version > '3'", 1)), ""},
		{"none listed", tree{"pyproject.toml": "[tool.black]\nline-length = 100\n"}, fullHost, nil, ""},
		{"both", tree{"pyproject.toml": "[project]\ndependencies = [\"a\"]\n", "requirements.txt": "b"}, fullHost, pip, ""},
		{"uv", tree{"requirements.txt": "b"}, withUV, []string{"/usr/bin/uv venv --allow-existing --python /usr/bin/python3 .venv", "/usr/bin/uv pip install --python .venv/bin/python -r requirements.txt"}, ""},
		{"Pipfile", tree{"Pipfile": "[packages]\n"}, fullHost, nil, "Pipfile is not read: list its packages in requirements.txt"},
		{"uv lock", tree{"pyproject.toml": "[project]\ndependencies = [\"a\"]\n", "uv.lock": ""}, withUV, []string{"/usr/bin/uv sync --frozen --no-dev --python python3"}, ""},
		{"uv lock without uv", tree{"pyproject.toml": "[project]\ndependencies = [\"a\"]\n", "uv.lock": ""}, fullHost, append(slices.Clone(venv), strings.Replace(pip[2], "-r requirements.txt", "-- a", 1)), ""},
		{"poetry", tree{"pyproject.toml": poetryTable}, fullHost.with("poetry", "1.8"), []string{"/usr/bin/poetry install --only main --no-root --no-interaction"}, ""},
		{"no poetry", tree{"pyproject.toml": poetryTable}, fullHost, nil, "only Poetry reads"},
		{"nothing for poetry", tree{"pyproject.toml": "[tool.poetry.dependencies]\npython = \"^3.10\"\n"}, fullHost, nil, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.files["a.py"] = ""
			got, err := Plan(app.Config{Main: "a.py"}, true, c.files, c.host, "")
			if err != nil {
				t.Fatal(err)
			}
			equal(t, "prepare", argvs(got), c.prepare)
			want := start
			if c.prepare != nil {
				want = ".venv/bin/python -u a.py"
			}
			equal(t, "argv", strings.Join(got.Argv, " "), want)
			if notes := strings.Join(got.Notes, "\n"); !strings.Contains(notes, c.note) || c.note == "" && notes != "" {
				t.Errorf("notes: %q", got.Notes)
			}
		})
	}
}

// A page needs visitors.
func TestPagesAreForSites(t *testing.T) {
	for _, cfg := range []app.Config{{Main: "index.html"}, {}, {Main: "dist/index.html", Build: "make"}} {
		_, err := Plan(cfg, true, tree{"index.html": ""}, fullHost, "")
		if app.KindOf(err) != app.Unusable || !strings.Contains(err.Error(), "TYPE=site") {
			t.Errorf("%+v: %v", cfg, err)
		}
	}
}

// The description of the API names every language that an answer can have as lang.
func TestDocumentNamesLanguages(t *testing.T) {
	text, err := os.ReadFile("../../httpapi/openapi.json")
	if err != nil {
		t.Fatal(err)
	}
	var document struct {
		Components struct {
			Schemas map[string]struct {
				Properties map[string]struct{ Description string }
			}
		}
	}
	if err := json.Unmarshal(text, &document); err != nil {
		t.Fatal(err)
	}
	for _, schema := range []string{"App", "UploadedApp"} {
		said := document.Components.Schemas[schema].Properties["lang"].Description
		words := strings.FieldsFunc(said, func(r rune) bool { return r < 'a' || r > 'z' })
		for _, l := range languages {
			if !slices.Contains(words, l.name) {
				t.Errorf("lang of %s does not name %s: %q", schema, l.name, said)
			}
		}
	}
}
