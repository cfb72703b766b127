package logs

import (
	"errors"
	"sync"

	"golang.org/x/sys/unix"
)

// mirror is a pipe that takes copies of what is in a FIFO (tee(2)); it is empty
// between two looks. It costs a description or two, whichever log is busy.
type mirror struct{ out, in int }

// mirrors are those that nobody uses, at most idleMirrors.
var mirrors struct {
	mu   sync.Mutex
	idle []mirror
}

const idleMirrors = 4

// acquireMirror returns a mirror; false where no pipe can be had.
func acquireMirror() (mirror, bool) {
	mirrors.mu.Lock()
	defer mirrors.mu.Unlock()
	if n := len(mirrors.idle); n > 0 {
		m := mirrors.idle[n-1]
		mirrors.idle = mirrors.idle[:n-1]
		return m, true
	}
	var p [2]int
	if err := unix.Pipe2(p[:], unix.O_CLOEXEC|unix.O_NONBLOCK); err != nil {
		return mirror{}, false
	}
	// What a program prints in small pieces fills more places with less.
	_, _ = unix.FcntlInt(uintptr(p[1]), unix.F_SETPIPE_SZ, 4*readSize)
	return mirror{p[0], p[1]}, true
}

// release keeps an empty mirror for the next one, or closes it.
func (m mirror) release(empty bool) {
	mirrors.mu.Lock()
	defer mirrors.mu.Unlock()
	if empty && len(mirrors.idle) < idleMirrors {
		mirrors.idle = append(mirrors.idle, m)
		return
	}
	_ = unix.Close(m.out)
	_ = unix.Close(m.in)
}

// peek copies to p what a FIFO begins with; it stays there. It does not wait:
// 0 or less means that nothing is there. ok is false where it cannot be done.
func peek(fd int, p []byte) (n int, ok bool) {
	m, ok := acquireMirror()
	if !ok {
		return 0, false
	}
	var there int64
	err := error(unix.EINTR)
	for errors.Is(err, unix.EINTR) {
		there, err = unix.Tee(fd, m.in, len(p), unix.SPLICE_F_NONBLOCK)
	}
	if there > 0 {
		n = readOnce(m.out, p[:there])
	}
	m.release(err == nil && int64(n) == there || errors.Is(err, unix.EAGAIN))
	return n, err == nil && int64(n) == there || errors.Is(err, unix.EAGAIN)
}

// consume takes raw out of the FIFO, which begins with it, and reads it to
// where it is already. Its last bytes go to mark, if there is one, and are the
// last to be read: when they are there, all are taken, and else none, for no
// signal interrupts a read that need not wait.
func consume(fd int, raw, mark []byte) {
	n := 0
	if k := len(mark); k > 0 {
		n = readvOnce(fd, raw[:len(raw)-k], mark)
	}
	for n < len(raw) {
		done := readOnce(fd, raw[n:])
		if done <= 0 {
			return
		}
		n += done
	}
}

// readvOnce reads without waiting, to p first; at least 0.
func readvOnce(fd int, p, q []byte) int {
	for {
		n, err := unix.Readv(fd, [][]byte{p, q})
		if !errors.Is(err, unix.EINTR) {
			return max(n, 0)
		}
	}
}

// readOnce reads without waiting; 0 or less means that nothing is there.
func readOnce(fd int, p []byte) int {
	for {
		n, err := unix.Read(fd, p)
		if !errors.Is(err, unix.EINTR) {
			return n
		}
	}
}
