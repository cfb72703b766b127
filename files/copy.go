package files

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// copier copies trees into a tree that nobody else writes. Entries of other
// owners, pipes, sockets and devices are left out.
type copier struct {
	owner   uint32            // only what belongs to it is copied
	uid     int               // who gets the copies
	ration  *ration           // of entries; what is met beyond it is an error
	links   *links            // of files with several names; nil makes a copy for each
	room    func() error      // asked now and then as the disk fills; nil is never
	written int64             // bytes since it was asked
	noClone bool              // the file system cannot share blocks
	placed  func(path string) // told of each file and link made
	race    func(name string) // a test swaps entries here, between look and open
}

// links keeps the names of a file together in a tree of copies.
type links struct {
	top   dir // of the copies
	known *firsts
}

// again makes a further name of a file that was copied, and reports whether it was.
func (l *links) again(t twin, dst dir, name string) (bool, error) {
	if l == nil || l.known.of(t) == "" {
		return false, nil
	}
	parent, base := split(l.known.of(t))
	from, err := l.top.sub(parent)
	if err != nil {
		return false, err
	}
	defer from.close()
	return true, unix.Linkat(int(from), base, int(dst), name, 0)
}

// wrote counts what was written, and asks for room before there is too little.
func (c *copier) wrote(bytes int64) error {
	if c.written += bytes; c.room == nil || c.written < lookEvery {
		return nil
	}
	c.written = 0
	return c.room()
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
		if err := c.ration.take(rel); err != nil {
			return err
		}
		switch st.Mode & unix.S_IFMT {
		case unix.S_IFDIR:
			err = c.dir(ctx, src, dst, name, rel, depth)
		case unix.S_IFREG:
			err = c.file(ctx, src, dst, name, rel)
		case unix.S_IFLNK:
			err = c.link(ctx, src, dst, name, rel)
		}
		if err != nil && !isDir(&st) {
			return fmt.Errorf("%q: %w", rel, err)
		}
		return err
	})
}

// dir copies one directory.
func (c *copier) dir(ctx context.Context, src, dst dir, name, rel string, depth int) error {
	from, err := src.sub(name)
	if gone(err) {
		return nil
	}
	if err != nil {
		return err
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
	if gone(err) {
		return nil
	}
	if err != nil {
		return err
	}
	defer from.Close()
	if st.Uid != c.owner {
		return nil
	}
	if err := removeTree(ctx, dst, name); err != nil {
		return err
	}
	id, err := twinOf(from, &st)
	if err != nil {
		return err
	}
	if is, err := c.links.again(id, dst, name); is || err != nil {
		c.tell(rel)
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
	fd := int(to.Fd())
	if err := unix.Fchown(fd, c.uid, c.uid); err != nil {
		return err
	}
	// Without set-user-ID and set-group-ID: no copy needs to be more than its
	// owner.
	if err := unix.Fchmod(fd, st.Mode&0o777); err != nil {
		return err
	}
	c.tell(rel)
	if c.links != nil {
		if err := c.links.known.add(id, &st, rel); err != nil {
			return err
		}
	}
	return errors.Join(setTimes(dst, name, &st), c.wrote(leastFile))
}

// leastFile is what a file without content takes, about: its inode and its name.
const leastFile = 4 << 10

// link copies one symbolic link, whatever it points to.
func (c *copier) link(ctx context.Context, src, dst dir, name, rel string) error {
	buf := make([]byte, unix.PathMax)
	n, err := unix.Readlinkat(int(src), name, buf)
	if gone(err) || errors.Is(err, unix.EINVAL) {
		return nil // not a link any more
	}
	if err != nil {
		return err
	}
	if err := removeTree(ctx, dst, name); err != nil {
		return err
	}
	if err := unix.Symlinkat(string(buf[:n]), int(dst), name); err != nil {
		return err
	}
	c.tell(rel)
	return unix.Fchownat(int(dst), name, c.uid, c.uid, unix.AT_SYMLINK_NOFOLLOW)
}

func (c *copier) tell(path string) {
	if c.placed != nil {
		c.placed(path)
	}
}

// setTimes gives the entry the modification time in st.
func setTimes(d dir, name string, st *unix.Stat_t) error {
	ts := []unix.Timespec{st.Atim, st.Mtim}
	return unix.UtimesNanoAt(int(d), name, ts, unix.AT_SYMLINK_NOFOLLOW)
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
	for off < size {
		start, err := unix.Seek(int(from.Fd()), off, unix.SEEK_DATA)
		if errors.Is(err, unix.ENXIO) {
			break // nothing but a hole from here on
		}
		end := size
		if err == nil {
			end, err = unix.Seek(int(from.Fd()), start, unix.SEEK_HOLE)
		} else {
			start = off
		}
		if err != nil {
			end = size // a file system that does not tell
		}
		if off, err = c.copyRange(ctx, from, to, start, min(end, size)); err != nil {
			return err
		}
		if off < min(end, size) {
			break // the file shrank
		}
	}
	if off == size {
		return nil
	}
	return to.Truncate(size) // it ends in a hole, or shrank meanwhile
}

// copyRange copies the bytes from off to end and returns how far it came,
// which is end unless the file is shorter by now.
func (c *copier) copyRange(ctx context.Context, from, to *os.File, off, end int64) (int64, error) {
	for off < end {
		if err := ctx.Err(); err != nil {
			return off, err
		}
		in, out := off, off
		n, err := unix.CopyFileRange(int(from.Fd()), &in, int(to.Fd()), &out, int(min(end-off, piece)), 0)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) {
			return off, err
		}
		if err != nil {
			return c.copyPlain(ctx, from, to, off, end)
		}
		if n == 0 {
			return off, nil
		}
		off += int64(n)
		if err := c.wrote(int64(n)); err != nil {
			return off, err
		}
	}
	return off, nil
}

// copyPlain is copyRange where the kernel cannot.
func (c *copier) copyPlain(ctx context.Context, from, to *os.File, off, end int64) (int64, error) {
	buf := make([]byte, 256<<10)
	for off < end {
		if err := ctx.Err(); err != nil {
			return off, err
		}
		n, err := from.ReadAt(buf[:min(end-off, int64(len(buf)))], off)
		if _, werr := to.WriteAt(buf[:n], off); werr != nil {
			return off, werr
		}
		off += int64(n)
		if errors.Is(err, io.EOF) {
			return off, nil
		}
		if err = errors.Join(err, c.wrote(int64(n))); err != nil {
			return off, err
		}
	}
	return off, nil
}
