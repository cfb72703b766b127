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

// What is said on the socket, one message each (SOCK_SEQPACKET): a letter and a
// name. An answer is yes, or no and why; before it come the descriptors asked for.
const (
	askHold    = 'H' // with one descriptor
	askRelease = 'R'
	askHeld    = 'L'
	sayFile    = 'F' // with one descriptor
	sayYes     = '+'
	sayNo      = '-'

	maxName = 255
)

const (
	listenFD = 3 // where a keeper finds its socket
	dirFD    = 4 // and the directory that has it

	// patience is how long one side waits for the other, and how long a keeper
	// waits for the daemon that started it.
	patience = 30 * time.Second
	// lookAfter is how often a keeper without a daemon looks whether what it
	// keeps can still be reached.
	lookAfter = time.Minute
)

// Main is a keeper, on the listening socket that is its descriptor 3 and the
// directory that is its descriptor 4. It does not return.
func Main() {
	// What ends a session ends the daemon alone. SIGTERM is not for that: with it
	// a service manager, or a host that goes down, ends whatever is left.
	signal.Ignore(syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGPIPE)
	_ = os.WriteFile("/proc/self/comm", []byte("berth-keeper"), 0) // else it is called "exe"
	k := &keeper{listener: listenFD, dir: dirFD, uid: uint32(os.Geteuid()), held: map[string]int{}, look: lookAfter}
	if err := k.run(); err != nil {
		os.Exit(1)
	}
	os.Exit(0)
}

// keeper keeps descriptors. One goroutine and no poller of Go's: its memory is
// what a Go program has at least.
type keeper struct {
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
func (k *keeper) run() error {
	Shrink() // what starting took
	k.node, _ = k.socket()
	wait := patience
	for {
		set := []unix.PollFd{{Fd: int32(k.listener), Events: unix.POLLIN}}
		for _, c := range k.conns {
			set = append(set, unix.PollFd{Fd: int32(c), Events: unix.POLLIN})
		}
		n, err := unix.Poll(set, int(wait.Milliseconds()))
		if err != nil && !errors.Is(err, unix.EINTR) {
			return err
		}
		if n > 0 {
			k.serve(set)
		}
		if len(k.conns) > 0 {
			wait = -time.Millisecond // for ever
			continue
		}
		k.drop()
		if len(k.held) == 0 && !k.pending() {
			return nil
		}
		wait = k.look
	}
}

// pending reports whether somebody has connected meanwhile.
func (k *keeper) pending() bool {
	n, err := unix.Poll([]unix.PollFd{{Fd: int32(k.listener), Events: unix.POLLIN}}, 0)
	return err == nil && n > 0
}

// serve does what is asked on the sockets that have something.
func (k *keeper) serve(set []unix.PollFd) {
	for _, p := range set[1:] {
		if c := int(p.Fd); p.Revents != 0 && !k.answer(c) {
			_ = unix.Close(c)
			k.conns = slices.DeleteFunc(k.conns, func(other int) bool { return other == c })
			Shrink() // it may wait for long now
		}
	}
	if set[0].Revents == 0 {
		return
	}
	c, _, err := unix.Accept4(k.listener, unix.SOCK_CLOEXEC)
	if err != nil {
		return
	}
	if !isPeer(c, k.uid) || setPatience(c) != nil {
		_ = unix.Close(c)
		return
	}
	k.conns = append(k.conns, c)
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
func (k *keeper) answer(c int) bool {
	said, fds, err := receive(c, k.in[:], k.oob[:])
	if err != nil || len(said) == 0 {
		return false
	}
	refuse := ""
	name := string(said[1:])
	switch {
	case said[0] == askHeld:
		for name, fd := range k.held {
			if send(c, sayFile, name, fd) != nil {
				return false
			}
		}
	case name == "" || len(name) > maxName:
		refuse = "not a name"
	case said[0] == askRelease:
		k.release(name)
	case said[0] == askHold && len(fds) == 1:
		k.release(name)
		k.held[name], fds = fds[0], nil
	case said[0] == askHold:
		refuse = "no descriptor came with it; too many are open"
	default:
		refuse = "unknown request"
	}
	for _, fd := range fds {
		_ = unix.Close(fd)
	}
	if refuse != "" {
		return send(c, sayNo, refuse, -1) == nil
	}
	return send(c, sayYes, "", -1) == nil
}

func (k *keeper) release(name string) {
	if fd, ok := k.held[name]; ok {
		_ = unix.Close(fd)
		delete(k.held, name)
	}
}

// drop gives up everything once the socket has no name any more, or another
// keeper's has it: no daemon can ask for it then.
func (k *keeper) drop() {
	if node, ok := k.socket(); ok && node == k.node {
		return
	}
	for name := range k.held {
		k.release(name)
	}
}

// socket returns the inode of what is called as the socket is; false if there
// is nothing.
func (k *keeper) socket() (node uint64, ok bool) {
	var st unix.Stat_t
	err := unix.Fstatat(k.dir, socketName, &st, unix.AT_SYMLINK_NOFOLLOW)
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
func receive(c int, p, oob []byte) (said []byte, fds []int, err error) {
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
