package client

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"
)

// Kinds of errors that are not the server's refusals. The cause is wrapped too.
var (
	// ErrNoServer means that nobody answers: the connection is refused or lost, the name
	// does not exist, or the answer takes too long.
	ErrNoServer = errors.New("the server cannot be reached")
	// ErrCertificate means that the certificate of the server is not valid for its name.
	ErrCertificate = errors.New("the certificate of the server is not valid")
	// ErrNotBerth means that something answers there which has no such API.
	ErrNotBerth = errors.New("no berth answers there")
	// ErrPlain means that a token would have crossed the network in plain text.
	ErrPlain = errors.New("a token never crosses a network in plain HTTP")
)

// Error is a refusal of the server.
type Error struct {
	Status    int           // HTTP status; 200 where the application is already as it was asked to be
	Message   string        // the server's sentence as it stands, possibly with the last lines of a build; others' bytes
	RequestID string        // as the server's log has it; "" if the answer names none
	Word      string        // that programs compare, of AskDevice and AwaitToken (RFC 8628, 3.5); "" elsewhere
	Logs      string        // output that explains it, such as that of a build; others' bytes
	Wait      time.Duration // after which the server asks to try again; 0 if it does not say
}

// Error returns the sentence; a failure of the server itself comes with its request's id.
func (e *Error) Error() string {
	if e.Status >= http.StatusInternalServerError && e.RequestID != "" {
		return fmt.Sprintf("%s (request %s)", e.Message, e.RequestID)
	}
	return e.Message
}

// StatusOf returns the HTTP status of a refusal, and 0 for every other error.
func StatusOf(err error) int {
	if e, is := errors.AsType[*Error](err); is {
		return e.Status
	}
	return 0
}

// Transient reports whether what failed may work later as it is: nobody answers now, or the server is busy or has failed.
func Transient(err error) bool {
	if e, refused := errors.AsType[*Error](err); refused {
		return e.Status >= http.StatusInternalServerError || e.Status == http.StatusTooManyRequests
	}
	return !errors.Is(err, ErrNotBerth) && !errors.Is(err, ErrCertificate) && !errors.Is(err, ErrPlain)
}

// failure is an error of one of the kinds above: a sentence that has its cause.
type failure struct {
	text        string
	kind, cause error
}

// Error returns the sentence.
func (f *failure) Error() string { return f.text }

// Unwrap returns the kind and the cause.
func (f *failure) Unwrap() []error {
	if f.cause == nil {
		return []error{f.kind}
	}
	return []error{f.kind, f.cause}
}

// failed makes one.
func failed(kind, cause error, format string, args ...any) error {
	return &failure{fmt.Sprintf(format, args...), kind, cause}
}

// unreached is the error of a request without an answer, by its kind.
func (c *Client) unreached(err error) error {
	var (
		invalid *tls.CertificateVerificationError
		plain   tls.RecordHeaderError
		unknown x509.UnknownAuthorityError
		dns     *net.DNSError
	)
	at := c.origin()
	switch {
	case errors.Is(err, context.Canceled):
		return err
	case errors.As(err, &unknown):
		return failed(ErrCertificate, err, "cannot trust %s: its certificate is signed by no authority that this system trusts", at)
	case errors.As(err, &invalid):
		return failed(ErrCertificate, err, "cannot trust %s: its certificate is not valid: %s", at, strings.TrimPrefix(invalid.Err.Error(), "x509: "))
	case errors.As(err, &plain), strings.Contains(err.Error(), "server gave HTTP response to HTTPS client"):
		return failed(ErrNotBerth, err, "cannot talk to %s: it answers without TLS", at)
	case errors.As(err, &dns) && dns.IsNotFound:
		return failed(ErrNoServer, err, "cannot reach %s: there is no host of this name", at)
	case errors.Is(err, context.DeadlineExceeded), os.IsTimeout(err):
		return failed(ErrNoServer, err, "cannot reach %s: it did not answer in time", at)
	}
	return failed(ErrNoServer, err, "cannot reach %s: %v", at, err)
}

// maxAnswer bounds an answer that is JSON, in bytes.
const maxAnswer = 32 << 20

// read decodes an answer into a value, or makes an error of it. It closes the body.
func (c *Client) read(resp *http.Response, into any) error {
	defer resp.Body.Close()
	if resp.StatusCode >= 300 && resp.StatusCode < 400 {
		return failed(ErrNotBerth, nil, "cannot use %s: it redirects to %.200q, and a token goes to no other address; log in at the address where berth is",
			c.origin(), resp.Header.Get("Location"))
	}
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	if err != nil {
		return c.unreached(lost{err})
	}
	var head struct {
		Status     string  `json:"status"`
		StatusCode int     `json:"statusCode"`
		Message    *string `json:"message"`
		RequestID  string  `json:"requestId"`
		Word       any     `json:"error"`
		Logs       string  `json:"logs"`
	}
	kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	isJSON := kind == "application/json" && len(text) <= maxAnswer && json.Unmarshal(text, &head) == nil
	refused := &Error{Status: resp.StatusCode, RequestID: head.RequestID, Logs: head.Logs, Wait: waitOf(resp.Header)}
	refused.Word, _ = head.Word.(string)
	switch {
	case isJSON && resp.StatusCode == http.StatusOK && head.Status != "error":
		if into == nil {
			return nil
		}
		if err := json.Unmarshal(text, into); err != nil {
			return failed(ErrNotBerth, err, "cannot use %s: its answer has another form than berth's: %v", c.origin(), err)
		}
		return nil
	case isJSON && head.Message != nil:
		refused.Message = *head.Message
		return refused
	case resp.StatusCode >= 500, resp.StatusCode == http.StatusRequestEntityTooLarge, resp.StatusCode == http.StatusTooManyRequests:
		refused.Message = fmt.Sprintf("%s, or a proxy before it, answered %d %s", c.origin(), resp.StatusCode, http.StatusText(resp.StatusCode))
		return refused
	}
	return failed(ErrNotBerth, nil, "cannot use %s: no berth answers there, but something that says %d %s", c.origin(), resp.StatusCode, http.StatusText(resp.StatusCode))
}

// waitOf is how long the server asks to wait.
func waitOf(h http.Header) time.Duration {
	for _, name := range []string{"Retry-After", "Ratelimit-Reset"} {
		if n, err := strconv.Atoi(strings.TrimSpace(h.Get(name))); err == nil && n >= 0 && n < 1<<31 {
			return max(time.Duration(n)*time.Second, time.Second)
		}
	}
	return 0
}

// lost is a connection that ended in the middle of an answer.
type lost struct{ err error }

// Error says so.
func (l lost) Error() string { return fmt.Sprintf("the connection was lost (%v)", l.err) }

// Unwrap returns the cause.
func (l lost) Unwrap() error { return l.err }
