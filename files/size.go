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

// Size returns what the live tree of id and its journals take on disk, a file of
// the tree with several names once. The program may be running.
func (s *disk) Size(ctx context.Context, id app.ID) (app.Space, error) {
	live, err := s.live(id)
	if err != nil {
		return app.Space{}, err
	}
	defer live.close()
	size, err := sizeOf(ctx, live)
	if err != nil {
		return size, cannot("measure the application's files", err)
	}
	return size.Plus(s.kept(ctx, id)), nil
}

// Used is Size with what the program keeps in its temporary directory: what
// counts against the application's disk space.
func (s *disk) Used(ctx context.Context, id app.ID) (app.Space, error) {
	size, err := s.Size(ctx, id)
	if err != nil {
		return size, err
	}
	temp, err := s.tmp.sub(tempName(id, false))
	if gone(err) {
		return size, nil
	}
	if err != nil {
		return size, cannot("measure the application's files", err)
	}
	defer temp.close()
	more, err := sizeBelow(ctx, temp) // the directory is berth's
	if err != nil {
		return size, cannot("measure the application's files", err)
	}
	return size.Plus(more), nil
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

// kept measures the journals of id in bytes; what cannot be read does not count.
func (s *disk) kept(ctx context.Context, id app.ID) app.Space {
	all, err := s.rollback.sub(string(id))
	if err != nil {
		return app.Space{}
	}
	defer all.close()
	size, _ := sizeBelow(ctx, all)
	return size
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
