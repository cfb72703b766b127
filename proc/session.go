package proc

import (
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"berth/app"
)

// terminal is the daemon's end of a terminal that a child makes for itself.
type terminal struct {
	size   app.Size
	master *os.File // set by the start; nil before
}

// receive waits for what a child says when it is behind its walls, and for its terminal,
// which comes with it. A child that failed sends none.
func (t *terminal) receive(child *os.File) (said string, err error) {
	conn, err := child.SyscallConn()
	if err != nil {
		return "", err
	}
	text, rights := make([]byte, 64), make([]byte, unix.CmsgSpace(4))
	var n, m int
	var failed error
	err = conn.Read(func(fd uintptr) bool {
		n, m, _, _, failed = unix.Recvmsg(int(fd), text, rights, unix.MSG_CMSG_CLOEXEC)
		return !errors.Is(failed, unix.EAGAIN) && !errors.Is(failed, unix.EINTR)
	})
	if err := errors.Join(err, failed); err != nil || m == 0 {
		return string(text[:max(n, 0)]), err
	}
	messages, err := unix.ParseSocketControlMessage(rights[:m])
	for _, message := range messages {
		fds, wrong := unix.ParseUnixRights(&message)
		for _, fd := range fds {
			wrong = errors.Join(wrong, unix.SetNonblock(fd, true)) // for its deadlines
			t.master = os.NewFile(uintptr(fd), "terminal")         // the kernel had place for one
		}
		err = errors.Join(err, wrong)
	}
	return string(text[:n]), err
}

// close gives up the terminal of a start that failed.
func (t *terminal) close() {
	if t != nil && t.master != nil {
		_ = t.master.Close()
	}
}

// resize tells whoever is in the foreground of the terminal that it has another size.
func (t *terminal) resize(s app.Size) error {
	return control(t.master, func(fd int) error {
		return unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Row: s.Rows, Col: s.Cols})
	})
}

// control uses a descriptor that may be closed meanwhile.
func control(f *os.File, do func(fd int) error) error {
	conn, err := f.SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	err = conn.Control(func(fd uintptr) { failed = do(int(fd)) })
	return errors.Join(err, failed)
}

// session is the streams of a command that somebody reads and writes as they come.
type session struct {
	terminal  *terminal // nil where the streams are pipes
	input     *os.File
	out, errs *outlet // errs is nil with a terminal
	ended     <-chan struct{}
	closing   sync.Once
}

// newSession prepares the streams of a command of s, and returns what of them the command
// gets, which the caller closes. With size it gets a terminal, which the start makes.
func newSession(s *Spec, size *app.Size) (its []*os.File, made *session, err error) {
	if size != nil {
		s.terminal = &terminal{size: *size}
		return nil, &session{terminal: s.terminal}, nil
	}
	v := &session{}
	var files [3]*os.File // the command's
	var ours [3]*os.File
	defer func() {
		if err != nil {
			closeAll(append(files[:], ours[:]...))
		}
	}()
	for i := range files {
		r, w, err := os.Pipe()
		if err != nil {
			return nil, nil, fmt.Errorf("cannot make a pipe: %w", err)
		}
		files[i], ours[i] = w, r
		if i == 0 {
			files[i], ours[i] = r, w
		}
		// Else its user could not open /dev/stdin, which opens the pipe again.
		if err := files[i].Chown(s.UID, s.UID); err != nil {
			return nil, nil, fmt.Errorf("cannot hand a pipe over: %w", err)
		}
	}
	v.input, v.out, v.errs = ours[0], newOutlet(ours[1]), newOutlet(ours[2])
	s.Input, s.Output, s.Errors = files[0], files[1], files[2]
	return files[:], v, nil
}

func closeAll(files []*os.File) {
	for _, f := range files {
		if f != nil {
			_ = f.Close()
		}
	}
}

// begun takes the terminal over that the start has made.
func (v *session) begun() {
	if v.terminal != nil {
		v.input, v.out = v.terminal.master, newOutlet(v.terminal.master)
	}
}

// streams is how the session is used.
func (v *session) streams() app.Streams {
	s := app.Streams{Input: input{v}, Output: v.out, Ended: v.ended}
	if v.terminal != nil {
		s.Resize = v.terminal.resize
		return s
	}
	s.Errors = v.errs
	return s
}

// over tells that nothing of the command is left: what it has written can be read, and
// nobody waits for more for long.
func (v *session) over() {
	_ = v.input.SetWriteDeadline(time.Unix(1, 0))
	v.out.finish()
	if v.errs != nil {
		v.errs.finish()
	}
}

// close closes everything. Reads and writes under way end.
func (v *session) close() {
	v.closing.Do(func() {
		files := []*os.File{v.out.f}
		if v.terminal == nil {
			files = append(files, v.input, v.errs.f)
		}
		closeAll(files)
	})
}

// input is where a session's input goes.
type input struct{ *session }

// Write implements io.Writer.
func (i input) Write(p []byte) (int, error) { return i.input.Write(p) }

// Close implements io.Closer. A terminal has no end of its input: who is there types one.
func (i input) Close() error {
	if i.terminal != nil {
		return nil
	}
	return i.input.Close()
}

// lastBytes bounds what is read of a stream after the end of its command: more than a pipe
// or a terminal holds comes from somebody else, whom the command has given it to.
const lastBytes = 1 << 20

// outlet reads what a command writes.
type outlet struct {
	f    *os.File
	over chan struct{} // closed when the command has ended
	left int           // of lastBytes
}

func newOutlet(f *os.File) *outlet { return &outlet{f: f, over: make(chan struct{}), left: lastBytes} }

// finish lets reads end. It is called once.
func (o *outlet) finish() {
	close(o.over)
	_ = o.f.SetReadDeadline(time.Now().Add(drainTime)) // of one that waits
}

// Read implements io.Reader: it ends with io.EOF, whatever ended it. One goroutine reads.
func (o *outlet) Read(p []byte) (int, error) {
	select {
	case <-o.over:
		_ = o.f.SetReadDeadline(time.Now().Add(drainTime)) // a slow client may come late for what is there
		p = p[:min(len(p), o.left)]
	default:
	}
	n, err := 0, io.EOF
	if len(p) > 0 {
		n, err = o.f.Read(p)
	}
	select {
	case <-o.over:
		o.left -= n
	default:
	}
	if err != nil { // a terminal that nobody has open says EIO
		err = io.EOF
	}
	return n, err
}
