package files

import (
	"os"

	"golang.org/x/sys/unix"

	"berth/app"
)

// firsts names, of each file with several names, the one under which it was copied:
// the others become links to it, so that no copy is larger than what it is of.
type firsts struct {
	names map[twin]string
	paths int // bytes left
}

func newFirsts() *firsts { return &firsts{map[twin]string{}, maxPaths} }

// errTwins is the error of a tree with more such files than are remembered.
var errTwins = app.Errorf(app.Unusable, "the application has too many files with several names to be handled at once; remove some")

// of returns the name under which a file is known, "" for none.
func (f *firsts) of(t twin) string { return f.names[t] }

// add makes one known by its first name, where it has several.
func (f *firsts) add(t twin, st *unix.Stat_t, path string) error {
	if st.Nlink < 2 {
		return nil
	}
	if f.paths -= len(path); f.paths < 0 || len(f.names) >= maxTwins {
		return errTwins
	}
	f.names[t] = path
	return nil
}

// maxTwins bounds how many files with several names are remembered.
const maxTwins = 1_000_000

// twin tells a file from all others that there are and were: the number of an inode
// is given again at once when the file is gone.
type twin struct {
	ino  uint64
	born unix.StatxTimestamp // zero where the file system does not know it
}

// twinOf tells an open file.
func twinOf(f *os.File, st *unix.Stat_t) (twin, error) {
	if st.Nlink < 2 {
		return twin{ino: st.Ino}, nil
	}
	var x unix.Statx_t
	err := unix.Statx(int(f.Fd()), "", unix.AT_EMPTY_PATH, unix.STATX_BTIME, &x)
	if err != nil || x.Mask&unix.STATX_BTIME == 0 {
		return twin{ino: st.Ino}, err
	}
	return twin{st.Ino, x.Btime}, nil
}
