package depot

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"path"
	"regexp"
	"strings"
	"time"
)

const (
	maxList      = 32 << 20         // of versions, or of sums
	listTimeout  = time.Minute      // for one of these
	maxRedirects = 5                // publishers keep archives on other hosts
	stallTimeout = 30 * time.Second // without an answer or a byte
)

// Client downloads from publishers. It is safe for concurrent use.
type Client struct {
	base  map[string]string // by language
	agent string
	http  *http.Client
	stall time.Duration
}

// NewClient returns a client for the base addresses of publishers, by language, in which
// empty means the publisher's own. agent is how berth presents itself.
func NewClient(base map[string]string, agent string) *Client {
	c := &Client{base: base, agent: agent, stall: stallTimeout}
	c.http = &http.Client{
		Transport: &http.Transport{
			Proxy: http.ProxyFromEnvironment, ForceAttemptHTTP2: true,
			DialContext:         (&net.Dialer{Timeout: stallTimeout}).DialContext,
			TLSHandshakeTimeout: stallTimeout, ResponseHeaderTimeout: stallTimeout, DisableKeepAlives: true,
		},
		CheckRedirect: func(r *http.Request, via []*http.Request) error {
			switch {
			case len(via) > maxRedirects:
				return errors.New("it leads on too often")
			case !safe(r.URL) || r.URL.Scheme == "http" && via[0].URL.Scheme == "https":
				return fmt.Errorf("it leads to %s, which is not HTTPS", r.URL.Redacted())
			}
			return nil
		},
	}
	return c
}

// safe reports whether nobody on the way can change what an address gives: HTTPS, or this
// machine itself.
func safe(u *url.URL) bool {
	ip := net.ParseIP(u.Hostname())
	return u.Host != "" && (u.Scheme == "https" || u.Scheme == "http" && ip != nil && ip.IsLoopback())
}

// open begins a download. Reading ends with an error when nothing comes for a while.
func (c *Client) open(ctx context.Context, address string) (io.ReadCloser, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, address, http.NoBody)
	if err != nil {
		cancel(nil)
		return nil, err
	}
	r.Header.Set("User-Agent", c.agent)
	answer, err := c.http.Do(r)
	if err != nil {
		cancel(nil)
		if u, is := errors.AsType[*url.Error](err); is {
			err = u.Err
		}
		return nil, fmt.Errorf("cannot get %s: %w", address, err)
	}
	if answer.StatusCode != http.StatusOK {
		cancel(nil)
		_ = answer.Body.Close()
		return nil, &status{address, answer.StatusCode}
	}
	b := &body{address: address, ReadCloser: answer.Body, patience: c.stall, ctx: ctx, cancel: cancel}
	b.timer = time.AfterFunc(c.stall, func() { cancel(fmt.Errorf("nothing came for %s", c.stall)) })
	return b, nil
}

// status is an answer that is no success.
type status struct {
	address string
	code    int
}

// Error implements error.
func (s *status) Error() string {
	return fmt.Sprintf("cannot get %s: the server answers %d %s", s.address, s.code, http.StatusText(s.code))
}

// body is what comes of a download.
type body struct {
	io.ReadCloser
	address  string
	patience time.Duration
	timer    *time.Timer
	ctx      context.Context
	cancel   context.CancelCauseFunc
}

// Read implements io.Reader.
func (b *body) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.timer.Reset(b.patience)
	if err != nil && !errors.Is(err, io.EOF) {
		if cause := context.Cause(b.ctx); cause != nil {
			err = cause
		}
		err = fmt.Errorf("cannot get %s: %w", b.address, err)
	}
	return n, err
}

// Close implements io.Closer.
func (b *body) Close() error {
	b.timer.Stop()
	b.cancel(nil)
	return b.ReadCloser.Close()
}

// list downloads something small.
func (c *Client) list(ctx context.Context, address string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	in, err := c.open(ctx, address)
	if err != nil {
		return nil, err
	}
	defer in.Close()
	text, err := io.ReadAll(io.LimitReader(in, maxList+1))
	if err == nil && len(text) > maxList {
		err = fmt.Errorf("cannot get %s: it is larger than %d MB", address, maxList>>20)
	}
	return text, err
}

// digest matches a SHA-256.
var digest = regexp.MustCompile(`^[0-9a-f]{64}$`)

// Sum returns the SHA-256 of a file in a list of sums such as SHA256SUMS. A list that
// holds one sum and no name is one of that file.
func Sum(list []byte, name string) (string, error) {
	lines := 0
	alone := ""
	for line := range strings.Lines(string(list)) {
		words := strings.Fields(line)
		if len(words) == 0 {
			continue
		}
		lines++
		sum := strings.ToLower(words[0])
		if !digest.MatchString(sum) {
			continue
		}
		if len(words) == 1 {
			alone = sum
		}
		if len(words) == 2 && path.Base(strings.TrimPrefix(words[1], "*")) == name {
			return sum, nil
		}
	}
	if lines == 1 && alone != "" {
		return alone, nil
	}
	return "", fmt.Errorf("the list of sums has none of %s", name)
}

// Digest returns a SHA-256 in the form in which it is compared; ok is false for what is none.
func Digest(text string) (sum string, ok bool) {
	text = strings.ToLower(text)
	return text, digest.MatchString(text)
}
