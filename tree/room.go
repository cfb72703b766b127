package tree

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
)

// room refuses with app.NoSpace when the data directory's disk is nearly
// full, or the quota of its project is nearly used up: statfs(2) tells both
// alike. what completes "cannot ...".
func (s *Store) room(what string) error {
	var st unix.Statfs_t
	if err := unix.Fstatfs(int(s.staging), &st); err != nil {
		return cannot("look at the disk", err)
	}
	free, total := st.Bavail*uint64(st.Bsize), st.Blocks*uint64(st.Bsize)
	if free < min(total/floorShare, floorMax) {
		return app.Errorf(app.NoSpace, "cannot %s: the host's disk is nearly full (%d MB are free); its owner must make room", what, free>>20)
	}
	return nil
}
