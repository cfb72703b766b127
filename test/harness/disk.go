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
	Root(t, "a disk is mounted")
	Tools(t, "mkfs.ext4")
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
	return k.PrepareIn("data", args...)
}

// PrepareIn is Prepare with the data in the directory name of the disk.
func (k *Disk) PrepareIn(name string, args ...string) *Berth {
	k.T.Helper()
	data := filepath.Join(k.Dir, name)
	d := Prepare(k.T, append([]string{"--data-dir", data}, args...)...)
	d.Data = data
	return d
}

// Power is a disk that can lose its power. Its image is a file on a disk below.
type Power struct {
	*Disk
	below *Disk
}

// NewPower makes such a disk of so many MB, with its images in memory.
func NewPower(t *testing.T, mb int64) *Power {
	t.Helper()
	below := NewDisk(t, "/dev/shm", mb+mb/8+16, "rw")
	return &Power{NewDisk(t, below.Dir, mb, "rw"), below}
}

// Cut writes to the file image what the disk would have after a power cut at this moment: what the kernel
// had not written yet is not in it. The disk below is frozen meanwhile, so nothing that is written to the
// image comes between (fsfreeze(8)); the disk waits, and goes on.
func (p *Power) Cut(image string) {
	p.T.Helper()
	p.below.Command("fsfreeze", "-f", p.below.Dir)
	defer p.below.Command("fsfreeze", "-u", p.below.Dir)
	p.Command("cp", "--sparse=always", p.Image, image)
}

// Boot mounts what Cut wrote in place of the disk, which repairs it as a machine does that starts again. Nothing may
// be open on the disk.
func (p *Power) Boot(image string) {
	p.T.Helper()
	Eventually(p.T, "nothing is open on the disk", func() bool {
		return exec.CommandContext(context.Background(), "umount", p.Dir).Run() == nil
	})
	p.Command("mount", "-o", "loop", image, p.Dir)
}
