package proc

import (
	"errors"
	"fmt"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// Nameless returns the FIFOs that a survivor has as its stdout and stderr where
// they have lost their name: what nobody else has open, nobody can find but
// through the program. device is that of the disk which the name was on. A
// program that made such a FIFO by itself gets what it prints there into its own
// log. The caller closes the files.
func (v Survivor) Nameless(device uint64) []*os.File {
	var found []*os.File
	for _, fd := range []int{1, 2} {
		f, err := nameless("/proc/"+strconv.Itoa(v.PID)+"/fd/"+strconv.Itoa(fd), device)
		if err == nil {
			found = append(found, f)
		}
	}
	s, err := readStat(v.PID)
	if err == nil && s.birth == v.Birth { // asked last: then they were this one's
		return found
	}
	for _, f := range found {
		_ = f.Close()
	}
	return nil
}

// InputPipe opens the pipe that a survivor reads as its input for writing: where nobody hands its other end on, the next
// image of a daemon finds it here. The caller closes it. A program can put another pipe in its place, and then gets there what is
// meant for it.
func (v Survivor) InputPipe() (*os.File, error) {
	place, err := unix.Open("/proc/"+strconv.Itoa(v.PID)+"/fd/0", unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	defer func() { _ = unix.Close(place) }()
	var st unix.Statfs_t
	if err := unix.Fstatfs(place, &st); err != nil {
		return nil, err
	}
	if st.Type != unix.PIPEFS_MAGIC { // to open anything else might do harm
		return nil, errNoPipe
	}
	if s, err := readStat(v.PID); err != nil || s.birth != v.Birth {
		return nil, errors.Join(errNoPipe, err)
	}
	fd, err := unix.Open(fmt.Sprintf("/proc/self/fd/%d", place), unix.O_WRONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), "input"), nil
}

var errNoPipe = errors.New("its input is no pipe")

var errNamed = errors.New("it is no FIFO without a name")

// nameless opens a FIFO by a link in /proc. It looks before it opens: to open
// something else might wait, or do harm.
func nameless(link string, device uint64) (*os.File, error) {
	place, err := unix.Open(link, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	defer func() { _ = unix.Close(place) }()
	var st unix.Stat_t
	if err := unix.Fstat(place, &st); err != nil {
		return nil, err
	}
	if st.Mode != unix.S_IFIFO|0o600 || st.Nlink != 0 || st.Dev != device || st.Uid == 0 {
		return nil, errNamed
	}
	fd, err := unix.Open(fmt.Sprintf("/proc/self/fd/%d", place), unix.O_RDWR|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), "output"), nil
}
