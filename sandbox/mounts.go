package sandbox

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// root is the directory that is about to be the program's root, and what is
// mounted below it. Nothing of the program runs yet, so a mount may be made
// first and closed afterwards.
type root struct {
	at string // where it is while it is built
	s  *Spec
}

// stages are directories of every system on which the new root can be built,
// of which no more is seen from then on. The first that hides no source is
// taken; in /mnt some systems keep their resolv.conf.
var stages = []string{"/media", "/srv", "/mnt", "/boot", "/home", "/opt", "/run", "/var"}

// enterRoot gives the process a root directory of its own. It needs a mount
// namespace (CLONE_NEWNS), whose end is the end of every mount made here.
func enterRoot(s *Spec) error {
	// Without this a shared root would carry the mounts out to the host.
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("keep the mounts to itself: %w", err)
	}
	r := root{s: s}
	for _, stage := range stages {
		if info, err := os.Stat(stage); err == nil && info.IsDir() && !slices.ContainsFunc(s.sources(), func(p string) bool { return within(p, stage) }) {
			r.at = stage
			break
		}
	}
	if r.at == "" {
		return errors.New("find a place for its root directory")
	}
	for _, step := range []struct {
		what string
		do   func() error
	}{
		{"a root directory", func() error { return r.tmpfs("/", unix.MS_NOEXEC, "mode=755,size=1m,nr_inodes=2k") }},
		{"the system", r.system},
		{"/etc", r.etc},
		{"/dev", r.dev},
		{"/tmp", r.temp},
		{"/proc", r.proc},
		{"/sys", r.sys},
		{"its directory", r.home},
	} {
		if err := step.do(); err != nil {
			return fmt.Errorf("show the program %s: %w", step.what, err)
		}
	}
	return r.pivot()
}

// sources are the host's directories that the new root shows and that are not
// where every system has them.
func (s *Spec) sources() []string {
	all := append([]string{s.Home, s.From, s.Temp, s.Data}, s.Paths...)
	return slices.DeleteFunc(all, func(p string) bool { return p == "" })
}

// within reports whether path is dir or below it.
func within(path, dir string) bool {
	return path == dir || dir == "/" || strings.HasPrefix(path, dir+"/")
}

// pivot makes the new root the root, read-only, and lets go of the old one.
func (r root) pivot() error {
	if err := r.restrict("/", 0, unix.MOUNT_ATTR_RDONLY); err != nil {
		return fmt.Errorf("close its root directory: %w", err)
	}
	if err := unix.Chdir(r.at); err != nil {
		return fmt.Errorf("enter its root directory: %w", err)
	}
	// The old root comes to lie over the new one and is taken away again
	// (pivot_root(2), "pivot_root(".", ".")").
	if err := unix.PivotRoot(".", "."); err != nil {
		return fmt.Errorf("change its root directory: %w", err)
	}
	if err := unix.Unmount(".", unix.MNT_DETACH); err != nil {
		return fmt.Errorf("leave the host's root directory: %w", err)
	}
	return unix.Chdir("/")
}

// path is where a path of the program's is now.
func (r root) path(p string) string { return filepath.Join(r.at, p) }

// mkdir makes a directory and its parents, all of them root's.
func (r root) mkdir(p string) error { return os.MkdirAll(r.path(p), 0o755) }

// tmpfs mounts an empty file system in memory, which the kernel charges to the
// control group of whoever writes to it.
func (r root) tmpfs(p string, flags uintptr, options string) error {
	return unix.Mount("tmpfs", r.path(p), "tmpfs", flags|unix.MS_NOSUID|unix.MS_NODEV, options)
}

// restrict sets attributes of a mount; with flags AT_RECURSIVE, of all below it.
func (r root) restrict(p string, flags uint, attributes uint64) error {
	return unix.MountSetattr(unix.AT_FDCWD, r.path(p), flags, &unix.MountAttr{
		Attr_set: attributes | unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV,
	})
}

// show makes a file or directory of the host visible read-only, with what is
// mounted below it. The place MUST be there.
func (r root) show(from, at string) error {
	if err := unix.Mount(from, r.path(at), "", unix.MS_BIND|unix.MS_REC, ""); err != nil {
		return err
	}
	return r.restrict(at, unix.AT_RECURSIVE, unix.MOUNT_ATTR_RDONLY)
}

// place makes the place for a mount of from: a directory or a file.
func (r root) place(from os.FileInfo, at string) error {
	if from.IsDir() {
		return r.mkdir(at)
	}
	if err := r.mkdir(filepath.Dir(at)); err != nil {
		return err
	}
	return r.write(at, "")
}

// write makes a file that everybody may read.
func (r root) write(at, content string) error {
	return os.WriteFile(r.path(at), []byte(content), 0o644)
}

// system shows the programs and libraries of the host, read-only, and the
// directories the owner named.
func (r root) system() error {
	if err := r.mkdir("/usr"); err != nil {
		return err
	}
	if err := r.show("/usr", "/usr"); err != nil {
		return err
	}
	for _, dir := range []string{"/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32"} {
		if err := r.linkOrShow(dir); err != nil {
			return fmt.Errorf("%s: %w", dir, err)
		}
	}
	for _, p := range r.s.Paths {
		info, err := os.Stat(p)
		if err != nil || within(p, "/etc") { // etc.go shows it when there is an /etc
			continue
		}
		if err := errors.Join(r.place(info, p), r.show(p, p)); err != nil {
			return err
		}
	}
	return r.hide()
}

// hide covers the data directory where something above it is shown.
func (r root) hide() error {
	if !r.hidden() {
		return nil
	}
	return r.tmpfs(r.s.Data, unix.MS_NOEXEC, "mode=711,size=64k,nr_inodes=64")
}

// hidden reports whether the data directory is below a directory that is shown.
func (r root) hidden() bool {
	return r.s.Data != "" && slices.ContainsFunc(append([]string{"/usr"}, r.s.Paths...), func(shown string) bool { return within(r.s.Data, shown) })
}

// linkOrShow shows a directory as the host has it: a link into /usr on most
// systems.
func (r root) linkOrShow(dir string) error {
	target, err := os.Readlink(dir)
	if err == nil {
		return os.Symlink(target, r.path(dir))
	}
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err := r.mkdir(dir); err != nil {
		return err
	}
	return r.show(dir, dir)
}

// dev makes the devices that every program may use. They are the host's own
// nodes: in a tmpfs that forbids devices, mounts of them alone can be opened.
func (r root) dev() error {
	if err := r.mkdir("/dev/shm"); err != nil {
		return err
	}
	for _, name := range []string{"null", "zero", "full", "random", "urandom", "tty"} {
		at := "/dev/" + name
		if err := r.write(at, ""); err != nil {
			return err
		}
		err := unix.Mount(at, r.path(at), "", unix.MS_BIND, "")
		if name == "tty" && errors.Is(err, unix.ENOENT) { // some containers have none
			err = os.Remove(r.path(at))
		}
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	for name, to := range map[string]string{
		"fd": "/proc/self/fd", "stdin": "/proc/self/fd/0", "stdout": "/proc/self/fd/1", "stderr": "/proc/self/fd/2",
		"ptmx": "pts/ptmx",
	} {
		if err := os.Symlink(to, r.path("/dev/"+name)); err != nil {
			return err
		}
	}
	// Terminals of the program's own (Linux, filesystems/devpts.rst).
	if err := r.mkdir("/dev/pts"); err != nil {
		return err
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
	if err := errors.Join(r.mkdir("/tmp"), r.mkdir("/var"), r.mkdir("/run"), os.Symlink("/tmp", r.path("/var/tmp"))); err != nil {
		return err
	}
	if r.s.Temp != "" && !within(r.s.Home, "/tmp") {
		return r.give(r.s.Temp, "/tmp")
	}
	return r.tmpfs("/tmp", 0, r.s.shared())
}

// give shows a directory of the host that is the program's to write to.
func (r root) give(from, at string) error {
	if err := unix.Mount(from, r.path(at), "", unix.MS_BIND, ""); err != nil {
		return err
	}
	return r.restrict(at, 0, 0)
}

// proc makes /proc: the processes of the program's own user, or, where the
// kernel lets nobody mount it, the host's.
func (r root) proc() error {
	if err := r.mkdir("/proc"); err != nil {
		return err
	}
	if r.s.Has(Proc) {
		return unix.Mount("proc", r.path("/proc"), "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, "hidepid=invisible")
	}
	return unix.Mount("/proc", r.path("/proc"), "", unix.MS_BIND|unix.MS_REC, "")
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

// home shows the application's directory at the path it has on the host, and a
// build's temporary one. All places are made before the first is given: what is
// below them is the program's, and may be links.
func (r root) home() error {
	from := r.s.From
	if from == "" {
		from = r.s.Home
	}
	var given []Bind
	for _, d := range []Bind{{from, r.s.Home}, {r.s.Temp, r.s.Temp}} {
		if d.From == "" {
			continue
		}
		if err := os.MkdirAll(r.path(d.To), 0o711); err != nil { // as closed as on the host
			return err
		}
		given = append(given, d)
	}
	if err := r.alias(); err != nil {
		return err
	}
	for _, d := range given {
		if err := r.give(d.From, d.To); err != nil {
			return err
		}
	}
	if !r.hidden() {
		return nil
	}
	return r.restrict(r.s.Data, 0, unix.MOUNT_ATTR_RDONLY)
}

// alias makes the name by which the owner calls the data directory, where that
// is a link.
func (r root) alias() error {
	if r.s.Alias == "" {
		return nil
	}
	if _, err := os.Lstat(r.path(r.s.Alias)); err == nil {
		return nil // seen with what is around it
	}
	if err := r.mkdir(filepath.Dir(r.s.Alias)); err != nil {
		return err
	}
	return os.Symlink(r.s.Data, r.path(r.s.Alias))
}
