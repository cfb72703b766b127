package harness

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// Disk is a file system of its own, ext4 on a file, in the directory Dir that
// every user may pass through.
type Disk struct {
	T   *testing.T
	Dir string
	// Image is the file that the disk is on.
	Image string
}

// NewDisk makes a disk of so many MB on a file below images and mounts it until
// the test ends; make are more arguments of mkfs.ext4, options those of mount.
func NewDisk(t *testing.T, images string, mb int64, options string, makes ...string) *Disk {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "berth-e2e-disk.") //nolint:usetesting // t.TempDir is closed to other users
	if err != nil {
		t.Fatal(err)
	}
	k := &Disk{T: t, Dir: dir, Image: filepath.Join(images, filepath.Base(dir))}
	Write(t, k.Image, "")
	t.Cleanup(func() {
		k.Command("umount", dir) // fails while something is open
		_ = os.Remove(k.Image)
		_ = os.Remove(dir)
	})
	if err := os.Truncate(k.Image, mb<<20); err != nil {
		t.Fatal(err)
	}
	k.Command("mkfs.ext4", append(append([]string{"-q", "-F", "-m", "0", "-b", "4096"}, makes...), k.Image)...)
	k.Command("mount", "-o", "loop,"+options, k.Image, dir)
	if err := os.Chmod(dir, 0o711); err != nil {
		t.Fatal(err)
	}
	return k
}

// Device is the block device that the disk is on.
func (k *Disk) Device() string {
	k.T.Helper()
	out, err := exec.CommandContext(context.Background(), "findmnt", "-no", "SOURCE", k.Dir).Output()
	if err != nil {
		k.T.Fatal(err)
	}
	return strings.TrimSpace(string(out))
}

// Command must succeed.
func (k *Disk) Command(name string, args ...string) {
	k.T.Helper()
	if out, err := exec.CommandContext(context.Background(), name, args...).CombinedOutput(); err != nil {
		k.T.Errorf("%s %v: %v: %s", name, args, err, out)
	}
}

// Prepare makes a daemon with its data on the disk, which is not started.
func (k *Disk) Prepare(args ...string) *Berth {
	k.T.Helper()
	data := filepath.Join(k.Dir, "data")
	d := Prepare(k.T, append([]string{"--data-dir", data}, args...)...)
	d.Data = data
	return d
}
