package settings

import (
	"cmp"
	"net"
	"net/netip"
	"slices"
	"strings"
)

// The modes of the proxy.
const (
	ProxyOff    = "off"
	ProxyBehind = "behind"
	ProxyEdge   = "edge"
)

// choice is one of some words.
type choice struct {
	to    *string
	words []string
}

func (c choice) set(text string) bool {
	if !slices.Contains(c.words, text) {
		return false
	}
	*c.to = text
	return true
}

func (c choice) expects() string { return "one of " + strings.Join(c.words, ", ") }

// file is empty or a path; a relative one starts at the working directory.
type file struct{ to *string }

func (f file) set(text string) bool {
	if text == "" {
		*f.to = ""
		return true
	}
	return directory(f).set(text)
}

func (file) expects() string { return "a path" }

// SitesDomain is the domain below which sites are served.
func (s Settings) SitesDomain() string { return cmp.Or(s.Proxy.Domain, s.Names.Domain) }

// checkProxy looks for what its mode needs.
func (s *Settings) checkProxy(wrong func(string, ...any) error) error {
	if s.Proxy.Mode == ProxyEdge && s.Proxy.Cert == "" && s.Proxy.TLS == tlsFiles {
		return wrong("proxy.mode %q needs proxy.cert, the certificate of the sites, or proxy.tls %q", s.Proxy.Mode, TLSACME)
	}
	all := s.Listens()
	for i, address := range all {
		if !strings.HasSuffix(address, ":0") && slices.Contains(all[:i], address) {
			return wrong("listen and the addresses of proxy must differ: %s is there twice", address)
		}
	}
	return nil
}

// Listens are those that berth listens on.
func (s Settings) Listens() []string {
	switch s.Proxy.Mode {
	case ProxyBehind:
		return []string{s.Listen, s.Proxy.Listen}
	case ProxyEdge:
		return []string{s.Listen, s.Proxy.HTTP, s.Proxy.HTTPS}
	}
	return []string{s.Listen}
}

// TrustedProxies are the networks of proxies that are believed: in mode behind this
// machine, if the owner names none.
func (s Settings) TrustedProxies() []netip.Prefix {
	text := s.Proxy.Trusted
	if text == "" && s.Proxy.Mode == ProxyBehind {
		text = "127.0.0.0/8,::1"
	}
	rules, _ := parseRules(text) // checked when it was set
	var all []netip.Prefix
	for _, r := range rules {
		all = append(all, r.Net)
	}
	return all
}

// SnippetAddress is where a web server on this host finds the sites.
func (s Settings) SnippetAddress() string {
	if host, port, err := net.SplitHostPort(s.Proxy.Listen); err == nil && strings.Trim(host, "0.:") == "" {
		return net.JoinHostPort("127.0.0.1", port)
	}
	return s.Proxy.Listen
}
