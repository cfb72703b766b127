package proc

import (
	"bytes"
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// busyLooks is how often Busy looks, and busyPause the time between two looks: a
	// task that is met between two steps looks idle.
	busyLooks = 5
	busyPause = 10 * time.Millisecond
)

// Ended reports whether the program has ended, also while Wait has not returned
// yet: it is a zombie, or what it left running is being ended.
func (r *Run) Ended() bool {
	r.mu.Lock()
	ending := r.ending
	r.mu.Unlock()
	return ending || r.main == nil || r.main.over()
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

// Busy reports whether a task of the program runs now, or waits for a processor or
// the disk. The processor time that it uses would say nothing: a program that the
// machine starves uses none.
func (r *Run) Busy() bool {
	for look := range busyLooks {
		if look > 0 {
			time.Sleep(busyPause)
		}
		if r.runnable() {
			return true
		}
	}
	return false
}

// runnable looks once. What has ended meanwhile is not.
func (r *Run) runnable() bool {
	pids, err := r.group.Procs()
	if err != nil {
		return false
	}
	for _, pid := range pids {
		dir := "/proc/" + strconv.Itoa(pid) + "/task"
		tasks, _ := os.ReadDir(dir)
		for _, task := range tasks {
			if s := taskState(dir + "/" + task.Name() + "/stat"); s == 'R' || s == 'D' {
				return true
			}
		}
	}
	return false
}

// taskState reads the state of a task, the letter behind its name
// (proc_pid_stat(5)); 0 when there is none any more.
func taskState(path string) byte {
	b, err := os.ReadFile(path)
	if _, rest, found := bytes.Cut(b[bytes.LastIndexByte(b, ')')+1:], []byte(" ")); err == nil && found && len(rest) > 0 {
		return rest[0]
	}
	return 0
}
