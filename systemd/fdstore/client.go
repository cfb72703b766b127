package fdstore

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// socketName is the store's socket in the data directory.
const socketName = "keeper.sock"

// Client is a daemon's way to the store of its data directory. It is safe for
// concurrent use; there MUST be one per directory at a time. Every call waits
// for the store's answer, five seconds at most.
type Client struct {
	dir *os.File
	exe string

	mu      sync.Mutex
	group   *os.File    // of the stores that are started; nil for the daemon's own
	conn    int         // -1 while there is none
	process *os.Process // nil for a store that another daemon started
	held    map[string]bool
}

// Open connects to the store of a data directory, if there is one. Otherwise
// one is started when there is something to keep: exe, which MUST call Main when
// its first argument is Word. The caller MUST Close the client.
func Open(dir, exe string) (*Client, error) {
	d, err := os.Open(dir)
	if err != nil {
		return nil, fmt.Errorf("cannot open the keeper's directory: %w", err)
	}
	c := &Client{dir: d, exe: exe, conn: -1, held: map[string]bool{}}
	if err := c.connect(); err != nil {
		_ = d.Close()
		return nil, fmt.Errorf("cannot reach the keeper: %w", err)
	}
	return c, nil
}

// Place makes stores that are started from now on be born in a control group,
// of which this is the directory. The group stays the caller's, who MUST NOT close it before the client.
func (c *Client) Place(group *os.File) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.group = group
}

// path is the socket's, however long the directory's is: that of a socket has
// at most 107 bytes (unix(7)).
func (c *Client) path() string {
	return "/proc/self/fd/" + strconv.Itoa(int(c.dir.Fd())) + "/" + socketName
}

// connect connects to a store that lives; that there is none is no error.
func (c *Client) connect() error {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	err = errors.Join(setPatience(fd), unix.Connect(fd, &unix.SockaddrUnix{Name: c.path()}))
	if err == nil && !isPeer(fd, uint32(os.Geteuid())) {
		err = errors.New("it is another user's")
	}
	if err == nil {
		c.conn = fd
		return nil
	}
	_ = unix.Close(fd)
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ECONNREFUSED) {
		return nil // the socket of a dead one stays until the next is started
	}
	return err
}

// Hold keeps a file under a name, instead of what was kept under it before. f
// stays the caller's. started tells that a store was started for it, because
// there was none or it had died: it keeps nothing else.
func (c *Client) Hold(name string, f *os.File) (started bool, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	conn, err := f.SyscallConn()
	if err != nil {
		return false, fmt.Errorf("cannot keep a descriptor: %w", err)
	}
	var failed error
	err = conn.Control(func(fd uintptr) {
		// One that is about to end still lets a client connect.
		for end := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
			if failed = c.reach(&started); failed == nil {
				c.held[name] = true // also when its answer comes too late
				failed = c.request(requestHold, name, int(fd))
			}
			if !errors.Is(failed, errGone) || time.Now().After(end) {
				return
			}
		}
	})
	if err := errors.Join(err, failed); err != nil {
		return false, fmt.Errorf("cannot keep a descriptor: %w", err)
	}
	return started, nil
}

// reach makes sure that there is a connection, and sets started if a store had
// to be started for it.
func (c *Client) reach(started *bool) error {
	if c.conn >= 0 {
		return nil
	}
	if err := c.connect(); err != nil || c.conn >= 0 {
		return err
	}
	if c.process != nil { // nobody listens, so it has ended
		_, _ = c.process.Wait()
		c.process = nil
	}
	*started = true
	clear(c.held)
	return c.start()
}

// Release lets the store close what it keeps under a name, if it does. One whose
// connection was lost, for it did not answer in time, is connected to again: it would
// keep that, and live, for ever.
func (c *Client) Release(name string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	for end := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
		var err error
		if c.conn < 0 {
			err = c.connect()
		}
		if err == nil && c.conn >= 0 { // one lives
			err = c.request(requestRelease, name, -1)
		}
		if err == nil {
			delete(c.held, name) // else it may be kept, and Close must not wait for the store's end
			return nil
		}
		if !errors.Is(err, errGone) || time.Now().After(end) {
			return fmt.Errorf("cannot release a descriptor: %w", err)
		}
	}
}

// Held returns what is kept, by name. The caller closes the files; the store
// keeps its own until they are released.
func (c *Client) Held() (map[string]*os.File, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for end := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
		if c.conn < 0 {
			return map[string]*os.File{}, nil
		}
		all, err := c.list()
		if err == nil {
			return all, nil
		}
		if errors.Is(err, errGone) && time.Now().Before(end) {
			err = c.connect() // perhaps to one that is about to end
		}
		if err != nil {
			return nil, fmt.Errorf("cannot get back what is kept: %w", err)
		}
	}
}

// list asks once for what is kept. The caller holds mu and has a connection,
// which is closed when it fails.
func (c *Client) list() (map[string]*os.File, error) {
	all := map[string]*os.File{}
	err := send(c.conn, requestHeld, "", -1)
	for err == nil {
		var letter byte
		var name string
		var f *os.File
		letter, name, f, err = c.answer()
		if err == nil && letter != answerFile {
			return all, nil
		}
		if f != nil {
			all[name], c.held[name] = f, true
		}
	}
	for _, f := range all {
		_ = f.Close()
	}
	if c.conn >= 0 { // it could not even be asked
		err = c.disconnect()
	}
	return nil, err
}

// Close ends the connection. A store that keeps nothing ends too, and is
// waited for if this client started it; any other lives on.
func (c *Client) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.conn >= 0 {
		_ = unix.Close(c.conn)
		c.conn = -1
	}
	err := c.dir.Close()
	if c.process == nil {
		return err
	}
	if len(c.held) > 0 {
		return errors.Join(err, c.process.Release())
	}
	_, waited := c.process.Wait()
	return errors.Join(err, waited)
}

// errGone means that the store is not there any more.
var errGone = errors.New("the keeper has ended")

// request sends one request and waits for its answer. The caller holds mu and has
// a connection, which is closed when it fails.
func (c *Client) request(letter byte, name string, fd int) error {
	if name == "" || len(name) > maxName {
		return fmt.Errorf("%q is not a name of 1 to %d bytes", name, maxName)
	}
	if err := send(c.conn, letter, name, fd); err != nil {
		return c.disconnect()
	}
	reply, why, f, err := c.answer()
	switch {
	case err != nil:
		return err
	case f != nil:
		return errors.Join(errors.New("the keeper answers what was not asked"), f.Close())
	case reply != answerYes:
		return fmt.Errorf("the keeper refuses: %s", why)
	}
	return nil
}

// answer takes one message from the store.
func (c *Client) answer() (letter byte, text string, f *os.File, err error) {
	var in, oob [512]byte
	message, fds, err := receive(c.conn, in[:], oob[:])
	switch {
	case errors.Is(err, unix.EAGAIN):
		_ = c.disconnect() // its answer must not be taken for that of the next
		return 0, "", nil, fmt.Errorf("the keeper does not answer for %v", patience)
	case err != nil || len(message) == 0:
		return 0, "", nil, c.disconnect()
	}
	for i, fd := range fds {
		if i > 0 {
			_ = unix.Close(fd)
			continue
		}
		f = os.NewFile(uintptr(fd), string(message[1:]))
	}
	return message[0], string(message[1:]), f, nil
}

// disconnect forgets a connection that the store closed.
func (c *Client) disconnect() error {
	if c.conn >= 0 {
		_ = unix.Close(c.conn)
		c.conn = -1
	}
	return errGone
}

// start starts a store and connects to it.
func (c *Client) start() error {
	listener, err := c.listen()
	if err != nil {
		return fmt.Errorf("cannot make the keeper's socket: %w", err)
	}
	defer func() { _ = listener.Close() }()
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer func() { _ = null.Close() }()
	attr := &os.ProcAttr{
		Dir:   "/",
		Env:   []string{"GOMAXPROCS=1"},
		Files: []*os.File{null, null, null, listener, c.dir},
		Sys:   &syscall.SysProcAttr{Setsid: true}, // no terminal, and nobody's group of processes
	}
	if c.group != nil {
		attr.Sys.UseCgroupFD, attr.Sys.CgroupFD = true, int(c.group.Fd())
	}
	c.process, err = os.StartProcess(c.exe, []string{"berth", Word, c.dir.Name()}, attr)
	if err != nil {
		return fmt.Errorf("cannot start a keeper: %w", err)
	}
	if err := c.connect(); err != nil || c.conn >= 0 {
		return err
	}
	return errGone
}

// listen makes the socket. Nobody can connect before it has its mode: until
// then it does not listen.
func (c *Client) listen() (*os.File, error) {
	if err := os.Remove(filepath.Clean(c.path())); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	for _, step := range []func() error{
		func() error { return unix.Bind(fd, &unix.SockaddrUnix{Name: c.path()}) },
		func() error { return os.Chmod(c.path(), 0o600) },
		func() error { return unix.Listen(fd, 8) },
	} {
		if err := step(); err != nil {
			_ = unix.Close(fd)
			return nil, err
		}
	}
	return os.NewFile(uintptr(fd), socketName), nil
}
