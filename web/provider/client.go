package provider

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net/http"
)

const (
	maxBody   = 1 << 20 // of an answer; keys and metadata have some KB
	maxHeader = 64 << 10
	maxHops   = 3
)

// newClient returns a client that talks https alone, reads bounded bodies in bounded time, and
// follows redirects on the same host alone.
func newClient(roots *x509.CertPool) *http.Client {
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.MaxResponseHeaderBytes = maxHeader
	t.TLSClientConfig = &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}
	return &http.Client{
		Transport: careful{t},
		Timeout:   exchangeTime,
		CheckRedirect: func(r *http.Request, via []*http.Request) error {
			if len(via) > maxHops || r.URL.Host != via[0].URL.Host || r.URL.Scheme != via[0].URL.Scheme || via[0].Method != http.MethodGet {
				return errors.New("it redirects elsewhere")
			}
			return nil
		},
	}
}

// careful is a transport with bounds.
type careful struct{ inner http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (c careful) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Scheme != "https" {
		return nil, errors.New("the address is not https")
	}
	response, err := c.inner.RoundTrip(r)
	if err == nil {
		response.Body = &bounded{response.Body, maxBody}
	}
	return response, err
}

// bounded fails where a body is longer than it may be, instead of cutting it short.
type bounded struct {
	io.ReadCloser
	left int
}

// Read implements io.Reader.
func (b *bounded) Read(into []byte) (int, error) {
	n, err := b.ReadCloser.Read(into[:min(len(into), b.left+1)])
	if b.left -= n; b.left < 0 {
		return 0, errors.New("the answer is too long")
	}
	return n, err
}
