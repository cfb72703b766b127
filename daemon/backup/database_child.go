package backup

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"

	"golang.org/x/sys/unix"

	"berth/db"
)

// DatabaseWord is the argument with which the binary hands over to DatabaseMain.
const DatabaseWord = "copy-database"

// copyFD is the copy in the child, so that it can tell that it has found it.
const copyFD = 3

// The child's directories: the root is on a file system that is mounted where every system has
// a directory, and that nothing else needs any more.
const (
	childRoot = "/proc"
	childDir  = "from" // the database's, read-only
	childCopy = "to"
)

// The bounds of the child. Go reserves more address space than it ever uses, so the memory that
// may be written to is bounded apart (RLIMIT_DATA).
const (
	childMemory    = 512 << 20
	childSpace     = 8 << 30
	childFiles     = 64
	childProcesses = 4096 // of the user, who has the program's too
	copySlack      = 1 << 20
)

// DatabaseMain is the child of CopyDatabase. It never returns.
func DatabaseMain() {
	j, err := parseJob(os.Args[1:])
	if err == nil {
		err = j.confine()
	}
	if err == nil {
		err = db.CopyForeign(context.Background(), "/"+childDir+"/"+j.name, "/"+childCopy)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// confine makes this process what CopyDatabase promises. It is root, in namespaces of its own,
// and in the database's directory.
func (j copyJob) confine() error {
	if err := j.view(); err != nil {
		return fmt.Errorf("cannot confine the copy of a database: %w", err)
	}
	for resource, most := range map[int]uint64{
		unix.RLIMIT_DATA: childMemory, unix.RLIMIT_AS: childSpace, unix.RLIMIT_FSIZE: uint64(j.size + copySlack),
		unix.RLIMIT_CPU: uint64(j.seconds), unix.RLIMIT_NOFILE: childFiles, unix.RLIMIT_NPROC: childProcesses, unix.RLIMIT_CORE: 0,
	} {
		if err := unix.Prlimit(0, resource, &unix.Rlimit{Cur: most, Max: most}, nil); err != nil {
			return fmt.Errorf("cannot bound the copy of a database (%d to %d): %w", resource, most, err)
		}
	}
	// These change every thread; a process that has given up root this way cannot be traced by
	// the program either, which has the same user.
	if err := errors.Join(syscall.Setgroups(nil), syscall.Setresgid(j.gid, j.gid, j.gid), syscall.Setresuid(j.uid, j.uid, j.uid)); err != nil {
		return fmt.Errorf("cannot become the program's user: %w", err)
	}
	return nil
}

// view makes a root directory of the database's directory and the copy.
func (j copyJob) view() error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return err
	}
	const closed = unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV | unix.MOUNT_ATTR_NOEXEC
	from, err := cloned(".", closed|unix.MOUNT_ATTR_RDONLY)
	if err != nil {
		return err
	}
	to, err := cloned(j.out, closed)
	if err != nil {
		return err
	}
	var is, want unix.Stat_t
	if err := errors.Join(unix.Fstat(to, &is), unix.Fstat(copyFD, &want)); err != nil {
		return err
	}
	if is.Dev != want.Dev || is.Ino != want.Ino {
		return errors.New("the copy has no name")
	}
	const flags = unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC
	if err := unix.Mount("tmpfs", childRoot, "tmpfs", flags, "mode=755,size=64k,nr_inodes=16"); err != nil {
		return err
	}
	made, err := unix.Open(childRoot+"/"+childCopy, unix.O_CREAT|unix.O_EXCL|unix.O_WRONLY|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return err
	}
	return errors.Join(
		unix.Close(made),
		unix.Mkdir(childRoot+"/"+childDir, 0o755),
		unix.MoveMount(from, "", unix.AT_FDCWD, childRoot+"/"+childDir, unix.MOVE_MOUNT_F_EMPTY_PATH),
		unix.MoveMount(to, "", unix.AT_FDCWD, childRoot+"/"+childCopy, unix.MOVE_MOUNT_F_EMPTY_PATH),
		unix.Mount("", childRoot, "", unix.MS_REMOUNT|unix.MS_BIND|unix.MS_RDONLY|flags, ""),
		unix.Chdir(childRoot),
		// The old root comes to lie over the new one and is taken away again (pivot_root(2)).
		unix.PivotRoot(".", "."),
		unix.Unmount(".", unix.MNT_DETACH),
		unix.Chdir("/"),
		unix.Close(from), unix.Close(to), unix.Close(copyFD),
	)
}

// cloned opens a mount of what is at a path, with attributes, that is nowhere yet.
func cloned(path string, attributes uint64) (int, error) {
	fd, err := unix.OpenTree(unix.AT_FDCWD, path, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_SYMLINK_NOFOLLOW)
	if err != nil {
		return -1, err
	}
	return fd, unix.MountSetattr(fd, "", unix.AT_EMPTY_PATH, &unix.MountAttr{Attr_set: attributes})
}
