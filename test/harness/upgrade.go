package harness

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// Upgradable is Prepare with a binary of the daemon's own, which may be replaced.
func Upgradable(t *testing.T, args ...string) *Berth {
	t.Helper()
	d := Prepare(t, args...)
	d.Image = filepath.Join(d.Root, "berth")
	d.Replace(Binary)
	return d
}

// Replace puts another file in the place of the daemon's binary, as package
// managers do. Another process writes it: a program that is open for writing
// here, also in what a parallel test forks just then, cannot be executed.
func (d *Berth) Replace(with string) {
	d.T.Helper()
	out, err := exec.CommandContext(context.Background(), "install", "-m", "755", with, d.Image+".new").CombinedOutput()
	if err == nil {
		err = os.Rename(d.Image+".new", d.Image)
	}
	if err != nil {
		d.T.Fatalf("%v: %s", err, out)
	}
}

// Images is how many images of the daemon have begun to listen.
func (d *Berth) Images() int { return strings.Count(d.Out.String(), "msg=\"listening on") }

// Upgrade asks for an upgrade and returns when it is done.
func (d *Berth) Upgrade() {
	d.T.Helper()
	before := d.Images()
	d.Signal(syscall.SIGHUP)
	d.UntilImages(before + 1)
}

// UntilImages waits until so many images have begun to listen.
func (d *Berth) UntilImages(n int) {
	d.T.Helper()
	Eventually(d.T, "another image serves", func() bool {
		if d.Ended() {
			d.T.Fatal("the daemon ended")
		}
		return d.Images() >= n
	})
}
