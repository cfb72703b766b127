package local

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// AccountHeader names the account that root acts for.
	AccountHeader = "Berth-Account"

	socketName = "berth.sock"
	maxPath    = 107             // unix(7), sun_path without the zero at its end
	tryTime    = 2 * time.Second // to find out whether somebody listens already
)

// ErrTaken is the error of Open where another process listens on the socket.
var ErrTaken = errors.New("another process listens on it")

// Path is the socket in a runtime directory.
func Path(dir string) string { return filepath.Join(dir, socketName) }

// Open makes the socket in dir, with mode 0600, and dir with mode 0700 if it is missing.
// It replaces a socket that nobody listens on, as a daemon that was killed leaves it, and
// fails with ErrTaken where somebody does. It refuses a directory in which another user
// could replace the socket. The socket stays when the listener is closed.
func Open(dir string) (*net.UnixListener, error) {
	l, err := open(dir)
	if err != nil {
		return nil, fmt.Errorf("cannot open the local socket %s: %w", Path(dir), err)
	}
	return l, nil
}

func open(dir string) (*net.UnixListener, error) {
	path := Path(dir)
	if len(path) > maxPath {
		return nil, fmt.Errorf("its path has more than %d bytes; name a shorter directory with runtime_dir", maxPath)
	}
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	d, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	defer d.Close()
	if err := safe(d); err != nil {
		return nil, err
	}
	// Of two daemons that start at once, one must not remove what the other has made.
	if err := unix.Flock(int(d.Fd()), unix.LOCK_EX); err != nil {
		return nil, os.NewSyscallError("flock", err)
	}
	if err := vacate(path); err != nil {
		return nil, err
	}
	// Linux makes the file with the mode that the socket has before (unix_bind).
	private := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) (err error) {
		if failed := c.Control(func(fd uintptr) { err = unix.Fchmod(int(fd), 0o600) }); failed != nil {
			return failed
		}
		return os.NewSyscallError("fchmod", err)
	}}
	l, err := private.Listen(context.Background(), "unix", path)
	if err != nil {
		return nil, err
	}
	socket := l.(*net.UnixListener)
	socket.SetUnlinkOnClose(false)
	return socket, nil
}

// safe refuses a directory that another user has, or may write to: whoever can replace the
// socket gets what root sends.
func safe(d *os.File) error {
	var st unix.Stat_t
	switch err := unix.Fstat(int(d.Fd()), &st); {
	case err != nil:
		return os.NewSyscallError("fstat", err)
	case st.Mode&unix.S_IFMT != unix.S_IFDIR:
		return fmt.Errorf("%s is no directory", d.Name())
	case int(st.Uid) != os.Geteuid() || st.Mode&0o022 != 0:
		return fmt.Errorf("other users may change the directory %s; name one with runtime_dir that belongs to root alone", d.Name())
	}
	return nil
}

// vacate removes a socket that nobody listens on.
func vacate(path string) error {
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case info.Mode().Type() != fs.ModeSocket: // to connect to a file fails as if it were one
		return errors.New("a file that is no socket is in its place")
	}
	c, err := (&net.Dialer{Timeout: tryTime}).DialContext(context.Background(), "unix", path)
	if err == nil {
		_ = c.Close()
		return ErrTaken
	}
	if !errors.Is(err, unix.ECONNREFUSED) {
		return err
	}
	return os.Remove(path)
}

// Listener accepts the connections of root on a socket, which may be exchanged for another
// one meanwhile, and closes those of other users. It is safe for concurrent use.
type Listener struct {
	path    string
	refused func(uid uint32, pid int32)
	changed *sync.Cond
	inner   *net.UnixListener // nil: there is none yet
	closed  bool
}

// NewListener returns a listener without a socket: Accept blocks until Use gives it one.
// refused hears of connections that are closed because another user made them. It MUST NOT
// block.
func NewListener(dir string, refused func(uid uint32, pid int32)) *Listener {
	return &Listener{path: Path(dir), refused: refused, changed: sync.NewCond(new(sync.Mutex))}
}

// Use lets the listener accept on l, in place of what it had, which it closes.
func (l *Listener) Use(inner *net.UnixListener) {
	l.changed.L.Lock()
	before := l.inner
	if l.inner = inner; l.closed {
		before = inner
	}
	l.changed.L.Unlock()
	l.changed.Broadcast()
	if before != nil {
		_ = before.Close()
	}
}

// Accept implements net.Listener.
func (l *Listener) Accept() (net.Conn, error) {
	var gone *net.UnixListener
	for {
		inner := l.next(gone)
		if inner == nil {
			return nil, net.ErrClosed
		}
		c, err := inner.AcceptUnix()
		if errors.Is(err, net.ErrClosed) { // by Use or Close
			gone = inner
			continue
		}
		if err != nil {
			return nil, err
		}
		peer, err := credentials(c)
		if err == nil && peer.Uid == 0 {
			return c, nil
		}
		_ = c.Close()
		if err == nil {
			l.refused(peer.Uid, peer.Pid)
		}
	}
}

// next blocks until there is a socket that is not gone, or returns nil at the end.
func (l *Listener) next(gone *net.UnixListener) *net.UnixListener {
	l.changed.L.Lock()
	defer l.changed.L.Unlock()
	for !l.closed && (l.inner == nil || l.inner == gone) {
		l.changed.Wait()
	}
	if l.closed {
		return nil
	}
	return l.inner
}

// Close implements net.Listener.
func (l *Listener) Close() error {
	l.changed.L.Lock()
	inner, before := l.inner, l.closed
	l.closed = true
	l.changed.L.Unlock()
	l.changed.Broadcast()
	if inner == nil || before {
		return nil
	}
	return inner.Close()
}

// Addr implements net.Listener.
func (l *Listener) Addr() net.Addr { return &net.UnixAddr{Name: l.path, Net: "unix"} }

// credentials are those of the process at the other end: when it connected, or, for a
// client, when it began to listen.
func credentials(c *net.UnixConn) (peer *unix.Ucred, err error) {
	conn, err := c.SyscallConn()
	if err != nil {
		return nil, err
	}
	failed := conn.Control(func(fd uintptr) { peer, err = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) })
	return peer, errors.Join(failed, err)
}
