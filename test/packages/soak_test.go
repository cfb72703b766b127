//go:build soak

package packages

import (
	"os/exec"
	"path/filepath"
	"testing"
)

// TestSoakFreshDebian lets apt have the packages on a Debian 12 of nothing but what each has.
func TestSoakFreshDebian(t *testing.T) {
	ready(t)
	binary, packages := filepath.Join(t.TempDir(), "berth"), t.TempDir()
	must(t, []string{"VERSION=0.9.1"}, "test/scripts/build", binary)
	pack(t, binary, "0.9.1", packages)
	pack(t, binary, "0.9.2", packages)
	dir, _ := repository(t, packages)
	fresh := filepath.Join(t.TempDir(), "debian")
	if out, err := exec.Command("debootstrap", "--variant=minbase", "bookworm", fresh).CombinedOutput(); err != nil {
		t.Fatalf("debootstrap: %v: %s", err, out)
	}
	r := newRoot(t, fresh, dir)
	r.life()
	r.refuses(dir)
}
