package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"

	"github.com/coder/websocket"
)

// Exec is what a session runs in the place of an application.
type Exec struct {
	Command    string // of /bin/sh; "" for an interactive shell
	TTY        bool   // on a terminal of its own
	Term       string // with TTY: what the terminal is called here; "" for the server's default
	Cols, Rows int    // with TTY: how large it is; 0 for the server's default
}

// ExecEnd is how the command of a session ended.
type ExecEnd struct {
	Code   int    `json:"code"`
	Signal int    `json:"signal"` // 0 for none
	Reason string `json:"reason"` // why the server ended it, in its words; "" when it ended by itself
}

const (
	sessionBuffer = 32 << 10
	maxSession    = 1 << 20 // bytes of a frame of the server
)

// Session is an open session. Its methods are safe for concurrent use.
type Session struct {
	conn *websocket.Conn
	c    *Client
	tty  bool
}

// Exec opens a session in an application of the account. The caller closes it. The error is
// as that of Call; what the server refuses after that, Run returns.
func (c *Client) Exec(ctx context.Context, id string, e Exec) (*Session, error) {
	if err := c.plain(); err != nil {
		return nil, err
	}
	query := url.Values{"tty": {strconv.FormatBool(e.TTY)}}
	for name, value := range map[string]string{"command": e.Command, "term": e.Term} {
		if value != "" {
			query.Set(name, value)
		}
	}
	for name, n := range map[string]int{"cols": e.Cols, "rows": e.Rows} {
		if n > 0 {
			query.Set(name, strconv.Itoa(n))
		}
	}
	header := http.Header{"User-Agent": {c.UserAgent}}
	c.authorize(header)
	address := c.URL + "/v2/ws/app/" + url.PathEscape(id) + "/exec?" + query.Encode()
	limited, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	conn, resp, err := websocket.Dial(limited, address, &websocket.DialOptions{HTTPClient: c.HTTP, HTTPHeader: header})
	if err == nil {
		conn.SetReadLimit(maxSession)
		return &Session{conn, c, e.TTY}, nil
	}
	if resp != nil && resp.Body != nil && resp.StatusCode != http.StatusSwitchingProtocols {
		if refused := c.read(resp, nil); refused != nil {
			return nil, refused
		}
	}
	if wrong, is := errors.AsType[*url.Error](err); is { // which repeats the address, and the command in it
		err = wrong.Err
	}
	return nil, c.unreached(brokenOff(err))
}

// Run brings bytes to and fro until the command has ended: what in has goes to its input,
// and what it prints to out and errs; all of it to out where it has a terminal. It does not
// wait for in, which may still be read when it returns. A session that the server refuses
// is an *Error, and one whose connection is lost ErrNoServer.
func (s *Session) Run(ctx context.Context, in io.Reader, out, errs io.Writer) (ExecEnd, error) {
	go s.send(ctx, in)
	for {
		kind, data, err := s.conn.Read(ctx)
		switch {
		case ctx.Err() != nil:
			return ExecEnd{}, ctx.Err()
		case err != nil:
			return ExecEnd{}, s.c.unreached(lost{err})
		case kind == websocket.MessageText:
			if exit, over, err := last(data); over || err != nil {
				return exit, err
			}
			continue
		}
		to := out
		if !s.tty {
			if len(data) == 0 {
				continue
			}
			if data[0] == 2 {
				to = errs
			}
			data = data[1:]
		}
		if _, err := to.Write(data); err != nil {
			return ExecEnd{}, fmt.Errorf("cannot print what the command says: %w", err)
		}
	}
}

// last reads a text frame of the server: how the command ended, or why there is none; any
// other is not over.
func last(data []byte) (how ExecEnd, over bool, err error) {
	var frame struct {
		Exit       *ExecEnd `json:"exit"`
		Status     string   `json:"status"`
		StatusCode int      `json:"statusCode"`
		Message    *string  `json:"message"`
		RequestID  string   `json:"requestId"`
	}
	if err := json.Unmarshal(data, &frame); err != nil {
		return how, false, failed(ErrNotBerth, err, "cannot use the server: it sent a frame that is none of a session: %v", err)
	}
	if frame.Status == "error" && frame.Message != nil {
		return how, false, &Error{Status: frame.StatusCode, Message: *frame.Message, RequestID: frame.RequestID}
	}
	if frame.Exit == nil {
		return how, false, nil
	}
	return *frame.Exit, true, nil
}

// send sends what in has, and its end where the command has no terminal.
func (s *Session) send(ctx context.Context, in io.Reader) {
	buf := make([]byte, sessionBuffer)
	for {
		n, err := in.Read(buf)
		if n > 0 && s.conn.Write(ctx, websocket.MessageBinary, buf[:n]) != nil {
			return // the reader finds out why
		}
		if err != nil {
			if !s.tty {
				_ = s.conn.Write(ctx, websocket.MessageText, []byte(`{"eof":true}`))
			}
			return
		}
	}
}

// Resize tells the command that the terminal has another size.
func (s *Session) Resize(ctx context.Context, cols, rows int) error {
	type size struct {
		Cols int `json:"cols"`
		Rows int `json:"rows"`
	}
	text, err := json.Marshal(map[string]size{"resize": {cols, rows}})
	if err != nil {
		return fmt.Errorf("cannot write the size: %w", err)
	}
	return s.conn.Write(ctx, websocket.MessageText, text)
}

// Close ends the session, and its command if that still runs.
func (s *Session) Close() { _ = s.conn.CloseNow() }
