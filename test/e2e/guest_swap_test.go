//go:build guest

package e2e

import (
	"os"
	"strings"
	"testing"

	"berth/test/harness"
)

// TestGuestNoSwap: on a host with swap a program is killed at its RAM;
// not a page of it is swapped out before.
func TestGuestNoSwap(t *testing.T) {
	swaps, err := os.ReadFile("/proc/swaps")
	if err != nil || strings.Count(string(swaps), "\n") < 2 {
		t.Fatalf("the guest has no swap, so this proves nothing: %s %v", swaps, err)
	}
	d := launch(t)
	c := d.account("ana", 200)
	before := swappedOut(t)
	id := c.Upload(harness.ShellBot(hog, "RAM=64"))
	c.Until(id, "apps.ramKilled", true, "apps.exitCode", 137, "apps.online", false)
	full := c.Upload(harness.PythonBot("held = bytearray(50 << 20)\n"+harness.IdlePython, "RAM=64"))
	c.UntilLog(full, "up")
	c.Put("/app/"+full+"/ram", `{"ramMB":60}`).Want(200)
	if now := swappedOut(t); now != before {
		t.Errorf("pages swapped out: %s before, %s now", before, now)
	}
}

// swappedOut is the kernel's count of pages since the boot.
func swappedOut(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("/proc/vmstat")
	if err != nil {
		t.Fatal(err)
	}
	return harness.Field(string(text), "pswpout")
}
