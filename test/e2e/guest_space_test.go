//go:build guest

package e2e

import (
	"encoding/binary"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"berth/test/harness"
)

// taken is what the kernel knows of an id's quota; kind is 0 for users and 2
// for projects.
func (k *disk) taken(kind, id int) blockQuota {
	k.t.Helper()
	device, err := syscall.BytePtrFromString(k.device())
	if err != nil {
		k.t.Fatal(err)
	}
	var q blockQuota
	_, _, errno := syscall.Syscall6(syscall.SYS_QUOTACTL, uintptr(0x800007<<8|kind), uintptr(unsafe.Pointer(device)), uintptr(id), uintptr(unsafe.Pointer(&q)), 0, 0)
	if errno != 0 {
		k.t.Fatalf("quotactl: %v", errno)
	}
	return q
}

// projects returns how many files and directories of a tree are of a project.
func projects(t *testing.T, root string) map[uint32]int {
	t.Helper()
	found := map[uint32]int{}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() && !d.Type().IsRegular() {
			return err
		}
		f, err := os.Open(path)
		if err != nil {
			return err
		}
		defer f.Close()
		var x [28]byte
		_, _, errno := syscall.Syscall(syscall.SYS_IOCTL, f.Fd(), 0x801c581f, uintptr(unsafe.Pointer(&x))) // FS_IOC_FSGETXATTR
		if errno != 0 {
			return errno
		}
		found[binary.LittleEndian.Uint32(x[12:])]++
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// TestGuestDiskSpace: the kernel holds programs to their disk space, by either
// quota, and deployments, their undoing and backups work beside it.
func TestGuestDiskSpace(t *testing.T) {
	t.Parallel()
	for kind, quota := range map[int]string{0: "usrquota", 2: "prjquota"} {
		t.Run(quota, func(t *testing.T) {
			t.Parallel()
			spaceOf(t, newDiskWith(t, 160, quota), kind)
		})
	}
}

func spaceOf(t *testing.T, k *disk, kind int) {
	const space = 24
	d := k.prepare("--apps-disk", fmt.Sprint(space), "--apps-ok-delay", "2s")
	d.start()
	c := d.account("ana", 600)
	c.post(shellBot(idleShell, "RAM=32").with("zeros", strings.Repeat("0", 30<<20)).zip()).want(422, "status", "error").
		says("message", "cannot deploy the application: it would take ", "MB of disk, and may take 24 MB")
	// Its tree holds links, a directory that a commit moves, and what is built.
	const builds = "BUILD=rm -rf made && mkdir made && ln -s start.sh made/link && head -c 300000 /dev/zero >made/zeros"
	built := c.upload(shellBot(idleShell, "RAM=32", builds).with("sub/file", "1"))
	idle, hoarder := c.upload(shellBot(idleShell, "RAM=32")), c.upload(pythonBot(hoards, "RAM=60"))
	uid := map[string]int{}
	for _, id := range []string{built, idle, hoarder} {
		info, err := os.Stat(d.path(id))
		if err != nil {
			t.Fatal(err)
		}
		uid[id] = int(info.Sys().(*syscall.Stat_t).Uid)
		if q := k.taken(kind, uid[id]); q.hard != space<<10 || q.bytes == 0 || q.inodes == 0 {
			t.Errorf("the quota is %+v", q)
		}
	}

	filled := d.filled(hoarder)
	write(t, d.path(hoarder, "fill"), "")
	harness.Eventually(t, "the quota is used up", func() bool { return exists(t, filled) })
	if q := k.taken(kind, uid[hoarder]); q.bytes>>10 > q.hard || q.bytes>>10 < q.hard-128 {
		t.Errorf("the quota is %+v", q)
	}
	c.info(hoarder).want(200, "apps.online", true)
	c.console(idle, "head -c 5000000 /dev/zero >mine").want(200, "apps.shell.stderr", "")
	write(t, filepath.Join(filled, "free"), "")
	c.untilLog(hoarder, "it was EDQUOT")
	if err := os.RemoveAll(filled); err != nil {
		t.Error(err)
	}

	redeploys(c, d, built, builds)
	if kind == 2 {
		charged := func(when string) {
			t.Helper()
			if got := projects(t, d.path(built)); len(got) != 1 || got[uint32(uid[built])] == 0 {
				t.Errorf("%s: the files are of the projects %v, want %d", when, got, uid[built])
			}
		}
		charged("after commits")
		// A tree from before the quotas, whose links cannot be charged.
		if code := d.End(syscall.SIGTERM); code != 0 {
			t.Errorf("the daemon's exit status is %d", code)
		}
		k.command("find", d.path(built), "(", "-type", "d", "-o", "-type", "f", ")", "-exec", "chattr", "-p", "0", "{}", "+")
		k.command("find", d.path(built), "-type", "d", "-exec", "chattr", "-P", "{}", "+")
		k.command("find", d.path(built), "-type", "l", "-exec", "sh", "-c", `to=$(readlink "$1"); rm "$1"; ln -s "$to" "$1"; chown -h "$2:$2" "$1"`, "-", "{}", fmt.Sprint(uid[built]), ";")
		d.start()
		charged("after a start")
		redeploys(c, d, built, builds)
		charged("after more commits")
	}
	for id := range uid {
		if len(c.download(c.get("/app/"+id+"/backup").want(200).text("backups.url"))) == 0 {
			t.Error("the backup is empty")
		}
		c.delete(id).want(200)
	}
	harness.Eventually(t, "nothing is left of the quotas", func() bool {
		left := false
		for id := d.uid; id < d.uid+uids; id++ {
			q := k.taken(kind, id)
			left = left || q.hard != 0 || q.inodesHard != 0 || q.bytes != 0 || q.inodes != 0
		}
		return !left
	})
}

// redeploys commits twice well, twice so that it must be undone, and once too
// much.
func redeploys(c *client, d *daemon, id, builds string) {
	c.t.Helper()
	const crash = "exit 7\n"
	c.commit(id, shellBot(idleShell, "RAM=32", builds).with("sub/file", "2")).want(200, "status", "ok")
	c.commit(id, files{"start.sh": "# three\n" + idleShell, "sub/file": "3"}).want(200, "status", "ok")
	before := snapshot(c.t, d.path(id))
	undone := func(f files) {
		c.t.Helper()
		c.commit(id, f).want(422, "status", "error").says("message", "the code from before the commit is back")
		sameTree(c.t, snapshot(c.t, d.path(id)), before)
	}
	undone(files{"start.sh": crash, "sub": "no directory", "made/more": "4"})
	undone(shellBot(crash, "RAM=32", "BUILD=rm -r made sub; mkdir -p a/b; ln -s x a/b/l"))
	c.commit(id, files{"zeros": strings.Repeat("0", 30<<20)}).want(422, "status", "error").says("message", "may take 24 MB")
	sameTree(c.t, snapshot(c.t, d.path(id)), before)
}
