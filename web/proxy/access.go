package proxy

import (
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// recorder notes what was answered.
type recorder struct {
	http.ResponseWriter
	began  time.Time
	status int
	bytes  int64
}

// WriteHeader implements http.ResponseWriter.
func (r *recorder) WriteHeader(status int) {
	if r.status < http.StatusOK { // the last of 1xx, or the answer
		r.status = status
	}
	r.ResponseWriter.WriteHeader(status)
}

// Write implements http.ResponseWriter.
func (r *recorder) Write(p []byte) (int, error) {
	if r.status < http.StatusOK {
		r.status = http.StatusOK
	}
	n, err := r.ResponseWriter.Write(p)
	r.bytes += int64(n)
	return n, err
}

// ReadFrom lets the kernel send files, as without a record.
func (r *recorder) ReadFrom(src io.Reader) (int64, error) {
	if r.status < http.StatusOK {
		r.status = http.StatusOK
	}
	n, err := io.Copy(r.ResponseWriter, src) // takes its ReadFrom if it has one
	r.bytes += n
	return n, err
}

// Unwrap lets http.ResponseController flush and hijack.
func (r *recorder) Unwrap() http.ResponseWriter { return r.ResponseWriter }

// longestTarget is how much of a request's target a line keeps.
const longestTarget = 2048

// line is one line in the common log format (httpd's %h %l %u %t "%r" %>s %b);
// nothing that a stranger sent can begin another.
func (r *recorder) line(a *asked, q *http.Request) string {
	target := q.RequestURI
	if len(target) > longestTarget {
		target = target[:longestTarget] + "..."
	}
	request := strconv.QuoteToASCII(q.Method + " " + target + " " + q.Proto)
	size := "-"
	if r.bytes > 0 {
		size = strconv.FormatInt(r.bytes, 10)
	}
	status := r.status
	if status == 0 {
		status = 499 // the client went before the answer
	}
	return fmt.Sprintf("%s - - [%s] %s %d %s", a.client, r.began.Format("02/Jan/2006:15:04:05 -0700"), strings.ToValidUTF8(request, ""), status, size)
}
