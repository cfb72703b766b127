package e2e

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"berth/test/harness"
)

// TestDiskSpaceByMeasuring: without a quota of the file system, what takes too
// much is not started again until it takes less, by its own console.
func TestDiskSpaceByMeasuring(t *testing.T) {
	t.Parallel()
	d := launch(t, "--apps-disk", "8")
	c := d.account("ana", 600)
	id := c.Upload(harness.ShellBot("for n in 1 2 3; do head -c 5000000 /dev/zero >part$n; done; echo full; exec sleep 1000\n", "RAM=32"))
	c.UntilLog(id, "full")
	c.Put("/app/"+id+"/stop", "").Want(200)
	if code := d.End(syscall.SIGTERM); code != 0 {
		t.Errorf("the daemon's exit status is %d", code)
	}
	d.Serve()
	c.Put("/app/"+id+"/start", "").Want(422, "status", "error").
		Says("message", "cannot start the application: its files take 15 MB of disk, and may take 8 MB; remove some with a console command")
	c.Info(id).Want(200, "apps.online", false)
	c.console(id, "rm part1 part2").Want(200)
	c.Put("/app/"+id+"/start", "").Want(200)
	c.Put("/app/"+id+"/stop", "").Want(200)
	c.Commit(id, harness.Files{"more": noise(7 << 20)}).Want(422, "status", "error").Says("message", "cannot deploy the application: it would take ", " MB of disk, and may take 8 MB")
	c.Delete(id).Want(200)

	// One file cannot grow beyond it.
	id = c.Upload(harness.ShellBot("head -c 20000000 /dev/zero >one; echo ended with $?; ls -l one; exec sleep 1000\n", "RAM=32"))
	c.UntilLog(id, "ended with 153")
	c.UntilLog(id, " 8388608 ")
}

// TestCPUMax: the limit is an application's, and that of all its groups.
func TestCPUMax(t *testing.T) {
	t.Parallel()
	d := launch(t, "--apps-cpu-max", "50")
	c := d.account("ana", 600)
	id := c.Upload(harness.ShellBot(harness.IdleShell, "RAM=32"))
	limit := ""
	for _, group := range d.Groups() {
		for _, file := range []string{"cpu.max", "cpu.cfs_quota_us"} {
			if b, err := os.ReadFile(filepath.Join(group, "apps", id, file)); err == nil {
				limit += string(b)
			}
		}
	}
	if limit != "50000\n" && limit != "50000 100000\n" {
		t.Errorf("the processor time is limited to %q", limit)
	}
}

// TestDiskFloor: below it nothing new is taken, and what runs goes on.
func TestDiskFloor(t *testing.T) {
	t.Parallel()
	d := launch(t, "--host-disk-floor", "0")
	c := d.account("ana", 600)
	id := c.Upload(harness.ShellBot(harness.IdleShell, "RAM=32"))
	if code := d.End(syscall.SIGTERM); code != 0 {
		t.Errorf("the daemon's exit status is %d", code)
	}
	d.Args = append(d.Args, "--host-disk-floor", "1000000000")
	d.Serve()
	c.Until(id, "apps.online", true)
	full := "the host's disk is nearly full ("
	c.Post(harness.ShellBot(harness.IdleShell).Zip()).Want(503, "status", "error").Says("message", "cannot keep the upload: "+full)
	c.Commit(id, harness.ShellBot(harness.IdleShell)).Want(503, "status", "error").Says("message", "cannot keep the upload: "+full)
	c.Get("/app/"+id+"/backup").Want(503, "status", "error").Says("message", "cannot write the backup: "+full)
	c.console(id, "echo room >made && rm made").Want(200)
	c.Put("/app/"+id+"/restart", "").Want(200)
}
