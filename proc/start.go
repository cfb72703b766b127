package proc

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"berth/app"
	"berth/cgroup"
	"berth/proc/sandbox"
)

// InitWord is the argument with which the binary hands over to Init.
const InitWord = "app-init"

// Init is the child of a Launcher where no helper can be executed from memory: the same
// by this binary, which takes some milliseconds more. It does not return.
func Init() {
	runtime.LockOSThread()
	sandbox.Execute()
}

// startTimeout bounds the time until execve; on a busy or emulated machine
// it takes seconds, never this long.
const startTimeout = 60 * time.Second

// readyMark is what a child says when it is behind its walls. One that ended without it
// and without an error was none of the kernel's refusals: something ended it.
const readyMark = "."

// start starts a process in the group and hands it its plan. While that puts up its walls,
// meanwhile does what else must be there before the program, given the group's directory. Then start waits until the
// process has become the program: its end of the socket closes at execve.
func (l *Launcher) start(s Spec, group *cgroup.Group, meanwhile func(dir *os.File) error) (*process, error) {
	plan, flags, err := l.plan(s, group)
	if err != nil {
		return nil, notExecuted(s, err)
	}
	dir, err := group.Open()
	if err != nil {
		return nil, fmt.Errorf("cannot open the control group: %w", err)
	}
	defer dir.Close()
	orders, err := plan.File()
	if err != nil {
		return nil, notExecuted(s, err)
	}
	defer orders.Close()
	ours, its, err := socketPair()
	if err != nil {
		return nil, err
	}
	defer ours.Close()
	defer its.Close()
	cmd, err := l.command()
	if err != nil {
		return nil, err
	}
	streams(cmd, s)
	cmd.ExtraFiles = append([]*os.File{its, orders}, cmd.ExtraFiles...) // sandbox.ErrorsFD, PlanFD
	cmd.SysProcAttr = &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: int(dir.Fd()), Setsid: true, Cloneflags: flags}
	err = cmd.Start()
	_ = its.Close()
	if err != nil {
		err = fmt.Errorf("cannot fork into the control group: %w", err)
		if flags&unix.CLONE_NEWIPC != 0 && slices.ContainsFunc(refusals, func(errno syscall.Errno) bool { return errors.Is(err, errno) }) {
			err = &sandbox.Missing{Err: err}
		}
		return nil, err
	}
	if err = meanwhile(dir); err == nil {
		err = notExecuted(s, answer(ours, plan, s.terminal))
	}
	if errors.Is(err, errEnded) && !s.try && killed(cmd.Process.Pid) {
		err = nil // for its memory, or with its group: which is told of a run
	}
	var main *process
	if err == nil {
		main, err = openProcess(cmd.Process.Pid, 0) // ours, and not waited for: it is there, dead or alive
	}
	if err != nil {
		s.terminal.close()
		_ = group.Kill()
		_ = cmd.Wait() // reap; why it ended is in err
		return nil, err
	}
	return main, cmd.Process.Release()
}

// streams sets the standard descriptors of a child; one that makes itself a terminal has
// none until then.
func streams(cmd *exec.Cmd, s Spec) {
	if s.terminal != nil {
		return
	}
	if s.Input != nil {
		cmd.Stdin = s.Input
	}
	cmd.Stdout, cmd.Stderr = s.Output, s.Output
	if s.Errors != nil {
		cmd.Stderr = s.Errors
	}
}

// refusals are what clone(2) answers where namespaces cannot be had. A child that
// needs none shows whether that was the reason.
var refusals = []syscall.Errno{unix.EPERM, unix.EINVAL, unix.ENOSYS}

// errEnded is the error of a child that ended on its way: by a signal, or for want
// of a thread for its runtime.
var errEnded = errors.New("cannot start the program: its first process ended before that")

// socketPair makes a socket for the daemon and one for its child.
func socketPair() (ours, its *os.File, err error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err == nil {
		err = unix.SetNonblock(fds[0], true) // for its deadline
	}
	if err != nil {
		return nil, nil, fmt.Errorf("cannot make a pair of sockets: %w", err)
	}
	return os.NewFile(uintptr(fds[0]), "start"), os.NewFile(uintptr(fds[1]), "start"), nil
}

// answer lets a child with a plan become its program, and waits for what becomes of it.
// With a terminal it takes the child's.
func answer(child *os.File, plan *sandbox.Plan, t *terminal) error {
	err := child.SetDeadline(time.Now().Add(startTimeout))
	if err == nil {
		_, err = child.WriteString(readyMark)
	}
	if err != nil && !errors.Is(err, unix.EPIPE) { // it has ended, and said why
		return fmt.Errorf("cannot wait for the start: %w", err)
	}
	said := ""
	if t != nil {
		said, err = t.receive(child)
	}
	var text []byte
	if err == nil || errors.Is(err, unix.EPIPE) {
		text, err = io.ReadAll(io.LimitReader(child, 4096))
	}
	if errors.Is(err, unix.ECONNRESET) { // it has ended without reading what was written
		err = nil
	}
	if err != nil {
		return fmt.Errorf("cannot start the program: no answer after %s: %w", startTimeout, err)
	}
	report, ready := strings.CutPrefix(said+string(text), readyMark)
	if err := plan.Refused(report); err != nil || ready {
		return err
	}
	return errEnded
}

// notExecuted tells the error of a program, which its owner can mend, from those of
// the host.
func notExecuted(s Spec, err error) error {
	if why, is := errors.AsType[*sandbox.NotExecuted](err); is {
		return app.Errorf(app.Unusable, "cannot execute %q: %s", s.Argv[0], why.Error())
	}
	return err
}

// plan is what the child does, and the namespaces (CLONE_NEW...) that it is born in.
func (l *Launcher) plan(s Spec, group *cgroup.Group) (*sandbox.Plan, uintptr, error) {
	spec, err := l.confinement(s, group)
	if err != nil {
		return nil, 0, err
	}
	p := sandbox.NewPlan()
	own, err := scoreIn(oomScore)
	if err != nil {
		return nil, 0, err
	}
	// Before its capabilities go: so this is the lowest that it can set itself. A daemon
	// without CAP_SYS_RESOURCE cannot give it less than it has.
	p.To("give up the daemon's protection")
	p.Write(oomScore, strconv.Itoa(max(s.OOMScore, own)))
	// v1 knows no birth into a group; the limits hold from here on, before a
	// byte of the program runs (cgroup.Group.Joins).
	p.To("join the control group")
	for _, file := range group.Joins() {
		p.Write(file, "0")
	}
	if err := p.Confine(spec); err != nil {
		return nil, 0, err
	}
	if !s.try {
		p.To("enter the application's directory")
		p.Chdir(s.Dir) // as the program's user: it must reach it
	}
	if t := s.terminal; t != nil {
		p.Terminal(t.size.Cols, t.size.Rows)
	}
	p.To("tell of the start")
	if s.terminal != nil {
		p.HandOver(readyMark)
	} else {
		p.Agree(readyMark)
	}
	if s.try {
		return p, spec.Flags(), nil
	}
	if len(s.Argv) == 0 {
		return nil, 0, errors.New("cannot start the program: no command")
	}
	return p, spec.Flags(), p.Execute(s.Argv, s.Env)
}

// confinement is what confines the child.
func (l *Launcher) confinement(s Spec, group *cgroup.Group) (*sandbox.Spec, error) {
	w := l.Walls
	c := &sandbox.Spec{
		UID: s.UID, Limits: l.limits(s), Layers: w.Layers, Home: s.Dir, From: s.From, Temp: s.Temp,
		Data: w.Data, Paths: w.Paths, Name: s.Name, RAM: s.MemoryMB << 20,
	}
	if s.Dir == "/" { // nobody's
		c.Home = ""
	}
	for _, v := range group.Views() {
		c.Groups = append(c.Groups, sandbox.Bind{From: v.Dir, To: v.At})
	}
	if w.Data == "" || !c.Has(sandbox.Mounts) {
		return c, nil
	}
	if info, err := os.Stat(w.Runtimes); err == nil && info.IsDir() {
		c.Shown = w.Runtimes
	}
	// In a root of its own the program would not find the way that a link in the
	// data directory's name leads.
	real, err := filepath.EvalSymlinks(w.Data)
	if err != nil {
		return nil, fmt.Errorf("cannot find the data directory: %w", err)
	}
	if real == w.Data {
		return c, nil
	}
	c.Data, c.Alias = real, w.Data
	for _, dir := range []*string{&c.Home, &c.From, &c.Temp, &c.Shown} {
		if below, ok := strings.CutPrefix(*dir, w.Data+"/"); ok {
			*dir = filepath.Join(real, below)
		}
	}
	return c, nil
}

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

// helper is what children execute first.
var helper struct {
	sync.Mutex
	tried bool
	file  *os.File // nil where none can be executed
}

// command is a child's first program, without what differs between children.
func (l *Launcher) command() (*exec.Cmd, error) {
	// Not the caller's context: the program outlives the request that started it.
	ctx := context.Background()
	if l.Init != nil {
		return exec.CommandContext(ctx, l.Init[0], l.Init[1:]...), nil
	}
	helper.Lock()
	defer helper.Unlock()
	if !helper.tried {
		file, err := findHelper()
		if sandbox.Passes(err) {
			return nil, err
		}
		if err != nil {
			l.Log.Warn("programs start some milliseconds later than they could", "error", err)
		}
		helper.tried, helper.file = true, file
	}
	if helper.file == nil {
		cmd := exec.CommandContext(ctx, "/proc/self/exe", InitWord)
		// Of the child's own runtime; the program gets its environment from its plan.
		// One processor means fewer threads to start.
		cmd.Env = []string{"GOMAXPROCS=1"}
		return cmd, nil
	}
	return helperCommand(ctx, helper.file), nil
}

// helperCommand executes the helper by its descriptor, the third that a child is given.
func helperCommand(ctx context.Context, file *os.File) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "/proc/self/fd/5")
	cmd.Env, cmd.ExtraFiles = []string{}, []*os.File{file}
	return cmd
}

// findHelper makes the helper and finds out whether it can be executed: without a plan
// it ends at once. It returns nil where there is none.
func findHelper() (*os.File, error) {
	file, err := sandbox.Helper()
	if err != nil || file == nil {
		return nil, err
	}
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	defer null.Close()
	cmd := helperCommand(context.Background(), file)
	cmd.ExtraFiles = []*os.File{null, null, file}
	err = cmd.Run()
	if exit, ended := errors.AsType[*exec.ExitError](err); !ended || exit.ExitCode() != sandbox.Refusal {
		return nil, errors.Join(fmt.Errorf("cannot execute the helper from memory: %w", err), file.Close())
	}
	return file, nil
}
