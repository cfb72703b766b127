package logs

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
)

// Options bound a Log. The zero value of each field means its default.
type Options struct {
	MaxFile int64            // bytes per file; default 5 MiB
	Keep    int              // rotated files beside the current one; default 2
	Rate    int64            // bytes per second, stamps included; default 1 MiB; negative for no limit
	Burst   int64            // bytes above Rate that are let through at once; default 4 MiB
	MaxLine int              // bytes of text in one stamped line; default 16 KiB, at least 64
	Now     func() time.Time // default time.Now
}

// quiet is how long a flood must be over before a reader of the log makes the
// count of what was dropped appear; while it lasts, the flood does so itself.
const quiet = time.Second

// withDefaults fills in what is not set. The burst always has room for the
// longest line, or that line could never be kept.
func (o Options) withDefaults() Options {
	o.MaxFile = cmp.Or(o.MaxFile, 5<<20)
	o.Rate = cmp.Or(o.Rate, 1<<20)
	o.Keep = cmp.Or(max(o.Keep, 0), 2)
	o.MaxLine = max(cmp.Or(o.MaxLine, 16<<10), 64)
	o.Burst = max(cmp.Or(o.Burst, 4<<20), int64(o.MaxLine)+lineOverhead+int64(len(foreignMark)))
	if o.Now == nil {
		o.Now = time.Now
	}
	return o
}

// Log is the output of one application. It is safe for concurrent use, by one
// Log per directory and name at a time.
type Log struct {
	opts Options

	mu       sync.Mutex // held for one read and one write at most
	closed   bool
	lines    lines
	gate     gate
	tail     tail
	files    files
	lastRead time.Time // when the program printed last

	followers followers
	cleared   int64 // tail.total at the last Reset

	fifo    *fifo    // nil until Pipe, unless a program of an earlier daemon has it
	kept    *os.File // the FIFO as somebody kept it, while the log is being opened; else nil
	stray   bool     // the FIFO is not the one of its name: what has it open cannot be told
	journal *journal // nil where there is none: what is repeated is then told as such

	sources map[string]*source // by run: whose lines were printed elsewhere, see Take
}

// Open returns the log called name in dir, which is made (0700) if it is not
// there, with its parent and no more (see makeDir). An existing log is continued, also one whose daemon was killed: if
// anybody has its FIFO open, what is unread in it is read, the line that had
// begun goes on, and so does what is still printed. If nobody has, that line is
// ended. name MUST be a plain file name. Errors are of kind Internal.
func Open(dir, name string, o Options) (*Log, error) { return openKept(dir, name, o, nil) }

// openKept is Open for a log whose FIFO somebody kept, unless kept is nil: that
// is the one which the program has, whatever its name leads to by now. It stays
// the caller's.
func openKept(dir, name string, o Options, kept *os.File) (*Log, error) {
	if name == "." || name != filepath.Base(name) || !filepath.IsLocal(name) {
		return nil, fmt.Errorf("cannot open a log named %q: not a plain file name", name)
	}
	if err := makeDir(dir); err != nil {
		return nil, fmt.Errorf("cannot make the log directory: %w", err)
	}
	// The FIFO belongs to the program; a directory closed to it keeps the
	// program from the files, and everybody else from the FIFO.
	if err := os.Chmod(dir, 0o700); err != nil {
		return nil, fmt.Errorf("cannot close the log directory: %w", err)
	}
	o = o.withDefaults()
	l := &Log{opts: o, kept: kept, sources: map[string]*source{}}
	l.lines.max = o.MaxLine
	l.gate = gate{rate: o.Rate, burst: o.Burst, tokens: float64(o.Burst)}
	l.files = files{base: filepath.Join(dir, name), max: o.MaxFile, keep: o.Keep}
	if err := l.files.open(); err != nil {
		return nil, err
	}
	if err := l.proceed(); err != nil {
		_ = l.files.close()
		return nil, err
	}
	return l, nil
}

// proceed goes on where the last daemon ended, however it did. The files MUST
// be open.
func (l *Log) proceed() error {
	l.mu.Lock() // the pump may have begun
	defer l.mu.Unlock()
	located := l.files.locate()
	u, err := l.resume()
	if err != nil {
		return err
	}
	if err := l.recall(located); err != nil { // before anything is written behind a batch
		return err
	}
	if err := l.files.prime(&l.tail); err != nil {
		return err
	}
	l.lastStamp()
	if l.kept != nil || held(l.files.base+".fifo") {
		err := l.attach(u)
		l.kept = nil
		if err != nil {
			return fmt.Errorf("cannot open the FIFO: %w", err)
		}
		return nil
	}
	// The program is dead and the FIFO empty.
	l.drain()
	if err := os.Remove(l.files.base + ".state"); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("cannot remove what a daemon noted: %w", err)
	}
	return nil
}

// strays reports whether the log's FIFO is not the one of its name.
func (l *Log) strays() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.stray
}

// Note writes text as one stamped line of berth's own, marked "[berth] ", which no
// line of the program begins with. It
// comes after everything the program had printed; a line the program had only
// begun is broken there and continued below. Notes pass the rate limit.
// After Close it does nothing.
func (l *Log) Note(text string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return
	}
	l.pullAll()
	b := l.begin(l.opts.Now())
	l.berth(text)
	l.finish(b)
}

// berth adds a line of berth's own to the batch; the one that has begun, if
// one has, is broken there.
func (l *Log) berth(text string) {
	if l.lines.begun() {
		l.endLine(cutLine)
	}
	l.admit()
	// Valid text leaves the program's half of a rune, if there is one, alone.
	text = strings.ToValidUTF8(strings.ReplaceAll(text, "\n", " "), string(replacement))
	l.lines.forced = true
	l.text([]byte(notePrefix + text))
	l.endLine(wholeLine)
	l.lines.forced = false
}

// Drain blocks until everything that was written to the FIFO before the call
// is stamped and in the file. A last line without an end gets one, and lines
// that were dropped are admitted. Call it when the program and all its
// children are dead. It does not wait for them: it reads at most what the
// FIFO can hold.
func (l *Log) Drain() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.closed {
		l.drain()
	}
}

// drain is Drain for those who hold the lock.
func (l *Log) drain() {
	l.pullAll()
	b := l.begin(l.opts.Now())
	l.flushCarry()
	if l.lines.begun() {
		l.endLine(wholeLine)
	}
	l.admit()
	l.finish(b)
	l.files.settle(l.lines.at, l.lines.stamp)
	l.followers.wake()
	if l.fifo != nil {
		_ = l.fifo.conn.Control(func(fd uintptr) { l.fifo.shrink(int(fd)) })
	}
}

// Tail returns the last max bytes at most, fewer so as to begin with a whole
// line, and never more than 64 KiB. When the last line alone is longer, it
// returns the end of that line. The result is valid UTF-8. A line appears when
// it has ended. Tail works after Close as well, and while a disk that does not
// answer holds up the writing.
func (l *Log) Tail(max int) string {
	l.settled()
	return l.tail.last(max)
}

// writingTakes is how long a reader waits for a write under way, so that it
// sees the lines of it.
const writingTakes = time.Second

// settled returns when nothing is being written, and what is to be admitted is;
// at the latest after writingTakes.
func (l *Log) settled() {
	for until := time.Now().Add(writingTakes); !l.mu.TryLock(); time.Sleep(time.Millisecond) {
		if time.Now().After(until) {
			return
		}
	}
	defer l.mu.Unlock()
	l.admitWhenQuiet()
}

// Mark returns a function that returns, as Tail does, the last max bytes of
// what was written after the call of Mark.
func (l *Log) Mark() (since func(max int) string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	from := l.tail.total
	return func(max int) string {
		l.settled()
		return l.tail.since(from, max)
	}
}

// Follow returns a follower of what is written from now on, and of at most the
// last back bytes before, from the start of a line. The caller MUST Close it.
func (l *Log) Follow(back int) *Follower {
	f := &Follower{log: l, ready: make(chan struct{}, 1)}
	l.mu.Lock()
	defer l.mu.Unlock()
	f.began = l.tail.total
	f.from = f.began - int64(len(l.tail.last(back)))
	l.followers = append(l.followers, f.ready)
	return f
}

// unfollow forgets who was woken by ready.
func (l *Log) unfollow(ready chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.followers = slices.DeleteFunc(l.followers, func(other chan struct{}) bool { return other == ready })
}

// Reader returns the whole text that is kept, oldest first, as it is at the
// moment of the call: neither later lines nor a rotation nor a Reset change
// what it reads. The caller MUST close it. Reader works after Close as well.
func (l *Log) Reader() (io.ReadCloser, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.admitWhenQuiet()
	return l.files.snapshot()
}

// Reset forgets everything, including what is in the FIFO unread, and gives
// the program a fresh burst.
func (l *Log) Reset() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return fmt.Errorf("cannot reset the log: %w", os.ErrClosed)
	}
	l.pullAll()
	l.lines.reset()
	l.gate = gate{rate: l.opts.Rate, burst: l.opts.Burst, tokens: float64(l.opts.Burst)}
	l.cleared = l.tail.total
	l.tail.forget()
	l.settleSources() // what was dropped is forgotten too
	err := l.files.reset()
	l.followers.wake()
	l.note(0, nil)
	return err
}

// Close takes what is in the FIFO as Drain does, stops the pump and closes
// every descriptor. It blocks until the pump has ended. While anybody else has
// the FIFO open, it stays, and with it what comes from then on; the line that
// has begun is kept for the next Open, which continues it. Close returns an
// error when lines could not be written; calling it again does nothing.
func (l *Log) Close() error {
	l.mu.Lock()
	if l.closed {
		l.mu.Unlock()
		return nil
	}
	l.pullAll()
	l.closed = true
	f := l.fifo
	if f != nil {
		l.stray = strayed(f.file, l.files.base+".fifo")
	}
	l.mu.Unlock() // the pump needs the lock to notice

	if f != nil {
		f.stop()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.fifo = nil
	if l.journal == nil || !l.stray && !held(l.files.base+".fifo") {
		l.drain()
	}
	l.settleSources()
	l.journal.close()
	l.journal = nil
	return l.files.close()
}

// admitWhenQuiet lets a reader of the log see that lines were dropped although
// the program has printed nothing since.
func (l *Log) admitWhenQuiet() {
	now := l.opts.Now()
	if l.closed || l.gate.lines == 0 || now.Sub(l.lastRead) < quiet {
		return
	}
	b := l.begin(now)
	l.admit()
	l.finish(b)
}
