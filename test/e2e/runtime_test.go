package e2e

import (
	"crypto/sha256"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"berth/test/harness"
)

// TestInstalledNode takes Node.js from a mirror of its publisher, while a daemon serves
// that has never heard of it.
func TestInstalledNode(t *testing.T) {
	t.Parallel()
	out, err := exec.Command("../scripts/node").Output()
	if err != nil {
		harness.Ready(t, "needs Node.js 22, which test/scripts/node fetches from npm: "+err.Error())
	}
	archive, err := os.ReadFile(strings.TrimSpace(string(out)))
	if err != nil {
		t.Fatal(err)
	}
	const name = "node-v22.11.0-linux-x64.tar.gz"
	mirror := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/index.json":
			fmt.Fprint(w, `[{"version":"v22.11.0","files":["linux-x64"]}]`)
		case "/v22.11.0/SHASUMS256.txt":
			fmt.Fprintf(w, "%x  %s\n", sha256.Sum256(archive), name)
		case "/v22.11.0/" + name:
			_, _ = w.Write(archive)
		default:
			http.NotFound(w, r)
		}
	}))
	defer mirror.Close()
	d := launch(t)
	c := d.account("ana", 500)
	bot := harness.NodeBot(`console.log('version ' + process.version + ' of ' + process.execPath + '; installed by ' + require('tool').by)
console.log('child ' + require('child_process').execFileSync('node', ['--version']))
try { require('fs').writeFileSync(process.execPath + '.js', '') } catch (e) { console.log('write: ' + e.code) }
`+harness.IdleNode, "VERSION=22", "RAM=150").With("package.json", `{"dependencies": {"tool": "file:./tool"}}`).
		With("tool/package.json", `{"name": "tool", "version": "1.0.0", "main": "made.js", "scripts": {"install": "node make.js"}}`).
		With("tool/make.js", "require('fs').writeFileSync('made.js', 'exports.by = ' + JSON.stringify(process.version))")
	c.Post(bot.Zip()).Want(422).Says("message", "VERSION=22 asks for Node.js, and this host has ", "berth runtime install node 22")
	host := c.Upload(harness.NodeBot("console.log('version ' + process.version)\n" + harness.IdleNode))
	hosts := c.UntilLog(host, "version v")
	if strings.Contains(hosts, "v22.11.0") {
		t.Skip("this machine's own Node.js is that version")
	}

	d.runtime("BERTH_RUNTIMES_NODE="+mirror.URL, "install", "node", "22")
	id := c.Upload(bot)
	c.UntilLog(id, "version v22.11.0 of "+d.Data+"/runtimes/node/22.11.0/bin/node; installed by v22.11.0\n")
	log := c.UntilLog(id, "write: ")
	if !strings.Contains(log, "child v22.11.0") || !strings.Contains(log, "write: EROFS") && !strings.Contains(log, "write: EACCES") {
		t.Errorf("%s", log)
	}
	// Who asked for nothing goes on with what there was.
	c.Put("/app/"+host+"/restart", "").Want(200)
	c.Until(host, "apps.online", true)
	if log := c.Log(host); strings.Contains(log, "v22.11.0") {
		t.Errorf("a program without VERSION runs another Node.js: %s", log)
	}
	code, _, stderr := d.Run("runtime", "remove", "node", "22.11.0", "--data-dir", d.Data)
	if code == 0 || !strings.Contains(stderr, "cannot remove node 22.11.0: it is used by "+id) {
		t.Errorf("exit %d, said %s", code, stderr)
	}
	// Gone in another way, the program starts with what there is, and its log says so.
	if err := os.RemoveAll(filepath.Join(d.Data, "runtimes", "node", "22.11.0")); err != nil {
		t.Fatal(err)
	}
	c.Put("/app/"+id+"/restart", "").Want(200)
	c.UntilLog(id, "VERSION=22 was asked for; this host runs Node.js ")
	c.Delete(id)
}

// runtime runs berth runtime with a variable in its environment.
func (d *daemon) runtime(variable string, args ...string) {
	d.T.Helper()
	cmd := d.Command(append([]string{"runtime"}, append(args, "--data-dir", d.Data)...)...)
	cmd.Env = append(harness.CleanEnv(), variable)
	if out, err := cmd.CombinedOutput(); err != nil {
		d.T.Fatalf("runtime %s: %v: %s", args, err, out)
	}
}

// TestInstalledPython takes Debian's own Python in another place, under another version:
// packages are installed by it, and run with it.
func TestInstalledPython(t *testing.T) {
	t.Parallel()
	harness.Ready(t, harness.Unready)
	const tree = `set -e
mkdir -p python/bin python/lib
version=$(/usr/bin/python3 -c 'import sys; print("python%d.%d" % sys.version_info[:2])')
cp -L /usr/bin/$version python/bin/
cp -R /usr/lib/$version python/lib/
rm -rf python/lib/$version/test python/lib/$version/__pycache__ python/lib/$version/sitecustomize.py
find python/lib -type l -delete
printf '#!/bin/sh\n[ "$1" = --version ] && echo Python 3.99.1 && exit\nexec "${0%%/*}/%s" "$@"\n' $version > python/bin/python3
chmod 755 python/bin/python3
tar -czf python.tar.gz python`
	dir := t.TempDir()
	cmd := exec.Command("sh", "-c", tree)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	d := launch(t)
	c := d.account("ana", 500)
	bot := example(t, "python-bot")
	config := bot["discloud.config"]
	bot["main.py"] = "import sys, berth_greeting\nprint('runs', sys.base_prefix, sys.prefix)\n" + harness.IdlePython
	id := c.Upload(bot) // with the host's
	if log := c.UntilLog(id, "runs /usr"); strings.Contains(log, "runtimes") {
		t.Errorf("%s", log)
	}
	d.runtime("X=", "install", "python", "3.99", "--file", filepath.Join(dir, "python.tar.gz"))
	at := d.Data + "/runtimes/python/3.99.1"
	c.Commit(id, bot.With("discloud.config", strings.Replace(config, "VERSION=latest", "VERSION=3.99", 1))).Want(200)
	c.UntilLog(id, "runs "+at+" "+d.Path(id, ".venv"))
	if target, err := os.Readlink(d.Path(id, ".venv", "bin", "python")); err != nil || !strings.HasPrefix(target, at) && !strings.HasPrefix(target, "python3") {
		t.Errorf("the environment's Python is %s, %v", target, err)
	}
	// Its packages keep it, whatever VERSION says.
	code, _, stderr := d.Run("runtime", "remove", "python", "3.99", "--data-dir", d.Data)
	if code == 0 || !strings.Contains(stderr, "it is used by "+id) {
		t.Errorf("exit %d, said %s", code, stderr)
	}
	// A start without it says what to do; a deployment makes the packages anew.
	if err := os.Rename(at, at+".away"); err != nil {
		t.Fatal(err)
	}
	c.Put("/app/"+id+"/restart", "").Says("message", "the packages of the application were installed with Python 3.99.1, which this host does not have any more")
	c.Commit(id, bot.With("discloud.config", config)).Want(200)
	c.UntilLog(id, "runs /usr")
	d.runtime("X=", "list")
}

// TestInstalledRuntimeWithFewerWalls starts a program without a root directory of its own:
// it finds the runtime in the host's, and cannot write to it.
func TestInstalledRuntimeWithFewerWalls(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("setpriv"); err != nil {
		t.Skip(err)
	}
	dir := t.TempDir()
	cmd := exec.Command("sh", "-c", `set -e
mkdir -p node/bin
printf '#!/bin/sh\n[ "$1" = --version ] && echo v99.1.0 && exit\nBY=$0 exec /usr/bin/env -u PATH %s "$@"\n' "$(command -v node)" > node/bin/node
chmod 755 node/bin/node
tar -czf node.tar.gz node`)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	d := prepare(t)
	d.Under = []string{"setpriv", "--bounding-set=-sys_admin", "--inh-caps=-sys_admin"}
	d.Serve()
	if said := d.Out.String(); !strings.Contains(said, "wall=mounts") {
		t.Fatalf("the daemon has the wall: %s", said)
	}
	c := d.account("ana", 400)
	d.runtime("X=", "install", "node", "99", "--file", filepath.Join(dir, "node.tar.gz"))
	id := c.Upload(harness.NodeBot(`console.log('started by ' + process.env.BY)
try { require('fs').writeFileSync(process.env.BY, '') } catch (e) { console.log('write: ' + e.code) }
`+harness.IdleNode, "VERSION=99.1"))
	log := c.UntilLog(id, "write: ")
	if !strings.Contains(log, "started by "+d.Data+"/runtimes/node/99.1.0/bin/node\n") || !strings.Contains(log, "write: EACCES") {
		t.Errorf("%s", log)
	}
}
