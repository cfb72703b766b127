package proxy

import (
	"errors"
	"io"
	"net/http"
	"os"
	"sync/atomic"
	"time"

	"berth/web"
)

const (
	// bodyTimeout is how long a client may send nothing of a body that is read.
	bodyTimeout = 30 * time.Second
	// bodyGrace is how much longer than at bodyRate a whole body may be waited for:
	// a byte now and then would hold a place for ever.
	bodyGrace = time.Minute
	bodyRate  = 1 << 10 // bytes a second
)

// errLate is the end of a body that does not come.
var errLate = errors.New("the body of the request does not come")

// timedBody is the body of a request, which must come at a minimum rate. Only the time
// counts that is spent waiting for the client: a program may take a body as slowly as it
// likes.
type timedBody struct {
	io.ReadCloser
	control *http.ResponseController
	conn    *web.Conn   // nil when it has other requests too
	waits   atomic.Bool // conn knows
	came    int64
	waited  time.Duration
	late    atomic.Bool
}

// timeBody gives a request's body, if it has one, a minimum rate. Until the program asks
// for it the client is waited for too: one that sends none would otherwise count as
// busy while a slow program takes no connection. over MUST be called when the request
// is answered. The answer to an upgrade is no body: WebSockets may be silent.
func timeBody(w http.ResponseWriter, r *http.Request) *timedBody {
	if r.ContentLength == 0 || r.Body == nil || r.Body == http.NoBody {
		return nil
	}
	b := &timedBody{ReadCloser: r.Body, control: http.NewResponseController(w)}
	if r.ProtoMajor == 1 {
		b.conn = web.ConnOf(r.Context())
	}
	b.wait(true)
	return b
}

// over ends the wait for a body that nobody has asked for.
func (b *timedBody) over() { b.wait(false) }

// wait says whether the client is waited for.
func (b *timedBody) wait(on bool) {
	if b.conn != nil && b.waits.Swap(on) != on {
		b.conn.Wait(on)
	}
}

// Read waits for the client as long as it may.
func (b *timedBody) Read(p []byte) (int, error) {
	begun := time.Now()
	left := min(bodyTimeout, bodyGrace+time.Duration(b.came/bodyRate)*time.Second-b.waited)
	_ = b.control.SetReadDeadline(begun.Add(left)) // every connection of ours has deadlines
	b.wait(true)
	defer b.wait(false)
	n, err := b.ReadCloser.Read(p)
	b.came += int64(n)
	b.waited += time.Since(begun)
	switch {
	case errors.Is(err, io.EOF):
		_ = b.control.SetReadDeadline(time.Time{}) // else it would be that of a client that goes
	case errors.Is(err, os.ErrDeadlineExceeded):
		b.late.Store(true)
		err = errLate
	}
	return n, err
}
