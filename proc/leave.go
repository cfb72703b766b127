package proc

import (
	"fmt"
	"os"
	"strconv"
	"syscall"
)

// Leave lets the program go on without this run, for a later Launcher to adopt:
// nobody waits for it here any more, so how it ends is told by its process, be
// it a zombie by then. Its console commands are ended. Leave blocks until
// nothing of the run is open here, and Wait returns then. It returns false, and
// does nothing, when the program has ended already: Wait tells how.
func (r *Run) Leave() bool {
	r.mu.Lock()
	if r.ending {
		r.mu.Unlock()
		return false
	}
	if !r.left {
		r.left = true
		close(r.leaving)
		if r.grace != nil {
			r.grace.Stop()
		}
		if r.main != nil && !r.main.gone {
			if err := r.main.wake(); err != nil {
				r.log.Warn("cannot end the wait for the program", "error", err) // watch does
			}
		}
	}
	r.mu.Unlock()
	<-r.done
	return true
}

// Left reports whether Leave has let the program go on.
func (r *Run) Left() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.left
}

// ends decides, once for all, that the run waits for its program, which has
// ended; false means that it was left.
func (r *Run) ends() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ending = !r.left
	return r.ending
}

// part closes what the run has open, and touches nothing of the program.
func (r *Run) part() {
	defer close(r.done)
	r.consoles.end()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.gone = true // it is for whoever follows to change it
	if r.unwatch != nil {
		r.unwatch()
	}
	r.group.Detach()
	if r.main != nil {
		_ = r.main.pidfd.Close() // nothing was written to it
	}
	if err := r.traffic.Close(); err != nil {
		r.log.Warn("cannot give up a program's counter", "error", err)
	}
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
