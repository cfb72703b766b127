package settings

import (
	"net"
	"net/netip"
	"net/url"
	"strconv"
	"strings"

	"berth/host/domain"
)

// What proves that a domain is an account's.
const (
	proofTXT     = "txt"
	ProofAddress = "address" // besides
)

// domainName is empty or a domain, as it is kept.
type domainName struct{ to *string }

func (d domainName) set(text string) bool {
	if text == "" {
		*d.to = ""
		return true
	}
	name, err := domain.CheckDomain(text, nil)
	if err == nil {
		*d.to = name
	}
	return err == nil
}

func (domainName) expects() string { return `a domain such as "apps.example.org"` }

// addresses is empty or some IP addresses with commas between them, at which
// others can reach this host.
type addresses struct{ to *string }

func (a addresses) set(text string) bool {
	if _, ok := parseAddresses(text); !ok {
		return false
	}
	*a.to = text
	return true
}

func (addresses) expects() string {
	return `IP addresses with commas between them, such as "192.0.2.1,2001:db8::1"`
}

func parseAddresses(text string) (all []netip.Addr, ok bool) {
	if text == "" {
		return nil, true
	}
	for part := range strings.SplitSeq(text, ",") {
		a, err := netip.ParseAddr(strings.TrimSpace(part))
		if err != nil || a.Zone() != "" || a.IsUnspecified() {
			return nil, false
		}
		all = append(all, a.Unmap())
	}
	return all, true
}

// OwnAddresses are those at which others can reach this host.
func (s Settings) OwnAddresses() []netip.Addr {
	all, _ := parseAddresses(s.Names.Addresses) // checked when it was set
	return all
}

// server is empty or where a server listens.
type server struct{ to *string }

func (s server) set(text string) bool {
	host, port, err := net.SplitHostPort(text)
	if text != "" {
		n, bad := strconv.ParseUint(port, 10, 16)
		if err != nil || host == "" || strings.ContainsAny(host, "/ \t@") || bad != nil || n == 0 {
			return false
		}
	}
	*s.to = text
	return true
}

func (server) expects() string { return `HOST:PORT such as "192.0.2.53:53"` }

// HomeDomain is the domain of base_url; "" when it has none.
func (s Settings) HomeDomain() string {
	u, err := url.Parse(s.BaseURL)
	if err != nil {
		return ""
	}
	name, err := domain.CheckDomain(u.Hostname(), nil)
	if err != nil {
		return ""
	}
	return name
}
