package httpapi

import (
	"context"
	"errors"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"berth/app"
	"berth/web"
)

// statusOf is the one table from the kind of an error to the HTTP status.
var statusOf = [...]int{
	app.Internal:     http.StatusInternalServerError,
	app.Invalid:      http.StatusBadRequest,
	app.Unauthorized: http.StatusUnauthorized,
	app.Forbidden:    http.StatusForbidden,
	app.NotFound:     http.StatusNotFound,
	app.Already:      http.StatusOK, // clients tell it from success by the field status
	app.Conflict:     http.StatusConflict,
	app.TooLarge:     http.StatusRequestEntityTooLarge,
	app.Unusable:     http.StatusUnprocessableEntity,
	app.Exhausted:    http.StatusUnprocessableEntity,
	app.NoSpace:      http.StatusServiceUnavailable, // the host's fault, and no limit of the account's
	app.Limited:      http.StatusTooManyRequests,
	app.Unavailable:  http.StatusServiceUnavailable,
}

// StatusOf returns the HTTP status of the errors of a kind. Other edges ask it, so
// that the table stays the only one.
func StatusOf(k app.Kind) int {
	if k < 0 || int(k) >= len(statusOf) {
		return http.StatusInternalServerError
	}
	return statusOf[k]
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
	StatusCode int      `json:"statusCode"`
	Code       int      `json:"code"` // the HTTP status, as statusCode
	Message    string   `json:"message"`
	RequestID  string   `json:"requestId"`
	Logs       string   `json:"logs,omitempty"`
	LocaleList []string `json:"localeList,omitempty"`
}

// failure turns an error into the answer.
func (s *server) failure(c *call, err error) response {
	status, message, logs := s.explain(c, err)
	resp := c.refusal(status, message)
	body := resp.body.(errorBody)
	body.Message, body.Logs = withOutput(body.Message, logs), logs
	resp.body, resp.refusal = body, withOutput(resp.refusal, logs)
	return resp
}

const (
	maxOutputLines = 20
	maxOutputBytes = 2 << 10
)

var (
	stamp  = regexp.MustCompile(`^\d{4}-\d\d-\d\dT[\d:.]+Z ?`)
	escape = regexp.MustCompile("\x1b\\[[0-9;?]*[ -/]*[@-~]")
)

// withOutput is the message of an error with the last lines of the output that
// explains it: most command lines show logs only of what did not fail, and of an
// upload that failed nothing is left to ask for its log.
func withOutput(message, logs string) string {
	var last []string
	room := maxOutputBytes
	lines := strings.Split(logs, "\n")
	for i := len(lines) - 1; i >= 0 && len(last) < maxOutputLines; i-- {
		line := escape.ReplaceAllString(stamp.ReplaceAllString(lines[i], ""), "")
		line = strings.TrimRightFunc(strings.Map(printable, line), unicode.IsSpace)
		if line == "" || strings.HasPrefix(line, "[berth] ") { // which the message says
			continue
		}
		if room -= len(line) + 1; room < 0 {
			break
		}
		last = append(last, line)
	}
	slices.Reverse(last)
	return strings.Join(append([]string{message}, last...), "\n")
}

// printable drops what a terminal would obey.
func printable(r rune) rune {
	if r != '\t' && unicode.IsControl(r) {
		return -1
	}
	return r
}

// softened is a failure with the status 200, as that of app.Already: clients
// that tell an amount of RAM the account may not have from a fault expect that.
func (s *server) softened(c *call, err error) response {
	resp := s.failure(c, err)
	body := resp.body.(errorBody)
	resp.status, body.StatusCode, body.Code = http.StatusOK, http.StatusOK, http.StatusOK
	resp.body = body
	return resp
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
	return response{status: status, header: header, refusal: message.String(), body: errorBody{
		Status:     statusError,
		StatusCode: status,
		Code:       status,
		Message:    c.tell(message),
		RequestID:  c.RequestID,
	}}
}

// explain returns what the user may know of err and keeps the rest for the log.
func (s *server) explain(c *call, err error) (status int, message app.Text, logs string) {
	if why := web.LastWord(c.Request.Context()); why != nil && (errors.Is(err, context.Canceled) || errors.Is(err, os.ErrDeadlineExceeded)) {
		c.Cause, err = err, why
	}
	status, message = told(err)
	var e *app.Error
	switch known := errors.As(err, &e); {
	case status == http.StatusInternalServerError:
		s.Log.Error("internal error", "route", c.Pattern, "request", c.RequestID, "cause", err)
		return status, message, ""
	case !known:
		c.Cause = err
		return status, message, ""
	}
	if e.Err != nil {
		c.Cause = e.Err
	}
	return status, message, e.Logs
}

// toldInEnglish is told for the audit log.
func toldInEnglish(err error) (status int, message string) {
	status, text := told(err)
	return status, text.String()
}

// told is what the user may know of err.
func told(err error) (status int, message app.Text) {
	var e *app.Error
	switch {
	case errors.As(err, &e) && e.Kind > app.Internal && int(e.Kind) < len(statusOf):
		if e.Message.IsZero() {
			return statusOf[e.Kind], app.Textf(fallbackMessage)
		}
		return statusOf[e.Kind], e.Message
	case e == nil && (errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)):
		return http.StatusServiceUnavailable, app.Textf(cancelledMessage)
	}
	return http.StatusInternalServerError, app.Textf(internalMessage)
}
