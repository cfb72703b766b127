package web

import "net/netip"

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
