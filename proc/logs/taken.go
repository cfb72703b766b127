package logs

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"time"

	"berth/app"
)

// Line is a line that a program printed on another machine.
type Line struct {
	At   time.Time // when that machine got it
	Text []byte    // without its end
}

// taking is what base.from-RUN has: how far what a run printed elsewhere was read. It is written before the lines are, so a daemon
// that finds them in the log goes on behind them, and else before them.
type taking struct {
	Log    string `json:"log"`    // whose positions these are; see place
	End    int64  `json:"end"`    // the position at which the lines are to be
	Wrote  int64  `json:"wrote"`  // how many bytes they have there
	Before string `json:"before"` // the place before them
	After  string `json:"after"`  // and behind them
}

// takingSize is what a taking has on the disk, which is written over.
const takingSize = 768

// fromWord stands between a log's name and that of a run.
const fromWord = ".from-"

// runName matches what a run may be called, and placeText a place.
var (
	runName   = regexp.MustCompile(`^[a-z0-9][-.a-z0-9]{0,199}$`)
	placeText = regexp.MustCompile(`^[-+.: A-Za-z0-9]{0,200}$`)
)

// Output returns a log for who has lines for it. The log is made if it is not there.
func (b *Book) Output(id app.ID, build bool) (*Log, error) { return b.of(id, build) }

// Take adds lines that a run printed elsewhere, in their order, and keeps with them the place behind them, which is the caller's to
// read. Whenever the daemon is killed, the next one finds the place of what is in the log: no line is lost, and none is there twice,
// but for those of a batch that has more than 64 KiB, and after a power cut, where a line says so.
//
// A line has the time that the other machine gave it, but is never earlier than the one before it, nor later than now. The rate of a
// program is judged by these times too: what it printed while nobody read is no flood.
func (l *Log) Take(run string, lines []Line, place string) error {
	if !runName.MatchString(run) || !placeText.MatchString(place) {
		return fmt.Errorf("cannot keep the output of %q: bad name or place %q", run, place)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return fmt.Errorf("cannot keep the output of %s: %w", run, os.ErrClosed)
	}
	if len(lines) == 0 {
		return nil
	}
	l.pullAll()
	now := l.opts.Now()
	l.lastRead = now
	s := &l.lines
	if s.last.IsZero() {
		s.last = l.lastStamp()
	}
	s.at = time.Time{} // the clock is another one
	b := l.begin(l.stampOf(lines[0].At, now))
	if s.begun() { // by a program on this machine
		l.endLine(cutLine)
	}
	for _, line := range lines {
		s.at = l.stampOf(line.At, now)
		s.last = s.at
		s.stamp = s.at.UTC().AppendFormat(s.stamp[:0], stampLayout)
		l.gate.refill(s.at)
		l.text(bytes.ReplaceAll(line.Text, []byte{'\n'}, []byte{' '}))
		l.flushCarry()
		l.endLine(wholeLine)
	}
	var failed error
	noted := false
	s.before = func(wrote int) {
		noted = true
		failed = l.noteTaking(run, taking{l.files.id, l.files.end(), int64(wrote), l.taken[run], place})
	}
	l.finish(b)
	s.before = nil
	if !noted { // none of them passed the gate
		failed = l.noteTaking(run, taking{l.files.id, l.files.end(), 0, place, place})
	}
	if l.taken == nil {
		l.taken = map[string]string{}
	}
	l.taken[run] = place
	return failed
}

// stampOf is the time of a line that came with one.
func (l *Log) stampOf(at, now time.Time) time.Time {
	last := l.lines.last
	switch {
	case at.After(now) || last.After(now):
		return now
	case at.Before(last):
		return last
	}
	return at
}

// lastStamp is the time of the last line that the log has, as far as it is known.
func (l *Log) lastStamp() time.Time {
	text := strings.TrimSuffix(l.tail.last(tailSize), "\n")
	at, _, _ := strings.Cut(text[strings.LastIndexByte(text, '\n')+1:], " ")
	t, _ := time.Parse(strings.TrimSpace(stampLayout), at) // the zero time for none
	return t
}

// Taken returns the place behind the last lines of a run that are in the log, "" if none are.
func (l *Log) Taken(run string) (place string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.taken[run]
}

// Forget forgets a run, of which no more is taken.
func (l *Log) Forget(run string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.taken, run)
	if !runName.MatchString(run) {
		return nil
	}
	if err := ignoreMissing(os.Remove(l.files.base + fromWord + run)); err != nil {
		return fmt.Errorf("cannot forget what a log was taken from: %w", err)
	}
	return nil
}

func ignoreMissing(err error) error {
	if os.IsNotExist(err) {
		return nil
	}
	return err
}

// noteTaking writes a taking over the one before.
func (l *Log) noteTaking(run string, t taking) error {
	text, err := json.Marshal(t)
	var file *os.File
	if err == nil {
		file, err = os.OpenFile(l.files.base+fromWord+run, os.O_WRONLY|os.O_CREATE|syscall.O_NOFOLLOW, 0o600)
	}
	if err == nil {
		_, err = file.WriteAt(append(text, bytes.Repeat([]byte{' '}, max(takingSize-len(text), 0))...), 0)
		_ = file.Close()
	}
	if err != nil {
		return fmt.Errorf("cannot note how far a program's output was read: %w", err)
	}
	return nil
}

// findTaken finds out for each run which of its places is that of the log; unsure tells that one is not known. The files MUST be open
// and located, and nothing written to them since.
func (l *Log) findTaken() (unsure bool, err error) {
	all, _ := filepath.Glob(l.files.base + fromWord + "*") // the pattern is good
	for _, path := range all {
		run := strings.TrimPrefix(path, l.files.base+fromWord)
		text, err := os.ReadFile(path)
		var t taking
		if err != nil || json.Unmarshal(bytes.TrimSpace(text), &t) != nil || !runName.MatchString(run) {
			unsure = true
			continue
		}
		place := t.After
		switch end := l.files.end(); {
		case t.Log != l.files.id:
			unsure, place = true, t.Before
		case t.Wrote == 0 || end >= t.End+t.Wrote:
		case end > t.End: // a part of them
			index, at, found := l.files.find(t.End)
			if !found {
				unsure, place = true, t.Before
				break
			}
			if err := l.files.rollback(index, at); err != nil {
				return unsure, fmt.Errorf("cannot mend the log: %w", err)
			}
			place = t.Before
		default:
			place = t.Before
		}
		if l.taken == nil {
			l.taken = map[string]string{}
		}
		if l.taken[run] = place; place != t.After || t.Wrote > 0 {
			if err := l.noteTaking(run, taking{l.files.id, l.files.end(), 0, place, place}); err != nil {
				return unsure, err
			}
		}
	}
	return unsure, nil
}
