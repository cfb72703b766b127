package sandbox

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// devices are those that every program may use.
var devices = []string{"null", "zero", "full", "random", "urandom", "tty"}

// dev shows the devices, terminals of the program's own (Linux,
// filesystems/devpts.rst) and /dev/shm. The devices are the host's own nodes:
// in a tmpfs that forbids devices, mounts of them alone can be opened.
func (r root) dev() error {
	for _, name := range devices {
		at := "/dev/" + name
		err := unix.Mount(at, r.path(at), "", unix.MS_BIND, "")
		if name == "tty" && errors.Is(err, unix.ENOENT) { // some containers have none
			continue
		}
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	if err := unix.Mount("devpts", r.path("/dev/pts"), "devpts", unix.MS_NOSUID|unix.MS_NOEXEC, "mode=600,ptmxmode=666,max=64"); err != nil {
		return fmt.Errorf("terminals: %w", err)
	}
	return r.tmpfs("/dev/shm", 0, r.s.shared())
}

// shared are the options of what every process of the program may write to: at
// most half of its RAM, of which the files themselves take about a kilobyte
// each.
func (s *Spec) shared() string {
	const least = 1 << 20
	half := max(s.RAM/2, least)
	return fmt.Sprintf("mode=1777,size=%d,nr_inodes=%d", half, max(half>>12, 1024))
}

// temp makes /tmp: in memory, but a build's is on the disk, for what compilers
// and package managers put there is more than their RAM. Below /tmp the data
// directory has its place in a tmpfs, and the build its TMPDIR by its own path.
func (r root) temp() error {
	onDisk := r.s.Temp != "" && !inTemp(r.s.Home)
	var err error
	if onDisk {
		err = r.give(r.s.Temp, "/tmp")
	} else {
		err = r.tmpfs("/tmp", 0, r.s.shared())
	}
	if err != nil {
		return err
	}
	if err := unix.Mount(r.path("/tmp"), r.path("/var/tmp"), "", unix.MS_BIND, ""); err != nil || onDisk {
		return err
	}
	return r.places(true)
}

// give shows a directory of the host that is the program's to write to.
func (r root) give(from, at string) error {
	if err := unix.Mount(from, r.path(at), "", unix.MS_BIND, ""); err != nil {
		return err
	}
	return unix.MountSetattr(unix.AT_FDCWD, r.path(at), 0, &unix.MountAttr{Attr_set: unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV})
}

// others are files of /proc that tell of every process of the host whatever hidepid says,
// and that no runtime reads: who holds a lock on which file, how many keys each user has,
// how often each device and processor was interrupted.
var others = []string{"locks", "key-users", "interrupts"}

// proc makes /proc: the processes of the program's own user, or, where the
// kernel lets nobody mount it, the host's. What tells of all others is empty.
func (r root) proc() error {
	var err error
	if r.s.Has(Proc) {
		err = unix.Mount("proc", r.path("/proc"), "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, "hidepid=invisible")
	} else {
		err = unix.Mount("/proc", r.path("/proc"), "", unix.MS_BIND|unix.MS_REC, "")
	}
	if err != nil {
		return err
	}
	for _, name := range others {
		at := r.path("/proc/" + name)
		err := unix.Mount("/dev/null", at, "", unix.MS_BIND, "")
		if errors.Is(err, unix.ENOENT) { // not every kernel has them all
			continue
		}
		if err == nil {
			err = unix.MountSetattr(unix.AT_FDCWD, at, 0, &unix.MountAttr{Attr_set: unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NOEXEC})
		}
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

// sys makes the parts of /sys that C libraries and runtimes ask for the number
// of processors, and the program's own control groups, where they look for its
// limit.
func (r root) sys() error {
	const cpu = "/sys/devices/system/cpu"
	if info, err := os.Stat(cpu); err == nil {
		if err := errors.Join(r.place(info, cpu), r.show(cpu, cpu)); err != nil {
			return err
		}
	}
	if !r.s.Has(Cgroup) {
		return nil
	}
	for _, g := range r.s.Groups {
		if err := r.mkdir(g.To); err != nil {
			return err
		}
		if err := r.show(g.From, g.To); err != nil {
			return fmt.Errorf("control group %s: %w", filepath.Base(g.To), err)
		}
	}
	return nil
}

// inTemp reports whether a path is below what becomes the program's /tmp.
func inTemp(path string) bool { return within(path, "/tmp") || within(path, "/var/tmp") }

// places makes the places of the application's directories, all of them before
// the first is given: what is below one is the program's, and may be links.
// Those below /tmp are made late, when that is mounted.
func (r root) places(late bool) error {
	for _, dir := range []string{r.s.Home, r.s.Temp} {
		if dir == "" || inTemp(dir) != late {
			continue
		}
		if err := os.MkdirAll(r.path(dir), 0o711); err != nil { // as closed as on the host
			return err
		}
	}
	if r.s.Alias == "" || inTemp(r.s.Alias) != late {
		return nil
	}
	// The name by which the owner calls the data directory, where that is a link.
	if _, err := os.Lstat(r.path(r.s.Alias)); err == nil {
		return nil // seen with what is around it
	}
	if err := os.MkdirAll(r.path(filepath.Dir(r.s.Alias)), 0o755); err != nil {
		return err
	}
	return os.Symlink(r.s.Data, r.path(r.s.Alias))
}

// home shows the application's directory at the path it has on the host, and a
// build's temporary one.
func (r root) home() error {
	from := r.s.From
	if from == "" {
		from = r.s.Home
	}
	for _, d := range []Bind{{from, r.s.Home}, {r.s.Temp, r.s.Temp}} {
		if d.From == "" {
			continue
		}
		if err := r.give(d.From, d.To); err != nil {
			return err
		}
	}
	return nil
}
