package files

import (
	"golang.org/x/sys/unix"

	"berth/app"
)

// A host with a full disk fails in ways nobody expects, so what comes from
// strangers stops before: at a twentieth of the disk, or a gigabyte where that
// is less.
const (
	floorShare = 20
	floorMax   = 1 << 30
	// inodeFloor is the most inodes that must be free; where a twentieth of them
	// is less, that is enough.
	inodeFloor = 20_000
)

// SetFloor sets how many bytes must be free for Room not to refuse; a negative
// number is the default, a twentieth of the disk or a gigabyte where that is
// less. It MUST come before the Store is used.
func (s *Store) SetFloor(bytes int64) { s.floor = bytes }

// Room refuses with app.NoSpace when the data directory's disk is nearly
// full or has hardly an inode left for another file, or the quota of its project
// is nearly used up: statfs(2) tells both alike. what completes "cannot ...".
func (s *Store) Room(what string) error {
	var st unix.Statfs_t
	if err := unix.Fstatfs(int(s.staging), &st); err != nil {
		return cannot("look at the disk", err)
	}
	free, total := st.Bavail*uint64(st.Bsize), st.Blocks*uint64(st.Bsize)
	floor := min(total/floorShare, floorMax)
	if s.floor >= 0 {
		floor = uint64(s.floor)
	}
	if free < floor {
		return app.Errorf(app.NoSpace, "cannot %s: the host's disk is nearly full (%d MB are free); its owner must make room", app.Words(what), free>>20)
	}
	if FewInodes(st.Ffree, st.Files) {
		return app.Errorf(app.NoSpace, "cannot %s: the host's disk has room for %d more files only; its owner must remove some", app.Words(what), st.Ffree)
	}
	return nil
}

// FewInodes reports whether a file system with so many inodes has too few free
// ones. Those that make inodes as they need them (Btrfs, ZFS) have 0 of 0, or as
// many as there is room for.
func FewInodes(free, total uint64) bool {
	return total > 0 && free < min(total/floorShare, inodeFloor)
}
