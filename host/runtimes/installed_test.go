package runtimes

import (
	"strings"
	"testing"

	"berth/app"
)

// rich is Debian with what its owner installed beside it.
var rich = debian.with("+node", "22.11.0 22.3.5 18.20.4 24.1.0").with("+python", "3.12.8 3.9.20").with("+deno", "2.1.4").with("+java", "21.0.5")

func TestVERSIONAmongInstalled(t *testing.T) {
	bare := rich.without("node", "npm", "python3", "java")
	for _, c := range []struct {
		main, version string
		host          tools
		command       string // that starts it
	}{
		{"a.js", "22", rich, "/r/node/22.11.0/bin/node"},
		{"a.js", "22.x.x", rich, "/r/node/22.11.0/bin/node"},
		{"a.js", "22.3", rich, "/r/node/22.3.5/bin/node"},
		{"a.js", "22.3.5", rich, "/r/node/22.3.5/bin/node"},
		{"a.js", "v22", rich, "/r/node/22.11.0/bin/node"},
		{"a.js", ">=22 <24", rich, "/r/node/22.11.0/bin/node"},
		{"a.js", ">=18", rich, "/r/node/24.1.0/bin/node"},
		{"a.js", "18.20.4", rich, "/r/node/18.20.4/bin/node"},
		{"a.js", "20", rich, "/usr/bin/node"},
		{"a.js", "20", rich.with("+node", "20.20.2 20.20.1"), "/usr/bin/node"},
		{"a.js", "20", rich.with("+node", "20.20.3"), "/r/node/20.20.3/bin/node"},
		{"a.js", "20", rich.with("node", ""), "/usr/bin/node"}, // nobody knows
		{"a.js", "22", rich.with("node", ""), "/r/node/22.11.0/bin/node"},
		// What runs without a number goes on with the distribution's.
		{"a.js", "", rich, "/usr/bin/node"},
		{"a.js", "latest", rich, "/usr/bin/node"},
		{"a.js", "legacy", rich, "/usr/bin/node"},
		{"a.js", "", bare, "/r/node/24.1.0/bin/node"},
		{"a.js", "lts", bare, "/r/node/24.1.0/bin/node"},
		{"a.js", "22", bare, "/r/node/22.11.0/bin/node"},
		{"a.py", "3.12", rich, "/r/python/3.12.8/bin/python3"},
		{"a.py", "3", rich, "/r/python/3.12.8/bin/python3"},
		{"a.py", "3.9.20", rich, "/r/python/3.9.20/bin/python3"},
		{"a.py", "3.11", rich, "/usr/bin/python3"},
		{"a.py", "", bare, "/r/python/3.12.8/bin/python3"},
		{"a.jar", "21", rich, "/r/java/21.0.5/bin/java"},
		{"a.rb", "3.1", rich, "/usr/bin/ruby"},
	} {
		t.Run(c.main+" "+c.version, func(t *testing.T) {
			files := tree{c.main: "", "discloud.config": ""}
			got, err := Plan(app.Config{Main: c.main, Version: c.version}, true, files, c.host, "")
			if err != nil {
				t.Fatal(err)
			}
			equal(t, "command", got.Argv[0], c.command)
			path := ""
			for _, v := range got.Env {
				if value, is := strings.CutPrefix(v, "PATH="); is {
					path = value
				}
			}
			dir := c.command[:strings.LastIndex(c.command, "/")]
			if dir == "/usr/bin" != (path == "") || path != "" && !strings.HasPrefix(path, dir+":") {
				t.Errorf("PATH is %q", path)
			}
			want := ""
			if in, is := strings.CutPrefix(dir, "/r/"); is {
				want = strings.Replace(strings.TrimSuffix(in, "/bin"), "/", " ", 1)
			}
			equal(t, "runtime", got.Runtime, want)
			runtime, version, ok := Uses(got.Code, c.host)
			if ok != (dir != "/usr/bin") || ok && dir != "/r/"+runtime+"/"+version+"/bin" {
				t.Errorf("Uses: %s %s %v", runtime, version, ok)
			}
			if said, there := c.host["node"]; c.version != "legacy" && (said != "" || !there) {
				equal(t, "notes", got.Notes, []string(nil))
			}
		})
	}
}

// An upload that asks for what is not there is refused; what was deployed goes on.
func TestVERSIONThatIsNotThere(t *testing.T) {
	for _, c := range []struct {
		main, version string
		host          tools
		words         string
		runs          string // what was deployed; "" for a refusal
	}{
		{"a.js", "16", rich, "VERSION=16 asks for Node.js, and this host has 24.1.0, 22.11.0, 22.3.5, 20.20.2, 18.20.4: ask its owner to install it with: berth runtime install node 16; VERSION=latest", "/usr/bin/node"},
		{"a.js", "22.12", rich, "install it with: berth runtime install node 22.12;", "/usr/bin/node"},
		{"a.js", "23.x.x", rich, "berth runtime install node 23;", "/usr/bin/node"},
		{"a.js", "22", debian, "and this host has 20.20.2: ask", "/usr/bin/node"},
		{"a.js", "22", debian.without("node"), "VERSION=22 asks for Node.js, and this host has none: ask its owner to install it with: berth runtime install node 22", ""},
		{"a.js", "16", rich.without("node"), "this host has 24.1.0, 22.11.0, 22.3.5, 18.20.4", ""},
		{"a.py", "3.13", rich, "berth runtime install python 3.13", "/usr/bin/python3"},
		{"a.jar", "17.0.2", rich, "berth runtime install java 17.0.2", "/usr/bin/java"},
	} {
		cfg := app.Config{Main: c.main, Version: c.version}
		files := tree{c.main: "", "discloud.config": ""}
		_, err := Plan(cfg, true, files, c.host, "")
		refused(t, err, c.words)
		got, err := Plan(cfg, true, half{files, nil}, c.host, "")
		if c.runs == "" {
			refused(t, err, c.words)
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		equal(t, "command", got.Argv[0], c.runs)
		if len(got.Notes) != 1 || got.Runs != got.Notes[0] || !strings.Contains(got.Runs, "VERSION="+c.version+" was asked for; this host runs ") {
			t.Errorf("notes: %q, runs %q", got.Notes, got.Runs)
		}
	}
	// Ruby is what the distribution has.
	got, err := Plan(app.Config{Main: "a.rb", Version: "3.3"}, true, tree{"a.rb": "", "discloud.config": ""}, rich, "")
	if err != nil || len(got.Notes) != 1 {
		t.Errorf("%q, %v", got.Notes, err)
	}
}

// Packages are installed by the tools of the runtime that starts the program.
func TestPackagesOfTheChosenRuntime(t *testing.T) {
	node := tree{"a.js": "", "package.json": `{"dependencies": {"x": "1"}, "engines": {"node": ">=22"}}`, "discloud.config": ""}
	got, err := Plan(app.Config{Main: "a.js", Version: "22"}, true, node, rich, "")
	if err != nil {
		t.Fatal(err)
	}
	if step := got.Prepare[0]; step.Argv[0] != "/r/node/22.11.0/bin/npm" || step.Env[len(step.Env)-1] != "PATH=/r/node/22.11.0/bin:/usr/bin" {
		t.Errorf("%q", step)
	}
	own, err := Plan(app.Config{Main: "a.js", Version: "24"}, true, node, rich, got.Code.Packages)
	if err != nil || len(own.Prepare) == 0 {
		t.Errorf("packages of another version are kept: %v", err)
	}
	_, err = Plan(app.Config{Main: "a.js"}, true, node, rich, "")
	refused(t, err, "asks for Node.js >=22, and this host has 20.20.2", "VERSION=24.1.0")

	python := tree{"a.py": "", "requirements.txt": "x\n", "discloud.config": ""}
	for home, clear := range map[string]bool{"": false, "/r/python/3.12.8/bin": false, "/usr/bin": true, "/r/python/3.12.7/bin": true} {
		files := tree{".venv/pyvenv.cfg": "home = " + home + "\nversion = 3\n"}
		for name, text := range python {
			files[name] = text
		}
		got, err := Plan(app.Config{Main: "a.py", Version: "3.12"}, true, files, rich, "")
		if err != nil {
			t.Fatal(err)
		}
		want := "/r/python/3.12.8/bin/python3 -m venv .venv"
		if clear {
			want = "/r/python/3.12.8/bin/python3 -m venv --clear .venv"
		}
		equal(t, "home="+home, argvs(got)[1], want)
	}
}

// What a removed Python installed does not start, and a deployment mends it.
func TestPackagesOfARemovedPython(t *testing.T) {
	files := tree{"a.py": "", "requirements.txt": "x\n", "discloud.config": "", ".venv/pyvenv.cfg": "home = /var/lib/berth/runtimes/python/3.12.7/bin\n"}
	cfg := app.Config{Main: "a.py", Version: "3.12"}
	_, err := Plan(cfg, true, half{files, nil}, rich, "")
	refused(t, err, "installed with Python 3.12.7, which this host does not have any more: upload the application again", "berth runtime install python 3.12.7")
	if _, err := Plan(cfg, true, half{files, []string{"a.py"}}, rich, ""); err != nil {
		t.Error(err)
	}
	if _, err := Plan(cfg, true, half{files, nil}, rich.with("+python", "3.12.8 3.12.7"), ""); err != nil {
		t.Error(err)
	}
}

// START names the language where no file shows it.
func TestSTARTWithAnInstalledRuntime(t *testing.T) {
	for _, c := range []struct{ start, path string }{
		{"node x.mjs", "PATH=/r/node/22.11.0/bin:/usr/bin"}, {"npm start", "PATH=/r/node/22.11.0/bin:/usr/bin"}, {"./x", ""}, {"ruby x", ""},
	} {
		got, err := Plan(app.Config{Start: c.start, Version: "22"}, true, tree{"discloud.config": ""}, rich, "")
		if err != nil {
			t.Fatal(err)
		}
		path := ""
		for _, v := range got.Env {
			if strings.HasPrefix(v, "PATH=") {
				path = v
			}
		}
		equal(t, c.start, path, c.path)
		equal(t, c.start, got.Runtime, map[bool]string{true: "node 22.11.0"}[c.path != ""])
	}
	if got, err := Plan(app.Config{Start: "python bot.py", Version: "3.12"}, true, tree{}, rich, ""); err != nil || got.Env[len(got.Env)-1] != "PATH=/r/python/3.12.8/bin:/usr/bin" {
		t.Errorf("%q, %v", got.Env, err)
	}
}

// Deno and Bun may be there by berth runtime install alone.
func TestInstalledDeno(t *testing.T) {
	got, err := Plan(app.Config{Main: "a.js"}, true, tree{"a.js": "", "deno.json": "", "package.json": "{}"}, rich, "")
	if err != nil {
		t.Fatal(err)
	}
	equal(t, "argv", strings.Join(got.Argv, " "), "/r/deno/2.1.4/bin/deno run --allow-all a.js")
}

// A program that needs no runtime has none, and so does one that was deployed when its VERSION was there.
func TestNoRuntimeIsChosen(t *testing.T) {
	for _, main := range []string{"a.sh", "a.js", "a.rb"} {
		files := half{tree{main: "", "discloud.config": ""}, nil}
		got, err := Plan(app.Config{Main: main, Version: "16"}, true, files, rich, "")
		if err != nil {
			t.Fatal(err)
		}
		equal(t, main, got.Runtime, "")
	}
}
