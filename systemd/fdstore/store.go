package fdstore

import (
	"errors"
	"os"
	"os/signal"
	"slices"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Word is the argument with which the binary hands over to Main.
const Word = "keep-descriptors"

// What is sent on the socket, one message each (SOCK_SEQPACKET): a letter and a
// name. An answer is yes, or no and why; before it come the descriptors asked for.
const (
	requestHold    = 'H' // with one descriptor
	requestRelease = 'R'
	requestHeld    = 'L'
	answerFile     = 'F' // with one descriptor
	answerYes      = '+'
	answerNo       = '-'

	maxName = 255
)

const (
	listenFD = 3 // where the process finds its socket
	dirFD    = 4 // and the directory that has it

	// patience is how long one side waits for the other, and how long the process
	// waits for the daemon that started it.
	patience = 30 * time.Second
	// lookAfter is how often a process without a daemon looks whether what it
	// keeps can still be reached.
	lookAfter = time.Minute
)

// Main is the process that keeps them, on the listening socket that is its descriptor 3 and the
// directory that is its descriptor 4. It does not return.
func Main() {
	// What ends a session ends the daemon alone. SIGTERM is not for that: with it
	// a service manager, or a host that goes down, ends whatever is left.
	signal.Ignore(syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGPIPE)
	_ = os.WriteFile("/proc/self/comm", []byte("berth-keeper"), 0) // else it is called "exe"
	s := &store{listener: listenFD, dir: dirFD, uid: uint32(os.Geteuid()), held: map[string]int{}, look: lookAfter}
	if err := s.run(); err != nil {
		os.Exit(1)
	}
	os.Exit(0)
}

// store keeps descriptors. One goroutine and no poller of Go's: its memory is
// what a Go program has at least.
type store struct {
	listener int
	dir      int
	node     uint64 // of its socket in dir
	uid      uint32 // whom it obeys
	held     map[string]int
	conns    []int
	look     time.Duration
	in, oob  [512]byte
}

// run serves until nothing is kept and nobody is connected.
func (s *store) run() error {
	Shrink() // what starting took
	s.node, _ = s.socket()
	wait := patience
	for {
		set := []unix.PollFd{{Fd: int32(s.listener), Events: unix.POLLIN}}
		for _, c := range s.conns {
			set = append(set, unix.PollFd{Fd: int32(c), Events: unix.POLLIN})
		}
		n, err := unix.Poll(set, int(wait.Milliseconds()))
		if err != nil && !errors.Is(err, unix.EINTR) {
			return err
		}
		if n > 0 {
			s.serve(set)
		}
		if len(s.conns) > 0 {
			wait = -time.Millisecond // for ever
			continue
		}
		s.drop()
		if len(s.held) == 0 && !s.pending() {
			return nil
		}
		wait = s.look
	}
}

// pending reports whether somebody has connected meanwhile.
func (s *store) pending() bool {
	n, err := unix.Poll([]unix.PollFd{{Fd: int32(s.listener), Events: unix.POLLIN}}, 0)
	return err == nil && n > 0
}

// serve does what is asked on the sockets that have something.
func (s *store) serve(set []unix.PollFd) {
	for _, p := range set[1:] {
		if c := int(p.Fd); p.Revents != 0 && !s.answer(c) {
			_ = unix.Close(c)
			s.conns = slices.DeleteFunc(s.conns, func(other int) bool { return other == c })
			Shrink() // it may wait for long now
		}
	}
	if set[0].Revents == 0 {
		return
	}
	c, _, err := unix.Accept4(s.listener, unix.SOCK_CLOEXEC)
	if err != nil {
		return
	}
	if !isPeer(c, s.uid) || setPatience(c) != nil {
		_ = unix.Close(c)
		return
	}
	s.conns = append(s.conns, c)
}

// isPeer reports whether the other side is the user's.
func isPeer(fd int, uid uint32) bool {
	peer, err := unix.GetsockoptUcred(fd, unix.SOL_SOCKET, unix.SO_PEERCRED)
	return err == nil && peer.Uid == uid
}

// setPatience bounds how long a read from or a write to a socket waits.
func setPatience(fd int) error {
	limit := unix.NsecToTimeval(int64(patience))
	return errors.Join(
		unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &limit),
		unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_SNDTIMEO, &limit))
}

// answer takes one message and does what it asks; false ends the connection.
func (s *store) answer(c int) bool {
	message, fds, err := receive(c, s.in[:], s.oob[:])
	if err != nil || len(message) == 0 {
		return false
	}
	refuse := ""
	name := string(message[1:])
	switch {
	case message[0] == requestHeld:
		for name, fd := range s.held {
			if send(c, answerFile, name, fd) != nil {
				return false
			}
		}
	case name == "" || len(name) > maxName:
		refuse = "not a name"
	case message[0] == requestRelease:
		s.release(name)
	case message[0] == requestHold && len(fds) == 1:
		s.release(name)
		s.held[name], fds = fds[0], nil
	case message[0] == requestHold:
		refuse = "no descriptor came with it; too many are open"
	default:
		refuse = "unknown request"
	}
	for _, fd := range fds {
		_ = unix.Close(fd)
	}
	if refuse != "" {
		return send(c, answerNo, refuse, -1) == nil
	}
	return send(c, answerYes, "", -1) == nil
}

func (s *store) release(name string) {
	if fd, ok := s.held[name]; ok {
		_ = unix.Close(fd)
		delete(s.held, name)
	}
}

// drop gives up everything once the socket has no name any more, or another
// store's has it: no daemon can ask for it then.
func (s *store) drop() {
	if node, ok := s.socket(); ok && node == s.node {
		return
	}
	for name := range s.held {
		s.release(name)
	}
}

// socket returns the inode of what is called as the socket is; false if there
// is nothing.
func (s *store) socket() (node uint64, ok bool) {
	var st unix.Stat_t
	err := unix.Fstatat(s.dir, socketName, &st, unix.AT_SYMLINK_NOFOLLOW)
	return st.Ino, !errors.Is(err, unix.ENOENT)
}

// send sends one message, with a descriptor unless that is negative.
func send(c int, letter byte, text string, fd int) error {
	var rights []byte
	if fd >= 0 {
		rights = unix.UnixRights(fd)
	}
	for {
		err := unix.Sendmsg(c, append([]byte{letter}, text...), rights, nil, unix.MSG_NOSIGNAL)
		if !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

// receive takes one message, nothing at the end, and the descriptors that came
// with it.
func receive(c int, p, oob []byte) (message []byte, fds []int, err error) {
	n, on := 0, 0
	for {
		n, on, _, _, err = unix.Recvmsg(c, p, oob, unix.MSG_CMSG_CLOEXEC)
		if !errors.Is(err, unix.EINTR) {
			break
		}
	}
	if err != nil {
		return nil, nil, err
	}
	list, err := unix.ParseSocketControlMessage(oob[:on])
	if err != nil {
		return p[:n], nil, nil // none came
	}
	for i := range list {
		if more, err := unix.ParseUnixRights(&list[i]); err == nil {
			fds = append(fds, more...)
		}
	}
	return p[:n], fds, nil
}
