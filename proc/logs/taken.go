package logs

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"time"
	"unicode/utf8"
)

const (
	// maxPlace bounds a place.
	maxPlace = 200

	// takenSize is what a record has on the disk, whatever its places are made of: it is
	// written over, which a full disk does not refuse, and at once, for it is one page.
	takenSize = 4096

	takenInfix  = ".from-" // between the log's name and the run in the name of a record
	traceSuffix = ".taken" // of the file that stays when the records are removed: see Book.Ran

	mayRepeat = "it is not known what was in the log already: some of the lines that follow may be a repeat"
)

// runName is what a run may be called.
var runName = regexp.MustCompile(`^[A-Za-z0-9_-]{1,63}$`)

// Line is a line that a program printed elsewhere.
type Line struct {
	At   time.Time // as it was stamped there
	Text []byte    // without its end
}

// source is a run whose lines are taken.
type source struct {
	place string    // how far it was read
	doubt bool      // some of what is behind the place may be in the log
	clock time.Time // its youngest stamp
}

// taken is the record of a run: where its last batch is in the log, and what is true without
// it and with it. As long as the end of the log is End, the batch is not in it.
type taken struct {
	Log    string  `json:"log"`
	Boot   string  `json:"boot"`  // of the kernel
	End    int64   `json:"end"`   // the position of the log's end before the batch
	Wrote  int64   `json:"wrote"` // the bytes of the batch
	Before reached `json:"before"`
	After  reached `json:"after"`
}

// reached is how far a run was read, and what is to be said of that.
type reached struct {
	Place string `json:"place"`
	Doubt bool   `json:"doubt,omitempty"`
	Lines int    `json:"lines,omitempty"` // dropped by the gate and not yet admitted, of any run
	Bytes int64  `json:"bytes,omitempty"`
}

// Take adds lines that a program printed elsewhere, and keeps with them the place up to which
// they were read: text of at most 200 bytes, which only the caller understands. Whenever the
// daemon is killed, the next one's Taken returns the place of what is in the log. run MUST be
// a word of at most 63 letters, digits, "-" and "_". The lines of one call are written at
// once, so they should have no more than 64 KB of text.
//
// A line keeps its stamp, but it is never older than the line before it in the log, and never
// younger than now, whatever clocks the machines have. The rate is that of the stamps, so a
// backlog costs no line that would have passed in its time. The lines of one run should come
// in the order of their stamps: older ones pass at the rate of the host's clock.
//
// On an error nothing is taken, and the caller tries again later. A call without lines moves
// the place on. One before a program is started makes it known to Book.Ran.
//
// After a power cut, or when somebody removed files, it may not be known what the log has.
// Then Taken returns a place of before, and a line before the next ones says that they may be
// a repeat.
func (l *Log) Take(run string, lines []Line, place string) error {
	if err := checkRun(run); err != nil {
		return err
	}
	if len(place) > maxPlace || !utf8.ValidString(place) {
		return fmt.Errorf("cannot keep a place of %d bytes: it is too long or no text", len(place))
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return fmt.Errorf("cannot take lines: %w", os.ErrClosed)
	}
	l.pullAll()
	l.lastRead = l.opts.Now()
	b := l.begin(l.lastRead)
	if l.lines.begun() {
		l.endLine(cutLine)
	}
	l.commit(0) // that is no part of the batch
	src := l.sources[run]
	if src == nil {
		src = &source{}
	}
	gate, last, clock := l.gate, l.lines.last, src.clock
	l.stampAll(src, lines)
	before := reached{src.place, src.doubt, gate.lines, gate.bytes}
	err := l.commitTaken(run, src, before, reached{place, false, l.gate.lines, l.gate.bytes})
	l.lines.out, l.lines.start = l.lines.out[:0], 0
	if err != nil {
		l.gate, l.lines.last, src.clock = gate, last, clock
		err = fmt.Errorf("cannot take lines: %w", err)
	}
	l.finish(b)
	return err
}

// checkRun refuses what could not be part of a file's name.
func checkRun(run string) error {
	if !runName.MatchString(run) {
		return fmt.Errorf("cannot take lines of a run named %q: not a plain word", run)
	}
	return nil
}

// Taken returns the place of the last lines of a run that are in the log, "" when none were
// taken. It works after Close as well.
func (l *Log) Taken(run string) (place string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if src := l.sources[run]; src != nil {
		return src.place
	}
	return ""
}

// Forget forgets the place of a run that has ended, and admits what was dropped. It works
// after Close as well.
func (l *Log) Forget(run string) error {
	if err := checkRun(run); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.closed && l.gate.lines > 0 { // the record may be what has the count
		b := l.begin(l.opts.Now())
		l.admit()
		l.finish(b)
	}
	delete(l.sources, run)
	if err := os.Remove(l.files.recordOf(run)); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("cannot forget how far a run was read: %w", err)
	}
	return nil
}

// stampAll adds whole lines to the batch. The bytes of a rune that the FIFO has begun stay as
// they are.
func (l *Log) stampAll(src *source, lines []Line) {
	s := &l.lines
	carry := s.carry
	s.carry = nil
	if src.doubt {
		at := l.lastRead
		if len(lines) > 0 {
			at = lines[0].At
		}
		l.stampAs(at)
		l.berth(mayRepeat)
	}
	for _, line := range lines {
		if at := earlier(line.At, l.lastRead); at.After(src.clock) {
			if !src.clock.IsZero() {
				l.gate.advance(at.Sub(src.clock))
			}
			src.clock = at
		}
		l.stampAs(line.At)
		for text := range bytes.SplitSeq(line.Text, []byte{'\n'}) { // text itself would write where a line ends
			l.text(text)
			l.flushCarry()
			l.endLine(wholeLine)
		}
	}
	s.carry = carry
}

// stampAs gives the next lines a stamp that was made elsewhere, as far as the order of the
// log allows. A clock that is ahead of the host's must not hold the stamps of everything
// that comes later.
func (l *Log) stampAs(at time.Time) {
	s := &l.lines
	at = earlier(at, l.lastRead)
	if at.Before(s.last) {
		at = s.last
	}
	s.last = at
	s.stamp = at.UTC().AppendFormat(s.stamp[:0], stampLayout)
}

// earlier returns the earlier one of two times, by the clock on the wall.
func earlier(a, b time.Time) time.Time {
	if a, b = a.Round(0), b.Round(0); b.Before(a) {
		return b
	}
	return a
}

// commitTaken writes the batch to the file and to the tail, and before it the record, so that
// whenever the daemon is killed the next one knows whether it was written.
func (l *Log) commitTaken(run string, src *source, before, after reached) error {
	s, f := &l.lines, &l.files
	text := s.out[:s.start]
	if len(text) > 0 {
		l.prepare(s.at)
		if !f.works(s.at, text[:len(stampLayout)]) {
			return f.err
		}
		if err := f.ready(); err != nil {
			return err
		}
	}
	r := taken{End: f.end(), Wrote: int64(len(text)), Before: before, After: after}
	if err := l.keepRecord(run, r); err != nil {
		return err
	}
	l.sources[run] = src
	l.note(len(text), nil)
	if rest, err := f.write(text); err != nil && l.takeBack(run, r, text, rest, err) {
		return err
	}
	src.place, src.doubt = after.Place, false
	if len(text) > 0 {
		l.tail.add(text)
		l.followers.wake()
	}
	return nil
}

// takeBack is for a batch that the disk refused with an error, but for what is before rest: it
// reports whether nothing of it stays. Where not even that can be done, what is missing is
// counted, as of a program that cannot wait.
func (l *Log) takeBack(run string, r taken, text, rest []byte, why error) bool {
	f := &l.files
	err := f.back(r.End)
	if err == nil {
		rest = text
		err = l.keepRecord(run, taken{End: r.End, Before: r.Before, After: r.Before})
	}
	if err != nil {
		f.err, f.tried, f.lost = why, l.lines.at, countNewlines(rest)
		_ = l.keepRecord(run, taken{End: f.end(), Before: r.After, After: r.After})
	}
	l.note(0, nil)
	return err == nil
}

// recall finds out how far the runs of the daemon before were read, and takes back what it
// wrote of a batch without its end. located tells whether positions are what they were.
func (l *Log) recall(located bool) error {
	f := &l.files
	for _, r := range f.records() {
		at, end, want := r.After, f.end(), r.End+r.Wrote
		closed := r.Wrote == 0 && r.End == end // in order, as Close leaves it
		switch {
		case !r.whole: // it is empty where a daemon was killed before the first batch
			at = reached{Doubt: !located || !r.empty}
		case r.Log != f.id || end < r.End || r.Boot != bootID() && !closed:
			at = r.Before
			at.Doubt = true
		case end < want:
			at, want = r.Before, r.End
			if end == r.End {
				break
			}
			if err := f.back(r.End); errors.Is(err, errGone) {
				at.Doubt = true
			} else if err != nil {
				return fmt.Errorf("cannot mend the log: %w", err)
			}
		}
		// What was written since has admitted what was dropped; without it there is more of it, not less.
		if !at.Doubt && f.end() == want && at.Lines > l.gate.lines {
			l.gate.lines, l.gate.bytes, l.gate.shut = at.Lines, at.Bytes, true
		}
		l.sources[r.run] = &source{place: at.Place, doubt: at.Doubt}
	}
	l.settleSources()
	return nil
}

// settleSources writes records that are true whatever is written to the log from now on. What
// is refused here is no matter: a disk that cannot write over some bytes takes no lines either.
func (l *Log) settleSources() {
	for run, src := range l.sources {
		at := reached{src.place, src.doubt, l.gate.lines, l.gate.bytes}
		_ = l.keepRecord(run, taken{End: l.files.end(), Before: at, After: at})
	}
}

// lastStamp finds the stamp of the log's last line.
func (l *Log) lastStamp() {
	text := []byte(l.tail.last(tailSize))
	if at, ok := stampOf(text[lastLine(text):]); ok {
		l.lines.last = earlier(at, l.opts.Now())
	}
}

// keepRecord writes the record of a run over the one before.
func (l *Log) keepRecord(run string, r taken) error {
	r.Log, r.Boot = l.files.id, bootID()
	text, err := json.Marshal(r)
	if err != nil {
		return err
	}
	file, err := l.files.openRecord(run)
	if err != nil {
		return err
	}
	_, err = file.WriteAt(append(text, bytes.Repeat([]byte{' '}, max(takenSize-len(text), 0))...), 0)
	return errors.Join(err, file.Close())
}

// recordOf returns the name of the record of a run.
func (f *files) recordOf(run string) string { return f.base + takenInfix + run }

// openRecord opens a record to write it, and makes it if need be, with the trace that stays.
func (f *files) openRecord(run string) (*os.File, error) {
	const flags = os.O_WRONLY | syscall.O_NOFOLLOW
	file, err := os.OpenFile(f.recordOf(run), flags, 0)
	if !errors.Is(err, os.ErrNotExist) {
		return file, err
	}
	trace, err := os.OpenFile(f.base+traceSuffix, flags|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	_ = trace.Close()
	return os.OpenFile(f.recordOf(run), flags|os.O_CREATE, 0o600)
}

// foundRecord is a record as it was found.
type foundRecord struct {
	taken
	run   string
	whole bool // it could be read
	empty bool
}

// records returns those that are there.
func (f *files) records() (all []foundRecord) {
	list, _ := os.ReadDir(filepath.Dir(f.base)) // the log was opened there
	for _, e := range list {
		run, ok := strings.CutPrefix(e.Name(), filepath.Base(f.base)+takenInfix)
		if !ok || !runName.MatchString(run) {
			continue
		}
		r := foundRecord{run: run}
		text, err := readRecord(f.recordOf(run))
		r.empty = err == nil && len(text) == 0
		if err == nil && json.Unmarshal(bytes.TrimSpace(text), &r.taken) == nil {
			r.whole = true
		} else {
			r.taken = taken{}
		}
		all = append(all, r)
	}
	return all
}

// readRecord returns what is in a record.
func readRecord(path string) ([]byte, error) {
	file, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return io.ReadAll(io.LimitReader(file, takenSize))
}
