package web

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"runtime/debug"
	"time"
)

// Call is one request and what every edge knows of it. It is also the ResponseWriter
// that goes through the edge's router, so that a route finds it again.
type Call struct {
	http.ResponseWriter
	Request   *http.Request
	RequestID string
	Began     time.Time
	Pattern   string // of the route, never the path, which may hold a key
	Status    int    // 0 until the answer begins
	Cause     error  // of a refusal, for the log alone
	FileName  string // of the upload in the body, as the client says; "" until it has come

	sent *incoming // the body, nil when there is none
}

// NewCall is the call of a request, which no route has found yet.
func NewCall(w http.ResponseWriter, r *http.Request, id string, now time.Time) Call {
	c := Call{ResponseWriter: w, Request: r, RequestID: id, Began: now, Pattern: "unmatched"}
	if r.Body != nil {
		c.sent = &incoming{ReadCloser: r.Body}
		r.Body = c.sent
	}
	return c
}

// WriteHeader remembers the first status.
func (c *Call) WriteHeader(status int) {
	if c.Status == 0 {
		c.Status = status
	}
	c.ResponseWriter.WriteHeader(status)
}

// Write remembers that an answer began.
func (c *Call) Write(p []byte) (int, error) {
	if c.Status == 0 {
		c.Status = http.StatusOK
	}
	return c.ResponseWriter.Write(p)
}

// Unwrap lets http.ResponseController reach the connection.
func (c *Call) Unwrap() http.ResponseWriter { return c.ResponseWriter }

// Serve answers the call with f, without the deadline of the answer before, and writes
// its one line into the log. When f panics, broken answers, unless the answer has begun:
// then the connection is cut, for a client must not take half of one for the whole.
func (c *Call) Serve(log *slog.Logger, now func() time.Time, f func(), broken func(begun bool)) {
	defer func() {
		v := recover()
		abort := v != nil && c.recovered(log, v, broken)
		attrs := []any{
			"method", c.Request.Method, "route", c.Pattern, "status", c.Status,
			"duration", now().Sub(c.Began), "request", c.RequestID,
		}
		if c.Cause != nil {
			attrs = append(attrs, "cause", c.Cause)
		}
		log.Info("request", attrs...)
		if abort {
			panic(http.ErrAbortHandler) // net/http closes the connection and stays quiet
		}
	}()
	_ = http.NewResponseController(c.ResponseWriter).SetWriteDeadline(time.Time{})
	f()
}

// recovered reports whether the connection must be cut for what f panicked with.
func (c *Call) recovered(log *slog.Logger, v any, broken func(begun bool)) (abort bool) {
	if err, is := v.(error); is && errors.Is(err, http.ErrAbortHandler) {
		return true
	}
	log.Error("panic in a request", "route", c.Pattern, "request", c.RequestID, "panic", fmt.Sprint(v), "stack", string(debug.Stack()))
	begun := c.Status != 0
	broken(begun)
	return begun
}

// Trail is what a call gathers for the audit log on its way.
type Trail struct {
	Operation string // "" when the call is not recorded
	Detail    string
}

// Note adds a parameter that matters. It MUST NOT be a secret.
func (t *Trail) Note(format string, args ...any) {
	if t.Detail != "" {
		t.Detail += " "
	}
	t.Detail += fmt.Sprintf(format, args...)
}
