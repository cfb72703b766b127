package proc

import (
	"syscall"
	"time"

	"berth/app"
	"berth/cgroup"
)

// facts are what is known about the end of a run.
type facts struct {
	status   syscall.WaitStatus
	known    bool          // somebody saw the status
	mem      cgroup.Memory // read after the exit
	oomGroup bool          // an out-of-memory kill takes the whole group
	fresh    bool          // a kill was counted that nobody had been told of before the exit
	sinceOOM time.Duration // from the last kill that was told of to the exit
}

// oomStatus is the exit code of a program killed for its RAM: 128 + SIGKILL.
const oomStatus = 128 + int(syscall.SIGKILL)

// verdict says how a run ended. It is pure.
//
// A kill by the host's own lack of memory raises the group's counter of kills
// too, so it counts as the program's only if the group itself ran out. When
// the kill takes the whole group, any kill was the end; else it must have hit
// the program itself, or a helper moments before the program ended. A kill by the
// host's lack of memory was the end if a process that was killed was.
func verdict(f facts) app.Exit {
	e := app.Exit{Code: app.UnknownCode}
	if f.known {
		e.Code, e.Signal = exitCode(f.status)
	}
	switch {
	case f.mem.Kills == 0 || f.mem.OOMs == 0:
	case f.oomGroup, f.fresh, f.sinceOOM <= wrapperWait:
		e.OOM, e.Code = true, oomStatus
	}
	e.HostOOM = f.mem.Kills > 0 && f.mem.OOMs == 0 && e.Code == oomStatus
	return e
}

// exitCode makes of a wait status what shells make of it, and the signal if
// that was the end.
func exitCode(s syscall.WaitStatus) (code, signal int) {
	if s.Signaled() {
		return 128 + int(s.Signal()), int(s.Signal())
	}
	return s.ExitStatus(), 0
}
