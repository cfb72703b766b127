package proc

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"berth/app"
	"berth/cgroup"
	"berth/proc/sandbox"
)

// Spec is one program to run.
type Spec struct {
	Group    string // name of its control group, fresh for every run
	Argv     []string
	Env      []string // the whole environment
	Dir      string   // the application's, which it may write to
	From     string   // the directory that it finds there, when that is another
	Temp     string   // on the disk, which it may write to; it is also its /tmp; may be empty
	Name     string   // of the host, as it sees it
	UID      int
	MemoryMB int64
	Weight   int64 // of the application, for a contended processor: cgroup.Limits
	CPU      int64 // percent of one processor that the application may have, 0 for no limit: cgroup.Limits
	Pids     int64
	FileSize int64 // most bytes of one file; 0 for no limit
	OOMGroup bool
	OOMScore int      // oom_score_adj that it begins with (proc_pid_oom_score_adj(5))
	Port     int      // its own, for the network policy; 0 when it has none
	Account  uint32   // whose sockets it counts for, from 1; 0 when they are not counted
	Journal  string   // app.Program.Journal
	Output   *os.File // stdout and stderr; stays the caller's
	Errors   *os.File // stderr, when it is not to be Output
	Input    *os.File // stdin; nil is empty
	// Gate returns when the program may begin; it is called once its walls stand, and
	// not if the start fails before. May be nil.
	Gate func() `json:"-"`
	// OnHelperOOM is called, on a goroutine of its own, when a process of the
	// program but not the program itself was killed for its memory and the
	// program lives on. May be nil.
	OnHelperOOM func(limitMB int64) `json:"-"`
	// OnNoSocket is called when the program was refused sockets, with how many it
	// holds, and not again for some time; or when it is ended, because it took them
	// in a way that nothing can refuse. May be nil.
	OnNoSocket func(held int, ended bool) `json:"-"`
	// OnMemory is called, on a goroutine of its own, when the program needs nearly all of
	// its RAM; it may block, and then later warnings come late. May be nil: then nobody
	// watches, and no signal is sent.
	OnMemory func(app.MemoryWarning) `json:"-"`
	// MemorySignal is the signal of app.MemorySignals that the program gets when 90 % of its
	// RAM cannot be taken back, if it handles it by then; "" for none.
	MemorySignal string

	try      bool      // see Launcher.Try
	terminal *terminal // in place of Output and Input; nil for none
}

// Launcher starts programs in the groups of one tree. It is safe for
// concurrent use.
type Launcher struct {
	Tree *cgroup.Tree
	Log  *slog.Logger
	// Meter counts the programs' traffic; nil counts nothing.
	Meter *sandbox.Meter
	// Network is the programs' network policy; nil leaves them the host's.
	Network *sandbox.Network
	// Sockets counts the programs' sockets and refuses too many; nil does not.
	Sockets *sandbox.Sockets
	// Walls are what every program is behind; the zero value is its user alone.
	Walls Walls
	// Init is the command line that a child begins with in place of the helper; it
	// reaches Init.
	Init []string
}

// Walls are the layers around programs, and what the view of them needs to know
// of the host.
type Walls struct {
	Layers []sandbox.Layer
	Data   string   // the data directory, which programs see nothing of but their own; may be empty
	Paths  []string // that programs see besides the system's own, read-only

	// Runtimes is a directory below Data that programs see, read-only; it may not be there.
	Runtimes string
}

// OpenFiles is how many descriptors a program may have.
const OpenFiles = 4096

// besideProcesses is how many a user may have beside those of one group.
const besideProcesses = 1024

// Launch starts the program and returns once it has been executed. Errors of
// the start come back here, with nothing left behind: of kind app.Unusable
// when the program itself cannot be executed, a missing interpreter for
// instance, and Internal when it is the host that failed.
func (l *Launcher) Launch(s Spec) (*Run, error) {
	group, err := l.Tree.Create(s.Group, limitsOf(s))
	if err != nil {
		return nil, err
	}
	var traffic *sandbox.Counter
	var network *sandbox.Enclosure
	var sockets *sandbox.SocketCount
	main, err := l.start(s, group, func(dir *os.File) (err error) {
		traffic = l.meter(dir)
		network, sockets, err = l.enclose(dir, s)
		if err == nil && s.Gate != nil {
			s.Gate()
		}
		return err
	})
	if err != nil {
		l.discard(group, s.Group)
		return nil, errors.Join(err, network.Close(), sockets.Close())
	}
	r := &Run{
		main: main, group: group, traffic: traffic, network: network, sockets: sockets, log: l.Log.With("group", s.Group), spec: s,
		started: time.Now(), limit: s.MemoryMB, done: make(chan struct{}), leaving: make(chan struct{}),
		private: network != nil,
	}
	r.note = note{
		PID: main.pid, Birth: main.birth, Started: r.started, Port: s.Port, Private: network != nil, Journal: cmp.Or(s.Journal, noJournal),
	}
	if err := group.SetNote(r.note.String()); err != nil {
		r.log.Warn("a later daemon will not know the program, and end it", "error", err)
	}
	r.begin()
	return r, nil
}

// limitsOf are the limits of a program's group.
func limitsOf(s Spec) cgroup.Limits {
	return cgroup.Limits{Memory: s.MemoryMB << 20, Pids: s.Pids, OOMGroup: s.OOMGroup, Weight: s.Weight, CPU: s.CPU}
}

// limits are the resource limits of a program. The number of processes is the
// group's, which counts what ends with it: a limit of the user's would count
// also what nobody has reaped of earlier runs, where PID 1 does not. Only where
// nothing else bounds it there is one, for all that a user may have running:
// a program and, beside it, a build.
func (l *Launcher) limits(s Spec) sandbox.Limits {
	limits := sandbox.Limits{Files: OpenFiles, FileSize: uint64(max(s.FileSize, 0))}
	if s.Pids > 0 && !l.Tree.BoundsPids() {
		limits.Processes = uint64(s.Pids) + besideProcesses
	}
	return limits
}

// discard removes the group of a start that failed.
func (l *Launcher) discard(group *cgroup.Group, name string) {
	if left := errors.Join(group.Kill(), group.WaitEmpty(killTimeout), group.Remove()); left != nil {
		l.Log.Error("cannot clean up after a start that failed", "group", name, "error", left)
	}
}

// meter counts the traffic of a group, given by its directory. That it cannot keeps no
// program from running.
func (l *Launcher) meter(group *os.File) *sandbox.Counter {
	if l.Meter == nil {
		return nil
	}
	c, err := l.Meter.Attach(group)
	if err != nil {
		l.Log.Warn("cannot count a program's traffic", "error", err)
	}
	return c
}

// enclose puts a group, given by its directory, under the network policy and counts its
// sockets. A program never runs without where there are such.
func (l *Launcher) enclose(group *os.File, s Spec) (network *sandbox.Enclosure, sockets *sandbox.SocketCount, err error) {
	if l.Network != nil {
		if network, err = l.Network.Enclose(group, uint16(s.Port)); err != nil {
			return nil, nil, err
		}
	}
	if l.Sockets != nil && s.Account != 0 {
		if sockets, err = l.Sockets.Enclose(group, s.Account); err != nil {
			return nil, nil, errors.Join(err, network.Close())
		}
	}
	return network, sockets, nil
}

// TryPatience is how long Try tries again what passes.
const TryPatience = 10 * time.Second

// Try finds out which walls this host lets programs have, by putting them up
// around children that do nothing else. It takes a few milliseconds, and some
// more for each wall that is refused. What keeps a child from its walls (no process,
// no memory, no descriptor to be had) is tried again for patience, and then an error.
func (l *Launcher) Try(ctx context.Context, patience time.Duration) ([]sandbox.Verdict, error) {
	n := 0
	deadline := time.Now().Add(patience)
	told := func(err error) { l.Log.Warn("cannot try the walls around programs yet, trying again", "error", err) }
	verdicts, err := sandbox.Judge(func(layers []sandbox.Layer) error {
		return sandbox.Insist(ctx, time.Until(deadline), told, func() error {
			n++
			return l.try(fmt.Sprintf("apps/walls/%d-%d", os.Getpid(), n), layers)
		})
	})
	if err != nil {
		return nil, fmt.Errorf("cannot try the walls around programs: %w", err)
	}
	return verdicts, nil
}

// try starts a child behind the layers that ends where a program would begin.
func (l *Launcher) try(group string, layers []sandbox.Layer) error {
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return fmt.Errorf("cannot try the walls: %w", err)
	}
	defer null.Close()
	trial := *l
	trial.Walls.Layers, trial.Meter = layers, nil
	run, err := trial.Launch(Spec{
		Group: group, try: true, Dir: "/", Name: "berth", UID: nobody, MemoryMB: 64, Pids: 64, OOMGroup: true, Output: null,
	})
	if err != nil {
		return err
	}
	run.Wait()
	return nil
}

// Console starts the command of s and returns once it has been executed, with
// Launch's errors. With a run it is born in a group of its own below the run's,
// of which s.Group names the last element: it has the run's limits, counts for
// it, and ends with it at the latest; a run that is ending is app.Conflict.
// Without one it gets the group s.Group with the limits of s. Output, Errors and Input
// of s are not used, nor is OnHelperOOM.
//
// With e somebody reads and writes while the command runs, through Console.Streams; else
// its output is kept, and its input empty.
func (l *Launcher) Console(s Spec, in *Run, e *app.Exec) (*Console, error) {
	c := &Console{in: in, log: l.Log.With("group", s.Group), done: make(chan struct{})}
	if in != nil {
		if err := in.consoles.enter(); err != nil {
			return nil, err
		}
	}
	err := c.begin(l, s, e)
	if err != nil {
		if in != nil {
			in.consoles.leave(c)
		}
		return nil, err
	}
	if in != nil {
		in.consoles.add(c)
	}
	go c.wait()
	return c, nil
}
