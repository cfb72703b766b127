package attacks

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"berth/test/harness"
)

// TestKernelAttacksOnTheBackup lets programs make their trees so that nobody can
// copy them, or so that copies are many times larger: the host's backup has
// everybody else, and a commit fits the disk.
func TestKernelAttacksOnTheBackup(t *testing.T) {
	t.Parallel()
	d := launch(t)
	victim := d.upload(bot("main.py", map[string]string{"main.py": "open('mine', 'w').write('mine')\nprint('up', flush=True)\nimport signal; signal.pause()"}))
	d.untilLog(victim, "up")
	ids := map[string]string{}
	for _, trick := range []string{"deep", "lease", "names"} {
		ids[trick] = d.upload(bot("hoarder.py", map[string]string{"hoarder.py": source(t, "hoarder.py"), "trick": trick}))
		d.untilLog(ids[trick], "hoarder: done")
	}
	file := filepath.Join(d.root, "all.tar.gz")
	cmd := exec.Command(berth, "backup", "create", "--to", file, "--data-dir", d.data)
	cmd.Env = harness.CleanEnv()
	out, err := cmd.CombinedOutput()
	exit, ok := errors.AsType[*exec.ExitError](err)
	if !ok || exit.ExitCode() != 3 {
		t.Fatalf("backup create: %v\n%s", err, out)
	}
	for trick, id := range ids {
		if lacks := strings.Contains(string(out), "warning: the files of the application "+id+" are not in the backup"); lacks != (trick != "names") {
			t.Errorf("%s: %s", trick, out)
		}
	}
	info, err := os.Stat(file)
	if err != nil || info.Size() > 4<<20 {
		t.Errorf("a megabyte with many names made a backup of %d bytes, %v", info.Size(), err)
	}
	verify := exec.Command(berth, "backup", "verify", file)
	verify.Env = harness.CleanEnv()
	if out, err := verify.CombinedOutput(); err != nil {
		t.Errorf("verify: %v\n%s", err, out)
	}
	to := filepath.Join(d.root, "restored")
	restore := exec.Command(berth, "backup", "restore", file, "--data-dir", to)
	restore.Env = harness.CleanEnv()
	if out, err := restore.CombinedOutput(); err != nil {
		t.Errorf("restore: %v\n%s", err, out)
	}
	if got, err := os.ReadFile(filepath.Join(to, "apps", victim, "mine")); err != nil || string(got) != "mine" {
		t.Errorf("the victim's file is %q, %v", got, err)
	}
	a := d.form("PUT", "/app/"+ids["names"]+"/commit", harness.Zip(map[string]string{
		"discloud.config": "TYPE=bot\nMAIN=hoarder.py\nAUTORESTART=false\nBUILD=du -sm . | cut -f1 >built\n", "new": "new",
	}))
	a.want(200)
	if built, err := os.ReadFile(d.path(ids["names"], "built")); err != nil || len(strings.TrimSpace(string(built))) > 1 {
		t.Errorf("the copy that the commit was built in has %s MB, %v", built, err)
	}
}

// TestKernelAttacksOnInodes lets a program make empty files until the disk takes no
// other: that is told as a full disk is, and the program is stopped.
func TestKernelAttacksOnInodes(t *testing.T) {
	t.Parallel()
	d := launchOn(t, "size=256m,nr_inodes=20000")
	idle := bot("main.py", map[string]string{"main.py": "import signal; signal.pause()"})
	victim := d.upload(idle)
	id := d.upload(bot("hoarder.py", map[string]string{"hoarder.py": source(t, "hoarder.py"), "trick": "inodes"}))
	d.untilLog(id, "hoarder: done")
	a := d.form("POST", "/upload", harness.Zip(idle)).want(503)
	if text := a.text("message"); !strings.Contains(text, "has room for") {
		t.Error(text)
	}
	doctor := exec.Command(berth, "doctor", "--data-dir", d.data)
	doctor.Env = harness.CleanEnv()
	if out, _ := doctor.CombinedOutput(); !regexp.MustCompile(`warn +disk .*of 20000 files; uploads, builds and backups are refused`).Match(out) {
		t.Errorf("doctor:\n%s", out)
	}
	for end := time.Now().Add(3 * harness.Patience); d.get("/app/"+id).text("apps.online") != "false"; <-time.After(time.Second) {
		if time.Now().After(end) {
			t.Fatal("it is not stopped")
		}
	}
	if log := d.log(id); !strings.Contains(log, "files and directories, and may have 10000: it is stopped") {
		t.Error(log[max(0, len(log)-1000):])
	}
	d.get("/app/"+victim).want(200, "apps.online", true)
	harness.Eventually(t, "it has ended", func() bool { return d.put("/app/"+id+"/start").code != 409 })
	d.put("/app/" + id + "/start").want(422)
	d.console(id, "find . -name 'e*' -delete").want(200)
	d.put("/app/" + victim + "/restart").want(200)
	d.form("POST", "/upload", harness.Zip(idle)).want(200)
}

// TestKernelAttacksByWhatNobodySees lets a program hold removed files, and go on in a
// thread when its first one has ended: the files count, and a stop ends it.
func TestKernelAttacksByWhatNobodySees(t *testing.T) {
	t.Parallel()
	d := launch(t)
	id := d.upload(bot("hoarder.py", map[string]string{"hoarder.py": source(t, "hoarder.py"), "trick": "held"}))
	d.untilLog(id, "hoarder: done")
	harness.Eventually(t, "the removed files count", func() bool {
		return strings.HasPrefix(d.get("/app/"+id+"/status").text("apps.ssd"), "40")
	})
	d.put("/app/" + id + "/stop").want(200)
	if left := processes(d.uid(id), 1); len(left) > 0 {
		t.Errorf("after a stop there run %v", left)
	}
}
