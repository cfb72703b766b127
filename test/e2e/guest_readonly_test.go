//go:build guest

package e2e

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"berth/test/harness"
)

// readOnly is what is said of a disk that takes no writes.
const readOnly = "the host's disk is read-only; its owner must mend it"

// isReadOnly tries: statfs(2) does not tell of a disk with an error.
func (k *disk) isReadOnly() bool {
	return errors.Is(os.WriteFile(filepath.Join(k.dir, "probe"), nil, 0o600), syscall.EROFS)
}

// TestGuestDiskError: an error of the file system makes it read-only until it
// was unmounted and checked (errors=remount-ro).
func TestGuestDiskError(t *testing.T) {
	t.Parallel()
	k := newDisk(t, 96)
	w := k.inhabited(k.prepare())
	c := w.c
	syscall.Sync() // what is not on the disk by now is lost
	write(t, filepath.Join("/sys/fs/ext4", filepath.Base(k.device()), "trigger_fs_error"), "a test")
	harness.Eventually(t, "the disk is read-only", k.isReadOnly)
	w.refuses(503, readOnly, readOnly)
	w.readable()
	c.delete(w.offline).want(503, "status", "error").says("message", "cannot delete the application: "+readOnly)
	c.info(w.offline).want(200, "apps.online", false)
	w.unchanged("a delete")

	w.endsOn("read-only file system")
	code, _, stderr := w.run("serve", "--listen", "127.0.0.1:0")
	if code != 78 || !strings.Contains(stderr, "berth: cannot use the data directory "+w.data+": its disk is read-only\nHint: ") {
		t.Errorf("exit status %d: %s", code, stderr)
	}
	k.mend()
	w.start()
	for _, id := range []string{w.talks, w.idle} {
		c.until(id, "apps.online", true)
	}
	sameTree(t, w.kept(), w.before)
	c.put("/app/"+w.idle+"/profile", `{"name":"after"}`).want(200)
	c.upload(shellBot(idleShell, "RAM=32"))
}

// mend unmounts, checks and mounts the disk.
func (k *disk) mend() {
	k.t.Helper()
	image := filepath.Join("/dev/shm", filepath.Base(k.dir))
	k.command("umount", k.dir)
	out, err := exec.Command("e2fsck", "-fy", image).CombinedOutput()
	var status *exec.ExitError
	if err != nil && (!errors.As(err, &status) || status.ExitCode() > 1) { // 1: errors were mended
		k.t.Errorf("e2fsck: %v: %s", err, out)
	}
	k.command("mount", "-o", "loop,prjquota,errors=remount-ro", image, k.dir)
}

// TestGuestDiskRemounted: a disk that is read-only for a while, under those who
// write to it. It takes the disks of other tests too and is not parallel.
func TestGuestDiskRemounted(t *testing.T) {
	k := newDisk(t, 96)
	w := k.inhabited(k.prepare())
	c := w.c
	writable := func() {
		for _, dir := range []string{"/disk", k.dir} {
			k.command("mount", "-o", "remount,rw", dir)
		}
	}
	defer writable() // also after a failure, for the tests that follow
	if err := os.WriteFile("/proc/sysrq-trigger", []byte("u"), 0); err != nil {
		t.Fatal(err)
	}
	harness.Eventually(t, "the disk is read-only", k.isReadOnly)
	// What is open, the database and the logs, is written to: the kernel keeps
	// it in memory and says nothing. Whatever makes a file is refused.
	c.post(shellBot(idleShell).zip()).want(503).says("message", "cannot keep the upload: "+readOnly)
	c.commit(w.idle, shellBot("new")).want(503).says("message", "cannot keep the upload: "+readOnly)
	c.get("/app/"+w.idle+"/backup").want(503).says("message", "cannot write the backup: "+readOnly)
	w.readable()
	// A program that was online is so again when it can.
	c.put("/app/"+w.idle+"/restart", "").want(503).says("message", readOnly)
	c.info(w.idle).want(200, "apps.online", false)
	writable()
	c.until(w.idle, "apps.online", true)
	w.pids[w.idle] = w.pid(w.idle)
	w.unchanged("the disk is writable")
	c.commit(w.idle, files{"index.js": "console.log('new')\n" + idleNode}).want(200, "status", "ok")
	c.get("/app/" + w.idle + "/backup").want(200)
	w.restart()
	for _, id := range []string{w.talks, w.idle} {
		c.until(id, "apps.online", true)
	}
}
