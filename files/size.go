package files

import (
	"context"
	"strings"

	"berth/app"
)

// maxLinked bounds how many files with several names are told apart; beyond
// it they count once for each name.
const maxLinked = 100_000

// blockSize is the unit of st_blocks, whatever the file system's is.
const blockSize = 512

// Used returns what counts against the disk space of id: its live tree, in which a
// file with several names counts once, its journals, and what the program keeps in
// its temporary directory. The program may be running.
func (s *disk) Used(ctx context.Context, id app.ID) (app.Space, error) {
	live, err := s.live(id)
	if err != nil {
		return app.Space{}, err
	}
	defer live.close()
	size, err := sizeOf(ctx, live)
	if err != nil {
		return size, cannot("measure the application's files", err)
	}
	add := func(below dir) error { // a directory of berth's, which does not count itself
		more, err := sizeBelow(ctx, below)
		size = size.Plus(more)
		return err
	}
	_ = s.rollback.with(string(id), add) // what of it cannot be read does not count
	if err := ignoreGone(s.tmp.with(tempName(id, false), add)); err != nil {
		return size, cannot("measure the application's files", err)
	}
	return size, nil
}

// After returns what the tree of id will take once the stage is laid over it; id
// is "" for a new application. The stage is the caller's, and the program may be
// running.
func (s *stages) After(ctx context.Context, stage app.Stage, id app.ID) (app.Space, error) {
	_, prepared := s.preparation(stage)
	src, err := s.tree(stage, prepared)
	if err != nil {
		return app.Space{}, err
	}
	defer src.close()
	var size app.Space
	if prepared || id == "" { // what is prepared is a copy of the whole tree
		size, err = sizeOf(ctx, src)
	} else {
		size, err = s.overlaid(ctx, src, id)
	}
	if err != nil {
		return size, cannot("measure the application's files", err)
	}
	return size, nil
}

// overlaid is the size of a live tree with src over it.
func (s *disk) overlaid(ctx context.Context, src dir, id app.ID) (app.Space, error) {
	live, err := s.live(id)
	if err != nil {
		return app.Space{}, err
	}
	defer live.close()
	size, err := sizeOf(ctx, live)
	if err != nil {
		return size, err
	}
	err = walk(ctx, src, func(v visit) error {
		was, err := live.at(v.path)
		if err != nil && !gone(err) {
			return err
		}
		if err == nil && isDir(&was) && isDir(&v.st) {
			return nil
		}
		size.Bytes += v.st.Blocks * blockSize
		size.Entries++
		if err == nil && !isDir(&was) && was.Nlink == 1 {
			size.Bytes -= was.Blocks * blockSize
			size.Entries--
		}
		return nil
	})
	return size, err
}

// sizeOf measures a tree.
func sizeOf(ctx context.Context, d dir) (app.Space, error) {
	size, err := sizeBelow(ctx, d)
	if st, err := d.self(); err == nil {
		size.Bytes += st.Blocks * blockSize
		size.Entries++
	}
	return size, err
}

// sizeBelow measures what a directory holds.
func sizeBelow(ctx context.Context, d dir) (app.Space, error) {
	var size app.Space
	// Only files with more names than one need remembering.
	counted := make(map[uint64]bool)
	err := walk(ctx, d, func(v visit) error {
		if !isDir(&v.st) && v.st.Nlink > 1 {
			if counted[v.st.Ino] {
				return nil
			}
			if len(counted) < maxLinked {
				counted[v.st.Ino] = true
			}
		}
		size.Bytes += v.st.Blocks * blockSize
		size.Entries++
		if isDir(&v.st) && strings.Count(v.path, "/")+1 >= maxDepth {
			size.Deep = true
			return errSkip
		}
		return nil
	})
	return size, err
}
