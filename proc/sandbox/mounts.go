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
	unix.Umask(0o022) // the daemon's may be closed; everybody is to read what is made here
	r := root{s: s}
	for _, stage := range stages {
		shown := slices.ContainsFunc(s.sources(), func(p string) bool { return within(p, stage) })
		if info, err := os.Stat(stage); err == nil && info.IsDir() && !shown {
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
		{"a root directory", r.begin},
		{"the system", r.system},
		{"/etc", r.etc},
		{"/sys", r.sys},
		{"its directory", func() error { return r.places(false) }},
		{"nothing to write to", r.close},
		{"/dev", r.dev},
		{"/tmp", r.temp},
		{"/proc", r.proc},
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

// pivot makes the new root the root, and lets go of the old one.
func (r root) pivot() error {
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

// mkdir makes a directory, which may be there. Its parent MUST be there.
func (r root) mkdir(p string) error {
	err := unix.Mkdir(r.path(p), 0o755)
	if errors.Is(err, unix.EEXIST) {
		return nil
	}
	return err
}

// tmpfs mounts an empty file system in memory, which the kernel charges to the
// control group of whoever writes to it.
func (r root) tmpfs(p string, flags uintptr, options string) error {
	return unix.Mount("tmpfs", r.path(p), "tmpfs", flags|unix.MS_NOSUID|unix.MS_NODEV, options)
}

// show makes a file or directory of the host visible, with what is mounted
// below it; close makes it read-only. The place MUST be there.
func (r root) show(from, at string) error {
	return unix.Mount(from, r.path(at), "", unix.MS_BIND|unix.MS_REC, "")
}

// place makes the place for a mount of from: a directory or a file.
func (r root) place(from os.FileInfo, at string) error {
	if from.IsDir() {
		return os.MkdirAll(r.path(at), 0o755)
	}
	if err := os.MkdirAll(r.path(filepath.Dir(at)), 0o755); err != nil {
		return err
	}
	return r.touch(at)
}

// touch makes an empty file, unless there is one.
func (r root) touch(at string) error {
	err := unix.Mknod(r.path(at), unix.S_IFREG|0o644, 0)
	if errors.Is(err, unix.EEXIST) {
		return nil
	}
	return err
}

// write makes a file that everybody may read. It calls the kernel itself: an
// os.File would be put under the runtime's poller and taken from it.
func (r root) write(at, content string) error {
	fd, err := unix.Open(r.path(at), unix.O_WRONLY|unix.O_CREAT|unix.O_CLOEXEC, 0o644)
	if err != nil {
		return err
	}
	_, err = unix.Write(fd, []byte(content)) // of a file, all or an error
	return errors.Join(err, unix.Close(fd))
}

// begin mounts the root directory and makes the places of what every program
// has.
func (r root) begin() error {
	if err := r.tmpfs("/", unix.MS_NOEXEC, "mode=755,size=1m,nr_inodes=2k"); err != nil {
		return err
	}
	for _, dir := range []string{
		"/dev", "/dev/pts", "/dev/shm", "/etc", "/proc", "/run", "/sys", "/sys/devices", "/sys/devices/system", "/sys/fs", "/sys/fs/cgroup", "/tmp", "/usr", "/var", "/var/tmp",
	} {
		if err := r.mkdir(dir); err != nil {
			return err
		}
	}
	for _, name := range devices {
		if err := r.touch("/dev/" + name); err != nil {
			return err
		}
	}
	for _, link := range [][2]string{
		{"/dev/fd", "/proc/self/fd"},
		{"/dev/stdin", "/proc/self/fd/0"},
		{"/dev/stdout", "/proc/self/fd/1"},
		{"/dev/stderr", "/proc/self/fd/2"},
		{"/dev/ptmx", "pts/ptmx"},
		{"/etc/mtab", "/proc/self/mounts"},
	} {
		if err := os.Symlink(link[1], r.path(link[0])); err != nil {
			return err
		}
	}
	return nil
}

// close makes everything read-only that is there until now, in one call. What
// is mounted later the program may write to.
func (r root) close() error {
	return unix.MountSetattr(unix.AT_FDCWD, r.at, unix.AT_RECURSIVE, &unix.MountAttr{
		Attr_set: unix.MOUNT_ATTR_RDONLY | unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV,
	})
}

// system shows the programs and libraries of the host, read-only, and the
// directories the owner named.
func (r root) system() error {
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
		if _, err := os.Lstat(r.path(p)); err == nil {
			continue // seen with what is around it
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
	return errors.Join(r.mkdir(dir), r.show(dir, dir))
}
