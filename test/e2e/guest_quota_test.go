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
	k.T.Helper()
	dir := filepath.Join(k.Dir, name)
	if err := os.Mkdir(dir, 0o711); err != nil {
		k.T.Fatal(err)
	}
	k.Command("chattr", "-p", id, "+P", dir)
	return dir
}

// quota sets how many bytes more a project may have than it has.
func (k *disk) quota(id, more uint64) {
	k.T.Helper()
	syscall.Sync() // what is not written yet counts differently
	device, err := syscall.BytePtrFromString(k.Device())
	if err != nil {
		k.T.Fatal(err)
	}
	var q blockQuota
	call := func(command uintptr) {
		_, _, errno := syscall.Syscall6(syscall.SYS_QUOTACTL, command, uintptr(unsafe.Pointer(device)), uintptr(id), uintptr(unsafe.Pointer(&q)), 0, 0)
		if errno != 0 {
			k.T.Fatalf("quotactl: %v", errno)
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
	d.T.Helper()
	return filepath.Join("/proc", strconv.Itoa(d.PID(id)), "root/tmp", id+".filled")
}

// TestGuestDiskQuota: a data directory in a project with a quota, whose limit
// holds programs, and the daemon unless it has CAP_SYS_RESOURCE.
func TestGuestDiskQuota(t *testing.T) {
	t.Parallel()
	k := newDisk(t, 96)
	data, other := k.project("data", "42"), k.project("other", "43")
	d := k.prepare()
	d.Under = []string{"setpriv", "--bounding-set", "-sys_resource", "--inh-caps", "-sys_resource"}
	d.Serve()
	c := d.account("ana", 600)
	idle := c.Upload(harness.ShellBot(harness.IdleShell, "RAM=32")) // staging, apps, logs and tmp are one project: renames work
	hoarder := c.Upload(harness.PythonBot(hoards, "RAM=60"))
	before := d.kept()
	if err := os.Rename(d.Path(idle), filepath.Join(other, "app")); !errors.Is(err, syscall.EXDEV) {
		t.Errorf("rename across projects: %v", err)
	}

	k.quota(42, 9<<20)
	c.Post(harness.NodeBot(harness.IdleNode).With("noise", noise(12<<20)).Zip()).Want(503, "status", "error").Says("message", "cannot keep the upload: "+quotaUsed)
	wide := harness.ShellBot(harness.IdleShell, "RAM=32").With("zeros", strings.Repeat("0", 14<<20))
	c.Post(wide.Zip()).Want(503).Says("message", "cannot unpack the upload: "+quotaUsed)
	c.Commit(idle, wide).Want(503).Says("message", "cannot unpack the upload: "+quotaUsed)
	harness.SameTree(t, d.kept(), before)

	var filled string
	hoard := func() {
		t.Helper()
		filled = d.filled(hoarder)
		harness.Write(t, d.Path(hoarder, "fill"), "")
		harness.Eventually(t, "the quota is used up", func() bool { return harness.Exists(t, filled) })
	}
	release := func() {
		t.Helper()
		harness.Write(t, filepath.Join(filled, "free"), "")
		c.UntilLog(hoarder, "it was EDQUOT")
		if err := os.RemoveAll(filled); err != nil {
			t.Error(err)
		}
	}
	hoard()
	c.Put("/app/"+idle+"/profile", `{"name":"new"}`).Want(503).Says("message", "cannot store the profile: "+quotaUsed)
	c.Post(harness.ShellBot(harness.IdleShell).Zip()).Want(503).Says("message", "nearly full")
	for _, id := range []string{idle, hoarder} {
		c.Info(id).Want(200, "apps.online", true)
	}
	harness.Write(t, filepath.Join(other, "file"), noise(1<<20)) // nobody else's limit
	release()
	c.Put("/app/"+idle+"/profile", `{"name":"new"}`).Want(200)

	// With the capability the daemon is not held up by what a program hoards.
	d.Under = nil
	d.Restart()
	for _, id := range []string{idle, hoarder} { // they start once berth answers
		c.Until(id, "apps.online", true)
	}
	hoard()
	for range 5 {
		c.Put("/app/"+idle+"/profile", `{"name":"newer"}`).Want(200)
		c.Put("/app/"+idle+"/profile", `{"name":"new"}`).Want(200)
	}
	c.Put("/app/"+idle+"/restart", "").Want(200)
	release()
	if data != d.Data {
		t.Errorf("the data directory is %s, and the project %s", d.Data, data)
	}
}
