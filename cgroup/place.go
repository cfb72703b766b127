package cgroup

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Place is where the groups of one berth are, or were left: the directory of a
// tree in cgroup v2. Nothing of it is open.
type Place struct {
	Name string
	dir  string
}

// Places returns the places of every berth on this machine: those below the root
// group, and those in holders. What is in a daemon's own unit is none, for it ends
// with the unit.
func Places(h Host, holders ...string) []Place {
	var all []Place
	for _, top := range append([]string{filepath.Join(h.V2, "berth")}, holders...) {
		dirs, _ := filepath.Glob(filepath.Join(top, "*", appsDir)) // the pattern is well-formed
		for _, apps := range dirs {
			dir := filepath.Dir(apps)
			p := Place{filepath.Base(dir), dir}
			if !slices.Contains(all, p) {
				all = append(all, p)
			}
		}
	}
	return all
}

// Dir is its directory, for people.
func (p Place) Dir() string { return p.dir }

// Processes calls each with every process in the place, the application whose it
// is and the name of its group ("apps/<id>/<run>"), until that returns false.
func (p Place) Processes(each func(application, group string, pid int) bool) {
	files, _ := filepath.Glob(filepath.Join(p.dir, appsDir, "*", "*", "cgroup.procs")) // the pattern is well-formed
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			continue // it has gone meanwhile
		}
		group := filepath.Dir(file)
		for _, field := range strings.Fields(string(b)) {
			pid, err := strconv.Atoi(field)
			if err == nil && !each(filepath.Base(filepath.Dir(group)), strings.TrimPrefix(group, p.dir+"/"), pid) {
				return
			}
		}
	}
}

// Note returns what Tree.Mark kept with the place, "" when that is nothing.
func (p Place) Note() (string, error) { return noteOf(p.dir) }

// Taken reports whether a tree of the place is open that has claimed it. It waits a
// moment, as Claim does.
func (p Place) Taken() (bool, error) {
	f, err := claim(p.dir)
	switch {
	case errors.Is(err, ErrTaken):
		return true, nil
	case errors.Is(err, fs.ErrNotExist):
		return false, nil
	case err != nil:
		return false, err
	}
	return false, f.Close()
}

// ErrTaken is the error of a place that somebody else uses.
var ErrTaken = errors.New("another berth uses these control groups")

// claimPatience bounds the wait for a place whose daemon was killed: a child that
// it was just starting has the place for a moment longer.
const claimPatience = 2 * time.Second

// claim locks the directory of a place.
func claim(dir string) (*os.File, error) {
	f, err := lockDir(dir)
	for until := time.Now().Add(claimPatience); errors.Is(err, ErrTaken) && time.Now().Before(until); f, err = lockDir(dir) {
		time.Sleep(claimPatience / 100)
	}
	return f, err
}

// lockDir locks the directory of a place, at once or not at all.
func lockDir(dir string) (*os.File, error) {
	f, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		_ = f.Close()
		if errors.Is(err, unix.EWOULDBLOCK) {
			return nil, ErrTaken
		}
		return nil, err
	}
	return f, nil
}
