package e2e

import (
	"encoding/json"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"

	"berth/test/harness"
)

// lookAround is what a program sees of its walls.
const lookAround = `import json, os
print("REPORT", json.dumps({
    "root": sorted(os.listdir("/")), "host": os.uname().nodename, "temp": os.environ["TMPDIR"],
    "filtered": [l.split()[1] for l in open("/proc/self/status") if l.startswith("Seccomp:")][0],
    "others": os.path.exists("/proc/1"), "data": os.path.exists(DATA + "/berth.db"),
}), "END", flush=True)
`

type surroundings struct {
	Root         []string
	Host, Temp   string
	Filtered     string
	Others, Data bool
}

// TestWalls compares what a program, its build and its console command see: the
// same walls, but for the TMPDIR of the build.
func TestWalls(t *testing.T) {
	t.Parallel()
	d := launch(t)
	for _, f := range d.findings() {
		if (f.Name == "mounts" || f.Name == "proc" || f.Name == "seccomp") && f.Verdict != "ok" {
			t.Skipf("this host does not give the wall %s: %s", f.Name, f.Text)
		}
	}
	c := d.account("ana", 1024)
	look := strings.Replace(lookAround, "DATA", `"`+d.Data+`"`, 1)
	id := c.Upload(harness.ShellBot("python3 look.py; cat built; exec sleep 100000\n", "BUILD=python3 look.py > built").With("look.py", look))
	log := c.UntilLog(id, "END\n")
	harness.Eventually(t, "the build's report is in the log", func() bool { log = c.Log(id); return strings.Count(log, " END\n") == 2 })
	log += c.console(id, "python3 look.py").Want(200).Text("apps.shell.stdout")
	reports := strings.Split(log, "REPORT ")[1:]
	if len(reports) != 3 {
		t.Fatalf("%d reports: %s", len(reports), log)
	}
	for i, who := range []string{"the program", "its build", "a console command"} {
		text, _, _ := strings.Cut(reports[i], " END")
		var got surroundings
		if err := json.Unmarshal([]byte(text), &got); err != nil {
			t.Fatal(err)
		}
		if root := strings.Join(got.Root, " "); strings.Contains(root, "home") || strings.Contains(root, "root") {
			t.Errorf("%s sees %s", who, root)
		}
		if got.Host != "app-"+id || got.Filtered != "2" || got.Others || got.Data || strings.HasPrefix(got.Temp, d.Data) != (who == "its build") {
			t.Errorf("%s sees %+v", who, got)
		}
	}
}

type finding struct{ Name, Verdict, Text string }

// findings are what doctor says, whatever its exit status.
func (d *daemon) findings(args ...string) []finding {
	d.T.Helper()
	var list []finding
	_, out, _ := d.Run(append([]string{"doctor", "--json"}, args...)...)
	if err := json.Unmarshal([]byte(out), &list); err != nil {
		d.T.Fatal(err)
	}
	return list
}

// TestFewerWalls takes from the daemon what mounts need, as most containers do:
// it says so, and programs run behind the walls that are left, unless the owner
// requires what is missing.
func TestFewerWalls(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("setpriv"); err != nil {
		t.Skip(err)
	}
	d := prepare(t)
	d.Under = []string{"setpriv", "--bounding-set=-sys_admin", "--inh-caps=-sys_admin"}
	d.Serve()
	if said := d.Out.String(); !strings.Contains(said, "programs run without a wall") || !strings.Contains(said, "wall=mounts") {
		t.Errorf("the daemon said %s", said)
	}
	c := d.account("ana", 400)
	look := strings.Replace(lookAround, "DATA", `"`+d.Data+`"`, 1)
	id := c.Upload(harness.PythonBot(look + "import signal; signal.pause()\n"))
	var got surroundings
	c.report(id, &got)
	if !strings.HasPrefix(got.Temp, d.Data+"/tmp/") || got.Filtered != "2" {
		t.Errorf("the program sees %+v, want a TMPDIR on the disk and a filter of system calls", got)
	}
	for _, f := range d.findings("--sandbox-require", "mounts,seccomp") {
		if f.Name == "mounts" && (f.Verdict != "FAIL" || !strings.Contains(f.Text, "sandbox.require")) || f.Name == "seccomp" && f.Verdict != "ok" {
			t.Errorf("doctor says %+v", f)
		}
	}
	other := prepare(t, "--sandbox-require", "mounts")
	other.Under = d.Under
	code, _, stderr := other.Run(append([]string{"serve"}, other.Args[3:]...)...)
	if code != 78 || !strings.Contains(stderr, "cannot serve: sandbox.require names walls that this host does not give: mounts (") || !strings.Contains(stderr, "\nHint: ") {
		t.Errorf("exit status %d: %s", code, stderr)
	}
}

// TestFewerWallsThanBefore: a host that gave walls and does not give them any more
// is not served from until its owner says that they may be missing.
func TestFewerWallsThanBefore(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("setpriv"); err != nil {
		t.Skip(err)
	}
	d := launch(t)
	if strings.Contains(d.Out.String(), "wall=mounts") {
		t.Skip("this host does not give the wall mounts")
	}
	d.End(syscall.SIGTERM)
	less := []string{"setpriv", "--bounding-set=-sys_admin", "--inh-caps=-sys_admin"}
	refuses := func() {
		t.Helper()
		d.Under = less
		code, _, stderr := d.Run(append([]string{"serve"}, d.Args[3:]...)...)
		if code != 78 || !strings.Contains(stderr, "cannot serve: programs had walls at the last start that this host does not give now: mounts (") ||
			!strings.Contains(stderr, `set sandbox.without to "mounts,proc,cgroup"`) {
			t.Errorf("exit status %d: %s", code, stderr)
		}
	}
	refuses()
	for _, f := range d.findings() {
		if f.Name == "mounts" && (f.Verdict != "FAIL" || !strings.Contains(f.Text, "programs had this wall when berth started last")) {
			t.Errorf("doctor says %+v", f)
		}
	}
	args := d.Args
	d.Args = append(slices.Clone(args), "--sandbox-without", "mounts,proc,cgroup")
	d.Serve()
	for _, f := range d.findings("--sandbox-without", "mounts,proc,cgroup") {
		if f.Name == "mounts" && f.Verdict != "warn" {
			t.Errorf("doctor says %+v", f)
		}
	}
	d.Args = args // it was said once
	d.Restart()
	if said := d.Out.String(); !strings.Contains(said, "wall=mounts") {
		t.Errorf("the daemon said %s", said)
	}
	d.Under = nil
	d.Restart()
	if said := d.Out.String(); strings.Contains(said, "wall=mounts") {
		t.Errorf("the daemon said %s", said)
	}
	d.End(syscall.SIGTERM)
	refuses()
	d.Under = nil
	d.Serve()
}

// TestFewFiles: a host that lets berth open fewer files than each program is
// promised is told of it. Programs have what they are promised, or nothing is served.
func TestFewFiles(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("prlimit"); err != nil {
		t.Skip(err)
	}
	d := prepare(t)
	d.Under = []string{"prlimit", "--nofile=2000:2000"}
	told := false
	for _, f := range d.findings() {
		told = told || f.Name == "files" && f.Verdict == "warn" && strings.Contains(f.Text, "2000 files")
	}
	if !told {
		t.Errorf("doctor says nothing of it: %v", d.findings())
	}
	if exec.Command("prlimit", "--nofile=2000:2000", "prlimit", "--nofile=4096:4096", "true").Run() != nil { // as in most containers
		code, _, stderr := d.Run(append([]string{"serve"}, d.Args[3:]...)...)
		if code != 78 || !strings.Contains(stderr, "cannot serve: each program is promised 4096 open files, and berth may have 2000: ") || !strings.Contains(stderr, "LimitNOFILE=") {
			t.Errorf("exit status %d: %s", code, stderr)
		}
		return
	}
	d.Serve()
	if said := d.Out.String(); !strings.Contains(said, "berth may open fewer files than each program is promised") || !strings.Contains(said, "limit=2000 promised=4096") {
		t.Errorf("the daemon said %s", said)
	}
	c := d.account("ana", 400)
	id := c.Upload(harness.ShellBot("echo files $(ulimit -Hn) END; exec sleep 100000\n"))
	if log := c.UntilLog(id, "END\n"); !strings.Contains(log, "files 4096 END") {
		t.Errorf("the program says %s", log)
	}
}
