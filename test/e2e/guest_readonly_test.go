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
const readOnly = "the host's disk is read-only; its owner must repair it"

// isReadOnly tries: statfs(2) does not tell of a disk with an error.
func (k *disk) isReadOnly() bool {
	return errors.Is(os.WriteFile(filepath.Join(k.Dir, "probe"), nil, 0o600), syscall.EROFS)
}

// TestGuestDiskError: an error of the file system makes it read-only until it
// was unmounted and checked (errors=remount-ro).
func TestGuestDiskError(t *testing.T) {
	t.Parallel()
	k := newDisk(t, 96)
	w := k.inhabited(k.prepare())
	c := w.c
	syscall.Sync() // what is not on the disk by now is lost
	harness.Write(t, filepath.Join("/sys/fs/ext4", filepath.Base(k.Device()), "trigger_fs_error"), "a test")
	harness.Eventually(t, "the disk is read-only", k.isReadOnly)
	w.refuses(503, readOnly, readOnly)
	w.readable()
	c.Delete(w.offline).Want(503, "status", "error").Says("message", "cannot delete the application: "+readOnly)
	c.Info(w.offline).Want(200, "apps.online", false)
	w.unchanged("a delete")

	w.endsOn("read-only file system")
	code, _, stderr := w.Run("serve", "--listen", "127.0.0.1:0")
	if code != 78 || !strings.Contains(stderr, "berth: cannot use the data directory "+w.Data+": its disk is read-only\nHint: ") {
		t.Errorf("exit status %d: %s", code, stderr)
	}
	k.mend()
	w.Serve()
	for _, id := range []string{w.talks, w.idle} {
		c.Until(id, "apps.online", true)
	}
	harness.SameTree(t, w.kept(), w.before)
	c.Put("/app/"+w.idle+"/profile", `{"name":"after"}`).Want(200)
	c.Upload(harness.ShellBot(harness.IdleShell, "RAM=32"))
}

// mend unmounts, checks and mounts the disk.
func (k *disk) mend() {
	k.T.Helper()
	image := filepath.Join("/dev/shm", filepath.Base(k.Dir))
	k.Command("umount", k.Dir)
	harness.Eventually(k.T, "nothing writes to the image", func() bool { // the kernel lets go of it later
		out, err := exec.Command("losetup", "-j", image).CombinedOutput()
		return err == nil && len(out) == 0
	})
	out, err := exec.Command("e2fsck", "-fy", image).CombinedOutput()
	var status *exec.ExitError
	if err != nil && (!errors.As(err, &status) || status.ExitCode() > 1) { // 1: errors were mended
		k.T.Errorf("e2fsck: %v: %s", err, out)
	}
	k.Command("mount", "-o", "loop,prjquota,errors=remount-ro", image, k.Dir)
	if k.isReadOnly() {
		said, _ := exec.Command("dmesg").Output()
		k.T.Fatalf("the mended disk is read-only: %s", said[max(0, len(said)-2000):])
	}
}

// TestGuestDiskRemounted: a disk that is read-only for a while, under those who
// write to it. It takes every disk: test/vm/suite runs it alone.
func TestGuestDiskRemounted(t *testing.T) {
	k := newDisk(t, 96)
	w := k.inhabited(k.prepare())
	c := w.c
	writable := func() {
		for _, dir := range []string{"/disk", k.Dir} {
			k.Command("mount", "-o", "remount,rw", dir)
		}
	}
	defer writable() // also after a failure, for the tests that follow
	if err := os.WriteFile("/proc/sysrq-trigger", []byte("u"), 0); err != nil {
		t.Fatal(err)
	}
	harness.Eventually(t, "the disk is read-only", k.isReadOnly)
	// What is open, the database and the logs, is written to: the kernel keeps
	// it in memory and says nothing. Whatever makes a file is refused.
	c.Post(harness.ShellBot(harness.IdleShell).Zip()).Want(503).Says("message", "cannot keep the upload: "+readOnly)
	c.Commit(w.idle, harness.ShellBot("new")).Want(503).Says("message", "cannot keep the upload: "+readOnly)
	c.Get("/app/"+w.idle+"/backup").Want(503).Says("message", "cannot write the backup: "+readOnly)
	w.readable()
	// A program that was online is so again when it can.
	c.Put("/app/"+w.idle+"/restart", "").Want(503).Says("message", readOnly)
	c.Info(w.idle).Want(200, "apps.online", false)
	writable()
	c.Until(w.idle, "apps.online", true)
	w.pids[w.idle] = w.PID(w.idle)
	w.unchanged("the disk is writable")
	c.Commit(w.idle, harness.Files{"index.js": "console.log('new')\n" + harness.IdleNode}).Want(200, "status", "ok")
	c.Get("/app/" + w.idle + "/backup").Want(200)
	w.Restart()
	for _, id := range []string{w.talks, w.idle} {
		c.Until(id, "apps.online", true)
	}
}
