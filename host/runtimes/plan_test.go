package runtimes

import (
	"maps"
	"strings"
	"testing"

	"berth/app"
)

const (
	withDeps = `{"dependencies": {"left-pad": "1"}}`
	withDev  = `{"devDependencies": {"typescript": "5"}}`

	npmFlags = " --no-audit --no-fund"
	nodePath = `/bin/sh -c PATH="$PWD/node_modules/.bin:$PATH"; export PATH; `
	venvPath = `/bin/sh -c PATH="$PWD/.venv/bin:$PATH"; export PATH; `
)

// pip is the preparation of every Python program with packages.
var pip = []string{
	"/usr/bin/python3 -c import ensurepip",
	"/usr/bin/python3 -m venv .venv",
	".venv/bin/python -m pip install --no-input --disable-pip-version-check --no-cache-dir -r requirements.txt",
}

func TestPlan(t *testing.T) {
	for _, c := range []struct {
		name    string
		cfg     app.Config
		files   tree
		lang    string
		prepare []string
		argv    string
	}{
		// JavaScript
		{"node", app.Config{Main: "index.js"}, tree{"index.js": ""}, "javascript", nil, "/usr/bin/node index.js"},
		{"module", app.Config{Main: "a/b.mjs"}, tree{"a/b.mjs": ""}, "javascript", nil, "/usr/bin/node a/b.mjs"},
		{"dot slash", app.Config{Main: "./b.cjs"}, tree{"b.cjs": ""}, "javascript", nil, "/usr/bin/node b.cjs"},
		{"upper case", app.Config{Main: "A.JS"}, tree{"A.JS": ""}, "javascript", nil, "/usr/bin/node A.JS"},
		{"like an option", app.Config{Main: "-e.js"}, tree{"-e.js": ""}, "javascript", nil, "/usr/bin/node ./-e.js"},
		{"node shebang", app.Config{Main: "bot"}, tree{"bot": "#!/usr/bin/env node\n"}, "javascript", nil, "/usr/bin/node bot"},
		{
			"no packages",
			app.Config{Main: "a.js"},
			tree{"a.js": "", "package.json": `{"dependencies": {}}`, "package-lock.json": ""},
			"javascript", nil, "/usr/bin/node a.js",
		},
		{
			"packages",
			app.Config{Main: "a.js"},
			tree{"a.js": "", "package.json": withDeps},
			"javascript",
			[]string{"/usr/bin/npm install --no-package-lock" + npmFlags + " --omit=dev"},
			"/usr/bin/node a.js",
		},
		{
			"byte order mark",
			app.Config{Main: "a.js"},
			tree{"a.js": "", "package.json": "\uFEFF" + withDeps},
			"javascript",
			[]string{"/usr/bin/npm install --no-package-lock" + npmFlags + " --omit=dev"},
			"/usr/bin/node a.js",
		},
		{
			"optional packages",
			app.Config{Main: "a.js"},
			tree{"a.js": "", "package.json": `{"optionalDependencies": {"a": "1"}}`},
			"javascript",
			[]string{"/usr/bin/npm install --no-package-lock" + npmFlags + " --omit=dev"},
			"/usr/bin/node a.js",
		},
		{
			"lock file",
			app.Config{Main: "a.js"},
			tree{"a.js": "", "package.json": withDeps, "package-lock.json": ""},
			"javascript",
			[]string{"/usr/bin/npm ci" + npmFlags + " --omit=dev"},
			"/usr/bin/node a.js",
		},
		{
			"shrinkwrap",
			app.Config{Main: "a.js"},
			tree{"a.js": "", "package.json": withDeps, "npm-shrinkwrap.json": ""},
			"javascript",
			[]string{"/usr/bin/npm ci" + npmFlags + " --omit=dev"},
			"/usr/bin/node a.js",
		},
		{
			"dev packages alone",
			app.Config{Main: "a.js"},
			tree{"a.js": "", "package.json": withDev},
			"javascript", nil, "/usr/bin/node a.js",
		},
		{
			"dev packages for BUILD",
			app.Config{Main: "a.js", Build: "npm run build && true"},
			tree{"a.js": "", "package.json": withDev},
			"javascript",
			[]string{"/usr/bin/npm install --no-package-lock" + npmFlags, nodePath + "npm run build && true"},
			"/usr/bin/node a.js",
		},
		{
			"BUILD makes MAIN",
			app.Config{Main: "dist/a.js", Build: "tsc"},
			tree{"package.json": withDev},
			"javascript",
			[]string{"/usr/bin/npm install --no-package-lock" + npmFlags, nodePath + "tsc"},
			"/usr/bin/node dist/a.js",
		},
		{
			"BUILD without packages",
			app.Config{Main: "a.js", Build: "make"},
			tree{"a.js": ""},
			"javascript",
			[]string{"/bin/sh -c make"},
			"/usr/bin/node a.js",
		},
		{
			"START",
			app.Config{Main: "a.js", Start: "node --no-warnings a.js && echo bye"},
			tree{"a.js": ""},
			"javascript", nil, "/bin/sh -c node --no-warnings a.js && echo bye",
		},
		{
			"START of an unknown file",
			app.Config{Main: "a.coffee", Start: "coffee a.coffee"},
			tree{"a.coffee": "", "package.json": withDeps},
			"javascript",
			[]string{"/usr/bin/npm install --no-package-lock" + npmFlags + " --omit=dev"},
			nodePath + "coffee a.coffee",
		},

		// Python
		{"python", app.Config{Main: "main.py"}, tree{"main.py": ""}, "python", nil, "/usr/bin/python3 -u main.py"},
		{"python shebang", app.Config{Main: "bot"}, tree{"bot": "#!/usr/bin/python3 -s\n"}, "python", nil, "/usr/bin/python3 -u bot"},
		{
			"requirements",
			app.Config{Main: "src/main.py"},
			tree{"src/main.py": "", "requirements.txt": "discord.py\n"},
			"python", pip, ".venv/bin/python -u src/main.py",
		},
		{
			"no requirements",
			app.Config{Main: "main.py"},
			tree{"main.py": "", "requirements.txt": "# none\n--no-index\n"},
			"python", nil, "/usr/bin/python3 -u main.py",
		},
		{
			"START with requirements",
			app.Config{Main: "main.py", Start: "python main.py"},
			tree{"main.py": "", "requirements.txt": "a"},
			"python", pip, venvPath + "python main.py",
		},
		{
			"START alone",
			app.Config{Start: "gunicorn web:app"},
			tree{"web.py": "", "requirements.txt": "gunicorn"},
			"python", pip, venvPath + "gunicorn web:app",
		},

		// Others
		{"script", app.Config{Main: "run.sh"}, tree{"run.sh": "echo"}, "shell", nil, "/bin/sh run.sh"},
		{"shebang", app.Config{Main: "run"}, tree{"run": "#!/bin/sh -e\n"}, "shell", nil, "/bin/sh run"},
		{"bash", app.Config{Main: "run.sh"}, tree{"run.sh": "#!/usr/bin/env bash\n"}, "shell", nil, "/usr/bin/bash run.sh"},
		{"START of anything", app.Config{Main: "a.pl", Start: " perl a.pl "}, tree{"a.pl": ""}, "shell", nil, "/bin/sh -c perl a.pl"},
		{"START and nothing", app.Config{Start: "./bot"}, tree{"bot": ""}, "shell", nil, "/bin/sh -c ./bot"},
		{"binary", app.Config{Main: "bin/bot"}, tree{"bin/bot": amd64}, "binary", nil, "./bin/bot"},
		{"binary called .js", app.Config{Main: "bot.js"}, tree{"bot.js": amd64}, "binary", nil, "./bot.js"},
		{
			"BUILD makes a binary",
			app.Config{Main: "bot", Build: "go build -o bot"},
			tree{"main.go": ""},
			"binary",
			[]string{"/bin/sh -c go build -o bot"},
			"./bot",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := &project{source: source{c.files, fullHost}, cfg: c.cfg, arch: "amd64", start: strings.TrimSpace(c.cfg.Start)}
			got, err := p.make(true)
			if err != nil {
				t.Fatal(err)
			}
			samePlan(t, got, c.cfg.Build, c.lang, c.prepare, c.argv)
		})
	}
}

func TestCode(t *testing.T) {
	got, err := Plan(app.Config{Main: "./a.js", Build: "make", Start: "node a.js"}, true, tree{"a.js": ""}, host("node"), "")
	if err != nil {
		t.Fatal(err)
	}
	equal(t, "code", got.Code, app.Code{Main: "a.js", Lang: "javascript", Version: "latest", Start: "node a.js", Build: "make"})
	equal(t, "argv", got.Argv, []string{"/bin/sh", "-c", "node a.js"})
	equal(t, "notes", got.Notes, []string(nil))
}

func TestInferredMain(t *testing.T) {
	for _, c := range []struct {
		name  string
		files tree
		main  string
		start string
	}{
		{"index.js", tree{"index.js": "", "main.py": ""}, "index.js", ""},
		{"src", tree{"src/index.js": ""}, "src/index.js", ""},
		{"python", tree{"bot.py": "", "app.py": ""}, "app.py", ""},
		{"package main", tree{"package.json": `{"main": "./lib/x.js", "scripts": {"start": "y"}}`, "lib/x.js": "", "index.js": ""}, "lib/x.js", ""},
		{"package main absent", tree{"package.json": `{"main": "x.js"}`, "index.js": ""}, "index.js", ""},
		{"package main outside", tree{"package.json": `{"main": "../x.js"}`, "index.js": ""}, "index.js", ""},
		{"package main without ending", tree{"package.json": `{"main": "lib/x"}`, "lib/x.js": ""}, "lib/x.js", ""},
		{"package main of a folder", tree{"package.json": `{"main": "./lib/"}`, "lib/index.js": ""}, "lib/index.js", ""},
		{"start script of the package", tree{"package.json": `{"scripts": {"start": "node ."}}`, "index.js": ""}, "index.js", ""},
		{"start script", tree{"package.json": `{"scripts": {"start": "next start"}}`, "index.js": ""}, "", "npm start"},
		{"start script of a file", tree{"package.json": `{"scripts": {"start": "node ./lib/x.js"}}`, "lib/x.js": ""}, "lib/x.js", ""},
		{"start script of options", tree{"package.json": `{"scripts": {"start": "node -r x y.js"}}`, "y.js": ""}, "", "npm start"},
		{"strange types", tree{"package.json": `{"main": 1, "scripts": {"start": 2}}`, "index.js": ""}, "index.js", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, found := range []bool{false, true} {
				got, err := Plan(app.Config{}, found, c.files, fullHost, "")
				if err != nil {
					t.Fatal(err)
				}
				equal(t, "main", got.Code.Main, c.main)
				equal(t, "start", got.Code.Start, c.start)
				what := "MAIN=" + c.main
				if c.start != "" {
					what = "START=" + c.start
				}
				why := "There is no discloud.config"
				if found {
					why = "discloud.config does not set MAIN"
				}
				equal(t, "notes", got.Notes, []string{why + "; " + what + " is assumed."})
			}
		})
	}
}

func TestRefusals(t *testing.T) {
	for _, c := range []struct {
		name  string
		cfg   app.Config
		files tree
		words []string
	}{
		{"nothing", app.Config{}, tree{"readme": ""}, []string{"cannot tell what to start", "discloud.config does not set MAIN", "index.js", "main.py"}},
		{"absent", app.Config{Main: "x.js"}, tree{}, []string{`cannot find MAIN="x.js" in the archive`, "from the root"}},
		{"the debugger's signal", app.Config{Main: "x.ts", MemorySignal: "SIGUSR1"}, tree{"x.ts": ""}, []string{"starts its debugger", "MEMORY_SIGNAL=SIGUSR2"}},
		{"absent with START", app.Config{Main: "x.js", Start: "node x"}, tree{}, []string{`cannot find MAIN="x.js"`}},
		{"other case", app.Config{Main: "Index.JS"}, tree{"index.js": ""}, []string{"did you mean MAIN=index.js?"}},
		{"other folder", app.Config{Main: "a.js"}, tree{"src/a.js": ""}, []string{"did you mean MAIN=src/a.js?"}},
		{"other depth", app.Config{Main: "bot/x.py"}, tree{"x.py": ""}, []string{"did you mean MAIN=x.py?"}},
		{"not built", app.Config{Main: "dist/x.js"}, tree{"package.json": `{"scripts": {"build": "tsc"}}`, "src/index.ts": ""}, []string{`cannot find MAIN="dist/x.js"`, "set BUILD=npm run build"}},
		{"not built, and another", app.Config{Main: "x.js"}, tree{"package.json": `{"scripts": {"build": "tsc"}}`, "src/x.js": ""}, []string{"did you mean MAIN=src/x.js?"}},
		{"nothing that npm builds", app.Config{Main: "x.py"}, tree{"package.json": `{"scripts": {"build": "tsc"}}`, "main.py": ""}, []string{"did you mean MAIN=main.py?"}},
		{".tsx", app.Config{Main: "a.tsx"}, tree{"a.tsx": ""}, []string{"Node.js cannot run .tsx files by itself", "add tsx"}},
		{"same language first", app.Config{Main: "x.py"}, tree{"index.js": "", "main.py": ""}, []string{"did you mean MAIN=main.py?"}},
		{"other language", app.Config{Main: "x.py"}, tree{"index.js": ""}, []string{"did you mean MAIN=index.js?"}},
		{"absolute", app.Config{Main: "/etc/passwd"}, tree{}, []string{"not a path inside"}},
		{"outside", app.Config{Main: "a/../../x.js"}, tree{}, []string{"not a path inside"}},
		{"backslash", app.Config{Main: `src\x.js`}, tree{}, []string{"not a path inside"}},
		{"control", app.Config{Main: "a\nb.js"}, tree{}, []string{"not a path inside"}},
		{"the root", app.Config{Main: "./"}, tree{}, []string{"not a path inside"}},
		{"unknown", app.Config{Main: "a.lua"}, tree{"a.lua": ""}, []string{"MAIN=a.lua", ".js", ".py", "START"}},
		{"unknown from BUILD", app.Config{Main: "a.lua", Build: "x"}, tree{}, []string{"MAIN=a.lua", "START"}},
		{"source of Java", app.Config{Main: "Bot.java"}, tree{"Bot.java": ""}, []string{"source code", "the .jar"}},
		{"class of Java", app.Config{Main: "Bot.class"}, tree{"Bot.class": "\xca\xfe\xba\xbe"}, []string{"one class", "a jar", "START=java"}},
		{"unknown interpreter", app.Config{Main: "a"}, tree{"a": "#!/usr/bin/env -S perl -w\n"}, []string{"a script for perl", "START"}},
		{"no interpreter", app.Config{Main: "a"}, tree{"a": "#! \n"}, []string{"START"}},
		{"bad package.json", app.Config{Main: "a.js"}, tree{"a.js": "", "package.json": "{\n\n\"a\": }"}, []string{"package.json is not valid JSON, line 3"}},
		{"odd package.json", app.Config{Main: "a.js"}, tree{"a.js": "", "package.json": "[]"}, []string{"package.json is not a JSON object"}},
		{"bad package.json, no MAIN", app.Config{}, tree{"index.js": "", "package.json": "{"}, []string{"package.json is not valid JSON"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := Plan(c.cfg, true, c.files, fullHost, "")
			refused(t, err, c.words...)
		})
	}
	_, err := Plan(app.Config{}, false, tree{}, fullHost, "")
	refused(t, err, "there is no discloud.config, and", "write MAIN= and the path of the file to start")
}

// What goes before a console command is what goes before START.
func TestPrelude(t *testing.T) {
	for _, c := range []struct {
		main  string
		files tree
		want  string
	}{
		{"a.py", tree{"requirements.txt": "flask"}, venvPath},
		{"a.py", nil, alias},
		{"a.js", tree{"package.json": withDeps}, nodePath},
		{"a.js", nil, "/bin/sh -c "},
	} {
		files := tree{c.main: ""}
		maps.Copy(files, c.files)
		got, err := Plan(app.Config{Main: c.main}, true, files, everything, "")
		if err != nil || "/bin/sh -c "+got.Prelude != c.want {
			t.Errorf("%s with %v: %q, %v; want %q", c.main, c.files, got.Prelude, err, c.want)
		}
	}
}
