package files

import (
	"context"
	"errors"
	"path/filepath"
	"sync"

	"golang.org/x/sys/unix"

	"berth/app"
)

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
