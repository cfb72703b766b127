package logs

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// fifo is the log's own end of the FIFO and the goroutine that reads it.
//
// It is open for reading and writing: a FIFO without a writer reports an end
// of file over and over, and one without a reader kills whoever writes.
type fifo struct {
	file *os.File
	conn syscall.RawConn
	done chan struct{} // closed when the pump has ended

	stopped chan struct{} // closed to end the pump

	big    bool      // it holds busyPipe
	filled time.Time // when a read last found all it could take
}

// resize makes the FIFO as large as a program needs that just printed n bytes.
// Where the kernel refuses it stays as it is.
func (f *fifo) resize(fd int, n int, now time.Time) {
	if n >= idlePipe {
		f.filled = now
		if !f.big {
			_, err := unix.FcntlInt(uintptr(fd), unix.F_SETPIPE_SZ, busyPipe)
			f.big = err == nil
		}
	} else if f.big && now.Sub(f.filled) > busyFor {
		f.shrink(fd)
	}
}

// shrink gives back what a busy program had; it fails while more is in it.
func (f *fifo) shrink(fd int) {
	if f.big {
		_, err := unix.FcntlInt(uintptr(fd), unix.F_SETPIPE_SZ, idlePipe)
		f.big = err != nil
	}
}

const (
	// idlePipe is what the kernel gives a FIFO, busyPipe what a program gets
	// that fills it: it then waits less often, and prints more than twice as
	// fast. Both count against the pages that a user may have in pipes
	// (pipe(7)), so a program that prints little again gives it back.
	idlePipe = readSize
	busyPipe = 1 << 20
	busyFor  = 10 * time.Second

	// A program that prints without end is read with a pause after each
	// busyPipe: without it the daemon would spend a core on counting what it
	// drops, or on keeping what has no rate. One that has sprint bytes to say
	// at once loses lines but no time.
	sprint    = 512 << 20
	floodPace = 10 * time.Millisecond
)

// Pipe returns the file to give to a program as both its stdout and its
// stderr, and belongs to uid and gid from then on (-1 keeps either). The
// caller MUST close it once the program has started. Pipe may be called again
// for the next run; it is the same FIFO, and a FIFO left by an earlier daemon
// is continued. The program may open it again, as in "echo >/dev/stderr".
func (l *Log) Pipe(uid, gid int) (*os.File, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return nil, fmt.Errorf("cannot open the FIFO: %w", os.ErrClosed)
	}
	if l.fifo == nil {
		if err := l.attach(unread{}); err != nil {
			return nil, fmt.Errorf("cannot open the FIFO: %w", err)
		}
	}
	child, err := l.fifo.reopen(uid, gid)
	if err != nil {
		return nil, fmt.Errorf("cannot open the FIFO: %w", err)
	}
	return child, nil
}

// openFIFO opens path for reading without blocking, and makes it first unless
// a FIFO is there already.
func openFIFO(path string) (*fifo, error) {
	st, err := os.Lstat(path)
	if err == nil && st.Mode().Type() != fs.ModeNamedPipe {
		if err := os.Remove(path); err != nil {
			return nil, err
		}
		err = fs.ErrNotExist
	}
	if errors.Is(err, fs.ErrNotExist) {
		err = unix.Mkfifo(path, 0o600)
	}
	if err != nil {
		return nil, err
	}
	// O_NONBLOCK is what makes os.File use the poller, so that closing the file
	// wakes the pump.
	file, err := os.OpenFile(path, os.O_RDWR|unix.O_NONBLOCK|unix.O_NOFOLLOW, 0)
	if err != nil {
		return nil, err
	}
	return newFIFO(file)
}

// newFIFO takes a FIFO that is open for both without blocking.
func newFIFO(file *os.File) (*fifo, error) {
	conn, err := file.SyscallConn()
	if err != nil {
		_ = file.Close()
		return nil, err
	}
	return &fifo{file: file, conn: conn, done: make(chan struct{}), stopped: make(chan struct{})}, nil
}

// reopen gives the FIFO to uid and gid and opens it once more. The program
// gets a description of its own, because O_NONBLOCK belongs to the
// description: programs expect a stdout that blocks.
func (f *fifo) reopen(uid, gid int) (child *os.File, err error) {
	if err := f.file.Chown(uid, gid); err != nil {
		return nil, err
	}
	if err := f.file.Chmod(0o600); err != nil {
		return nil, err
	}
	return openAgain(f.file, 0)
}

// openAgain opens a FIFO once more, through /proc: it is the same one, whatever has
// become of the name.
func openAgain(file *os.File, flags int) (again *os.File, err error) {
	conn, err := file.SyscallConn()
	if err != nil {
		return nil, err
	}
	failed := conn.Control(func(fd uintptr) {
		var n int
		n, err = unix.Open("/proc/self/fd/"+strconv.Itoa(int(fd)), unix.O_RDWR|unix.O_CLOEXEC|flags, 0)
		if err == nil {
			again = os.NewFile(uintptr(n), file.Name())
		}
	})
	return again, errors.Join(failed, err)
}

// openKeptFIFO opens a FIFO that somebody kept for reading: see openFIFO.
func openKeptFIFO(kept *os.File) (*fifo, error) {
	st, err := kept.Stat()
	if err != nil {
		return nil, err
	}
	if st.Mode().Type() != fs.ModeNamedPipe {
		return nil, &fs.PathError{Op: "open", Path: kept.Name(), Err: unix.EINVAL}
	}
	file, err := openAgain(kept, unix.O_NONBLOCK)
	if err != nil {
		return nil, err
	}
	return newFIFO(file)
}

// stop closes the log's end and blocks until the pump has ended. The lock
// MUST NOT be held: the pump may be waiting for it.
func (f *fifo) stop() {
	close(f.stopped)
	_ = f.file.Close()
	<-f.done
}

// pump reads the FIFO until it is closed.
func (l *Log) pump(f *fifo) {
	defer close(f.done)
	read, flooding := 0, false
	pull := func(fd uintptr) bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		read = 0
		if !l.closed {
			read = l.pull(int(fd))
		}
		flooding = l.gate.flooding()
		return read > 0
	}
	var flood flood
	// Read calls pull, and again whenever something has arrived, until it
	// returns true. It fails only when the file is closed.
	for f.conn.Read(pull) == nil {
		if !flood.endless(int64(read), flooding) {
			continue
		}
		select {
		case <-time.After(floodPace):
		case <-f.stopped:
		}
	}
}

// flood is what a program has printed beyond the rate.
type flood struct{ bytes, next int64 }

// endless counts n bytes that were read, and reports whether a pause is due.
// What is no part of the flood counts against it.
func (f *flood) endless(n int64, flooding bool) bool {
	if !flooding {
		f.bytes = max(f.bytes-n, 0)
		f.next = f.bytes
		return false
	}
	f.bytes += n
	if f.bytes < max(f.next, sprint) {
		return false
	}
	f.next = f.bytes + busyPipe
	return true
}

// pull takes once what has arrived and returns how much that was. It stays in
// the FIFO until it is in the file: whenever the daemon is killed, it is in one
// of them.
func (l *Log) pull(fd int) int {
	in := inputs.Get().(*input)
	defer inputs.Put(in)
	kept := copy(in[:], l.lines.carry)
	n, ok := peek(fd, in[kept:kept+readSize])
	if !ok { // without pipes to spare it is read, and lost with the daemon
		n = readOnce(fd, in[kept:kept+readSize])
	}
	if n <= 0 {
		return 0
	}
	l.lines.carry = l.lines.carry[:0]
	if ok {
		l.lines.src, l.lines.fd = in[kept:kept+n], fd
	}
	l.arrived(in[:kept+n])
	l.lines.src = nil
	l.fifo.resize(fd, n, l.lastRead)
	return n
}

// pullAll reads what was in the FIFO at the time of the call and perhaps some
// of what comes meanwhile, but no more than the FIFO can hold: something may
// still be writing to it.
func (l *Log) pullAll() {
	if l.fifo == nil {
		return
	}
	_ = l.fifo.conn.Control(func(fd uintptr) {
		limit, err := unix.FcntlInt(fd, unix.F_GETPIPE_SZ, 0)
		if err != nil {
			limit = readSize
		}
		for n := 1; n > 0 && limit > 0; limit -= n {
			n = l.pull(int(fd))
		}
	})
}

// strayed reports whether a FIFO that somebody kept is not the one at path:
// somebody removed that name, and whoever opens it now reads nothing of what the
// program prints.
func strayed(kept *os.File, path string) bool {
	mine, err := kept.Stat()
	if err != nil {
		return false
	}
	there, err := os.Lstat(path)
	return err != nil || !os.SameFile(mine, there)
}

// unread is what is known of the FIFO's first bytes when a log is opened.
type unread struct {
	skip  int    // so many are in the log already,
	sum   uint32 // if this is their checksum
	doubt bool   // some may be in the log already
	seq   uint64 // of the last note
}

// resume brings the files to where a daemon that was killed would have brought
// them, or was before, and takes over what it had in memory. The files MUST be
// open.
func (l *Log) resume() (unread, error) {
	last, before := readJournal(l.files.base + ".state")
	if last == nil {
		_, err := os.Lstat(l.files.base + ".state")
		return unread{doubt: err == nil}, nil
	}
	index, after, ok := l.files.since(last.Inode, last.At)
	switch {
	case !ok || after > last.Wrote:
		return unread{seq: last.Seq, doubt: true}, nil
	case after < last.Wrote:
		// Nothing was taken out of the FIFO, so it is written again.
		if err := l.files.rollback(index, last.At); err != nil {
			return unread{}, fmt.Errorf("cannot mend the log: %w", err)
		}
		if before != nil {
			l.restore(before)
		}
		return unread{seq: last.Seq, doubt: before == nil}, nil
	}
	l.restore(last)
	taken, certain := last.taken()
	if taken {
		return unread{seq: last.Seq}, nil
	}
	if !certain {
		return unread{seq: last.Seq, doubt: true}, nil
	}
	return unread{skip: int(last.Raw), sum: last.Sum, seq: last.Seq}, nil
}

// restore takes over what was in the memory of an earlier daemon.
func (l *Log) restore(e *entry) {
	l.lines.part = append(l.lines.part[:0], e.part...)
	l.lines.carry = append(l.lines.carry[:0], e.carry...)
	l.gate.lines, l.gate.bytes = int(e.Lines), e.Bytes
	l.gate.shut = e.Lines > 0 // so that the next line is told of them
	if e.Lost > 0 {
		l.files.lost, l.files.err = int(e.Lost), syscall.Errno(e.Errno)
	}
}

// note writes to the journal, if there is one, what is about to be done.
func (l *Log) note(wrote int, raw []byte) (mark []byte) {
	if l.journal == nil {
		return nil
	}
	s, f := &l.lines, &l.files
	n := note{
		Inode: f.node, At: f.size, Wrote: int64(wrote),
		Lines: int64(l.gate.lines), Bytes: l.gate.bytes,
	}
	if f.err != nil {
		var errno syscall.Errno
		errors.As(f.err, &errno)
		n.Errno, n.Lost = uint32(errno), int64(f.lost)
	}
	part := s.part // between two batches
	if s.out != nil {
		part = s.out[s.start:]
	}
	return l.journal.write(n, raw, part, s.carry)
}

// attach opens the FIFO, the one that somebody kept or that of the log's name,
// which is made if need be, and starts to read it.
func (l *Log) attach(u unread) error {
	path := l.files.base + ".fifo"
	open := func() (*fifo, error) { return openFIFO(path) }
	if l.kept != nil {
		l.stray = strayed(l.kept, path)
		open = func() (*fifo, error) { return openKeptFIFO(l.kept) }
	}
	f, err := open()
	if err != nil {
		return err
	}
	// Without a journal nothing is lost, and a repeat is told as one.
	l.journal, _ = openJournal(l.files.base+".state", l.opts.MaxLine, u.seq)
	l.fifo = f
	if u.skip > 0 || u.doubt {
		_ = f.conn.Control(func(fd uintptr) { l.settleInput(int(fd), u) })
	}
	l.note(0, nil)
	go l.pump(f)
	return nil
}

// settleInput takes what is in the log already out of the FIFO. Where that is
// not certain it says so, and what is there is repeated rather than lost.
func (l *Log) settleInput(fd int, u unread) {
	in := inputs.Get().(*input)
	defer inputs.Put(in)
	if u.skip > 0 && u.skip <= len(in) {
		n, _ := peek(fd, in[:u.skip])
		if n == u.skip && checksum(in[:n]) == u.sum {
			var mark []byte
			if l.journal != nil && l.journal.same { // this daemon may be killed as well
				mark = l.journal.mark(n)
			}
			consume(fd, in[:n], mark)
			return
		}
	}
	if n, err := unix.IoctlGetInt(fd, unix.TIOCINQ); err == nil && n > 0 {
		b := l.begin(l.opts.Now())
		l.berth(fmt.Sprintf("berth was killed: up to %s of what follows may be a repeat", size(int64(min(n, readSize)))))
		l.finish(b)
	}
}

// held reports whether anybody, a program or a keeper, has a FIFO open: then
// there may be something in it, and more may come.
func held(path string) bool {
	fd, err := unix.Open(path, unix.O_WRONLY|unix.O_NONBLOCK|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return false // ENXIO: nobody has
	}
	defer func() { _ = unix.Close(fd) }()
	var st unix.Stat_t
	return unix.Fstat(fd, &st) == nil && st.Mode&unix.S_IFMT == unix.S_IFIFO
}
