package proc

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// process is the first process of a run: a child, or one that an earlier
// daemon started.
type process struct {
	pid   int
	birth uint64 // in clock ticks since the machine's start, which tells it from later ones of its pid
	pidfd *os.File
	gone  bool // it had ended, and was waited for, before it was opened
}

// openProcess opens the process of a pid and makes sure that it is the one that
// was born then; 0 is any. It fails with unix.ESRCH when that one is gone.
func openProcess(pid int, birth uint64) (*process, error) {
	fd, err := unix.PidfdOpen(pid, unix.PIDFD_NONBLOCK)
	if errors.Is(err, unix.EINVAL) {
		// No process has the number any more, but a session is still called by
		// it: that of children which go on (pidfd_create in kernel/fork.c).
		return nil, unix.ESRCH
	}
	if err != nil {
		return nil, fmt.Errorf("cannot open a pidfd: %w", err)
	}
	p := &process{pid: pid, pidfd: os.NewFile(uintptr(fd), "pidfd")}
	// Asked after the descriptor is open: if it was this one's then, the
	// descriptor is this one's.
	s, err := readStat(pid)
	p.birth = s.birth
	if err == nil && birth != 0 && p.birth != birth {
		err = unix.ESRCH
	}
	if err != nil {
		_ = p.pidfd.Close()
		return nil, err
	}
	return p, nil
}

// stat is what /proc tells of a process.
type stat struct {
	parent int
	state  string // "Z" when it has ended and nobody has waited for it
	birth  uint64
	exit   int64 // the wait status of one that has ended
}

// readStat reads the stat of a process, counted behind its name, which may hold
// anything (proc_pid_stat(5)). It fails with unix.ESRCH when there is none.
func readStat(pid int) (stat, error) {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if errors.Is(err, os.ErrNotExist) || errors.Is(err, unix.ESRCH) {
		return stat{}, unix.ESRCH
	}
	fields := bytes.Fields(b[bytes.LastIndexByte(b, ')')+1:])
	const state, parent, birth, exit = 0, 4 - 3, 22 - 3, 52 - 3 // the first behind the name is the third
	if err == nil && len(fields) <= exit {
		err = fmt.Errorf("%d fields", len(fields))
	}
	s := stat{}
	if err == nil {
		s.state = string(fields[state])
		s.birth, err = strconv.ParseUint(string(fields[birth]), 10, 64)
	}
	if err == nil {
		s.parent, err = strconv.Atoi(string(fields[parent]))
	}
	if err == nil {
		s.exit, err = strconv.ParseInt(string(fields[exit]), 10, 64)
	}
	if err != nil {
		return stat{}, fmt.Errorf("cannot tell of process %d: %w", pid, err)
	}
	return s, nil
}

// ended blocks until the process has ended. It sleeps in the runtime's poller:
// wait4 would hold a thread for each program (pidfd_open(2); PIDFD_NONBLOCK is
// of Linux 5.10).
func (p *process) ended() error {
	if p.gone {
		return nil
	}
	conn, err := p.pidfd.SyscallConn()
	if err != nil {
		return fmt.Errorf("cannot wait on a pidfd: %w", err)
	}
	var failed error
	err = conn.Read(func(fd uintptr) bool {
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 0)
		if err != nil && !errors.Is(err, unix.EINTR) {
			failed = err
		}
		return n > 0 || failed != nil
	})
	return errors.Join(err, failed)
}

// dead reports whether the process has ended and nobody has waited for it.
func (p *process) dead() bool {
	s, err := readStat(p.pid)
	return err == nil && s.birth == p.birth && s.state == "Z"
}

// wake ends the wait of ended, and every later one, with an error.
func (p *process) wake() error { return p.pidfd.SetReadDeadline(time.Unix(1, 0)) }

// watch is ended where that cannot wait. It returns early when leaving is
// closed.
func (p *process) watch(leaving <-chan struct{}) {
	for {
		s, err := readStat(p.pid)
		if errors.Is(err, unix.ESRCH) || err == nil && (s.birth != p.birth || s.state == "Z" || s.state == "X") {
			return
		}
		select {
		case <-time.After(watchEvery):
		case <-leaving:
			return
		}
	}
}

// watchEvery is how often watch looks.
const watchEvery = 100 * time.Millisecond

// signal sends the process a signal; none to one that has ended.
func (p *process) signal(sig syscall.Signal) error {
	if p.gone {
		return nil
	}
	conn, err := p.pidfd.SyscallConn()
	if err != nil {
		return fmt.Errorf("cannot signal the program: %w", err)
	}
	var failed error
	err = conn.Control(func(fd uintptr) { failed = unix.PidfdSendSignal(int(fd), sig, nil, 0) })
	if errors.Is(failed, unix.ESRCH) {
		failed = nil
	}
	return errors.Join(err, failed)
}

// handles reports whether the process has a handler for a signal (SigCgt, proc_pid_status(5)).
func (p *process) handles(sig syscall.Signal) (bool, error) {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(p.pid) + "/status")
	if err != nil {
		return false, fmt.Errorf("cannot tell which signals the program handles: %w", err)
	}
	_, rest, _ := bytes.Cut(b, []byte("\nSigCgt:\t"))
	word, _, _ := bytes.Cut(rest, []byte{'\n'})
	mask, err := strconv.ParseUint(string(word), 16, 64)
	if err != nil {
		return false, fmt.Errorf("cannot tell which signals the program handles: %w", err)
	}
	return mask&(1<<(uint(sig)-1)) != 0, nil
}

// reap returns the wait status of the process, which has ended. A child is
// waited for, also one of an earlier image of this process; of another's the
// kernel tells from Linux 6.15 on. known is false when nobody does.
func (p *process) reap() (status syscall.WaitStatus, known bool) {
	defer p.pidfd.Close()
	pid, err := syscall.Wait4(p.pid, &status, 0, nil)
	for errors.Is(err, syscall.EINTR) {
		pid, err = syscall.Wait4(p.pid, &status, 0, nil)
	}
	if err == nil && pid == p.pid {
		return status, true
	}
	// Its parent, the machine's first process or near to it, may take its time to
	// wait for it, or never do so; once it has, the kernel tells.
	if s, err := readStat(p.pid); err == nil && s.birth == p.birth && s.state == "Z" {
		return syscall.WaitStatus(s.exit), true
	}
	for deadline := time.Now().Add(foreignWait); ; time.Sleep(time.Millisecond) {
		code, ok := exitOf(int(p.pidfd.Fd()))
		if ok || time.Now().After(deadline) {
			return syscall.WaitStatus(code), ok
		}
	}
}

// foreignWait bounds the wait for another parent to take notice.
const foreignWait = 500 * time.Millisecond

// pidfdInfo is struct pidfd_info as it was first (include/uapi/linux/pidfd.h).
type pidfdInfo struct {
	Mask, Group                                      uint64
	Pid, Tgid, Ppid                                  uint32
	Ruid, Rgid, Euid, Egid, Suid, Sgid, Fsuid, Fsgid uint32
	Exit                                             int32
}

const (
	pidfdGetInfo  = 0xC040FF0B // PIDFD_GET_INFO, _IOWR(0xFF, 11, struct pidfd_info) of 64 bytes
	pidfdInfoExit = 1 << 3     // PIDFD_INFO_EXIT, Linux 6.15
)

// exitOf asks the kernel how the process of a pidfd ended.
func exitOf(fd int) (status int32, known bool) {
	info := pidfdInfo{Mask: pidfdInfoExit}
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), pidfdGetInfo, uintptr(unsafe.Pointer(&info)))
	return info.Exit, errno == 0 && info.Mask&pidfdInfoExit != 0
}

// Reap waits for the children of this process that have ended, but those to
// keep: an earlier image of it started them, and forgot. Nothing else may start
// or wait for children meanwhile.
func Reap(keep func(pid int) bool) error {
	list, err := os.ReadDir("/proc")
	if err != nil {
		return fmt.Errorf("cannot list processes: %w", err)
	}
	for _, e := range list {
		pid, err := strconv.Atoi(e.Name())
		if err != nil || keep(pid) {
			continue
		}
		s, err := readStat(pid)
		if err == nil && s.state == "Z" && s.parent == os.Getpid() {
			_, _ = syscall.Wait4(pid, nil, syscall.WNOHANG, nil) // it is there, and ours
		}
	}
	return nil
}

// over reports whether the process has ended, with all its threads: a pidfd is
// readable from then on, also before anybody has waited for it (pidfd_open(2)).
func (p *process) over() bool {
	if p.gone {
		return true
	}
	conn, err := p.pidfd.SyscallConn()
	if err != nil {
		return false
	}
	over := false
	err = conn.Control(func(fd uintptr) {
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 0)
		over = err == nil && n > 0
	})
	return over && err == nil
}
