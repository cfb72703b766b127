package proxy

import (
	"bufio"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"syscall"
	"time"
)

// line is a connection to a program over which one request goes after the other.
type line struct {
	net.Conn
	address string
	raw     syscall.RawConn
	in      *bufio.Reader
	out     *bufio.Writer
	left    int  // of what may be read before the body, in bytes; less than 0: no bound
	heard   bool // something of the answer has come
	used    bool
	since   time.Time // it is idle
	until   time.Time // reads fail then; zero: never
}

func newLine(c net.Conn, address string) (*line, error) {
	l := &line{Conn: c, address: address}
	known, ok := c.(syscall.Conn)
	err := error(syscall.ENOTSUP)
	if ok {
		l.raw, err = known.SyscallConn()
	}
	if err != nil {
		_ = c.Close()
		return nil, err
	}
	l.in, l.out = bufio.NewReaderSize(l, 4<<10), bufio.NewWriterSize(l, 4<<10)
	return l, nil
}

// Read implements io.Reader.
func (l *line) Read(p []byte) (int, error) {
	if l.left == 0 {
		return 0, errors.New("the head of the program's answer is too long")
	}
	if l.left > 0 && len(p) > l.left {
		p = p[:l.left]
	}
	n, err := l.Conn.Read(p)
	if l.left > 0 {
		l.left -= n
	}
	l.heard = l.heard || n > 0
	return n, err
}

// interrupt ends whatever waits for the connection, now and later. It is safe
// for concurrent use.
func (l *line) interrupt() { _ = l.SetDeadline(time.Unix(1, 0)) }

// alive reports whether an idle line can be used: the program has neither closed
// it nor sent what nobody asked for.
func (l *line) alive() bool {
	if time.Since(l.since) > idleUpstream {
		return false
	}
	alive := false
	err := l.raw.Read(func(fd uintptr) bool {
		var one [1]byte
		_, _, err := syscall.Recvfrom(int(fd), one[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
		alive = err == syscall.EAGAIN
		return true
	})
	return err == nil && alive
}

// ask sends a request without a body and reads the head of the answer.
func (l *line) ask(r *http.Request, trace *httptrace.ClientTrace) (*http.Response, error) {
	if err := l.send(r); err != nil {
		return nil, err
	}
	if err := l.expect(); err != nil {
		return nil, err
	}
	if err := r.Context().Err(); err != nil { // its interruption may be what was undone just now
		return nil, err
	}
	for l.left, l.heard = maxHeaders, false; ; {
		resp, err := http.ReadResponse(l.in, r)
		if err != nil {
			if errors.Is(err, io.ErrUnexpectedEOF) && !l.heard {
				err = io.EOF
			}
			return nil, err
		}
		if resp.StatusCode < http.StatusContinue {
			return nil, errStatus
		}
		if resp.StatusCode >= http.StatusOK || resp.StatusCode == http.StatusSwitchingProtocols {
			l.left = -1
			return resp, nil
		}
		if err := told(trace, resp); err != nil {
			return nil, err
		}
	}
}

// expect bounds the time until the answer begins. To move a deadline takes as
// long as to parse a request, so one is kept for a few answers.
func (l *line) expect() error {
	const more = 5 * time.Second
	now := time.Now()
	if l.until.Sub(now) >= answerTimeout {
		return nil
	}
	l.until = now.Add(answerTimeout + more)
	return l.SetReadDeadline(l.until)
}

// unbound lets the body of an answer take its time, unless all of it is here.
func (l *line) unbound(resp *http.Response) error {
	if resp.ContentLength >= 0 && resp.ContentLength <= int64(l.in.Buffered()) {
		return nil
	}
	l.until = time.Time{}
	return l.SetReadDeadline(l.until)
}

// send writes the head of a request.
func (l *line) send(r *http.Request) error {
	target := r.URL.RequestURI()
	if unfit(target) || unfit(r.Host) {
		return errors.New("the request has a line end in its target")
	}
	w := l.out
	for _, part := range [...]string{r.Method, " ", target, " HTTP/1.1\r\nHost: ", r.Host, "\r\n"} {
		_, _ = w.WriteString(part) // Flush tells
	}
	for name, values := range r.Header {
		switch name {
		case "Host", "Content-Length", "Transfer-Encoding", "Trailer": // these are the connection's
			continue
		}
		for _, value := range values {
			if unfit(value) {
				w.Reset(l)
				return errors.New("the request has a line end in a header")
			}
			for _, part := range [...]string{name, ": ", value, "\r\n"} {
				_, _ = w.WriteString(part)
			}
		}
	}
	_, _ = w.WriteString("\r\n")
	return w.Flush()
}

// reply is the body of an answer. At its end its line is free.
type reply struct {
	io.ReadCloser
	upstream *upstream
	line     *line
	stop     func() bool // the interruption
	keep     bool
	over     bool
}

// Read implements io.Reader.
func (a *reply) Read(p []byte) (int, error) {
	n, err := a.ReadCloser.Read(p)
	if err != nil {
		a.end(errors.Is(err, io.EOF))
	}
	return n, err
}

// Close implements io.Closer. What is left is not read: it may have no end.
func (a *reply) Close() error {
	a.end(false)
	return nil
}

// end makes the line free, whole: all that was to be read was.
func (a *reply) end(whole bool) {
	if a.over {
		return
	}
	a.over = true
	if interrupted := !a.stop(); whole && a.keep && !interrupted && a.line.in.Buffered() == 0 {
		a.upstream.give(a.line)
		return
	}
	_ = a.line.Close()
}
