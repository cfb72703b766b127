//go:build guest

package e2e

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"berth/test/harness"
)

// disk is a file system of its own for a data directory, with a quota, of
// projects if nothing else is asked for, in memory below.
type disk struct{ *harness.Disk }

func newDisk(t *testing.T, mb int64) *disk {
	t.Helper()
	return newDiskWith(t, mb, "prjquota")
}

// newDiskWith is newDisk with another kind of quota.
func newDiskWith(t *testing.T, mb int64, quota string) *disk {
	t.Helper()
	guest(t)
	// Not on a disk: it would become read-only with it.
	return &disk{harness.NewDisk(t, "/dev/shm", mb, quota+",errors=remount-ro", "-O", "quota,project", "-E", "quotatype="+quota)}
}

// prepare makes a daemon with its data on the disk, which is not started.
func (k *disk) prepare(args ...string) *daemon {
	k.T.Helper()
	return &daemon{k.Prepare(args...)}
}

func (k *disk) ballast() string { return filepath.Join(k.Dir, "ballast") }

// fill leaves so many bytes free, of those that only root may have.
func (k *disk) fill(free int64) {
	k.T.Helper()
	syscall.Sync() // what is written later takes its blocks first
	f, err := os.OpenFile(k.ballast(), os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		k.T.Fatal(err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		k.T.Fatal(err)
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
			k.T.Fatal(err)
		}
	}
	syscall.Sync()
}

// free gives back what fill took.
func (k *disk) free() {
	k.T.Helper()
	if err := os.Remove(k.ballast()); err != nil {
		k.T.Error(err)
	}
	syscall.Sync()
}

// kept is everything of the data directory that must be whole or not at all.
func (d *daemon) kept() harness.Files {
	d.T.Helper()
	all := harness.Files{}
	for _, dir := range []string{"apps", "staging", "rollback", "backups"} {
		for name, what := range harness.Snapshot(d.T, filepath.Join(d.Data, dir)) {
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
	before               harness.Files
}

func (k *disk) inhabited(d *daemon) *inhabited {
	k.T.Helper()
	d.Serve()
	w := &inhabited{daemon: d, k: k, c: d.account("ana", 600), pids: map[string]int{}}
	w.talks = w.c.Upload(harness.PythonBot(counting, "RAM=40"))
	w.idle = w.c.Upload(harness.NodeBot(harness.IdleNode, "RAM=64").With("noise", noise(8<<20)))
	w.offline = w.c.Upload(harness.ShellBot(harness.IdleShell, "RAM=32"))
	w.c.Put("/app/"+w.offline+"/stop", "").Want(200)
	w.link = w.c.Get("/app/" + w.offline + "/backup").Text("backups.url")
	w.pids[w.talks], w.pids[w.idle] = d.PID(w.talks), d.PID(w.idle)
	w.before = d.kept()
	return w
}

// unchanged fails unless files and programs are as they were.
func (w *inhabited) unchanged(after string) {
	w.T.Helper()
	harness.SameTree(w.T, w.kept(), w.before)
	for id, pid := range w.pids {
		if now := w.PID(id); now != pid {
			w.T.Errorf("the pid was %d and is %d", pid, now)
		}
	}
	if w.T.Failed() {
		w.T.Fatalf("not as before, after %s", after)
	}
}

// refuses fails unless everything that writes is refused with the status and
// the cause, and changes nothing; what the disk says before is asked for more
// may be another one.
func (w *inhabited) refuses(code int, early, cause string) {
	w.T.Helper()
	c, app := w.c, "/app/"+w.idle
	small := harness.NodeBot("throw new Error('new')", "RAM=64")
	c.Post(small.Zip()).Want(code, "status", "error").Says("message", "cannot keep the upload: "+early)
	c.Commit(w.idle, small).Want(code, "status", "error").Says("message", "cannot keep the upload: "+early)
	c.Get(app+"/backup").Want(code, "status", "error").Says("message", "cannot write the backup: "+early)
	c.Put(app+"/profile", `{"name":"new"}`).Want(code, "status", "error").Says("message", "cannot store the profile: "+cause)
	c.Put(app+"/ram", `{"ramMB":100}`).Want(code, "status", "error").Says("message", "cannot store the RAM: "+cause)
	c.Put("/locale/pt-BR", "").Want(code, "status", "error").Says("message", "cannot change the account: "+cause)
	for _, args := range [][]string{{"account", "create", "bob", "--ram", "10"}, {"token", "create", "ana"}} {
		if exit, _, stderr := w.Run(args...); exit != 1 || !strings.Contains(stderr, "berth: cannot ") || !strings.Contains(stderr, cause) {
			w.T.Errorf("berth %v: exit status %d: %s", args, exit, stderr)
		}
	}
	w.unchanged("refusals")
}

// readable fails unless everything that only reads works.
func (w *inhabited) readable() {
	w.T.Helper()
	c := w.c
	c.Get("/user").Want(200, "user.ramUsedMb", 136, "user.locale", "en-US")
	c.Info(w.idle).Want(200, "apps.online", true, "apps.ram", 64, "apps.name", w.idle)
	c.Info(w.offline).Want(200, "apps.online", false)
	c.Get("/app/"+w.idle+"/status").Want(200, "apps.container", "Online").Says("apps.memory", "/64MB")
	c.Get("/app/"+w.talks+"/logs").Want(200).Says("apps.terminal.big", "Z n ")
	if log := c.Log(w.talks); !strings.Contains(log, "Z n 1 x") {
		w.T.Errorf("the log is %q", log)
	}
	if len(c.Download(w.link)) == 0 {
		w.T.Error("the backup is empty")
	}
	if list := w.CLI("account", "list"); !strings.Contains(list, "ana") || strings.Contains(list, "bob") {
		w.T.Errorf("the accounts are %s", list)
	}
	if list := w.CLI("token", "list", "ana"); strings.Count(list, "\n") != 1 {
		w.T.Errorf("the tokens are %s", list)
	}
	w.unchanged("reading")
}

// recovers fails unless everything works again by itself and each number that
// was printed is in the log or counted as lost for the reason.
func (w *inhabited) recovers(reason string) {
	w.T.Helper()
	c := w.c
	harness.Eventually(w.T, "settings are stored", func() bool { return c.Put("/app/"+w.idle+"/profile", `{"name":"after"}`).Code == 200 })
	for _, id := range []string{w.talks, w.idle} {
		c.Until(id, "apps.online", true)
	}
	next, lost := 0, 0
	for line := range strings.Lines(c.UntilLog(w.talks, "lost: cannot write the log: "+reason)) {
		words := strings.Fields(line)
		if len(words) < 3 {
			continue
		}
		switch n, err := strconv.Atoi(words[2]); {
		case err == nil && words[1] == "n":
			if n != next {
				w.T.Errorf("the number %d follows where %d should, with %d lines counted as lost", n, next, lost)
			}
			next = n + 1
		case err == nil && strings.Contains(line, "lost: cannot write the log"):
			next, lost = next+n, lost+n
		}
	}
	if lost == 0 {
		w.T.Error("no line was counted as lost")
	}
	c.Put("/app/"+w.idle+"/ram", `{"ramMB":90}`).Want(200)
	c.Commit(w.idle, harness.Files{"index.js": "console.log('new')\n" + harness.IdleNode}).Want(200, "status", "ok")
	c.UntilLog(w.idle, "new\n")
	if len(c.Download(c.Get("/app/"+w.idle+"/backup").Want(200).Text("backups.url"))) == 0 {
		w.T.Error("the backup is empty")
	}
	c.Delete(c.Upload(harness.ShellBot(harness.IdleShell, "RAM=32"))).Want(200)
}

// endsOn ends the daemon on a disk that refuses for the reason: well, or with
// the count of the log lines that were lost.
func (w *inhabited) endsOn(reason string) {
	w.T.Helper()
	code := w.End(syscall.SIGTERM)
	if said := w.Out.String(); code != 0 && (code != 1 || !strings.Contains(said, " lost: ") || !strings.Contains(said, reason)) {
		w.T.Errorf("exit status %d: %s", code, harness.Tail(said, 2000))
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
	wide := harness.NodeBot(harness.IdleNode, "RAM=64").With("zeros", strings.Repeat("0", 14<<20))
	c.Post(harness.NodeBot(harness.IdleNode).With("noise", noise(12<<20)).Zip()).Want(503, "status", "error").Says("message", "cannot keep the upload: "+full)
	c.Post(wide.Zip()).Want(503).Says("message", "cannot unpack the upload: "+full)
	c.Commit(w.idle, wide).Want(503).Says("message", "cannot unpack the upload: "+full)
	k.fill(9 << 20) // what was refused is not all given back yet, and what is measured each minute takes some
	c.Commit(w.idle, harness.NodeBot("new", "BUILD=true").With("more", noise(3<<20))).Want(503).Says("message", "cannot prepare the build: "+full)
	w.unchanged("uploads that need too much")

	harness.Eventually(t, "nothing can be recorded", func() bool { // what was freed a moment ago comes late
		k.fill(0)
		return c.Put("/locale/en-US", "").Code != 200
	})
	w.refuses(503, "the host's disk is nearly full (0 MB are free); its owner must make room", full)
	w.readable()
	// What ran can run: its directories are there.
	c.Put("/app/"+w.idle+"/restart", "").Want(200)
	c.Until(w.idle, "apps.online", true)
	w.pids[w.idle] = w.PID(w.idle)
	w.unchanged("a restart")

	k.free()
	w.recovers("no space left on device")

	// A start has the room that was kept for it.
	room := filepath.Join(w.Data, "room")
	if info, err := os.Stat(room); err != nil || info.Size() == 0 {
		t.Errorf("no room is kept: %v", err)
	}
	k.fill(0)
	w.endsOn("no space left on device")
	w.Serve()
	c.Until(w.idle, "apps.online", true, "apps.name", "after")
	k.free()
	c.Put("/app/"+w.idle+"/profile", `{"name":"later"}`).Want(200)
}

// full is what is said of a disk that is full.
const full = "the host's disk is full; its owner must make room"
