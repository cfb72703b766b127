package files

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"

	"berth/app"
)

// copier copies trees into a tree that nobody else writes. Entries of other
// owners, pipes, sockets and devices are left out.
type copier struct {
	owner   uint32            // only what belongs to it is copied
	uid     int               // who gets the copies
	budget  *budget           // of entries; what is met beyond it is an error
	known   *hardLinks        // of files with several names; nil makes a copy for each
	top     dir               // of the copies, where their names are kept together
	free    freeCheck         // as the disk fills
	noClone bool              // the file system cannot share blocks
	placed  func(path string) // called with each file and link made
	race    func(name string) // a test swaps entries here, between look and open
}

// again makes a further name of a file that was copied, and reports whether it was.
func (c *copier) again(f fileID, dst dir, name string) (bool, error) {
	if c.known == nil || c.known.first(f) == "" {
		return false, nil
	}
	return true, c.top.in(c.known.first(f), func(from dir, base string) error {
		return unix.Linkat(int(from), base, int(dst), name, 0)
	})
}

// hardLinks remembers, of each file with several names, the one under which it was copied:
// the others become links to it, so that no copy is larger than what it is of.
type hardLinks struct {
	names map[fileID]string
	paths int // bytes left
}

func newHardLinks() *hardLinks { return &hardLinks{map[fileID]string{}, maxPaths} }

// errHardLinks is the error of a tree with more such files than are remembered.
var errHardLinks = app.Errorf(app.Unusable, "the application has too many files with several names to be handled at once; remove some")

// first returns the name under which a file is known, "" for none.
func (h *hardLinks) first(f fileID) string { return h.names[f] }

// add makes one known by its first name, where it has several.
func (h *hardLinks) add(f fileID, st *unix.Stat_t, path string) error {
	if st.Nlink < 2 {
		return nil
	}
	if h.paths -= len(path); h.paths < 0 || len(h.names) >= maxHardLinks {
		return errHardLinks
	}
	h.names[f] = path
	return nil
}

// maxHardLinks bounds how many files with several names are remembered.
const maxHardLinks = 1_000_000

// fileID tells a file from all others that there are and were: the number of an inode
// is given again at once when the file is gone.
type fileID struct {
	ino  uint64
	born unix.StatxTimestamp // zero where the file system does not know it
}

// fileIDOf tells an open file.
func fileIDOf(f *os.File, st *unix.Stat_t) (fileID, error) {
	if st.Nlink < 2 {
		return fileID{ino: st.Ino}, nil
	}
	var x unix.Statx_t
	err := unix.Statx(int(f.Fd()), "", unix.AT_EMPTY_PATH, unix.STATX_BTIME, &x)
	if err != nil || x.Mask&unix.STATX_BTIME == 0 {
		return fileID{ino: st.Ino}, err
	}
	return fileID{st.Ino, x.Btime}, nil
}

// tree copies what src holds into dst, which stands at path. Directories that
// dst has already are filled; anything else in the way is removed first.
func (c *copier) tree(ctx context.Context, src, dst dir, path string, depth int) error {
	if depth > maxDepth {
		return errDeep
	}
	return src.each(func(name string) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		st, err := src.stat(name)
		if gone(err) || (err == nil && st.Uid != c.owner) {
			return nil
		}
		if err != nil {
			return err
		}
		if c.race != nil {
			c.race(name)
		}
		rel := join(path, name)
		if err := c.budget.spend(rel); err != nil {
			return err
		}
		err = c.entry(ctx, src, dst, name, rel, st.Mode, depth)
		if err != nil && !isDir(&st) {
			return fmt.Errorf("%q: %w", rel, err)
		}
		return err
	})
}

// entry copies one entry; pipes, sockets and devices are none.
func (c *copier) entry(ctx context.Context, src, dst dir, name, rel string, mode uint32, depth int) error {
	switch mode & unix.S_IFMT {
	case unix.S_IFDIR:
		return c.dir(ctx, src, dst, name, rel, depth)
	case unix.S_IFREG:
		return c.file(ctx, src, dst, name, rel)
	case unix.S_IFLNK:
		return c.link(ctx, src, dst, name, rel)
	}
	return nil
}

// dir copies one directory.
func (c *copier) dir(ctx context.Context, src, dst dir, name, rel string, depth int) error {
	from, err := src.sub(name)
	if err != nil {
		return ignoreGone(err)
	}
	defer from.close()
	st, err := from.self()
	if err != nil {
		return err
	}
	if st.Uid != c.owner {
		return nil // swapped since it was looked at
	}
	to, err := c.enter(ctx, dst, name, st.Mode&0o1777)
	if err != nil {
		return err
	}
	defer to.close()
	return c.tree(ctx, from, to, rel, depth+1)
}

// enter opens the directory name of dst and makes it when it is not one.
func (c *copier) enter(ctx context.Context, dst dir, name string, mode uint32) (dir, error) {
	if st, err := dst.stat(name); err == nil {
		if isDir(&st) {
			return dst.sub(name)
		}
		if err := removeTree(ctx, dst, name); err != nil {
			return noDir, err
		}
	}
	return dst.mkdir(name, mode, c.uid)
}

// file copies one regular file with its mode and times.
func (c *copier) file(ctx context.Context, src, dst dir, name, rel string) (err error) {
	from, st, err := src.file(name)
	if err != nil {
		return ignoreGone(err)
	}
	defer from.Close()
	if st.Uid != c.owner {
		return nil
	}
	if err := removeTree(ctx, dst, name); err != nil {
		return err
	}
	id, err := fileIDOf(from, &st)
	if err != nil {
		return err
	}
	if is, err := c.again(id, dst, name); is || err != nil {
		c.made(rel)
		return err
	}
	to, err := dst.create(name)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, to.Close()) }()
	if err := c.data(ctx, from, to, st.Size); err != nil {
		return err
	}
	// Without set-user-ID and set-group-ID: no copy needs to be more than its
	// owner.
	if err := dir(to.Fd()).own(c.uid, st.Mode&0o777); err != nil {
		return err
	}
	c.made(rel)
	if c.known != nil {
		if err := c.known.add(id, &st, rel); err != nil {
			return err
		}
	}
	times := []unix.Timespec{st.Atim, st.Mtim}
	return errors.Join(unix.UtimesNanoAt(int(dst), name, times, unix.AT_SYMLINK_NOFOLLOW), c.free.wrote(leastFile))
}

// leastFile is what a file without content takes, about: its inode and its name.
const leastFile = 4 << 10

// link copies one symbolic link, whatever it points to.
func (c *copier) link(ctx context.Context, src, dst dir, name, rel string) error {
	target, err := readLink(src, name)
	if err != nil {
		return ignoreGone(err)
	}
	if err := removeTree(ctx, dst, name); err != nil {
		return err
	}
	if err := unix.Symlinkat(target, int(dst), name); err != nil {
		return err
	}
	c.made(rel)
	return unix.Fchownat(int(dst), name, c.uid, c.uid, unix.AT_SYMLINK_NOFOLLOW)
}

func (c *copier) made(path string) {
	if c.placed != nil {
		c.placed(path)
	}
}

// piece is how much is copied between two looks at the context.
const piece = 16 << 20

// data makes to hold the first size bytes of from: by sharing its blocks where
// the file system can, else extent by extent, so that a sparse file of a
// terabyte stays one.
func (c *copier) data(ctx context.Context, from, to *os.File, size int64) error {
	if size == 0 {
		return nil
	}
	if !c.noClone {
		err := unix.IoctlFileClone(int(to.Fd()), int(from.Fd()))
		if err == nil {
			return nil
		}
		// A busy file may refuse on its own, so only a plain no is remembered.
		c.noClone = errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.ENOTTY) || errors.Is(err, unix.EXDEV)
	}
	off := int64(0)
	err := extents(from, size, func(start, end int64) (err error) {
		off, err = c.copyRange(ctx, from, to, start, end)
		return err
	})
	if err != nil || off == size {
		return err
	}
	return to.Truncate(size) // it ends in a hole, or shrank meanwhile
}

// extents calls fn with each piece of data among the first size bytes.
func extents(f *os.File, size int64, fn func(start, end int64) error) error {
	for off := int64(0); off < size; {
		start, err := unix.Seek(int(f.Fd()), off, unix.SEEK_DATA)
		if errors.Is(err, unix.ENXIO) {
			return nil // nothing but a hole from here on
		}
		end := size
		if err == nil {
			end, err = unix.Seek(int(f.Fd()), start, unix.SEEK_HOLE)
		} else {
			start = off
		}
		if err != nil {
			end = size // a file system that does not tell
		}
		if start, end = min(start, size), min(end, size); start < end {
			if err := fn(start, end); err != nil {
				return err
			}
		}
		off = max(end, off+1)
	}
	return nil
}

// copyRange copies the bytes from off to end, in the kernel where that can, and
// returns how far it came, which is end unless the file is shorter by now.
func (c *copier) copyRange(ctx context.Context, from, to *os.File, off, end int64) (int64, error) {
	_, err := from.Seek(off, io.SeekStart)
	if err == nil {
		_, err = to.Seek(off, io.SeekStart)
	}
	for err == nil && off < end {
		if err := ctx.Err(); err != nil {
			return off, err
		}
		var n int64
		n, err = io.Copy(to, io.LimitReader(from, min(end-off, piece)))
		off += n
		if err == nil && n == 0 {
			return off, nil
		}
		err = errors.Join(err, c.free.wrote(n))
	}
	return off, err
}
