package httpapi

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"berth/app"
)

const (
	// patience is how long a client may send or take nothing. Deadlines are of
	// the kernel's clock, so they do not come from Config.Now.
	patience  = time.Minute
	maxFields = 64 << 10 // bytes of a JSON body

	lingering = 30 * time.Second // a refused body may go on coming
	// lastLinger is lingering while the daemon waits for it.
	lastLinger = 2 * time.Second
	unread     = 64 << 10 // bytes of one that a client has sent before it hears

	// leastPace is the bytes a second below which a body is given up in the
	// end: a byte now and then would hold a place for ever.
	leastPace = 16 << 10
)

// longest is how long a body of at most limit bytes may be on its way.
func longest(limit int64) time.Duration {
	return patience + time.Duration(limit/leastPace)*time.Second
}

// boundBody gives a client that announced a body one patience to send it, also
// when no handler reads it: net/http itself reads a little of what is left.
func (c *call) boundBody() {
	if c.r.ContentLength != 0 {
		// Not every connection has deadlines; then the server's own must do.
		_ = http.NewResponseController(c.ResponseWriter).SetReadDeadline(time.Now().Add(patience))
	}
}

// incoming is a request's body that remembers whether it was read to its end.
type incoming struct {
	io.ReadCloser
	whole bool
}

func (h *incoming) Read(p []byte) (int, error) {
	n, err := h.ReadCloser.Read(p)
	h.whole = h.whole || errors.Is(err, io.EOF)
	return n, err
}

// partial reports whether a refused client is still sending so much that it
// may not listen before it is done: what is closed then is lost to it, with the
// answer. Who asked first, by Expect, knows better.
func (c *call) partial() bool {
	n := c.r.ContentLength
	return c.sent != nil && !c.sent.whole && (n < 0 || n > unread) && c.r.Header.Get("Expect") == "" && c.r.ProtoMajor == 1
}

// linger takes what a refused client still sends, after the answer, at most
// limit bytes and for a bounded time.
func (c *call) linger(control *http.ResponseController, limit int64) {
	if control.Flush() != nil || control.SetReadDeadline(time.Now().Add(lingering)) != nil {
		return
	}
	stop := context.AfterFunc(c.r.Context(), func() { _ = control.SetReadDeadline(time.Now().Add(lastLinger)) }) // the daemon stops
	defer stop()
	_, _ = io.CopyN(io.Discard, c.sent, limit) // whatever comes, it was answered
}

// body reads a request's body: at most limit bytes, each read within one
// patience. Call done when it was read.
type body struct {
	io.ReadCloser
	control *http.ResponseController
	limit   int64
	until   time.Time // when it is given up, whatever comes
	err     error     // of the last read

	mu    sync.Mutex
	cut   error       // why the server takes no more of it; nil while it does
	uncut func() bool // forgets the server's end
}

func (c *call) body(limit int64) *body {
	b := &body{
		// The bare writer, because MaxBytesReader tells net/http through it to
		// close the connection.
		ReadCloser: http.MaxBytesReader(c.ResponseWriter, c.r.Body, limit),
		control:    http.NewResponseController(c.ResponseWriter),
		limit:      limit,
		until:      time.Now().Add(longest(limit)),
	}
	b.uncut = context.AfterFunc(c.r.Context(), func() { b.cutOff(lastWord(c.r.Context())) })
	return b
}

// lastWord is what the server says to requests that its end interrupts, nil when
// it does not.
func lastWord(ctx context.Context) error {
	var said *app.Error
	if errors.As(context.Cause(ctx), &said) {
		return said
	}
	return nil
}

// cutOff ends the reading for a reason, if there is one: the client is still
// there, and is to hear it.
func (b *body) cutOff(why error) {
	if why == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.cut = why
	_ = b.control.SetReadDeadline(time.Now()) // see boundBody
}

// renew puts off the deadline.
func (b *body) renew() error {
	until := time.Now().Add(patience)
	if until.After(b.until) {
		until = b.until
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.cut == nil {
		_ = b.control.SetReadDeadline(until) // see boundBody
	}
	return b.cut
}

// Read renews the deadline first.
func (b *body) Read(p []byte) (int, error) {
	if err := b.renew(); err != nil {
		b.err = err
		return 0, err
	}
	n, err := b.ReadCloser.Read(p)
	b.err = err
	return n, err
}

// done lifts the deadline when the body was read to its end: a handler may
// then take its time. Otherwise the deadline stays, so that net/http does not
// wait for the rest of a stalled body.
func (b *body) done() {
	b.uncut()
	if errors.Is(b.err, io.EOF) {
		_ = b.control.SetReadDeadline(time.Time{}) // see boundBody
	}
}

// blame turns an error met while parsing a body into what the client did wrong;
// what says it when nothing more is known. Parsers do not always pass on the
// reader's own error, so that one goes first.
func (b *body) blame(err error, what app.Text) error {
	if b.err != nil && !errors.Is(b.err, io.EOF) {
		err = b.err
	}
	b.mu.Lock()
	cut := b.cut
	b.mu.Unlock()
	var tooLarge *http.MaxBytesError
	switch {
	case cut != nil:
		return cut
	case errors.As(err, &tooLarge):
		return tooLargeError(tooLarge.Limit)
	case errors.Is(err, os.ErrDeadlineExceeded) && !time.Now().Before(b.until):
		return &app.Error{Kind: app.Invalid, Err: err, Message: tooSlow(b.limit)}
	case errors.Is(err, os.ErrDeadlineExceeded):
		return &app.Error{
			Kind: app.Invalid, Err: err,
			Message: app.Textf("No data came for %s, so the request was given up.", elapsed(patience)),
		}
	default:
		return &app.Error{Kind: app.Invalid, Err: err, Message: what}
	}
}

func tooSlow(limit int64) app.Text {
	return app.Textf("The body did not come within %s, so the request was given up.", elapsed(longest(limit)))
}

func tooLargeError(limit int64) error {
	if limit >= 1<<20 {
		limit = limit >> 20 << 20 // what is around the file is not the user's to count
	}
	return app.Errorf(app.TooLarge, "The body of the request is larger than the %s that are allowed.", size(limit))
}

// fields are the members of a JSON object, by their exact names.
type fields map[string]json.RawMessage

// fields reads a JSON object. Unknown members are the caller's to ignore.
func (c *call) fields() (fields, error) { return c.fieldsWithin(maxFields) }

// fieldsWithin is fields for a body of at most limit bytes.
func (c *call) fieldsWithin(limit int64) (fields, error) {
	if !acceptsJSON(c.r.Header.Get("Content-Type")) {
		return nil, app.Errorf(app.Invalid, "Send JSON, with the header Content-Type: application/json.")
	}
	b := c.body(limit)
	defer b.done()
	text, err := io.ReadAll(b)
	if err != nil {
		return nil, b.blame(err, app.Textf("The body of the request ended early."))
	}
	if len(bytes.TrimSpace(text)) == 0 {
		return nil, app.Errorf(app.Invalid, "The request has no body. Send a JSON object.")
	}
	if !utf8.Valid(text) {
		return nil, app.Errorf(app.Invalid, "The body is not valid JSON: it is not UTF-8.")
	}
	return parseFields(text)
}

// acceptsJSON reports whether a body of this type may be JSON. Some clients
// send none.
func acceptsJSON(contentType string) bool {
	if contentType == "" {
		return true
	}
	t, _, err := mime.ParseMediaType(contentType)
	return err == nil && (t == "application/json" || strings.HasSuffix(t, "+json"))
}

// parseFields takes exactly one object, without duplicate names: two readers of
// such a body could see two different requests.
func parseFields(text []byte) (fields, error) {
	malformed := func(err error) error {
		return &app.Error{Kind: app.Invalid, Err: err, Message: app.Textf("The body is not valid JSON.")}
	}
	d := json.NewDecoder(bytes.NewReader(text))
	switch first, err := d.Token(); {
	case err != nil:
		return nil, malformed(err)
	case first != json.Delim('{'):
		return nil, app.Errorf(app.Invalid, "The body must be a JSON object.")
	}
	f := fields{}
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return nil, malformed(err)
		}
		key, _ := name.(string) // the decoder refuses other names
		if _, twice := f[key]; twice {
			return nil, app.Errorf(app.Invalid, "The field %s appears twice.", quotedName(key))
		}
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			return nil, malformed(err)
		}
		f[key] = value
	}
	if _, err := d.Token(); err != nil {
		return nil, malformed(err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, app.Errorf(app.Invalid, "The body holds more than one JSON value.")
	}
	return f, nil
}

// has reports whether a field is there and not null.
func (f fields) has(name string) bool {
	value, there := f[name]
	return there && string(value) != "null"
}

// integer returns a required whole number.
func (f fields) integer(name string) (int64, error) {
	if !f.has(name) {
		return 0, app.Errorf(app.Invalid, "The field %s is missing. It must be a whole number.", name)
	}
	var n int64
	if err := json.Unmarshal(f[name], &n); err != nil {
		return 0, app.Errorf(app.Invalid, "The field %s must be a whole number.", name)
	}
	return n, nil
}

// text returns an optional string, nil when it is absent or null.
func (f fields) text(name string) (*string, error) {
	if !f.has(name) {
		return nil, nil
	}
	var s string
	if err := json.Unmarshal(f[name], &s); err != nil {
		return nil, app.Errorf(app.Invalid, "The field %s must be a text.", name)
	}
	return &s, nil
}
