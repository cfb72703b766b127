package cgroup

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// Tree is the place below which all groups of one berth live, one directory
// of the same name in each hierarchy in use. It is safe for concurrent use.
type Tree struct {
	layout
	notify  *notifier      // nil unless unified: v1 has descriptors of its own
	watches sync.WaitGroup // the groups' goroutines
	removed later          // groups, in a moment
	others  []string       // roots where an earlier daemon of the same name may have been
	mending sync.Mutex
	claim   *os.File // the lock of its place, nil for none: see Claim
}

// Open makes the tree called name below the root group of every hierarchy in
// use, or in the daemon's own group when systemd delegated it. It enables the
// memory and pids controllers on the way down, and cpu and io where they can be
// had (see Weights). Programs left by an earlier daemon of the same name are still
// there: see Sweep. Close the tree.
func Open(h Host, name string) (*Tree, error) { return open(h, name, "") }

func open(h Host, name, holder string) (*Tree, error) {
	if err := h.Check(); err != nil {
		return nil, err
	}
	t, err := settled(h, name, holder)
	if err != nil {
		return nil, fmt.Errorf("cannot prepare berth's control groups: %w", err)
	}
	if _, err := os.Stat(filepath.Join(t.root, appsDir, "cgroup.kill")); err != nil {
		t.removeOwn(0)
		return nil, errors.New("cannot limit programs on this host: the kernel has no cgroup.kill; Linux 5.14 or newer is needed")
	}
	if t.host.Mode == Unified {
		n, err := newNotifier()
		if err != nil {
			t.removeOwn(0)
			return nil, err
		}
		t.notify = n
	}
	return t, nil
}

// OpenIn is Open with the v2 tree in a holder's directory, from HolderOf; the v1
// ones of a hybrid host are where they always are. The tree has a directory of
// its name there, so that several may share the holder.
func OpenIn(h Host, name, holder string) (*Tree, error) {
	t, err := open(h, name, holder)
	if err != nil {
		return nil, err
	}
	t.others = append(t.others, filepath.Join(h.V2, "berth", name))
	return t, nil
}

// settled makes a tree's directories. Another process's tree, doctor's for one,
// may remove the directory that holds both when it closes, after it was made
// here and before it was used.
func settled(h Host, name, holder string) (*Tree, error) {
	for try := 1; ; try++ {
		t := &Tree{layout: layout{host: h, holder: holder}}
		err := t.settle(name)
		if err == nil {
			return t, nil
		}
		t.removeOwn(0)
		if !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, unix.ENODEV) || try == settleTries {
			return nil, err
		}
	}
}

// settleTries bounds how often a directory that went away is made again.
const settleTries = 20

// belowTimeout bounds the wait for what was killed to be gone.
const belowTimeout = 5 * time.Second

// Sweep kills whatever an earlier daemon left in the tree and removes its
// groups, but for those that spare names; of a daemon whose groups were
// elsewhere (see OpenIn), everything. It blocks until the last process is
// gone, a few seconds at most, and returns how many groups it removed.
func (t *Tree) Sweep(spare func(name string) bool) (int, error) {
	t.removed.flush()
	n := 0
	var errs []error
	end := func(g *Group) {
		n++
		errs = append(errs, g.Kill(), g.WaitEmpty(belowTimeout), g.Remove())
	}
	for _, root := range t.others {
		for _, name := range runsIn(root) {
			dir := filepath.Join(root, name)
			end(&Group{path: dir, dirs: []string{dir}, mem: borrowed{}})
		}
		rmdirs(filepath.Join(root, appsDir, "*"))
		rmdirs(filepath.Join(root, appsDir))
		rmdirs(root)
	}
	for _, root := range t.roots() { // a daemon may have been killed between two removals of one group
		for _, name := range runsIn(root) {
			if spare == nil || !spare(name) {
				end(t.group(name))
			}
		}
		rmdirs(filepath.Join(root, appsDir, "*")) // or between the two directories of a run
	}
	return n, errors.Join(errs...)
}

// runsIn returns the names of the groups below a root ("apps/<id>/<run>").
func runsIn(root string) []string {
	dirs, _ := filepath.Glob(filepath.Join(root, appsDir, "*", "*")) // the pattern is well-formed
	var names []string
	for _, dir := range dirs {
		if info, err := os.Stat(dir); err == nil && info.IsDir() {
			names = append(names, strings.TrimPrefix(dir, root+"/"))
		}
	}
	return names
}

// rmdirs removes the directories of a pattern that are empty.
func rmdirs(pattern string) {
	dirs, _ := filepath.Glob(pattern) // the pattern is well-formed
	for _, dir := range dirs {
		_ = unix.Rmdir(dir) // what is no directory, or not empty, stays
	}
}

// Close waits for what the watches of groups still do, and removes the tree's
// own empty directories. The watches MUST have been ended and the groups of runs
// removed before; what is not empty stays.
func (t *Tree) Close() error {
	t.removed.flush()
	t.watches.Wait()
	var err error
	if t.notify != nil {
		err = t.notify.close()
	}
	t.removeOwn(0)
	return errors.Join(err, t.Release())
}

// Claim makes sure that one tree of its place is used at a time, by the name of
// which there may be two: the later one gets ErrTaken. Release and Close give it
// up, and so does the end of the process.
func (t *Tree) Claim() error {
	f, err := claim(t.root)
	if err != nil {
		return fmt.Errorf("cannot use the control groups %s: %w", t.root, err)
	}
	t.claim = f
	return nil
}

// Release gives up what Claim got; the groups stay as they are, but for those that
// RemoveLater was called for.
func (t *Tree) Release() error {
	t.removed.flush()
	if t.claim == nil {
		return nil
	}
	err := t.claim.Close()
	t.claim = nil
	return err
}

// Place is the tree's own.
func (t *Tree) Place() Place { return Place{filepath.Base(t.root), t.root} }

// Mark keeps text with the place, for a later daemon. It replaces an earlier one.
func (t *Tree) Mark(text string) error {
	return setNote(t.root, text, "whose the control groups are")
}

// Mend makes again what somebody else took away of the tree: its directories in
// every hierarchy in use and, on a unified host, the controllers on the way down
// to the runs. It returns what was missing, nil for nothing. A controller that
// comes back knows no limits: running groups get that of processes, pids, again,
// and MUST be given that of their memory. It is safe for concurrent use.
func (t *Tree) Mend(pids int64) (missing []string, err error) {
	t.mending.Lock()
	defer t.mending.Unlock()
	var errs []error
	for _, root := range t.roots() {
		apps := filepath.Join(root, appsDir)
		if _, err := os.Stat(apps); !errors.Is(err, fs.ErrNotExist) {
			continue
		}
		missing = append(missing, apps)
		errs = append(errs, os.MkdirAll(apps, 0o755))
	}
	if t.host.Mode == Unified {
		for _, dir := range t.handsDown() {
			lost, err := t.handDown(dir)
			missing, errs = append(missing, lost...), append(errs, err)
		}
		if len(missing) > 0 && pids > 0 {
			errs = append(errs, t.boundRuns(pids))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return missing, fmt.Errorf("cannot mend berth's control groups: %w", err)
	}
	return missing, nil
}

// boundRuns limits the processes of every run that has no limit.
func (t *Tree) boundRuns(pids int64) error {
	files, err := filepath.Glob(filepath.Join(t.root, appsDir, "*", "[0-9]*", "pids.max"))
	for _, file := range files {
		if b, problem := os.ReadFile(file); problem == nil && strings.TrimSpace(string(b)) == "max" {
			err = errors.Join(err, os.WriteFile(file, strconv.AppendInt(nil, pids, 10), 0))
		}
	}
	return err
}
