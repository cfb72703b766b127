package daemon

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// successor is the binary that takes over on SIGHUP: the file that berth was
// started from, as it is then.
type successor struct {
	path string
	args []string // of serve
	exec func(path string, argv, env []string) error
}

// proofTime bounds a self check.
const proofTime = 30 * time.Second

// identity changes whenever a file is replaced or written to.
type identity struct {
	dev, inode   uint64
	size         int64
	written, set unix.Timespec
}

// newSuccessor finds the path under which this process was started. A package
// upgrade replaces it, and /proc/self/exe is "(deleted)" from then on; a link
// stays one.
func newSuccessor(args []string) (*successor, error) {
	own, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("cannot find berth's own binary: %w", err)
	}
	s := &successor{path: own, args: args, exec: syscall.Exec}
	named, err := exec.LookPath(os.Args[0])
	if err == nil {
		named, err = filepath.Abs(named)
	}
	if err != nil || named == own {
		return s, nil
	}
	is, err := os.Stat("/proc/self/exe")
	if at, named2 := os.Stat(named); err == nil && named2 == nil && os.SameFile(is, at) {
		s.path = named
	}
	return s, nil
}

// look returns the identity of the binary.
func (s *successor) look() (identity, error) {
	var st unix.Stat_t
	if err := unix.Stat(s.path, &st); err != nil {
		return identity{}, &fs.PathError{Op: "stat", Path: s.path, Err: err}
	}
	return identity{st.Dev, st.Ino, st.Size, st.Mtim, st.Ctim}, nil
}

// prove lets the binary check itself, as a child.
func (s *successor) prove(ctx context.Context) (proof, error) {
	file, err := s.look()
	if err != nil {
		return proof{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, proofTime)
	defer cancel()
	cmd := exec.CommandContext(ctx, s.path, append([]string{"check", "--json"}, s.args...)...)
	var out, problems bytes.Buffer
	cmd.Stdout, cmd.Stderr = &bound{b: &out}, &bound{b: &problems}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // it may be anything
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = time.Second
	err = cmd.Run()
	said := strings.TrimPrefix(strings.TrimSpace(problems.String()), "berth: ")
	switch {
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return proof{}, fmt.Errorf("its self check took longer than %s", proofTime)
	case err != nil && said != "":
		return proof{}, fmt.Errorf("its self check failed: %s", said)
	case err != nil:
		return proof{}, fmt.Errorf("its self check failed: %w", err)
	}
	p := proof{file: file}
	if err := json.Unmarshal(out.Bytes(), &p); err != nil || p.Version == "" {
		return proof{}, fmt.Errorf("%s does not answer as berth does", s.path)
	}
	return p, nil
}

// bound is a buffer that forgets what is too much.
type bound struct{ b *bytes.Buffer }

// Write implements io.Writer.
func (w *bound) Write(p []byte) (int, error) {
	const most = 4096
	w.b.Write(p[:min(len(p), most-w.b.Len())])
	return len(p), nil
}

// takeOver replaces this process by the binary, with its descriptors handed on.
// It returns when that fails, and then everything is as before; or when the
// daemon is to stop, nil: whoever wants that wants its programs to stop, so they
// are taken over here for it.
//
// A signal to stop that comes between this image and the next, within some
// milliseconds, ends the process, and programs run on: os/signal neither keeps it
// nor lets it be blocked (runtime.minitSignalMask).
func (s *successor) takeOver(sig *stops, b *baton) error {
	defer sig.pause()()
	if sig.first.Err() != nil {
		return nil
	}
	// No other thread may fork while descriptors are left to be inherited.
	syscall.ForkLock.Lock()
	defer syscall.ForkLock.Unlock()
	handed, err := b.pass()
	if err == nil {
		err = s.exec(s.path, append([]string{os.Args[0], "serve"}, s.args...), append(os.Environ(), batonEnv+"="+handed))
	}
	return errors.Join(err, b.keep())
}
