package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"berth/test/harness"
)

// cuts is at how many moments these tests cut the power; the soak does it at 20.
const cuts = 2

func TestPowerCutInABackup(t *testing.T) {
	t.Parallel()
	powerCutInABackup(t, cuts)
}

func TestPowerCutInARestore(t *testing.T) {
	t.Parallel()
	powerCutInARestore(t, cuts)
}

func TestPowerCutInAMove(t *testing.T) {
	t.Parallel()
	powerCutInAMove(t, cuts)
}

// What a power cut leaves has what was synced, and lacks what the kernel had in memory alone.
func TestPowerIsCut(t *testing.T) {
	t.Parallel()
	harness.Ready(t, harness.Unready)
	p := harness.NewPower(t, 16)
	harness.Write(t, filepath.Join(p.Dir, "synced"), "x")
	p.Command("sync", "-f", p.Dir)
	harness.Write(t, filepath.Join(p.Dir, "unsynced"), "y")
	image := filepath.Join(t.TempDir(), "image")
	p.Cut(image)
	p.Boot(image)
	if !harness.Exists(t, filepath.Join(p.Dir, "synced")) || harness.Exists(t, filepath.Join(p.Dir, "unsynced")) {
		t.Errorf("there are %v", harness.List(t, p.Dir))
	}
}

// cut is what a power cut left.
type cut struct {
	image  string
	moment string // of what
	backup string // the newest that a command had acknowledged
}

// image makes a file for what a power cut leaves. It ends with the test.
func (d *daemon) image() string {
	d.T.Helper()
	f, err := os.CreateTemp(d.Root, "cut")
	if err == nil {
		err = f.Close()
	}
	if err != nil {
		d.T.Fatal(err)
	}
	return f.Name()
}

// cutIn runs a command to its end and cuts the power on the way, at a fraction of the time long.
func (d *daemon) cutIn(p *harness.Power, cmd *exec.Cmd, fraction float64, long time.Duration) (image string) {
	d.T.Helper()
	var said strings.Builder
	cmd.Stdout, cmd.Stderr = &said, &said
	if err := cmd.Start(); err != nil {
		d.T.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	image = d.image()
	<-time.After(time.Duration(fraction * float64(long)))
	p.Cut(image)
	if err := <-ended; err != nil {
		d.T.Fatalf("%v: %v: %s", cmd.Args, err, &said)
	}
	return image
}

// newest is the name of the newest backup in the repository.
func (d *daemon) newest() string {
	d.T.Helper()
	list, _ := d.backup(0, "", "list")
	_, rows, _ := strings.Cut(list, "\n")
	name, _, _ := strings.Cut(rows, " ")
	return name
}

// off stops a daemon with all its programs, whose disk is to be taken away.
func (d *daemon) off() {
	d.T.Helper()
	if code := d.End(syscall.SIGTERM); code != 0 {
		d.T.Errorf("the daemon's exit status is %d: %s", code, harness.BesidesRequests(d.Out.String()))
	}
	harness.Eventually(d.T, "its keeper has ended", func() bool { return d.Keeper() == 0 })
}

// The power goes while a backup is made, or old ones are removed, onto the same disk. What was acknowledged is
// whole afterwards, and the next backup, prune and rehearsal do their work.
func powerCutInABackup(t *testing.T, moments int) {
	for _, place := range []string{"restic", "archives:"} {
		t.Run(strings.TrimSuffix(place, ":"), func(t *testing.T) {
			t.Parallel()
			p := harness.NewPower(t, 256)
			d := &daemon{p.Prepare()}
			d.backUpToEmpty(repositoryIn(place, p.Dir))
			d.Serve()
			c := d.account("ana", 1000)
			var ids []string
			for n := range 3 {
				ids = append(ids, c.Upload(harness.ShellBot(teller, "RAM=50", fmt.Sprintf("NAME=teller%d", n))))
			}
			long := map[string]time.Duration{}
			for _, work := range []string{"run", "prune"} {
				begun := time.Now()
				d.backup(0, "", work)
				long[work] = time.Since(begun)
			}
			d.backup(0, "", "rehearse") // so that the daemon itself has nothing to do
			var found []cut
			for n := range moments {
				for _, id := range ids { // so that there is something to save
					harness.Write(t, d.Path(id, "more.txt"), fmt.Sprint(n))
				}
				for _, work := range []string{"run", "prune"} {
					is := cut{moment: fmt.Sprintf("%s, moment %d of %d", work, n, moments), backup: d.newest()}
					is.image = d.cutIn(p, d.ofBackup("", work), float64(n)/float64(moments), long[work])
					found = append(found, is)
				}
			}
			d.off()
			for _, is := range found {
				p.Boot(is.image)
				d.Serve()
				for _, id := range ids {
					c.Until(id, "apps.online", true)
				}
				newest := d.newest()
				if newest < is.backup { // names are times
					t.Errorf("%s: the newest backup is %q, and %q was acknowledged", is.moment, newest, is.backup)
				}
				for _, work := range []string{"rehearse", "run", "prune", "rehearse"} {
					if _, said := d.backup(0, "", work); work == "rehearse" && !strings.Contains(said, "3 applications") {
						t.Errorf("%s: %s", is.moment, said)
					}
				}
				if d.newest() <= newest {
					t.Errorf("%s: the backup after it is not there", is.moment)
				}
				d.off()
			}
			t.Logf("%d power cuts; a backup takes %s, a prune %s", len(found), long["run"], long["prune"])
			d.Serve()
		})
	}
}

// The power goes while a host is restored. Either everything is there, or nobody serves from it and it is restored again.
func powerCutInARestore(t *testing.T, moments int) {
	for _, place := range []string{"restic", "archives:"} {
		t.Run(strings.TrimSuffix(place, ":"), func(t *testing.T) {
			t.Parallel()
			d := backedUp(t, place)
			c := d.account("ana", 1000)
			const programs = 3
			for n := range programs {
				c.Upload(harness.ShellBot(teller, "RAM=50", fmt.Sprintf("NAME=teller%d", n)))
			}
			d.backup(0, "", "run")
			key, _ := d.backup(0, "", "key")
			c.DeleteAll()
			d.off()

			p := harness.NewPower(t, 128)
			next := &daemon{p.Prepare()}
			next.backUpTo(repositoryIn(place, d.Root))
			empty := func() {
				if err := os.RemoveAll(next.Data); err != nil {
					t.Fatal(err)
				}
			}
			begun := time.Now()
			next.backup(0, key, "restore")
			long := time.Since(begun)
			var images []string
			for n := range moments {
				empty()
				images = append(images, next.cutIn(p, next.ofBackup(key, "restore"), float64(n+1)/float64(moments), long))
			}
			whole := 0
			for n, image := range images {
				p.Boot(image)
				_, database := os.Stat(filepath.Join(next.Data, "berth.db"))
				_, unfinished := os.Stat(filepath.Join(next.Data, "restore.unfinished"))
				if database != nil || unfinished == nil {
					if code, _, said := next.Run("check", "--data-dir", next.Data); code == 0 {
						t.Errorf("moment %d: a berth would serve from what is not whole: %s", n, said)
					}
					empty()
					next.backup(0, key, "restore")
				} else {
					whole++
				}
				if found := len(next.Entries("apps")); found != programs {
					t.Errorf("moment %d: %d applications are there", n, found)
				}
				next.Serve()
				there := &client{&harness.Client{T: t, Berth: next.Berth, Name: c.Name, Account: c.Account, Token: c.Token}, next}
				if out, err := next.resume().CombinedOutput(); err != nil {
					t.Fatalf("moment %d: %v: %s", n, err, out)
				}
				for _, id := range there.IDs() {
					there.Until(id, "apps.online", true)
				}
				there.DeleteAll()
				next.off()
			}
			t.Logf("%d power cuts, %d when everything was there; a restore takes %s", len(images), whole, long)
		})
	}
}

// The power of both hosts goes while one moves to the other. Programs then run on one of them, or on none
// until the same command has finished.
func powerCutInAMove(t *testing.T, moments int) {
	p := harness.NewPower(t, 256)
	old, there := &daemon{p.PrepareIn("old/data")}, &daemon{p.PrepareIn("new/data")}
	for _, d := range []*daemon{old, there} {
		if err := os.Mkdir(filepath.Dir(d.Data), 0o711); err != nil { //nolint:gosec // programs pass through
			t.Fatal(err)
		}
	}
	m := movingBetween(t, old, there)
	ids, ours, theirs := m.bots(3)
	// A move cannot be done twice: the power goes again and again in one.
	cmd, said := m.start()
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	var images []string
	over := false
	var err error
	for !over {
		select {
		case err = <-ended:
			over = true
		case <-time.After(harness.Pause):
			images = append(images, old.image())
			p.Cut(images[len(images)-1])
		}
	}
	if err != nil {
		t.Fatalf("%v: %s", err, said)
	}
	m.there(ids, ours, theirs)
	old.off()
	there.off()
	held := 0
	for n := range moments {
		image := n * len(images) / moments
		p.Boot(images[image])
		old.Serve()
		there.Serve()
		here, moved := m.where(old.Group)
		if len(here) > 0 && len(moved) > 0 {
			t.Errorf("after the cut %d of %d processes %v run here and %v there", image, len(images), here, moved)
		}
		switch hold, _ := m.command("resume").CombinedOutput(); { // it has no --force
		case strings.Contains(string(hold), "they moved to new"):
			held++
		case !strings.Contains(string(hold), "holds no programs"):
			t.Errorf("after the cut %d of %d, resume: %s", image, len(images), hold)
		}
		if out, err := m.command("move", "new", "--yes").CombinedOutput(); err != nil {
			t.Fatalf("after the cut %d of %d, again: %v: %s", image, len(images), err, out)
		}
		m.there(ids, ours, theirs)
		old.off()
		there.off()
	}
	t.Logf("%d of %d power cuts; the old host held its programs after %d", moments, len(images), held)
}
