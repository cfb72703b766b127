package proc

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

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
	Port     int      // its own, for the network policy; 0 when it has none
	Account  uint32   // whose sockets it counts for, from 1; 0 when they are not counted
	Journal  string   // app.Program.Journal
	Output   *os.File // stdout and stderr; stays the caller's
	Errors   *os.File // stderr, when it is not to be Output
	// OnHelperOOM is called, on a goroutine of its own, when a process of the
	// program but not the program itself was killed for its memory and the
	// program lives on. May be nil.
	OnHelperOOM func(limitMB int64) `json:"-"`
	// OnNoSocket is called when the program was refused sockets, with how many it
	// holds, and not again for some time; or when it is ended, because it took them
	// in a way that nothing can refuse. May be nil.
	OnNoSocket func(held int, ended bool) `json:"-"`

	try bool // see Launcher.Try
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
	// Init is the command line that reaches Init in a child of this binary;
	// nil means /proc/self/exe app-init.
	Init []string
}

// Walls are the layers around programs, and what the view of them needs to know
// of the host.
type Walls struct {
	Layers []sandbox.Layer
	Data   string   // the data directory, which programs see nothing of but their own; may be empty
	Paths  []string // that programs see besides the system's own, read-only
}

// InitWord is the argument with which the binary hands over to Init.
const InitWord = "app-init"

// startTimeout bounds the time until execve; on a busy or emulated machine
// it takes seconds, never this long.
const startTimeout = 60 * time.Second

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
	traffic := l.meter(group)
	network, sockets, err := l.enclose(group, s)
	if err != nil {
		l.discard(group, s.Group)
		return nil, err
	}
	main, err := l.start(s, group)
	if err != nil {
		l.discard(group, s.Group)
		return nil, errors.Join(err, network.Close(), sockets.Close())
	}
	r := &Run{
		main: main, group: group, traffic: traffic, network: network, sockets: sockets, log: l.Log.With("group", s.Group), spec: s,
		started: time.Now(), limit: s.MemoryMB, done: make(chan struct{}), leaving: make(chan struct{}),
		private: network != nil,
	}
	n := note{main.pid, main.birth, r.started, s.Port, network != nil, cmp.Or(s.Journal, noJournal)}
	if err := group.SetNote(n.String()); err != nil {
		r.log.Warn("a later daemon will not know the program, and end it", "error", err)
	}
	r.begin()
	return r, nil
}

// limitsOf are the limits of a program's group.
func limitsOf(s Spec) cgroup.Limits {
	return cgroup.Limits{Memory: s.MemoryMB << 20, Pids: s.Pids, OOMGroup: s.OOMGroup, Weight: s.Weight, CPU: s.CPU}
}

// begin watches over the run until its end.
func (r *Run) begin() {
	if err := r.watchHelpers(); err != nil {
		r.log.Warn("cannot watch for killed helper processes", "error", err)
	}
	r.sockets.OnExcess(r.exceeded)
	go r.wait()
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

// meter counts the group's traffic. That it cannot keeps no program from
// running.
func (l *Launcher) meter(group *cgroup.Group) *sandbox.Counter {
	if l.Meter == nil {
		return nil
	}
	dir, err := group.Open()
	if err == nil {
		defer dir.Close()
		var c *sandbox.Counter
		if c, err = l.Meter.Attach(dir); err == nil {
			return c
		}
	}
	l.Log.Warn("cannot count a program's traffic", "error", err)
	return nil
}

// enclose puts the group under the network policy and counts its sockets. A
// program never runs without where there are such.
func (l *Launcher) enclose(group *cgroup.Group, s Spec) (*sandbox.Enclosure, *sandbox.SocketCount, error) {
	if l.Network == nil && l.Sockets == nil {
		return nil, nil, nil
	}
	dir, err := group.Open()
	if err != nil {
		return nil, nil, fmt.Errorf("cannot open the control group: %w", err)
	}
	defer dir.Close()
	var network *sandbox.Enclosure
	if l.Network != nil {
		if network, err = l.Network.Enclose(dir, uint16(s.Port)); err != nil {
			return nil, nil, err
		}
	}
	if l.Sockets == nil || s.Account == 0 {
		return network, nil, nil
	}
	sockets, err := l.Sockets.Enclose(dir, s.Account)
	if err != nil {
		return nil, nil, errors.Join(err, network.Close())
	}
	return network, sockets, nil
}

// start forks app-init into the group, hands it its orders and waits until
// it has become the program: the error pipe closes at execve.
func (l *Launcher) start(s Spec, group *cgroup.Group) (*process, error) {
	dir, err := group.Open()
	if err != nil {
		return nil, fmt.Errorf("cannot open the control group: %w", err)
	}
	defer dir.Close()
	ordersR, ordersW, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("cannot make a pipe: %w", err)
	}
	defer ordersW.Close()
	defer ordersR.Close()
	errR, errW, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("cannot make a pipe: %w", err)
	}
	defer errR.Close()
	argv := l.Init
	if argv == nil {
		argv = []string{"/proc/self/exe", InitWord}
	}
	// Not the caller's context: the program outlives the request that started it.
	cmd := exec.CommandContext(context.Background(), argv[0], argv[1:]...)
	// Of the child's own runtime; the program gets its environment from the
	// orders. One processor means fewer threads to start, and to tell of setuid.
	cmd.Env = []string{"GOMAXPROCS=1"}
	cmd.Stdout, cmd.Stderr = s.Output, s.Output
	if s.Errors != nil {
		cmd.Stderr = s.Errors
	}
	cmd.ExtraFiles = []*os.File{ordersR, errW}
	cmd.SysProcAttr = &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: int(dir.Fd()), Setsid: true}
	o, err := l.orders(s, group)
	if err != nil {
		_ = errW.Close()
		return nil, err
	}
	cmd.SysProcAttr.Cloneflags = o.Sandbox.Flags()
	err = cmd.Start()
	_ = errW.Close()
	if err != nil {
		err = fmt.Errorf("cannot fork into the control group: %w", err)
		if o.Sandbox.Has(sandbox.Mounts) && slices.ContainsFunc(refusals, func(errno syscall.Errno) bool { return errors.Is(err, errno) }) {
			err = &sandbox.Missing{Err: err}
		}
		return nil, err
	}
	err = handOver(ordersW, errR, o)
	if errors.Is(err, errEnded) && !o.Try && killed(cmd.Process.Pid) {
		err = nil // for its memory, or with its group: which is told of a run
	}
	var main *process
	if err == nil {
		main, err = openProcess(cmd.Process.Pid, 0) // ours, and not waited for: it is there, dead or alive
	}
	if err != nil {
		_ = group.Kill()
		_ = cmd.Wait() // reap; why it ended is in err
		return nil, err
	}
	return main, cmd.Process.Release()
}

// refusals are what clone(2) answers where namespaces cannot be had. A child that
// needs none shows whether that was the reason.
var refusals = []syscall.Errno{unix.EPERM, unix.EINVAL, unix.ENOSYS}

// errEnded is the error of a child that ended on its way: by a signal, or for want
// of a thread for its runtime.
var errEnded = errors.New("cannot start the program: its first process ended before that")

// killed waits for the end of a child that is about to end, and reports whether
// that was a signal.
func killed(pid int) bool {
	p, err := openProcess(pid, 0) // nobody has waited for it
	if err != nil {
		return false
	}
	defer p.pidfd.Close()
	if err := p.ended(); err != nil {
		return false
	}
	s, err := readStat(pid)
	return err == nil && syscall.WaitStatus(s.exit).Signaled() //nolint:gosec // as the kernel counts it
}

// handOver writes the orders and reads what came of them.
func handOver(w, r *os.File, o orders) error {
	if err := r.SetReadDeadline(time.Now().Add(startTimeout)); err != nil {
		return fmt.Errorf("cannot wait for the start: %w", err)
	}
	if err := json.NewEncoder(w).Encode(o); err != nil && !errors.Is(err, unix.EPIPE) {
		return fmt.Errorf("cannot hand over the program's orders: %w", err)
	}
	_ = w.Close()
	text, err := io.ReadAll(io.LimitReader(r, 4096))
	if err != nil {
		return fmt.Errorf("cannot start the program: no answer after %s: %w", startTimeout, err)
	}
	said, ready := strings.CutPrefix(strings.ToValidUTF8(string(text), "?"), readyMark)
	if why, missing := strings.CutPrefix(said, missingMark); missing {
		return &sandbox.Missing{Err: errors.New(why)}
	}
	if own, ok := strings.CutPrefix(said, ownMark); ok {
		if why, ok := strings.CutPrefix(own, notExecuted(o.Argv[0])); ok {
			return app.Errorf(app.Unusable, "cannot execute %q: %s", o.Argv[0], why)
		}
		return app.Errorf(app.Unusable, "%s", own)
	}
	if said != "" {
		return errors.New(said)
	}
	if !ready {
		return errEnded
	}
	return nil
}
