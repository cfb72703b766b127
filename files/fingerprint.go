package files

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"

	"golang.org/x/sys/unix"

	"berth/app"
)

// Fingerprint returns a sum (SHA-256, in hexadecimal) over what Export would put into an
// archive of id: of each entry of both parts the path, type, mode, owner, size, inode, times of
// change and of modification, and where a link leads. It reads no contents, so it is cheap.
//
// With settled, an application that has the same sum later still has the contents that an
// Export reads which begins after this call. The kernel sets the time of change (ctime) at every
// write, and nobody can set it back. Two things are in the way of that, and cost settled:
//
//   - The clock of these times has ticks, of up to 10 ms, and some file systems keep whole
//     seconds: what is written twice within one has the same time. So settled wants each ctime to be before the moment at which the call
//     began; what is written after that has another.
//   - A program that writes through a shared mapping sets ctime when it faults on a page, and
//     not again while the page stays writable. Writing a page back makes it read-only again
//     (page_mkclean in mm/rmap.c, by clear_page_dirty_for_io), and the next write faults and
//     sets ctime (file_update_time, which ext4_page_mkwrite, __xfs_filemap_fault and
//     btrfs_page_mkwrite call). So the call first makes the file system write everything back
//     (syncfs), twice: a fault that had set the time before the first and was not done with
//     its page then is caught by the second. File systems that do not work so, such as tmpfs,
//     which has nothing to write back to, never settle.
//
// Not seen is one write(2) over what a file holds already that is under way from before the
// call until after Export has read the file: the kernel sets the times as a write begins.
//
// It waits for the disk as long as that needs to write back, and looks at ctx between entries.
// ErrBusy during a commit, as of Export; any error of Export for what the tree is.
func (s *Store) Fingerprint(ctx context.Context, id app.ID, uid int) (sum string, settled bool, err error) {
	if err := checkID(id); err != nil {
		return "", false, err
	}
	was, err := s.betweenCommits(id)
	if err != nil {
		return "", false, err
	}
	f := fingerprint{sum: sha256.New()}
	if f.began, err = writtenBack(s.apps); err != nil {
		return "", false, cannot("write the application's files to disk", err)
	}
	if f.settled, err = settles(s.apps); err != nil {
		return "", false, cannot("look at the disk", err)
	}
	err = s.eachPart(id, uid, func(part string, d dir, include func(visit) bool) error { return f.tree(ctx, part, d, include) })
	if err != nil {
		return "", false, err
	}
	is, err := s.betweenCommits(id)
	if err == nil && was != is {
		err = ErrBusy
	}
	if err != nil {
		return "", false, err
	}
	return hex.EncodeToString(f.sum.Sum(nil)), f.settled, nil
}

// writtenBack makes a file system write back what waits for it, and returns the moment, by the
// clock that files are stamped with, at which it began.
func writtenBack(d dir) (began unix.Timespec, err error) {
	err = unix.ClockGettime(unix.CLOCK_REALTIME_COARSE, &began)
	return began, errors.Join(err, unix.Syncfs(int(d)), unix.Syncfs(int(d)))
}

// settles reports whether a file system is known to stamp a file at the first write through a
// mapping after it has written the page back.
func settles(d dir) (bool, error) {
	var st unix.Statfs_t
	if err := unix.Fstatfs(int(d), &st); err != nil {
		return false, err
	}
	switch st.Type {
	case unix.EXT4_SUPER_MAGIC, unix.XFS_SUPER_MAGIC, unix.BTRFS_SUPER_MAGIC:
		return true, nil
	}
	return false, nil
}

// fingerprint is one that is being taken.
type fingerprint struct {
	sum     hash.Hash
	began   unix.Timespec
	settled bool
}

// tree adds a tree, of which include chooses.
func (f *fingerprint) tree(ctx context.Context, part string, d dir, include func(visit) bool) error {
	st, err := d.self()
	if err != nil {
		return err
	}
	f.add(part, "", &st)
	return walkOrdered(ctx, d, func(v visit) error {
		switch {
		case !include(v):
			return errSkip
		case isLink(&v.st):
			target, err := readLink(v.parent, v.name)
			if err != nil {
				return ignoreGone(err)
			}
			f.add(v.path, target, &v.st)
		case isDir(&v.st) || isFile(&v.st):
			f.add(v.path, "", &v.st)
		}
		return nil
	})
}

// add adds one entry.
func (f *fingerprint) add(path, target string, st *unix.Stat_t) {
	fmt.Fprintf(f.sum, "%q %q %o %d %d %d %d %d %d\n",
		path, target, st.Mode, st.Uid, st.Gid, st.Size, st.Ino, st.Ctim.Nano(), st.Mtim.Nano())
	if !before(st.Ctim, f.began) {
		f.settled = false
	}
}

// before reports whether a time of a file is before a moment, also where the file system keeps
// whole seconds: ext4 with inodes of 128 bytes.
func before(at, moment unix.Timespec) bool {
	if at.Nsec == 0 {
		moment.Nsec = 0
	}
	return at.Nano() < moment.Nano()
}
