package logs

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"time"
)

// retryAfter is how long a file that could not be written is left alone; until
// then every line costs nothing but its place in the count.
const retryAfter = time.Second

// checkAgain is how often a file that is written to is checked for its name.
const checkAgain = time.Second

// file is what is needed of the current file.
type file interface {
	io.WriteCloser
	Truncate(size int64) error
}

// files is the log on disk: base.log, and the older base.log.1 to base.log.keep.
// Every file holds whole lines. It does not lock; the Log does.
type files struct {
	base string
	max  int64
	keep int

	cur  file // nil when it could not be made
	size int64
	node uint64 // its inode
	torn bool   // the file ends within a line, left by a crash

	err   error // why writing failed, nil while it works
	lost  int   // lines not written since it failed
	tried time.Time

	checked time.Time // when the current file was checked for its name
	anew    bool      // it, or its directory, had to be made again

	id    string // of the log that the positions are in, "" until locate
	begun int64  // the position at which the current file begins
	floor int64  // where in the files the positions before it are is not known
}

// path returns the name of the i-th file, 0 being the current one.
func (f *files) path(i int) string {
	if i == 0 {
		return f.base + ".log"
	}
	return f.base + ".log." + strconv.Itoa(i)
}

// makeDir makes a directory and the one that it is in, 0700, where they are missing.
// What that one is in is the data directory: when somebody moved it, nothing is made in
// its place, where the next daemon would find it and nothing else.
func makeDir(dir string) error {
	err := os.Mkdir(dir, 0o700)
	if errors.Is(err, os.ErrNotExist) {
		if err := ignoreExisting(os.Mkdir(filepath.Dir(dir), 0o700)); err != nil {
			return err
		}
		err = os.Mkdir(dir, 0o700)
	}
	return ignoreExisting(err)
}

func ignoreExisting(err error) error {
	if errors.Is(err, os.ErrExist) {
		return nil
	}
	return err
}

// open continues the current file or makes it, with its directory, which somebody
// may have removed.
func (f *files) open() error {
	open := func() (*os.File, error) {
		return os.OpenFile(f.path(0), os.O_RDWR|os.O_APPEND|os.O_CREATE|syscall.O_NOFOLLOW, 0o600)
	}
	cur, err := open()
	if errors.Is(err, os.ErrNotExist) && makeDir(filepath.Dir(f.base)) == nil {
		f.anew = true
		cur, err = open()
	}
	if err != nil {
		return fmt.Errorf("cannot open the log: %w", err)
	}
	st, err := cur.Stat()
	if err == nil && !st.Mode().IsRegular() {
		err = errors.New("not a regular file")
	}
	last := []byte{'\n'}
	if err == nil && st.Size() > 0 {
		_, err = cur.ReadAt(last, st.Size()-1)
	}
	if err != nil {
		_ = cur.Close()
		return fmt.Errorf("cannot open the log: %w", err)
	}
	f.cur, f.size, f.torn, f.node = cur, st.Size(), last[0] != '\n', inode(st)
	f.record(false)
	return nil
}

// forget counts the current file as one of the past: another takes its name.
func (f *files) forget() {
	f.begun += f.size
	f.size = 0
}

// inode returns the number of a file.
func inode(st os.FileInfo) uint64 {
	if sys, ok := st.Sys().(*syscall.Stat_t); ok {
		return sys.Ino
	}
	return 0
}

// prepare does what can be done before a write at that time, so that it is known
// where the write begins, and reports whether somebody had removed the file, or all
// of them, since the last time. That it fails shows when the write does.
func (f *files) prepare(at time.Time) (anew bool) {
	f.check(at)
	if f.err == nil {
		_ = f.ready()
	}
	anew, f.anew = f.anew, false
	return anew
}

// check finds out now and then whether the current file has its name still. Where
// somebody removed that, another file gets it: nobody could read what is written
// to the old one.
func (f *files) check(at time.Time) {
	since := at.Sub(f.checked)
	if f.cur == nil || since >= 0 && since < checkAgain {
		return
	}
	f.checked = at
	st, err := os.Lstat(f.path(0))
	if err == nil && inode(st) == f.node || err != nil && !errors.Is(err, os.ErrNotExist) {
		return
	}
	_ = f.cur.Close()
	f.cur, f.anew = nil, true
	f.forget()
	f.floor = f.begun // what is older does not end there
}

// put writes whole lines. What cannot be written is counted, and the count is
// written, with the text of stamp, when writing works again. put never fails:
// a program must not wait for a disk.
func (f *files) put(at time.Time, stamp, p []byte) {
	if !f.works(at, stamp) {
		f.lost += countNewlines(p)
		return
	}
	if rest, err := f.write(p); err != nil {
		f.err, f.tried, f.lost = err, at, countNewlines(rest)
	}
}

// works reports whether the file takes lines, as far as is known. If it did not, that is
// tried now and then, with the count of what was lost.
func (f *files) works(at time.Time, stamp []byte) bool {
	if f.err == nil {
		return true
	}
	wait := at.Sub(f.tried)
	return (wait < 0 || wait >= retryAfter) && f.settle(at, stamp)
}

// settle writes how many lines were lost, if any were, and reports whether
// everything is well afterwards.
func (f *files) settle(at time.Time, stamp []byte) bool {
	if f.err == nil {
		return true
	}
	marker := fmt.Sprintf("%s%s%s lost: cannot write the log: %s\n",
		stamp, notePrefix, countLines(f.lost), reason(f.err))
	if _, err := f.write([]byte(marker)); err != nil {
		f.err, f.tried = err, at
		return false
	}
	f.err, f.lost = nil, 0
	return true
}

// write appends whole lines, rotating between them as needed. On an error it
// returns the lines that are not in a file.
func (f *files) write(p []byte) (rest []byte, err error) {
	for len(p) > 0 {
		if err := f.ready(); err != nil {
			return p, err
		}
		n := f.fit(p)
		if n == 0 {
			if err := f.rotate(); err != nil {
				return p, err
			}
			continue
		}
		done, err := f.cur.Write(p[:n])
		if err != nil {
			return p[f.mend(p[:done]):], err
		}
		f.size += int64(n)
		p = p[n:]
	}
	return nil, nil
}

// ready makes sure that there is a file and that it ends with a whole line.
func (f *files) ready() error {
	if f.cur == nil {
		if err := f.open(); err != nil {
			return err
		}
	}
	if f.torn {
		if _, err := f.cur.Write([]byte{'\n'}); err != nil {
			return err
		}
		f.torn = false
		f.size++
	}
	return nil
}

// fit returns how many bytes of p, in whole lines, the current file takes; 0
// means rotate first. An empty file takes one line of any length.
func (f *files) fit(p []byte) int {
	free := f.max - f.size
	if int64(len(p)) <= free {
		return len(p)
	}
	n := bytes.LastIndexByte(p[:max(free, 0)], '\n') + 1
	if n == 0 && f.size == 0 {
		n = bytes.IndexByte(p, '\n') + 1
	}
	return n
}

// mend takes back the torn end of what a failed write left in the file and
// returns the length of what stays: whole lines.
func (f *files) mend(done []byte) int {
	n := bytes.LastIndexByte(done, '\n') + 1
	f.size += int64(n)
	if err := f.cur.Truncate(f.size); err != nil && n < len(done) {
		// Opening it again finds out what it holds.
		_ = f.cur.Close()
		f.cur = nil
	}
	return n
}

// rotate frees the first name: each file takes the name of the next older one, oldest
// first. A crash between two renames leaves a gap in the numbers and every
// line in a file that is still read.
func (f *files) rotate() error {
	for i := f.keep; i > 0; i-- {
		if err := os.Rename(f.path(i-1), f.path(i)); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	err := f.cur.Close()
	f.cur = nil
	f.forget()
	return errors.Join(err, f.open())
}

// reset replaces everything by an empty file. Files are removed, not
// truncated, so that a snapshot under way keeps its text.
func (f *files) reset() error {
	var errs []error
	if f.cur != nil {
		errs = append(errs, f.cur.Close())
		f.cur = nil
	}
	for i := f.keep; i >= 0; i-- {
		if err := os.Remove(f.path(i)); err != nil && !errors.Is(err, os.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	f.err, f.lost = nil, 0
	f.forget()
	if err := errors.Join(append(errs, f.open())...); err != nil {
		return fmt.Errorf("cannot reset the log: %w", err)
	}
	return nil
}

// close closes the current file; it fails when lines were lost.
func (f *files) close() error {
	var err error
	if f.cur != nil {
		f.record(true)
		err = f.cur.Close()
		f.cur = nil
	}
	if f.err != nil {
		err = errors.Join(fmt.Errorf("cannot write the log, %s lost: %w", countLines(f.lost), f.err), err)
	}
	return err
}

// reason returns why writing failed without the path of the host: the user
// reads it.
func reason(err error) string {
	var errno syscall.Errno
	if errors.As(err, &errno) {
		return errno.Error()
	}
	return "the disk refused it"
}

// countNewlines returns the number of lines in p.
func countNewlines(p []byte) int { return bytes.Count(p, []byte{'\n'}) }

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
	f.cut(index, at) // first: if this daemon is killed as well, the next one cuts the same
	var errs []error
	for i := range index {
		if err := os.Truncate(f.path(i), 0); !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	errs = append(errs, os.Truncate(f.path(index), at))
	if f.cur != nil {
		errs = append(errs, f.cur.Close())
		f.cur = nil
	}
	return errors.Join(append(errs, f.open())...)
}

// snapshot is the text of several open files up to the size they had. Open
// files outlive being renamed and removed.
type snapshot struct {
	io.Reader
	files []*os.File
	parts []*io.SectionReader // of each file
}

// Close closes every file.
func (s *snapshot) Close() error {
	var errs []error
	for _, f := range s.files {
		errs = append(errs, f.Close())
	}
	return errors.Join(errs...)
}

// snapshot opens everything there is, oldest first.
func (f *files) snapshot() (*snapshot, error) {
	s := &snapshot{}
	var parts []io.Reader
	for i := f.keep; i >= 0; i-- {
		file, n, err := openSized(f.path(i))
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			_ = s.Close()
			return nil, fmt.Errorf("cannot read the log: %w", err)
		}
		s.files = append(s.files, file)
		s.parts = append(s.parts, io.NewSectionReader(file, 0, n))
		parts = append(parts, io.NewSectionReader(file, 0, n))
	}
	s.Reader = io.MultiReader(parts...)
	return s, nil
}

// openSized opens a file and tells how long it is now.
func openSized(path string) (*os.File, int64, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, 0, err
	}
	st, err := file.Stat()
	if err != nil {
		_ = file.Close()
		return nil, 0, err
	}
	return file, st.Size(), nil
}

// prime fills t with the end of what an earlier daemon wrote. A crash of the
// host can leave anything in a file, so the text is made valid.
func (f *files) prime(t *tail) error {
	var parts [][]byte
	need := tailSize
	for i := 0; i <= f.keep && need > 0; i++ {
		p, err := lastBytes(f.path(i), need)
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			return fmt.Errorf("cannot read the log: %w", err)
		}
		parts = append(parts, p)
		need -= len(p)
	}
	slices.Reverse(parts)
	text := bytes.Join(parts, nil)
	if need == 0 { // then it begins within a line
		_, text, _ = bytes.Cut(text, []byte{'\n'})
	}
	text = clean(text)
	if n := len(text); n > 0 && text[n-1] != '\n' {
		text = append(text, '\n')
	}
	t.add(text)
	return nil
}

// clean makes text of what is in a file.
func clean(p []byte) []byte {
	return bytes.ToValidUTF8(bytes.ReplaceAll(p, []byte{0}, []byte{'?'}), []byte{'?'})
}

// lastBytes returns at most the last n bytes of a file.
func lastBytes(path string, n int) ([]byte, error) {
	file, size, err := openSized(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	n = int(min(int64(n), size))
	p := make([]byte, n)
	if _, err := io.ReadFull(io.NewSectionReader(file, size-int64(n), int64(n)), p); err != nil {
		return nil, err
	}
	return p, nil
}
