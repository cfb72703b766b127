package proc

import (
	"errors"
	"log/slog"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"berth/app"
	"berth/cgroup"
	"berth/proc/sandbox"
)

const (
	// killTimeout bounds the wait for processes that were sent SIGKILL; only
	// one stuck in the kernel takes longer.
	killTimeout = 10 * time.Second
	// wrapperWait is how soon after a helper's death the program's own end
	// still counts as part of it: "npm start" outlives its child by moments, and
	// on a small machine that is out of memory moments are seconds.
	wrapperWait = 4 * time.Second
)

// Run is one program that was started. Its methods are safe for concurrent
// use.
type Run struct {
	main    *process
	group   *cgroup.Group
	traffic *sandbox.Counter // nil where nothing counts
	network *sandbox.Enclosure
	sockets *sandbox.SocketCount // nil where nothing counts
	log     *slog.Logger
	spec    Spec
	started time.Time
	done    chan struct{}
	leaving chan struct{} // closed by Leave
	private bool          // it is behind the network policy
	exit    app.Exit      // valid once done is closed, unless the run was left

	mu         sync.Mutex
	limit      int64 // MB
	seen       int64 // kills that the watch has reported
	lastOOM    time.Time
	unwatch    func()
	grace      *time.Timer
	asked      bool // Stop was called
	stopped    bool
	killAt     time.Time // when the grace of Stop ends
	gone       bool      // the group is removed, or about to be
	ending     bool      // the program has ended, and is about to be waited for
	left       bool      // it goes on without this run
	cpu        sample
	refused    int       // sockets it was refused, at the last report
	reportedAt time.Time // of refused sockets
	excess     bool      // it is ended for its sockets
	full       fullness
	note       note // what the group tells a later daemon
	unfill     func()

	consoles consoles
}

// Process returns the descriptor of the first process, which stays the run's; nil when that was
// gone before the run was adopted.
func (r *Run) Process() *os.File {
	if r.main == nil {
		return nil
	}
	return r.main.pidfd
}

// Wait blocks until every process of the run is gone and returns how it
// ended. It may be called any number of times.
func (r *Run) Wait() app.Exit {
	<-r.done
	return r.exit
}

// Stop sends SIGTERM to every process of the run, those of its consoles
// included, and, after grace, SIGKILL to what is left, forks under way included. It returns at once; see Wait. A
// second call may only shorten the grace; 0 kills now.
func (r *Run) Stop(grace time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.left {
		return
	}
	r.asked = true
	if grace <= 0 {
		r.kill()
		return
	}
	if r.stopped {
		return
	}
	r.stopped = true
	if err := errors.Join(r.group.Signal(syscall.SIGTERM), r.consoles.stop()); err != nil {
		r.log.Warn("cannot ask the program to stop", "error", err)
	}
	r.killAt = time.Now().Add(grace)
	r.grace = time.AfterFunc(grace, r.kill)
}

func (r *Run) kill() { r.killAgain(firstKillAgain) }

// killAgain kills the group, and tries again after a pause while that fails, as it
// does for want of descriptors or memory: nobody else would end the program.
func (r *Run) killAgain(pause time.Duration) {
	select {
	case <-r.done:
		return
	case <-r.leaving:
		return
	default:
	}
	r.consoles.close() // those that are killed with it know of it
	if err := r.group.Kill(); err != nil {
		r.log.Error("cannot kill the program, trying again", "error", err, "in", pause)
		time.AfterFunc(pause, func() { r.killAgain(min(2*pause, lastKillAgain)) })
	}
}

// The pauses between two tries to kill.
const (
	firstKillAgain = 100 * time.Millisecond
	lastKillAgain  = 10 * time.Second
)

// SetMemory changes the limit of the running program, and with it the
// application's share of the processor. It refuses, with app.Exhausted and
// both numbers, a limit below what the program uses.
func (r *Run) SetMemory(ram app.MB) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.gone {
		return nil // nothing is left to limit
	}
	m, err := r.group.Memory()
	if err != nil {
		return err
	}
	if m.Used > ram.Bytes() {
		return tooSmall(ram, m.Used)
	}
	err = r.group.SetMemory(ram.Bytes())
	if errors.Is(err, syscall.EBUSY) { // v1 could not shrink it that far
		return tooSmall(ram, m.Used)
	}
	if err != nil {
		return err
	}
	r.limit = int64(ram)
	if err := r.group.SetWeight(int64(ram)); err != nil { // the limit is in force, which is what was asked for
		r.log.Warn("cannot change the program's share of the processor", "error", err)
	}
	return nil
}

func tooSmall(ram app.MB, used int64) error {
	const mb = 1 << 20
	return app.Errorf(app.Exhausted, "cannot set the RAM to %d MB: the program uses %d MB now; stop it first, or choose more",
		ram, (used+mb-1)/mb)
}

// refusedPause is how long refused sockets are not reported again.
const refusedPause = 10 * time.Minute

// reportRefused reports that the program was refused sockets, if it was since the last
// report.
func (r *Run) reportRefused() {
	held, refused, err := r.sockets.Read()
	r.mu.Lock()
	report := err == nil && refused != r.refused && (r.reportedAt.IsZero() || time.Since(r.reportedAt) >= refusedPause)
	if report {
		r.refused, r.reportedAt = refused, time.Now()
	}
	r.mu.Unlock()
	if !report {
		return
	}
	r.log.Warn("the program was refused sockets", "held", held, "refused", refused)
	if r.spec.OnNoSocket != nil {
		r.spec.OnNoSocket(held, false)
	}
}

// exceeded ends a program that has more sockets than it may: it has listened on
// one that was accepted and disconnected.
func (r *Run) exceeded() {
	held, _, _ := r.sockets.Read()
	r.mu.Lock()
	again := r.excess
	r.excess = true
	r.mu.Unlock()
	if again {
		return
	}
	r.log.Warn("the program takes ports in a way that nothing can refuse, and is ended", "held", held)
	if r.spec.OnNoSocket != nil {
		r.spec.OnNoSocket(held, true)
	}
	r.Stop(0)
}

// watchHelpers notes when a process of the group was killed for memory. With
// OOMGroup the whole group dies and there is nothing to tell apart.
func (r *Run) watchHelpers() error {
	if r.spec.OOMGroup {
		return nil
	}
	stop, err := r.group.OnOOM(func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.lastOOM = time.Now()
		limit := r.limit
		time.AfterFunc(wrapperWait, func() {
			select {
			case <-r.done:
			default:
				if r.spec.OnHelperOOM != nil {
					r.spec.OnHelperOOM(limit)
				}
			}
		})
		if m, err := r.group.Memory(); err == nil {
			r.seen = m.Kills
		}
	})
	r.unwatch = stop
	return err
}

// begin watches over the run until its end.
func (r *Run) begin() {
	if err := r.watchHelpers(); err != nil {
		r.log.Warn("cannot watch for killed helper processes", "error", err)
	}
	r.sockets.OnExcess(r.exceeded)
	if r.spec.OnMemory != nil {
		r.unfill = r.group.OnFill(r.filled)
	}
	go r.wait()
}

// filled is a cgroup.Watchman: it warns of memory that is nearly full. What was reported
// stays with the group, so that a later daemon does not repeat it.
func (r *Run) filled(f cgroup.Fill) (pause time.Duration, growing bool) {
	r.mu.Lock()
	told := r.full.told
	s := r.full.look(f)
	over := r.gone || r.left
	if !over && r.full.told != told {
		r.note.Warned = r.full.told
		if err := r.group.SetNote(r.note.String()); err != nil {
			r.log.Warn("a later daemon may repeat a warning of the program's memory", "error", err)
		}
	}
	r.mu.Unlock()
	if over {
		return s.pause, false
	}
	sent := s.signal && r.sendMemorySignal()
	if s.warning != nil {
		if s.signal {
			s.warning.Signal, s.warning.Sent = r.spec.MemorySignal, sent
		}
		r.log.Info("the program needs nearly all of its RAM", "level", s.warning.Level, "held", f.Held, "limit", f.Limit)
		r.spec.OnMemory(*s.warning)
	}
	return s.pause, s.growing
}

// sendMemorySignal sends the program the signal that it asks for, if it handles that: one
// that it does not would end it. It reports whether it did.
func (r *Run) sendMemorySignal() bool {
	name := r.spec.MemorySignal
	sig := unix.SignalNum(name)
	if sig == 0 || r.main == nil {
		return false
	}
	handles, err := r.main.handles(sig)
	if err == nil && handles {
		err = r.main.signal(sig)
	}
	if err != nil || !handles {
		r.log.Warn("the program did not get the signal that its memory is nearly full", "signal", name, "handled", handles, "error", err)
	}
	return err == nil && handles
}

// wait reaps the program, ends what it left running, and reads the counters
// after the exit and before the group is gone: the kernel counts the kill
// before it sends the signal (mm/oom_kill.c), so the verdict has no race.
func (r *Run) wait() {
	var f facts
	if r.main != nil { // else it was gone before it was adopted
		if err := r.main.ended(); err != nil && !r.Left() {
			r.log.Warn("cannot wait for the program by its descriptor", "error", err)
			r.main.watch(r.leaving)
		}
	}
	if !r.ends() {
		r.detach()
		return
	}
	if r.main != nil {
		f.status, f.known = r.main.reap()
	}
	r.close(f, time.Now())
}

// close is the end of a run whose program has ended, at that time.
func (r *Run) close(f facts, at time.Time) {
	defer close(r.done)
	r.mu.Lock()
	grace := time.Until(r.killAt) // what was asked to stop may still be tidying up behind its wrapper
	r.mu.Unlock()
	if grace > 0 {
		_ = r.group.WaitEmpty(grace) // what is left is killed now
	}
	r.mu.Lock()
	if r.grace != nil {
		r.grace.Stop()
	}
	r.mu.Unlock()
	left := errors.Join(r.endConsoles(), r.group.Kill(), r.group.WaitEmpty(killTimeout))
	r.reportRefused() // of one that ended of it
	m, merr := r.group.Memory()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.gone = true
	r.unwatchAll()
	f.mem, f.oomGroup, f.fresh, f.sinceOOM = m, r.spec.OOMGroup, m.Kills > r.seen, at.Sub(r.lastOOM)
	r.exit = verdict(f)
	r.exit.At, r.exit.Ran = at, at.Sub(r.started)
	r.exit.PeakBytes, r.exit.LimitMB = m.Peak, app.MB(r.limit)
	left = errors.Join(left, merr, r.network.Close(), r.sockets.Close(), r.traffic.Close())
	end := func(err error) {
		if err = errors.Join(left, err); err != nil {
			r.log.Error("cannot clean up after the program", "error", err)
		}
	}
	if r.asked || r.spec.try {
		end(r.group.Remove())
		return
	}
	r.group.RemoveLater(end) // it may be started again at once
}

// unwatchAll ends the watches of the group's memory. mu is held.
func (r *Run) unwatchAll() {
	for _, stop := range []func(){r.unwatch, r.unfill} {
		if stop != nil {
			stop()
		}
	}
}

// endConsoles ends the commands in the run's group, and waits until those that
// are just being born have ended too.
func (r *Run) endConsoles() error {
	none := r.consoles.close()
	select {
	case <-none:
		return nil
	default:
	}
	err := r.group.Kill()
	select {
	case <-none:
	case <-time.After(startTimeout):
		err = errors.Join(err, errors.New("a console command does not end"))
	}
	return err
}

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

// detach closes what the run has open, and touches nothing of the program.
func (r *Run) detach() {
	defer close(r.done)
	r.consoles.end()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.gone = true // it is for whoever follows to change it
	r.unwatchAll()
	r.group.Detach()
	if r.main != nil {
		_ = r.main.pidfd.Close() // nothing was written to it
	}
	if err := r.traffic.Close(); err != nil {
		r.log.Warn("cannot give up a program's counter", "error", err)
	}
}

// Ended reports whether the program has ended, also while Wait has not returned
// yet: it is a zombie, or what it left running is being ended.
func (r *Run) Ended() bool {
	r.mu.Lock()
	ending := r.ending
	r.mu.Unlock()
	return ending || r.main == nil || r.main.over()
}
