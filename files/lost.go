package files

import (
	"errors"
	"fmt"
	"path/filepath"

	"golang.org/x/sys/unix"
)

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
	fd, err := unix.Open(s.root, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return l, err
	}
	base := dir(fd)
	defer base.close()
	from, err := base.sub(area)
	if err != nil {
		return l, err
	}
	defer from.close()
	var st unix.Stat_t
	if err := unix.Fstatat(int(from), name, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
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

// CountLost tells how many directories there are in lost, for whoever looks after
// the host.
func CountLost(dataDir string) (int, error) {
	n := 0
	fd, err := unix.Open(filepath.Join(dataDir, lostName), unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if errors.Is(err, unix.ENOENT) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("cannot look into %s: %w", lostName, err)
	}
	d := dir(fd)
	defer d.close()
	err = d.list(func(string) error { n++; return nil })
	return n, err
}
