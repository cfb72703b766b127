//go:build guest

package e2e

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"berth/test/harness"
)

// quotaUsed is what is said of a project that has used its quota up.
const quotaUsed = "the disk quota of the host is used up; its owner must make room or raise it"

// blockQuota is struct if_dqblk of linux/quota.h; the limits are in units of 1024 bytes.
type blockQuota struct {
	hard, soft, bytes, inodesHard, inodesSoft, inodes, blockTime, inodeTime uint64
	valid                                                                   uint32
}

// The commands of quotactl(2) for projects.
const (
	getQuota    = 0x800007<<8 | 2
	setQuota    = 0x800008<<8 | 2
	validLimits = 1
)

// project makes a directory whose files belong to a project, those to come too.
func (k *disk) project(name, id string) string {
	k.t.Helper()
	dir := filepath.Join(k.dir, name)
	if err := os.Mkdir(dir, 0o711); err != nil {
		k.t.Fatal(err)
	}
	k.command("chattr", "-p", id, "+P", dir)
	return dir
}

// quota sets how many bytes more a project may have than it has.
func (k *disk) quota(id, more uint64) {
	k.t.Helper()
	syscall.Sync() // what is not written yet counts differently
	device, err := syscall.BytePtrFromString(k.device())
	if err != nil {
		k.t.Fatal(err)
	}
	var q blockQuota
	call := func(command uintptr) {
		_, _, errno := syscall.Syscall6(syscall.SYS_QUOTACTL, command, uintptr(unsafe.Pointer(device)), uintptr(id), uintptr(unsafe.Pointer(&q)), 0, 0)
		if errno != 0 {
			k.t.Fatalf("quotactl: %v", errno)
		}
	}
	call(getQuota)
	q.hard, q.valid = (q.bytes+more)>>10, validLimits
	call(setQuota)
}

// hoards fills what it may have when it is told to, marks it with a directory,
// lets go of it when told, and says why it could not have more. Nothing of that
// is on the disk that is full.
const hoards = `import errno, os, time
mark = "/tmp/" + os.environ["BERTH_APP_ID"] + ".filled"
def until(name):
    while not os.path.exists(name): time.sleep(.1)
until("fill")
with open("hoard", "wb", buffering=0) as f:
    try:
        while True: f.write(bytes(65536))
    except OSError as e:
        why = errno.errorcode[e.errno]
os.mkdir(mark)
until(mark + "/free")
os.remove("hoard")
print("it was", why, flush=True)
while True: time.sleep(1000)
`

// filled is the mark that hoards makes, in the /tmp of the program that runs now.
func (d *daemon) filled(id string) string {
	d.t.Helper()
	return filepath.Join("/proc", strconv.Itoa(d.pid(id)), "root/tmp", id+".filled")
}

// TestGuestDiskQuota: a data directory in a project with a quota, whose limit
// holds programs, and the daemon unless it has CAP_SYS_RESOURCE.
func TestGuestDiskQuota(t *testing.T) {
	t.Parallel()
	k := newDisk(t, 96)
	data, other := k.project("data", "42"), k.project("other", "43")
	d := k.prepare()
	d.under = []string{"setpriv", "--bounding-set", "-sys_resource", "--inh-caps", "-sys_resource"}
	d.start()
	c := d.account("ana", 600)
	idle := c.upload(shellBot(idleShell, "RAM=32")) // staging, apps, logs and tmp are one project: renames work
	hoarder := c.upload(pythonBot(hoards, "RAM=60"))
	before := d.kept()
	if err := os.Rename(d.path(idle), filepath.Join(other, "app")); !errors.Is(err, syscall.EXDEV) {
		t.Errorf("rename across projects: %v", err)
	}

	k.quota(42, 9<<20)
	c.post(nodeBot(idleNode).with("noise", noise(12<<20)).zip()).want(503, "status", "error").says("message", "cannot keep the upload: "+quotaUsed)
	wide := shellBot(idleShell, "RAM=32").with("zeros", strings.Repeat("0", 14<<20))
	c.post(wide.zip()).want(503).says("message", "cannot unpack the upload: "+quotaUsed)
	c.commit(idle, wide).want(503).says("message", "cannot unpack the upload: "+quotaUsed)
	sameTree(t, d.kept(), before)

	var filled string
	hoard := func() {
		t.Helper()
		filled = d.filled(hoarder)
		write(t, d.path(hoarder, "fill"), "")
		harness.Eventually(t, "the quota is used up", func() bool { return exists(t, filled) })
	}
	release := func() {
		t.Helper()
		write(t, filepath.Join(filled, "free"), "")
		c.untilLog(hoarder, "it was EDQUOT")
		if err := os.RemoveAll(filled); err != nil {
			t.Error(err)
		}
	}
	hoard()
	c.put("/app/"+idle+"/profile", `{"name":"new"}`).want(503).says("message", "cannot store the profile: "+quotaUsed)
	c.post(shellBot(idleShell).zip()).want(503).says("message", "nearly full")
	for _, id := range []string{idle, hoarder} {
		c.info(id).want(200, "apps.online", true)
	}
	write(t, filepath.Join(other, "file"), noise(1<<20)) // nobody else's limit
	release()
	c.put("/app/"+idle+"/profile", `{"name":"new"}`).want(200)

	// With the capability the daemon is not held up by what a program hoards.
	d.under = nil
	d.restart()
	hoard()
	for range 5 {
		c.put("/app/"+idle+"/profile", `{"name":"newer"}`).want(200)
		c.put("/app/"+idle+"/profile", `{"name":"new"}`).want(200)
	}
	c.put("/app/"+idle+"/restart", "").want(200)
	release()
	if data != d.data {
		t.Errorf("the data directory is %s, and the project %s", d.data, data)
	}
}
