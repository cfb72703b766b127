package runtimes

import (
	"slices"
	"strings"
	"testing"

	"berth/app"
)

func TestMissingPrograms(t *testing.T) {
	for _, c := range []struct {
		name  string
		cfg   app.Config
		files tree
		tools tools
		want  string // "" when the plan needs nothing that is missing
	}{
		{"node", app.Config{Main: "a.js"}, tree{"a.js": ""}, host("npm"), "no Node.js: the owner can install it with: apt install nodejs npm"},
		{"npm", app.Config{Main: "a.js"}, tree{"a.js": "", "package.json": withDeps}, host("node"), "no npm"},
		{"npm not needed", app.Config{Main: "a.js"}, tree{"a.js": "", "package.json": "{}"}, host("node"), ""},
		{"npm start", app.Config{}, tree{"package.json": `{"scripts": {"start": "x"}}`}, host("node"), "no npm"},
		{"npm in START", app.Config{Start: "npm start"}, tree{"package.json": "{}"}, host(), ""},
		{"python", app.Config{Main: "a.py"}, tree{"a.py": ""}, host(), "no Python: the owner can install it with: apt install python3"},
		{"python for packages", app.Config{Main: "a.py", Start: "x"}, tree{"a.py": "", "requirements.txt": "a"}, host(), "no Python"},
		{"START", app.Config{Main: "a.py", Start: "pypy a.py"}, tree{"a.py": ""}, host(), ""},
		{"shell", app.Config{Main: "a.sh"}, tree{"a.sh": "#!/bin/bash"}, host(), ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := Plan(c.cfg, true, c.files, c.tools, "")
			if c.want != "" {
				refused(t, err, c.want)
			} else if err != nil {
				t.Error(err)
			}
		})
	}
}

func TestEnvironment(t *testing.T) {
	got, err := Plan(app.Config{Main: "a.js", Build: "x"}, true, tree{"a.js": "", "package.json": withDeps}, fullHost, "")
	if err != nil {
		t.Fatal(err)
	}
	equal(t, "run", got.Env, runEnv)
	for _, s := range got.Prepare {
		equal(t, "build", s.Env, buildEnv)
	}
	got, err = Plan(app.Config{Main: "a.py"}, true, tree{"a.py": "", "requirements.txt": "x"}, fullHost, "")
	if err != nil {
		t.Fatal(err)
	}
	equal(t, "run", got.Env, runEnv)
	for _, v := range buildEnv {
		if strings.HasPrefix(v, "NODE_ENV=") {
			t.Error("npm would leave out what BUILD needs")
		}
	}
	got, err = Plan(app.Config{Main: "a.rb"}, true, tree{"a.rb": "", "Gemfile": "gem 'a'"}, everything, "")
	if err != nil {
		t.Fatal(err)
	}
	gems := []string{"BUNDLE_PATH=vendor/bundle", "BUNDLE_BIN=vendor/bundle/bin", "BUNDLE_WITHOUT=development:test"}
	equal(t, "run", got.Env, append(slices.Clone(runEnv), gems...))
	equal(t, "build", got.Prepare[0].Env, append(slices.Clone(buildEnv), gems...))

	// A plan is the caller's to change.
	got.Env[0] = "changed"
	equal(t, "the table", runEnv[0], "NODE_ENV=production")
}

func TestNotes(t *testing.T) {
	files := tree{"a.js": "", "a.sh": ""}
	for _, c := range []struct {
		cfg  app.Config
		want []string
	}{
		{app.Config{Main: "a.js"}, nil},
		{app.Config{Main: "a.js", Version: "latest"}, nil},
		{app.Config{Main: "a.js", Version: "suja"}, nil},
		{app.Config{Main: "a.js", Version: "16"}, []string{"VERSION=16 was asked for; this host runs its one installed version of Node.js; ask the owner of this host to install it with: berth runtime install node 16"}},
		{app.Config{Main: "a.sh", Version: "16"}, []string{"VERSION=16 was asked for; it means nothing here."}},
		{
			app.Config{Main: "a.js", Keys: []string{"MAIN", "VLAN", "MIAN", strings.Repeat("X", 50)}, Lines: []int{1, 2, 3, 4}},
			[]string{
				"discloud.config line 2: VLAN is ignored: programs here share no private network.",
				"discloud.config line 3: MIAN is ignored: berth knows MAIN, TYPE, RAM, VERSION, NAME, AVATAR, ID, START, BUILD, AUTORESTART, APT, HEALTH, MEMORY_SIGNAL, STDIN.",
				"discloud.config line 4: " + strings.Repeat("X", 40) + "... is ignored: berth knows MAIN, TYPE, RAM, VERSION, NAME, AVATAR, ID, START, BUILD, AUTORESTART, APT, HEALTH, MEMORY_SIGNAL, STDIN.",
			},
		},
		{app.Config{Main: "b.js", Build: "x"}, []string{`MAIN="b.js" is not in the archive; BUILD is expected to make it.`}},
	} {
		got, err := Plan(c.cfg, true, files, fullHost, "")
		if err != nil {
			t.Fatal(err)
		}
		equal(t, "notes", got.Notes, c.want)
	}
}

func TestUnreadableTreeIsInternal(t *testing.T) {
	for _, cfg := range []app.Config{{Main: "a.js"}, {Start: "x"}} {
		for _, files := range []tree{{"a.js": "", "package.json": ""}, {"requirements.txt": ""}} {
			if cfg.Main != "" && !files.Exists(cfg.Main) {
				continue
			}
			if _, err := Plan(cfg, true, broken{files}, fullHost, ""); err == nil || app.KindOf(err) != app.Internal {
				t.Errorf("%v: %v", cfg.Main, err)
			}
		}
	}
}

func TestLockOfAnOlderPackageIsNotUsed(t *testing.T) {
	files := tree{"index.js": "", "package.json": `{"dependencies":{"a":"1"}}`, "package-lock.json": "{}"}
	for _, tt := range []struct {
		name    string
		brought []string
		want    string
	}{
		{"both are new", []string{"package.json", "package-lock.json"}, "ci"},
		{"both are old", []string{"index.js"}, "ci"},
		{"the lock alone is new", []string{"package-lock.json"}, "ci"},
		{"package.json alone is new", []string{"package.json"}, "install"},
	} {
		got, err := Plan(app.Config{Main: "index.js", Keys: []string{"MAIN"}}, true, half{files, tt.brought}, fullHost, "")
		if err != nil || len(got.Prepare) != 1 || got.Prepare[0].Argv[1] != tt.want {
			t.Errorf("%s: %+v, %v; want npm %s", tt.name, got.Prepare, err, tt.want)
		}
	}
}
