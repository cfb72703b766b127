package files

import (
	"context"
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"berth/app"
)

// Remove removes everything of id: the live tree, its journal, its temporary
// directories and its backups. The names are free at once, the files soon after; what
// an early end of ctx leaves of them goes with the next Sweep. It is idempotent.
func (s *Store) Remove(ctx context.Context, id app.ID) error {
	if err := checkID(id); err != nil {
		return err
	}
	var all error
	for _, d := range []dir{s.apps, s.rollback, s.tmp} {
		all = errors.Join(all, s.discard(ctx, d, string(id)))
	}
	return errors.Join(all, s.discard(ctx, s.tmp, tempName(id, true)), s.pruneBackups(id, "", 0))
}

// discard moves an entry of one of the store's directories to staging, which
// frees its name durably, and removes it there.
func (s *Store) discard(ctx context.Context, d dir, name string) error {
	trash := randName()
	err := move(d, name, s.staging, trash)
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	if err != nil {
		return cannot("remove what is not needed", fmt.Errorf("%s: %w", name, err))
	}
	if err := d.sync(); err != nil {
		return cannot("remove what is not needed", fmt.Errorf("%s: %w", name, err))
	}
	return removeTree(ctx, s.staging, trash)
}

// flatDepth is how deep removeTree goes down before it moves a directory up:
// no tree can be too deep to remove.
const flatDepth = 64

// maxPasses bounds how often it starts again at the top of one tree, which is
// once for each flatDepth levels or when somebody adds entries meanwhile.
const maxPasses = 1 << 16

// removeTree removes name below parent, whatever it is, without following a
// link. What is missing is no error.
func removeTree(ctx context.Context, parent dir, name string) error {
	err := unix.Unlinkat(int(parent), name, 0)
	if err == nil || errors.Is(err, unix.ENOENT) {
		return nil
	}
	if !errors.Is(err, unix.EISDIR) {
		return fmt.Errorf("cannot remove %s: %w", name, err)
	}
	top, err := parent.sub(name)
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("cannot remove %s: %w", name, err)
	}
	defer top.close()
	for range maxPasses {
		if err := emptyDir(ctx, top, top, 0); err != nil {
			return fmt.Errorf("cannot remove %s: %w", name, err)
		}
		err = unix.Unlinkat(int(parent), name, unix.AT_REMOVEDIR)
		if err == nil || errors.Is(err, unix.ENOENT) {
			return nil
		}
		if !errors.Is(err, unix.ENOTEMPTY) {
			break
		}
	}
	return fmt.Errorf("cannot remove %s: %w", name, err)
}

// emptyDir removes what d holds; directories flatDepth below top are moved to
// top, where the next pass finds them.
func emptyDir(ctx context.Context, top, d dir, depth int) error {
	return d.each(func(name string) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		err := unix.Unlinkat(int(d), name, 0)
		if !errors.Is(err, unix.EISDIR) {
			return ignoreMissing(err)
		}
		err = unix.Unlinkat(int(d), name, unix.AT_REMOVEDIR)
		if !errors.Is(err, unix.ENOTEMPTY) {
			return ignoreMissing(err)
		}
		if depth >= flatDepth {
			return ignoreMissing(move(d, name, top, randName()))
		}
		below, err := d.sub(name)
		if err != nil {
			return ignoreMissing(err)
		}
		defer below.close()
		if err := emptyDir(ctx, top, below, depth+1); err != nil {
			return err
		}
		err = unix.Unlinkat(int(d), name, unix.AT_REMOVEDIR)
		if errors.Is(err, unix.ENOTEMPTY) {
			return nil // somebody was faster; the next pass sees it
		}
		return ignoreMissing(err)
	})
}

// ignoreMissing drops the error of an entry that is gone already.
func ignoreMissing(err error) error {
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	return err
}
