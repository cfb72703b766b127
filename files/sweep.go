package files

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"berth/app"
)

// Sweep removes what a crash left behind: everything in staging, what there is of
// the applications that are gone, their backups among it, for links lead to them; the
// temporary directories of builds, and unfinished backups. Trees, journals and temporary directories that are neither of a known
// application nor of one that is gone it moves aside, and returns those: the records
// may be older than they are. It is for boot, before anything else uses the Store;
// journals of known applications stay for Undo. It goes on after an error and
// returns all of them.
func (s *Store) Sweep(ctx context.Context, known, gone []app.ID) (lost []Lost, all error) {
	for _, area := range []struct {
		name string
		dir  dir
	}{{appsName, s.apps}, {rollbackName, s.rollback}, {tmpName, s.tmp}} {
		err := area.dir.list(func(name string) error {
			switch id := app.ID(name); {
			case area.name == tmpName && strings.HasSuffix(name, buildTemp), slices.Contains(gone, id):
				all = errors.Join(all, s.discard(ctx, area.dir, name))
			case slices.Contains(known, id):
			case area.name == tmpName && unix.Unlinkat(int(area.dir), name, unix.AT_REMOVEDIR) == nil: // it was empty
			default:
				l, err := s.Lose(area.name, name)
				if err == nil {
					lost = append(lost, l)
				}
				all = errors.Join(all, err)
			}
			return ctx.Err()
		})
		all = errors.Join(all, err)
	}
	err := s.backups.list(func(name string) error {
		if owner, ok := BackupOf(name); ok && slices.Contains(gone, owner) || strings.HasSuffix(name, backupTemp) {
			all = errors.Join(all, removeTree(ctx, s.backups, name))
		}
		return nil
	})
	all = errors.Join(all, err)
	// Last, since what was found above passes through it.
	err = s.staging.list(func(name string) error {
		all = errors.Join(all, removeTree(ctx, s.staging, name))
		return ctx.Err()
	})
	return lost, errors.Join(all, err)
}

// buildTemp ends the name of a build's temporary directory.
const buildTemp = ".build"

// tempName is the name of a temporary directory in tmp. A build has its own,
// for the program may be running beside it; '.' is in no id.
func tempName(id app.ID, build bool) string {
	if build {
		return string(id) + buildTemp
	}
	return string(id)
}

// Temp returns the absolute path of the temporary directory of id, or of its
// build, whether it is there or not.
func (s *Store) Temp(id app.ID, build bool) string {
	return filepath.Join(s.root, tmpName, tempName(id, build))
}

// EnsureTemp makes the temporary directory of id, or of its build, empty and
// uid's own, and returns its absolute path. Nothing may be using the one
// before, which is removed in the background, however much is in it; one that
// is empty stays, so that a full disk keeps no program from starting again.
func (s *Store) EnsureTemp(id app.ID, build bool, uid int) (string, error) {
	if err := checkID(id); err != nil {
		return "", err
	}
	name := tempName(id, build)
	path := s.Temp(id, build)
	if s.emptyTemp(name, uid) {
		return path, nil
	}
	if err := s.DropTemp(id, build); err != nil {
		return "", err
	}
	d, err := s.tmp.mkdir(name, 0o700, uid)
	if err != nil {
		return "", s.cannot("make a temporary directory", err)
	}
	defer d.close()
	if err := s.mark(d, uid); err != nil {
		return "", s.cannot("make a temporary directory", err)
	}
	return path, nil
}

// emptyTemp reports whether there is a temporary directory of uid's that holds
// nothing. Its mode is mended.
func (s *Store) emptyTemp(name string, uid int) bool {
	d, err := s.tmp.sub(name)
	if err != nil {
		return false
	}
	defer d.close()
	st, err := d.self()
	if err != nil || int(st.Uid) != uid || int(st.Gid) != uid {
		return false
	}
	err = d.each(func(string) error { return unix.ENOTEMPTY })
	return err == nil && s.mark(d, uid) == nil && d.own(uid, 0o700) == nil
}

// DropTemp removes that directory: its name at once, what is in it in the
// background. What Close interrupts goes with the next Sweep.
func (s *Store) DropTemp(id app.ID, build bool) error {
	trash := randName()
	err := move(s.tmp, tempName(id, build), s.staging, trash)
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	if err != nil {
		return cannot("remove a temporary directory", err)
	}
	s.removing.Go(func() { _ = removeTree(s.ctx, s.staging, trash) })
	return nil
}
