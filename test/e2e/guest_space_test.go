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
	k.T.Helper()
	device, err := syscall.BytePtrFromString(k.Device())
	if err != nil {
		k.T.Fatal(err)
	}
	var q blockQuota
	_, _, errno := syscall.Syscall6(syscall.SYS_QUOTACTL, uintptr(0x800007<<8|kind), uintptr(unsafe.Pointer(device)), uintptr(id), uintptr(unsafe.Pointer(&q)), 0, 0)
	if errno != 0 {
		k.T.Fatalf("quotactl: %v", errno)
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
	d.Serve()
	c := d.account("ana", 600)
	c.Post(harness.ShellBot(harness.IdleShell, "RAM=32").With("zeros", strings.Repeat("0", 30<<20)).Zip()).Want(422, "status", "error").
		Says("message", "cannot deploy the application: it would take ", "MB of disk, and may take 24 MB")
	// Its tree holds links, a directory that a commit moves, and what is built.
	const builds = "BUILD=rm -rf made && mkdir made && ln -s start.sh made/link && head -c 300000 /dev/zero >made/zeros"
	built := c.Upload(harness.ShellBot(harness.IdleShell, "RAM=32", builds).With("sub/file", "1"))
	idle, hoarder := c.Upload(harness.ShellBot(harness.IdleShell, "RAM=32")), c.Upload(harness.PythonBot(hoards, "RAM=60"))
	uid := map[string]int{}
	for _, id := range []string{built, idle, hoarder} {
		info, err := os.Stat(d.Path(id))
		if err != nil {
			t.Fatal(err)
		}
		uid[id] = int(info.Sys().(*syscall.Stat_t).Uid)
		if q := k.taken(kind, uid[id]); q.hard != space<<10 || q.bytes == 0 || q.inodes == 0 {
			t.Errorf("the quota is %+v", q)
		}
	}

	filled := d.filled(hoarder)
	harness.Write(t, d.Path(hoarder, "fill"), "")
	harness.Eventually(t, "the quota is used up", func() bool { return harness.Exists(t, filled) })
	if q := k.taken(kind, uid[hoarder]); q.bytes>>10 > q.hard || q.bytes>>10 < q.hard-128 {
		t.Errorf("the quota is %+v", q)
	}
	c.Info(hoarder).Want(200, "apps.online", true)
	c.console(idle, "head -c 5000000 /dev/zero >mine").Want(200, "apps.shell.stderr", "")
	harness.Write(t, filepath.Join(filled, "free"), "")
	c.UntilLog(hoarder, "it was EDQUOT")
	if err := os.RemoveAll(filled); err != nil {
		t.Error(err)
	}

	redeploys(c, d, built, builds)
	if kind == 2 {
		charged := func(when string) {
			t.Helper()
			if got := projects(t, d.Path(built)); len(got) != 1 || got[uint32(uid[built])] == 0 {
				t.Errorf("%s: the files are of the projects %v, want %d", when, got, uid[built])
			}
		}
		charged("after commits")
		// A tree from before the quotas, whose links cannot be charged.
		if code := d.End(syscall.SIGTERM); code != 0 {
			t.Errorf("the daemon's exit status is %d", code)
		}
		k.Command("find", d.Path(built), "(", "-type", "d", "-o", "-type", "f", ")", "-exec", "chattr", "-p", "0", "{}", "+")
		k.Command("find", d.Path(built), "-type", "d", "-exec", "chattr", "-P", "{}", "+")
		k.Command("find", d.Path(built), "-type", "l", "-exec", "sh", "-c", `to=$(readlink "$1"); rm "$1"; ln -s "$to" "$1"; chown -h "$2:$2" "$1"`, "-", "{}", fmt.Sprint(uid[built]), ";")
		d.Serve()
		charged("after a start")
		redeploys(c, d, built, builds)
		charged("after more commits")
	}
	for id := range uid {
		if len(c.Download(c.Get("/app/"+id+"/backup").Want(200).Text("backups.url"))) == 0 {
			t.Error("the backup is empty")
		}
		c.Delete(id).Want(200)
	}
	harness.Eventually(t, "nothing is left of the quotas", func() bool {
		left := false
		for id := d.UID; id < d.UID+harness.UIDs; id++ {
			q := k.taken(kind, id)
			left = left || q.hard != 0 || q.inodesHard != 0 || q.bytes != 0 || q.inodes != 0
		}
		return !left
	})
}

// redeploys commits twice well, twice so that it must be undone, and once too
// much.
func redeploys(c *client, d *daemon, id, builds string) {
	c.T.Helper()
	const crash = "exit 7\n"
	c.Commit(id, harness.ShellBot(harness.IdleShell, "RAM=32", builds).With("sub/file", "2")).Want(200, "status", "ok")
	c.Commit(id, harness.Files{"start.sh": "# three\n" + harness.IdleShell, "sub/file": "3"}).Want(200, "status", "ok")
	before := harness.Snapshot(c.T, d.Path(id))
	undone := func(f harness.Files) {
		c.T.Helper()
		c.Commit(id, f).Want(422, "status", "error").Says("message", "the code from before the commit is back")
		harness.SameTree(c.T, harness.Snapshot(c.T, d.Path(id)), before)
	}
	undone(harness.Files{"start.sh": crash, "sub": "no directory", "made/more": "4"})
	undone(harness.ShellBot(crash, "RAM=32", "BUILD=rm -r made sub; mkdir -p a/b; ln -s x a/b/l"))
	c.Commit(id, harness.Files{"zeros": strings.Repeat("0", 30<<20)}).Want(422, "status", "error").Says("message", "may take 24 MB")
	harness.SameTree(c.T, harness.Snapshot(c.T, d.Path(id)), before)
}
