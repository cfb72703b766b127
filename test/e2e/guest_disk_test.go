//go:build guest

package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"berth/test/harness"
)

// disk is a file system of its own for a data directory: ext4 with a quota, of
// projects if nothing else is asked for, in memory below.
type disk struct {
	t   *testing.T
	dir string
}

func newDisk(t *testing.T, mb int64) *disk {
	t.Helper()
	return newDiskWith(t, mb, "prjquota")
}

// newDiskWith is newDisk with another kind of quota.
func newDiskWith(t *testing.T, mb int64, quota string) *disk {
	t.Helper()
	guest(t)
	dir, err := os.MkdirTemp("/tmp", "berth-e2e-disk.") //nolint:usetesting // t.TempDir is closed to other users
	if err != nil {
		t.Fatal(err)
	}
	image := filepath.Join("/dev/shm", filepath.Base(dir)) // not on a disk: it would become read-only with it
	k := &disk{t: t, dir: dir}
	write(t, image, "")
	t.Cleanup(func() {
		k.command("umount", dir) // fails while something is open
		os.Remove(image)
		os.Remove(dir)
	})
	if err := os.Truncate(image, mb<<20); err != nil {
		t.Fatal(err)
	}
	k.command("mkfs.ext4", "-q", "-F", "-m", "0", "-b", "4096", "-O", "quota,project", "-E", "quotatype="+quota, image)
	k.command("mount", "-o", "loop,"+quota+",errors=remount-ro", image, dir)
	return k
}

// device is the block device that the disk is on.
func (k *disk) device() string {
	k.t.Helper()
	out, err := exec.Command("findmnt", "-no", "SOURCE", k.dir).Output()
	if err != nil {
		k.t.Fatal(err)
	}
	return strings.TrimSpace(string(out))
}

// command must succeed.
func (k *disk) command(name string, args ...string) {
	k.t.Helper()
	if out, err := exec.Command(name, args...).CombinedOutput(); err != nil {
		k.t.Errorf("%s %v: %v: %s", name, args, err, out)
	}
}

// prepare makes a daemon with its data on the disk, which is not started.
func (k *disk) prepare(args ...string) *daemon {
	k.t.Helper()
	data := filepath.Join(k.dir, "data")
	d := prepare(k.t, append([]string{"--data-dir", data}, args...)...)
	d.data = data
	return d
}

func (k *disk) ballast() string { return filepath.Join(k.dir, "ballast") }

// fill leaves so many bytes free, of those that only root may have.
func (k *disk) fill(free int64) {
	k.t.Helper()
	syscall.Sync() // what is written later takes its blocks first
	f, err := os.OpenFile(k.ballast(), os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		k.t.Fatal(err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		k.t.Fatal(err)
	}
	end := info.Size()
	for step := int64(64 << 20); step >= 4096; {
		if err := syscall.Fallocate(int(f.Fd()), 0, end, step); err != nil {
			step /= 2
			continue
		}
		end += step
	}
	if free > 0 {
		if err := f.Truncate(end - free); err != nil {
			k.t.Fatal(err)
		}
	}
	syscall.Sync()
}

// free gives back what fill took.
func (k *disk) free() {
	k.t.Helper()
	if err := os.Remove(k.ballast()); err != nil {
		k.t.Error(err)
	}
	syscall.Sync()
}

// kept is everything of the data directory that must be whole or not at all.
func (d *daemon) kept() files {
	d.t.Helper()
	all := files{}
	for _, dir := range []string{"apps", "staging", "rollback", "backups"} {
		for name, what := range snapshot(d.t, filepath.Join(d.data, dir)) {
			all[dir+"/"+name] = what
		}
	}
	return all
}

// counting prints a number ten times a second, in lines that soon need a block.
const counting = "import itertools, time\nfor n in itertools.count():\n    print('n', n, 'x' * 800, flush=True)\n    time.sleep(.1)\n"

// inhabited is a daemon on a disk with applications: one that prints without
// end, one that idles, one that was stopped.
type inhabited struct {
	*daemon
	k                    *disk
	c                    *client
	talks, idle, offline string
	link                 string // of a backup
	pids                 map[string]int
	before               files
}

func (k *disk) inhabited(d *daemon) *inhabited {
	k.t.Helper()
	d.start()
	w := &inhabited{daemon: d, k: k, c: d.account("ana", 600), pids: map[string]int{}}
	w.talks = w.c.upload(pythonBot(counting, "RAM=40"))
	w.idle = w.c.upload(nodeBot(idleNode, "RAM=64").with("noise", noise(8<<20)))
	w.offline = w.c.upload(shellBot(idleShell, "RAM=32"))
	w.c.put("/app/"+w.offline+"/stop", "").want(200)
	w.link = w.c.get("/app/" + w.offline + "/backup").text("backups.url")
	w.pids[w.talks], w.pids[w.idle] = d.pid(w.talks), d.pid(w.idle)
	w.before = d.kept()
	return w
}

// unchanged fails unless files and programs are as they were.
func (w *inhabited) unchanged(after string) {
	w.t.Helper()
	sameTree(w.t, w.kept(), w.before)
	for id, pid := range w.pids {
		if now := w.pid(id); now != pid {
			w.t.Errorf("the pid was %d and is %d", pid, now)
		}
	}
	if w.t.Failed() {
		w.t.Fatalf("not as before, after %s", after)
	}
}

// refuses fails unless everything that writes is refused with the status and
// the cause, and changes nothing; what the disk says before is asked for more
// may be another one.
func (w *inhabited) refuses(code int, early, cause string) {
	w.t.Helper()
	c, app := w.c, "/app/"+w.idle
	small := nodeBot("throw new Error('new')", "RAM=64")
	c.post(small.zip()).want(code, "status", "error").says("message", "cannot keep the upload: "+early)
	c.commit(w.idle, small).want(code, "status", "error").says("message", "cannot keep the upload: "+early)
	c.get(app+"/backup").want(code, "status", "error").says("message", "cannot write the backup: "+early)
	c.put(app+"/profile", `{"name":"new"}`).want(code, "status", "error").says("message", "cannot store the profile: "+cause)
	c.put(app+"/ram", `{"ramMB":100}`).want(code, "status", "error").says("message", "cannot store the RAM: "+cause)
	c.put("/locale/pt-BR", "").want(code, "status", "error").says("message", "cannot change the account: "+cause)
	for _, args := range [][]string{{"account", "create", "bob", "--ram", "10"}, {"token", "create", "ana"}} {
		if exit, _, stderr := w.run(args...); exit != 1 || !strings.Contains(stderr, "berth: cannot ") || !strings.Contains(stderr, cause) {
			w.t.Errorf("berth %v: exit status %d: %s", args, exit, stderr)
		}
	}
	w.unchanged("refusals")
}

// readable fails unless everything that only reads works.
func (w *inhabited) readable() {
	w.t.Helper()
	c := w.c
	c.get("/user").want(200, "user.ramUsedMb", 136, "user.locale", "en-US")
	c.info(w.idle).want(200, "apps.online", true, "apps.ram", 64, "apps.name", w.idle)
	c.info(w.offline).want(200, "apps.online", false)
	c.get("/app/"+w.idle+"/status").want(200, "apps.container", "Online").says("apps.memory", "/64MB")
	c.get("/app/"+w.talks+"/logs").want(200).says("apps.terminal.big", "Z n ")
	if log := c.log(w.talks); !strings.Contains(log, "Z n 1 x") {
		w.t.Errorf("the log is %q", log)
	}
	if len(c.download(w.link)) == 0 {
		w.t.Error("the backup is empty")
	}
	if list := w.berth("account", "list"); !strings.Contains(list, "ana") || strings.Contains(list, "bob") {
		w.t.Errorf("the accounts are %s", list)
	}
	if list := w.berth("token", "list", "ana"); strings.Count(list, "\n") != 1 {
		w.t.Errorf("the tokens are %s", list)
	}
	w.unchanged("reading")
}

// recovers fails unless everything works again by itself and each number that
// was printed is in the log or counted as lost for the reason.
func (w *inhabited) recovers(reason string) {
	w.t.Helper()
	c := w.c
	harness.Eventually(w.t, "settings are stored", func() bool { return c.put("/app/"+w.idle+"/profile", `{"name":"after"}`).code == 200 })
	for _, id := range []string{w.talks, w.idle} {
		c.until(id, "apps.online", true)
	}
	next, lost := 0, 0
	for line := range strings.Lines(c.untilLog(w.talks, "lost: cannot write the log: "+reason)) {
		words := strings.Fields(line)
		if len(words) < 3 {
			continue
		}
		switch n, err := strconv.Atoi(words[2]); {
		case err == nil && words[1] == "n":
			if n != next {
				w.t.Errorf("the number %d follows where %d should, with %d lines counted as lost", n, next, lost)
			}
			next = n + 1
		case err == nil && strings.Contains(line, "lost: cannot write the log"):
			next, lost = next+n, lost+n
		}
	}
	if lost == 0 {
		w.t.Error("no line was counted as lost")
	}
	c.put("/app/"+w.idle+"/ram", `{"ramMB":90}`).want(200)
	c.commit(w.idle, files{"index.js": "console.log('new')\n" + idleNode}).want(200, "status", "ok")
	c.untilLog(w.idle, "new\n")
	if len(c.download(c.get("/app/"+w.idle+"/backup").want(200).text("backups.url"))) == 0 {
		w.t.Error("the backup is empty")
	}
	c.delete(c.upload(shellBot(idleShell, "RAM=32"))).want(200)
}

// endsOn ends the daemon on a disk that refuses for the reason: well, or with
// the count of the log lines that were lost.
func (w *inhabited) endsOn(reason string) {
	w.t.Helper()
	code := w.End(syscall.SIGTERM)
	if said := w.Out.String(); code != 0 && (code != 1 || !strings.Contains(said, " lost: ") || !strings.Contains(said, reason)) {
		w.t.Errorf("exit status %d: %s", code, tail(said, 2000))
	}
}

// TestGuestDiskFull: what needs room is refused and leaves everything as it
// was, what needs none goes on, and all is well once there is room.
func TestGuestDiskFull(t *testing.T) {
	t.Parallel()
	k := newDisk(t, 96)
	w := k.inhabited(k.prepare())
	c := w.c

	k.fill(9 << 20) // above the floor, below what these need
	wide := nodeBot(idleNode, "RAM=64").with("zeros", strings.Repeat("0", 14<<20))
	c.post(nodeBot(idleNode).with("noise", noise(12<<20)).zip()).want(503, "status", "error").says("message", "cannot keep the upload: "+full)
	c.post(wide.zip()).want(503).says("message", "cannot unpack the upload: "+full)
	c.commit(w.idle, wide).want(503).says("message", "cannot unpack the upload: "+full)
	c.commit(w.idle, nodeBot("new", "BUILD=true").with("more", noise(3<<20))).want(503).says("message", "cannot prepare the build: "+full)
	w.unchanged("uploads that need too much")

	harness.Eventually(t, "nothing can be recorded", func() bool { // what was freed a moment ago comes late
		k.fill(0)
		return c.put("/locale/en-US", "").code != 200
	})
	w.refuses(503, "the host's disk is nearly full (0 MB are free); its owner must make room", full)
	w.readable()
	// What ran can run: its directories are there.
	c.put("/app/"+w.idle+"/restart", "").want(200)
	c.until(w.idle, "apps.online", true)
	w.pids[w.idle] = w.pid(w.idle)
	w.unchanged("a restart")

	k.free()
	w.recovers("no space left on device")

	// A start needs no room but what the stop gave back.
	k.fill(0)
	w.endsOn("no space left on device")
	w.start()
	c.until(w.idle, "apps.online", true, "apps.name", "after")
	k.free()
	c.put("/app/"+w.idle+"/profile", `{"name":"later"}`).want(200)
}

// full is what is said of a disk that is full.
const full = "the host's disk is full; its owner must make room"
