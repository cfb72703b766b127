package repository

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// call is one run of restic.
type call struct {
	args []string
	// feed writes its standard input. When it fails, restic is ended and never sees the end.
	feed func(w io.Writer) error
	// take reads its standard output. What it leaves is not waited for.
	take func(r io.Reader) error
	// said, if any, gets what it writes to its standard error when it succeeds.
	said func(text string)
	// opens ends restic when it could not read the configuration twice. From 0.17 on it tries that for 15 minutes,
	// also where a server refuses a password or has no such bucket. Older ones do not try it again.
	opens bool
}

// environment is all that restic gets to know. The key comes by a pipe, so that what restic
// starts itself, such as ssh, does not inherit it; and the place is no argument, which every
// user of the host could read.
//
// restic needs 60 MB for the key (scrypt) at its start. With Go's defaults it takes 115 MB for a
// stream of 1 GB on two processors, and 63 MB with these two, for a tenth of the processor time more.
func (r *restic) environment() []string {
	env := []string{
		"HOME=" + cmp.Or(os.Getenv("HOME"), "/root"),
		"PATH=" + cmp.Or(os.Getenv("PATH"), "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"),
		"RESTIC_REPOSITORY=" + r.Place,
		"RESTIC_PASSWORD_FILE=/proc/self/fd/3",
		"RESTIC_PROGRESS_FPS=0.01", // nobody reads it
		"GOGC=20",
		"GOMAXPROCS=1",
	}
	if r.Cache != "" {
		env = append(env, "TMPDIR="+r.Cache) // packs are made there; /tmp may be RAM
	}
	return append(env, r.Env...)
}

// command is restic with its arguments; it closes key once the process runs.
func (r *restic) command(args []string) (cmd *exec.Cmd, key *os.File, err error) {
	program, err := exec.LookPath(cmp.Or(r.Restic, "restic"))
	if err != nil {
		return nil, nil, fmt.Errorf("cannot find the program restic, which keeps the backups: install the package restic (%w)", err)
	}
	cache := "--no-cache"
	if r.Cache != "" {
		cache = "--cache-dir=" + r.Cache
		if err := os.MkdirAll(r.Cache, 0o700); err != nil {
			return nil, nil, fmt.Errorf("cannot make the cache of restic: %w", err)
		}
	}
	args = append([]string{cache}, args...)
	key, write, err := os.Pipe()
	if err != nil {
		return nil, nil, err
	}
	_, err = write.WriteString(r.Key)
	if err = errors.Join(err, write.Close()); err != nil {
		return nil, nil, errors.Join(err, key.Close())
	}
	// Its end is that of the context, which kills more than the one process.
	cmd = exec.Command(program, args...) //nolint:noctx // see end
	cmd.Env = r.environment()
	cmd.Dir = "/"
	cmd.ExtraFiles = []*os.File{key}
	cmd.WaitDelay = r.grace
	// Without a terminal nothing that restic starts can ask a question there. And it ends with berth: the
	// kernel closes the pipe of a berth that was killed, which would look like the end of the stream.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL}
	return cmd, key, nil
}

// run runs restic once and waits for its end. The error is one of the repository's, that of
// feed or take, or what restic says.
func (r *restic) run(ctx context.Context, c call) error {
	done := make(chan error, 1)
	go func() {
		// A child inherits the priority of the thread that starts it, and dies with that thread
		// (Pdeathsig). So the thread is this call's alone: it is never unlocked, and ends with the goroutine.
		runtime.LockOSThread()
		if r.Nice {
			lowest()
		}
		done <- r.runHere(ctx, c)
	}()
	return <-done
}

// lowest gives this thread the lowest priority. Where the kernel refuses, the backup is made all
// the same.
func lowest() {
	const whoProcess, classIdle, classShift = 1, 3, 13 // linux/ioprio.h
	_ = unix.Setpriority(unix.PRIO_PROCESS, 0, 19)
	_, _, _ = unix.Syscall(unix.SYS_IOPRIO_SET, whoProcess, 0, classIdle<<classShift)
}

func (r *restic) runHere(ctx context.Context, c call) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	cmd, key, err := r.command(c.args)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	said := &tail{}
	if c.opens {
		said.until, said.found = unopened, func() { cancel(errUnopened) }
	}
	cmd.Stderr = said
	stdout, err := cmd.StdoutPipe()
	var stdin io.WriteCloser
	if err == nil && c.feed != nil {
		stdin, err = cmd.StdinPipe()
	}
	if err == nil {
		err = cmd.Start()
	}
	key.Close()
	if err != nil {
		return fmt.Errorf("cannot start restic: %w", err)
	}
	p := &process{cmd: cmd, grace: r.grace, exited: make(chan struct{})}
	go p.watch()
	stop := context.AfterFunc(ctx, p.end)
	defer stop()
	fed := make(chan error, 1)
	go func() { fed <- p.feed(stdin, c.feed) }()
	out := &counted{r: stdout}
	took := c.take(out)
	if !out.ended {
		p.end()
	}
	gave := <-fed
	<-p.exited
	exit := cmd.Wait()
	switch {
	case ctx.Err() != nil:
		return r.unfinished(context.Cause(ctx), said)
	case gave != nil && !errors.Is(gave, syscall.EPIPE):
		return gave
	case exit != nil && out.ended:
		return r.problem(exit, said.String())
	case gave != nil:
		return fmt.Errorf("restic did not read all: %w", gave)
	}
	if c.said != nil {
		c.said(said.String())
	}
	return took
}

// counted remembers whether it was read to its end.
type counted struct {
	r     io.Reader
	ended bool
}

// Read implements io.Reader.
func (c *counted) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.ended = c.ended || err != nil
	return n, err
}

// process is restic while it runs.
type process struct {
	cmd    *exec.Cmd
	grace  time.Duration
	exited chan struct{} // closed when it has ended; it is not reaped then
}

// feed lets write write the standard input. Only a stream that is whole gets an end.
func (p *process) feed(stdin io.WriteCloser, write func(io.Writer) error) error {
	if write == nil {
		return nil
	}
	if err := write(stdin); err != nil {
		if errors.Is(err, syscall.EPIPE) { // it reads no more, and is about to say why
			select {
			case <-p.exited:
			case <-time.After(p.grace):
			}
		}
		p.end()
		return err
	}
	return stdin.Close()
}

// end asks restic to end, so that it can remove its lock, and kills it after a moment.
func (p *process) end() {
	_ = p.cmd.Process.Signal(syscall.SIGINT)
	select {
	case <-p.exited:
	case <-time.After(p.grace):
	}
	_ = p.cmd.Process.Kill()
}

// watch waits until restic ends, and ends what it left. Until restic is reaped nobody else gets its
// number, which is that of its session too. ssh and rclone are in it, in groups of their own.
func (p *process) watch() {
	pid := p.cmd.Process.Pid
	for errors.Is(unix.Waitid(unix.P_PID, pid, nil, unix.WEXITED|unix.WNOWAIT, nil), syscall.EINTR) {
	}
	for _, left := range session(pid) {
		_ = unix.Kill(left, syscall.SIGKILL)
	}
	close(p.exited)
}

// session returns the processes of a session, without its leader.
func session(leader int) []int {
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	var pids []int
	for _, path := range stats {
		text, err := os.ReadFile(path)
		if err != nil {
			continue
		}
		// pid (name) state ppid pgrp session; a name may have any character in it
		fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(path)))
		if err == nil && pid != leader && len(fields) > 3 && fields[3] == strconv.Itoa(leader) {
			pids = append(pids, pid)
		}
	}
	return pids
}
