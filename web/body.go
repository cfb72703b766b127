package web

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"sync"
	"time"

	"berth/app"
)

const (
	// Patience is how long a client may send nothing of a body. Deadlines are of the
	// kernel's clock.
	Patience = time.Minute
	// Lingering is how long a refused body may go on coming, lastLinger the same while
	// the daemon waits for it.
	Lingering  = 30 * time.Second
	lastLinger = 2 * time.Second
	unread     = 64 << 10 // bytes of one that a client has sent before it hears

	// leastPace is the bytes a second below which a body is given up in the
	// end: a byte now and then would hold a place for ever.
	leastPace = 16 << 10
)

// Longest is how long a body of at most limit bytes may be on its way.
func Longest(limit int64) time.Duration {
	return Patience + time.Duration(limit/leastPace)*time.Second
}

// incoming is a request's body that remembers whether it was read to its end.
type incoming struct {
	io.ReadCloser
	whole bool
}

func (b *incoming) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.whole = b.whole || errors.Is(err, io.EOF)
	return n, err
}

// Partial reports whether a refused client is still sending so much that it
// may not listen before it is done: what is closed then is lost to it, with the
// answer. Who asked first, by Expect, knows better.
func (c *Call) Partial() bool {
	n := c.Request.ContentLength
	return c.sent != nil && !c.sent.whole && (n < 0 || n > unread) && c.Request.Header.Get("Expect") == "" && c.Request.ProtoMajor == 1
}

// Linger takes what a refused client still sends, after the answer, at most
// limit bytes and for a bounded time.
func (c *Call) Linger(control *http.ResponseController, limit int64) {
	if control.Flush() != nil || control.SetReadDeadline(time.Now().Add(Lingering)) != nil {
		return
	}
	ctx := c.Request.Context()
	stop := context.AfterFunc(ctx, func() { _ = control.SetReadDeadline(time.Now().Add(lastLinger)) }) // the daemon stops
	defer stop()
	_, _ = io.CopyN(io.Discard, c.sent, limit) // whatever comes, it was answered
}

// Body reads a request's body: at most so many bytes, each read within one
// Patience, all of them at a pace, and nothing once the server ends.
type Body struct {
	io.ReadCloser
	control *http.ResponseController
	limit   int64
	until   time.Time // when it is given up, whatever comes
	err     error     // of the last read

	mu    sync.Mutex
	cut   error       // why the server takes no more of it; nil while it does
	uncut func() bool // stops watching for the server's end
}

// Body returns the body of a call, of at most limit bytes. The caller MUST call Done
// when it was read.
func (c *Call) Body(limit int64) *Body {
	b := &Body{
		// The bare writer, because MaxBytesReader tells net/http through it to
		// close the connection.
		ReadCloser: http.MaxBytesReader(c.ResponseWriter, c.Request.Body, limit),
		control:    http.NewResponseController(c.ResponseWriter),
		limit:      limit,
		until:      time.Now().Add(Longest(limit)),
	}
	ctx := c.Request.Context()
	b.uncut = context.AfterFunc(ctx, func() { b.cutOff(LastWord(ctx)) })
	return b
}

// LastWord is what the server says to requests that its end interrupts, nil when
// it does not.
func LastWord(ctx context.Context) error {
	var said *app.Error
	if errors.As(context.Cause(ctx), &said) {
		return said
	}
	return nil
}

// cutOff ends the reading for a reason, if there is one: the client is still
// there, and is to hear it.
func (b *Body) cutOff(why error) {
	if why == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.cut = why
	_ = b.control.SetReadDeadline(time.Now()) // not every connection has deadlines; then the server's own must do
}

// renew puts off the deadline.
func (b *Body) renew() error {
	until := time.Now().Add(Patience)
	if until.After(b.until) {
		until = b.until
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.cut == nil {
		_ = b.control.SetReadDeadline(until) // see cutOff
	}
	return b.cut
}

// Read renews the deadline first.
func (b *Body) Read(p []byte) (int, error) {
	if err := b.renew(); err != nil {
		b.err = err
		return 0, err
	}
	n, err := b.ReadCloser.Read(p)
	b.err = err
	return n, err
}

// Done lifts the deadline when the body was read to its end: a handler may
// then take its time. Otherwise the deadline stays, so that net/http does not
// wait for the rest of a stalled body.
func (b *Body) Done() {
	b.uncut()
	if errors.Is(b.err, io.EOF) {
		_ = b.control.SetReadDeadline(time.Time{}) // see cutOff
	}
}

// Fault is what was wrong with a body that could not be read.
type Fault int

// The faults. A body that is none of the others has ended early, or is malformed.
const (
	Malformed Fault = iota
	Cut             // the server ends: the error says so to the client
	TooLarge        // more than its limit
	Slow            // it did not come within Longest
	Silent          // nothing came for Patience
)

// Fault tells apart what reading or parsing a body failed with. Parsers do not always
// pass on the reader's own error, so that one goes first, and is returned.
func (b *Body) Fault(err error) (Fault, error) {
	if b.err != nil && !errors.Is(b.err, io.EOF) {
		err = b.err
	}
	b.mu.Lock()
	cut := b.cut
	b.mu.Unlock()
	var tooLarge *http.MaxBytesError
	var late net.Error
	switch {
	case cut != nil:
		return Cut, cut
	case errors.As(err, &tooLarge):
		return TooLarge, err
	case errors.As(err, &late) && late.Timeout() && !time.Now().Before(b.until):
		return Slow, err
	case errors.As(err, &late) && late.Timeout():
		return Silent, err
	}
	return Malformed, err
}

// Limit is how many bytes of the body are read at most.
func (b *Body) Limit() int64 { return b.limit }
