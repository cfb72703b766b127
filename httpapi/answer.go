package httpapi

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"berth/app"
	"berth/app/text"
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

// object is a JSON object. Its members keep their order.
type object []member

type member struct {
	name  string
	value any
}

// MarshalJSON implements json.Marshaler.
func (o object) MarshalJSON() ([]byte, error) { return encode(o), nil }

// convert returns what f makes of each element, never nil: JSON would say null.
func convert[T, U any](list []T, f func(T) U) []U {
	out := make([]U, len(list))
	for i, v := range list {
		out[i] = f(v)
	}
	return out
}

// ok is the answer of an operation: a sentence, and what it is about.
func ok(message string, found ...member) (response, error) {
	return response{status: http.StatusOK, body: append(object{{"status", statusOK}, {"message", message}}, found...)}, nil
}

// numbered is ok with the status code, which some operations repeat.
func numbered(message string, found ...member) (response, error) {
	body := append(object{{"status", statusOK}, {"statusCode", http.StatusOK}, {"message", message}}, found...)
	return response{status: http.StatusOK, body: body}, nil
}

// send writes the answer of a call: the only place that writes JSON.
func (c *call) send(resp response) {
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
	// request on the connection begins without a deadline (see web.Call.Serve).
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
		// A failed write means that the client has gone; nobody reads the answer.
		_, _ = c.Write(body)
	}
	if linger {
		c.Linger(control, c.maxLinger)
	}
}

// encode returns v as compact JSON. Links keep their "&" readable: the type of an answer is
// never HTML. It panics when v cannot be encoded, which is a mistake in this package.
func encode(v any) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	write(&b, e, v)
	return b.Bytes()
}

// write encodes v with e, which writes to b. Objects need no look at their types.
func write(b *bytes.Buffer, e *json.Encoder, v any) {
	switch v := v.(type) {
	case object:
		b.WriteByte('{')
		for i, m := range v {
			if i > 0 {
				b.WriteByte(',')
			}
			b.WriteString(`"` + m.name + `":`)
			write(b, e, m.value)
		}
		b.WriteByte('}')
	case []object:
		b.WriteByte('[')
		for i, o := range v {
			if i > 0 {
				b.WriteByte(',')
			}
			write(b, e, o)
		}
		b.WriteByte(']')
	default:
		if err := e.Encode(v); err != nil {
			panic(err)
		}
		b.Truncate(b.Len() - 1) // the end of a line
	}
}

const (
	internalMessage  = "internal error"
	retryUnavailable = 5 // seconds after which a 503 may be over
	cancelledMessage = "The request was cancelled before it was done."
	fallbackMessage  = "The request was refused."
)

// errorBody is the body of every error.
type errorBody struct {
	Status     string   `json:"status"`
	StatusCode int      `json:"statusCode,omitempty"` // not of a refusal with HTTP status 200, which it would make look done
	Code       int      `json:"code"`                 // the HTTP status
	Message    string   `json:"message"`
	RequestID  string   `json:"requestId"`
	Logs       string   `json:"logs,omitempty"`
	LocaleList []string `json:"localeList,omitempty"`

	Word        string `json:"error,omitempty"`             // of the device flow
	Description string `json:"error_description,omitempty"` // Message in English: it may have ASCII alone
}

// failure turns an error into the answer.
func (c *call) failure(err error) response {
	status, message, logs := c.explain(err)
	resp := c.refusal(status, message)
	body := resp.body.(*errorBody)
	body.Message, body.Logs = withOutput(body.Message, logs), logs
	resp.refusal = withOutput(resp.refusal, logs)
	return resp
}

const (
	maxOutputLines = 20
	maxOutputBytes = 2 << 10
)

// stamp is what begins a line of a log.
var stamp = regexp.MustCompile(`^\d{4}-\d\d-\d\dT[\d:.]+Z ?`)

// withOutput is the message of an error with the last lines of the output that
// explains it: most command lines show logs only of what did not fail, and of an
// upload that failed nothing is left whose log could be read.
func withOutput(message, logs string) string {
	var last []string
	left := maxOutputBytes
	lines := strings.Split(logs, "\n")
	for i := len(lines) - 1; i >= 0 && len(last) < maxOutputLines; i-- {
		line := app.Printable(stamp.ReplaceAllString(lines[i], ""))
		line = strings.TrimRightFunc(line, unicode.IsSpace)
		if line == "" || strings.HasPrefix(line, "[berth] ") { // which the message says
			continue
		}
		if left -= len(line) + 1; left < 0 {
			break
		}
		last = append(last, line)
	}
	slices.Reverse(last)
	return strings.Join(append([]string{message}, last...), "\n")
}

// refusal is the answer of an error that is known by its HTTP status.
func (c *call) refusal(status int, message app.Text) response {
	header := map[string]string{}
	switch status {
	case http.StatusTooManyRequests:
		// Clients lock themselves out until the reset, which is what they should do now.
		header["ratelimit-remaining"] = "0"
		header["Retry-After"] = c.Header().Get("ratelimit-reset")
	case http.StatusServiceUnavailable:
		header["Retry-After"] = strconv.Itoa(retryUnavailable)
	}
	body := &errorBody{Status: statusError, StatusCode: status, Code: status, Message: c.translate(message), RequestID: c.RequestID}
	if status == http.StatusOK {
		body.StatusCode = 0
	}
	return response{status: status, header: header, refusal: message.String(), body: body}
}

// explain returns what the user may know of err and keeps the rest for the log.
func (c *call) explain(err error) (status int, message app.Text, logs string) {
	if why := web.LastWord(c.Request.Context()); why != nil && (errors.Is(err, context.Canceled) || errors.Is(err, os.ErrDeadlineExceeded)) {
		c.Cause, err = err, why
	}
	status, message = shown(err)
	e, known := errors.AsType[*app.Error](err)
	switch {
	case status == http.StatusInternalServerError:
		c.log.Error("internal error", "route", c.Pattern, "request", c.RequestID, "cause", err)
		return status, message, ""
	case !known:
		c.Cause = err
		return status, message, ""
	case e.Err != nil:
		c.Cause = e.Err
	}
	return status, message, e.Logs
}

// shown is what the user may know of err.
func shown(err error) (status int, message app.Text) {
	e, known := errors.AsType[*app.Error](err)
	if known {
		status = web.StatusOf(e.Kind)
	}
	switch {
	case known && status != http.StatusInternalServerError && e.Message.IsZero():
		return status, app.Textf(fallbackMessage)
	case known && status != http.StatusInternalServerError:
		return status, e.Message
	case !known && (errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)):
		return http.StatusServiceUnavailable, app.Textf(cancelledMessage)
	}
	return http.StatusInternalServerError, app.Textf(internalMessage)
}

// RefuseConnection is a web.Limits.Refuse: it answers 503 and says why.
func RefuseConnection(w http.ResponseWriter, r *http.Request, each int) {
	why := app.Textf("Your address has %d connections open, as many as one gets. Close some.", each)
	if each == 0 {
		why = app.Textf("The server has as many connections as it takes. Try again in a few seconds.")
	}
	w.Header().Set("Retry-After", strconv.Itoa(retryUnavailable))
	refuseUnread(w, r, http.StatusServiceUnavailable, why)
}

// RefuseHTTP answers a request for the API that came over plain HTTP where the API is on
// HTTPS. A redirect would hide from the sender that others could read the token.
func RefuseHTTP(w http.ResponseWriter, r *http.Request) {
	refuseUnread(w, r, http.StatusForbidden,
		app.Textf("The API is on HTTPS only. Others could read what you sent: if it had a token, revoke the token."))
}

// refuseUnread answers a request that no handler gets, and ends its connection.
func refuseUnread(w http.ResponseWriter, r *http.Request, status int, why app.Text) {
	id, h := rand.Text(), w.Header()
	secure(h)
	h.Set("X-Request-Id", id)
	h.Set("Content-Type", "application/json; charset=utf-8")
	h.Set("Connection", "close")
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(web.Patience)) // see send
	w.WriteHeader(status)
	message := text.Accept(r.Header.Get("Accept-Language")).SayPhrase(why)
	_, _ = w.Write(encode(errorBody{Status: statusError, StatusCode: status, Code: status, Message: message, RequestID: id}))
}
