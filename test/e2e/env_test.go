package e2e

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"berth/test/harness"
)

// report is what a program printed about itself after the word REPORT.
func (c *client) report(id string, into any) {
	c.T.Helper()
	_, text, _ := strings.Cut(c.UntilLog(id, "END\n"), "REPORT ")
	text, _, _ = strings.Cut(text, " END")
	if err := json.Unmarshal([]byte(text), into); err != nil {
		c.T.Fatalf("%v in %q", err, text)
	}
}

// programPath is the PATH that programs are to have on this machine.
func programPath(t *testing.T) string {
	t.Helper()
	var dirs []string
	for _, place := range []string{"/usr/local/sbin", "/usr/local/bin", "/usr/local/go/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin", "/opt/*/bin"} {
		found, err := filepath.Glob(place)
		if err != nil {
			t.Fatal(err)
		}
		dirs = append(dirs, found...)
	}
	return strings.Join(dirs, ":")
}

// TestEnvironment compares the whole environment of programs, and of builds,
// with what it is to be.
func TestEnvironment(t *testing.T) {
	t.Parallel()
	d := prepare(t)
	d.Env = append(d.Env, "BERTH_SECRET=leak", "NODE_OPTIONS=--no-warnings", "PYTHONPATH=/leak", "LD_LIBRARY_PATH=/leak")
	d.Serve()
	owner := d.account("ana", 4096)
	node := "console.log('REPORT', JSON.stringify(process.env), 'END'); setInterval(() => {}, 1e6)\n"
	python := "import json, os, signal\nprint('REPORT', json.dumps(dict(os.environ)), 'END')\nsignal.pause()\n"
	both := map[string]string{
		"NODE_ENV": "production", "PYTHONUNBUFFERED": "1", "npm_config_update_notifier": "false",
		"NODE_OPTIONS": "--max-old-space-size=68", "DENO_V8_FLAGS": "--max-old-space-size=53", "GOMEMLIMIT": "85MiB", // of 100 MB
	}
	arenas := maps.Clone(both)
	arenas["MALLOC_ARENA_MAX"] = "1"
	for _, tt := range []struct {
		name  string
		app   harness.Files
		extra map[string]string
		shell bool // which adds some of its own
	}{
		{"node", harness.NodeBot(node), both, false},
		{"python", harness.PythonBot(python), arenas, false},
		{"a shell", harness.ShellBot("exec /usr/bin/python3 -u p.py\n").With("p.py", python), both, true},
		{"START", harness.NodeBot(node, "START=node index.js"), both, true},
		{
			"BUILD", harness.NodeBot("console.log(require('fs').readFileSync('out', 'utf8')); setInterval(() => {}, 1e6)", "BUILD=node build.js > out").With("build.js", node[:strings.Index(node, "setInterval")]),
			map[string]string{
				"NO_COLOR": "1", "PYTHONUNBUFFERED": "1", "npm_config_update_notifier": "false", "PIP_DISABLE_PIP_VERSION_CHECK": "1",
				"CARGO_TERM_PROGRESS_WHEN": "never", "COMPOSER_NO_INTERACTION": "1", "COMPOSER_NO_AUDIT": "1",
				"GOFLAGS": "-p=1 -buildvcs=false", "CARGO_BUILD_JOBS": "1",
				"NODE_OPTIONS": "--max-old-space-size=356", "DENO_V8_FLAGS": "--max-old-space-size=320", "GOMEMLIMIT": "435MiB", // of 512 MB
			},
			true,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			c := owner.in(t)
			id := c.Upload(tt.app)
			var got map[string]string
			c.report(id, &got)
			want := map[string]string{
				"HOME": d.Path(id), "LANG": "C.UTF-8", "BERTH_APP_ID": id,
				"PATH": programPath(t),
			}
			maps.Copy(want, tt.extra)
			if port, err := strconv.Atoi(got["PORT"]); err != nil || port < d.Port || port >= d.Port+harness.PortCount {
				t.Errorf("PORT is %q", got["PORT"])
			}
			// A build's is on the disk, for what it keeps there is more than its RAM.
			if temp := got["TMPDIR"]; tt.name == "BUILD" && !strings.HasPrefix(temp, d.Data+"/tmp/") || tt.name != "BUILD" && temp != "/tmp" {
				t.Errorf("TMPDIR is %q", temp)
			}
			if tt.name == "BUILD" { // caches go with the temporary directory
				for name, value := range got {
					if _, known := want[name]; !known && strings.HasPrefix(value, got["TMPDIR"]+"/") {
						delete(got, name)
					}
				}
			}
			for _, name := range []string{"PORT", "TMPDIR"} {
				delete(got, name)
			}
			if tt.shell {
				for _, name := range []string{"PWD", "OLDPWD", "SHLVL", "_"} {
					delete(got, name)
				}
				got["PATH"] = got["PATH"][strings.Index(got["PATH"], "/usr/local/sbin"):] // tools of the tree may come first
			}
			if !maps.Equal(got, want) {
				t.Errorf("the environment is %q, want %q", got, want)
			}
		})
	}
}

// nosy tries what a program must not be able to do.
const nosy = `import json, os, signal, sys
def attempt(f):
    try: return "no error: %r" % (f(),)
    except OSError as e: return os.strerror(e.errno)
def status(name):
    return [l.split(":")[1].split() for l in open("/proc/self/status") if l.startswith(name + ":")][0]
def writable(dir):
    path = os.path.join(dir, "probe")
    open(path, "w").write("x")
    return os.path.exists(path)
data, other, daemon = DATA
report = {
    "fds": sorted(int(n) for n in os.listdir("/proc/self/fd")),
    "uid": status("Uid"), "gid": status("Gid"), "groups": status("Groups"),
    "caps": [status(n)[0] for n in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")],
    "nnp": status("NoNewPrivs"), "cwd": os.getcwd(), "session": os.getsid(0) == os.getpid(),
    "home": writable(os.environ["HOME"]), "tmp": writable(os.environ["TMPDIR"]),
    "denied": {
        "list another": attempt(lambda: os.listdir(other)),
        "read another": attempt(lambda: open(other + "/secret.txt").read()),
        "write another": attempt(lambda: open(other + "/x", "w")),
        "list apps": attempt(lambda: os.listdir(data + "/apps")),
        "list the data": attempt(lambda: os.listdir(data)),
        "list staging": attempt(lambda: os.listdir(data + "/staging")),
        "list logs": attempt(lambda: os.listdir(data + "/logs")),
        "list backups": attempt(lambda: os.listdir(data + "/backups")),
        "write the data": attempt(lambda: open(data + "/x", "w")),
        "database": attempt(lambda: open(data + "/berth.db")),
        "lock": attempt(lambda: open(data + "/lock")),
        "shadow": attempt(lambda: open("/etc/shadow")),
        "signal the daemon": attempt(lambda: os.kill(daemon, signal.SIGTERM)),
        "signal the parent": attempt(lambda: os.kill(os.getppid(), signal.SIGTERM)),
        "daemon's environment": attempt(lambda: open("/proc/%d/environ" % daemon).read()),
        "become root": attempt(lambda: os.setuid(0)),
        "groups": attempt(lambda: os.setgroups([0])),
        "leave the group": attempt(lambda: open("/sys/fs/cgroup/memory/cgroup.procs", "w").write("0")),
    },
}
sys.stdout.flush()
os.system("echo by /dev/stderr >/dev/stderr; echo by /dev/stdout >/dev/stdout")
print("REPORT", json.dumps(report), "END", flush=True)
signal.pause()
`

// TestConfinement lets a program look around.
func TestConfinement(t *testing.T) {
	t.Parallel()
	d := launch(t)
	c := d.account("ana", 400)
	other := c.Upload(harness.NodeBot(harness.IdleNode).With("secret.txt", "secret"))
	id := c.Upload(harness.PythonBot(strings.Replace(nosy, "DATA", fmt.Sprintf("%q, %q, %d", d.Data, d.Path(other), d.Cmd.Process.Pid), 1)))
	var got struct {
		FDs                    []int
		UID, GID, Groups, Caps []string
		NNP                    []string
		CWD                    string
		Session, Home, Tmp     bool
		Denied                 map[string]string
	}
	c.report(id, &got)
	if !slices.Equal(got.FDs, []int{0, 1, 2, 3}) { // 3 is the directory being listed
		t.Errorf("the open descriptors are %v, want 0, 1, 2", got.FDs)
	}
	uid := strconv.Itoa(d.UIDOf(id))
	if all := slices.Repeat([]string{uid}, 4); !slices.Equal(got.UID, all) || !slices.Equal(got.GID, all) || len(got.Groups) > 0 {
		t.Errorf("uids %v, gids %v, groups %v, want %s alone", got.UID, got.GID, got.Groups, uid)
	}
	if uid == strconv.Itoa(d.UIDOf(other)) {
		t.Errorf("two applications share the uid %s", uid)
	}
	for _, caps := range got.Caps {
		if strings.Trim(caps, "0") != "" {
			t.Errorf("capabilities %v, want none", got.Caps)
		}
	}
	if !slices.Equal(got.NNP, []string{"1"}) || got.CWD != d.Path(id) || !got.Session || !got.Home || !got.Tmp {
		t.Errorf("no_new_privs %v, directory %s, session %t, HOME writable %t, TMPDIR writable %t",
			got.NNP, got.CWD, got.Session, got.Home, got.Tmp)
	}
	for what, result := range got.Denied {
		// What it may not touch it does not even see, or only to read.
		if !slices.Contains([]string{"Permission denied", "Operation not permitted", "No such file or directory", "Read-only file system"}, result) {
			t.Errorf("%s: %s", what, result)
		}
	}
	log := c.Log(id)
	if !strings.Contains(log, "Z by /dev/stderr\n") || !strings.Contains(log, "Z by /dev/stdout\n") {
		t.Errorf("what was printed by way of /dev is not in the log: %s", log)
	}
	if info, err := os.Stat(d.Path(id)); err != nil || info.Mode().Perm()&0o007 != 0 {
		t.Errorf("the directory is %v, %v, want it closed to others", info.Mode(), err)
	}
	c.Info(other).Want(200, "apps.online", true)
}
