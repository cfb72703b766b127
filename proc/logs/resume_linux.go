package logs

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

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

// since finds the file with the inode and returns which it is and how many
// bytes were written since it had the size at: to it and to the newer ones.
func (f *files) since(node uint64, at int64) (index int, after int64, ok bool) {
	for i := 0; i <= f.keep; i++ {
		st, err := os.Lstat(f.path(i))
		if err != nil {
			continue
		}
		after += st.Size()
		if inode(st) == node {
			return i, after - at, st.Size() >= at
		}
	}
	return 0, 0, false
}

// rollback takes back what was written since the index-th file had the size at.
func (f *files) rollback(index int, at int64) error {
	var errs []error
	for i := range index {
		if err := os.Truncate(f.path(i), 0); !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	errs = append(errs, os.Truncate(f.path(index), at), f.cur.Close())
	f.cur = nil
	return errors.Join(append(errs, f.open())...)
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
		open = func() (*fifo, error) { return again(l.kept) }
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
