package daemon

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/netip"
	"slices"
	"time"

	"berth/daemon/settings"
	"berth/db"
	"berth/host/domain"
)

// namesConfig is what the policy of names is made of.
func namesConfig(s settings.Settings, names db.Names, e *sites, log *slog.Logger) domain.Config {
	addresses := s.OwnAddresses()
	if s.Names.Proof == settings.ProofAddress && len(addresses) == 0 {
		log.Warn("names.proof has no effect", "why", "names.addresses does not say which addresses are this host's")
	}
	return domain.Config{
		Subdomains: names, Claims: claims{names, e.changed, e.proved}, Resolver: newResolver(s.Names.Resolver), Now: time.Now,
		PerAccount: s.Names.PerAccount, Own: ownDomains(s), Parent: s.SitesDomain(), Addresses: addresses,
		ByAddress: s.Names.Proof == settings.ProofAddress,
	}
}

// ownDomains are the host's own: nobody may claim them.
func ownDomains(s settings.Settings) []string {
	return slices.DeleteFunc([]string{s.Names.Domain, s.Proxy.Domain, s.HomeDomain()}, func(name string) bool { return name == "" })
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
	return texts, unlessNotFound(err)
}

// LookupAddresses implements domain.Resolver.
func (r *resolver) LookupAddresses(ctx context.Context, name string) ([]netip.Addr, error) {
	all, err := r.LookupNetIP(ctx, "ip", name)
	return all, unlessNotFound(err)
}

// unlessNotFound is nil for a name that is not there, or has nothing of what is asked.
func unlessNotFound(err error) error {
	if e, is := errors.AsType[*net.DNSError](err); is && e.IsNotFound {
		return nil
	}
	return err
}
