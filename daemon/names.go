package daemon

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"time"

	"berth/daemon/settings"
	"berth/host/domain"
)

// names is what the policy of names is made of.
func (d *daemon) names() domain.Config {
	s := d.settings
	addresses := s.OwnAddresses()
	if s.Names.Proof == settings.ProofAddress && len(addresses) == 0 {
		d.log.Warn("names.proof has no effect", "why", "names.addresses does not say which addresses are this host's")
	}
	return domain.Config{
		Subdomains: d.db, Claims: claims{d.db, d.renamed, d.proved}, Resolver: newResolver(s.Names.Resolver), Now: time.Now,
		PerAccount: s.Names.PerAccount, Own: ownDomains(s), Parent: s.SitesDomain(), Addresses: addresses,
		ByAddress: s.Names.Proof == settings.ProofAddress,
	}
}

// ownDomains are the host's own: nobody may claim them.
func ownDomains(s settings.Settings) []string {
	var own []string
	for _, name := range []string{s.Names.Domain, s.Proxy.Domain} {
		if name != "" {
			own = append(own, name)
		}
	}
	if name := s.HomeDomain(); name != "" {
		own = append(own, name)
	}
	return own
}

// resolver asks the DNS as domain.Resolver wants it.
type resolver struct{ net.Resolver }

// newResolver asks the host's own servers, or the one at address. It is Go's
// own, which holds no thread while it waits.
func newResolver(address string) *resolver {
	r := &resolver{net.Resolver{PreferGo: true}}
	if address != "" {
		r.Dial = func(ctx context.Context, network, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, network, address)
		}
	}
	return r
}

// LookupTXT implements domain.Resolver.
func (r *resolver) LookupTXT(ctx context.Context, name string) ([]string, error) {
	texts, err := r.Resolver.LookupTXT(ctx, name)
	var e *net.DNSError
	if errors.As(err, &e) && e.IsNotFound {
		return nil, nil
	}
	return texts, err
}

// LookupAddresses implements domain.Resolver.
func (r *resolver) LookupAddresses(ctx context.Context, name string) ([]netip.Addr, error) {
	all, err := r.LookupNetIP(ctx, "ip", name)
	var e *net.DNSError
	if errors.As(err, &e) && e.IsNotFound {
		return nil, nil
	}
	return all, err
}
