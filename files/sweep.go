package files

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"berth/app"
)

// Sweep removes what a crash left behind: everything in staging, what there is of
// the applications that are gone, their backups among it, for links lead to them; the
// temporary directories of builds, and unfinished backups. Trees, journals and
// temporary directories that are neither of a known application nor of one that is
// gone it moves aside, and returns those: the records may be older than they are. It
// is for boot, before anything else uses the Store; journals of known applications
// stay for Settle. It goes on after an error and returns all of them.
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
	return errors.Join(all, s.discard(ctx, s.tmp, tempName(id, true)), s.prune(id, "", 0))
}

// lostName is the directory for what no record names. Nobody but the owner of the
// host removes anything from it.
const lostName = "lost"

// Areas are the directories of the data directory that a Store makes.
func Areas() []string {
	return []string{appsName, stagingName, backupsName, rollbackName, tmpName, lostName}
}

// Lost is something that was moved aside.
type Lost struct {
	Name string // that it had, mostly the id of an application
	To   string // the directory in which it is now, by the name of its area
	UID  int    // whose it is
}

// lostAt is the moment in the name of a directory in lost.
const lostAt = "20060102T150405Z"

// Lose moves an entry of a directory of the data directory, "apps" or "logs" for
// example, to lost/<name>.<time>/<area>, durably and with all that is in it. The time
// is that of the Store's opening, so that what belongs together stays together.
func (s *Store) Lose(area, name string) (l Lost, err error) {
	defer func() {
		if err != nil {
			err = cannot("move aside what no record names", fmt.Errorf("%s/%s: %w", area, name, err))
		}
	}()
	base, err := openPath(s.root)
	if err != nil {
		return l, err
	}
	defer base.close()
	from, err := base.sub(area)
	if err != nil {
		return l, err
	}
	defer from.close()
	st, err := from.stat(name)
	if err != nil {
		return l, err
	}
	lost, err := openArea(base, lostName, 0o700)
	if err != nil {
		return l, err
	}
	defer lost.close()
	called := name + "." + s.opened.UTC().Format(lostAt)
	to, err := openArea(lost, called, 0o700)
	if err != nil {
		return l, err
	}
	defer to.close()
	if err := move(from, name, to, area); err != nil {
		return l, err
	}
	l = Lost{name, filepath.Join(s.root, lostName, called), int(st.Uid)}
	return l, errors.Join(to.sync(), lost.sync(), base.sync(), from.sync())
}

// CountLost returns how many directories there are in lost, for whoever looks after
// the host.
func CountLost(dataDir string) (int, error) {
	n := 0
	d, err := openPath(filepath.Join(dataDir, lostName))
	if errors.Is(err, unix.ENOENT) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("cannot look into %s: %w", lostName, err)
	}
	defer d.close()
	err = d.each(func(string) error { n++; return nil })
	return n, err
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
		return removeEmptied(d, name) // the next pass sees what somebody was faster to add
	})
}

// temps are the temporary directories of programs and builds.
type temps struct {
	*disk
	// What takes long to remove goes in the background; Close ends that.
	removing sync.WaitGroup
	ctx      context.Context
	cancel   context.CancelFunc
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
func (s *temps) Temp(id app.ID, build bool) string {
	return filepath.Join(s.root, tmpName, tempName(id, build))
}

// EnsureTemp makes the temporary directory of id, or of its build, empty and
// uid's own, and returns its absolute path. Nothing may be using the one
// before, which is removed in the background, however much is in it; one that
// is empty stays, so that a full disk keeps no program from starting again.
func (s *temps) EnsureTemp(id app.ID, build bool, uid int) (string, error) {
	if err := checkID(id); err != nil {
		return "", err
	}
	name := tempName(id, build)
	path := s.Temp(id, build)
	if s.isEmpty(name, uid) {
		return path, nil
	}
	if err := s.DropTemp(id, build); err != nil {
		return "", err
	}
	d, err := s.tmp.mkdir(name, 0o700, uid)
	if err == nil {
		defer d.close()
		err = s.mark(d, uid)
	}
	if err != nil {
		return "", s.cannot("make a temporary directory", err)
	}
	return path, nil
}

// isEmpty reports whether there is a temporary directory of uid's that holds
// nothing. Its mode is mended.
func (s *temps) isEmpty(name string, uid int) bool {
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
func (s *temps) DropTemp(id app.ID, build bool) error {
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
