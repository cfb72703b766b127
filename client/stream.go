package client

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"time"
)

// Event is one event of a stream (WHATWG HTML, server-sent events).
type Event struct {
	ID   string // of this event, or of the last one that had an id
	Name string // such as "app.log"; "message" if the server gave none
	Data []byte // JSON of the server
}

const (
	// maxEvent bounds one event, in bytes.
	maxEvent = 4 << 20
	// silence is how long a stream may be silent: berth sends something every 15 seconds.
	silence = 45 * time.Second
	// retryFirst and retryMost bound the pause before Follow connects again.
	retryFirst = 500 * time.Millisecond
	retryMost  = 15 * time.Second
)

// Stream is a stream of events under way. Next is for one goroutine.
type Stream struct {
	client *Client
	body   io.ReadCloser
	lines  *bufio.Reader
	idle   *time.Timer
	silent atomic.Bool
	end    context.CancelFunc
	last   string
}

// errSilent ends a stream whose server says nothing any more.
var errSilent = errors.New("it says nothing any more")

// Stream opens a stream of events: path begins with /v2, and lastEventID is that of the
// last event that is known, or "". The caller closes the stream. It blocks until the
// server has answered; the error is as that of Call.
func (c *Client) Stream(ctx context.Context, path, lastEventID string) (*Stream, error) {
	header := http.Header{"Accept": {"text/event-stream"}}
	if lastEventID != "" {
		header.Set("Last-Event-Id", lastEventID)
	}
	inner, cancel := context.WithCancelCause(ctx)
	idle := time.AfterFunc(silence, func() { cancel(errSilent) })
	resp, err := c.Send(inner, http.MethodGet, path, "", nil, 0, header)
	idle.Stop()
	switch {
	case err == nil && strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream"):
		s := c.Events(resp, lastEventID)
		s.end = func() { cancel(nil) }
		return s, nil
	case err == nil:
		err = c.read(resp, nil) // which closes the body
		if err == nil {
			err = failed(ErrNotBerth, nil, "cannot use %s: it has no stream of events", c.origin())
		}
	case errors.Is(context.Cause(inner), errSilent):
		err = failed(ErrNoServer, lost{errSilent}, "cannot reach %s: %v", c.origin(), errSilent)
	}
	cancel(nil)
	return nil, err
}

// Events reads the stream of events that a response of Send is; last is the id of the last
// event that is known, or "". The caller closes the stream.
func (c *Client) Events(resp *http.Response, last string) *Stream {
	s := &Stream{client: c, body: resp.Body, lines: bufio.NewReaderSize(resp.Body, 64<<10), last: last}
	s.idle = time.AfterFunc(silence, func() {
		s.silent.Store(true)
		_ = s.body.Close()
	})
	return s
}

// Close ends the stream; a Next under way fails.
func (s *Stream) Close() {
	s.idle.Stop()
	if s.end != nil {
		s.end()
	}
	_ = s.body.Close()
}

// Next blocks until the next event. The error is io.EOF where the server has ended the
// stream, and else ErrNoServer: the connection is lost, or was silent for 45 seconds.
func (s *Stream) Next() (Event, error) {
	e := Event{Name: "message"}
	size, some := 0, false
	for {
		line, err := s.line()
		if err != nil {
			return Event{}, err
		}
		if size += len(line); size > maxEvent {
			return Event{}, failed(ErrNotBerth, nil, "cannot use %s: an event has more than %d bytes", s.client.origin(), maxEvent)
		}
		if line == "" {
			if some {
				e.ID = s.last
				return e, nil
			}
			e, size = Event{Name: "message"}, 0
			continue
		}
		field, value, _ := strings.Cut(line, ":")
		value = strings.TrimPrefix(value, " ")
		switch field {
		case "data":
			if some {
				e.Data = append(e.Data, '\n')
			}
			e.Data, some = append(e.Data, value...), true
		case "event":
			e.Name = value
		case "id":
			s.last = value
		}
	}
}

// Last is the id of the last event, to go on behind it with another stream.
func (s *Stream) Last() string { return s.last }

// line reads one line without its end.
func (s *Stream) line() (string, error) {
	var text []byte
	for {
		part, err := s.lines.ReadSlice('\n')
		if err == nil || errors.Is(err, bufio.ErrBufferFull) {
			s.idle.Reset(silence)
		}
		text = append(text, part...)
		switch {
		case err == nil:
			return strings.TrimRight(string(text), "\r\n"), nil
		case errors.Is(err, bufio.ErrBufferFull) && len(text) <= maxEvent:
			continue
		case errors.Is(err, bufio.ErrBufferFull):
			return "", failed(ErrNotBerth, err, "cannot use %s: an event has more than %d bytes", s.client.origin(), maxEvent)
		case s.silent.Load():
			err = errSilent
		case errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF):
			return "", io.EOF
		}
		return "", s.client.unreached(lost{err})
	}
}

// Following is a stream that goes on after a lost connection.
type Following struct {
	// Path returns the address of the stream, which may move on: asked at each connection.
	Path func() string
	// Last is the id of the last event that is known; Follow keeps it current.
	Last string
	// Each hears every event. Its error ends Follow.
	Each func(Event) error
	// Lost hears that the connection is gone, why, and when Follow connects again; may be nil.
	Lost func(err error, again time.Duration)
	// Back hears that a lost stream goes on; may be nil.
	Back func()
}

// Follow reads a stream until its context ends, Each fails, or the server refuses: the
// error is that. Lost connections, and failures of the server that pass, it waits out, for
// ever: half a second at first and 15 seconds at most.
func (c *Client) Follow(ctx context.Context, f *Following) error {
	pause, gone := retryFirst, false
	for {
		s, err := c.Stream(ctx, f.Path(), f.Last)
		if err == nil {
			if gone && f.Back != nil {
				f.Back()
			}
			var stopped bool
			if stopped, err = f.read(s); stopped {
				return err
			}
			pause, gone = retryFirst, false
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if !Transient(err) {
			return err
		}
		if refused, is := errors.AsType[*Error](err); is {
			pause = max(pause, min(refused.Wait, longestWait))
		}
		if !gone && f.Lost != nil {
			f.Lost(err, pause)
		}
		gone = true
		if err := c.Wait(ctx, pause); err != nil {
			return err
		}
		pause = min(2*pause, retryMost)
	}
}

// read gives the events of one stream to Each. It reports whether Each stopped it.
func (f *Following) read(s *Stream) (stopped bool, err error) {
	defer s.Close()
	for {
		e, err := s.Next()
		if err != nil {
			if errors.Is(err, io.EOF) {
				err = fmt.Errorf("the server ended the stream: %w", err)
			}
			return false, err
		}
		f.Last = e.ID
		if err := f.Each(e); err != nil {
			return true, err
		}
	}
}
