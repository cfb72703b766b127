package web

import (
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"

	"berth/app"
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

// Encrypted reports whether a client sent its request by HTTPS, to this server or to a
// trusted proxy.
func (n Networks) Encrypted(r *http.Request) bool {
	if r.TLS != nil || !n.Contains(AddressOf(r.RemoteAddr)) {
		return r.TLS != nil
	}
	proto := r.Header.Values("X-Forwarded-Proto")
	return len(proto) > 0 && strings.EqualFold(strings.TrimSpace(proto[len(proto)-1]), "https")
}

// Visitor is where a request comes from, and whether what the client sends is hidden from
// others: it is on HTTPS, or on this machine. Only trusted proxies are believed.
func (n Networks) Visitor(r *http.Request) (v app.Visitor, safe bool) {
	peer := AddressOf(r.RemoteAddr)
	client := n.Client(peer, r.Header)
	safe = n.Encrypted(r) || peer.IsLoopback() && r.Header.Get("X-Forwarded-For") == "" && IsLoopback(r.Host)
	return app.Visitor{Address: client.String(), Key: KeyOf(client), Agent: r.UserAgent()}, safe
}

// IsLoopback reports whether browsers regard a Host as this machine's own, and its
// cookies for safe: localhost, 127.0.0.0/8, ::1 (Secure Contexts, 3.1).
func IsLoopback(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.ToLower(strings.Trim(host, "[]"))
	if host == "localhost" || strings.HasSuffix(host, ".localhost") {
		return true
	}
	addr, err := netip.ParseAddr(host)
	return err == nil && addr.IsLoopback()
}
