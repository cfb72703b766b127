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

// root plans the directory that becomes the child's root, and what is mounted below it.
// Nothing of the program runs yet, so a mount may be made first and closed afterwards.
type root struct {
	*Plan
	at   string // where it is while it is built
	s    *Spec
	made map[string]bool // directories that are there, since the last tmpfs was mounted
}

// stages are directories of every system on which the new root can be built,
// of which no more is seen from then on. The first that hides no source is
// taken; in /mnt some systems keep their resolv.conf.
var stages = []string{"/media", "/srv", "/mnt", "/boot", "/home", "/opt", "/run", "/var"}

// newRoot gives the child a root directory of its own. It needs a mount namespace
// (CLONE_NEWNS), whose end is the end of every mount made here.
func newRoot(p *Plan, s *Spec) error {
	p.keepMounts()
	p.call(unix.SYS_UMASK, 0o022) // the daemon's may be closed; everybody is to read what is made here
	r := root{Plan: p, s: s, made: map[string]bool{}}
	// What the new root shows that is not where every system has it.
	sources := append([]string{s.Home, s.From, s.Temp, s.Data, s.Shown}, s.Paths...)
	for _, stage := range stages {
		shown := slices.ContainsFunc(sources, func(p string) bool { return p != "" && within(p, stage) })
		if info, err := os.Stat(stage); err == nil && info.IsDir() && !shown {
			r.at = stage
			break
		}
	}
	if r.at == "" {
		return errors.New("find a place for its root directory")
	}
	r.shows("a root directory")
	r.begin()
	r.shows("the system")
	r.system()
	r.shows("/etc")
	if err := r.etc(); err != nil {
		return fmt.Errorf("show the program /etc: %w", err)
	}
	r.shows("/sys")
	r.sys()
	r.shows("its directory")
	r.places(false)
	r.shows("nothing to write to")
	r.close()
	r.shows("/dev")
	r.dev()
	r.shows("/tmp")
	r.temp()
	r.shows("/proc")
	r.proc()
	r.shows("its directory")
	r.home()
	r.pivot()
	return nil
}

// shows says what the calls show that are added from now on.
func (r root) shows(what string) { r.To("show the program %s", what) }

// within reports whether path is dir or below it.
func within(path, dir string) bool {
	return path == dir || dir == "/" || strings.HasPrefix(path, dir+"/")
}

// pivot makes the new root the root, and lets go of the old one.
func (r root) pivot() {
	r.To("enter its root directory")
	r.Chdir(r.at)
	// The old root comes to lie over the new one and is taken away again
	// (pivot_root(2), "pivot_root(".", ".")").
	r.To("change its root directory")
	r.call(unix.SYS_PIVOT_ROOT, ".", ".")
	r.To("leave the host's root directory")
	r.call(unix.SYS_UMOUNT2, ".", unix.MNT_DETACH)
	r.Chdir("/")
}

// path is where a path of the program's is now.
func (r root) path(p string) string { return filepath.Join(r.at, p) }

// setattr changes the attributes of a mount.
func (r root) setattr(at string, flags int, attributes uint64) *call {
	attr := words(attributes, 0, 0, 0) // struct mount_attr
	return r.call(unix.SYS_MOUNT_SETATTR, unix.AT_FDCWD, r.path(at), flags, attr, len(attr))
}

// mkdir makes a directory, which may be there. Its parent MUST be there.
func (r root) mkdir(p string, mode int) {
	r.made[p] = true
	r.call(unix.SYS_MKDIRAT, unix.AT_FDCWD, r.path(p), mode).passes(unix.EEXIST)
}

// mkdirs makes a directory and its parents.
func (r root) mkdirs(p string, mode int) {
	if p == "/" || r.made[p] {
		return
	}
	r.mkdirs(filepath.Dir(p), mode)
	r.mkdir(p, mode)
}

// symlink makes a link.
func (r root) symlink(to, at string) *call {
	return r.call(unix.SYS_SYMLINKAT, to, unix.AT_FDCWD, r.path(at))
}

// unless leaves out what do adds where the path is there already, or a link.
func (r root) unless(p string, do func()) {
	at := len(r.calls)
	r.call(unix.SYS_FACCESSAT2, unix.AT_FDCWD, r.path(p), unix.F_OK, unix.AT_SYMLINK_NOFOLLOW).pass[0] = anyError
	do()
	r.calls[at].skip = uint16(len(r.calls) - at - 1) //nolint:gosec // a few
}

// tmpfs mounts an empty file system in memory, which the kernel charges to the
// control group of the process that writes to it.
func (r root) tmpfs(p string, flags int, options string) {
	clear(r.made)
	r.mount("tmpfs", r.path(p), "tmpfs", flags|unix.MS_NOSUID|unix.MS_NODEV, options)
}

// show makes a file or directory of the host visible, with what is mounted
// below it; close makes it read-only. The place MUST be there.
func (r root) show(from, at string) {
	r.mount(from, r.path(at), "", unix.MS_BIND|unix.MS_REC, "")
}

// place makes the place for a mount of from: a directory or a file.
func (r root) place(from os.FileInfo, at string) {
	if from.IsDir() {
		r.mkdirs(at, 0o755)
		return
	}
	r.mkdirs(filepath.Dir(at), 0o755)
	r.touch(at)
}

// touch makes an empty file, unless there is one.
func (r root) touch(at string) {
	r.call(unix.SYS_MKNODAT, unix.AT_FDCWD, r.path(at), unix.S_IFREG|0o644, 0).passes(unix.EEXIST)
}

// begin mounts the root directory and makes the places of what every program
// has.
func (r root) begin() {
	r.tmpfs("/", unix.MS_NOEXEC, "mode=755,size=1m,nr_inodes=2k")
	for _, dir := range []string{
		"/dev", "/dev/pts", "/dev/shm", "/etc", "/proc", "/run", "/sys", "/sys/devices", "/sys/devices/system", "/sys/fs", "/sys/fs/cgroup", "/tmp", "/usr", "/var", "/var/tmp",
	} {
		r.mkdir(dir, 0o755)
	}
	for _, name := range devices {
		r.touch("/dev/" + name)
	}
	for _, link := range [][2]string{
		{"/dev/fd", "/proc/self/fd"},
		{"/dev/stdin", "/proc/self/fd/0"},
		{"/dev/stdout", "/proc/self/fd/1"},
		{"/dev/stderr", "/proc/self/fd/2"},
		{"/dev/ptmx", "pts/ptmx"},
		{"/etc/mtab", "/proc/self/mounts"},
	} {
		r.symlink(link[1], link[0])
	}
}

// close makes everything read-only that is there until now, in one call. What
// is mounted later the program may write to.
func (r root) close() {
	r.setattr("/", unix.AT_RECURSIVE, unix.MOUNT_ATTR_RDONLY|unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NODEV)
}

// system shows the programs and libraries of the host, read-only, and the
// directories the owner named.
func (r root) system() {
	r.show("/usr", "/usr")
	for _, dir := range []string{"/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32"} {
		r.shows("the system: " + dir)
		r.linkOrShow(dir)
	}
	r.shows("the system")
	for _, p := range r.s.Paths {
		info, err := os.Stat(p)
		if err != nil || within(p, "/etc") { // etc.go shows it when there is an /etc
			continue
		}
		r.unless(p, func() { // seen with what is around it
			r.place(info, p)
			r.show(p, p)
		})
	}
	// The data directory is covered where something above it is shown.
	if r.s.Data != "" && slices.ContainsFunc(append([]string{"/usr"}, r.s.Paths...), func(shown string) bool { return within(r.s.Data, shown) }) {
		r.tmpfs(r.s.Data, unix.MS_NOEXEC, "mode=711,size=64k,nr_inodes=64")
	}
}

// linkOrShow shows a directory as the host has it: a link into /usr on most
// systems.
func (r root) linkOrShow(dir string) {
	target, err := os.Readlink(dir)
	if err == nil {
		r.symlink(target, dir)
	} else if !errors.Is(err, os.ErrNotExist) {
		r.mkdir(dir, 0o755)
		r.show(dir, dir)
	}
}

// devices are those that every program may use.
var devices = []string{"null", "zero", "full", "random", "urandom", "tty"}

// dev shows the devices, terminals of the program's own (Linux,
// filesystems/devpts.rst) and /dev/shm. The devices are the host's own nodes:
// in a tmpfs that forbids devices, mounts of them alone can be opened.
func (r root) dev() {
	for _, name := range devices {
		r.shows("/dev: " + name)
		bind := r.mount("/dev/"+name, r.path("/dev/"+name), "", unix.MS_BIND, "")
		if name == "tty" { // some containers have none
			bind.passes(unix.ENOENT)
		}
	}
	r.shows("/dev: terminals")
	r.mount("devpts", r.path("/dev/pts"), "devpts", unix.MS_NOSUID|unix.MS_NOEXEC, "mode=600,ptmxmode=666,max=64")
	r.shows("/dev")
	r.tmpfs("/dev/shm", 0, shared(r.s.RAM))
}

// shared are the options of what every process of a program may write to: at
// most half of its RAM, of which the files themselves take about a kilobyte
// each.
func shared(ram int64) string {
	const least = 1 << 20
	half := max(ram/2, least)
	return fmt.Sprintf("mode=1777,size=%d,nr_inodes=%d", half, max(half>>12, 1024))
}

// temp makes /tmp: in memory, but a build's is on the disk, for what compilers
// and package managers put there is more than their RAM. Below /tmp the data
// directory has its place in a tmpfs, and the build its TMPDIR by its own path.
func (r root) temp() {
	onDisk := r.s.Temp != "" && !inTemp(r.s.Home)
	if onDisk {
		r.give(r.s.Temp, "/tmp")
	} else {
		r.tmpfs("/tmp", 0, shared(r.s.RAM))
	}
	r.mount(r.path("/tmp"), r.path("/var/tmp"), "", unix.MS_BIND, "")
	if !onDisk {
		r.places(true)
	}
}

// give shows a directory of the host that is the program's to write to.
func (r root) give(from, at string) {
	r.mount(from, r.path(at), "", unix.MS_BIND, "")
	r.setattr(at, 0, unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NODEV)
}

// others are files of /proc that tell of every process of the host whatever hidepid says,
// and that no runtime reads: who holds a lock on which file, how many keys each user has,
// how often each device and processor was interrupted.
var others = []string{"locks", "key-users", "interrupts"}

// proc makes /proc: the processes of the program's own user, or, where the
// kernel lets nobody mount it, the host's. What tells of all others is empty.
func (r root) proc() {
	if r.s.Has(Proc) {
		r.mount("proc", r.path("/proc"), "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, "hidepid=invisible")
	} else {
		r.show("/proc", "/proc")
	}
	for _, name := range others {
		r.shows("/proc: " + name)
		at := "/proc/" + name // not every kernel has them all
		r.mount("/dev/null", r.path(at), "", unix.MS_BIND, "").passes(unix.ENOENT)
		r.setattr(at, 0, unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NOEXEC).passes(unix.ENOENT)
	}
}

// sys makes the parts of /sys that C libraries and runtimes ask for the number
// of processors, and the program's own control groups, where they look for its
// limit.
func (r root) sys() {
	const cpu = "/sys/devices/system/cpu"
	if info, err := os.Stat(cpu); err == nil {
		r.place(info, cpu)
		r.show(cpu, cpu)
	}
	if !r.s.Has(Cgroup) {
		return
	}
	for _, g := range r.s.Groups {
		r.mkdir(g.To, 0o755)
		r.shows("/sys: control group " + filepath.Base(g.To))
		r.show(g.From, g.To)
		r.shows("/sys")
	}
}

// inTemp reports whether a path is below what becomes the program's /tmp.
func inTemp(path string) bool { return within(path, "/tmp") || within(path, "/var/tmp") }

// places makes the places of the application's directories, all of them before
// the first is given: what is below one is the program's, and may be links.
// Those below /tmp are made late, when that is mounted.
func (r root) places(late bool) {
	for _, dir := range []string{r.s.Home, r.s.Temp, r.s.Shown} {
		if dir != "" && inTemp(dir) == late {
			r.mkdirs(dir, 0o711) // as closed as on the host
		}
	}
	if r.s.Alias == "" || inTemp(r.s.Alias) != late {
		return
	}
	// The name by which the owner calls the data directory, where that is a link.
	r.unless(r.s.Alias, func() { // seen with what is around it
		r.mkdirs(filepath.Dir(r.s.Alias), 0o755)
		r.symlink(r.s.Data, r.s.Alias)
	})
}

// home shows the application's directory at the path it has on the host, a
// build's temporary one, and the installed runtimes.
func (r root) home() {
	from := r.s.From
	if from == "" {
		from = r.s.Home
	}
	for _, d := range []Bind{{from, r.s.Home}, {r.s.Temp, r.s.Temp}} {
		if d.From != "" {
			r.give(d.From, d.To)
		}
	}
	if r.s.Shown != "" {
		r.shows("the installed runtimes")
		r.mount(r.s.Shown, r.path(r.s.Shown), "", unix.MS_BIND, "")
		r.setattr(r.s.Shown, 0, unix.MOUNT_ATTR_RDONLY|unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NODEV)
	}
}
