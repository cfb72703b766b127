package logs

import (
	"io/fs"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// strayed reports whether a FIFO that somebody kept is not the one at path:
// somebody removed that name, and whoever opens it now reads nothing of what the
// program prints.
func strayed(kept *os.File, path string) bool {
	mine, err := kept.Stat()
	if err != nil {
		return false
	}
	there, err := os.Lstat(path)
	return err != nil || !os.SameFile(mine, there)
}

// again opens a FIFO for reading once more, whatever has become of its name: see
// openFIFO.
func again(kept *os.File) (*fifo, error) {
	conn, err := kept.SyscallConn()
	if err != nil {
		return nil, err
	}
	var fd int
	var failed error
	err = conn.Control(func(n uintptr) {
		var st unix.Stat_t
		if failed = unix.Fstat(int(n), &st); failed == nil && st.Mode&unix.S_IFMT != unix.S_IFIFO {
			failed = &fs.PathError{Op: "open", Path: kept.Name(), Err: unix.EINVAL}
		}
		if failed == nil {
			fd, failed = unix.Open("/proc/self/fd/"+strconv.Itoa(int(n)), unix.O_RDWR|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
		}
	})
	if err == nil {
		err = failed
	}
	if err != nil {
		return nil, err
	}
	return newFIFO(os.NewFile(uintptr(fd), kept.Name()))
}
