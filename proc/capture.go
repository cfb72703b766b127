package proc

import (
	"fmt"
	"os"
	"strings"
	"time"
	"unicode/utf8"

	"berth/app"
)

// drainTime bounds the wait for the end of a stream whose command is gone: it
// comes at once, unless the command gave the pipe to somebody else.
const drainTime = 2 * time.Second

// dropPause follows each read of what is dropped: at most 64 MB a second are, which
// holds no command up, and one that prints without end costs the daemon little.
const dropPause = time.Millisecond

// capture reads one stream of a command: it keeps the beginning and drops the
// rest, so that the command is never held up.
type capture struct {
	r       *os.File
	kept    []byte
	dropped int64
	done    chan struct{}
}

// newCapture begins to read a pipe and returns its other end, which the caller
// closes. It is uid's own: else that user could not open /dev/stdout, which
// opens the pipe again. One of finish and abandon MUST be called.
func newCapture(uid int) (*capture, *os.File, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, nil, fmt.Errorf("cannot make a pipe: %w", err)
	}
	if err := w.Chown(uid, uid); err != nil {
		_ = r.Close()
		_ = w.Close()
		return nil, nil, fmt.Errorf("cannot hand a pipe over: %w", err)
	}
	c := &capture{r: r, done: make(chan struct{})}
	go c.read()
	return c, w, nil
}

func (c *capture) read() {
	defer close(c.done)
	buf := make([]byte, 64<<10) // what a pipe holds (pipe(7))
	for {
		n, err := c.r.Read(buf)
		room := min(n, app.OutputMax-len(c.kept))
		c.kept = append(c.kept, buf[:room]...)
		c.dropped += int64(n - room)
		if err != nil {
			return // io.EOF, or finish's deadline
		}
		if room < n {
			time.Sleep(dropPause)
		}
	}
}

// finish returns what was read, as valid UTF-8. The command MUST be gone.
func (c *capture) finish() app.Output {
	_ = c.r.SetReadDeadline(time.Now().Add(drainTime)) // pipes have deadlines
	<-c.done
	_ = c.r.Close()
	kept := c.kept
	if c.dropped > 0 { // not half a character
		for n := 0; n < utf8.UTFMax && len(kept) > 0 && !endsWhole(kept); n++ {
			kept = kept[:len(kept)-1]
		}
	}
	return app.Output{Text: strings.ToValidUTF8(string(kept), "\uFFFD"), Dropped: c.dropped}
}

// endsWhole reports whether b does not end within a character.
func endsWhole(b []byte) bool {
	start := len(b) - 1
	for start > 0 && len(b)-start < utf8.UTFMax && !utf8.RuneStart(b[start]) {
		start--
	}
	return utf8.FullRune(b[start:])
}

// abandon gives the capture of a command up that was not started.
func (c *capture) abandon() {
	_ = c.r.Close()
	<-c.done
}
