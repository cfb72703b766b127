package proxy

import (
	"context"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"strings"
	"sync"
	"time"
)

// upstream brings requests to programs. Most ask for something and send nothing:
// those go over lines, in the goroutine that asks. http.Transport has two more for
// each connection, so that an answer may come before a body is sent; handing
// each request from one to the other takes longer than everything else here.
// All other requests (bodies, upgrades) are the Transport's.
type upstream struct {
	full *http.Transport
	dial dialer

	mu     sync.Mutex
	idle   map[string][]*line // by address, the last used at the end
	count  int
	closed bool
	sweep  *time.Timer // set while there are idle ones
}

// dialer connects to a program.
type dialer = func(ctx context.Context, network, address string) (net.Conn, error)

func newUpstream(dial dialer) *upstream {
	return &upstream{idle: map[string][]*line{}, full: newTransport(dial), dial: dial}
}

// RoundTrip implements http.RoundTripper.
func (u *upstream) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead || r.Body != nil && r.Body != http.NoBody ||
		r.ContentLength != 0 || len(r.Header["Upgrade"]) > 0 || len(r.Header["Expect"]) > 0 || len(r.Trailer) > 0 {
		if t := httptrace.ContextClientTrace(r.Context()); t != nil { // ReverseProxy makes one for each request
			t.GotConn = settle
		}
		return u.full.RoundTrip(r)
	}
	for fresh := false; ; fresh = true {
		l, err := u.take(r.Context(), r.URL.Host, fresh)
		if err != nil {
			return nil, err
		}
		used := l.used
		resp, err := u.exchange(l, r)
		// A program may close a connection in the moment it is used again. Before the
		// first byte of an answer nothing was promised, and these methods may be sent
		// twice (RFC 9110, 9.2.2).
		if err == nil || !used || l.heard || r.Context().Err() != nil {
			return resp, err
		}
	}
}

// exchange sends a request and reads the head of its answer. After an error the
// line is closed.
func (u *upstream) exchange(l *line, r *http.Request) (*http.Response, error) {
	ctx := r.Context()
	stop := context.AfterFunc(ctx, l.interrupt)
	resp, err := l.ask(r, httptrace.ContextClientTrace(ctx))
	if err == nil {
		err = l.unbound(resp)
	}
	if err == nil {
		err = ctx.Err() // its interruption may be what was undone just now
	}
	if err != nil {
		stop()
		_ = l.Close()
		return nil, err
	}
	keep := !resp.Close && resp.StatusCode != http.StatusSwitchingProtocols
	over := &reply{ReadCloser: resp.Body, upstream: u, line: l, stop: stop, keep: keep}
	if resp.Body == http.NoBody {
		over.end(true)
		return resp, nil
	}
	resp.Body = over
	return resp, nil
}

// take returns a line to an address: one that is idle, if it may, or a new one.
func (u *upstream) take(ctx context.Context, address string, fresh bool) (*line, error) {
	for !fresh {
		l := u.last(address)
		if l == nil {
			break
		}
		if l.alive() {
			return l, nil
		}
		_ = l.Close()
	}
	c, err := u.dial(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	return newLine(c, address)
}

// last takes out the line that was used last, which is the least likely to be
// closed by the program; nil when there is none.
func (u *upstream) last(address string) *line {
	u.mu.Lock()
	defer u.mu.Unlock()
	all := u.idle[address]
	if len(all) == 0 {
		return nil
	}
	l := all[len(all)-1]
	all[len(all)-1] = nil
	u.idle[address] = all[:len(all)-1]
	u.count--
	return l
}

// give makes a line idle, or closes it when there are enough.
func (u *upstream) give(l *line) {
	l.used, l.heard, l.since = true, false, time.Now()
	u.mu.Lock()
	full := u.closed || u.count >= idleOfAll || len(u.idle[l.address]) >= idlePerSite
	if !full {
		u.idle[l.address] = append(u.idle[l.address], l)
		u.count++
		if u.sweep == nil {
			u.sweep = time.AfterFunc(idleUpstream, u.old)
		}
	}
	u.mu.Unlock()
	if full {
		_ = l.Close()
	}
}

// old closes what was idle for too long, and comes again while there is more.
func (u *upstream) old() {
	u.mu.Lock()
	defer u.mu.Unlock()
	before := time.Now().Add(-idleUpstream)
	for address, all := range u.idle {
		n := 0
		for n < len(all) && (u.closed || !all[n].since.After(before)) {
			_ = all[n].Close()
			n++
		}
		u.count -= n
		if u.idle[address] = append(all[:0:0], all[n:]...); n == len(all) {
			delete(u.idle, address)
		}
	}
	if u.sweep = nil; u.count > 0 {
		u.sweep = time.AfterFunc(idleUpstream/2, u.old)
	}
}

// close closes what is idle; what is used is closed when it becomes so.
func (u *upstream) close() {
	u.full.CloseIdleConnections()
	u.mu.Lock()
	if u.closed = true; u.sweep != nil {
		u.sweep.Stop()
	}
	u.mu.Unlock()
	u.old()
}

// told passes answers that come before the answer (1xx) on to who waits.
func told(trace *httptrace.ClientTrace, resp *http.Response) error {
	if trace == nil || trace.Got1xxResponse == nil {
		return nil
	}
	return trace.Got1xxResponse(resp.StatusCode, textproto.MIMEHeader(resp.Header))
}

// unfit reports whether a text would end a line of a request's head.
func unfit(text string) bool { return strings.ContainsAny(text, "\r\n\x00") }
