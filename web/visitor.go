package web

import (
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

// KeyOf names where a request came from. One customer usually holds a whole /64 of
// IPv6, so that is one address.
func KeyOf(addr netip.Addr) string {
	if addr.Is6() {
		if network, err := addr.Prefix(64); err == nil {
			return network.String()
		}
	}
	return addr.String()
}

// AddressOf is the address of a connection without its port; not valid if it has none.
func AddressOf(remote string) netip.Addr {
	at, err := netip.ParseAddrPort(remote)
	if err != nil {
		return netip.Addr{}
	}
	return at.Addr().Unmap().WithZone("")
}

// Networks are those of proxies whose X-Forwarded-For and -Proto are believed.
type Networks []netip.Prefix

// Contains reports whether an address is in one of them.
func (n Networks) Contains(a netip.Addr) bool {
	return slices.ContainsFunc(n, func(network netip.Prefix) bool { return network.Contains(a) })
}

// Client is the address that a request comes from, whose connection comes from peer. What
// others told a trusted proxy may be false, but the last of its list is who reached it, and
// so on while that is trusted too.
func (n Networks) Client(peer netip.Addr, h http.Header) netip.Addr {
	told := strings.Join(h["X-Forwarded-For"], ",")
	for told != "" && n.Contains(peer) {
		i := strings.LastIndexByte(told, ',')
		next, err := netip.ParseAddr(strings.TrimSpace(told[i+1:]))
		if err != nil {
			break
		}
		peer, told = next.Unmap().WithZone(""), told[:max(i, 0)]
	}
	return peer
}
