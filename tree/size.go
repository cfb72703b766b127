package tree

import (
	"context"
	"strings"

	"berth/app"
)

// maxLinked bounds how many files with several names are told apart; beyond
// it they count once for each name.
const maxLinked = 100_000

// Size returns the bytes the live tree of id and its journals take on disk, a
// file of the tree with several names once. The program may be running. What lies deeper than can be walked
// does not count.
func (s *Store) Size(ctx context.Context, id app.ID) (int64, error) {
	live, err := s.live(id)
	if err != nil {
		return 0, err
	}
	defer live.close()
	var blocks int64
	if st, err := live.self(); err == nil {
		blocks = st.Blocks
	}
	// Only files with more names than one need remembering.
	counted := make(map[uint64]bool)
	err = walk(ctx, live, func(v visit) error {
		if !isDir(&v.st) && v.st.Nlink > 1 {
			if counted[v.st.Ino] {
				return nil
			}
			if len(counted) < maxLinked {
				counted[v.st.Ino] = true
			}
		}
		blocks += v.st.Blocks
		if isDir(&v.st) && strings.Count(v.path, "/")+1 >= maxDepth {
			return errSkip
		}
		return nil
	})
	size := blocks*512 + s.kept(ctx, id) // the unit of st_blocks, whatever the file system's is
	if err != nil {
		return size, cannot("measure the application's files", err)
	}
	return size, nil
}
