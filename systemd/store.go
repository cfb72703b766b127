package systemd

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// The variables with which the manager hands over descriptors (sd_listen_fds(3))
// and says how many it keeps for the service (systemd.service(5),
// FileDescriptorStoreMax=). Managers before 254 do not say the latter; a unit
// for them sets it.
const (
	pidEnv   = "LISTEN_PID"
	countEnv = "LISTEN_FDS"
	namesEnv = "LISTEN_FDNAMES"
	storeEnv = "FDSTORE"

	firstFD = 3 // SD_LISTEN_FDS_START
	maxName = 255
)

// Keeps reports whether the manager listens and keeps descriptors.
func Keeps() bool {
	n, err := strconv.Atoi(os.Getenv(storeEnv))
	return err == nil && n > 0 && os.Getenv(socketEnv) != ""
}

// Hold gives a file to the manager to keep under a name: it lives on when this
// process ends, in any way, and comes back by Handed to the next one of the
// service. What was kept under the name before is given up. f stays the
// caller's. The manager does not answer, so what it refuses is not told.
func Hold(name string, f *os.File) error {
	if err := checkName(name); err != nil {
		return err
	}
	if err := Release(name); err != nil {
		return err
	}
	conn, err := f.SyscallConn()
	if err != nil {
		return fmt.Errorf("cannot store a descriptor: %w", err)
	}
	var sent error
	// FDPOLL=0: it is kept whatever becomes of its other end.
	err = conn.Control(func(fd uintptr) {
		sent = send([]string{"FDSTORE=1", "FDNAME=" + name, "FDPOLL=0"}, unix.UnixRights(int(fd)))
	})
	if err := errors.Join(err, sent); err != nil {
		return fmt.Errorf("cannot store a descriptor: %w", err)
	}
	return nil
}

// Release lets the manager close what it keeps under a name, if it does.
func Release(name string) error {
	if err := checkName(name); err != nil {
		return err
	}
	return Notify("FDSTOREREMOVE=1", "FDNAME="+name)
}

// checkName refuses what the manager would, in silence (sd_notify(3)).
func checkName(name string) error {
	ok := name != "" && len(name) <= maxName
	for _, c := range []byte(name) {
		ok = ok && c > 0x20 && c < 0x7f && c != ':'
	}
	if !ok {
		return fmt.Errorf("cannot keep a descriptor named %q: not a name of 1 to %d characters", name, maxName)
	}
	return nil
}

// Handed returns the descriptors that the manager handed over, by name: what an
// earlier process of the service gave to Hold, and the sockets of its socket
// units (FileDescriptorName=). One name may have several. The caller closes
// them. No program that is started later gets them or hears of them. Call it
// once, before anything else starts processes; a second call returns nothing.
func Handed() (map[string][]*os.File, error) {
	pid, count, names := os.Getenv(pidEnv), os.Getenv(countEnv), os.Getenv(namesEnv)
	for _, name := range []string{pidEnv, countEnv, namesEnv} {
		if err := os.Unsetenv(name); err != nil {
			return nil, fmt.Errorf("cannot take the service manager's descriptors: %w", err)
		}
	}
	if pid != strconv.Itoa(os.Getpid()) {
		return nil, nil // they are for another process, or there are none
	}
	n, err := strconv.Atoi(count)
	if err != nil || n < 0 || n > 1<<20 {
		return nil, fmt.Errorf("cannot take the service manager's descriptors: %s=%q", countEnv, count)
	}
	list := strings.Split(names, ":")
	if names == "" {
		list = nil
	}
	all := map[string][]*os.File{}
	for i := range n {
		name := "unknown" // as sd_listen_fds_with_names(3) calls it
		if i < len(list) {
			name = list[i]
		}
		fd := firstFD + i
		if _, err := unix.FcntlInt(uintptr(fd), unix.F_SETFD, unix.FD_CLOEXEC); err != nil {
			return all, fmt.Errorf("cannot take the service manager's descriptors: it announced %d, and %d is not open", n, fd)
		}
		all[name] = append(all[name], os.NewFile(uintptr(fd), name))
	}
	return all, nil
}
