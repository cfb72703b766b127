package panel

import (
	"net"
	"net/http"
	"net/netip"
	"strings"

	"berth/app"
	"berth/web"
)

// visitor tells where a request comes from, and whether what the browser sends is
// hidden from others: it is on HTTPS, or on this machine. What a proxy says is
// believed of trusted ones only.
func (s *server) visitor(r *http.Request) (v app.Visitor, safe bool) {
	peer := addressOf(r.RemoteAddr)
	client := peer
	safe = r.TLS != nil
	if s.trusts(peer) {
		list := strings.Split(strings.Join(r.Header.Values("X-Forwarded-For"), ","), ",")
		for i := len(list) - 1; i >= 0 && s.trusts(client); i-- {
			addr, err := netip.ParseAddr(strings.TrimSpace(list[i]))
			if err != nil {
				break
			}
			client = addr.Unmap().WithZone("")
		}
		if proto := r.Header.Values("X-Forwarded-Proto"); len(proto) > 0 {
			safe = safe || strings.EqualFold(strings.TrimSpace(proto[len(proto)-1]), "https")
		}
	}
	safe = safe || peer.IsLoopback() && r.Header.Get("X-Forwarded-For") == "" && isLoopback(r.Host)
	return app.Visitor{Address: client.String(), Key: web.KeyOf(client), Agent: r.UserAgent()}, safe
}

func (s *server) trusts(addr netip.Addr) bool {
	for _, network := range s.Trusted {
		if network.Contains(addr) {
			return true
		}
	}
	return false
}

// isLoopback reports whether browsers take a Host for this machine's own, and its
// cookies for safe: localhost, 127.0.0.0/8, ::1 (Secure Contexts, 3.1).
func isLoopback(host string) bool {
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

// addressOf is the address of a connection without its port.
func addressOf(remote string) netip.Addr {
	port, err := netip.ParseAddrPort(remote)
	if err != nil {
		return netip.Addr{}
	}
	return port.Addr().Unmap().WithZone("")
}
