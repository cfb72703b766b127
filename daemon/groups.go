package daemon

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"syscall"

	"berth/app"
	"berth/app/exit"
	"berth/cgroup"
	"berth/proc/sandbox"
	"berth/systemd"
)

// placement finds the place of the programs' control groups. Its name is stored in the
// database, so that programs are found again when the data directory was moved. The
// first daemon to serve a database makes it of the directory's path, as every daemon
// did before names were stored, unless somebody has that name.
type placement struct {
	dir   string // of the data
	data  *data
	facts cgroup.Host
	log   *slog.Logger
}

// home is what a place keeps of the data directory whose programs run in it.
type home struct {
	Dir  string // its path
	Tree string // the device and the inode of its applications' directory
}

// homeOf describes a data directory.
func homeOf(dir string) (home, error) {
	tree, err := nodeOf(filepath.Join(dir, "apps"))
	if err != nil {
		return home{}, fmt.Errorf("cannot look at the applications' directory: %w", err)
	}
	return home{realPath(dir), tree}, nil
}

// residentOf reads what a place keeps: nothing when an older berth made it.
func residentOf(p cgroup.Place) (was home, err error) {
	text, err := p.Note()
	if err == nil && text != "" {
		err = json.Unmarshal([]byte(text), &was)
	}
	if err != nil {
		return home{}, fmt.Errorf("cannot read whose the control groups %s are: %w", p.Dir(), err)
	}
	return was, nil
}

// elsewhere reports whether it is another data directory than dir, and still there.
func (h home) elsewhere(dir string) bool {
	if h.Dir == "" || h.Dir == realPath(dir) {
		return false
	}
	there, err := os.Stat(filepath.Join(h.Dir, DatabaseName))
	if err != nil {
		return false
	}
	here, err := os.Stat(filepath.Join(dir, DatabaseName))
	return err != nil || !os.SameFile(there, here) // it may be mounted twice
}

// nodeOf is what names a file whatever its path is.
func nodeOf(path string) (string, error) {
	info, err := os.Stat(path)
	if err != nil {
		return "", err
	}
	st := info.Sys().(*syscall.Stat_t)
	return fmt.Sprintf("%d:%d", st.Dev, st.Ino), nil
}

// newGroupName returns a name that nobody has.
func newGroupName() string {
	var b [4]byte
	_, _ = rand.Read(b[:]) // never fails, by its contract
	return hex.EncodeToString(b[:])
}

// pathGroupName is the name that an older berth makes of a data directory's path.
func pathGroupName(dataDir string) string {
	sum := sha256.Sum256([]byte(realPath(dataDir)))
	return hex.EncodeToString(sum[:4])
}

// realPath is the same by whatever name a directory is called.
func realPath(dir string) string {
	if real, err := filepath.EvalSymlinks(dir); err == nil {
		return real
	}
	return dir
}

// GroupName is the name of the control groups of a data directory, as far as it
// can be told without a daemon: it changes nothing. Only a daemon brings the database of
// another schema up to date.
func GroupName(ctx context.Context, dataDir string) string {
	d, err := OpenCurrent(ctx, dataDir)
	if err != nil || d == nil {
		return pathGroupName(dataDir)
	}
	defer func() { _ = d.Close() }()
	name, err := d.GroupName(ctx)
	if err != nil || name == "" {
		return pathGroupName(dataDir)
	}
	return name
}

// runsOf returns the pids of an application's processes in a place that are of the
// records' applications, by the application.
func runsOf(p cgroup.Place, uids map[string]int) map[app.ID][]int {
	found := map[app.ID][]int{}
	p.Processes(func(id, _ string, pid int) bool {
		uid, ok := uids[id]
		if ok && ownedBy(pid, uid) {
			found[app.ID(id)] = append(found[app.ID(id)], pid)
		}
		return true
	})
	return found
}

// ownedBy reports whether a process is a user's.
func ownedBy(pid, uid int) bool {
	info, err := os.Stat("/proc/" + strconv.Itoa(pid))
	return err == nil && int(info.Sys().(*syscall.Stat_t).Uid) == uid
}

// uids are the user ids of the applications that the records have.
func (p *placement) uids(ctx context.Context) (map[string]int, error) {
	apps, err := p.data.apps(ctx)
	uids := make(map[string]int, len(apps))
	for _, a := range apps {
		uids[string(a.ID)] = a.UID
	}
	return uids, err
}

// places are all that there are.
func (p *placement) places() []cgroup.Place { return cgroup.Places(p.facts, holders(p.facts)...) }

// choose returns the name of the programs' groups: the stored one, but for
// programs of these records that run elsewhere, whose place is taken along. Where
// programs could run twice it refuses.
func (p *placement) choose(ctx context.Context) (string, error) {
	stored, err := p.data.db.GroupName(ctx)
	if err != nil {
		return "", err
	}
	uids, err := p.uids(ctx)
	if err != nil {
		return "", err
	}
	own := cmp.Or(stored, pathGroupName(p.dir))
	if stored == "" && len(uids) == 0 {
		if err := p.orphans(own); err != nil {
			return "", err
		}
	}
	used := map[string]cgroup.Place{} // where programs of ours run
	for _, place := range p.places() {
		if len(runsOf(place, uids)) == 0 {
			continue
		}
		if err := p.mayClaim(place); err != nil {
			return "", err
		}
		used[place.Name] = place
	}
	_, mine := used[own]
	switch {
	case len(used) > 1:
		delete(used, own)
		return "", twiceProblem(p.dir, used)
	case mine:
		return own, nil
	}
	for name := range used {
		p.log.Warn("the programs run in control groups of another name, which is taken along", "name", name, "before", own)
		return name, nil
	}
	return p.freeName(own), nil
}

// mayClaim refuses the programs of a place that is another daemon's, or another data
// directory's that is still there.
func (p *placement) mayClaim(place cgroup.Place) error {
	taken, err := place.Taken()
	if err != nil {
		return fmt.Errorf("cannot look at the control groups %s: %w", place.Dir(), err)
	}
	if taken {
		return takenProblem(p.dir, place)
	}
	was, err := residentOf(place)
	if err == nil && was.elsewhere(p.dir) {
		err = twiceProblem(p.dir, map[string]cgroup.Place{place.Name: place})
	}
	return err
}

// freeName returns own, or a new name where that is somebody else's: a database
// from before names were stored may lie where another one was made, and a copy has
// the name of the original.
func (p *placement) freeName(own string) string {
	for _, place := range p.places() {
		if place.Name == own && p.mayClaim(place) != nil {
			name := newGroupName()
			p.log.Warn("another data directory has the control groups of this name; the programs get others", "name", own, "now", name)
			return name
		}
	}
	return own
}

// orphans refuses a database without an application while programs run that another
// one of this directory had started: the disk of the data may be missing, and nobody
// must end them for that.
func (p *placement) orphans(own string) error {
	for _, place := range p.places() {
		was, err := residentOf(place)
		if err != nil || was.Dir != realPath(p.dir) && (was.Dir != "" || place.Name != own) {
			continue
		}
		lives := false
		place.Processes(func(string, string, int) bool { lives = true; return false })
		if lives {
			return exit.NewProblem(exit.Config,
				fmt.Errorf("cannot serve %s: its database knows no application, and programs run in %s that another database of this directory had started", p.dir, place.Dir()),
				"Hint: put that database and its directory back (is its disk mounted?), or end the programs: echo 1 > "+place.Dir()+"/apps/cgroup.kill; then start berth again.")
		}
	}
	return nil
}

// open opens the programs' groups, in the unit that holds them if there is one.
func (p *placement) open(ctx context.Context) (*cgroup.Tree, error) {
	name, err := p.choose(ctx)
	if err != nil {
		return nil, err
	}
	holder, err := HolderOf(p.facts, name)
	if sandbox.Passes(err) {
		return nil, untried(err)
	}
	if err != nil {
		p.log.Warn("programs will end with this daemon", "why", err, "fix", "systemctl start "+systemd.AppsUnit)
	}
	if holder == "" {
		return cgroup.Open(p.facts, name)
	}
	return cgroup.OpenIn(p.facts, name, holder)
}

// claim makes the open tree the daemon's own, and reports whether what runs in
// it has its files in this data directory: it was moved with them, perhaps.
func (p *placement) claim(ctx context.Context, groups *cgroup.Tree) (adopts bool, err error) {
	place := groups.Place()
	if err := groups.Claim(); errors.Is(err, cgroup.ErrTaken) {
		return false, takenProblem(p.dir, place)
	} else if err != nil {
		return false, err
	}
	uids, err := p.uids(ctx)
	if err != nil {
		return false, err
	}
	now, err := homeOf(p.dir)
	if err != nil {
		return false, err
	}
	adopts, err = p.owns(place, now, runsOf(place, uids))
	if err != nil {
		return false, err
	}
	text, _ := json.Marshal(now) // of a struct of plain values
	if err := groups.Mark(string(text)); err != nil {
		p.log.Warn("a later daemon may not find the programs if the data directory is moved", "error", err)
	}
	if stored, err := p.data.db.GroupName(ctx); err != nil || stored == place.Name || !named(place.Name) {
		return adopts, err
	}
	return adopts, p.data.db.NameGroups(ctx, place.Name)
}

// owns reports whether the programs of a place have their files in this data
// directory. It fails when nobody can tell.
func (p *placement) owns(place cgroup.Place, now home, runs map[app.ID][]int) (bool, error) {
	was, err := residentOf(place)
	if err != nil || len(runs) == 0 {
		return true, err
	}
	older := was == home{}
	switch {
	case older && place.Name == pathGroupName(now.Dir), was == now:
		return true, nil
	case older && !liveIn(filepath.Join(now.Dir, "apps"), runs):
		return false, twiceProblem(now.Dir, map[string]cgroup.Place{place.Name: place})
	case older, was.Tree == now.Tree:
		p.log.Warn("the data directory was moved; programs that run are taken over, and know its path once they start anew", "from", was.Dir, "to", now.Dir)
		return true, nil
	}
	p.log.Warn("the programs that run have other files than those of the data directory, which was copied; they start anew", "from", was.Dir, "to", now.Dir)
	return false, nil
}

// holders are the directories of the units that hold programs, if they are there.
func holders(facts cgroup.Host) []string {
	var dirs []string
	for _, group := range []string{os.Getenv(systemd.HolderEnv), systemd.AppsHolder} {
		if group == "" {
			continue
		}
		if dir, err := cgroup.HolderOf(facts, group); err == nil {
			dirs = append(dirs, dir)
		}
	}
	return dirs
}

// twiceProblem refuses to start programs that run already.
func twiceProblem(dir string, places map[string]cgroup.Place) error {
	where := ""
	for _, p := range places {
		where = max(where, p.Dir())
	}
	return exit.NewProblem(exit.Config,
		fmt.Errorf("cannot serve %s: programs with the user ids of its applications run in %s, where this berth cannot take them over", dir, where),
		"Hint: serve the directory whose programs they are, or end them: echo 1 > "+where+"/apps/cgroup.kill; then start berth again.")
}

// takenProblem refuses a place that another daemon has.
func takenProblem(dir string, p cgroup.Place) error {
	return exit.NewProblem(exit.Config, fmt.Errorf("cannot serve %s: another berth runs its programs, in %s", dir, p.Dir()),
		"Hint: this is a copy of the directory that it serves; for a second host restore a backup (berth backup restore) on another machine.")
}

// named reports whether a name can be that of a place: a daemon in a unit of its
// own has the unit's group.
func named(name string) bool {
	_, err := strconv.ParseUint(name, 16, 32)
	return err == nil && len(name) == 8
}

// liveIn reports whether one of the programs, as far as one can tell, has its files in
// a directory of applications: its working directory is there.
func liveIn(apps string, runs map[app.ID][]int) bool {
	for id, pids := range runs {
		tree, err := nodeOf(filepath.Join(apps, string(id)))
		if err != nil {
			continue
		}
		for _, pid := range pids {
			if at, err := nodeOf("/proc/" + strconv.Itoa(pid) + "/cwd"); err == nil && at == tree {
				return true
			}
		}
	}
	return false
}

// HolderOf returns the directory of the unit that holds the programs, "" for
// none: the one the daemon's unit names, or that in which an earlier daemon of
// the same data was, so that one started by hand does not start programs anew
// that run there.
func HolderOf(facts cgroup.Host, name string) (string, error) {
	if group := os.Getenv(systemd.HolderEnv); group != "" {
		return cgroup.HolderOf(facts, group)
	}
	dir, err := cgroup.HolderOf(facts, systemd.AppsHolder)
	if err != nil || !cgroup.Has(dir, name) {
		return "", nil // a host without the unit
	}
	return dir, nil
}
