package egress

import (
	"net/netip"
	"slices"
)

var (
	// global is what the registries give to hosts of IPv6; all else is of some special kind.
	global = netip.MustParsePrefix("2000::/3")
	// nat64 leads to the IPv4 address in its last four bytes (RFC 6052).
	nat64 = netip.MustParsePrefix("64:ff9b::/96")
	// special are the addresses that no server of the internet has (RFC 6890 and its registries).
	special = prefixes(
		"0.0.0.0/8", "10.0.0.0/8", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12", "192.168.0.0/16",
		"100.64.0.0/10",                  // behind a provider's router
		"192.0.0.0/24", "192.88.99.0/24", // of protocols
		"192.0.2.0/24", "198.51.100.0/24", "203.0.113.0/24", // of documents
		"198.18.0.0/15",              // of benchmarks
		"224.0.0.0/4", "240.0.0.0/4", // multicast, and what nobody has
		"168.63.129.16/32",           // of Azure's hosts, to their guests alone
		"2001::/23",                  // of protocols: Teredo, ORCHID, benchmarks
		"2001:db8::/32", "3fff::/20", // of documents
		"2002::/16", // 6to4: leads to an IPv4 address
	)
)

func prefixes(all ...string) []netip.Prefix {
	parsed := make([]netip.Prefix, len(all))
	for i, p := range all {
		parsed[i] = netip.MustParsePrefix(p)
	}
	return parsed
}

// Public reports whether an address is one of the internet's, as anybody has them. An IPv4 address
// that is written as one of IPv6, or is reached through NAT64, is what the IPv4 address is.
func Public(a netip.Addr) bool {
	a = plain(a)
	return a.IsValid() && (a.Is4() || global.Contains(a)) && !slices.ContainsFunc(special, func(p netip.Prefix) bool { return p.Contains(a) })
}

// plain is the IPv4 address that an address of IPv6 stands for, or the address itself.
func plain(a netip.Addr) netip.Addr {
	if nat64.Contains(a) {
		last := a.As16()
		return netip.AddrFrom4([4]byte(last[12:]))
	}
	return a.Unmap()
}
