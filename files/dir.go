package files

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"berth/app"
)

// dir is an open directory. The zero-cost type keeps descriptors apart from
// other numbers; noDir stands for one that does not exist.
type dir int

const noDir dir = -1

// resolve is how every path below a dir is looked up: no "..", no link of any
// kind, no mount point.
const resolve = unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS | unix.RESOLVE_NO_XDEV

// permBits is what of a mode a chmod sets.
const permBits = 0o7777

// errNotRegular is the error of opening something that is not a plain file.
var errNotRegular = errors.New("not a regular file")

// openPath opens a directory by its path, through links.
func openPath(path string) (dir, error) {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return noDir, err
	}
	return dir(fd), nil
}

// open opens path below d. flags never need O_NOFOLLOW or O_CLOEXEC.
func (d dir) open(path string, flags int, mode uint32) (int, error) {
	how := unix.OpenHow{
		Flags:   uint64(flags | unix.O_CLOEXEC | unix.O_NOFOLLOW),
		Mode:    uint64(mode),
		Resolve: resolve,
	}
	for try := 0; ; try++ {
		fd, err := unix.Openat2(int(d), path, &how)
		// EAGAIN: a rename elsewhere raced with the lookup (openat2(2)).
		if errors.Is(err, unix.EINTR) || (errors.Is(err, unix.EAGAIN) && try < 32) {
			continue
		}
		return fd, err
	}
}

// maxLookup is how long a path one lookup takes, below PATH_MAX.
const maxLookup = 3500

// sub opens the directory at path below d; "." is d again. The caller closes it.
func (d dir) sub(path string) (dir, error) {
	at := d
	for {
		head, rest := path, ""
		if len(path) > maxLookup {
			i := strings.LastIndexByte(path[:maxLookup], '/')
			if i < 0 {
				return noDir, unix.ENAMETOOLONG
			}
			head, rest = path[:i], path[i+1:]
		}
		fd, err := at.open(head, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NONBLOCK, 0)
		if at != d {
			at.close()
		}
		if err != nil {
			return noDir, err
		}
		if at = dir(fd); rest == "" {
			return at, nil
		}
		path = rest
	}
}

// with calls fn with the directory at path below d.
func (d dir) with(path string, fn func(below dir) error) error {
	below, err := d.sub(path)
	if err != nil {
		return err
	}
	defer below.close()
	return fn(below)
}

// in calls fn with the directory that holds what is at path below d, and its name
// there.
func (d dir) in(path string, fn func(parent dir, name string) error) error {
	above, name := split(path)
	return d.with(above, func(parent dir) error { return fn(parent, name) })
}

// at looks at what is at path below d.
func (d dir) at(path string) (st unix.Stat_t, err error) {
	err = d.in(path, func(parent dir, name string) error {
		st, err = parent.stat(name)
		return err
	})
	return st, err
}

// close closes d; noDir is fine. A directory that was read has nothing to lose.
func (d dir) close() {
	if d != noDir {
		_ = unix.Close(int(d))
	}
}

// stat looks at one entry of d without following it.
func (d dir) stat(name string) (unix.Stat_t, error) {
	var st unix.Stat_t
	if d == noDir {
		return st, unix.ENOENT
	}
	err := unix.Fstatat(int(d), name, &st, unix.AT_SYMLINK_NOFOLLOW)
	return st, err
}

// self looks at d.
func (d dir) self() (unix.Stat_t, error) {
	var st unix.Stat_t
	err := unix.Fstat(int(d), &st)
	return st, err
}

// file opens a regular file for reading and returns what was opened, which is
// what to judge: the name may stand for something else by now. Anything but a
// regular file is errNotRegular and is never waited for.
func (d dir) file(path string) (*os.File, unix.Stat_t, error) {
	var st unix.Stat_t
	// A look that opens nothing comes first: opening a device or a pipe, even
	// without waiting, can be noticed at its other end.
	fd, err := d.open(path, unix.O_PATH, 0)
	if err != nil {
		return nil, st, err
	}
	err = unix.Fstat(fd, &st)
	_ = unix.Close(fd)
	if err != nil {
		return nil, st, err
	}
	if !isFile(&st) {
		return nil, st, errNotRegular
	}
	if fd, err = d.open(path, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_NOCTTY, 0); err != nil {
		return nil, st, err
	}
	if err = unix.Fstat(fd, &st); err == nil && !isFile(&st) {
		err = errNotRegular
	}
	if err != nil {
		_ = unix.Close(fd)
		return nil, st, err
	}
	return os.NewFile(uintptr(fd), path), st, nil
}

// create makes a new regular file for writing, for root alone to begin with.
func (d dir) create(name string) (*os.File, error) {
	fd, err := d.open(name, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL, 0o600)
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), name), nil
}

// mkdir makes a directory with exactly mode, owned by uid, and opens it.
func (d dir) mkdir(name string, mode uint32, uid int) (dir, error) {
	if err := unix.Mkdirat(int(d), name, 0o700); err != nil {
		return noDir, err
	}
	made, err := d.sub(name)
	if err != nil {
		return noDir, err
	}
	if err := made.own(uid, mode); err != nil {
		made.close()
		return noDir, err
	}
	return made, nil
}

// own gives d to uid with mode. The mode comes last: a chown clears bits.
func (d dir) own(uid int, mode uint32) error {
	if err := unix.Fchown(int(d), uid, uid); err != nil {
		return err
	}
	return unix.Fchmod(int(d), mode)
}

// sync makes the names in d durable.
func (d dir) sync() error { return unix.Fsync(int(d)) }

// move renames without ever replacing anything.
func move(from dir, name string, to dir, newName string) error {
	err := unix.Renameat2(int(from), name, int(to), newName, unix.RENAME_NOREPLACE)
	if errors.Is(err, unix.EXDEV) {
		return moveAcross(from, name, to, newName)
	}
	return err
}

// each calls fn with every name in d. Entries may come and go meanwhile.
func (d dir) each(fn func(name string) error) error {
	if _, err := unix.Seek(int(d), 0, unix.SEEK_SET); err != nil {
		return err
	}
	buf := make([]byte, 16<<10)
	var names []string
	for {
		n, err := unix.ReadDirent(int(d), buf)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if errors.Is(err, unix.ENOENT) {
			return nil // removed while open: nothing is left in it (fs/readdir.c, IS_DEADDIR)
		}
		if err != nil {
			return err
		}
		if n == 0 {
			return nil
		}
		_, _, names = unix.ParseDirent(buf[:n], -1, names[:0])
		for _, name := range names {
			if err := fn(name); err != nil {
				return err
			}
		}
	}
}

// list is each through a descriptor of its own, for directories that several
// callers read at once: a descriptor has one position.
func (d dir) list(fn func(name string) error) error {
	return d.with(".", func(own dir) error { return own.each(fn) })
}

func isDir(st *unix.Stat_t) bool  { return st.Mode&unix.S_IFMT == unix.S_IFDIR }
func isFile(st *unix.Stat_t) bool { return st.Mode&unix.S_IFMT == unix.S_IFREG }
func isLink(st *unix.Stat_t) bool { return st.Mode&unix.S_IFMT == unix.S_IFLNK }

// gone reports whether err means that an entry vanished, or was swapped for
// something that is not entered, between two looks at it.
func gone(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP) ||
		errors.Is(err, unix.EXDEV) || errors.Is(err, unix.ENXIO) || errors.Is(err, errNotRegular)
}

// ignoreGone drops the error of an entry that is gone.
func ignoreGone(err error) error {
	if gone(err) {
		return nil
	}
	return err
}

// ignoreMissing drops the error of an entry that is removed already.
func ignoreMissing(err error) error {
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	return err
}

// join joins a path below a tree, where "." is the tree.
func join(path, name string) string {
	if path == "." {
		return name
	}
	return path + "/" + name
}

// split is the inverse of join.
func split(path string) (parent, name string) {
	if i := strings.LastIndexByte(path, '/'); i >= 0 {
		return path[:i], path[i+1:]
	}
	return ".", path
}

// readLink returns where a link of d leads; what is no link any more is gone.
func readLink(d dir, name string) (string, error) {
	buf := make([]byte, unix.PathMax)
	n, err := unix.Readlinkat(int(d), name, buf)
	if errors.Is(err, unix.EINVAL) {
		err = unix.ENOENT
	}
	if err != nil {
		return "", err
	}
	return string(buf[:n]), nil
}

func modTime(st *unix.Stat_t) time.Time { return time.Unix(st.Mtim.Unix()) }

// cannot wraps err with what was being done; what the disk refuses becomes a
// sentence for the user.
func cannot(what string, err error) error {
	if refused := Refused(what, err); refused != nil {
		return refused
	}
	return fmt.Errorf("cannot %s: %w", what, err)
}

// Refused returns the sentence for the user when the cause of err is a disk
// that is full or out of its quota (app.NoSpace) or read-only
// (app.Unavailable), and nil otherwise. what completes "cannot ...".
func Refused(what string, err error) error {
	kind := app.NoSpace
	var why app.Text
	switch {
	case errors.Is(err, unix.ENOSPC):
		why = app.Words(app.DiskFull)
	case errors.Is(err, unix.EDQUOT):
		why = app.Words(app.DiskQuota)
	case errors.Is(err, unix.EROFS):
		kind, why = app.Unavailable, app.Words(app.DiskReadOnly)
	default:
		return nil
	}
	return &app.Error{Kind: kind, Message: app.Textf("cannot %s: %s", app.Words(what), why), Err: err}
}

// unlessSaid is cannot, but leaves a sentence for the user alone.
func unlessSaid(cannot func(string, error) error, what string, err error) error {
	if app.KindOf(err) != app.Internal {
		return err
	}
	return cannot(what, err)
}
