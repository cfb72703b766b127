package e2e

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// TestDiskSpaceByMeasuring: without a quota of the file system, what takes too
// much is not started again until it takes less, by its own console.
func TestDiskSpaceByMeasuring(t *testing.T) {
	t.Parallel()
	d := launch(t, "--apps-disk", "8")
	c := d.account("ana", 600)
	id := c.upload(shellBot("for n in 1 2 3; do head -c 5000000 /dev/zero >part$n; done; echo full; exec sleep 1000\n", "RAM=32"))
	c.untilLog(id, "full")
	c.put("/app/"+id+"/stop", "").want(200)
	if code := d.End(syscall.SIGTERM); code != 0 {
		t.Errorf("the daemon's exit status is %d", code)
	}
	d.start()
	c.put("/app/"+id+"/start", "").want(422, "status", "error").
		says("message", "cannot start the application: its files take 15 MB of disk, and may take 8 MB; remove some with a console command")
	c.info(id).want(200, "apps.online", false)
	c.console(id, "rm part1 part2").want(200)
	c.put("/app/"+id+"/start", "").want(200)
	c.put("/app/"+id+"/stop", "").want(200)
	c.commit(id, files{"more": noise(7 << 20)}).want(422, "status", "error").says("message", "cannot deploy the application: it would take ", " MB of disk, and may take 8 MB")
	c.delete(id).want(200)

	// One file cannot grow beyond it.
	id = c.upload(shellBot("head -c 20000000 /dev/zero >one; echo ended with $?; ls -l one; exec sleep 1000\n", "RAM=32"))
	c.untilLog(id, "ended with 153")
	c.untilLog(id, " 8388608 ")
}

// TestCPUMax: the limit is an application's, and that of all its groups.
func TestCPUMax(t *testing.T) {
	t.Parallel()
	d := launch(t, "--apps-cpu-max", "50")
	c := d.account("ana", 600)
	id := c.upload(shellBot(idleShell, "RAM=32"))
	limit := ""
	for _, group := range d.groups() {
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
	id := c.upload(shellBot(idleShell, "RAM=32"))
	if code := d.End(syscall.SIGTERM); code != 0 {
		t.Errorf("the daemon's exit status is %d", code)
	}
	d.args = append(d.args, "--host-disk-floor", "1000000000")
	d.start()
	c.until(id, "apps.online", true)
	full := "the host's disk is nearly full ("
	c.post(shellBot(idleShell).zip()).want(503, "status", "error").says("message", "cannot keep the upload: "+full)
	c.commit(id, shellBot(idleShell)).want(503, "status", "error").says("message", "cannot keep the upload: "+full)
	c.get("/app/"+id+"/backup").want(503, "status", "error").says("message", "cannot write the backup: "+full)
	c.console(id, "echo room >made && rm made").want(200)
	c.put("/app/"+id+"/restart", "").want(200)
}
