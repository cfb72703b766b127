package proc

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"berth/cgroup"
	"berth/proc/sandbox"
)

// note is what a run's group tells a later daemon of its program.
type note struct {
	PID     int
	Birth   uint64 // see process
	Started time.Time
	Port    int    // its own
	Private bool   // it is behind the network policy
	Journal string // of the deployment that started it, noJournal when none did, "" when an older berth did
	Warned  int64  `json:",omitempty"` // fullness.told
}

// noJournal is the journal of a program that no deployment started.
const noJournal = "-"

// Of reports whether the program was started by the deployment of a journal, or
// may have been.
func (v Survivor) Of(journal string) bool { return v.Journal == journal || v.Journal == "" }

func (n note) String() string {
	b, _ := json.Marshal(n) // of a struct of plain values
	return string(b)
}

// Survivor is a program that an earlier daemon started and nobody has waited
// for: it runs, or has ended while nobody looked.
type Survivor struct {
	Group string
	note
	// PIDFD is the process as somebody kept it, which Adopt takes; nil when nobody
	// did. Then how the program ended before it was adopted is not known.
	PIDFD *os.File
}

// Survivors returns what an earlier daemon left in the tree, by the names of
// the groups: its programs, and with them what their groups still count. Groups
// without a note are no survivors: those of builds and console commands, and of
// programs that were just being born.
func (l *Launcher) Survivors() map[string]Survivor {
	all := map[string]Survivor{}
	for _, name := range l.Tree.Runs() {
		text, err := l.Tree.Note(name)
		var n note
		if err == nil && text != "" {
			err = json.Unmarshal([]byte(text), &n)
		}
		if err != nil {
			l.Log.Error("cannot tell what runs in a control group", "group", name, "error", err)
		}
		if err == nil && n.PID > 0 {
			all[name] = Survivor{Group: name, note: n}
		}
	}
	return all
}

// Adopt goes on with a survivor as if this Launcher had started it: same pid,
// same group, same counters. s is what it would be started with now, and its limits
// are put in force: somebody may have changed them in the kernel. Console commands that ran beside it are ended. A program
// that has ended is adopted too: its Run ends at once, with what the group
// counted; how it ended is unseen unless somebody kept its descriptor.
func (l *Launcher) Adopt(v Survivor, s Spec) (*Run, error) {
	group, err := l.Tree.Find(v.Group, s.OOMGroup)
	if err != nil {
		return nil, err
	}
	r := &Run{
		group: group, log: l.Log.With("group", v.Group), spec: s,
		started: bornAt(v.Birth), done: make(chan struct{}), leaving: make(chan struct{}),
		private: v.Private || v.Port == 0 && l.Network != nil, // an older berth did not note it
		note:    v.note, full: fullness{told: v.Warned, quiet: v.Warned >= signalLevel},
	}
	r.traffic, r.sockets = l.adoptCounts(group, s)
	if r.private {
		r.network = l.adoptNetwork(group)
	}
	m, err := group.Memory()
	if err == nil {
		r.limit = l.bound(v.Group, group, s, m)
		err = group.KillBelow()
	}
	if err == nil {
		if r.main, err = v.open(group); err == nil && !r.main.gone {
			r.seen = m.Kills // it has outlived them
		}
		if errors.Is(err, unix.ESRCH) {
			err = nil
		}
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("cannot adopt the program: %w", err), r.traffic.Close(), r.network.Close(), r.sockets.Close())
	}
	r.begin()
	return r, nil
}

// bound puts the limits of a survivor in force and returns that of its memory, in
// MB. One that uses more than its RAM keeps the limit that it has: the kernel would
// kill it, and somebody had let it.
func (l *Launcher) bound(name string, group *cgroup.Group, s Spec, m cgroup.Memory) int64 {
	log := l.Log.With("group", name)
	if err := l.Tree.Bound(name, group, limitsOf(s)); err != nil {
		log.Warn("a program runs on with the limits that its group has", "error", err)
	}
	want := s.MemoryMB << 20
	if m.Limit == want {
		return s.MemoryMB
	}
	var err error
	if m.Used <= want {
		err = group.SetMemory(want)
	}
	if err != nil || m.Used > want {
		log.Warn("somebody changed a program's RAM in the kernel, and it uses more than its own: it has that until it is started again", "limit", m.Limit, "used", m.Used, "ram", s.MemoryMB, "error", err)
		return m.Limit >> 20
	}
	log.Warn("somebody changed a program's RAM in the kernel; it is as it was", "limit", m.Limit, "ram", s.MemoryMB)
	return s.MemoryMB
}

// ticksPerSecond is what times in /proc are in (USER_HZ, the same on every
// processor that Go knows).
const ticksPerSecond = 100

// bornAt is when a process was born, as far as the time since can be told from
// it: by the clock that nobody sets, whatever the one on the wall said then.
func bornAt(birth uint64) time.Time {
	var up unix.Timespec
	now := time.Now()
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &up); err != nil {
		return now // which every kernel has
	}
	born := time.Duration(birth) * (time.Second / ticksPerSecond) //nolint:gosec // ticks of centuries fit
	return now.Add(-max(0, time.Duration(up.Nano())-born))
}

// open finds the process of a survivor, nil and unix.ESRCH when it is gone. A
// pid that is somebody else's by now was born at another time, or, if that was
// the same hundredth of a second, is in another group: no program leaves its own.
func (v Survivor) open(group *cgroup.Group) (*process, error) {
	p, err := openProcess(v.PID, v.Birth)
	if err == nil && !p.dead() {
		var procs []int
		if procs, err = group.Procs(); err == nil && !slices.Contains(procs, v.PID) && !p.dead() {
			err = unix.ESRCH
		}
		if err != nil {
			_ = p.pidfd.Close()
			p = nil
		}
	}
	if v.PIDFD == nil {
		return p, err
	}
	if errors.Is(err, unix.ESRCH) {
		return &process{pid: v.PID, birth: v.Birth, pidfd: v.PIDFD, gone: true}, nil
	}
	return p, errors.Join(err, v.PIDFD.Close())
}

// adoptNetwork finds the network of a group, nil where it cannot: then visitors come to the
// program's own port alone.
func (l *Launcher) adoptNetwork(group *cgroup.Group) *sandbox.Enclosure {
	dir, err := group.Open()
	var network *sandbox.Enclosure
	if err == nil {
		defer dir.Close()
		network, err = sandbox.FindEnclosure(dir)
	}
	if err != nil {
		l.Log.Warn("cannot tell which ports a program has that an earlier daemon started", "error", err)
	}
	return network
}

// adoptCounts finds the counter of a group's traffic, and goes on counting its sockets, or
// begins to where an older berth did not. That it cannot keeps no program from running.
func (l *Launcher) adoptCounts(group *cgroup.Group, s Spec) (*sandbox.Counter, *sandbox.SocketCount) {
	dir, err := group.Open()
	if err != nil {
		l.Log.Warn("cannot go on counting a program's traffic and sockets", "error", err)
		return nil, nil
	}
	defer dir.Close()
	traffic, err := sandbox.AdoptCounter(dir)
	if err != nil && l.Meter != nil {
		l.Log.Warn("cannot go on counting a program's traffic", "error", err)
	}
	if l.Sockets == nil || s.Account == 0 {
		return traffic, nil
	}
	sockets, err := l.Sockets.Enclose(dir, s.Account)
	if err != nil {
		l.Log.Warn("a program that an earlier daemon started can take every port that this host gives to connections", "error", err)
	}
	return traffic, sockets
}
