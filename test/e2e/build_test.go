package e2e

import (
	"io"
	"io/fs"
	"os"
	"strings"
	"syscall"
	"testing"

	"berth/test/harness"
)

// ownerOf is the uid of a file.
func ownerOf(info fs.FileInfo) int { return int(info.Sys().(*syscall.Stat_t).Uid) }

// pidNamed is the one process of an application whose command line holds a
// word; builds run beside it.
func (d *daemon) pidNamed(id, word string) int {
	d.T.Helper()
	for _, p := range d.Of(id) {
		if strings.Contains(p.Command, word) {
			return p.PID
		}
	}
	d.T.Errorf("%s does not run: %v", word, d.Of(id))
	return 0
}

// stalled is a body of which nothing more comes, until its client gives up.
type stalled struct {
	io.Reader
	stalled <-chan struct{}
}

func (s *stalled) Read(p []byte) (int, error) {
	if n, err := s.Reader.Read(p); err == nil {
		return n, nil
	}
	<-s.stalled
	return 0, io.ErrUnexpectedEOF
}

func (s *stalled) Close() error { return nil }

// TestPythonPackages installs a wheel of the ZIP by a commit: the environment
// is made in a copy and must know only the place where it will be.
func TestPythonPackages(t *testing.T) {
	t.Parallel()
	d := launch(t)
	c := d.account("ana", 200)
	id := c.Upload(harness.PythonBot("print('plain')\n" + harness.IdlePython))
	if harness.Exists(t, d.Path(id, ".venv")) {
		t.Error("an environment was made for nothing")
	}
	bot := example(t, "python-bot")
	bot["main.py"] = `import subprocess, sys, berth_greeting
print("prefix", sys.prefix)
print("pip", subprocess.run([".venv/bin/pip", "--version"], capture_output=True, text=True).stdout.strip())
print("installed")
` + harness.IdlePython
	a := c.Commit(id, bot).Want(200, "status", "ok")
	a.Says("logs", "berth_greeting")
	log := c.UntilLog(id, "Z installed\n")
	if !strings.Contains(log, "prefix "+d.Path(id, ".venv")+"\n") || !strings.Contains(log, "from "+d.Path(id, ".venv")+"/lib") {
		t.Errorf("the program does not run in its environment: %s", log)
	}
	pip, err := os.ReadFile(d.Path(id, ".venv", "bin", "pip"))
	if err != nil || !strings.HasPrefix(string(pip), "#!"+d.Path(id, ".venv", "bin", "python")) {
		t.Errorf("pip begins with %.80q, %v, want the live path", pip, err)
	}
	// The environment survives a commit of code alone, and a backup.
	c.Commit(id, harness.Files{"main.py": "import berth_greeting\nprint('second')\n" + harness.IdlePython}).Want(200)
	c.UntilLog(id, "second")
	c.Commit(id, bot.With("requirements.txt", "./wheels/no-such-1.0-py3-none-any.whl\n")).Want(422).Says("message", "pip could not install")
	c.Info(id).Want(200, "apps.online", true)
}

// TestNodePackages installs a file: dependency with a lock, offline, and
// devDependencies when there is a BUILD that needs them.
func TestNodePackages(t *testing.T) {
	t.Parallel()
	harness.Needs(t, "npm")
	d := launch(t)
	owner := d.account("ana", 400)
	greet := harness.Files{
		"greet/package.json": `{"name":"greet","version":"1.0.0","main":"index.js","bin":{"make-it":"make.js"}}`,
		"greet/index.js":     "module.exports = () => 'greetings'",
		"greet/make.js":      "#!/usr/bin/env node\nrequire('fs').writeFileSync('made.js', 'module.exports = ' + JSON.stringify(process.env.NODE_ENV || 'none'))",
		"package-lock.json": `{"name":"x","version":"1.0.0","lockfileVersion":3,"requires":true,"packages":{
"":{"name":"x","version":"1.0.0","KIND":{"greet":"file:greet"}},
"greet":{"version":"1.0.0"LOCK,"bin":{"make-it":"make.js"}},"node_modules/greet":{"resolved":"greet","link":true}}}`,
		"package.json": `{"name":"x","version":"1.0.0","KIND":{"greet":"file:greet"}}`,
	}
	for _, tt := range []struct {
		name, kind, lock string
		lines            []string
		code, log        string
	}{
		{"dependencies", "dependencies", "", nil, "console.log(require('greet')())\n", "greetings"},
		{
			"devDependencies", "devDependencies", `,"dev":true`,
			[]string{"BUILD=npx make-it"},
			"console.log('built under', require('./made.js'), 'runs under', process.env.NODE_ENV)\n", "built under none runs under production",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			c := owner.in(t)
			f := harness.NodeBot(tt.code+harness.IdleNode, tt.lines...)
			for name, content := range greet {
				f[name] = strings.NewReplacer("KIND", tt.kind, "LOCK", tt.lock).Replace(content)
			}
			id := c.Upload(f)
			c.UntilLog(id, tt.log)
			c.Info(id).Want(200, "apps.online", true, "apps.lang", "javascript")
			c.Commit(id, f.With("index.js", "console.log('again')\n"+f["index.js"])).Want(200)
			if log := c.UntilLog(id, "again"); strings.Count(log, "Error") > 0 {
				t.Errorf("the log is %s", log)
			}
			c.Until(id, "apps.online", true)
		})
	}
}

// TestPackagesWithoutALock: clients leave lock files out of their ZIPs, so a
// commit that asks for one more package must not meet an old lock. What npm
// keeps for itself is no part of the application.
func TestPackagesWithoutALock(t *testing.T) {
	t.Parallel()
	harness.Needs(t, "npm")
	d := launch(t)
	c := d.account("ana", 400)
	pkg := func(name string) harness.Files {
		return harness.Files{
			name + "/package.json": `{"name":"` + name + `","version":"1.0.0"}`,
			name + "/index.js":     "module.exports = '" + name + "'",
		}
	}
	one := harness.NodeBot("console.log('has', require('foo'))\n"+harness.IdleNode).With("package.json", `{"dependencies":{"foo":"file:./foo"}}`)
	for name, content := range pkg("foo") {
		one[name] = content
	}
	id := c.Upload(one)
	c.UntilLog(id, "has foo")
	two := harness.Files{
		"package.json": `{"dependencies":{"foo":"file:./foo","bar":"file:./bar"}}`,
		"index.js":     "console.log('has', require('foo'), require('bar'))\n" + harness.IdleNode,
	}
	for name, content := range pkg("bar") {
		two[name] = content
	}
	c.Commit(id, two).Want(200, "status", "ok")
	c.UntilLog(id, "has foo bar")
	for _, name := range []string{"package-lock.json", ".npm", ".cache"} {
		if harness.Exists(t, d.Path(id, name)) {
			t.Errorf("%s is in the application's directory", name)
		}
	}
	if !harness.Exists(t, d.Path(id, "node_modules", ".package-lock.json")) {
		t.Error("npm has left no mark in node_modules: a backup would hold it all")
	}
}

// TestBuildCannotStay: what a build leaves running is ended with it, and a
// build that takes too long as well.
func TestBuildCannotStay(t *testing.T) {
	t.Parallel()
	d := launch(t, "--build-timeout", "1s")
	c := d.account("ana", 200)
	id := c.Upload(harness.NodeBot(harness.IdleNode, "BUILD=setsid sleep 4321 >/dev/null 2>&1 & echo done"))
	for _, p := range d.Of(id) {
		if strings.Contains(p.Command, "4321") {
			t.Errorf("left running: %v", p)
		}
	}
	pid := d.PID(id)
	c.Commit(id, harness.NodeBot(harness.IdleNode, "BUILD=echo slow; sleep 1000")).Want(422).Says("message", "it took longer than 1s").Says("logs", "slow")
	if now := d.PID(id); now != pid {
		t.Errorf("the old program was %d and is %d", pid, now)
	}
}
