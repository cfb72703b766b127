package egress

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"sync"
	"syscall"
	"time"
)

const (
	// MaxBody is how much of an answer can be read, in bytes.
	MaxBody = 64 << 10
	// Timeout bounds a request, from the question to the DNS to the last byte of the answer.
	Timeout = 15 * time.Second

	maxHeader = 64 << 10
	freshness = 5 * time.Second // of what is known of the host's interfaces
)

// Options are what a Client is made of. The zero value works.
type Options struct {
	Version  string           // of berth, for User-Agent
	Allow    []netip.AddrPort // which accounts of the host's owner may reach too
	Own      []netip.Addr     // which lead to this host though no interface has them
	Resolver *net.Resolver    // nil asks as the host does
	Roots    *x509.CertPool   // nil are the host's
	Timeout  time.Duration    // 0 is Timeout

	interfaces func() ([]net.Addr, error) // nil are the host's
}

// Client fetches and posts for accounts. It is safe for concurrent use.
type Client struct {
	account, owner *http.Client
	allow          []netip.AddrPort
}

// New returns a client that holds no connections.
func New(o Options) *Client {
	if o.interfaces == nil {
		o.interfaces = net.InterfaceAddrs
	}
	if o.Timeout == 0 {
		o.Timeout = Timeout
	}
	g := &guard{given: o.Own, read: o.interfaces}
	c := &Client{account: client(o, g.control), allow: o.Allow}
	c.owner = client(o, func(ctx context.Context, network, address string, raw syscall.RawConn) error {
		if c.Allows(address) {
			return nil
		}
		return g.control(ctx, network, address, raw)
	})
	return c
}

// For returns the client for the requests of an account, which owner says is the host's owner's.
// Its Do returns answers with any status, also those of redirects.
func (c *Client) For(owner bool) *http.Client {
	if owner {
		return c.owner
	}
	return c.account
}

// Allows reports whether Options.Allow names ADDRESS:PORT, in any spelling.
func (c *Client) Allows(address string) bool {
	at, err := netip.ParseAddrPort(address)
	return err == nil && slices.Contains(c.allow, netip.AddrPortFrom(at.Addr().Unmap(), at.Port()))
}

// client is one whose connections control lets pass.
func client(o Options, control func(context.Context, string, string, syscall.RawConn) error) *http.Client {
	dialer := &net.Dialer{Resolver: o.Resolver, ControlContext: control, KeepAlive: -1}
	return &http.Client{
		Timeout:       o.Timeout,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Transport: &bounded{"berth/" + o.Version, &http.Transport{
			DialContext: dialer.DialContext, DisableKeepAlives: true, DisableCompression: true, MaxResponseHeaderBytes: maxHeader,
			TLSClientConfig: &tls.Config{RootCAs: o.Roots, MinVersion: tls.VersionTLS12},
		}},
	}
}

// bounded is a transport that says who asks, and cuts answers.
type bounded struct {
	agent string
	inner *http.Transport
}

// RoundTrip implements http.RoundTripper.
func (b *bounded) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("User-Agent", b.agent)
	response, err := b.inner.RoundTrip(r)
	if err == nil {
		response.Body = http.MaxBytesReader(nil, response.Body, MaxBody)
	}
	return response, err
}

// Denied is the error of a connection that berth did not make.
type Denied struct{ To string }

// Error implements error.
func (d *Denied) Error() string { return "berth does not connect to " + d.To }

// guard says to which addresses connections are made.
type guard struct {
	given []netip.Addr
	read  func() ([]net.Addr, error)

	mu    sync.Mutex
	known []netip.Addr
	since time.Time // known was read
}

// control is a net.Dialer's: its error is a *Denied for what is not public, and for this host.
func (g *guard) control(_ context.Context, _, address string, _ syscall.RawConn) error {
	at, err := netip.ParseAddrPort(address)
	if err != nil || at.Port() != 80 && at.Port() != 443 || !Public(at.Addr()) {
		return &Denied{address}
	}
	switch own, err := g.own(); {
	case err != nil:
		return fmt.Errorf("cannot read the addresses of this host: %w", err)
	case slices.Contains(own, plain(at.Addr())):
		return &Denied{address}
	}
	return nil
}

// own are the addresses of this host.
func (g *guard) own() ([]netip.Addr, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if time.Since(g.since) < freshness {
		return g.known, nil
	}
	all, err := g.read()
	if err != nil {
		return nil, err
	}
	own := slices.Clone(g.given)
	for _, a := range all {
		if n, is := a.(*net.IPNet); is {
			if at, ok := netip.AddrFromSlice(n.IP); ok {
				own = append(own, plain(at))
			}
		}
	}
	g.known, g.since = own, time.Now()
	return own, nil
}
