package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"berth/test/harness"
)

// A binary of another version takes over, and what is not well does not.
func TestUpgradeToAnotherVersion(t *testing.T) {
	t.Parallel()
	d := upgradable(t)
	if os.Getenv("BERTH_E2E_BINARY") != "" {
		t.Skip("nothing is built here")
	}
	d.Serve()
	c := d.account("ana", 100)
	id := c.Upload(harness.NodeBot(harness.IdleNode, "RAM=64"))
	pid, version := d.PID(id), c.Get("/user").Header.Get("berth-version")
	refused := func(says string) {
		t.Helper()
		before := d.Out.String()
		d.Signal(syscall.SIGHUP)
		harness.Eventually(t, "it refuses", func() bool {
			return strings.Contains(d.Out.String()[len(before):], "msg=\"not upgraded, serving as before\"")
		})
		if log := d.Out.String()[len(before):]; !strings.Contains(log, says) {
			t.Errorf("want %q in %s", says, log)
		}
		if got := c.Get("/user").Want(200).Header.Get("berth-version"); got != version || d.PID(id) != pid {
			t.Errorf("version %s, program %d", got, d.PID(id))
		}
	}
	file := func(text string, mode os.FileMode) {
		t.Helper()
		harness.Write(t, filepath.Join(d.Root, "text"), text)
		d.Replace(filepath.Join(d.Root, "text"))
		if err := os.Chmod(d.Image, mode); err != nil {
			t.Fatal(err)
		}
	}
	file("#!/bin/sh\necho berth: cannot use the database: of a test >&2; exit 1\n", 0o755)
	refused("its self check failed: cannot use the database: of a test")
	file("#!/bin/sh\necho hello\n", 0o755)
	refused("does not answer as berth does")
	whole, err := os.ReadFile(harness.Binary)
	if err != nil {
		t.Fatal(err)
	}
	file(string(whole[:len(whole)/3]), 0o755)
	refused("its self check failed: ")
	file("\x7fELF not", 0o755)
	refused("exec format error")
	file(string(whole), 0o644)
	refused("permission denied")
	file("#!/bin/sh\nexec "+harness.Binary+" \"$@\" --data-dir "+d.Root+"/elsewhere\n", 0o755)
	refused("data_dir is " + d.Root + "/elsewhere now, which needs a restart")
	if err := os.Remove(d.Image); err != nil {
		t.Fatal(err)
	}
	refused("no such file or directory")
	next := filepath.Join(d.Root, "next")
	build := exec.Command("test/scripts/build", next)
	build.Dir, build.Env = "../..", append(os.Environ(), "VERSION=9.8.7")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	d.Replace(next)
	d.Upgrade()
	if got := c.Get("/user").Want(200).Header.Get("berth-version"); got != "9.8.7" || d.PID(id) != pid {
		t.Errorf("version %s, program %d", got, d.PID(id))
	}
	if !strings.Contains(d.Out.String(), "from="+version+" to=9.8.7") {
		t.Errorf("the log does not tell the versions: %s", harness.BesidesRequests(d.Out.String()))
	}
	if strings.Contains(d.Out.String(), "is no setting") { // what one image hands to the next in the environment
		t.Errorf("the log complains of berth's own variables: %s", harness.BesidesRequests(d.Out.String()))
	}
}

// A stop at any moment of an upgrade stops all, and a second request for one
// does no harm.
func TestUpgradeThatIsStopped(t *testing.T) {
	t.Parallel()
	d := upgradable(t)
	d.Serve()
	c := d.account("ana", 100)
	id := c.Upload(harness.NodeBot(harness.IdleNode, "RAM=64"))
	d.Signal(syscall.SIGHUP)
	d.Upgrade()
	for n := range 8 {
		d.Signal(syscall.SIGHUP)
		harness.Eventually(t, "it is on its way", func() bool { return strings.Contains(d.Out.String(), "msg=upgrading") })
		<-time.After(time.Duration(970+n*15) * time.Millisecond)
		code, left := d.End(syscall.SIGTERM), d.Of(id)
		between := code == -1 && len(left) == 1 // the images; the next start takes it over
		if !between && (code != 0 || len(left) > 0) {
			t.Errorf("exit status %d, left running: %v: %s", code, left, harness.BesidesRequests(d.Out.String()))
		}
		d.Serve()
		c.Until(id, "apps.online", true)
	}
	if apps := c.IDs(); !slices.Equal(apps, []string{id}) {
		t.Errorf("there are %v", apps)
	}
}
