package logs

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"berth/app"
)

// takeSize is how much a cursor reads at once.
const takeSize = 64 << 10

// Cursor reads the files of a log from a position on: whole lines, none twice, and none
// left out without a line that says so. Its position outlives the daemon. It holds no
// text, and a program does not wait for it. It is for one goroutine, but for Ready.
type Cursor struct {
	log     *Log
	at      int64 // the position in the log
	until   int64 // where it ends, or -1
	stamp   int64 // of the last line, in ms since 1970
	say     string
	ready   chan struct{}
	failing bool // it has said that the log cannot be written
}

// errPosition is what is said of a position that no log can have given.
var errPosition = app.Errorf(app.Invalid, "cannot go on from there: this is no position of a log")

// position is where a cursor is: in which log, behind how many bytes of it, and when the
// last line before it was printed.
type position struct {
	log   string
	at    int64
	stamp int64
}

func (p position) String() string {
	return fmt.Sprintf("%s.%d.%d", p.log, p.at, p.stamp)
}

// parsePosition reads what String has written. "" is before everything.
func parsePosition(text string) (p position, err error) {
	if text == "" {
		return position{}, nil
	}
	parts := strings.Split(text, ".")
	if len(parts) != 3 || parts[0] == "" {
		return p, errPosition
	}
	at, errAt := strconv.ParseInt(parts[1], 10, 64)
	stamp, errStamp := strconv.ParseInt(parts[2], 10, 64)
	if errAt != nil || errStamp != nil || at < 0 {
		return p, errPosition
	}
	return position{parts[0], at, stamp}, nil
}

// Cursor returns a cursor at a place of the log. It fails with app.Invalid for a position
// that is none. The caller MUST Close it.
func (l *Log) Cursor(from app.LineStart) (*Cursor, error) {
	p, err := parsePosition(from.Pos)
	if err != nil {
		return nil, err
	}
	c := &Cursor{log: l, until: -1, ready: make(chan struct{}, 1)}
	l.mu.Lock()
	l.admitWhenQuiet()
	end := l.files.end()
	c.at, c.stamp = end, l.opts.Now().UnixMilli()
	if from.Once {
		c.until = end
	}
	var all *snapshot
	switch known := p.log == l.files.id && p.at <= end; {
	case from.All:
		c.at = l.files.first()
	case from.Pos != "" && known:
		c.at, c.stamp = p.at, p.stamp
	case from.Pos != "":
		from.Time = time.UnixMilli(p.stamp)
		c.say = l.said("it is not known where in this log you were: what follows may repeat lines, and some may be missing")
		all, err = l.files.snapshot()
	case from.Last > 0 || !from.Time.IsZero():
		all, err = l.files.snapshot()
	}
	if err == nil {
		l.followers = append(l.followers, c.ready)
	}
	l.mu.Unlock()
	if all != nil { // of files that stay as they are, so nobody has to wait
		var back int64
		if back, err = all.find(from); err == nil {
			c.at = end - back
		}
		err = errors.Join(err, all.Close())
	}
	if err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

// said is a line of berth's own that no file has. The caller holds the lock.
func (l *Log) said(text string) string {
	return l.opts.Now().UTC().Format(stampLayout) + notePrefix + text + "\n"
}

// Ready receives when there may be something to take.
func (c *Cursor) Ready() <-chan struct{} { return c.ready }

// Position is a text that is behind everything that was taken: a cursor of another daemon
// goes on there.
func (c *Cursor) Position() string {
	return position{c.log.files.id, c.at, c.stamp}.String()
}

// Take returns the lines that follow, 64 KiB of them at most, "" when there are none now.
// What the disk refuses to read comes when it does not refuse any more. It works after the
// log's Close.
func (c *Cursor) Take() string {
	text := c.say
	c.say = ""
	l := c.log
	l.mu.Lock()
	end := l.files.end()
	if c.until >= 0 {
		end = min(end, c.until)
	}
	trouble := ""
	if failing := l.files.err != nil; !failing {
		c.failing = false
	} else if !c.failing {
		trouble = l.said("lines are being lost: cannot write the log: " + reason(l.files.err))
	}
	var file *os.File
	var from, n int64
	if c.at < end {
		var gone int64
		file, from, n, gone = l.files.seek(c.at)
		if gone > 0 {
			text += l.said(size(gone) + " left out: the log does not have them any more")
			c.at += gone
		}
	}
	l.mu.Unlock()
	var p []byte
	if file != nil {
		p = readLines(file, from, min(n, end-c.at))
	}
	if c.at += int64(len(p)); c.at < end && len(p) > 0 {
		wake(c.ready)
	}
	if at, ok := stampOf(p[lastLine(p):]); ok {
		c.stamp = at.UnixMilli()
	}
	text += string(clean(p))
	if trouble != "" && c.at == end {
		c.failing = true
		text += trouble
	}
	return text
}

// Close ends the reading. It may be called again.
func (c *Cursor) Close() { c.log.unfollow(c.ready) }

// readLines reads n bytes of a file at an offset, whole lines of them and takeSize at most,
// and closes it. What it cannot read it leaves for the next time.
func readLines(file *os.File, from, n int64) []byte {
	defer func() { _ = file.Close() }() // only read, so nothing can be lost
	p := make([]byte, min(n, takeSize))
	read, _ := file.ReadAt(p, from)
	p = p[:read]
	if whole := bytes.LastIndexByte(p, '\n') + 1; int64(read) < n && whole > 0 {
		p = p[:whole]
	}
	return p
}

// lastLine returns where the last line of p begins.
func lastLine(p []byte) int {
	return bytes.LastIndexByte(bytes.TrimSuffix(p, []byte{'\n'}), '\n') + 1
}

// stampOf returns when a line was printed.
func stampOf(line []byte) (time.Time, bool) {
	if len(line) < len(stampLayout) {
		return time.Time{}, false
	}
	at, err := time.Parse(stampLayout, string(line[:len(stampLayout)]))
	return at, err == nil
}

// find returns how many bytes before the end the lines begin that are meant.
func (s *snapshot) find(from app.LineStart) (back int64, err error) {
	if from.Last > 0 {
		return s.last(from.Last)
	}
	return s.since(from.Time)
}

// last returns how many bytes the last n lines have.
func (s *snapshot) last(n int) (back int64, err error) {
	buf := make([]byte, takeSize)
	for i := len(s.parts) - 1; i >= 0; i-- {
		for end := s.parts[i].Size(); end > 0; {
			p := buf[:min(end, takeSize)]
			if _, err := s.parts[i].ReadAt(p, end-int64(len(p))); err != nil {
				return 0, fmt.Errorf("cannot read the log: %w", err)
			}
			for at := len(p); ; {
				if at = bytes.LastIndexByte(p[:at], '\n'); at < 0 {
					break
				}
				if after := back + int64(len(p)-at-1); after > 0 { // else it ends the last line
					if n--; n == 0 {
						return after, nil
					}
				}
			}
			back += int64(len(p))
			end -= int64(len(p))
		}
	}
	return back, nil
}

// since returns how many bytes follow the last line that was printed before t.
func (s *snapshot) since(t time.Time) (back int64, err error) {
	for _, part := range s.parts {
		back += part.Size()
	}
	for i, part := range s.parts {
		if st, err := s.files[i].Stat(); err == nil && st.ModTime().Before(t) {
			back -= part.Size() // nothing was written to it since
			continue
		}
		lines := bufio.NewReaderSize(io.NewSectionReader(part, 0, part.Size()), takeSize)
		for {
			line, err := lines.ReadSlice('\n')
			if at, ok := stampOf(line); ok && !at.Before(t.Truncate(time.Millisecond)) {
				return back, nil
			}
			back -= int64(len(line))
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil && !errors.Is(err, bufio.ErrBufferFull) {
				return 0, fmt.Errorf("cannot read the log: %w", err)
			}
		}
	}
	return back, nil
}
