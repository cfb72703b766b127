package httpapi

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net/http"
	"strings"
	"time"
	"unicode/utf8"

	"berth/app"
	"berth/web"
)

const maxFields = 64 << 10 // bytes of a JSON body

// boundBody gives a client that announced a body one patience to send it, also
// when no handler reads it: net/http itself reads a little of what is left.
func (c *call) boundBody() {
	if c.Request.ContentLength != 0 {
		// Not every connection has deadlines; then the server's own must do.
		_ = http.NewResponseController(c.ResponseWriter).SetReadDeadline(time.Now().Add(web.Patience))
	}
}

// blame turns an error met while parsing a body into what the client did wrong;
// what says it when nothing more is known.
func blame(b *web.Body, err error, what app.Text) error {
	fault, err := b.Fault(err)
	switch fault {
	case web.Cut:
		return err
	case web.TooLarge:
		return tooLargeError(b.Limit())
	case web.Slow:
		what = tooSlow(b.Limit())
	case web.Silent:
		what = app.Textf("No data came for %s, so the request was given up.", elapsed(web.Patience))
	case web.Malformed:
	}
	return &app.Error{Kind: app.Invalid, Err: err, Message: what}
}

func tooSlow(limit int64) app.Text {
	return app.Textf("The body did not come within %s, so the request was given up.", elapsed(web.Longest(limit)))
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
	if !acceptsJSON(c.Request.Header.Get("Content-Type")) {
		return nil, app.Errorf(app.Invalid, "Send JSON, with the header Content-Type: application/json.")
	}
	b := c.Body(limit)
	defer b.Done()
	text, err := io.ReadAll(b)
	if err != nil {
		return nil, blame(b, err, app.Textf("The body of the request ended early."))
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
