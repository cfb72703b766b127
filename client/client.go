package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"time"
)

// Config is where a berth is, and who asks.
type Config struct {
	URL     string // of the server: https://berth.example.org, without /v2
	Token   string // of the API; "" over the local socket
	Account string // over the local socket: the name or number of the account that is meant

	// PlainToken lets the token cross a network in plain HTTP.
	PlainToken bool
	// HTTP makes the requests, over the local socket or in tests. It must follow no
	// redirects. By default it is one of the client's own.
	HTTP *http.Client
	// UserAgent is what the client calls itself; default "berth".
	UserAgent string
	// Notice hears what the client waits for, in a sentence; it may be nil.
	Notice func(text string)
	// Wait sleeps, or returns the error of a context that ends first. Default: a timer.
	Wait func(ctx context.Context, d time.Duration) error
}

// Client calls the API of one berth. It is safe for concurrent use.
type Client struct {
	Config
}

const (
	tokenHeader   = "api-token"
	accountHeader = "Berth-Account" // of the local socket

	// patience bounds the answer to a GET of Call.
	patience = 2 * time.Minute
	// dialTime bounds a connection, and TLS on it.
	dialTime = 15 * time.Second

	// maxWaits is how often one call waits for a server that is busy, and longestWait how
	// long at most each time: a quota is a minute's.
	maxWaits    = 3
	longestWait = 65 * time.Second

	// maxLost is how often a GET is sent again after a lost connection.
	maxLost = 2
)

// ParseURL returns the address of a berth as Config has it. Without a scheme it is https.
// It refuses what is no address, and addresses with a user, a query or a fragment.
func ParseURL(text string) (string, error) {
	if !strings.Contains(text, "://") {
		text = "https://" + text
	}
	u, err := url.Parse(text)
	switch {
	case err != nil, u.User != nil: // which may hold a password
		return "", errors.New("that is no address of a server: expected one such as https://berth.example.org, without a user")
	case u.Scheme != "https" && u.Scheme != "http", u.Hostname() == "", u.RawQuery != "", u.Fragment != "":
		return "", fmt.Errorf("%q is no address of a server: expected one such as https://berth.example.org", text)
	}
	u.Host = strings.ToLower(u.Host)
	u.Path, u.RawPath = strings.TrimSuffix(strings.TrimRight(u.Path, "/"), "/v2"), ""
	return u.String(), nil
}

// Loopback reports whether an address stays on this machine.
func Loopback(address string) bool {
	u, err := url.Parse(address)
	if err != nil {
		return false
	}
	at, err := netip.ParseAddr(u.Hostname())
	return u.Hostname() == "localhost" || err == nil && at.Unmap().IsLoopback()
}

// New returns a client. It makes no connection.
func New(c Config) *Client {
	if c.HTTP == nil {
		c.HTTP = &http.Client{
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
			Transport: &http.Transport{
				Proxy:                 http.ProxyFromEnvironment,
				DialContext:           (&net.Dialer{Timeout: dialTime, KeepAlive: 15 * time.Second}).DialContext,
				TLSHandshakeTimeout:   dialTime,
				ForceAttemptHTTP2:     true,
				ExpectContinueTimeout: 5 * time.Second,
				IdleConnTimeout:       time.Minute,
			},
		}
	}
	if c.UserAgent == "" {
		c.UserAgent = "berth"
	}
	if c.Wait == nil {
		c.Wait = wait
	}
	return &Client{c}
}

// Close closes idle connections.
func (c *Client) Close() { c.HTTP.CloseIdleConnections() }

func wait(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}

// origin names the server in errors.
func (c *Client) origin() string {
	if c.Token == "" && c.Account != "" {
		return "the daemon of this host"
	}
	return c.URL
}

// notice says what is waited for.
func (c *Client) notice(format string, args ...any) {
	if c.Notice != nil {
		c.Notice(fmt.Sprintf(format, args...))
	}
}

// Call asks for one operation: path begins with /v2, send becomes the JSON of the body
// unless it is nil, and the answer is decoded into a pointer unless that is nil. It blocks
// until the answer is there; a GET has two minutes. The error is an *Error where the
// server refused, also with the status 200: "already online".
func (c *Client) Call(ctx context.Context, method, path string, send, into any) error {
	var body []byte
	if send != nil {
		var err error
		if body, err = json.Marshal(send); err != nil {
			return fmt.Errorf("cannot write the request: %w", err)
		}
	}
	waits, losses := 0, 0
	for {
		err := c.once(ctx, method, path, body, into)
		pause := time.Duration(0)
		refused, is := errors.AsType[*Error](err)
		_, broken := errors.AsType[lost](err)
		switch {
		case err == nil || ctx.Err() != nil:
			return err
		case is && busy(refused) && waits < maxWaits:
			pause = refused.Wait
			waits++
			c.notice("%s Trying again in %d s.", sentence(refused.Message), int(pause/time.Second))
		case broken && method == http.MethodGet && losses < maxLost:
			losses++
			pause = time.Duration(losses) * 500 * time.Millisecond
			c.notice("The connection to %s was lost. Trying again.", c.origin())
		default:
			return err
		}
		if stopped := c.Wait(ctx, pause); stopped != nil {
			return stopped
		}
	}
}

// busy reports whether a refusal will be over soon, as the server says itself.
func busy(e *Error) bool {
	return (e.Status == http.StatusTooManyRequests || e.Status == http.StatusServiceUnavailable) && e.Wait > 0 && e.Wait <= longestWait
}

// sentence is a message that another sentence can follow.
func sentence(text string) string {
	first, _, _ := strings.Cut(text, "\n")
	return strings.TrimRight(first, ". ") + "."
}

func (c *Client) once(ctx context.Context, method, path string, body []byte, into any) error {
	if method == http.MethodGet {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, patience)
		defer cancel()
	}
	header := http.Header{}
	var reader io.Reader
	if body != nil {
		header.Set("Content-Type", "application/json")
		reader = bytes.NewReader(body)
	}
	resp, err := c.do(ctx, method, path, header, reader, int64(len(body)))
	if err != nil {
		return err
	}
	return c.read(resp, into)
}

// Send is one request with a body of length bytes, -1 if that is not known, and header
// besides the client's own. It waits for nothing and repeats nothing. The caller closes
// the body of the response, whose status is below 300; the error is as that of Call.
func (c *Client) Send(
	ctx context.Context, method, path, contentType string, body io.Reader, length int64, header http.Header,
) (*http.Response, error) {
	header = header.Clone()
	if header == nil {
		header = http.Header{}
	}
	if contentType != "" {
		header.Set("Content-Type", contentType)
	}
	resp, err := c.do(ctx, method, path, header, body, length)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode >= 300 {
		return nil, c.read(resp, nil)
	}
	return resp, nil
}

// plain refuses to let the token cross a network in plain HTTP.
func (c *Client) plain() error {
	if c.Token != "" && strings.HasPrefix(c.URL, "http:") && !c.PlainToken && !Loopback(c.URL) {
		return failed(ErrPlain, nil, "cannot send the token to %s: everybody on the way would read it; use an https address", c.URL)
	}
	return nil
}

// authorize says in a header who asks.
func (c *Client) authorize(h http.Header) {
	if c.Token != "" {
		h.Set(tokenHeader, c.Token)
	}
	if c.Account != "" {
		h.Set(accountHeader, c.Account)
	}
}

// do sends one request, with the token, to the server alone.
func (c *Client) do(ctx context.Context, method, path string, header http.Header, body io.Reader, length int64) (*http.Response, error) {
	if err := c.plain(); err != nil {
		return nil, err
	}
	r, err := http.NewRequestWithContext(ctx, method, c.URL+path, body)
	if err != nil {
		return nil, fmt.Errorf("cannot make the request: %w", err)
	}
	r.Header = header
	if body != nil {
		r.ContentLength = length
	}
	r.Header.Set("User-Agent", c.UserAgent)
	if r.Header.Get("Accept") == "" {
		r.Header.Set("Accept", "application/json")
	}
	c.authorize(r.Header)
	resp, err := c.HTTP.Do(r)
	if err != nil {
		if wrong, is := errors.AsType[*url.Error](err); is { // which repeats the address
			err = wrong.Err
		}
		return nil, c.unreached(brokenOff(err))
	}
	return resp, nil
}

// brokenOff marks the error of a connection that was there and ended without an answer.
func brokenOff(err error) error {
	var dial *net.OpError
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.As(err, &dial) && (dial.Op == "read" || dial.Op == "write") {
		return lost{err}
	}
	return err
}
