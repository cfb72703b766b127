package bundle

import (
	"fmt"
	"io/fs"
	"os"
	"strings"
	"testing"

	"berth/app"
)

// withDeps is a package.json that asks for a package.
const withDeps = `{"dependencies":{"discord.js":"14"}}`

func TestLeftOut(t *testing.T) {
	t.Parallel()
	js := []raw{{name: "package.json", data: withDeps}, {name: "node_modules/.bin/x", data: "../y", creator: unix, attrs: mode(0o120777)}, {name: "node_modules/y", data: "y"}}
	config := func(text string) raw { return raw{name: ConfigName, data: text} }
	venv := []raw{{name: "main.py"}, {name: ".venv/pyvenv.cfg"}, {name: ".venv/bin/python"}}
	cargo := []raw{{name: "Cargo.toml"}, {name: "target/CACHEDIR.TAG"}, {name: "target/release/bot"}}
	with := func(list []raw, more ...raw) []raw { return append(append([]raw{}, list...), more...) }
	for _, tt := range []struct {
		name string
		zip  []raw
		over *app.Code
		want string
		says string
	}{
		{"git", []raw{{name: "a"}, {name: ".git/config"}, {name: "sub/.git/"}, {name: "sub/b"}}, nil, "a sub/b", `".git" of the ZIP (2 entries) was left out: no program needs it.`},
		{"a file called .git", []raw{{name: "a"}, {name: ".git"}}, nil, ".git a", ""},
		{"git around everything", []raw{{name: "app/a"}, {name: "app/.git/x"}}, nil, "a", `".git" of the ZIP (1 entry) was left out: no program needs it.`},
		{"git beside a folder", []raw{{name: "app/a"}, {name: ".git/x"}}, nil, "a", ".git"},
		{"git that START runs", []raw{{name: "a"}, {name: ".git/config"}, config("START=git log -1; ./a")}, nil, ".git/config a discloud.config", ""},
		{"git that BUILD names", []raw{{name: "__MACOSX/x"}, {name: "app/a"}, {name: "app/.git/HEAD"}, {name: "app/" + ConfigName, data: "MAIN=a\nBUILD=cp .git/HEAD version"}}, nil, ".git/HEAD a discloud.config", ""},
		{"git beside the folder", []raw{{name: "__MACOSX/x"}, {name: ".git/HEAD"}, {name: "app/a"}, {name: "app/" + ConfigName, data: "START=git log -1"}}, nil, "a discloud.config", ".git"},
		{"a cache of a commit whose START runs git", []raw{{name: "a"}, {name: ".git/x"}, {name: ".hg/x"}}, &app.Code{Start: "git log"}, ".git/x a", ".hg"},
		{"git that a script names", []raw{{name: "app/.git/HEAD"}, {name: "app/package.json", data: `{"scripts":{"start":"cat .git/HEAD && node ."}}`}}, nil, ".git/HEAD package.json", ""},
		{"git that a script of a script runs", []raw{{name: ".git/HEAD"}, {name: ".hg/x"}, {name: "package.json", data: `{"scripts":{"start":"npm run v","v":"git-describe>v"}}`}}, nil, ".git/HEAD package.json", ".hg"},
		{"git that no script names", []raw{{name: ".git/HEAD"}, {name: "package.json", data: `{"repository":"git","scripts":{"legit":"gh-pages -r github.com/x"}}`}}, nil, "package.json", ".git"},
		{"git beside what is no manifest", []raw{{name: ".git/HEAD"}, {name: "package.json", data: `{"scripts":{"start":"git log"}`}}, nil, "package.json", ".git"},
		{"skipped alone in a folder", []raw{{name: "app/.git/x"}, {name: "app/a"}}, nil, "a", ".git"},
		{
			"variables of a backup",
			[]raw{{name: ".berth/env", data: "A='x'\nB='y'\n"}, {name: "a"}, {name: ".berth/bin/app"}},
			nil, ".berth/bin/app a",
			`".berth/env" of the ZIP (1 entry) was left out: it is for environment variables (2 of them), which no upload sets. PUT /v2/app/{id}/env does, or on the host berth app env APP set NAME=VALUE.`,
		},
		{"variables below a folder", []raw{{name: "app/a"}, {name: "app/.berth/env", data: "?"}}, nil, "a", "it is for environment variables, which no upload sets"},
		{"variables beside a folder", []raw{{name: "app/a"}, {name: ".berth/env"}, {name: "app/x/.berth/env", data: "A='1'"}}, nil, "a", `".berth/env" of the ZIP (2 entries) was left out: it is for environment variables, which`},
		{"variables twice", []raw{{name: "a"}, {name: ".berth/env", data: "A='1'"}, {name: ".berth/env", data: "A='1'\nB='2'"}}, nil, "a", "(1 of them)"},
		{"variables that START reads", []raw{{name: "a"}, {name: ".berth/env"}, config("START=. .berth/env; ./a")}, nil, "a discloud.config", ".berth/env"},
		{"variables of a commit", []raw{{name: "a"}, {name: ".berth/env"}}, &app.Code{Main: "a", Start: "cat .berth/env"}, "a", ".berth/env"},
		{"other files of such names", []raw{{name: ".env"}, {name: "berth/env"}, {name: "x.berth/env"}, {name: ".berth/env.d/x"}, {name: ".berth/environment"}}, nil, ".berth/env.d/x .berth/environment .env berth/env x.berth/env", ""},
		{"pycache", []raw{{name: "a.py"}, {name: "b/__pycache__/a.cpython-311.pyc"}}, nil, "a.py", "__pycache__"},

		{"node_modules", js, nil, "package.json", `"node_modules" of the ZIP (2 entries) was left out: its packages are installed anew from package.json.`},
		{"wrapped node_modules", []raw{{name: "app/package.json", data: withDeps}, {name: "app/node_modules/y"}}, nil, "package.json", "node_modules"},
		{"node_modules of TypeScript", with(js, config("MAIN=src/a.ts")), nil, "discloud.config package.json", "node_modules"},
		{"node_modules without a manifest", []raw{{name: "a.js"}, {name: "node_modules/y"}}, nil, "a.js node_modules/y", ""},
		{"node_modules that nothing asks for", []raw{{name: "package.json", data: "{}"}, {name: "node_modules/y"}}, nil, "node_modules/y package.json", ""},
		{"node_modules beside no JSON", []raw{{name: "package.json", data: "{"}, {name: "node_modules/y"}}, nil, "node_modules/y package.json", ""},
		{"node_modules of Python", []raw{{name: "package.json", data: withDeps}, {name: "node_modules/y"}, config("MAIN=a.py")}, nil, "discloud.config node_modules/y package.json", ""},
		{"node_modules of Deno", []raw{{name: "package.json", data: withDeps}, {name: "node_modules/y"}, {name: "deno.json"}}, nil, "deno.json node_modules/y package.json", ""},
		{"node_modules with MAIN", []raw{{name: "package.json", data: withDeps}, {name: "node_modules/y.js"}, config("MAIN=node_modules/y.js")}, nil, "discloud.config node_modules/y.js package.json", ""},
		{"node_modules further down", []raw{{name: "package.json", data: withDeps}, {name: "web/package.json", data: withDeps}, {name: "web/node_modules/y"}}, nil, "package.json web/node_modules/y web/package.json", ""},
		{"node_modules of a commit", js, &app.Code{Main: "a.js"}, "package.json", "node_modules"},
		{"node_modules of a commit of Python", []raw{{name: "package.json", data: withDeps}, {name: "node_modules/y"}}, &app.Code{Main: "a.py"}, "node_modules/y package.json", ""},
		{"node_modules of Python without MAIN", []raw{{name: "package.json", data: withDeps}, {name: "node_modules/y"}, {name: "main.py"}}, nil, "main.py node_modules/y package.json", ""},
		{"node_modules of Python by START", []raw{{name: "package.json", data: withDeps}, {name: "node_modules/y"}, {name: "src/bot.py"}, config("START=python3 src/bot.py")}, nil, "discloud.config node_modules/y package.json src/bot.py", ""},
		{"node_modules of Go without MAIN", []raw{{name: "package.json", data: withDeps}, {name: "node_modules/y"}, {name: "go.mod"}}, nil, "go.mod node_modules/y package.json", ""},
		{"node_modules of JavaScript without MAIN", []raw{{name: "package.json", data: withDeps}, {name: "node_modules/y"}, {name: "index.js"}, {name: "tools/x.py"}}, nil, "index.js package.json tools/x.py", "node_modules"},
		{"node_modules of a commit without MAIN", js, &app.Code{Start: "x", Lang: "javascript"}, "package.json", "node_modules"},
		{"node_modules of a commit of Python without MAIN", []raw{{name: "package.json", data: withDeps}, {name: "node_modules/y"}}, &app.Code{Start: "x", Lang: "python"}, "node_modules/y package.json", ""},
		{
			"node_modules of a folder of the application",
			[]raw{{name: "web/package.json", data: withDeps}, {name: "web/node_modules/y"}},
			&app.Code{Main: "a.js"},
			"web/node_modules/y web/package.json", "",
		},

		{"venv", with(venv, raw{name: "requirements.txt"}), nil, "main.py requirements.txt", `".venv" of the ZIP (2 entries) was left out: a virtual environment works only where it was made`},
		{"venv of any name", []raw{{name: "a.py"}, {name: "mine/pyvenv.cfg"}, {name: "mine/x"}, {name: "requirements.txt"}}, nil, "a.py requirements.txt", `"mine"`},
		{"venv beside package.json", with(venv[1:], raw{name: "requirements.txt"}, raw{name: "package.json", data: withDeps}), nil, "package.json requirements.txt", `it was made, and berth makes those of Python programs anew.`},
		{"venv with a MAIN of JavaScript", with(venv[1:], raw{name: "requirements.txt"}, config("MAIN=a.js")), nil, ".venv/bin/python .venv/pyvenv.cfg discloud.config requirements.txt", ""},
		{"venv of a commit of JavaScript", with(venv[1:], raw{name: "requirements.txt"}), &app.Code{Start: "x", Lang: "javascript"}, ".venv/bin/python .venv/pyvenv.cfg requirements.txt", ""},
		{"venv of a commit of Python", with(venv[1:], raw{name: "requirements.txt"}), &app.Code{Start: "x", Lang: "python"}, "requirements.txt", ".venv"},
		{"venv without a manifest", []raw{{name: "a.py"}, {name: ".venv/pyvenv.cfg"}}, nil, ".venv/pyvenv.cfg a.py", ""},
		{"venv that START names", with(venv, raw{name: "requirements.txt"}, config("START=.venv/bin/python x")), nil, ".venv/bin/python .venv/pyvenv.cfg discloud.config main.py requirements.txt", ""},

		{"target", cargo, nil, "Cargo.toml", `"target" of the ZIP (2 entries) was left out: Cargo makes it anew.`},
		{"target that START names", with(cargo, config("START=./target/release/bot")), nil, "Cargo.toml discloud.config target/CACHEDIR.TAG target/release/bot", ""},
		{"target with MAIN", with(cargo, config("MAIN=target/release/bot")), nil, "Cargo.toml discloud.config target/CACHEDIR.TAG target/release/bot", ""},
		{"target beside package.json", with(cargo, raw{name: "package.json", data: "{}"}), nil, "Cargo.toml package.json target/CACHEDIR.TAG target/release/bot", ""},
		{"target that is not Cargo's", []raw{{name: "Cargo.toml"}, {name: "target/x"}}, nil, "Cargo.toml target/x", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			a, err := Open(file(t, rawZIP(t, tt.zip...)), Limits{}, tt.over)
			if err != nil {
				t.Fatal(err)
			}
			defer a.Close()
			dir, err := extractInto(t, a)
			if err != nil {
				t.Fatal(err)
			}
			if got := strings.Join(filesIn(t, dir), " "); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
			if said := strings.Join(a.Left, "\n"); !strings.Contains(said, tt.says) || tt.says == "" && said != "" {
				t.Errorf("it says %q, want %q", said, tt.says)
			}
		})
	}
}

// A ZIP that holds nothing else is refused as one without files.
func TestNothingButLeftovers(t *testing.T) {
	t.Parallel()
	_, err := Open(file(t, rawZIP(t, raw{name: ".git/config"}, raw{name: "__pycache__/"})), Limits{}, nil)
	if app.KindOf(err) != app.Unusable || !strings.Contains(text(err), "it holds no files") {
		t.Error(err)
	}
}

// filesIn lists the files below dir.
func filesIn(t *testing.T, dir string) []string {
	t.Helper()
	var list []string
	err := fs.WalkDir(os.DirFS(dir), ".", func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			list = append(list, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// What is left out is bounded by the directory of the ZIP alone.
func TestLeftOutCountsForNoLimit(t *testing.T) {
	t.Parallel()
	entries := []raw{{name: "package.json", data: withDeps}, {name: "a.js"}}
	for i := range 100 {
		entries = append(entries, raw{name: fmt.Sprintf("node_modules/%d", i), data: "many bytes of it"})
	}
	a, err := Open(file(t, rawZIP(t, entries...)), Limits{MaxEntries: 10, MaxUnpacked: 100}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	// A name that climbs is refused, wherever it says it lies.
	_, err = Open(file(t, rawZIP(t, append(entries, raw{name: "node_modules/../../x"})...)), Limits{}, nil)
	if err == nil || !strings.Contains(text(err), "climbs out") {
		t.Error(err)
	}
}
