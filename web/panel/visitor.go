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
	peer := web.AddressOf(r.RemoteAddr)
	client := s.Trusted.Client(peer, r.Header)
	safe = r.TLS != nil
	if s.Trusted.Contains(peer) {
		if proto := r.Header.Values("X-Forwarded-Proto"); len(proto) > 0 {
			safe = safe || strings.EqualFold(strings.TrimSpace(proto[len(proto)-1]), "https")
		}
	}
	safe = safe || peer.IsLoopback() && r.Header.Get("X-Forwarded-For") == "" && isLoopback(r.Host)
	return app.Visitor{Address: client.String(), Key: web.KeyOf(client), Agent: r.UserAgent()}, safe
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
