package faults

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"berth/test/harness"
)

// to makes the daemon serve another data directory from its next start on.
func to(d *harness.Berth, data string) {
	d.Args[slices.Index(d.Args, d.Data)], d.Data = data, data
}

// command runs a command of the machine.
func command(t *testing.T, name string, args ...string) {
	t.Helper()
	if out, err := exec.Command(name, args...).CombinedOutput(); err != nil {
		t.Fatalf("%s: %v: %s", name, err, out)
	}
}

// TestFaultsMovedDataDirectory: programs that run while the data directory gets another
// path are adopted there, also those of a database in which no name of their groups is
// stored yet. No program runs twice.
func TestFaultsMovedDataDirectory(t *testing.T) {
	t.Parallel()
	d := harness.Launch(t)
	c := d.NewAccount("ana", 400)
	id := c.Upload(harness.PythonBot(counts, "RAM=40"))
	c.UntilLog(id, "line 5\n")
	pid, group := d.PID(id), d.Group
	for i, older := range []bool{false, true} {
		d.End(syscall.SIGKILL)
		file := database(t, d)
		if older {
			command(t, "/usr/bin/python3", "-c", "import sqlite3, sys\nc = sqlite3.connect(sys.argv[1])\nc.execute(\"UPDATE meta SET group_name = ''\")\nc.commit()", file)
			forget(t, d)
		}
		data := filepath.Join(d.Root, []string{"moved", "again"}[i])
		if err := os.Rename(d.Data, data); err != nil {
			t.Fatal(err)
		}
		to(d, data)
		d.Serve()
		c.Info(id).Want(200, "apps.online", true)
		if now := d.PID(id); now != pid || d.Group != group {
			t.Errorf("an older database %t: the program was %d in %s and is %d in %s", older, pid, group, now, d.Group)
		}
		n := whole(c, id)
		c.UntilLog(id, "line "+strconv.Itoa(n+5)+"\n")
		c.Put("/app/"+id+"/ram", `{"ramMB":`+strconv.Itoa(50+i)+`}`).Want(200, "status", "ok")
	}
	c.Put("/app/"+id+"/restart", "").Want(200)
	if now := d.PID(id); now == pid {
		t.Error("it was not restarted")
	}
}

// TestFaultsCopiedDataDirectory: a copy of a data directory does not start the programs
// that run for the original, and does not touch them; once the original is gone, the
// copy's start in place of them.
func TestFaultsCopiedDataDirectory(t *testing.T) {
	t.Parallel()
	d := harness.Launch(t)
	c := d.NewAccount("ana", 400)
	id := c.Upload(harness.PythonBot(counts, "RAM=40"))
	c.UntilLog(id, "line 5\n")
	pid := d.PID(id)
	original, copied := d.Data, filepath.Join(d.Root, "copy")
	command(t, "cp", "-a", original, copied)
	there := *d
	there.Data = copied
	refused(t, &there, "cannot serve "+copied+": another berth runs its programs")
	d.End(syscall.SIGKILL)
	for _, older := range []bool{false, true} {
		if older {
			database(t, &there)
			command(t, "/usr/bin/python3", "-c", "import sqlite3, sys\nc = sqlite3.connect(sys.argv[1])\nc.execute(\"UPDATE meta SET group_name = ''\")\nc.commit()", filepath.Join(copied, "berth.db"))
			forget(t, d)
		}
		refused(t, &there, "cannot serve "+copied+": programs with the user ids of its applications run in ", "cgroup.kill; then start berth again")
		if now := d.PID(id); now != pid {
			t.Fatalf("the program was %d and is %d", pid, now)
		}
		d.Serve()
		c.Info(id).Want(200, "apps.online", true)
		if now := d.PID(id); now != pid {
			t.Fatalf("the program was %d and is %d", pid, now)
		}
		d.End(syscall.SIGKILL)
	}
	if keeper := d.Keeper(); keeper != 0 { // it would see in a minute that its socket is gone
		harness.Kill(t, keeper)
	}
	if err := os.RemoveAll(original); err != nil {
		t.Fatal(err)
	}
	to(d, copied)
	d.Serve()
	c.Until(id, "apps.online", true)
	if now := d.PID(id); now == pid { // it ran without its files
		t.Error("the program of the original runs on")
	}
}

// forget takes from the groups what a berth of before did not keep with them.
func forget(t *testing.T, d *harness.Berth) {
	t.Helper()
	for _, dir := range d.Groups() {
		_ = syscall.Removexattr(dir, "trusted.berth") // of the one in cgroup v2
	}
}

// TestFaultsMovedDataDirectoryUnderADaemon: an upgrade is refused while the database is
// not where the next binary would look for it, and the daemon serves on. Nothing is made
// at the old path, also not for a program that ends and is started again.
func TestFaultsMovedDataDirectoryUnderADaemon(t *testing.T) {
	t.Parallel()
	d := harness.Launch(t)
	c := d.NewAccount("ana", 400)
	id := c.Upload(harness.PythonBot(counts, "RAM=40"))
	dies := c.Upload(harness.ShellBot(harness.IdleShell, "RAM=40", "AUTORESTART=true"))
	c.UntilLog(id, "line 5\n")
	c.Until(dies, "apps.online", true)
	pid, victim := d.PID(id), d.PID(dies)
	away := filepath.Join(d.Root, "away")
	for i, move := range []string{d.Data, filepath.Join(d.Data, "berth.db")} {
		if err := os.Rename(move, away); err != nil {
			t.Fatal(err)
		}
		d.Signal(syscall.SIGHUP)
		harness.Eventually(t, "the upgrade is refused", func() bool {
			return strings.Count(d.Out.String(), "cannot hand over the database in") > i || d.Ended()
		})
		c.Info(id).Want(200, "apps.online", true)
		if move == d.Data {
			harness.Kill(t, victim)
			harness.Eventually(t, "the program is started again", func() bool { return strings.Contains(d.Out.String(), "cannot start the program") })
			if _, err := os.Lstat(move); err == nil {
				t.Errorf("%s was made anew", move)
				command(t, "rm", "-r", move)
			}
		}
		if err := os.Rename(away, move); err != nil {
			t.Fatal(err)
		}
	}
	d.Upgrade()
	c.Info(id).Want(200, "apps.online", true)
	if now := d.PID(id); now != pid {
		t.Errorf("the program was %d and is %d", pid, now)
	}
}
