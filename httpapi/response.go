package httpapi

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strconv"
	"time"

	"berth/web"
)

// response is what a handler answers.
type response struct {
	status int
	body   any               // encoded as JSON; nil only for HEAD and 304
	raw    []byte            // JSON that is encoded already, instead of body
	header map[string]string // added to the common headers
	// refusal is the message of an error in English, as the audit log has it.
	refusal string
	stream  func(w http.ResponseWriter) // writes the whole answer itself, instead of the above
}

// The words of the field status.
const (
	statusOK    = "ok"
	statusError = "error"
)

func ok(body any) (response, error) { return response{status: http.StatusOK, body: body}, nil }

// plain is the answer of an operation that only says what it did.
type plain struct {
	Status  string `json:"status"`
	Message string `json:"message"`
}

// numbered is plain with the status code, which some operations repeat.
type numbered struct {
	Status     string `json:"status"`
	StatusCode int    `json:"statusCode"`
	Message    string `json:"message"`
}

// send writes the answer of a call: the only place that writes JSON.
func (s *server) send(c *call, resp response) {
	h := c.Header()
	for name, value := range resp.header {
		h.Set(name, value)
	}
	if resp.stream != nil {
		resp.stream(c)
		return
	}
	// A client that takes nothing must not hold the answer for ever. Twice the
	// web.Patience, for net/http may first read a body that nobody wanted. The next
	// request on the connection begins without a deadline (see ServeHTTP).
	control := http.NewResponseController(c.ResponseWriter)
	_ = control.SetWriteDeadline(time.Now().Add(2 * web.Patience))
	body := resp.raw
	if resp.body != nil {
		body = encode(resp.body)
	}
	if body == nil {
		c.WriteHeader(resp.status)
		return
	}
	h.Set("Content-Type", "application/json; charset=utf-8")
	h.Set("Content-Length", strconv.Itoa(len(body)))
	linger := resp.status >= http.StatusBadRequest && c.Partial() && control.EnableFullDuplex() == nil
	if linger {
		h.Set("Connection", "close") // before the next request is lost in what is left of this one
	}
	c.WriteHeader(resp.status)
	if !c.head() {
		// A failed write means that the client has gone; nobody is left to tell.
		_, _ = c.Write(body)
	}
	if linger {
		c.Linger(control, 4*s.MaxUpload) // what is too large is more than one
	}
}

// encode returns v as compact JSON. Links keep their "&" readable: the type of
// the answer is never HTML. It panics when v cannot be encoded, which is a
// mistake in this package.
func encode(v any) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		panic(err)
	}
	return bytes.TrimRight(b.Bytes(), "\n")
}
