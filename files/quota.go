package files

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"berth/app"
)

// Quota is how a file system can hold one application to its disk space.
type Quota struct {
	Project bool  // files are charged to a project, which is the application's uid
	User    bool  // files are charged to their owner
	Why     error // why there is no Project
}

// Enforced reports whether the kernel refuses what goes beyond a limit.
func (q Quota) Enforced() bool { return q.Project || q.User }

// ProbeQuota finds out what the file system of dataDir, or of its nearest
// parent that exists, can do, by doing it in a directory of its own that it
// removes. It needs root.
func ProbeQuota(dataDir string) (q Quota, err error) {
	for place := dataDir; ; place = filepath.Dir(place) {
		d, err := openPath(place)
		if err == nil {
			defer d.close()
			q, _ := probeQuota(d) // Why tells
			return q, nil
		}
		if !errors.Is(err, fs.ErrNotExist) || place == filepath.Dir(place) {
			return q, fmt.Errorf("cannot look for disk quotas: %w", err)
		}
	}
}

// ProbeQuota finds out how applications can be held to their disk space: until then,
// by measuring alone. When a try fails by an error that passes, such as too many open
// files, that says nothing of the file system: it is returned, and nothing is found
// out. It needs root, and is called before anything else uses the Store.
func (s *disk) ProbeQuota(passes func(error) bool) error {
	q, tried := probeQuota(s.staging)
	if passes(tried) {
		return fmt.Errorf("cannot look for disk quotas: %w", tried)
	}
	s.quota = q
	return nil
}

// probeQuota tries both kinds below d. tried is every error there was.
func probeQuota(d dir) (q Quota, tried error) {
	on, err := quotasOn(d)
	if err != nil || on&(userEnforced|projectEnforced) == 0 {
		return Quota{Why: errors.New("the file system has no quota of projects switched on")}, err
	}
	if on&userEnforced != 0 {
		tried = tryQuota(d, userQuota)
		q.User = tried == nil
	}
	own, err := d.project()
	switch {
	case on&projectEnforced == 0:
		q.Why = errors.New("the file system has no quota of projects switched on")
	case err != nil:
		q.Why = err
	case own.project != 0 || own.flags&inherits != 0:
		// Its owner bounds all of berth by it; files of another project would
		// leave it.
		q.Why = errors.New("the data directory is in a quota project of its owner's own")
	default:
		q.Why = tryQuota(d, projectQuota)
		q.Project = q.Why == nil
	}
	return q, errors.Join(tried, q.Why)
}

// tryQuota charges a file to an id that nobody has, bounds it, and takes both
// back. A full disk, on which nothing can be tried, is believed.
func tryQuota(d dir, kind int) error {
	err := chargeOnce(d, kind)
	if errors.Is(err, unix.ENOSPC) {
		return nil
	}
	return err
}

func chargeOnce(d dir, kind int) (err error) {
	var random [4]byte
	_, _ = rand.Read(random[:])
	id := 0xf000_0000 | binary.LittleEndian.Uint32(random[:])&0x0fff_fff0 // above every uid of applications
	name := randName()
	probe, err := d.mkdir(name, 0o700, os.Geteuid())
	if err != nil {
		return err
	}
	defer func() {
		probe.close()
		err = errors.Join(err, removeTree(context.Background(), d, name), setQuota(d, kind, id, 0, 0))
	}()
	if kind == projectQuota {
		if err := probe.setProject(id); err != nil {
			return err
		}
	}
	f, err := probe.create("file")
	if err != nil {
		return err
	}
	defer f.Close()
	if kind == userQuota {
		if err := f.Chown(int(id), -1); err != nil {
			return err
		}
	}
	const some = 64 << 10
	if _, err := f.Write(make([]byte, some)); err != nil {
		return err
	}
	if err := setQuota(d, kind, id, 1<<30, 1000); err != nil {
		return err
	}
	got, err := getQuota(d, kind, id)
	if err == nil && (got.bytes < some || got.hard != 1<<20) {
		err = errors.New("the file system does not count what a project takes")
	}
	return err
}

// Quota returns how applications are held to their disk space.
func (s *disk) Quota() Quota { return s.quota }

// Entries returns how many files, directories and links an application may have,
// by a quota and where nothing but measuring bounds it: twice what one operation
// takes on, and half of what the file system has inodes for, where that is a fixed
// number: XFS and ZFS make them of free space, and tell less the fuller they are.
func (s *disk) Entries() int64 {
	const zfs = 0x2fc12fc1
	most := 2 * int64(newBudget(s.lim).entries)
	var st unix.Statfs_t
	if err := unix.Fstatfs(int(s.staging), &st); err == nil && st.Files > 0 && st.Type != unix.XFS_SUPER_MAGIC && st.Type != zfs {
		most = int64(min(uint64(most), st.Files/2)) //nolint:gosec // most is positive, and what is less fits
	}
	return most
}

// SetLimit bounds what the files of uid take, temporary ones and stages
// included, and how many there are, by every quota that is enforced; 0 is no
// limit. root with CAP_SYS_RESOURCE is not held by it. Without a quota it does
// nothing.
func (s *disk) SetLimit(uid int, bytes int64) error {
	files := int64(0)
	if bytes > 0 {
		files = s.Entries()
	}
	var all error
	if s.quota.Project {
		all = setQuota(s.staging, projectQuota, uint32(uid), bytes, files)
	}
	if s.quota.User {
		all = errors.Join(all, setQuota(s.staging, userQuota, uint32(uid), bytes, files))
	}
	if all != nil {
		return fmt.Errorf("cannot set a disk quota: %w", all)
	}
	return nil
}

// cannot is cannot for what is charged to an application: a quota that is used
// up is its own, not the host's. XFS says ENOSPC for a project's, and holds root
// to it too.
func (s *disk) cannot(what string, err error) error {
	own := errors.Is(err, unix.EDQUOT) || errors.Is(err, unix.ENOSPC) && s.plenty()
	if s.quota.Enforced() && own {
		return &app.Error{Kind: app.NoSpace, Message: app.Textf("cannot %s: %s", app.Words(what), app.Words(app.DiskOwn)), Err: err}
	}
	return cannot(what, err)
}

// plenty reports whether the disk itself has room.
func (s *disk) plenty() bool {
	const some = 64 << 20
	var st unix.Statfs_t
	return unix.Fstatfs(int(s.staging), &st) == nil && st.Bavail*uint64(st.Bsize) > some
}

// Mark charges the tree of id, which an earlier berth or one without quotas
// made, to its project. It walks a tree once; nothing of uid may run. What is
// no directory or regular file cannot be charged, and takes next to nothing.
func (s *disk) Mark(ctx context.Context, id app.ID, uid int) error {
	if !s.quota.Project {
		return nil
	}
	live, err := s.live(id)
	if app.KindOf(err) == app.NotFound {
		return nil
	}
	if err != nil {
		return err
	}
	defer live.close()
	if x, err := live.project(); err == nil && x.project == uint32(uid) && x.flags&inherits != 0 {
		return nil
	}
	if err := s.markTree(ctx, live, uid); err != nil {
		return cannot("charge the application's files to its quota", err)
	}
	return nil
}

// chown gives the ZIP's tree, which nobody but root can reach yet, to uid
// and its project.
func (s *disk) chown(ctx context.Context, tree dir, uid int) error {
	err := walk(ctx, tree, func(v visit) error {
		return unix.Fchownat(int(v.parent), v.name, uid, uid, unix.AT_SYMLINK_NOFOLLOW)
	})
	if err == nil {
		err = s.markTree(ctx, tree, uid)
	}
	if err == nil {
		err = tree.own(uid, 0o700)
	}
	if err != nil {
		return s.cannot("give the files to their user", err)
	}
	return nil
}

// markTree charges what belongs to uid or root below d, and last d: a tree
// whose top is charged is charged.
func (s *disk) markTree(ctx context.Context, d dir, uid int) error {
	if !s.quota.Project {
		return nil
	}
	err := walk(ctx, d, func(v visit) error {
		if owner := int(v.st.Uid); owner != uid && owner != os.Geteuid() {
			return errSkip
		}
		if err := ignoreGone(markEntry(v.parent, v.name, &v.st, uid)); err != nil {
			return err
		}
		if isDir(&v.st) && strings.Count(v.path, "/")+1 >= maxDepth {
			return errSkip
		}
		return nil
	})
	if err != nil {
		return err
	}
	return d.setProject(uint32(uid))
}

// markEntry charges one file or directory.
func markEntry(parent dir, name string, st *unix.Stat_t, uid int) error {
	switch {
	case isDir(st):
		return parent.with(name, func(d dir) error { return d.setProject(uint32(uid)) })
	case isFile(st):
		f, is, err := parent.file(name)
		if err != nil {
			return err
		}
		defer f.Close()
		if is.Uid != st.Uid {
			return nil // swapped since it was looked at
		}
		return dir(f.Fd()).setProject(uint32(uid))
	}
	return nil
}

// mark charges what is made in d from now on to uid.
func (s *disk) mark(d dir, uid int) error {
	if !s.quota.Project {
		return nil
	}
	return d.setProject(uint32(uid))
}

// moveAcross is move where the kernel refuses to carry an entry of one project
// into a directory whose entries are all to be of another (EXDEV in
// ext4_rename, fs/ext4/namei.c). That is so of what was there before the
// quotas, and of what a program took out of its project. Nothing else may be
// making entries in to.
func moveAcross(from dir, name string, to dir, newName string) error {
	x, err := to.project()
	if err != nil || x.flags&inherits == 0 {
		return unix.EXDEV
	}
	open := x
	open.flags &^= inherits
	if err := to.writeProject(open); err != nil {
		return err
	}
	err = unix.Renameat2(int(from), name, int(to), newName, unix.RENAME_NOREPLACE)
	if back := to.writeProject(x); err == nil && back != nil {
		return back
	}
	if err != nil {
		return err
	}
	if st, err := to.stat(newName); err == nil {
		_ = markEntry(to, newName, &st, int(x.project)) // it is where it should be, charged or not
	}
	return nil
}
