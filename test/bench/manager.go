package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// plan is what a manager shall run.
type plan struct {
	program string // what the program does, see program.go
	count   int
	restart bool     // when it ends by itself
	flags   []string // of berth serve
}

// fleet is the programs of a manager, and its daemon.
type fleet struct {
	plan
	name    string
	dir     string   // everything it has
	log     string   // of the daemon
	pid     int      // of the daemon
	dirs    []string // of the programs: they stamp here
	printed string   // pattern of the files that hold the first program's output
}

// started waits until all programs have started after a time, and returns when
// the last did. If one does not, the error tells what its daemon says of it.
func (f *fleet) started(ctx context.Context, after time.Time) (time.Time, error) {
	var last time.Time
	for _, dir := range f.dirs {
		e, err := stamped(ctx, dir, "start", after)
		if err != nil {
			text, _ := os.ReadFile(f.log)
			return last, fmt.Errorf("%w: %s", err, tail(about(string(text), filepath.Base(dir))))
		}
		if e.at.After(last) {
			last = e.at
		}
	}
	return last, nil
}

// about returns the lines that hold a word.
func about(text, word string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		if strings.Contains(line, word) {
			b.WriteString(line)
		}
	}
	return b.String()
}

// manager runs programs. down may be called at any time and ends all of them
// and the daemon.
type manager interface {
	boot(ctx context.Context) error // starts daemon and programs
	startAll(ctx context.Context) error
	stopAll(ctx context.Context) error
	down(ctx context.Context) error
	programs() *fleet
}

// programs gives access to what managers have in common.
func (f *fleet) programs() *fleet { return f }

// processOf finds the process of a program.
func (f *fleet) processOf(ctx context.Context, i int) (int, error) {
	if f.name == "berth" {
		return inGroup("/apps/"+appOf(f.dirs[i])+"/", f.program)
	}
	e, err := stamped(ctx, f.dirs[i], "start", time.Time{})
	if err == nil && !called(e.pid, f.program) {
		err = fmt.Errorf("process %d is no %s", e.pid, f.program)
	}
	return e.pid, err
}

// managers are berth and its peers.
var managers = []string{"berth", "PM2", "supervisord"}

// open starts a manager and returns it when its programs have started.
func (b *bench) open(ctx context.Context, name string, p plan) (manager, error) {
	prepare := map[string]func(context.Context, plan) (manager, error){"berth": b.newBerth, "PM2": b.newPM2, "supervisord": b.newSupervisord}[name]
	began := time.Now()
	m, err := prepare(ctx, p)
	if err != nil {
		return nil, err
	}
	err = m.boot(ctx)
	if err == nil {
		_, err = m.programs().started(ctx, began)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", name, err), shut(ctx, m))
	}
	return m, nil
}

// shut ends a manager, also when the run was called off, and removes what it had.
func shut(ctx context.Context, m manager) error {
	return errors.Join(m.down(context.WithoutCancel(ctx)), os.RemoveAll(m.programs().dir))
}

// with runs f with a manager that is shut then.
func (b *bench) with(ctx context.Context, name string, p plan, f func(manager) error) error {
	m, err := b.open(ctx, name, p)
	if err != nil {
		return err
	}
	return errors.Join(f(m), shut(ctx, m))
}

// withAll runs f with berth and its peers, which are shut then.
func (b *bench) withAll(ctx context.Context, p plan, f func(map[string]manager) error) (err error) {
	all := map[string]manager{}
	for _, name := range managers {
		m, failed := b.open(ctx, name, p)
		if failed != nil {
			return failed
		}
		defer func() { err = errors.Join(err, shut(ctx, m)) }()
		all[name] = m
	}
	return f(all)
}

// command runs a command and returns what it printed.
func command(ctx context.Context, dir string, env []string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	var out, problems bytes.Buffer
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = dir, append(os.Environ(), env...), &out, &problems
	if err := cmd.Run(); err != nil {
		return out.String(), fmt.Errorf("%v: %w: %s%s", args, err, tail(out.String()), tail(problems.String()))
	}
	return out.String(), nil
}

// tail is the end of a text for an error.
func tail(s string) string { return s[max(0, len(s)-1000):] }

// server is a daemon that is a child of ours.
type server struct {
	cmd   *exec.Cmd
	ended chan struct{}
	log   string
}

// serve starts a daemon whose output goes to a file. It is in a process group
// of its own: an interrupt at the terminal is for us, who end it in order. If
// we are killed, it is asked to end.
func serve(dir, log string, args ...string) (*server, error) {
	out, err := os.Create(log)
	if err != nil {
		return nil, err
	}
	defer out.Close()
	//nolint:noctx // it is ended by end, which waits for it, and not killed
	s := &server{cmd: exec.Command(args[0], args[1:]...), ended: make(chan struct{}), log: log}
	s.cmd.Dir, s.cmd.Stdout, s.cmd.Stderr = dir, out, out
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
	if err := s.cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		defer close(s.ended)
		_ = s.cmd.Wait() // end looks at the state
	}()
	return s, nil
}

// hasEnded returns an error with the daemon's last words once it has ended.
func (s *server) hasEnded() error {
	select {
	case <-s.ended:
		text, err := os.ReadFile(s.log)
		return errors.Join(fmt.Errorf("it ended: %v: %s", s.cmd.ProcessState, tail(string(text))), err)
	default:
		return nil
	}
}

// end asks a daemon to end and waits until it has; it fails when it did not
// end well or had to be killed.
func (s *server) end() error {
	if s == nil {
		return nil
	}
	if err := s.hasEnded(); err != nil {
		return err
	}
	if err := s.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	select {
	case <-s.ended:
	case <-time.After(patience):
		return errors.Join(errors.New("it did not end and was killed"), s.cmd.Process.Kill())
	}
	if code := s.cmd.ProcessState.ExitCode(); code != 0 {
		return s.hasEnded()
	}
	return nil
}
