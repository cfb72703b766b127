package httpapi

import (
	"crypto/rand"
	"net/http"
	"strconv"
	"time"

	"berth/app"
	"berth/app/text"
	"berth/web"
)

// RefuseConnection is a web.Limits.Refuse: it answers 503 and says why.
func RefuseConnection(w http.ResponseWriter, r *http.Request, each int) {
	why := app.Textf("Your address has %d connections open, as many as one gets. Close some.", each)
	if each == 0 {
		why = app.Textf("The server has as many connections as it takes. Try again in a few seconds.")
	}
	h := w.Header()
	head(h)
	h.Set("Connection", "close")
	h.Set("Retry-After", strconv.Itoa(retryUnavailable))
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(web.Patience)) // see send
	w.WriteHeader(http.StatusServiceUnavailable)
	_, _ = w.Write(outright(http.StatusServiceUnavailable, text.Accept(r.Header.Get("Accept-Language")).SayPhrase(why), h.Get("X-Request-Id")))
}

// head sets what an answer has that no server has made.
func head(h http.Header) {
	h.Set("X-Request-Id", rand.Text())
	h.Set("Content-Type", "application/json; charset=utf-8")
	secure(h)
}

// outright is the body of an answer that no server has made.
func outright(status int, message, requestID string) []byte {
	return encode(errorBody{Status: statusError, StatusCode: status, Code: status, Message: message, RequestID: requestID})
}
