package proxy

import (
	"errors"
	"io"
	"net/http"
	"os"
	"sync/atomic"
	"time"
)

const (
	// bodyPatience is how long a client may send nothing of a body that is read.
	bodyPatience = 30 * time.Second
	// bodyGrace is how much longer than by bodyPace a whole body may be waited for:
	// a byte now and then would hold a place for ever.
	bodyGrace = time.Minute
	bodyPace  = 1 << 10 // bytes a second
)

// errPace is the end of a body that does not come.
var errPace = errors.New("the body of the request does not come")

// paced is the body of a request that must come at a pace. Only the time counts
// that is spent waiting for the client: a program may take a body as slowly as it
// likes.
type paced struct {
	io.ReadCloser
	control *http.ResponseController
	conn    *bounded // to tell of waits; nil when it has other requests too
	waits   bool     // conn knows; the listener's mu guards it
	came    int64
	waited  time.Duration
	late    atomic.Bool
}

// pace puts a request's body, if it has one, under a pace. Until the program asks
// for it the client is waited for too: one that sends none would otherwise count as
// busy while a slow program takes no connection. over is called when the request
// is answered. The answer to an upgrade is no body: WebSockets may be silent.
func pace(w http.ResponseWriter, r *http.Request) *paced {
	if r.ContentLength == 0 || r.Body == nil || r.Body == http.NoBody {
		return nil
	}
	p := &paced{ReadCloser: r.Body, control: http.NewResponseController(w)}
	if r.ProtoMajor == 1 {
		p.conn, _ = r.Context().Value(boundedKey{}).(*bounded)
	}
	p.wait(true)
	return p
}

// over ends the wait for a body that nobody has asked for.
func (p *paced) over() { p.wait(false) }

// wait says whether the client is waited for.
func (p *paced) wait(on bool) {
	if p.conn == nil {
		return
	}
	p.conn.of.mu.Lock()
	defer p.conn.of.mu.Unlock()
	if p.waits == on {
		return
	}
	p.waits = on
	if on {
		p.conn.change(0, 1)
	} else {
		p.conn.change(0, -1)
	}
}

// Read waits for the client as long as it may.
func (p *paced) Read(b []byte) (int, error) {
	begun := time.Now()
	left := min(bodyPatience, bodyGrace+time.Duration(p.came/bodyPace)*time.Second-p.waited)
	_ = p.control.SetReadDeadline(begun.Add(left)) // every connection of ours has deadlines
	p.wait(true)
	defer p.wait(false)
	n, err := p.ReadCloser.Read(b)
	p.came += int64(n)
	p.waited += time.Since(begun)
	switch {
	case errors.Is(err, io.EOF):
		_ = p.control.SetReadDeadline(time.Time{}) // else it would be that of a client that goes
	case errors.Is(err, os.ErrDeadlineExceeded):
		p.late.Store(true)
		err = errPace
	}
	return n, err
}
