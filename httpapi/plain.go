package httpapi

import (
	"bytes"
	"net/http"
	"strconv"
	"strings"
)

// plainHeaders is what net/http writes between the status and the text of an
// answer to a request that it cannot read (go1.26 net/http/server.go, errorHeaders).
const plainHeaders = "\r\nContent-Type: text/plain; charset=utf-8\r\nConnection: close\r\n\r\n"

// translated turns such an answer into JSON; it returns nil for anything else.
func translated(p []byte) []byte {
	rest, is := bytes.CutPrefix(p, []byte("HTTP/1.1 "))
	if !is || len(rest) < 3 {
		return nil
	}
	status, err := strconv.Atoi(string(rest[:3]))
	if err != nil || status < http.StatusBadRequest {
		return nil
	}
	_, text, is := strings.Cut(string(rest), plainHeaders)
	if !is && status != http.StatusExpectationFailed { // which it answers without a body
		return nil
	}
	message := "The request is not HTTP as this server speaks it."
	_, detail, _ := strings.Cut(text, ": ")
	switch {
	case status == http.StatusRequestHeaderFieldsTooLarge:
		message = "The headers of the request are larger than is allowed."
	case status == http.StatusExpectationFailed:
		message = "The only expectation that is met here is 100-continue."
	case detail != "":
		message = "The request is not HTTP as this server speaks it: " + detail + "."
	}
	h := http.Header{}
	head(h)
	body := outright(status, message, h.Get("X-Request-Id"))
	h.Set("Connection", "close")
	h.Set("Content-Length", strconv.Itoa(len(body)))
	var b bytes.Buffer
	b.WriteString("HTTP/1.1 " + strconv.Itoa(status) + " " + http.StatusText(status) + "\r\n")
	_ = h.Write(&b) // into memory
	b.WriteString("\r\n")
	b.Write(body)
	return b.Bytes()
}
