package kube

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path"
	"strconv"
	"strings"
	"sync"
	"time"
)

const (
	// answerTime is how long an answer may be under way, unless it is a stream.
	answerTime = 30 * time.Second
	// pingTime is how long a connection may be silent before the server is asked whether it is there.
	pingTime = 15 * time.Second
	// maxAnswer bounds one answer, in bytes: a list of 10,000 pods has 30 MB.
	maxAnswer = 256 << 20
	// tokenTime is how long a token is used before it is read anew: a cluster lets them end, and puts new ones there.
	tokenTime = time.Minute
)

// ErrAway means that the API server does not answer: what runs is not known, and goes on.
var ErrAway = errors.New("the API server of the cluster does not answer")

// Config says which cluster it is, and who berth is there.
type Config struct {
	Server    string // such as https://10.0.0.1:6443
	CAFile    string // certificates, of which one has signed the server's; "" for those of this machine
	TokenFile string // of a service account
	Namespace string // of the programs
}

// Client speaks with the API server about one namespace. It is safe for concurrent use.
type Client struct {
	server    string
	namespace string
	calls     *http.Client // HTTP/2: many streams over few connections
	upgrades  *http.Client // HTTP/1.1, which WebSockets need
	kubelets  *http.Client
	tokens    token
}

// New returns a client. It reads the certificates, and asks nobody. The error is that of a file or an address.
func New(c Config) (*Client, error) {
	server, err := url.Parse(c.Server)
	if err != nil || server.Scheme != "https" || server.Host == "" || server.Path != "" && server.Path != "/" {
		return nil, fmt.Errorf("cannot use the cluster: %q is no address such as https://10.0.0.1:6443", c.Server)
	}
	var pool *x509.CertPool
	if c.CAFile != "" {
		pem, err := os.ReadFile(c.CAFile)
		if err != nil {
			return nil, fmt.Errorf("cannot use the cluster: %w", err)
		}
		if pool = x509.NewCertPool(); !pool.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("cannot use the cluster: %s holds no certificate", c.CAFile)
		}
	}
	transport := func(two bool) *http.Client {
		t := &http.Transport{
			TLSClientConfig: &tls.Config{RootCAs: pool}, TLSHandshakeTimeout: answerTime, ForceAttemptHTTP2: two,
			HTTP2: &http.HTTP2Config{SendPingTimeout: pingTime, PingTimeout: pingTime}, IdleConnTimeout: time.Minute,
		}
		if !two {
			t.TLSNextProto = map[string]func(string, *tls.Conn) http.RoundTripper{}
		}
		return &http.Client{Transport: t, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	}
	k := &Client{
		server: "https://" + server.Host, namespace: c.Namespace,
		calls: transport(true), upgrades: transport(false), kubelets: transport(true), tokens: token{file: c.TokenFile},
	}
	if _, err := k.tokens.get(); err != nil {
		return nil, fmt.Errorf("cannot use the cluster: %w", err)
	}
	return k, nil
}

// Close closes the connections that nobody uses.
func (c *Client) Close() {
	c.calls.CloseIdleConnections()
	c.upgrades.CloseIdleConnections()
	c.kubelets.CloseIdleConnections()
}

// token is that of a service account, in a file which the cluster may replace.
type token struct {
	file string
	mu   sync.Mutex
	text string
	read time.Time
}

func (t *token) get() (string, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.text != "" && time.Since(t.read) < tokenTime {
		return t.text, nil
	}
	text, err := os.ReadFile(t.file)
	word := strings.TrimSpace(string(text))
	if err == nil && word == "" {
		err = fmt.Errorf("%s is empty", t.file)
	}
	switch {
	case err == nil:
		t.text, t.read = word, time.Now()
	case t.text == "":
		return "", err
	} // else somebody is replacing it: the one before may hold still, and the server says if not
	return t.text, nil
}

// Error is a refusal of the API server (Status in the Kubernetes API conventions).
type Error struct {
	Code    int    // of HTTP
	Reason  string // a word, such as NotFound or Forbidden
	Message string // the server's sentence
	Retry   time.Duration
}

// Error returns the server's sentence.
func (e *Error) Error() string {
	if e.Message == "" {
		return fmt.Sprintf("the cluster answers %d %s", e.Code, e.Reason)
	}
	return "the cluster says: " + e.Message
}

// CodeOf returns the HTTP status of a refusal, and 0 for every other error.
func CodeOf(err error) int {
	if e, is := errors.AsType[*Error](err); is {
		return e.Code
	}
	return 0
}

// request is one request; its path begins behind the server.
type request struct {
	method, path string
	query        url.Values
	kind         string // of the body; "" for JSON
	body         any
}

// pods is the path of a pod of the namespace, or of all, and of what belongs to it.
func (c *Client) pods(parts ...string) string {
	return path.Join(append([]string{"/api/v1/namespaces", c.namespace, "pods"}, parts...)...)
}

// call sends a request and reads the answer into into, unless that is nil.
func (c *Client) call(ctx context.Context, r request, into any) error {
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	resp, err := c.send(ctx, c.calls, c.server, r)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }() // it was read
	if into == nil {
		_, err = io.Copy(io.Discard, io.LimitReader(resp.Body, maxAnswer))
	} else {
		err = json.NewDecoder(io.LimitReader(resp.Body, maxAnswer)).Decode(into)
	}
	return broken(ctx, err)
}

// send sends a request, and returns the response of a success. The caller closes its body.
func (c *Client) send(ctx context.Context, by *http.Client, server string, r request) (*http.Response, error) {
	var body io.Reader
	if r.body != nil {
		text, err := json.Marshal(r.body)
		if err != nil {
			return nil, err
		}
		body = bytes.NewReader(text)
	}
	to := server + r.path
	if len(r.query) > 0 {
		to += "?" + r.query.Encode()
	}
	req, err := http.NewRequestWithContext(ctx, r.method, to, body)
	if err != nil {
		return nil, err
	}
	if err := c.authorize(req.Header); err != nil {
		return nil, err
	}
	req.Header.Set("Accept", "application/json")
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
		if r.kind != "" {
			req.Header.Set("Content-Type", r.kind)
		}
	}
	resp, err := by.Do(req)
	if err != nil {
		return nil, broken(ctx, err)
	}
	if resp.StatusCode >= 300 {
		defer func() { _ = resp.Body.Close() }() // what it says is known
		return nil, refusal(resp)
	}
	return resp, nil
}

func (c *Client) authorize(h http.Header) error {
	text, err := c.tokens.get()
	if err != nil {
		return fmt.Errorf("cannot read the token for the cluster: %w", err)
	}
	h.Set("Authorization", "Bearer "+text)
	h.Set("User-Agent", "berth")
	return nil
}

// broken returns ErrAway for the error of a connection, and the error of ctx where the caller has given up.
func broken(ctx context.Context, err error) error {
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil && !errors.Is(ctx.Err(), context.DeadlineExceeded):
		return ctx.Err()
	}
	if wrong, is := errors.AsType[*url.Error](err); is { // which repeats the address
		err = wrong.Err
	}
	return fmt.Errorf("%w: %w", ErrAway, err)
}

// refusal reads an answer that is no success.
func refusal(resp *http.Response) error {
	e := &Error{Code: resp.StatusCode}
	var status struct {
		Reason, Message string
		Details         struct{ RetryAfterSeconds int }
	}
	text, _ := io.ReadAll(io.LimitReader(resp.Body, 64<<10)) // what came says enough
	if json.Unmarshal(text, &status) == nil {
		e.Reason, e.Message = status.Reason, status.Message
	}
	seconds := status.Details.RetryAfterSeconds
	if n, err := strconv.Atoi(resp.Header.Get("Retry-After")); err == nil {
		seconds = max(seconds, n)
	}
	e.Retry = time.Duration(seconds) * time.Second
	return e
}
