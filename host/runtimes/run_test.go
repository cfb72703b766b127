package runtimes

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"berth/app"
)

// machine is this machine, as the daemon sees it in its own PATH.
type machine struct{}

func (machine) Find(name string) (path, hidden string) {
	path, _ = exec.LookPath(name)
	return path, ""
}

func (machine) Version(string) string { return "" }

func (machine) Installed(string) []string { return nil }

func (m machine) With(string, string) Tools { return m }

func (machine) Images() bool { return false }

func (machine) Path() string { return os.Getenv("PATH") }

func (machine) Lacks(packages []string) ([]string, bool) { return packages, false }

// carryOut prepares files in a fresh directory as their plan says, runs the
// program to its end and returns what it printed.
func carryOut(t *testing.T, cfg app.Config, files tree, needs ...string) string {
	t.Helper()
	for _, name := range needs {
		if path, _ := (machine{}).Find(name); path == "" {
			t.Skipf("this machine has no %s", name)
		}
	}
	dir := t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	plan, err := Plan(cfg, true, files, machine{}, "")
	if err != nil {
		t.Fatal(err)
	}
	for _, step := range plan.Prepare {
		command(t, dir, step.Argv, step.Env)
	}
	return command(t, dir, plan.Argv, plan.Env)
}

// command runs one command of a plan in dir and returns what it printed.
func command(t *testing.T, dir string, argv, env []string) string {
	t.Helper()
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Dir = dir
	if !filepath.IsAbs(argv[0]) {
		cmd.Path = filepath.Join(dir, argv[0])
	}
	cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir(), "TMPDIR=" + t.TempDir()}, env...)
	var errs strings.Builder
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%q: %v\n%s%s", argv, err, out, errs.String())
	}
	return string(out)
}

func TestPythonPlanRuns(t *testing.T) {
	files := load(t, filepath.Join(examples, "python-bot"))
	files["main.py"] = "import sys, berth_greeting\nprint(berth_greeting.greeting('a test'), sys.argv[1:])\n"
	for _, c := range []struct{ start, want string }{
		{"", "hello from a package installed by a test []\n"},
		// There may be no "python" on the host at all.
		{"python main.py 1 && python -c 'print(2)'", "hello from a package installed by a test ['1']\n2\n"},
	} {
		got := carryOut(t, app.Config{Main: "main.py", Start: c.start}, files, "python3")
		equal(t, "START="+c.start, got, c.want)
	}
}

// A package that is a folder of the tree is installed without a network.
func TestJavaScriptPlanRuns(t *testing.T) {
	files := tree{
		"package.json":       `{"dependencies": {"hello": "file:./hello"}, "devDependencies": {"tool": "file:./tool"}}`,
		"hello/package.json": `{"name": "hello", "version": "1.0.0"}`,
		"hello/index.js":     "module.exports = 'hello';",
		"tool/package.json":  `{"name": "tool", "version": "1.0.0", "bin": {"make-it": "make.js"}}`,
		"tool/make.js":       "#!/usr/bin/env node\nrequire('fs').cpSync('src', 'dist', {recursive: true});\nif (process.env.NODE_ENV) throw 'NODE_ENV';",
		"src/index.js":       "console.log(require('hello'), process.env.NODE_ENV, require('fs').existsSync('node_modules/tool'));",
	}
	got := carryOut(t, app.Config{Main: "src/index.js"}, files, "node", "npm")
	equal(t, "without BUILD", got, "hello production false\n")
	got = carryOut(t, app.Config{Main: "dist/index.js", Build: "make-it"}, files, "node", "npm")
	equal(t, "with BUILD", got, "hello production true\n")
}

func TestOtherPlansRun(t *testing.T) {
	echo, err := os.ReadFile("/bin/echo")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name  string
		cfg   app.Config
		files tree
		want  string
	}{
		{"script", app.Config{Main: "run.sh"}, tree{"run.sh": "echo $0"}, "run.sh\n"},
		{"script like an option", app.Config{Main: "-c"}, tree{"-c": "#!/bin/sh\necho $0"}, "./-c\n"},
		{"binary", app.Config{Main: "bin/echo"}, tree{"bin/echo": string(echo)}, "\n"},
		{"BUILD then START", app.Config{Build: "echo made > it; true", Start: "cat it && echo done"}, tree{}, "made\ndone\n"},
		{"BUILD makes MAIN", app.Config{Main: "run", Build: "cp tmpl run"}, tree{"tmpl": "#!/bin/sh\necho built"}, "built\n"},
	} {
		t.Run(c.name, func(t *testing.T) { equal(t, c.name, carryOut(t, c.cfg, c.files), c.want) })
	}
}
