package faults

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"berth/test/harness"
)

// A database that cannot be used at a start ends the daemon with a sentence, and
// nothing else: programs run on, and the next start goes on with them.
func TestFaultsDatabaseAtAStart(t *testing.T) {
	t.Parallel()
	d := harness.Launch(t)
	c := d.NewAccount("ana", 400)
	id := c.Upload(harness.PythonBot(counts, "RAM=40"))
	c.UntilLog(id, "line 5\n")
	pid := d.PID(id)
	file := filepath.Join(d.Data, "berth.db")
	d.End(syscall.SIGKILL)
	// What is in the file beside it would be read in place of what is broken.
	if out, err := exec.Command("/usr/bin/python3", "-c", "import sqlite3, sys\nsqlite3.connect(sys.argv[1]).execute('PRAGMA wal_checkpoint(TRUNCATE)')", file).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	good, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name   string
		breaks func() error
		code   int
		says   []string
	}{
		{"no database", func() error { return os.WriteFile(file, bytes.Repeat([]byte("no database "), 2000), 0o600) }, 78, []string{"it is damaged", "Hint: programs that run go on; restore a backup"}},
		{"broken pages", func() error {
			return os.WriteFile(file, append(bytes.Clone(good[:4096]), bytes.Repeat([]byte{0xff}, len(good)-4096)...), 0o600)
		}, 78, []string{"it is damaged", "Hint: "}},
		{"not to be opened", func() error { return os.Mkdir(file, 0o700) }, 1, []string{"is not a regular file"}},
	} {
		if err := os.RemoveAll(file); err != nil {
			t.Fatal(err)
		}
		if err := tt.breaks(); err != nil {
			t.Fatal(err)
		}
		code, _, stderr := d.Run("serve", "--listen", "127.0.0.1:0", "--apps-uid-base", "990000", "--apps-uid-count", "10")
		if code != tt.code {
			t.Errorf("%s: exit status %d, want %d: %s", tt.name, code, tt.code, stderr)
		}
		for _, text := range append(tt.says, "berth: cannot ") {
			if !strings.Contains(stderr, text) {
				t.Errorf("%s: it says %q, want %q in it", tt.name, stderr, text)
			}
		}
		if now := d.PID(id); now != pid {
			t.Fatalf("%s: the program was %d and is %d", tt.name, pid, now)
		}
	}
	if err := os.RemoveAll(file); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, good, 0o600); err != nil {
		t.Fatal(err)
	}
	d.Serve()
	c.Info(id).Want(200, "apps.online", true)
	if now := d.PID(id); now != pid {
		t.Errorf("the program was %d and is %d", pid, now)
	}
	c.Put("/app/"+id+"/stop", "").Want(200)
	if n := whole(c, id); n < 6 {
		t.Errorf("only %d lines", n)
	}
}

// TestKernelFaultsGroups: somebody removes berth's control groups, of which no
// program needs any just then. The next program has its limits. On a unified host
// somebody takes the memory controller from one that runs, too: it runs on, and
// has its limit again a moment later.
func TestKernelFaultsGroups(t *testing.T) {
	t.Parallel()
	d := harness.Launch(t)
	c := d.NewAccount("ana", 400)
	id := c.Upload(harness.ShellBot(harness.IdleShell, "RAM=40"))
	c.Put("/app/"+id+"/stop", "").Want(200)
	removed := 0
	for _, dir := range d.Groups() {
		if err := os.Remove(filepath.Join(dir, "apps")); err == nil {
			removed++
		}
	}
	if removed == 0 {
		t.Fatalf("nothing could be removed of %v", d.Groups())
	}
	c.Put("/app/"+id+"/start", "").Want(200, "status", "ok")
	c.Until(id, "apps.online", true)
	c.Get("/app/"+id+"/status").Want(200).Says("apps.memory", "/40MB")
	pid := d.PID(id)
	for _, dir := range d.Groups() {
		limits, err := filepath.Glob(filepath.Join(dir, "apps", id, "*", "memory.max"))
		if err != nil || len(limits) == 0 { // the controller is elsewhere
			continue
		}
		for _, from := range []string{filepath.Join(dir, "apps", id), filepath.Join(dir, "apps")} {
			if err := os.WriteFile(filepath.Join(from, "cgroup.subtree_control"), []byte("-memory"), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if harness.Exists(t, limits[0]) {
			t.Fatal("the controller is still there")
		}
		harness.Eventually(t, "the program has its limit again", func() bool {
			b, err := os.ReadFile(limits[0])
			return err == nil && strings.TrimSpace(string(b)) == strconv.Itoa(40<<20)
		})
		if !strings.Contains(d.Out.String(), "somebody else changed berth's control groups") {
			t.Error("the daemon says nothing of it")
		}
	}
	c.Info(id).Want(200, "apps.online", true)
	if now := d.PID(id); now != pid {
		t.Errorf("the program was %d and is %d", pid, now)
	}
	hog := c.Upload(harness.ShellBot("exec tail /dev/zero", "RAM=40"))
	c.Until(hog, "apps.online", false, "apps.ramKilled", true, "apps.exitCode", 137)
}

// TestFaultsRuntime: a runtime is taken off the machine. What runs runs on; what
// is restarted is told so and starts when the runtime is there again.
func TestFaultsRuntime(t *testing.T) {
	t.Parallel()
	harness.Needs(t, "php") // no other test here needs it
	path, err := exec.LookPath("php")
	if err == nil {
		path, err = filepath.EvalSymlinks(path)
	}
	if err != nil {
		t.Fatal(err)
	}
	d := harness.Launch(t)
	c := d.NewAccount("ana", 400)
	f := harness.Files{"discloud.config": harness.Config("TYPE=bot", "MAIN=index.php", "RAM=64", "AUTORESTART=true"), "index.php": "<?php echo \"up\\n\"; while (true) sleep(1000);\n"}
	runs, again := c.Upload(f), c.Upload(f)
	c.Until(again, "apps.online", true)
	pid := d.PID(runs)
	// What is mounted over it is neither found nor executed.
	none := filepath.Join(d.Root, "none")
	harness.Write(t, none, "")
	if err := syscall.Mount(none, path, "", syscall.MS_BIND, ""); err != nil {
		t.Fatal(err)
	}
	there := func() { _ = syscall.Unmount(path, syscall.MNT_DETACH) }
	defer there()
	c.Put("/app/"+again+"/restart", "").Want(422, "status", "error").Says("message", "PHP")
	harness.Kill(t, d.PID(runs))
	c.UntilLog(runs, "cannot start: ")
	c.Info(runs).Want(200, "apps.online", false)
	there()
	c.Until(runs, "apps.online", true)
	if now := d.PID(runs); now == pid {
		t.Error("it is the one that was killed")
	}
	c.Put("/app/"+again+"/start", "").Want(200, "status", "ok")
	c.Until(again, "apps.online", true)
}

// TestFaultsFilesOfAnApplication takes an application's directory away, while its
// program runs and while it does not: a commit that is whole and a restore bring it
// back, and nobody else's is touched.
func TestFaultsFilesOfAnApplication(t *testing.T) {
	t.Parallel()
	d := harness.Launch(t)
	c := d.NewAccount("ana", 400)
	code := harness.ShellBot("echo code 1; exec sleep 100000", "RAM=40").With("data.txt", "kept")
	id, other := c.Upload(code), c.Upload(harness.ShellBot(harness.IdleShell, "RAM=40"))
	pid, dir := d.PID(other), d.Path(id)
	c.Commit(id, harness.Files{"start.sh": "echo code 2; exec sleep 100000"}).Want(200)
	uid := d.UIDOf(id)
	backup := c.Get("/app/" + id + "/backup").Want(200).Text("backups.url")
	take := func() {
		t.Helper()
		if err := os.RemoveAll(dir); err != nil {
			t.Fatal(err)
		}
	}
	take()
	const gone = "the application's files are gone: commit the whole code with its discloud.config, or restore a backup"
	c.Commit(id, harness.Files{"start.sh": "echo part; exec sleep 100000"}).Want(422, "status", "error").Says("message", gone)
	if harness.Exists(t, dir) {
		t.Error("a refusal has made the directory")
	}
	c.Commit(id, code).Want(200, "status", "ok")
	c.UntilLog(id, "code 1\n")
	if now := d.UIDOf(id); now != uid {
		t.Errorf("the files are of %d, were of %d", now, uid)
	}
	if now := d.PID(other); now != pid {
		t.Errorf("another program was %d and is %d", pid, now)
	}
	rollback := c.Request("POST", "/v2/app/"+id+"/rollback", nil)
	c.Send(rollback).Want(422).Says("message", "was not kept")

	c.Put("/app/"+id+"/stop", "").Want(200)
	take()
	c.Put("/app/"+id+"/start", "").Want(422, "status", "error")
	d.Restart()
	restore := c.Request("POST", "/v2/app/"+id+"/restore", strings.NewReader(`{"backup":"`+backup+`"}`))
	restore.Header.Set("Content-Type", "application/json")
	c.Send(restore).Want(200, "status", "ok")
	c.Until(id, "apps.online", true)
	if text, err := os.ReadFile(d.Path(id, "data.txt")); err != nil || string(text) != "kept" || d.UIDOf(id) != uid {
		t.Errorf("after the restore: %q, %v, of %d", text, err, d.UIDOf(id))
	}
	c.Until(other, "apps.online", true)
}
